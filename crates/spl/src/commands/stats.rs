//! `stats`: aggregates groups of rows.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::{FieldNeeds, repeatability};
use crate::ast::{Aggregate, DependsOn, FieldPattern};
use crate::diagnostic::Diagnostic;
use crate::lints::find_in_report;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("stats", &["allnum", "delim", "dedup_splitvals"]).ignoring(&["partitions", "prestats"]);

/// `stats` and `eventstats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatsCommand {
    /// Aggregates in order.
    pub aggregates: Vec<Aggregate>,
    /// BY fields.
    pub by: Vec<FieldPattern>,
    /// `allnum=`: whether numeric functions require all values to be numbers.
    pub all_num: bool,
    /// `delim=`: delimiter of multivalue results.
    pub delim: String,
    /// `dedup_splitvals=`: whether duplicate values of a BY field count once.
    pub dedup_split_values: bool,
}

impl Syntax for StatsCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "stats AGG... [BY FIELD...]",
        summary: "Computes aggregates of all rows or of groups",
        group: Group::Reporting,
        kind: Kind::Fold,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<StatsCommand> {
        parser.stats(OPTIONS)
    }
}

impl Semantics for StatsCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        let mut needs = FieldNeeds::default();
        needs.add_aggregates(&self.aggregates);
        needs.add_all(&self.by);
        needs
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        let names = self.aggregates.iter().map(|aggregate| aggregate.name.as_str());
        let by = self.by.iter().map(|field| field.text.as_str());
        if self.all_num { None } else { CreatedFields::exactly(names.chain(by)) }
    }

    fn kind(&self, declared: Kind) -> Kind {
        kind_of_fold(&self.aggregates, declared)
    }

    fn is_repeatable(&self) -> bool {
        repeatability::are_repeatable(&self.aggregates)
    }

    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        find_in_report(place.text, &self.aggregates, found);
        let having = self.by.iter().skip(1).find(|field| field.text.eq_ignore_ascii_case("having"));
        if let Some(having) = having {
            let remark = Diagnostic::warning(format!("`{}` is read as a field", having.text), having.span);
            found.push(remark.with_hint("write `| where CONDITION` after it"));
        }
    }
}

/// The kind of a command that computes these aggregates.
pub(crate) fn kind_of_fold(aggregates: &[Aggregate], declared: Kind) -> Kind {
    if aggregates.iter().any(Aggregate::has_wildcard) {
        return Kind::Blocking;
    }
    match aggregates.iter().any(|aggregate| aggregate.function.depends_on() == DependsOn::Order) {
        true => Kind::OrderedFold,
        false => declared,
    }
}

impl Parser<'_> {
    /// Parses the options, aggregates and BY fields of `stats` and `eventstats`.
    pub(crate) fn stats(&mut self, known: OptionNames) -> ParseResult<StatsCommand> {
        let mut command = StatsCommand {
            aggregates: Vec::new(),
            by: Vec::new(),
            all_num: false,
            delim: " ".to_owned(),
            dedup_split_values: false,
        };
        loop {
            while let Some(option) = self.option(known)? {
                match option.name.as_str() {
                    "allnum" => command.all_num = option.boolean()?,
                    "delim" => command.delim = option.value,
                    _ => command.dedup_split_values = option.boolean()?,
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.eat_keyword("by") {
                command.by = self.by_fields(known)?;
            } else {
                command.aggregates.push(self.aggregate(known.command)?);
            }
        }
        self.require_aggregates(&command.aggregates, known.command)?;
        Ok(command)
    }
}
