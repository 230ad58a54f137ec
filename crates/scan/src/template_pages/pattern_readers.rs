//! Readers of patterns that searches have finished with, and facts about pages, for later searches.
//!
//! A reader has planned its pattern for the templates of the slabs that it read, and knows the answers for many
//! combinations of their values. Plans and answers depend on nothing but the pattern, its groups and the slab, which
//! never changes. A dashboard repeats its patterns, and a search-time rule is evaluated by most searches of its
//! sources, so that a search begins with the plans of an earlier one.
//!
//! Not here: plans and answers themselves ([`super::rex`]); readers of a running search
//! ([`crate::pushed_commands::PushedCommands`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quarry_eval::pattern::Regex;
use quarry_event::template::TemplateSet;

use super::rex::{PatternFacts, RexReader};
use crate::fields::Extract;
use crate::pushed_commands::PushedRex;

/// Maximum number of readers kept.
const READERS_MAX: usize = 128;
/// Maximum bytes of all readers kept.
const BYTES_MAX: usize = 32 << 20;
/// Maximum bytes of one reader; a reader with more is not kept.
const READER_BYTES_MAX: usize = 12 << 20;

/// Maximum number of patterns for which facts about pages are kept.
const FACTS_MAX: usize = 64;
/// Bytes of the facts about all patterns above which the facts about the pattern used longest ago are forgotten.
const FACTS_BYTES_MAX: usize = 16 << 20;

/// The readers and facts that are kept, up to a limit of memory.
#[derive(Default)]
pub(crate) struct PatternReaders {
    readers: Mutex<KeptReaders>,
    /// Facts by pattern, the least recently used first.
    facts: Mutex<VecDeque<(Regex, Arc<PatternFacts>)>>,
    facts_bytes: Arc<AtomicUsize>,
}

#[derive(Default)]
struct KeptReaders {
    /// Readers with their sizes in bytes, the least recently used first.
    readers: VecDeque<(RexReader, usize)>,
    bytes: usize,
}

impl PatternReaders {
    /// A reader for a `rex` command, preferably one that knows the slab with these templates.
    pub(crate) fn of_command(&self, rex: &PushedRex, template_set: &Arc<TemplateSet>) -> RexReader {
        let is_known = |reader: &RexReader| reader.is_for_command(&rex.regex, &rex.groups, false);
        let known = if rex.source().is_none() { self.take(is_known, template_set) } else { None };
        self.with_facts(known.unwrap_or_else(|| RexReader::new(rex)))
    }

    /// Like [`PatternReaders::of_command`], for a match test whose result is in the field `output`.
    pub(crate) fn of_test(&self, regex: &Regex, output: &str, template_set: &Arc<TemplateSet>) -> RexReader {
        let known = self.take(|reader| reader.is_for_command(regex, &[], true), template_set);
        let mut reader = known.unwrap_or_else(|| RexReader::of_test(regex, output));
        reader.test = Some(output.to_owned());
        self.with_facts(reader)
    }

    /// Like [`PatternReaders::of_command`], for these groups of a search-time rule.
    pub(super) fn of_rule(
        &self,
        extract: &Arc<Extract>,
        groups: Vec<(usize, String)>,
        template_set: &Arc<TemplateSet>,
    ) -> RexReader {
        let known = self.take(|reader| reader.is_for_rule(extract, &groups), template_set);
        self.with_facts(known.unwrap_or_else(|| RexReader::of_extract(extract, groups)))
    }

    /// The reader with the facts about its pattern that all its readers share.
    fn with_facts(&self, mut reader: RexReader) -> RexReader {
        if !reader.is_reusable() {
            return reader;
        }
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        let at = facts.iter().position(|(regex, _)| regex.is_same_linear(&reader.regex));
        let of_pattern = at
            .and_then(|at| facts.remove(at))
            .unwrap_or_else(|| (reader.regex.clone(), Arc::new(PatternFacts::new(&self.facts_bytes))));
        reader.facts = Arc::clone(&of_pattern.1);
        while facts.len() >= FACTS_MAX || self.facts_bytes.load(Ordering::Relaxed) > FACTS_BYTES_MAX {
            let Some((_, oldest)) = facts.pop_front() else { break };
            oldest.clear();
        }
        facts.push_back(of_pattern);
        reader
    }

    fn take(&self, is_known: impl Fn(&RexReader) -> bool, template_set: &Arc<TemplateSet>) -> Option<RexReader> {
        let mut kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let of_pattern = |with_plans: bool| {
            let is_it =
                |(reader, _): &(RexReader, usize)| is_known(reader) && (!with_plans || reader.has_read(template_set));
            kept.readers.iter().rposition(is_it)
        };
        let at = of_pattern(true).or_else(|| of_pattern(false))?;
        let (reader, bytes) = kept.readers.remove(at)?;
        kept.bytes -= bytes;
        Some(reader)
    }

    /// Keeps a reader that a search has finished with, if later searches can use it.
    pub(crate) fn keep(&self, mut reader: RexReader) {
        if !reader.is_reusable() {
            return;
        }
        reader.end_search();
        let bytes = reader.kept_bytes();
        if bytes > READER_BYTES_MAX {
            return;
        }
        let mut kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        kept.readers.push_back((reader, bytes));
        kept.bytes += bytes;
        while kept.bytes > BYTES_MAX || kept.readers.len() > READERS_MAX {
            let Some((_, bytes)) = kept.readers.pop_front() else { break };
            kept.bytes -= bytes;
        }
        assert!(kept.bytes <= BYTES_MAX, "the memory of the readers kept is limited");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(kept: &PatternReaders) -> usize {
        kept.readers.lock().unwrap().readers.len()
    }

    #[test]
    fn a_kept_reader_serves_the_same_pattern_once() {
        let (kept, templates) = (PatternReaders::default(), Arc::new(TemplateSet::default()));
        let [ticket, order] = [r"ticket (\d+)", r"order (\d+)"].map(|pattern| Regex::new(pattern).unwrap());
        kept.keep(kept.of_test(&ticket, "first", &templates));
        assert_eq!(count(&kept), 1);
        assert!(kept.take(|reader| reader.is_for_command(&order, &[], true), &templates).is_none());
        assert!(kept.take(|reader| reader.is_for_command(&ticket, &[], false), &templates).is_none());
        let groups = [(1, "number".to_owned())];
        assert!(kept.take(|reader| reader.is_for_command(&ticket, &groups, true), &templates).is_none());
        // The same pattern, compiled again, with another output.
        let again = kept.of_test(&Regex::new(r"ticket (\d+)").unwrap(), "second", &templates);
        assert_eq!((again.test.as_deref(), count(&kept)), (Some("second"), 0));
        let other = kept.of_test(&ticket, "third", &templates);
        kept.keep(again);
        kept.keep(other);
        assert_eq!(count(&kept), 2, "each worker of a search has a reader of its own");
    }

    #[test]
    fn readers_of_a_pattern_share_facts() {
        let (kept, templates) = (PatternReaders::default(), Arc::new(TemplateSet::default()));
        let [ticket, order] = [r"ticket (\d+)", r"order (\d+)"].map(|pattern| Regex::new(pattern).unwrap());
        let first = kept.of_test(&ticket, "first", &templates);
        let second = kept.of_test(&ticket, "second", &templates);
        let other = kept.of_test(&order, "other", &templates);
        assert!(Arc::ptr_eq(&first.facts, &second.facts) && !Arc::ptr_eq(&first.facts, &other.facts));
        kept.facts_bytes.store(FACTS_BYTES_MAX + 1, Ordering::Relaxed);
        let third = kept.of_test(&order, "third", &templates);
        assert!(Arc::ptr_eq(&other.facts, &third.facts), "the facts in use stay");
        assert_eq!(kept.facts.lock().unwrap().len(), 1);
        kept.facts_bytes.store(0, Ordering::Relaxed);
        let fourth = kept.of_test(&ticket, "fourth", &templates);
        assert!(!Arc::ptr_eq(&first.facts, &fourth.facts));
    }

    #[test]
    fn an_idle_reader_does_not_keep_facts() {
        let (kept, templates) = (PatternReaders::default(), Arc::new(TemplateSet::default()));
        let reader = kept.of_test(&Regex::new(r"ticket (\d+)").unwrap(), "found", &templates);
        let facts = Arc::downgrade(&reader.facts);
        kept.keep(reader);
        assert_eq!((count(&kept), facts.strong_count()), (1, 1));
        kept.facts.lock().unwrap().clear();
        assert_eq!(facts.strong_count(), 0);
    }

    #[test]
    fn the_readers_used_last_are_kept() {
        let (kept, templates) = (PatternReaders::default(), Arc::new(TemplateSet::default()));
        let pattern = |number: usize| Regex::new(&format!("word{number} ([a-z]+)")).unwrap();
        let has = |number: usize| {
            let regex = pattern(number);
            let kept = kept.readers.lock().unwrap();
            kept.readers.iter().any(|(reader, _)| reader.is_for_command(&regex, &[], true))
        };
        for number in 0..READERS_MAX {
            kept.keep(RexReader::of_test(&pattern(number), "found"));
        }
        kept.keep(kept.of_test(&pattern(0), "found", &templates));
        assert_eq!(count(&kept), READERS_MAX);
        kept.keep(RexReader::of_test(&pattern(READERS_MAX), "found"));
        assert_eq!(count(&kept), READERS_MAX);
        assert!(has(0) && !has(1) && has(2) && has(READERS_MAX));
        let kept = kept.readers.lock().unwrap();
        assert_eq!(kept.bytes, kept.readers.iter().map(|(_, bytes)| bytes).sum::<usize>());
    }
}
