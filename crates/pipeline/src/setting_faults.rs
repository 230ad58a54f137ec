//! Skips, one by one, the invalid settings of a source whose data cannot wait until they are corrected.
//!
//! A file can wait until its settings are corrected. Data from the network or a program cannot wait: if refused, it is
//! lost or resent repeatedly. As in Splunk, such data is therefore processed as if the unusable settings were absent,
//! and the first unusable setting is reported.

use quarry_conf::{PropsSettings, TypingSettings};

use crate::PipelineError;

/// Maximum number of attempts to build a value, each with one more setting skipped; if all fail, no value is built.
const SKIPPED_SETTINGS_MAX: usize = 64;

/// Builds a value from settings, skipping unusable ones; also returns the error of the first skipped setting. `None`
/// if no value can be built.
pub(crate) fn build_lenient<S, T>(
    mut settings: S,
    make: impl Fn(&S) -> Result<T, PipelineError>,
    skip_faulty: impl Fn(&mut S, &PipelineError) -> bool,
) -> (Option<T>, Option<PipelineError>) {
    let mut first = None;
    for _ in 0..SKIPPED_SETTINGS_MAX {
        match make(&settings) {
            Ok(made) => return (Some(made), first),
            Err(error) => {
                let is_skipped = skip_faulty(&mut settings, &error);
                first.get_or_insert(error);
                if !is_skipped {
                    break;
                }
            }
        }
    }
    (None, first)
}

/// Removes the setting to which an error refers; false if there is no such setting.
pub(crate) fn remove_setting(settings: &mut PropsSettings, error: &PipelineError) -> bool {
    match error {
        PipelineError::TimeFormat { .. } => settings.time_format.take().is_some(),
        PipelineError::Charset { .. } => !std::mem::take(&mut settings.charset).is_empty(),
        PipelineError::Zone { setting: "TZ", .. } => settings.tz.take().is_some(),
        PipelineError::Zone { zone, .. } => {
            let aliases = settings.zone_aliases.len();
            settings.zone_aliases.retain(|(_, meant)| meant != zone);
            settings.zone_aliases.len() < aliases
        }
        PipelineError::Rule(_) => remove_rule_setting(&mut settings.typing, error),
        PipelineError::Pattern { setting, pattern, .. } => {
            let header = settings.header.as_mut();
            match *setting {
                "LINE_BREAKER" => !std::mem::take(&mut settings.line_breaker).is_empty(),
                "TIME_PREFIX" => settings.time_prefix.take().is_some(),
                "BREAK_ONLY_BEFORE" => settings.break_only_before.take().is_some(),
                "MUST_BREAK_AFTER" => settings.must_break_after.take().is_some(),
                "MUST_NOT_BREAK_AFTER" => settings.must_not_break_after.take().is_some(),
                "MUST_NOT_BREAK_BEFORE" => settings.must_not_break_before.take().is_some(),
                "PREAMBLE_REGEX" => header.is_some_and(|header| header.preamble.take().is_some()),
                "FIELD_HEADER_REGEX" => header.is_some_and(|header| header.header_pattern.take().is_some()),
                "MISSING_VALUE_REGEX" => header.is_some_and(|header| header.missing.take().is_some()),
                _ => remove_rules(&mut settings.typing, |of_rule, _| of_rule == Some(pattern.as_str())),
            }
        }
    }
}

/// Removes the `SEDCMD-` setting or the rule to which an error refers; false if there is none.
pub(crate) fn remove_rule_setting(typing: &mut TypingSettings, error: &PipelineError) -> bool {
    let PipelineError::Rule(wrong) = error else { return false };
    let commands = typing.sed.len();
    typing.sed.retain(|(class, _)| wrong.setting.strip_prefix("SEDCMD-") != Some(class.as_str()));
    let is_skipped = typing.sed.len() < commands || remove_rules(typing, |_, name| name == wrong.rule);
    // The setting may belong to a sourcetype to which `CLONE_SOURCETYPE` copies events; then all rules with
    // `CLONE_SOURCETYPE` are removed.
    is_skipped || {
        let copies = typing.rules().any(|rule| rule.clone_sourcetype.is_some());
        let of_class = typing.transforms.iter_mut().chain(&mut typing.rulesets);
        of_class.for_each(|class| class.rules.retain(|rule| rule.clone_sourcetype.is_none()));
        copies
    }
}

/// Removes the rules that `is_it` accepts, given their pattern and name; false if there are none.
fn remove_rules(typing: &mut TypingSettings, is_it: impl Fn(Option<&str>, &str) -> bool) -> bool {
    let before = typing.rules().count();
    for class in typing.transforms.iter_mut().chain(&mut typing.rulesets) {
        class.rules.retain(|rule| !is_it(rule.pattern.as_deref(), &rule.name));
    }
    typing.rules().count() < before
}
