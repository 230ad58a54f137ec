//! User-defined patterns: regular expressions in PCRE syntax, LIKE patterns, `*` wildcards.
//!
//! A regular expression runs on the linear-time `regex` crate if it has the same meaning there; [`translate`] decides
//! this, and rewrites constructs that differ. The capture groups of expressions that are not one-pass are found by
//! PCRE2's machine code, with the same result. Look-around, back references, possessive quantifiers and the like run on
//! PCRE2 with a match limit; a match that exceeds it counts as no match. For example, `user=(?<user>\w+)` runs on
//! `regex`, and `(\w+)=\1` on PCRE2.
//!
//! Not here: keyword patterns on `_raw` (event), patterns in props.conf (pipeline).

mod borders;
mod first_bytes;
mod like;
mod literals;
mod machine_code;
mod one_pass;
mod prefix_search;
mod replacement;
pub mod template_match;
mod translate;
mod wildcard;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use quarry_stdx::Fault;

use crate::messages::{Loss, TEXT_BYTES_MAX, record_loss};
use machine_code::{MachineCode, MachineCodeMatch, TEXTS_BEFORE};
use one_pass::{OnePass, OnePassMatch};
use prefix_search::{PrefixSearch, SEARCHES_BEFORE};

pub use borders::{BorderBytes, GroupBorders};
pub use like::LikePattern;
pub use replacement::Replacement;
pub use wildcard::Wildcard;

/// Maximum length of a regular expression, in bytes; a longer one is rejected.
pub const PATTERN_BYTES_MAX: usize = 64 * 1024;
/// Maximum memory of a compiled expression of the linear engine, in bytes; larger expressions run on PCRE2.
const COMPILED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum stack of PCRE2's compiled code, in bytes; the default is too small for long events.
const JIT_STACK_BYTES_MAX: usize = 1024 * 1024;
/// Prefix of every PCRE2 pattern; limits the work of one match to [`crate::messages::MATCH_STEPS_MAX`].
const PCRE_LIMITS: &str = "(*LIMIT_MATCH=100000)";

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Regex {
    engine: Engine,
    names: Vec<Option<String>>,
}

#[derive(Clone, Debug)]
enum Engine {
    Linear(Linear),
    Backtracking(pcre2::bytes::Regex),
}

#[derive(Clone, Debug)]
struct Linear {
    regex: regex::Regex,
    /// The pattern as the user wrote it.
    source: Arc<str>,
    /// Finds the positions at which matches may begin; prepared after [`SEARCHES_BEFORE`] searches.
    prefixed: Arc<OnceLock<Option<PrefixSearch>>>,
    /// Number of searches before `prefixed` was prepared.
    searches: Arc<AtomicU32>,
    /// Finds matches that begin at a known position; prepared at the first request.
    one_pass: Arc<OnceLock<Option<OnePass>>>,
    /// Finds the groups of expressions that are not one-pass; prepared after [`TEXTS_BEFORE`] texts.
    machine_code: Arc<OnceLock<Option<MachineCode>>>,
}

impl Linear {
    fn one_pass(&self) -> Option<&OnePass> {
        self.one_pass.get_or_init(|| OnePass::new(self.regex.as_str())).as_ref()
    }

    fn prefix_search(&self) -> Option<&PrefixSearch> {
        let new = || PrefixSearch::new(self.regex.as_str()).filter(|_| self.one_pass().is_some());
        self.prefixed.get_or_init(new).as_ref()
    }

    /// Searches at or after `start` where a match may begin; `None` if the engine must decide.
    #[inline]
    fn captures_by_prefix(&self, text: &str, start: usize, positions: &mut LinearPositions) -> Option<bool> {
        let search = match self.prefixed.get() {
            Some(search) => search.as_ref()?,
            None if self.searches.fetch_add(1, Ordering::Relaxed) < SEARCHES_BEFORE => return None,
            None => self.prefix_search()?,
        };
        let automaton = self.one_pass()?;
        let found = positions.one_pass.get_or_insert_with(|| automaton.new_match());
        let is_match = search.captures_at(automaton, text, start, found, &mut positions.handovers)?;
        positions.found_by = SearchMethod::OnePass;
        Some(is_match)
    }

    fn new_machine_code(&self) -> Option<MachineCode> {
        let is_one_pass = self.one_pass().is_some();
        MachineCode::new(&self.source, self.regex.as_str(), self.regex.captures_len(), is_one_pass)
    }

    /// The machine code, once enough texts have been searched.
    #[inline]
    fn machine_code(&self, texts: &mut u32) -> Option<&MachineCode> {
        match self.machine_code.get() {
            Some(code) => code.as_ref(),
            None if *texts < TEXTS_BEFORE => {
                *texts += 1;
                None
            }
            None => self.machine_code.get_or_init(|| self.new_machine_code()).as_ref(),
        }
    }

    /// Searches at or after `start` by machine code; `None` if the engine must decide.
    #[inline]
    fn captures_by_machine_code(&self, text: &str, start: usize, positions: &mut LinearPositions) -> Option<bool> {
        let code = self.machine_code(&mut positions.texts)?;
        let found = positions.machine_code.get_or_insert_with(|| code.new_match());
        let is_match = code.captures_at(&self.regex, text, start, found)?;
        positions.found_by = SearchMethod::MachineCode;
        Some(is_match)
    }

    /// Searches for a match that begins at `start`; `None` if the engine must decide.
    #[inline]
    fn captures_starting_at(&self, text: &str, start: usize, positions: &mut LinearPositions) -> Option<bool> {
        if let Some(one_pass) = self.one_pass() {
            let found = positions.one_pass.get_or_insert_with(|| one_pass.new_match());
            let is_match = one_pass.captures_starting_at(text, start, found)?;
            positions.found_by = SearchMethod::OnePass;
            return Some(is_match);
        }
        let code = self.machine_code(&mut positions.texts)?;
        let found = positions.machine_code.get_or_insert_with(|| code.new_match());
        let is_match = code.captures_starting_at(text, start, found)?;
        positions.found_by = SearchMethod::MachineCode;
        Some(is_match)
    }
}

/// Positions of the groups of one match; can be reused.
#[derive(Clone, Debug)]
pub struct Captures(MatchPositions);

#[derive(Clone, Debug)]
enum MatchPositions {
    Linear(LinearPositions),
    Backtracking(pcre2::bytes::CaptureLocations),
}

#[derive(Clone, Debug)]
struct LinearPositions {
    locations: regex::CaptureLocations,
    one_pass: Option<OnePassMatch>,
    machine_code: Option<MachineCodeMatch>,
    /// Number of texts searched while there is no machine code.
    texts: u32,
    /// Number of prefix searches that the linear engine had to decide, minus the number of the others.
    handovers: u32,
    /// The method that found the last match; the positions are in its results.
    found_by: SearchMethod,
}

/// A way of finding a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchMethod {
    Engine,
    OnePass,
    MachineCode,
}

impl Captures {
    /// Start and end of a group that took part in the match; group 0 is the whole match.
    #[inline]
    pub fn get(&self, group: usize) -> Option<(usize, usize)> {
        match &self.0 {
            MatchPositions::Linear(LinearPositions {
                one_pass: Some(found), found_by: SearchMethod::OnePass, ..
            }) => found.get(group),
            MatchPositions::Linear(LinearPositions {
                machine_code: Some(found),
                found_by: SearchMethod::MachineCode,
                ..
            }) => found.get(group),
            MatchPositions::Linear(LinearPositions { locations, .. }) => locations.get(group),
            MatchPositions::Backtracking(locations) => locations.get(group),
        }
    }

    /// Text of a group that took part in the match of `text`.
    pub fn text<'t>(&self, text: &'t str, group: usize) -> Option<&'t str> {
        let (start, end) = self.get(group)?;
        text.get(start..end)
    }
}

impl Regex {
    /// Compiles `pattern`; the error is a message for the user.
    pub fn new(pattern: &str) -> Result<Regex, Fault> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(Fault::invalid(format!(
                "regular expression is longer than {PATTERN_BYTES_MAX} bytes; shorten it"
            )));
        }
        if let Some(regex) = translate::translate(pattern).and_then(|pattern| compile_linear(&pattern)) {
            let names = regex.capture_names().map(|name| name.map(str::to_owned)).collect();
            let engine = Engine::Linear(Linear {
                regex,
                source: pattern.into(),
                prefixed: Arc::default(),
                searches: Arc::default(),
                one_pass: Arc::default(),
                machine_code: Arc::default(),
            });
            return Ok(Regex { engine, names });
        }
        let mut builder = pcre2::bytes::RegexBuilder::new();
        builder.utf(true).jit_if_available(true).max_jit_stack_size(Some(JIT_STACK_BYTES_MAX));
        // Leading verbs in the pattern itself still work after the limit, because PCRE2 accepts several verbs.
        match builder.build(&format!("{PCRE_LIMITS}{pattern}")) {
            Ok(regex) => {
                let names = regex.capture_names().to_vec();
                Ok(Regex { engine: Engine::Backtracking(regex), names })
            }
            Err(error) => Err(pcre_fault(pattern, &error)),
        }
    }

    /// Whether the text contains a match.
    #[inline]
    pub fn is_match(&self, text: &str) -> bool {
        match &self.engine {
            Engine::Linear(linear) => linear.regex.is_match(text),
            Engine::Backtracking(regex) => resolve_match(regex.is_match(text.as_bytes())),
        }
    }

    /// Storage for the groups of this expression.
    pub fn new_captures(&self) -> Captures {
        Captures(match &self.engine {
            Engine::Linear(linear) => MatchPositions::Linear(LinearPositions {
                locations: linear.regex.capture_locations(),
                one_pass: None,
                machine_code: None,
                texts: 0,
                handovers: 0,
                found_by: SearchMethod::Engine,
            }),
            Engine::Backtracking(regex) => MatchPositions::Backtracking(regex.capture_locations()),
        })
    }

    /// Finds the first match and its groups; `captures` must come from [`Regex::new_captures`] of this expression.
    #[inline]
    pub fn captures_into(&self, text: &str, captures: &mut Captures) -> bool {
        self.captures_at(text, 0, captures)
    }

    /// [`Regex::captures_into`] for the first match at or after `start`; `^` and look-behind still see the text before
    /// it.
    #[inline]
    pub fn captures_at(&self, text: &str, start: usize, captures: &mut Captures) -> bool {
        if start > text.len() {
            return false;
        }
        match (&self.engine, &mut captures.0) {
            (Engine::Linear(linear), MatchPositions::Linear(positions)) => {
                if let Some(is_match) = linear.captures_by_prefix(text, start, positions) {
                    return is_match;
                }
                if let Some(is_match) = linear.captures_by_machine_code(text, start, positions) {
                    return is_match;
                }
                positions.found_by = SearchMethod::Engine;
                linear.regex.captures_read_at(&mut positions.locations, text, start).is_some()
            }
            (Engine::Backtracking(regex), MatchPositions::Backtracking(positions)) => {
                resolve_match(regex.captures_read_at(positions, text.as_bytes(), start).map(|found| found.is_some()))
            }
            _ => false,
        }
    }

    /// [`Regex::captures_at`] for a match that begins at `start`.
    #[inline]
    pub fn captures_starting_at(&self, text: &str, start: usize, captures: &mut Captures) -> bool {
        if let (Engine::Linear(linear), MatchPositions::Linear(positions)) = (&self.engine, &mut captures.0)
            && start <= text.len()
            && let Some(is_match) = linear.captures_starting_at(text, start, positions)
        {
            return is_match;
        }
        self.captures_at(text, start, captures) && captures.get(0).is_some_and(|(found, _)| found == start)
    }

    /// Text of the first group in the first match.
    pub fn first_group<'t>(&self, text: &'t str) -> Option<&'t str> {
        let mut captures = self.new_captures();
        if self.captures_into(text, &mut captures) { captures.text(text, 1) } else { None }
    }

    /// Names of the groups by number; `None` for the whole match and for unnamed groups.
    pub fn group_names(&self) -> &[Option<String>] {
        &self.names
    }

    /// Number of groups, including the whole match.
    pub fn group_count(&self) -> usize {
        self.names.len()
    }

    /// Start and end of every match, left to right, without overlap.
    pub fn find_iter<'t>(&'t self, text: &'t str) -> impl Iterator<Item = (usize, usize)> + 't {
        let mut captures = self.new_captures();
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.captures_at(text, from, &mut captures).then(|| captures.get(0)).flatten()?;
            from = next_start(text, found);
            Some(found)
        })
    }

    /// Replaces every match, at most `limit`; `None` if there is no match.
    pub fn replace(&self, text: &str, replacement: &Replacement, limit: usize) -> Option<String> {
        let mut captures = self.new_captures();
        let (mut out, mut copied, mut from, mut count) = (String::new(), 0, 0, 0);
        // Callers discard a result longer than `TEXT_BYTES_MAX`.
        while count < limit && out.len() <= TEXT_BYTES_MAX && self.captures_at(text, from, &mut captures) {
            let Some(found) = captures.get(0) else { break };
            out.push_str(text.get(copied..found.0).unwrap_or_default());
            replacement.expand(text, &captures, &mut out);
            copied = found.1.max(copied);
            from = next_start(text, found);
            count += 1;
        }
        if count == 0 {
            return None;
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Some(out)
    }

    /// Replaces every match; `None` if there is no match.
    pub fn replace_all(&self, text: &str, replacement: &Replacement) -> Option<String> {
        self.replace(text, replacement, usize::MAX)
    }

    /// A few literals that every match contains, longest first; empty if no such literals are known.
    pub fn required_literals(&self) -> Vec<Box<[u8]>> {
        self.linear_pattern().map(literals::required).unwrap_or_default()
    }

    /// Whether breakers surround this group in every match.
    pub fn borders_of(&self, group: usize) -> GroupBorders {
        self.linear_pattern().map_or(GroupBorders::Unknown, |pattern| borders::borders_of(pattern, group))
    }

    /// The pattern in the linear engine's dialect, if it runs there.
    fn linear_pattern(&self) -> Option<&str> {
        match &self.engine {
            Engine::Linear(linear) => Some(linear.regex.as_str()),
            Engine::Backtracking(_) => None,
        }
    }

    /// Whether both are the same expression, as written, and the linear engine runs it.
    pub fn is_same_linear(&self, other: &Regex) -> bool {
        match (&self.engine, &other.engine) {
            (Engine::Linear(mine), Engine::Linear(theirs)) => mine.source == theirs.source,
            _ => false,
        }
    }

    /// Whether the linear engine runs the pattern.
    #[cfg(test)]
    fn is_linear(&self) -> bool {
        matches!(self.engine, Engine::Linear(_))
    }
}

/// Whether there is a match; an abandoned match is recorded and counts as no match.
fn resolve_match(matched: Result<bool, pcre2::Error>) -> bool {
    matched.unwrap_or_else(|_| {
        record_loss(Loss::Match);
        false
    })
}

fn compile_linear(pattern: &str) -> Option<regex::Regex> {
    regex::RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build().ok()
}

/// Position from which to search for the match after this one; after an empty match, skips a whole character.
fn next_start(text: &str, (start, end): (usize, usize)) -> usize {
    if end > start {
        return end;
    }
    let step = text.get(end..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
    end + step
}

/// PCRE2's error message, with the position in the user's pattern.
fn pcre_fault(pattern: &str, error: &pcre2::Error) -> Fault {
    let position = error.offset().map(|offset| offset.saturating_sub(PCRE_LIMITS.len()));
    let text = error.to_string();
    let reason = text.rsplit_once(": ").map_or(text.as_str(), |(_, reason)| reason);
    let position = position.map(|position| format!(" at byte {position}")).unwrap_or_default();
    Fault::invalid(format!("regular expression '{pattern}' is not valid{position}: {reason}"))
}

#[cfg(test)]
mod tests;
