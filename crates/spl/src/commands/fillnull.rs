//! `fillnull`: fills missing values with a default.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("fillnull", &["value"]);

/// `fillnull [value=TEXT] [FIELD...]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FillNullCommand {
    /// `value=` (default `0`): text that replaces missing values.
    pub value: String,
    /// Fields; if empty, all known fields.
    pub fields: Vec<FieldPattern>,
}

impl Syntax for FillNullCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "fillnull [value=TEXT] [FIELD...]",
        summary: "Fills missing values",
        group: Group::Fields,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<FillNullCommand> {
        let mut command = FillNullCommand { value: "0".to_owned(), fields: Vec::new() };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                command.value = option.value;
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            command.fields.push(parser.expect_field("a field")?.field());
        }
        Ok(command)
    }
}

impl Semantics for FillNullCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_all(&self.fields);
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::adding(self.fields.iter().map(|field| field.text.as_str()))
    }

    fn optional_fields(&self) -> BTreeSet<String> {
        self.fields.iter().map(|field| field.text.clone()).collect()
    }

    fn kind(&self, declared: Kind) -> Kind {
        // The set of fields is known only after all rows have been read.
        if self.fields.is_empty() { declared } else { Kind::Row }
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn find_lints(&self, _: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        if let [field] = &self.fields[..]
            && field.text.parse::<f64>().is_ok()
        {
            let remark = Diagnostic::warning(format!("`{}` is read as a field", field.text), field.span);
            found.push(remark.with_hint(format!("write `fillnull value={}`", field.text)));
        }
    }
}
