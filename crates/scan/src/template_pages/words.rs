//! Words, phrases and wildcards evaluated on templates and columns instead of text.
//!
//! A match lies in a literal, in the value of a variable, or across an edge between parts. An index
//! ([`super::template_index`]) shows which templates may contain a word. Literals and dictionary texts are examined
//! once per slab, numbers and plain texts once per page, and only if the bytes of their column allow a match. For
//! matches across edges, the adjacent parts are concatenated ([`spans`]). If unknown bytes precede or follow a
//! possible match, the answer is *undecided*, and the row's text is searched. A yes or no always agrees with the text.
//!
//! A word with letters beyond ASCII is searched for in each of its spellings
//! ([`spellings`](quarry_event::segment::spellings())).
//!
//! A percent-encoded breaker such as `%20` also bounds a word; its `%` lies several bytes before the word. If such a
//! breaker may precede the word, the answer is *undecided*.

mod alignments;
mod finder;
mod point_reads;
mod prefilters;
mod run;
mod spans;

use std::cmp::Ordering;
use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_event::segment::{WordBound, WordPattern, is_breaker, is_major, may_be_inside_percent_major, spellings};
use quarry_event::template::{
    ByteSet, Column, ColumnKind, ColumnValues, CountedValues, Dictionary, NumberFormat, PageColumn, Template,
    TemplateSet, TimeLayout, ValueTraits,
};
use quarry_stdx::number::u32_of;
use quarry_store::Segment;

use self::alignments::Cuts;
use self::finder::Finder;
use self::prefilters::{PrefilterPlanner, is_one_word};
use self::run::Run;
use self::spans::TemplateSpan;
use super::by_value::ByValue;
use super::edges::{EdgeContext, Edges};
use super::facts::{Bounds, WordFacts, byte_set};
use super::outcome::{NO, Outcome, UNDECIDED, YES};
use super::page::PageReader;
use super::template_index::{EdgeUse, TemplateIndex, VariableUse};

/// A byte that no pattern contains and that is not a breaker.
const FOREIGN_BYTE: u8 = 0xff;

/// A word to search for.
#[derive(Clone, Debug)]
pub(super) struct Word {
    /// For each *run* of bytes between wildcards, its spellings. A text with the word contains a spelling of each run.
    runs: Vec<Vec<Probe>>,
    /// Whether the text must always decide, because not all spellings of the word are known.
    opaque: bool,
}

/// A run of bytes without wildcards, in one of its spellings.
#[derive(Clone, Debug)]
struct Probe {
    run: Run,
    /// All breakers.
    breakers: ByteSet,
    /// The breakers that bound a match.
    bounds: Bounds,
    /// Whether the run contains a breaker.
    contains_breaker: bool,
    finder: Finder,
    /// Tests whether the run occurs anywhere in a text.
    occurs: WordPattern,
    /// The complete pattern, if this run is its only run.
    whole_pattern: Option<WholePattern>,
}

#[derive(Clone, Debug)]
struct WholePattern {
    pattern: WordPattern,
    bound: WordBound,
    leading_star: bool,
    trailing_star: bool,
}

/// Evaluation of one probe on a column of a slab.
#[derive(Debug)]
enum ProbePlan {
    /// One answer for all values.
    Same(u8),
    /// An answer for each dictionary code.
    Codes(Vec<u8>),
    /// For numbers: the only number that matches.
    Equals(i64),
    /// For decimals: a number matches if its part before the point is `whole` or its part after the point is
    /// `fraction`.
    Decimals { unit: u64, whole: Option<u64>, fraction: Option<u64> },
    /// An answer for each number from `min` on.
    Numbers { min: i64, answers: Vec<u8> },
    /// Each value is examined.
    Each(EdgeContext),
    /// Answers by template; the values of variables and spans can raise these answers.
    Templates { base: Vec<u8>, children: Vec<ChildPlan>, spans: Vec<TemplateSpan> },
}

#[derive(Debug)]
struct ChildPlan {
    column: u32,
    /// Surroundings of the variable; `None` if its values were examined as part of a span.
    around: Option<EdgeContext>,
    node: ProbePlan,
    /// For each template, whether this variable can raise the template's answer.
    counts: Vec<bool>,
    /// Whether the variable can raise the answers of all templates that contain its column.
    covers: bool,
}

/// Results in a page.
enum PageAnswers {
    /// One answer for all values.
    Same(u8),
    /// Rows whose answer is yes or undecided, ascending.
    Rows(Vec<(u32, u8)>),
}

/// Evaluation of a word in one slab: for each of its runs, the plans of the spellings; `None` if the text is searched.
#[derive(Debug)]
pub(super) struct WordPlan {
    runs: Option<Vec<Vec<ProbePlan>>>,
}

impl Word {
    /// A word as written in the search.
    pub(super) fn new(pattern: &str, bound: WordBound, case_sensitive: bool) -> Word {
        let texts = pattern.split('*').filter(|part| !part.is_empty());
        let is_exact = case_sensitive || pattern.is_ascii();
        let spelled = |text: &str| if is_exact { Some(vec![vec![text.to_owned()]]) } else { spellings(text) };
        let Some(runs) = texts.map(spelled).collect::<Option<Vec<_>>>() else {
            return Word { runs: Vec::new(), opaque: true };
        };
        let runs: Vec<Vec<String>> = runs.into_iter().flatten().collect();
        let alone = runs.len() == 1;
        let (leading_star, trailing_star) = (pattern.starts_with('*'), pattern.ends_with('*'));
        let probe = |text: &String| {
            let stars = [leading_star, trailing_star].map(|star| if star { "*" } else { "" });
            let whole = alone.then(|| WholePattern {
                pattern: spelled_pattern(&format!("{}{text}{}", stars[0], stars[1]), bound, case_sensitive),
                bound,
                leading_star,
                trailing_star,
            });
            Probe::new(text, bound, case_sensitive, whole)
        };
        Word { runs: runs.iter().map(|spellings| spellings.iter().map(probe).collect()).collect(), opaque: false }
    }

    /// Plans the word for a slab.
    pub(super) fn plan(
        &self,
        template_set: &TemplateSet,
        facts: &WordFacts,
        segment: &dyn Segment,
    ) -> Result<WordPlan, EngineError> {
        if self.opaque {
            return Ok(WordPlan { runs: None });
        }
        let around = EdgeContext { left: true, right: true, free: true, free_around: true };
        let plan = |probe: &Probe| Planner { probe, template_set, facts, segment }.column_plan(0, around);
        let runs = self.runs.iter().map(|spellings| spellings.iter().map(plan).collect());
        Ok(WordPlan { runs: Some(runs.collect::<Result<_, _>>()?) })
    }

    /// The answer for every event of a page.
    pub(super) fn run(&self, plan: &WordPlan, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        let Some(plans) = &plan.runs else { return Ok(Outcome::Same(UNDECIDED)) };
        assert_eq!(plans.len(), self.runs.len(), "each run has a plan");
        // A plan without runs belongs to an empty word, which every text contains.
        let mut all = Outcome::Same(YES);
        for (probes, plans) in self.runs.iter().zip(plans) {
            if all.is_all(NO) {
                break;
            }
            assert_eq!(probes.len(), plans.len(), "each spelling has a plan");
            let mut any = Outcome::Same(NO);
            for (probe, plan) in probes.iter().zip(plans) {
                any = any.or(probe.answer(plan, page)?);
            }
            all = all.and(any);
        }
        Ok(all)
    }
}

/// A pattern in which only ASCII letters match in either case, and no letters if `case_sensitive`.
fn spelled_pattern(pattern: &str, bound: WordBound, case_sensitive: bool) -> WordPattern {
    match case_sensitive {
        true => WordPattern::new(pattern, bound, true),
        false => WordPattern::of_spelling(pattern, bound),
    }
}

impl WordPlan {
    /// Whether rows must be tested one by one for matches across edges.
    pub(super) fn reads_spans(&self) -> bool {
        self.runs.iter().flatten().flatten().any(ProbePlan::reads_spans)
    }

    /// The answers by value of one column, if the word depends on that column only.
    pub(super) fn by_value(&self, template_set: &TemplateSet) -> Option<ByValue> {
        match self.runs.as_deref() {
            None => Some(ByValue::Same(UNDECIDED)),
            Some([spellings]) => {
                let mut answers = spellings.iter().map(|node| node.by_value(0, template_set));
                let first = answers.next()??;
                answers.try_fold(first, |known, other| known.join(other?, u8::max))
            }
            Some(_) => None,
        }
    }
}

impl ProbePlan {
    fn from_codes(answers: Vec<u8>) -> ProbePlan {
        match answers.split_first() {
            Some((first, rest)) if rest.iter().all(|answer| answer == first) => ProbePlan::Same(*first),
            _ => ProbePlan::Codes(answers),
        }
    }

    fn reads_spans(&self) -> bool {
        match self {
            ProbePlan::Templates { children, spans, .. } => {
                !spans.is_empty() || children.iter().any(|child| child.node.reads_spans())
            }
            _ => false,
        }
    }

    fn by_value(&self, column: u32, template_set: &TemplateSet) -> Option<ByValue> {
        let by_answers = |answers: Vec<u8>| Some(ByValue::Values { column, answers, rest: NO });
        match self {
            ProbePlan::Same(answer) => Some(ByValue::Same(*answer)),
            ProbePlan::Codes(answers) => by_answers(answers.clone()),
            ProbePlan::Equals(_) | ProbePlan::Decimals { .. } | ProbePlan::Numbers { .. } => {
                match template_set.counts.get(&column)?.values() {
                    CountedValues::Numbers(numbers) => {
                        by_answers(numbers.iter().map(|number| self.test_number(*number)).collect())
                    }
                    CountedValues::Codes(_) => None,
                }
            }
            ProbePlan::Each(_) => None,
            ProbePlan::Templates { spans, .. } if !spans.is_empty() => None,
            ProbePlan::Templates { base, children, .. } => match children.as_slice() {
                [] => by_answers(base.clone()),
                [child] if child.covers && base.iter().all(|answer| *answer == NO) => {
                    child.node.by_value(child.column, template_set)
                }
                _ => None,
            },
        }
    }

    /// The answer for a number, if it does not depend on how the number is written.
    fn test_number(&self, number: i64) -> u8 {
        let is_met = match self {
            ProbePlan::Equals(wanted) => number == *wanted,
            ProbePlan::Decimals { unit, whole, fraction } => {
                let magnitude = number.unsigned_abs();
                *whole == Some(magnitude / unit) || *fraction == Some(magnitude % unit)
            }
            ProbePlan::Numbers { min, answers } => {
                let at = usize::try_from(number.saturating_sub(*min)).ok();
                return at.and_then(|at| answers.get(at)).copied().unwrap_or(UNDECIDED);
            }
            _ => return UNDECIDED,
        };
        if is_met { YES } else { NO }
    }
}

impl Probe {
    fn new(text: &str, bound: WordBound, case_sensitive: bool, whole_pattern: Option<WholePattern>) -> Probe {
        let fold = !case_sensitive;
        Probe {
            run: Run { needle: text.as_bytes().into(), fold },
            finder: Finder::new(text.as_bytes(), fold),
            breakers: byte_set(is_breaker),
            bounds: if bound == WordBound::Major { Bounds::MajorBreakers } else { Bounds::Breakers },
            contains_breaker: text.bytes().any(is_breaker),
            occurs: spelled_pattern(&format!("*{text}*"), WordBound::Whole, case_sensitive),
            whole_pattern,
        }
    }

    /// The answer for every event of a page.
    fn answer(&self, plan: &ProbePlan, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        Ok(match self.run(plan, 0, page)? {
            PageAnswers::Same(answer) => Outcome::Same(answer),
            PageAnswers::Rows(rows) if rows.is_empty() => Outcome::Same(NO),
            PageAnswers::Rows(rows) => {
                let mut each = vec![NO; page.len()];
                rows.into_iter().for_each(|(row, answer)| each[row as usize] = answer);
                Outcome::Each(each)
            }
        })
    }

    /// Whether a value with these traits can contain the run.
    fn may_occur_in(&self, traits: &ValueTraits) -> bool {
        self.run.needle.len() <= traits.max_len as usize
            && self.run.needle.iter().all(|byte| self.run.matches_set(*byte, traits.bytes))
    }

    /// Whether a time of this layout may contain the run; if `bounded`, only as a word. Times of one layout differ
    /// only in their digits and letters.
    fn may_occur_in_time(&self, layout: TimeLayout, bounded: bool) -> bool {
        let mut sample = Vec::new();
        NumberFormat::Time(layout).write(0, &mut sample);
        let is_alike = |(byte, mine): (&u8, &u8)| match byte {
            byte if byte.is_ascii_digit() => mine.is_ascii_digit(),
            byte if byte.is_ascii_alphabetic() => mine.is_ascii_alphabetic(),
            byte => byte == mine,
        };
        let (starts, ends) = match &self.whole_pattern {
            Some(whole) if bounded => (!whole.leading_star, !whole.trailing_star),
            _ => (false, false),
        };
        // A match is bounded by the bytes next to it or by its own first or last byte. Any byte may precede or follow
        // the time.
        let is_edge = |at: usize| {
            let [before, after] = [at.checked_sub(1), Some(at)].map(|at| at.and_then(|at| sample.get(at)));
            before.zip(after).is_none_or(|(before, after)| is_breaker(*before) || is_breaker(*after))
        };
        let mut places = 0..(sample.len() + 1).saturating_sub(self.run.needle.len());
        places.any(|place| {
            sample[place..].iter().zip(&self.run.needle).all(is_alike)
                && (!starts || is_edge(place))
                && (!ends || is_edge(place + self.run.needle.len()))
        })
    }

    /// Whether a match of the run can cross such an edge.
    fn may_cross(&self, edge: &EdgeUse) -> bool {
        let is_met =
            |pair: &[u8]| self.run.matches_set(pair[0], edge.before) && self.run.matches_set(pair[1], edge.after);
        (self.contains_breaker || edge.is_open) && self.run.needle.windows(2).any(is_met)
    }

    /// Whether the run cannot match although its bytes occur. Values with these traits contain no breakers, so a match
    /// must begin and end where the value does (except at a wildcard); this is impossible if the first or last byte of
    /// the run does not fit, or if the run is too short.
    fn is_too_short(&self, traits: &ValueTraits) -> bool {
        let Some(WholePattern { leading_star, trailing_star, .. }) = &self.whole_pattern else { return false };
        let (Some(first), Some(last)) = (self.run.needle.first(), self.run.needle.last()) else { return false };
        let one_word = !traits.bytes.intersects(self.breakers);
        one_word
            && ((!leading_star && !self.run.matches_set(*first, traits.firsts))
                || (!trailing_star && !self.run.matches_set(*last, traits.lasts))
                || (!leading_star && !trailing_star && self.run.needle.len() < traits.min_len as usize))
    }

    /// Indices of the texts in which an occurrence begins, ascending and without repetition. The texts are
    /// concatenated in `bytes` and end at `ends`; they are searched in one pass, so an occurrence may extend into the
    /// next text.
    fn matching_texts<'a>(&'a self, bytes: &'a [u8], ends: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
        // The index after the last text returned.
        let mut next = 0;
        self.finder.positions(bytes).filter_map(move |at| {
            if next > 0 && at < ends[next - 1] as usize {
                return None;
            }
            let text = next + ends[next..].partition_point(|end| *end as usize <= at);
            next = (text + 1).min(ends.len());
            (text < ends.len()).then_some(text)
        })
    }

    /// The answer for a text with surroundings `around`; `scratch` is a reusable buffer.
    fn test_text(&self, text: &[u8], around: EdgeContext, scratch: &mut Vec<u8>) -> u8 {
        if text.len() < self.run.needle.len() || !self.occurs.is_match(text) {
            return NO;
        }
        let Some(whole) = &self.whole_pattern else { return UNDECIDED };
        if whole.leading_star && whole.trailing_star {
            return YES;
        }
        if !around.free {
            return if self.matches_anywhere(whole, text, around) { YES } else { UNDECIDED };
        }
        let is_sure = if around.left && around.right {
            whole.pattern.is_match(text)
        } else {
            scratch.clear();
            scratch.extend((!around.left).then_some(FOREIGN_BYTE));
            scratch.extend_from_slice(text);
            scratch.extend((!around.right).then_some(FOREIGN_BYTE));
            whole.pattern.is_match(scratch)
        };
        if is_sure {
            return YES;
        }
        // Depending on the bytes around the value, its ends may bound a match.
        let open =
            whole.bound != WordBound::Breaker || (!(around.left && around.right) && whole.pattern.is_match(text));
        if open { UNDECIDED } else { NO }
    }

    /// Whether the run matches in the text with every possible byte before and after the text: a breaker bounds the
    /// match, and no percent-encoded breaker can contain its ends.
    fn matches_anywhere(&self, whole: &WholePattern, text: &[u8], around: EdgeContext) -> bool {
        let is_next_to = |at: usize, bounds: fn(u8) -> bool| match (at.checked_sub(1), text.get(at)) {
            (None, _) => around.left,
            (_, None) => around.right,
            (Some(before), Some(after)) => bounds(text[before]) || bounds(*after),
        };
        let is_bound = |at: usize| match whole.bound {
            WordBound::Breaker => {
                is_next_to(at, is_breaker) && !may_be_inside_percent_major(text, at, around.free_around)
            }
            WordBound::Major => is_next_to(at, is_major),
            WordBound::Whole => false,
        };
        let mut places = self.finder.positions(text);
        places.any(|start| {
            (whole.leading_star || is_bound(start)) && (whole.trailing_star || is_bound(start + self.run.needle.len()))
        })
    }

    fn run(&self, node: &ProbePlan, column: u32, page: &mut PageReader<'_>) -> Result<PageAnswers, EngineError> {
        let (base, children, spans) = match node {
            ProbePlan::Same(answer) => return Ok(PageAnswers::Same(*answer)),
            ProbePlan::Templates { base, children, spans } => (base, children, spans),
            _ => {
                let values = page.column(column)?;
                return Ok(self.test_values(node, &page.template_set().columns[column as usize].kind, &values));
            }
        };
        // The template codes are not read if the answer depends on variables only.
        let needs_codes = base.iter().any(|answer| *answer != NO);
        let mut all =
            if needs_codes { self.run(&ProbePlan::Codes(base.clone()), column, page)? } else { PageAnswers::Same(NO) };
        for child in children {
            let of_child = match self.run(&child.node, child.column, page)? {
                PageAnswers::Same(NO) => continue,
                PageAnswers::Rows(rows) => rows,
                PageAnswers::Same(answer) => {
                    let values = page.column(child.column)?;
                    (0..values.values.len()).map(|place| (values.row_at(place), answer)).collect()
                }
            };
            let of_child = if child.covers { of_child } else { counted_rows(child, column, of_child, page)? };
            all = match all {
                PageAnswers::Rows(rows) => PageAnswers::Rows(merge_answers(rows, of_child)),
                PageAnswers::Same(NO) => PageAnswers::Rows(of_child),
                same => same,
            };
        }
        for span in spans {
            let of_span = self.test_span(span, column, page)?;
            all = match all {
                PageAnswers::Rows(rows) => PageAnswers::Rows(merge_answers(rows, of_span)),
                PageAnswers::Same(NO) => PageAnswers::Rows(of_span),
                same => same,
            };
        }
        Ok(all)
    }

    /// The answers for values of a column of this kind. `node` is not the plan of a template column.
    fn test_values(&self, node: &ProbePlan, kind: &ColumnKind, values: &PageColumn) -> PageAnswers {
        match (node, &values.values) {
            (ProbePlan::Codes(answers), ColumnValues::Codes(codes)) => page_answers_by_code(values, codes, answers),
            (
                ProbePlan::Equals(_) | ProbePlan::Decimals { .. } | ProbePlan::Numbers { .. },
                ColumnValues::Numbers(numbers),
            ) => page_answers(values, numbers.iter().map(|number| node.test_number(*number))),
            (ProbePlan::Each(around), _) => self.test_each_value(*around, kind, values),
            _ => PageAnswers::Same(UNDECIDED),
        }
    }

    /// Examines every value.
    fn test_each_value(&self, around: EdgeContext, kind: &ColumnKind, values: &PageColumn) -> PageAnswers {
        let mut scratch = Vec::new();
        match (&values.values, kind) {
            (ColumnValues::Numbers(numbers), ColumnKind::Numbers { format, .. }) => {
                let (mut text, mut last) = (Vec::new(), None);
                let answers = numbers.iter().map(|number| match last {
                    // Times often repeat.
                    Some((known, answer)) if known == *number => answer,
                    _ => {
                        text.clear();
                        format.write(*number, &mut text);
                        let answer = self.test_text(&text, around, &mut scratch);
                        last = Some((*number, answer));
                        answer
                    }
                });
                page_answers(values, answers)
            }
            (ColumnValues::Texts { bytes, ends }, _) => {
                let text = |place: usize| {
                    let start = if place == 0 { 0 } else { ends[place - 1] as usize };
                    &bytes[start..ends[place] as usize]
                };
                let answers = self
                    .matching_texts(bytes, ends)
                    .map(|place| (values.row_at(place), self.test_text(text(place), around, &mut scratch)));
                PageAnswers::Rows(answers.filter(|(_, answer)| *answer != NO).collect())
            }
            _ => PageAnswers::Same(UNDECIDED),
        }
    }
}

/// Whether the text contains a letter that occurs in no number, not even in a hexadecimal number.
pub(super) fn has_non_hex_letter(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte | 0x20, b'g'..=b'z'))
}

fn answer_of(answers: &[u8], code: u32) -> u8 {
    answers.get(code as usize).copied().unwrap_or(UNDECIDED)
}

fn page_answers(values: &PageColumn, answers: impl Iterator<Item = u8>) -> PageAnswers {
    let found = answers.enumerate().filter(|(_, answer)| *answer != NO);
    PageAnswers::Rows(found.map(|(place, answer)| (values.row_at(place), answer)).collect())
}

/// The rows whose code has an answer other than no.
fn page_answers_by_code(values: &PageColumn, codes: &[u32], answers: &[u8]) -> PageAnswers {
    // The loop over all codes has no branches; few rows remain after it.
    let each: Vec<u8> = codes.iter().map(|code| answer_of(answers, *code)).collect();
    let sure = memchr::memchr2_iter(YES, UNDECIDED, &each);
    PageAnswers::Rows(sure.map(|place| (values.row_at(place), each[place])).collect())
}

/// The rows in which the variable counts, judging by their templates.
fn counted_rows(
    child: &ChildPlan,
    parent: u32,
    mut rows: Vec<(u32, u8)>,
    page: &mut PageReader<'_>,
) -> Result<Vec<(u32, u8)>, EngineError> {
    if rows.is_empty() {
        return Ok(rows);
    }
    let values = page.column(parent)?;
    if let ColumnValues::Codes(codes) = &values.values {
        rows.retain(|(row, _)| {
            let code = values.value_index(*row).and_then(|place| codes.get(place));
            code.is_some_and(|code| child.counts.get(*code as usize).copied().unwrap_or(true))
        });
    }
    Ok(rows)
}

/// The larger answer for each row; both lists are in the order of the rows.
fn merge_answers(a: Vec<(u32, u8)>, b: Vec<(u32, u8)>) -> Vec<(u32, u8)> {
    if a.is_empty() || b.is_empty() {
        return if a.is_empty() { b } else { a };
    }
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    while let (Some((of_a, one)), Some((of_b, other))) = (a.peek().copied(), b.peek().copied()) {
        match of_a.cmp(&of_b) {
            Ordering::Less => merged.extend(a.next()),
            Ordering::Greater => merged.extend(b.next()),
            Ordering::Equal => {
                merged.push((of_a, one.max(other)));
                a.next();
                b.next();
            }
        }
    }
    merged.extend(a.chain(b));
    debug_assert!(merged.is_sorted_by(|before, after| before.0 < after.0), "each row has one answer");
    merged
}

/// Plans one probe for the columns of a slab.
struct Planner<'a> {
    probe: &'a Probe,
    template_set: &'a TemplateSet,
    facts: &'a WordFacts,
    segment: &'a dyn Segment,
}

impl Planner<'_> {
    /// The plan for a column with these surroundings.
    fn column_plan(&self, column: u32, around: EdgeContext) -> Result<ProbePlan, EngineError> {
        let Some(Column { kind, traits, .. }) = self.template_set.columns.get(column as usize) else {
            return Ok(ProbePlan::Same(UNDECIDED));
        };
        if !self.probe.may_occur_in(traits) || (around.free && self.probe.is_too_short(traits)) {
            return Ok(ProbePlan::Same(NO));
        }
        let around = EdgeContext {
            free: around.free && self.facts.columns_without_encoded_breakers()[column as usize],
            ..around
        };
        match kind {
            ColumnKind::Templates(templates) => self.template_plan(column, templates, around),
            ColumnKind::Dictionary { .. } => {
                Ok(ProbePlan::from_codes(self.dictionary_answers(&*self.segment.dictionary(column)?, around)))
            }
            ColumnKind::Numbers { format, min, .. } => Ok(self.number_plan(*format, *min, around)),
            ColumnKind::Texts => Ok(ProbePlan::Each(around)),
        }
    }

    /// The answer for each text of a dictionary.
    fn dictionary_answers(&self, texts: &Dictionary, around: EdgeContext) -> Vec<u8> {
        let (mut answers, mut scratch) = (vec![NO; texts.len()], Vec::new());
        for text in self.probe.matching_texts(&texts.bytes, &texts.ends) {
            answers[text] = self.probe.test_text(texts.get(u32_of(text)), around, &mut scratch);
        }
        answers
    }

    /// Digits are searched for in numbers without formatting the numbers, if numbers contain no byte that bounds a
    /// word.
    fn number_plan(&self, format: NumberFormat, min: i64, around: EdgeContext) -> ProbePlan {
        let needle = &self.probe.run.needle;
        let is_word = self
            .probe
            .whole_pattern
            .as_ref()
            .is_some_and(|whole| whole.bound == WordBound::Breaker && !whole.leading_star && !whole.trailing_star);
        if let NumberFormat::Time(layout) = format
            && !self.probe.may_occur_in_time(layout, is_word && around.free)
        {
            return ProbePlan::Same(NO);
        }
        // The parts of an address between its points are no longer than `255`.
        if format == NumberFormat::Ip4 && needle.len() > "255".len() && !needle.contains(&b'.') {
            return ProbePlan::Same(NO);
        }
        if !(is_word && around.left && around.right && around.free) {
            return ProbePlan::Each(around);
        }
        if let NumberFormat::Decimal { digits } | NumberFormat::Shortest { digits } = format
            && needle.iter().all(u8::is_ascii_digit)
        {
            return decimal_plan(needle, format, digits);
        }
        // A full address can only match a whole value.
        let is_address = format == NumberFormat::Ip4 && format.parse(needle).is_some();
        if !is_address && !is_one_word(format, min) {
            return ProbePlan::Each(around);
        }
        format.parse(&self.probe.run.as_number(needle)).map_or(ProbePlan::Same(NO), ProbePlan::Equals)
    }

    fn template_plan(
        &self,
        column: u32,
        templates: &[Template],
        around: EdgeContext,
    ) -> Result<ProbePlan, EngineError> {
        let index = self.facts.index(column);
        let mut base = vec![NO; templates.len()];
        self.answer_by_literals(index, around, &mut base);
        let spans = self.template_spans(column, templates, around, &mut base);
        let mut children = self.child_plans(index, around, &mut base)?;
        let mut spans = self.spans_by_row(spans, &mut base, &mut children)?;
        // Variables and spans of templates whose answer is already yes need no lookup.
        children.retain_mut(|child| {
            child.counts.iter_mut().zip(&base).for_each(|(counts, answer)| *counts &= *answer != YES);
            child.counts.contains(&true)
        });
        spans.retain_mut(|span| span.retain(|number| base[number] != YES));
        for child in &mut children {
            let counted = child.counts.iter().filter(|counts| **counts).count();
            assert!(counted <= index.template_count(child.column), "only templates that contain a column count for it");
            child.covers = counted == index.template_count(child.column);
        }
        Ok(match base.first() {
            Some(first) if children.is_empty() && spans.is_empty() && base.iter().all(|answer| answer == first) => {
                ProbePlan::Same(*first)
            }
            _ => ProbePlan::Templates { base, children, spans },
        })
    }

    /// Raises the answers of the templates whose literals contain the word.
    fn answer_by_literals(&self, index: &TemplateIndex, around: EdgeContext, base: &mut [u8]) {
        let mut scratch = Vec::new();
        let (literals, ends) = index.literals();
        for literal in self.probe.matching_texts(literals, ends) {
            for used in index.uses_of(literal) {
                let inside = used.surroundings.context(around, self.probe.bounds);
                let answer = self.probe.test_text(index.literal(literal), inside, &mut scratch);
                raise_answers(base, &used.templates, answer);
            }
        }
    }

    /// The distinct spans of all templates. A template with too many variables in its spans becomes undecided.
    fn template_spans(
        &self,
        column: u32,
        templates: &[Template],
        around: EdgeContext,
        base: &mut [u8],
    ) -> Vec<TemplateSpan> {
        let mut may_cross = vec![false; templates.len()];
        for edge in self.facts.index(column).edges().iter().filter(|edge| self.probe.may_cross(edge)) {
            edge.templates.iter().for_each(|number| may_cross[*number as usize] = true);
        }
        let mut all: Vec<TemplateSpan> = Vec::new();
        let crosses = may_cross.contains(&true);
        let mut cuts = if crosses { Cuts::new(&self.probe.run, self.template_set.columns.len()) } else { None };
        for (number, template) in templates.iter().enumerate().filter(|(number, _)| may_cross[*number]) {
            let edges = Edges {
                template_set: self.template_set,
                parts: &template.parts,
                around,
                free: self.facts.columns_without_encoded_breakers(),
            };
            let Some(spans) = self.spans(template, (&edges, self.facts.parts(column, number)), cuts.as_mut()) else {
                base[number] = base[number].max(UNDECIDED);
                continue;
            };
            for span in spans.into_iter().filter(|_| base[number] != YES) {
                if !all.iter_mut().any(|known| known.try_add_template(&span, number)) {
                    all.push(TemplateSpan::new(span, number, templates.len()));
                }
            }
        }
        all
    }

    /// The variables whose values can raise an answer. If all values of a variable have the same answer, the answers
    /// of its templates are raised together.
    fn child_plans(
        &self,
        index: &TemplateIndex,
        around: EdgeContext,
        base: &mut [u8],
    ) -> Result<Vec<ChildPlan>, EngineError> {
        let mut known: Vec<ChildPlan> = Vec::new();
        for VariableUse { column, surroundings, templates } in index.variables() {
            if templates.iter().all(|number| base[*number as usize] == YES) {
                continue;
            }
            let inside = surroundings.context(around, self.probe.bounds);
            let is_it = |child: &ChildPlan| (child.column, child.around) == (*column, Some(inside));
            let place = match known.iter().position(is_it) {
                Some(place) => place,
                None => match self.column_plan(*column, inside)? {
                    ProbePlan::Same(same) => {
                        raise_answers(base, templates, same);
                        continue;
                    }
                    node => {
                        let counts = vec![false; base.len()];
                        known.push(ChildPlan { column: *column, around: Some(inside), node, counts, covers: false });
                        known.len() - 1
                    }
                },
            };
            templates.iter().for_each(|number| known[place].counts[*number as usize] = true);
        }
        Ok(known)
    }

    /// A planner for tests of the codes and numbers of spans.
    fn prefilter_planner(&self) -> PrefilterPlanner<'_> {
        // A match can begin or end inside a word only if the pattern has a wildcard there.
        let whole = self.probe.whole_pattern.as_ref().filter(|whole| whole.bound == WordBound::Breaker);
        let (begins, ends) = whole.map_or((false, false), |whole| (!whole.leading_star, !whole.trailing_star));
        let Planner { template_set, segment, .. } = *self;
        let free = self.facts.columns_without_encoded_breakers();
        PrefilterPlanner::new(&self.probe.run, (begins, ends), (template_set, segment, free))
    }

    /// The spans that are examined row by row; the answers of other spans are assigned to templates or to values.
    fn spans_by_row(
        &self,
        all: Vec<TemplateSpan>,
        base: &mut [u8],
        children: &mut Vec<ChildPlan>,
    ) -> Result<Vec<TemplateSpan>, EngineError> {
        let mut by_row = Vec::with_capacity(all.len());
        let mut planner = self.prefilter_planner();
        for mut span in all {
            match self.by_value(span.span())? {
                Some((_, ProbePlan::Same(same))) => {
                    let answers = base.iter_mut().zip(span.counting_templates()).filter(|(_, counts)| **counts);
                    answers.for_each(|(answer, _)| *answer = (*answer).max(same));
                }
                Some((column, node)) => {
                    children.push(ChildPlan {
                        column,
                        around: None,
                        node,
                        counts: span.counting_templates().to_vec(),
                        covers: false,
                    });
                }
                None => {
                    if span.plan_prefilters(&mut planner)? {
                        by_row.push(span);
                    }
                }
            }
        }
        Ok(by_row)
    }
}

/// Raises the answers of some templates.
fn raise_answers(base: &mut [u8], templates: &[u32], answer: u8) {
    for number in templates.iter().filter(|_| answer != NO) {
        let base = &mut base[*number as usize];
        *base = (*base).max(answer);
    }
}

/// The plan for a word of digits only, on decimals of this format, stored with this number of places.
fn decimal_plan(needle: &[u8], format: NumberFormat, digits: u8) -> ProbePlan {
    let whole = NumberFormat::Integer.parse(needle).and_then(|number| u64::try_from(number).ok());
    match (whole, format.parse_fraction(needle)) {
        (None, None) => ProbePlan::Same(NO),
        (whole, fraction) => ProbePlan::Decimals { unit: 10u64.pow(u32::from(digits)), whole, fraction },
    }
}

/// A plan shared by the workers that read one slab.
pub(super) type SharedPlan = Arc<WordPlan>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_yielded_once_each_if_a_match_begins_in_them() {
        let texts = ["abc", "", "ABCabc abc", "", "xab", "ab", "c", "abd", "bc abc"];
        let ends: Vec<u32> = texts
            .iter()
            .scan(0, |end, text| Some(std::mem::replace(end, *end + u32_of(text.len())) + u32_of(text.len())))
            .collect();
        let told = |word: &str, case_sensitive: bool, texts: &str, ends: &[u32]| -> Vec<usize> {
            let word = Word::new(word, WordBound::Breaker, case_sensitive);
            word.runs[0][0].matching_texts(texts.as_bytes(), ends).collect()
        };
        // An occurrence begins in "ab" and ends in the next text.
        assert_eq!(told("abc", false, &texts.concat(), &ends), [0, 2, 5, 8]);
        assert_eq!(told("ABC", true, &texts.concat(), &ends), [2]);
        assert_eq!(told("x", false, &texts.concat(), &ends), [4]);
        assert_eq!(told("q", false, &texts.concat(), &ends), [0; 0]);
        assert_eq!(told("abc", false, "", &[]), [0; 0]);
        assert_eq!(told("abc", false, "", &[0, 0]), [0; 0]);
    }

    #[test]
    fn a_percent_sign_hides_a_word_only_if_it_may_begin_an_encoded_breaker() {
        let around = |left, right| EdgeContext { left, right, free: false, free_around: false };
        let told = |word: &str, text: &str, around| {
            let word = Word::new(word, WordBound::Breaker, false);
            word.runs[0][0].test_text(text.as_bytes(), around, &mut Vec::new())
        };
        for word in ["asa", "%asa", "asa-6", "6-305011"] {
            assert_eq!(told(word, "%ASA-6-305011:", around(true, true)), YES, "{word}");
        }
        assert_eq!(told("%asa", "%ASA-6-305011:", around(false, true)), UNDECIDED);
        assert_eq!(told("acc", "%20acc-", around(true, true)), UNDECIDED, "a code may bound the match");
        assert_eq!(told("acc", "0 0acc-", around(true, true)), UNDECIDED, "no bound");
        assert_eq!(told("acc", "acc-", around(true, true)), UNDECIDED, "the first byte may end a code");
        let is_free_around = EdgeContext { free_around: true, ..around(true, true) };
        assert_eq!(told("acc", "acc-", is_free_around), YES);
        assert_eq!(told("asa", "%BSA", around(true, true)), NO);
    }

    #[test]
    fn times_may_contain_their_parts_but_not_addresses() {
        let iso = |digits, zulu| TimeLayout::Iso { between: b'T', point: b'.', digits, zulu };
        let layouts = [TimeLayout::Common, TimeLayout::Clock, iso(0, false), iso(3, true), iso(6, false), iso(9, true)];
        let fits =
            |text: &str, layout| Word::new(text, WordBound::Breaker, false).runs[0][0].may_occur_in_time(layout, false);
        for layout in layouts {
            for time in [0, 1_795_392_123_123_456_789, -86_400_000_000_001] {
                let mut text = Vec::new();
                NumberFormat::Time(layout).write(time, &mut text);
                let text = String::from_utf8(text).unwrap();
                for (start, end) in
                    (0..text.len()).flat_map(|start| (start + 1..=text.len()).map(move |end| (start, end)))
                {
                    assert!(fits(&text[start..end], layout), "{layout:?}: {}", &text[start..end]);
                    assert!(fits(&text[start..end].to_lowercase(), layout), "{layout:?}: {}", &text[start..end]);
                }
                assert!(!fits(&format!("{text}0"), layout));
            }
            for other in ["167.53.205.102", "190c48feb00422ed", "12345678901"] {
                assert!(!fits(other, layout), "{layout:?}: {other}");
            }
        }
    }
}
