//! `from`: a data model, a lookup table or a saved search as a data set.

use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{DataModelName, Span, Stage};
use crate::diagnostic::Diagnostic;
use crate::needs::Needs;
use crate::parse::{Parser, Read};

/// `from`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromCommand {
    /// `datamodel:MODEL.OBJECT`.
    DataModel(DataModelName),
    /// `pivot`: an object of a data model, and the fields it must have, each with its position.
    Pivot(DataModelName, Vec<(String, Span)>),
    /// `lookup:NAME`, `inputlookup:NAME`.
    Lookup(String, Span),
    /// `savedsearch:NAME`.
    SavedSearch(String, Span),
    /// `searchtxn`: transactions of a stanza of transactiontypes.conf.
    Transactions(SearchTxnCommand),
}

/// `searchtxn`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchTxnCommand {
    /// Stanza of transactiontypes.conf.
    pub kind: String,
    /// Its place.
    pub span: Span,
    /// `max_terms=1000`: maximum number of events whose values become search terms.
    pub terms_max: usize,
    /// `use_disjunct=t`: whether one common value is enough.
    pub any: bool,
    /// `eventsonly=f`: returns the events instead of the transactions.
    pub events_only: bool,
    /// Condition on the transactions, as written.
    pub condition: String,
}

impl Syntax for FromCommand {
    const INFO: CommandInfo = CommandInfo {
        names: &["from"],
        syntax: "from datamodel:MODEL.OBJECT | lookup:NAME | savedsearch:NAME",
        summary: "Reads a data set by its name",
        group: Group::Searching,
        kind: Kind::Generating,
        ..CommandInfo::DEFAULT
    };

    /// `TYPE:NAME` with the name quoted or not, or `TYPE NAME`.
    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<FromCommand> {
        parser.skip_blank();
        let start = parser.pos;
        // The whole argument may be quoted.
        let quoted = parser.peek() == Some('"');
        if quoted {
            parser.bump();
        }
        let kind = parser.peek_name().to_ascii_lowercase();
        parser.pos += kind.len();
        let known = matches!(kind.as_str(), "datamodel" | "lookup" | "inputlookup" | "savedsearch");
        if !known {
            parser.pos = start;
            let remark = Diagnostic::error(format!("from: unexpected {}", parser.found()), parser.here());
            return Err(remark.with_hint("write from datamodel:NAME, lookup:NAME or savedsearch:NAME"));
        }
        if !parser.eat(':') {
            parser.eat('=');
        }
        let command = match kind.as_str() {
            "datamodel" => FromCommand::DataModel(parser.data_model_name()?),
            "savedsearch" => {
                let word = parser.expect_field("the name of a saved search")?;
                FromCommand::SavedSearch(word.text, word.span)
            }
            _ => {
                let word = parser.expect_field("the name of a lookup")?;
                FromCommand::Lookup(word.text, word.span)
            }
        };
        if quoted {
            parser.eat('"');
        }
        Ok(command)
    }
}

impl Semantics for FromCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn begins_with(&self) -> Beginning<'_> {
        match self {
            FromCommand::DataModel(name) => Beginning::DataModel(name),
            // Others turn these into a table.
            FromCommand::Pivot(..) => Beginning::Rows,
            FromCommand::Lookup(..) => Beginning::LookupTable,
            FromCommand::SavedSearch(name, _) => Beginning::SavedSearch(name),
            FromCommand::Transactions(_) => Beginning::Transactions,
        }
    }

    fn add_needs(&self, _: &[Stage], needs: &mut Needs) {
        match self {
            FromCommand::DataModel(name) | FromCommand::Pivot(name, _) => needs.add_model(name),
            FromCommand::Lookup(name, _) => needs.add_lookup(name),
            FromCommand::SavedSearch(name, _) => drop(needs.saved_searches.insert(name.clone())),
            FromCommand::Transactions(_) => {}
        }
    }
}
