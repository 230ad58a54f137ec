//! Answers of a condition that depends on one column only.

use super::outcome::YES;

/// The answer for an event, by the event's value in one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ByValue {
    /// One answer for all values.
    Same(u8),
    /// By the number of the value among the values whose occurrences the slab counts; `rest` applies to events without
    /// a value.
    Values { column: u32, answers: Vec<u8>, rest: u8 },
}

impl ByValue {
    pub(super) fn not(self) -> ByValue {
        let not = |answer: u8| YES - answer;
        match self {
            ByValue::Same(answer) => ByValue::Same(not(answer)),
            ByValue::Values { column, answers, rest } => {
                ByValue::Values { column, answers: answers.into_iter().map(not).collect(), rest: not(rest) }
            }
        }
    }

    /// Combines two answers value by value; `None` if they depend on different columns.
    pub(super) fn join(self, other: ByValue, both: fn(u8, u8) -> u8) -> Option<ByValue> {
        Some(match (self, other) {
            (ByValue::Same(a), ByValue::Same(b)) => ByValue::Same(both(a, b)),
            (ByValue::Same(same), ByValue::Values { column, answers, rest })
            | (ByValue::Values { column, answers, rest }, ByValue::Same(same)) => ByValue::Values {
                column,
                answers: answers.into_iter().map(|answer| both(answer, same)).collect(),
                rest: both(rest, same),
            },
            (
                ByValue::Values { column, answers, rest },
                ByValue::Values { column: other_column, answers: others, rest: other_rest },
            ) => {
                if column != other_column || answers.len() != others.len() {
                    return None;
                }
                let answers = answers.into_iter().zip(others).map(|(a, b)| both(a, b)).collect();
                ByValue::Values { column, answers, rest: both(rest, other_rest) }
            }
        })
    }
}
