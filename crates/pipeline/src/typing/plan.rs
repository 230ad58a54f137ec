//! Compiled rules of one source, host and sourcetype.

use std::sync::Arc;

use quarry_conf::{IndexRule, PropsResolver, RuleClass, TypingSettings};
use quarry_event::time::NS_PER_SEC;
use quarry_event::{ExpressionCompiler, TimeNs};
use quarry_stdx::Fault;

use super::event::TypedEvent;
use super::rule::Rule;
use super::sed::{self, Sed};
use crate::error::PipelineError;
use crate::setting_faults;

/// Maximum nesting of copies of events (`CLONE_SOURCETYPE`); deeper copies are not made.
const COPY_DEPTH_MAX: usize = 8;
/// Maximum number of plans for the copies that CLONE_SOURCETYPE makes of the events of one source; a rule that needs
/// more is invalid.
const PLANS_MAX: usize = 256;

/// Rules applied to an event after timestamp recognition: sed commands, transforms, rule sets.
#[derive(Debug, Default)]
pub struct TypingPlan {
    sed: Vec<Sed>,
    transforms: Vec<Vec<Rule>>,
    rulesets: Vec<Vec<Rule>>,
    drop_older_than: Option<TimeNs>,
    /// The error of the first skipped setting.
    pub(crate) problem: Option<PipelineError>,
}

impl TypingPlan {
    /// The plan for one source, host and sourcetype.
    pub fn new(
        props: &PropsResolver,
        source: &str,
        host: &str,
        sourcetype: &str,
        settings: &TypingSettings,
    ) -> Result<TypingPlan, PipelineError> {
        let chain = vec![sourcetype.to_owned()];
        let mut compiler = Compiler { props, source, host, chain, plans: 0 };
        compiler.plan(settings)
    }

    /// Like [`TypingPlan::new`], but skips unusable settings.
    pub(crate) fn new_lenient(
        props: &PropsResolver,
        source: &str,
        host: &str,
        sourcetype: &str,
        settings: &TypingSettings,
    ) -> TypingPlan {
        let make = |settings: &TypingSettings| TypingPlan::new(props, source, host, sourcetype, settings);
        let (made, problem) =
            setting_faults::build_lenient(settings.clone(), make, setting_faults::remove_rule_setting);
        TypingPlan { problem, ..made.unwrap_or_default() }
    }

    /// The error of the first skipped setting.
    pub fn settings_error(&self) -> Option<&PipelineError> {
        self.problem.as_ref()
    }

    /// Whether the plan does nothing.
    pub fn is_empty(&self) -> bool {
        self.sed.is_empty() && self.transforms.is_empty() && self.rulesets.is_empty() && self.drop_older_than.is_none()
    }

    /// Whether the plan has rules that are applied again to events already processed by another node.
    pub fn has_rulesets(&self) -> bool {
        !self.rulesets.is_empty()
    }

    /// Runs all rules; finished copies that rules make are appended to `copies`.
    pub(crate) fn run(&self, event: &mut TypedEvent, copies: &mut Vec<TypedEvent>, now: TimeNs) {
        if self.drop_older_than.is_some_and(|age| event.time < now.saturating_sub(age)) {
            event.is_dropped = true;
        }
        if let std::borrow::Cow::Owned(text) = sed::apply_all(&self.sed, &event.raw) {
            event.set_raw(text);
        }
        run_classes(&self.transforms, event, copies, now);
        self.run_rulesets(event, copies, now);
    }

    /// Runs the rules that are applied again to events already processed by another node.
    pub(crate) fn run_rulesets(&self, event: &mut TypedEvent, copies: &mut Vec<TypedEvent>, now: TimeNs) {
        run_classes(&self.rulesets, event, copies, now);
    }
}

fn run_classes(classes: &[Vec<Rule>], event: &mut TypedEvent, copies: &mut Vec<TypedEvent>, now: TimeNs) {
    for class in classes {
        for rule in class {
            if rule.run(event, copies, now) {
                break;
            }
        }
    }
}

/// Compiles the plan of an event and the plans of the copies that its rules make of the event.
pub(crate) struct Compiler<'a> {
    props: &'a PropsResolver,
    source: &'a str,
    host: &'a str,
    /// Sourcetypes from that of the event to that of the copy whose plan is being compiled.
    chain: Vec<String>,
    plans: usize,
}

impl<'a> Compiler<'a> {
    pub(crate) fn expressions(&self) -> Option<&'a dyn ExpressionCompiler> {
        self.props.expressions()
    }

    fn plan(&mut self, settings: &TypingSettings) -> Result<TypingPlan, PipelineError> {
        let sed = |(class, text): &(String, String)| {
            let stanza = self.chain.last().map_or("", String::as_str);
            let setting = format!("SEDCMD-{class}");
            Sed::new(text).map_err(|reason| PipelineError::of_rule("props.conf", stanza, &setting, text, &reason))
        };
        Ok(TypingPlan {
            sed: settings.sed.iter().map(sed).collect::<Result<_, _>>()?,
            transforms: self.classes(&settings.transforms)?,
            rulesets: self.classes(&settings.rulesets)?,
            drop_older_than: settings
                .drop_older_than_seconds
                .map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(NS_PER_SEC)),
            problem: None,
        })
    }

    fn classes(&mut self, classes: &[RuleClass]) -> Result<Vec<Vec<Rule>>, PipelineError> {
        let class = |class: &RuleClass| class.rules.iter().map(|rule| Rule::new(rule, self)).collect();
        classes.iter().map(class).collect()
    }

    /// The plan for a copy with this sourcetype; `None` if a copy would copy itself, or copies are nested too deeply.
    pub(crate) fn copy(&mut self, rule: &IndexRule, sourcetype: &str) -> Result<Option<TypingPlan>, PipelineError> {
        if self.chain.iter().any(|known| known == sourcetype) || self.chain.len() > COPY_DEPTH_MAX {
            return Ok(None);
        }
        self.plans += 1;
        if self.plans > PLANS_MAX {
            let reason = Fault::invalid(format!("copies of copies need more than {PLANS_MAX} sets of rules"));
            let (file, setting) = ("transforms.conf", "CLONE_SOURCETYPE");
            return Err(PipelineError::of_rule(file, &rule.name, setting, sourcetype, &reason));
        }
        let settings = self.props.resolve(self.source, self.host, sourcetype).typing;
        self.chain.push(sourcetype.to_owned());
        let plan = self.plan(&settings);
        self.chain.pop();
        plan.map(Some)
    }
}

/// A plan shared by all events with equal settings.
pub(crate) type SharedPlan = Arc<TypingPlan>;
