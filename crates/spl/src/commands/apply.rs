//! `apply`: applies a learnt model to the rows.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{LearnOption, ModelName, Stage};
use crate::dependencies::Dependencies;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

/// Options of all algorithms. When the model is read, options that its algorithm lacks are refused.
const OPTIONS: OptionNames =
    OptionNames::new("apply", &["lower_threshold", "probabilities", "show_density", "threshold", "upper_threshold"]);

/// `apply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyCommand {
    /// Name of a stored model.
    pub model: ModelName,
    /// `as`: name of the output field.
    pub output: Option<String>,
    /// Options that override those of `fit`.
    pub options: Vec<LearnOption>,
}

impl Syntax for ApplyCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "apply [app:]MODEL [as NEW] [OPTION=VALUE]...",
        summary: "Applies a model to the rows",
        group: Group::Patterns,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ApplyCommand> {
        let model = parser.model_name("apply")?;
        let (mut output, mut options) = (None, Vec::new());
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                options.push(LearnOption { name: option.name, value: option.value, span: option.value_span });
            }
            parser.skip_separators();
            if parser.at_end() {
                return Ok(ApplyCommand { model, output, options });
            }
            if parser.eat_keyword("as") {
                output = Some(parser.expect_field("the name of a field")?.text);
            } else {
                let word = parser.expect_field("`as` or an option")?;
                return Err(Diagnostic::error(format!("apply: unexpected `{}`", word.text), word.span));
            }
        }
    }
}

impl Semantics for ApplyCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        // Only the model knows the fields that it reads.
        after.all = true;
        after
    }

    fn add_dependencies(&self, _: &[Stage], needs: &mut Dependencies) {
        needs.models.insert(self.model.text.clone());
    }
}
