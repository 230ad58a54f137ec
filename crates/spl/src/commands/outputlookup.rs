//! `outputlookup`: writes rows to a lookup table.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Effect, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionArg, OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new(
    "outputlookup",
    &["append", "create_context", "create_empty", "createinapp", "csv_safe", "key_field", "max", "override_if_empty"],
)
.ignoring(&["output_format", "allow_updates", "dispatch", "singlefile", "usexml"]);

/// Location of the file of a new table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableContext {
    /// In the app of the search.
    App,
    /// In the user's own files of that app, which nobody else sees.
    User,
    /// Outside of apps.
    System,
}

/// `outputlookup`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLookupCommand {
    /// Name as written: `outputlookup` or `outputcsv`.
    pub name: String,
    /// Table: a transforms.conf stanza or a CSV file name.
    pub table: String,
    /// Position of the table's name.
    pub table_span: Span,
    /// `append=` (default `f`): whether rows are added to the existing rows.
    pub append: bool,
    /// `create_empty=` (default `t`): whether an empty result creates a missing table.
    pub create_empty: bool,
    /// `override_if_empty=` (default `t`): whether an empty result empties the table.
    pub override_if_empty: bool,
    /// `create_context=`, or else `createinapp=`: where a new file is created; an existing file is written in place.
    pub context: Option<TableContext>,
    /// `max=`: maximum rows written.
    pub max: Option<usize>,
    /// `key_field=`: existing rows with the same value in this field are replaced.
    pub key_field: Option<String>,
    /// `csv_safe=` (default `f`): whether new cells that a spreadsheet would read as formulas are prefixed with an
    /// apostrophe; not in Splunk.
    pub safe: bool,
}

impl Syntax for OutputLookupCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "outputlookup [append=] [key_field=] [override_if_empty=] [csv_safe=] TABLE",
        summary: "Writes the rows to a lookup table",
        group: Group::Storing,
        capability: Some("output_file"),
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<OutputLookupCommand> {
        let mut command = OutputLookupCommand {
            name: "outputlookup".to_owned(),
            table: String::new(),
            table_span: parser.here(),
            append: false,
            create_empty: true,
            override_if_empty: true,
            context: None,
            max: None,
            key_field: None,
            safe: false,
        };
        let mut in_app = None;
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "append" => command.append = option.boolean()?,
                    "create_empty" => command.create_empty = option.boolean()?,
                    "override_if_empty" => command.override_if_empty = option.boolean()?,
                    "create_context" => command.context = Some(context_of(&option)?),
                    "createinapp" => {
                        in_app = Some(if option.boolean()? { TableContext::App } else { TableContext::System });
                    }
                    "max" => command.max = Some(option.number()?),
                    "csv_safe" => command.safe = option.boolean()?,
                    _ => command.key_field = Some(option.value),
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            let word = parser.expect_field("a lookup table")?;
            if !command.table.is_empty() {
                return Err(Diagnostic::error(format!("outputlookup: unexpected `{}`", word.text), word.span));
            }
            (command.table, command.table_span) = (word.text, word.span);
        }
        if command.table.is_empty() {
            return Err(Diagnostic::error("outputlookup: no lookup table is given", parser.here()));
        }
        command.context = command.context.or(in_app);
        Ok(command)
    }
}

fn context_of(option: &OptionArg) -> ParseResult<TableContext> {
    match option.value.to_ascii_lowercase().as_str() {
        "app" => Ok(TableContext::App),
        "user" => Ok(TableContext::User),
        "system" => Ok(TableContext::System),
        _ => Err(option.invalid_value("app, user or system")),
    }
}

impl Semantics for OutputLookupCommand {
    fn effect(&self) -> Option<Effect<'_>> {
        Some(Effect::Table(&self.table, self.context))
    }

    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.all = true;
        after
    }

    fn name<'a>(&'a self, _: &'a str) -> &'a str {
        &self.name
    }
}
