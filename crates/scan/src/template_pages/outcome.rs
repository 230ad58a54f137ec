//! Three-valued logic: yes, no or undecided for every value of a page.
//!
//! The answers are ordered so that AND is the minimum and OR the maximum.

/// The row does not match.
pub(super) const NO: u8 = 0;
/// Undecided: the row's text must be tested.
pub(super) const UNDECIDED: u8 = 1;
/// The row matches.
pub(super) const YES: u8 = 2;

const _: () = assert!(NO < UNDECIDED && UNDECIDED < YES, "AND is the minimum, OR the maximum");
const _: () = assert!(YES - NO == YES && YES - UNDECIDED == UNDECIDED, "NOT leaves undecided as it is");

/// Answers for the values of a page, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All values have this answer.
    Same(u8),
    Each(Vec<u8>),
}

impl Outcome {
    /// Maps codes to answers; a code without an answer becomes [`UNDECIDED`].
    pub(super) fn by_code(codes: &[u32], answers: &[u8]) -> Outcome {
        match answers.split_first() {
            Some((first, rest)) if rest.iter().all(|answer| answer == first) => Outcome::Same(*first),
            _ => Outcome::Each(
                codes.iter().map(|code| answers.get(*code as usize).copied().unwrap_or(UNDECIDED)).collect(),
            ),
        }
    }

    /// Whether all values have this answer.
    pub(super) fn is_all(&self, answer: u8) -> bool {
        *self == Outcome::Same(answer)
    }

    /// Number of undecided answers among `values` answers.
    pub(super) fn count_undecided(&self, values: usize) -> usize {
        match self {
            Outcome::Same(answer) => usize::from(*answer == UNDECIDED) * values,
            Outcome::Each(answers) => answers.iter().filter(|answer| **answer == UNDECIDED).count(),
        }
    }

    /// The answers as a list, one per value.
    pub(super) fn into_each(self, values: usize) -> Vec<u8> {
        match self {
            Outcome::Same(answer) => vec![answer; values],
            Outcome::Each(answers) => {
                assert_eq!(answers.len(), values, "each value has its answer");
                answers
            }
        }
    }

    /// Whether the answer at this position is yes or undecided.
    #[inline]
    pub(super) fn is_possible(&self, place: usize) -> bool {
        match self {
            Outcome::Same(answer) => *answer != NO,
            Outcome::Each(answers) => answers.get(place).is_none_or(|answer| *answer != NO),
        }
    }

    /// Positions whose answer is yes or undecided, with the answer.
    pub(super) fn possible_positions(&self, values: usize) -> Box<dyn Iterator<Item = (usize, u8)> + '_> {
        match self {
            Outcome::Same(NO) => Box::new(std::iter::empty()),
            Outcome::Same(answer) => Box::new((0..values).map(|place| (place, *answer))),
            Outcome::Each(answers) => Box::new(answers.iter().copied().enumerate().filter(|(_, answer)| *answer != NO)),
        }
    }

    /// Conjunction of two outcomes.
    pub(super) fn and(self, other: Outcome) -> Outcome {
        match (self, other) {
            (Outcome::Same(YES), other) | (other, Outcome::Same(YES)) => other,
            (Outcome::Same(NO), _) | (_, Outcome::Same(NO)) => Outcome::Same(NO),
            (a, b) => a.join(b, u8::min),
        }
    }

    /// This outcome with [`NO`] for rows whose answer in `possible` is [`NO`].
    pub(super) fn where_possible(self, possible: Outcome) -> Outcome {
        match possible {
            Outcome::Same(NO) => Outcome::Same(NO),
            Outcome::Same(_) => self,
            Outcome::Each(answers) => {
                self.and(Outcome::Each(answers.into_iter().map(|answer| if answer == NO { NO } else { YES }).collect()))
            }
        }
    }

    /// Disjunction of two outcomes.
    pub(super) fn or(self, other: Outcome) -> Outcome {
        match (self, other) {
            (Outcome::Same(NO), other) | (other, Outcome::Same(NO)) => other,
            (Outcome::Same(YES), _) | (_, Outcome::Same(YES)) => Outcome::Same(YES),
            (a, b) => a.join(b, u8::max),
        }
    }

    /// Negation of the outcome.
    pub(super) fn not(self) -> Outcome {
        match self {
            Outcome::Same(answer) => Outcome::Same(YES - answer),
            Outcome::Each(mut answers) => {
                answers.iter_mut().for_each(|answer| *answer = YES - *answer);
                Outcome::Each(answers)
            }
        }
    }

    fn join(self, other: Outcome, pick: impl Fn(u8, u8) -> u8) -> Outcome {
        match (self, other) {
            (Outcome::Same(a), Outcome::Same(b)) => Outcome::Same(pick(a, b)),
            (Outcome::Each(mut answers), Outcome::Same(b)) | (Outcome::Same(b), Outcome::Each(mut answers)) => {
                answers.iter_mut().for_each(|a| *a = pick(*a, b));
                Outcome::Each(answers)
            }
            (Outcome::Each(mut answers), Outcome::Each(other)) => {
                assert_eq!(answers.len(), other.len(), "both have an outcome for each value");
                answers.iter_mut().zip(other).for_each(|(a, b)| *a = pick(*a, b));
                Outcome::Each(answers)
            }
        }
    }
}
