//! A compiled rule of transforms.conf.

use std::borrow::Cow;
use std::sync::Arc;

use quarry_conf::IndexRule;
use quarry_event::TimeNs;
use quarry_stdx::Fault;

use super::assign::{Assignments, Condition};
use super::event::{Key, TypedEvent};
use super::format::{Template, pairs};
use super::plan::{Compiler, TypingPlan};
use crate::error::PipelineError;
use crate::pattern::{Groups, Pattern};
use crate::text::cut_at_character;

/// Maximum number of matches of one rule in one event; further ones are ignored.
const MATCHES_MAX: usize = 10_000;

/// A compiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    action: Action,
    stop_if: Option<Condition>,
}

#[derive(Debug)]
enum Action {
    Match(Box<MatchRule>),
    Evaluate(Assignments),
    /// The rule has only `STOP_PROCESSING_IF`.
    Nothing,
}

/// A rule with a pattern.
#[derive(Debug)]
struct MatchRule {
    pattern: Pattern,
    source: Key,
    lookahead: usize,
    repeats: bool,
    writes: MatchEffect,
    /// The sourcetype of the copy that the rule makes, and the plan of that copy.
    copy: Option<(Arc<str>, TypingPlan)>,
}

#[derive(Debug)]
enum MatchEffect {
    /// Adds fields; with `replaces`, all existing fields are removed first.
    Fields {
        pairs: Vec<(Template, Template)>,
        replaces: bool,
    },
    Key {
        key: Key,
        template: Template,
        default: Option<String>,
    },
    Nothing,
}

impl Rule {
    pub(crate) fn new(rule: &IndexRule, compiler: &mut Compiler<'_>) -> Result<Rule, PipelineError> {
        let wrong = |setting: &str, text: &str, reason: Fault| {
            PipelineError::of_rule("transforms.conf", &rule.name, setting, text, &reason)
        };
        let condition = |text: &String| {
            Condition::new(text, compiler.expressions()).map_err(|reason| wrong("STOP_PROCESSING_IF", text, reason))
        };
        let stop_if = rule.stop_if.as_ref().map(condition).transpose()?;
        let action = match (&rule.ingest_eval, &rule.pattern) {
            (Some(text), _) => {
                let assignments = Assignments::new(text, compiler.expressions());
                Action::Evaluate(assignments.map_err(|reason| wrong("INGEST_EVAL", text, reason))?)
            }
            (None, Some(text)) => {
                let pattern = Pattern::new(text).map_err(|reason| wrong("REGEX", text, reason))?;
                Action::Match(Box::new(MatchRule::new(rule, pattern, compiler)?))
            }
            (None, None) => Action::Nothing,
        };
        Ok(Rule { action, stop_if })
    }

    /// Applies the rule; returns whether to skip further rules of the class.
    pub(crate) fn run(&self, event: &mut TypedEvent, copies: &mut Vec<TypedEvent>, now: TimeNs) -> bool {
        match &self.action {
            Action::Match(rule) => rule.run(event, copies, now),
            Action::Evaluate(assignments) => assignments.run(event, now),
            Action::Nothing => {}
        }
        self.stop_if.as_ref().is_some_and(|condition| condition.is_true(event, now))
    }
}

impl MatchRule {
    fn new(rule: &IndexRule, pattern: Pattern, compiler: &mut Compiler<'_>) -> Result<MatchRule, PipelineError> {
        let groups = pattern.groups().count();
        let fields = |format: &str, replaces: bool| MatchEffect::Fields {
            pairs: pairs(format)
                .iter()
                .map(|(name, value)| (Template::new(name, groups), Template::new(value, groups)))
                .collect(),
            replaces,
        };
        let writes = match (rule.writes_fields, Key::of_rule(&rule.dest_key)) {
            (true, _) => fields(&rule.format, false),
            (false, Key::Meta) => match rule.format.trim_start().strip_prefix("$0") {
                Some(added) => fields(added, false),
                None => fields(&rule.format, true),
            },
            (false, _) if rule.dest_key.is_empty() => MatchEffect::Nothing,
            (false, key) => MatchEffect::Key {
                key,
                template: Template::new(&rule.format, groups),
                default: rule.default_value.clone(),
            },
        };
        let copy = match &rule.clone_sourcetype {
            None => None,
            Some(sourcetype) => compiler.copy(rule, sourcetype)?.map(|plan| (Arc::from(sourcetype.as_str()), plan)),
        };
        Ok(MatchRule {
            pattern,
            source: Key::of_rule(&rule.source_key),
            lookahead: rule.lookahead,
            // If a match replaces the event's text, the text cannot be searched further.
            repeats: rule.repeats && rule.dest_key != quarry_conf::settings::index_rules::RAW_KEY,
            writes,
            copy,
        })
    }

    fn run(&self, event: &mut TypedEvent, copies: &mut Vec<TypedEvent>, now: TimeNs) {
        let mut groups = self.pattern.groups();
        let Some((sourcetype, plan)) = &self.copy else {
            self.apply(event, &mut groups);
            return;
        };
        let mut copy = event.clone();
        if self.apply(&mut copy, &mut groups) {
            copy.meta.sourcetype = Arc::clone(sourcetype);
            plan.run(&mut copy, copies, now);
            copies.push(copy);
        }
    }

    /// Applies the rule's effect to the first match, or to all matches if the rule repeats; without a match, writes the
    /// default. Returns whether the pattern matched.
    fn apply(&self, event: &mut TypedEvent, groups: &mut Groups) -> bool {
        // The searched text is moved out of the event while the event is written.
        let source: String = match &self.source {
            Key::Raw => std::mem::take(&mut event.raw),
            key => event.read(key).into_owned(),
        };
        let seen = &source[..cut_at_character(source.as_bytes(), self.lookahead)];
        let (mut from, mut matches) = (0, 0);
        let mut raw_is_written = false;
        while matches < MATCHES_MAX {
            let Some(found) = self.pattern.find_groups(seen.as_bytes(), from, groups) else { break };
            matches += 1;
            raw_is_written |= self.write(event, seen, groups, &source);
            from = if found.is_empty() { found.end + 1 } else { found.end };
            if !self.repeats || from > seen.len() {
                break;
            }
        }
        if matches == 0
            && let MatchEffect::Key { key, default: Some(default), .. } = &self.writes
        {
            event.write(key, Cow::Borrowed(default));
            raw_is_written |= *key == Key::Raw;
        }
        if self.source == Key::Raw && !raw_is_written {
            event.raw = source;
        }
        matches > 0
    }

    /// Applies the effect of one match; returns whether it replaced the event's text.
    fn write(&self, event: &mut TypedEvent, seen: &str, groups: &Groups, source: &str) -> bool {
        match &self.writes {
            MatchEffect::Nothing => {}
            MatchEffect::Fields { pairs, replaces } => {
                let fill = |template: &Template| template.fill(seen, groups, "").map(Cow::into_owned);
                let filled: Option<Vec<(String, String)>> =
                    pairs.iter().map(|(name, value)| Some((fill(name)?, fill(value)?))).collect();
                let Some(filled) = filled else { return false };
                if *replaces {
                    event.fields.clear();
                }
                filled.into_iter().for_each(|(name, value)| event.add_field(Arc::from(name), value));
            }
            MatchEffect::Key { key, template, .. } => {
                let previous = match key {
                    _ if !template.needs_previous() => String::new(),
                    Key::Raw if self.source == Key::Raw => source.to_owned(),
                    Key::Host | Key::Source | Key::Sourcetype => event.plain(key).unwrap_or_default().to_owned(),
                    key => event.read(key).into_owned(),
                };
                let Some(text) = template.fill(seen, groups, &previous) else { return false };
                event.write(key, text);
                return *key == Key::Raw;
            }
        }
        false
    }
}
