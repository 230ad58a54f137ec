//! `erex`: extracts a field by a regular expression learnt from examples.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("erex", &["examples", "counterexamples", "fromfield", "maxtrainers"]);

/// `erex`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErexCommand {
    /// Output field.
    pub output: String,
    /// `fromfield=` (default `_raw`): field with the text.
    pub field: String,
    /// `examples=`: values to extract.
    pub examples: Vec<String>,
    /// `counterexamples=`: values that must not be extracted.
    pub counterexamples: Vec<String>,
    /// `maxtrainers=` (default `100`): maximum rows to learn from.
    pub rows: usize,
    /// Position of the examples.
    pub span: Span,
}

impl Syntax for ErexCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "erex FIELD examples=\"A, B\" [counterexamples=TEXT] [fromfield=FIELD]",
        summary: "Extracts a field, given examples of its values",
        group: Group::Fields,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ErexCommand> {
        let mut command = ErexCommand {
            output: String::new(),
            field: "_raw".to_owned(),
            examples: Vec::new(),
            counterexamples: Vec::new(),
            rows: 100,
            span: parser.here(),
        };
        let listed = |text: &str| -> Vec<String> {
            text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
        };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "examples" => {
                        command.examples = listed(&option.value);
                        command.span = option.value_span;
                    }
                    "counterexamples" => command.counterexamples = listed(&option.value),
                    "fromfield" => command.field = option.value,
                    _ => command.rows = option.number::<usize>()?.clamp(1, 1_000),
                }
            }
            match parser.next_field() {
                Some(field) if command.output.is_empty() => command.output = field.text,
                Some(field) => {
                    return Err(Diagnostic::error(format!("erex: unexpected `{}`", field.text), field.span));
                }
                None => break,
            }
        }
        if command.examples.is_empty() {
            let remark = Diagnostic::error("erex: no examples= are given", parser.here());
            return Err(remark.with_hint("write `erex port examples=\"80, 443\"`"));
        }
        if command.output.is_empty() {
            command.output = "field".to_owned();
        }
        Ok(command)
    }
}

impl Semantics for ErexCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}
