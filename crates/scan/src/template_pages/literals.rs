//! Prefilter of patterns: literals that every match contains are searched for in all values of a page at once.
//!
//! Running a pattern on the free text of every row costs far more than searching the values of a page, which are
//! contiguous, for a literal such as `ticket `. If a row's window (the part of its text in which the pattern may match)
//! cannot contain such a literal, the row has no match. If a literal may span two parts of the window, the start or end
//! of the row's value is checked.
//!
//! Not here: determining the literals ([`quarry_eval::pattern::Regex::required_literals`]); running the pattern
//! ([`super::rex`]).

use std::sync::Arc;

use memchr::memmem::{self, Finder};
use quarry_eval::EngineError;
use quarry_eval::pattern::Regex;
use quarry_eval::pattern::template_match::{FlatPart, FlatTemplate, Window};
use quarry_event::template::{ColumnKind, ColumnValues, PageColumn, TemplateSet, ValueTraits};

use super::cursors::Cursors;
use super::page::PageReader;

/// Minimum number of rows of a page for which searching all of its values pays off.
const PAGE_ROWS_MIN: usize = 256;
/// Number of searched rows after which a literal that excluded fewer than one in [`USEFUL_EXCLUSION_DIVISOR`] of them
/// is abandoned.
const SAMPLE_ROWS: u32 = 1024;
const USEFUL_EXCLUSION_DIVISOR: u32 = 16;
/// Number of values that a search passes one by one before it skips ahead.
const LINEAR_STEPS_MAX: usize = 8;

/// The literals of a pattern.
pub(super) struct RequiredLiterals(Vec<Finder<'static>>);

impl RequiredLiterals {
    pub(super) fn of(regex: &Regex) -> RequiredLiterals {
        RequiredLiterals(regex.required_literals().iter().map(|literal| Finder::new(&**literal).into_owned()).collect())
    }
}

/// Possible positions of a pattern's literals in one window.
pub(super) struct LiteralSites(Vec<LiteralSite>);

/// Possible positions of one literal in columns of free texts.
#[derive(Default)]
struct LiteralSite {
    literal: usize,
    columns: Vec<SiteColumn>,
    /// Number of rows in which the literal was searched for.
    searched_rows: u32,
    excluded_rows: u32,
}

/// A column whose values may contain a literal or a part of it.
struct SiteColumn {
    search: ValueSearch,
    /// Number of the page that `found` belongs to.
    page: u64,
    /// The values of that page in which the search succeeds; `None` if there are none.
    found: Option<Arc<Hits>>,
}

/// A search for a literal, and for parts of it at the ends, in the values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ValueSearch {
    column: u32,
    literal: usize,
    /// Whether a value may contain the whole literal.
    inside: bool,
    /// Numbers of bytes of the literal that may precede a value, which then begins with the rest of the literal.
    starts: Vec<usize>,
    /// Numbers of bytes of the literal with which a value may end.
    ends: Vec<usize>,
}

impl ValueSearch {
    /// A search that finds nothing.
    fn new(column: u32, literal: usize) -> ValueSearch {
        ValueSearch { column, literal, inside: false, starts: Vec::new(), ends: Vec::new() }
    }
}

impl LiteralSite {
    /// Whether searching for the literal has not paid off: nearly all rows that contain the earlier literals contain
    /// this literal too.
    fn is_ineffective(&self) -> bool {
        self.searched_rows >= SAMPLE_ROWS && self.excluded_rows < self.searched_rows / USEFUL_EXCLUSION_DIVISOR
    }

    /// The search in a column, which is added if it is new.
    fn search_in(&mut self, column: u32) -> &mut ValueSearch {
        let known = self.columns.iter().position(|known| known.search.column == column);
        let at = known.unwrap_or_else(|| {
            self.columns.push(SiteColumn { search: ValueSearch::new(column, self.literal), page: 0, found: None });
            self.columns.len() - 1
        });
        &mut self.columns[at].search
    }

    /// Whether the literal may be in the window of this row.
    #[inline]
    fn may_be_in(
        &mut self,
        row: u32,
        literals: &RequiredLiterals,
        hits: &mut PageHits,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<bool, EngineError> {
        for SiteColumn { search, page: known, found } in &mut self.columns {
            if *known != hits.page {
                *found = hits.of(search, literals, page)?;
                *known = hits.page;
            }
            // In most pages, no value contains a rare literal. The positions of the rows' values are not needed then.
            let Some(found) = found else { continue };
            match cursors.value_position(search.column, row, page)? {
                Some((place, _)) if !found.is_set(place) => {}
                _ => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// A part of a window's text.
enum WindowPiece<'a> {
    /// The same bytes in every row.
    Fixed(Vec<u8>),
    /// A value of this column of free texts.
    Text(u32),
    /// Another value.
    Other(&'a ValueTraits),
}

impl LiteralSites {
    /// The positions of the literals; `None` if the literals exclude nothing.
    pub(super) fn of(
        literals: &RequiredLiterals,
        window: &Window,
        template: &FlatTemplate,
        template_set: &TemplateSet,
    ) -> Option<LiteralSites> {
        let pieces = pieces_of(window, template, template_set)?;
        let literals = literals.0.iter().enumerate();
        let sites = literals.filter_map(|(number, literal)| site_of(number, literal.needle(), &pieces));
        Some(LiteralSites(sites.collect())).filter(|sites| !sites.0.is_empty())
    }

    /// Whether the window of this row may have a match. `hits` belong to the row's page.
    pub(super) fn may_match(
        &mut self,
        row: u32,
        literals: &RequiredLiterals,
        hits: &mut PageHits,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<bool, EngineError> {
        for site in self.0.iter_mut().filter(|site| !site.is_ineffective()) {
            site.searched_rows = site.searched_rows.saturating_add(1);
            if !site.may_be_in(row, literals, hits, cursors, page)? {
                site.excluded_rows = site.excluded_rows.saturating_add(1);
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The text of a window in pieces; `None` if one of its parts is not known.
fn pieces_of<'a>(
    window: &Window,
    template: &'a FlatTemplate,
    template_set: &TemplateSet,
) -> Option<Vec<WindowPiece<'a>>> {
    let mut pieces: Vec<WindowPiece<'a>> = Vec::new();
    let fixed = |pieces: &mut Vec<WindowPiece<'a>>, bytes: &[u8]| match pieces.last_mut() {
        Some(WindowPiece::Fixed(last)) => last.extend_from_slice(bytes),
        _ => pieces.push(WindowPiece::Fixed(bytes.to_vec())),
    };
    for part in window.context.part..=window.end.part {
        let first = if part == window.context.part { window.context.offset } else { 0 };
        match template.parts().get(part) {
            Some(FlatPart::Literal(bytes)) => {
                let last = if part == window.end.part { window.end.offset } else { bytes.len() };
                fixed(&mut pieces, bytes.get(first..last).unwrap_or_default());
            }
            Some(FlatPart::Variable(column, traits)) if part < window.end.part => {
                match window.fillers.iter().find(|(known, _)| *known == part) {
                    Some((_, filler)) => fixed(&mut pieces, filler.as_bytes()),
                    None => pieces.push(match template_set.columns.get(*column as usize)?.kind {
                        ColumnKind::Texts => WindowPiece::Text(*column),
                        _ => WindowPiece::Other(traits),
                    }),
                }
            }
            _ => {}
        }
    }
    Some(pieces)
}

/// Possible positions of a literal; `None` if every row contains it, or if values other than free texts decide whether
/// a row does.
fn site_of(number: usize, literal: &[u8], pieces: &[WindowPiece<'_>]) -> Option<LiteralSite> {
    debug_assert!(!literal.is_empty(), "an empty literal matches everywhere");
    let mut site = LiteralSite { literal: number, ..LiteralSite::default() };
    for (at, piece) in pieces.iter().enumerate() {
        let following = &pieces[at + 1..];
        match piece {
            WindowPiece::Fixed(bytes) if memmem::find(bytes, literal).is_some() => return None,
            WindowPiece::Fixed(_) => {}
            WindowPiece::Text(column) => site.search_in(*column).inside = true,
            WindowPiece::Other(traits) if may_contain(traits, literal) => return None,
            WindowPiece::Other(_) => {}
        }
        for cut in 1..literal.len() {
            let (head, tail) = literal.split_at(cut);
            if !may_continue_with(following, tail) {
                continue;
            }
            match (piece, following.first()) {
                (WindowPiece::Text(column), _) => site.search_in(*column).ends.push(cut),
                (WindowPiece::Fixed(bytes), _) if !bytes.ends_with(head) => {}
                (WindowPiece::Fixed(_), Some(WindowPiece::Text(column))) => site.search_in(*column).starts.push(cut),
                (WindowPiece::Fixed(_), _) => return None,
                (WindowPiece::Other(traits), _) if may_contain(traits, head) => return None,
                (WindowPiece::Other(_), _) => {}
            }
        }
    }
    Some(site)
}

/// Whether a value may contain these bytes.
fn may_contain(traits: &ValueTraits, bytes: &[u8]) -> bool {
    bytes.len() <= traits.max_len as usize && bytes.iter().all(|byte| traits.bytes.contains(*byte))
}

/// Whether these pieces may begin with the rest of a literal.
fn may_continue_with(pieces: &[WindowPiece<'_>], rest: &[u8]) -> bool {
    match pieces.split_first() {
        None => false,
        Some((WindowPiece::Fixed(bytes), _)) if bytes.len() >= rest.len() => bytes.starts_with(rest),
        Some((WindowPiece::Fixed(bytes), following)) => {
            rest.strip_prefix(bytes.as_slice()).is_some_and(|rest| may_continue_with(following, rest))
        }
        Some((WindowPiece::Text(_), _)) => true,
        Some((WindowPiece::Other(traits), following)) => {
            rest.first().is_some_and(|byte| traits.bytes.contains(*byte))
                || traits.min_len == 0 && may_continue_with(following, rest)
        }
    }
}

/// Searches in the values of a page, each with the values in which it succeeds; `None` if there are none.
#[derive(Default)]
pub(super) struct KnownSearches(Vec<(ValueSearch, Option<Arc<Hits>>)>);

impl KnownSearches {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of memory, approximately.
    pub(super) fn memory_bytes(&self) -> usize {
        let bytes = self.0.iter().map(|(search, hits)| {
            size_of_val(search.starts.as_slice())
                + size_of_val(search.ends.as_slice())
                + hits.as_ref().map_or(0, |hits| hits.memory_bytes())
        });
        size_of_val(self.0.as_slice()) + bytes.sum::<usize>()
    }
}

/// Cached search results for a page that a reader reads.
pub(super) struct PageHits {
    /// Number of the read; a reader numbers them from 1 on.
    page: u64,
    known: KnownSearches,
}

impl PageHits {
    /// A cache for the read with the number `page`, filled with the results in `known`; `None` if so few rows are read
    /// that testing them one by one is cheaper.
    pub(super) fn for_rows(rows: usize, page: u64, known: &mut KnownSearches) -> Option<PageHits> {
        (rows >= PAGE_ROWS_MIN).then(|| PageHits { page, known: std::mem::take(known) })
    }

    /// All searches in the page so far.
    pub(super) fn into_searches(self) -> KnownSearches {
        self.known
    }

    /// The values in which a search succeeds; `None` if there are none.
    fn of(
        &mut self,
        search: &ValueSearch,
        literals: &RequiredLiterals,
        page: &mut PageReader<'_>,
    ) -> Result<Option<Arc<Hits>>, EngineError> {
        if let Some((_, known)) = self.known.0.iter().find(|(known, _)| known == search) {
            return Ok(known.clone());
        }
        let values = page.column(search.column)?;
        let finder = &literals.0[search.literal];
        let whole = ValueSearch { inside: true, ..ValueSearch::new(search.column, search.literal) };
        let mut found = match search.inside {
            // Windows that differ in their edges share the search for the whole literal.
            true if *search != whole => self.of(&whole, literals, page)?.map(|hits| Hits::clone(&hits)),
            true => Some(Hits::containing(finder, &values)),
            false => None,
        }
        .unwrap_or_else(|| Hits::empty(&values));
        found.add_edges(finder.needle(), search, &values);
        let found = found.has_any().then(|| Arc::new(found));
        self.known.0.push((search.clone(), found.clone()));
        Ok(found)
    }
}

/// Number of the value that contains the byte at `start`; at least `from`. Many literals occur in every value, so the
/// value is usually near.
fn value_at_byte(ends: &[u32], from: usize, start: usize) -> usize {
    let near = ends.len().min(from + LINEAR_STEPS_MAX);
    match ends[from..near].iter().position(|end| *end as usize > start) {
        Some(steps) => from + steps,
        None => near + ends[near..].partition_point(|end| (*end as usize) <= start),
    }
}

/// A bit for each value of a column, or for each row of a page, in which a search succeeds.
#[derive(Clone)]
pub(super) struct Hits(Vec<u64>);

impl Hits {
    /// No hit among this many values.
    pub(super) fn none(values: usize) -> Hits {
        Hits(vec![0u64; values.div_ceil(u64::BITS as usize)])
    }

    fn empty(column: &PageColumn) -> Hits {
        Hits::none(column.values.len())
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(self.0.as_slice())
    }

    /// The values that contain the literal of `finder`.
    fn containing(finder: &Finder<'_>, column: &PageColumn) -> Hits {
        let mut hits = Hits::empty(column);
        let ColumnValues::Texts { bytes, ends } = &column.values else { return hits };
        debug_assert!(ends.last().is_none_or(|end| *end as usize <= bytes.len()), "values are within the texts");
        let (mut at, mut value) = (0, 0);
        while let Some(found) = bytes.get(at..).and_then(|rest| finder.find(rest)) {
            let start = at + found;
            value = value_at_byte(ends, value, start);
            let Some(end) = ends.get(value).map(|end| *end as usize) else { break };
            if start + finder.needle().len() <= end {
                hits.set(value);
                at = end;
            } else {
                // The occurrence spans this value and the next.
                at = start + 1;
            }
        }
        hits
    }

    /// Adds the values that begin or end with a part of the literal, as `search` says. A value that is shorter than the
    /// part at its beginning is added if the part begins with it.
    fn add_edges(&mut self, literal: &[u8], search: &ValueSearch, column: &PageColumn) {
        let ColumnValues::Texts { bytes, ends } = &column.values else { return };
        if search.starts.is_empty() && search.ends.is_empty() {
            return;
        }
        let may_begin = |value: &[u8], before: usize| {
            let rest = &literal[before..];
            value.starts_with(rest) || rest.starts_with(value)
        };
        let mut start = 0;
        for (number, end) in ends.iter().enumerate() {
            let value = &bytes[start..*end as usize];
            start = *end as usize;
            if search.ends.iter().any(|before| value.ends_with(&literal[..*before]))
                || search.starts.iter().any(|before| may_begin(value, *before))
            {
                self.set(number);
            }
        }
    }

    pub(super) fn set(&mut self, value: usize) {
        self.0[value / u64::BITS as usize] |= 1 << (value % u64::BITS as usize);
    }

    fn has_any(&self) -> bool {
        self.0.iter().any(|bits| *bits != 0)
    }

    #[inline]
    pub(super) fn is_set(&self, value: usize) -> bool {
        self.0.get(value / u64::BITS as usize).is_some_and(|bits| bits >> (value % u64::BITS as usize) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quarry_event::template::ByteSet;

    use super::*;

    proptest! {
        #[test]
        fn hits_are_exactly_the_values_containing_the_literal(
            values in prop::collection::vec("[ab]{0,5}", 0..150),
            literal in "[ab]{2,3}",
        ) {
            let ends = values.iter().scan(0u32, |end, value| {
                *end += u32::try_from(value.len()).unwrap();
                Some(*end)
            });
            let column = PageColumn {
                rows: None,
                values: ColumnValues::Texts { bytes: values.concat().into(), ends: ends.collect() },
            };
            let hits = Hits::containing(&Finder::new(&literal), &column);
            for (at, value) in values.iter().enumerate() {
                prop_assert_eq!(hits.is_set(at), value.contains(&literal), "{} of {:?}", at, values);
            }
        }

        /// If a window's text contains a literal, the literal is at one of the sites, whatever the parts of the text.
        #[test]
        fn literals_occur_only_at_their_sites(
            parts in prop::collection::vec((0..3u8, "[ab]{0,3}"), 1..6),
            literal in "[ab]{2,3}",
        ) {
            let mut bytes = ByteSet::EMPTY;
            bytes.insert(b'a');
            let only_a = ValueTraits { bytes, max_len: 3, ..ValueTraits::default() };
            let (mut pieces, mut texts) = (Vec::new(), Vec::new());
            for (number, (kind, text)) in (0u32..).zip(&parts) {
                match kind {
                    0 => match pieces.last_mut() {
                        Some(WindowPiece::Fixed(last)) => last.extend_from_slice(text.as_bytes()),
                        _ => pieces.push(WindowPiece::Fixed(text.clone().into_bytes())),
                    },
                    1 => {
                        pieces.push(WindowPiece::Text(number));
                        texts.push((number, text));
                    }
                    _ => pieces.push(WindowPiece::Other(&only_a)),
                }
            }
            let value_of = |kind: u8, text: &str| if kind == 2 { text.replace('b', "") } else { text.to_owned() };
            let whole: String = parts.iter().map(|(kind, text)| value_of(*kind, text)).collect();
            let Some(site) = site_of(0, literal.as_bytes(), &pieces) else { return Ok(()) };
            let text_of = |column: u32| texts.iter().find(|(known, _)| *known == column).unwrap().1.as_str();
            let is_there = site.columns.iter().any(|SiteColumn { search, .. }| {
                let value = text_of(search.column);
                let ends = vec![u32::try_from(value.len()).unwrap()];
                let values = ColumnValues::Texts { bytes: value.as_bytes().to_vec().into(), ends };
                let column = PageColumn { rows: None, values };
                let mut hits = match search.inside {
                    true => Hits::containing(&Finder::new(&literal), &column),
                    false => Hits::empty(&column),
                };
                hits.add_edges(literal.as_bytes(), search, &column);
                hits.is_set(0)
            });
            prop_assert!(is_there || !whole.contains(&literal), "{literal} in {parts:?}");
        }
    }

    #[test]
    fn values_that_hold_a_part_of_the_literal_at_an_end_are_found() {
        let values = ["to be", "reach", "he did", "", "could not r", "x"];
        let ends = values.iter().scan(0u32, |end, value| {
            *end += u32::try_from(value.len()).unwrap();
            Some(*end)
        });
        let column = PageColumn {
            rows: None,
            values: ColumnValues::Texts { bytes: values.concat().into_bytes().into(), ends: ends.collect() },
        };
        let literal = b"not reach";
        let found = |starts: &[usize], ends: &[usize]| {
            let (starts, ends) = (starts.to_vec(), ends.to_vec());
            let mut hits = Hits::empty(&column);
            hits.add_edges(literal, &ValueSearch { starts, ends, ..ValueSearch::new(0, 0) }, &column);
            (0..values.len()).filter(|value| hits.is_set(*value)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[], &[]), [0; 0]);
        // "reach" follows "not "; an empty value may be followed by the rest.
        assert_eq!(found(&[4], &[]), [1, 3]);
        // "not r" ends one value; "t" ends none, and "he did" does not end with "no".
        assert_eq!(found(&[], &[5]), [4]);
        assert_eq!(found(&[], &[3, 2]), [0; 0]);
        assert_eq!(found(&[4], &[5]), [1, 3, 4]);
    }
}
