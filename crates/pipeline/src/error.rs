//! Errors in the settings of a pipeline. Events never cause an error, whatever they contain.

use quarry_conf::PropsSettings;
use quarry_event::TimeError;
use quarry_stdx::{ErrorKind, Fault, HasKind};
use thiserror::Error;

use crate::pattern::Pattern;

/// A setting with which a pipeline cannot be built.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PipelineError {
    /// A pattern that neither of the two regex engines can compile.
    #[error("{setting} of [{sourcetype}]: \"{pattern}\" is not a valid pattern ({reason}); correct it in props.conf")]
    Pattern {
        /// The setting with the pattern.
        setting: &'static str,
        /// The sourcetype for which the setting was resolved, or the stanza that was checked.
        sourcetype: String,
        /// The pattern.
        pattern: String,
        /// The engine's message.
        reason: String,
    },
    /// A time format with an unknown directive.
    #[error("TIME_FORMAT of [{sourcetype}]: {reason}; correct it in props.conf")]
    TimeFormat {
        /// The sourcetype for which the setting was resolved, or the stanza that was checked.
        sourcetype: String,
        /// Fault of the format.
        reason: TimeError,
    },
    /// An index-time rule that cannot be executed.
    #[error("{} of [{}]: \"{}\": {}; correct it in {}", .0.setting, .0.rule, .0.text, .0.reason, .0.file)]
    Rule(Box<InvalidRule>),
    /// An unknown character set.
    #[error(
        "CHARSET of [{sourcetype}]: unknown character set \"{charset}\"; use a name such as UTF-8, \
         UTF-16LE, ISO-8859-1, WINDOWS-1252, SHIFT-JIS or AUTO"
    )]
    Charset {
        /// The sourcetype for which the setting was resolved, or the stanza that was checked.
        sourcetype: String,
        /// The unknown name.
        charset: String,
    },
    /// An unknown time zone.
    #[error("{setting} of [{sourcetype}]: unknown time zone \"{zone}\"; use a name such as Europe/Berlin")]
    Zone {
        /// The setting with the zone: `TZ` or `TZ_ALIAS`.
        setting: &'static str,
        /// The sourcetype for which the setting was resolved, or the stanza that was checked.
        sourcetype: String,
        /// The unknown zone.
        zone: String,
    },
}

/// The parts of [`PipelineError::Rule`], in a box to keep the error small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRule {
    /// Stanza with the rule.
    pub rule: String,
    /// Name of the file, without its folder.
    pub file: &'static str,
    /// The setting with the fault.
    pub setting: String,
    /// Value of the setting.
    pub text: String,
    /// Description of the fault.
    pub reason: String,
}

impl HasKind for PipelineError {
    /// Every error of a pipeline is a fault of its settings.
    fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

impl PipelineError {
    /// Error in a setting of a rule.
    pub(crate) fn of_rule(file: &'static str, rule: &str, setting: &str, text: &str, reason: &Fault) -> PipelineError {
        let (rule, setting, text, reason) = (rule.to_owned(), setting.to_owned(), text.to_owned(), reason.to_string());
        PipelineError::Rule(Box::new(InvalidRule { rule, file, setting, text, reason }))
    }

    /// Compiles the pattern of a setting, if the setting has one.
    pub(crate) fn pattern(
        settings: &PropsSettings,
        setting: &'static str,
        pattern: Option<&str>,
    ) -> Result<Option<Pattern>, PipelineError> {
        let compile = |pattern: &str| {
            Pattern::new(pattern).map_err(|reason| PipelineError::of_pattern(settings, setting, pattern, &reason))
        };
        pattern.filter(|pattern| !pattern.is_empty()).map(compile).transpose()
    }

    pub(crate) fn of_pattern(
        settings: &PropsSettings,
        setting: &'static str,
        pattern: &str,
        reason: &Fault,
    ) -> PipelineError {
        let (sourcetype, pattern, reason) = (settings.sourcetype.clone(), pattern.to_owned(), reason.to_string());
        PipelineError::Pattern { setting, sourcetype, pattern, reason }
    }
}
