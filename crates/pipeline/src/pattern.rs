//! A pattern type over two regular expression engines.
//!
//! Settings contain PCRE patterns. The linear-time `regex` engine is tried first; patterns that it rejects
//! (look-around, back references) are compiled by PCRE2. Both match bytes with ASCII classes, as Splunk does. A PCRE2
//! match that exceeds its limits counts as no match.

mod byte_sequence;

use quarry_stdx::Fault;
use std::ops::Range;

use byte_sequence::ByteSequence;

/// Maximum size of a pattern compiled for the linear-time engine, in bytes.
const PROGRAM_BYTES_MAX: usize = 8 << 20;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    engine: Engine,
    /// The pattern as a fixed sequence of bytes, if it is one.
    fixed: Option<ByteSequence>,
}

#[derive(Clone, Debug)]
enum Engine {
    Linear(regex::bytes::Regex),
    Backtracking(pcre2::bytes::Regex),
}

/// Match of a line breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakMatch {
    /// The whole match.
    pub whole: Range<usize>,
    /// The group whose text is dropped.
    pub group: Range<usize>,
}

/// Positions of a match's groups.
#[derive(Clone, Debug)]
pub struct Groups {
    places: GroupPositions,
}

#[derive(Clone, Debug)]
enum GroupPositions {
    Linear(regex::bytes::CaptureLocations),
    Backtracking(pcre2::bytes::CaptureLocations),
}

impl Groups {
    /// Range of a group that took part in the match; 0 is the whole match.
    pub fn get(&self, number: usize) -> Option<Range<usize>> {
        let place = match &self.places {
            GroupPositions::Linear(places) => places.get(number),
            GroupPositions::Backtracking(places) => places.get(number),
        };
        place.map(|(start, end)| start..end)
    }

    /// Number of groups, including the whole match.
    pub fn count(&self) -> usize {
        match &self.places {
            GroupPositions::Linear(places) => places.len(),
            GroupPositions::Backtracking(places) => places.len(),
        }
    }
}

impl Pattern {
    /// Storage for the groups of a match.
    pub fn groups(&self) -> Groups {
        let places = match &self.engine {
            Engine::Linear(regex) => GroupPositions::Linear(regex.capture_locations()),
            Engine::Backtracking(regex) => GroupPositions::Backtracking(regex.capture_locations()),
        };
        Groups { places }
    }

    /// Names of the groups, starting with the whole match, which has none.
    pub fn group_names(&self) -> Vec<Option<String>> {
        match &self.engine {
            Engine::Linear(regex) => regex.capture_names().map(|name| name.map(str::to_owned)).collect(),
            Engine::Backtracking(regex) => regex.capture_names().to_vec(),
        }
    }

    /// Range of the first match at or after `from`; its groups are stored in `groups`, which must belong to this
    /// pattern.
    pub fn find_groups(&self, text: &[u8], from: usize, groups: &mut Groups) -> Option<Range<usize>> {
        match (&self.engine, &mut groups.places) {
            (Engine::Linear(regex), GroupPositions::Linear(places)) => {
                regex.captures_read_at(places, text, from).map(|found| found.range())
            }
            (Engine::Backtracking(regex), GroupPositions::Backtracking(places)) => {
                let found = regex.captures_read_at(places, text, from).ok().flatten();
                found.map(|found| found.start()..found.end())
            }
            _ => None,
        }
    }

    /// Compiles a pattern; the error is the engine's message in one line.
    pub fn new(pattern: &str) -> Result<Pattern, Fault> {
        let linear = regex::bytes::RegexBuilder::new(pattern).unicode(false).size_limit(PROGRAM_BYTES_MAX).build();
        if let Ok(linear) = linear {
            return Ok(Pattern { engine: Engine::Linear(linear), fixed: ByteSequence::read(pattern) });
        }
        match pcre2::bytes::RegexBuilder::new().jit_if_available(true).build(pattern) {
            Ok(backtracking) => Ok(Pattern { engine: Engine::Backtracking(backtracking), fixed: None }),
            Err(error) => Err(Fault::invalid(error.to_string().replace('\n', " "))),
        }
    }

    /// Whether the linear-time engine runs the pattern, which then has neither look-around nor references to groups.
    pub(crate) fn is_linear(&self) -> bool {
        matches!(self.engine, Engine::Linear(_))
    }

    /// Whether the pattern matches anywhere.
    pub fn is_match(&self, text: &[u8]) -> bool {
        if let Some(fixed) = &self.fixed {
            return fixed.find_end(text).is_some();
        }
        match &self.engine {
            Engine::Linear(regex) => regex.is_match(text),
            Engine::Backtracking(regex) => regex.is_match(text).unwrap_or(false),
        }
    }

    /// End of the first match.
    pub fn find_end(&self, text: &[u8]) -> Option<usize> {
        if let Some(fixed) = &self.fixed {
            return fixed.find_end(text);
        }
        match &self.engine {
            Engine::Linear(regex) => regex.find(text).map(|found| found.end()),
            Engine::Backtracking(regex) => regex.find(text).ok().flatten().map(|found| found.end()),
        }
    }

    /// First match at or after `from`, with the leftmost group that took part in it. If no group did, the dropped text
    /// is the empty range at the start of the match.
    pub fn find_break(&self, text: &[u8], from: usize) -> Option<BreakMatch> {
        self.find_break_in(text, from, &mut self.groups())
    }

    /// Like [`Pattern::find_break`], with storage for the groups, which must belong to this pattern.
    pub(crate) fn find_break_in(&self, text: &[u8], from: usize, groups: &mut Groups) -> Option<BreakMatch> {
        let whole = self.find_groups(text, from, groups)?;
        let group = (1..groups.count()).find_map(|number| groups.get(number)).unwrap_or(whole.start..whole.start);
        Some(BreakMatch { whole, group })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_patterns_use_the_backtracking_engine() {
        for pattern in [r"([\r\n]+)\d", r"([\r\n]+)(?=\d)"] {
            let found = Pattern::new(pattern).unwrap().find_break(b"a\n\nb\n1", 0).unwrap();
            assert_eq!(found.group, 4..5, "{pattern}");
        }
        assert!(Pattern::new("(").is_err());
    }

    #[test]
    fn first_participating_group_is_removed() {
        let pattern = Pattern::new(r"(;)|(\n)").unwrap();
        assert_eq!(pattern.find_break(b"ab\nc", 0).unwrap().group, 2..3);
        let none = Pattern::new(r"a|(;)").unwrap();
        assert_eq!(none.find_break(b"xa", 0).unwrap().group, 1..1);
    }

    #[test]
    fn invalid_utf_8_can_match() {
        assert!(Pattern::new(r"a.b").unwrap().is_match(b"a\xFFb"));
    }
}
