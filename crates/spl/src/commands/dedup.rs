//! `dedup`: keeps the first rows for each combination of values.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{FieldPattern, SortKey};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("dedup", &["keepevents", "keepempty", "consecutive"]);

/// `dedup [N] FIELD... [sortby KEY...]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DedupCommand {
    /// Rows kept per combination.
    pub count: usize,
    /// Fields of the combination.
    pub fields: Vec<FieldPattern>,
    /// `keepevents=` (default `f`): whether duplicate rows are kept, with the fields of the combination cleared.
    pub keep_events: bool,
    /// `keepempty=` (default `f`): whether rows that lack a field are kept.
    pub keep_empty: bool,
    /// `consecutive=` (default `f`): whether only consecutive duplicates are dropped.
    pub consecutive: bool,
    /// `sortby`.
    pub sort_by: Vec<SortKey>,
}

impl Syntax for DedupCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "dedup [N] FIELD... [keepevents=] [keepempty=] [consecutive=] [sortby KEY...]",
        summary: "Drops repeated rows",
        group: Group::Searching,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<DedupCommand> {
        let mut command = DedupCommand::default();
        parser.skip_blank();
        let number = parser.here();
        if let Some(count) = parser.row_count("dedup")? {
            if count == 0 {
                return Err(Diagnostic::error("dedup: the number must be at least 1", number));
            }
            command.count = count;
        }
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "keepevents" => command.keep_events = option.boolean()?,
                    "keepempty" => command.keep_empty = option.boolean()?,
                    _ => command.consecutive = option.boolean()?,
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.eat_keyword("sortby") {
                (command.sort_by, _) = parser.sort_keys("dedup")?;
            } else {
                command.fields.push(parser.expect_field("a field")?.field());
            }
        }
        if command.fields.is_empty() {
            return Err(Diagnostic::error("dedup: no field is given", parser.here()));
        }
        Ok(command)
    }
}

impl Default for DedupCommand {
    fn default() -> DedupCommand {
        DedupCommand {
            count: 1,
            fields: Vec::new(),
            keep_events: false,
            keep_empty: false,
            consecutive: false,
            sort_by: Vec::new(),
        }
    }
}

impl Semantics for DedupCommand {
    fn find_lints(&self, _: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        if let [first, next, ..] = &self.fields[..]
            && first.text == "by"
        {
            let remark = Diagnostic::warning("`by` is read as a field", first.span);
            found.push(remark.with_hint(format!("write `dedup {}`", next.text)));
        }
    }

    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_all(self.fields.iter().chain(self.sort_by.iter().map(|key| &key.field)));
        after
    }

    fn guarantees_read_fields(&self) -> bool {
        true
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }

    fn kind(&self, declared: Kind) -> Kind {
        if self.sort_by.is_empty() { Kind::OrderedRow } else { declared }
    }
}
