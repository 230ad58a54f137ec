//! `fields`: keeps or removes fields.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::{FieldNeeds, RAW, TIME};
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::lints::find_calls_in_fields;
use crate::parse::{ParseResult, Parser};

/// `fields [+|-] FIELD...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldsCommand {
    /// Whether the fields are removed (`-`) rather than kept.
    pub removes: bool,
    /// Fields to keep or remove; names may contain `*`.
    pub fields: Vec<FieldPattern>,
}

impl Syntax for FieldsCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "fields [+|-] FIELD...",
        summary: "Keeps or removes fields",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<FieldsCommand> {
        parser.skip_blank();
        let removes = parser.peek() == Some('-');
        if removes || parser.peek() == Some('+') {
            parser.bump();
        }
        parser.skip_blank();
        // An empty list keeps no field: `stats count | fields | eval …` uses it to start with an empty row.
        let fields = if !removes && parser.at_end() { Vec::new() } else { parser.field_list("fields")? };
        Ok(FieldsCommand { removes, fields })
    }
}

impl Semantics for FieldsCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        if !self.removes {
            return self.kept_of(after);
        }
        for field in self.fields.iter().filter(|field| !field.is_wildcard()) {
            after.fields.remove(&field.text);
        }
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        let names = self.fields.iter().map(|field| field.text.as_str());
        if self.removes {
            CreatedFields::renaming(names.map(|name| (name, None)))
        } else {
            CreatedFields::exactly(names)
        }
    }

    fn keeps_times(&self) -> bool {
        true
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        if !self.removes {
            find_calls_in_fields(place, &self.fields, found);
        }
    }
}

impl FieldsCommand {
    /// The fields needed before a command that keeps these fields.
    fn kept_of(&self, after: FieldNeeds) -> FieldNeeds {
        let mut kept = FieldNeeds::default();
        kept.add_all(&self.fields);
        // `fields` always keeps the text and time of events.
        kept.add(RAW);
        kept.add(TIME);
        if after.all {
            return kept;
        }
        let mut needs = FieldNeeds::default();
        needs.fields.extend(after.fields.iter().filter(|name| kept.includes(name)).cloned());
        needs.patterns = after.patterns;
        if !needs.patterns.is_empty() {
            needs.add_all(&self.fields);
        }
        needs
    }
}
