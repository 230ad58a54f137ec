//! `sendalert`: passes rows to an alert action of an app.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Effect, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("sendalert", &["results_link", "results_path", "param.name"]);

/// `sendalert`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendAlertCommand {
    /// Stanza of alert_actions.conf.
    pub action: String,
    /// Position of the name.
    pub action_span: Span,
    /// `results_link=`: address where the results can be viewed.
    pub results_link: Option<String>,
    /// `results_path=`: an existing file with results, used instead of writing a new file.
    pub results_path: Option<String>,
    /// `param.NAME=VALUE` without the prefix `param.`, in order; the last of several with the same name applies.
    pub parameters: Vec<(String, String)>,
}

impl Syntax for SendAlertCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "sendalert ACTION [results_link=] [param.NAME=VALUE]...",
        summary: "Passes the rows to an alert action of an app",
        group: Group::Storing,
        capability: Some("run_sendalert"),
        kind: Kind::Blocking,
        has_own_keywords: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<SendAlertCommand> {
        let (mut action, mut action_span) = (String::new(), parser.here());
        let (mut results_link, mut results_path, mut parameters) = (None, None, Vec::new());
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            let rest = parser.rest();
            let length = rest.find(|c: char| !is_parameter_char(c)).unwrap_or(rest.len());
            let written = &rest[..length];
            if length == 0 || !rest[length..].trim_start().starts_with('=') {
                let word = parser.expect_field("an alert action")?;
                if !action.is_empty() {
                    let remark = Diagnostic::error(format!("sendalert: unexpected `{}`", word.text), word.span);
                    return Err(remark.with_hint("write parameters as `param.name=\"value\"`"));
                }
                (action, action_span) = (word.text, word.span);
                continue;
            }
            let option = parser.read_option_of(length)?;
            match (option.name.as_str(), written.strip_prefix("param.").filter(|name| !name.is_empty())) {
                ("results_link", _) => results_link = Some(option.value),
                ("results_path", _) => results_path = Some(option.value),
                (_, Some(name)) => parameters.push((name.to_owned(), option.value)),
                _ => parser.report_unknown_option(OPTIONS, &option),
            }
        }
        if action.is_empty() {
            let remark = Diagnostic::error("sendalert: no alert action is given", parser.here());
            return Err(remark.with_hint("write `sendalert ACTION param.name=\"value\"`"));
        }
        Ok(SendAlertCommand { action, action_span, results_link, results_path, parameters })
    }
}

impl Semantics for SendAlertCommand {
    fn effect(&self) -> Option<Effect<'_>> {
        Some(Effect::Other)
    }

    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.all = true;
        after
    }
}

/// Whether an option name may contain this character.
fn is_parameter_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-')
}
