//! `chart`: aggregates by a row field and, optionally, with a column for each value of another field.

use serde::{Deserialize, Serialize};

use super::stats::kind_of_fold;
use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::{FieldNeeds, repeatability};
use crate::ast::{Aggregate, BinCommand, BinOptions, ComputedAggregate, SeriesOptions, SplitField};
use crate::diagnostic::Diagnostic;
use crate::lints::find_in_report;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new(
    "chart",
    &[
        "limit",
        "agg",
        "useother",
        "otherstr",
        "usenull",
        "nullstr",
        "sep",
        "format",
        "cont",
        "span",
        "bins",
        "minspan",
        "start",
        "end",
        "aligntime",
    ],
)
.ignoring(&["dedup_splitvals"]);

/// `chart`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChartCommand {
    /// Aggregates, at least one, including those inside `eval(...)`.
    pub aggregates: Vec<Aggregate>,
    /// `eval(...)` over aggregates, in order.
    pub computed: Vec<ComputedAggregate>,
    /// Row split (`OVER r` or the first field of `BY r c`).
    pub row: Option<SplitField>,
    /// Column split.
    pub column: Option<SplitField>,
    /// Series options.
    pub series: SeriesOptions,
    /// `cont=` (default `t`): accepted without effect.
    pub cont: bool,
}

impl Syntax for ChartCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "chart AGG... [OVER ROW] [BY ROW [COLUMN]] [limit=] [useother=] [where ...]",
        summary: "Computes a table of aggregates",
        group: Group::Reporting,
        kind: Kind::Fold,
        returns_table: true,
        clauses: &["where"],
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ChartCommand> {
        let mut command = ChartCommand {
            aggregates: Vec::new(),
            computed: Vec::new(),
            row: None,
            column: None,
            series: SeriesOptions::default(),
            cont: true,
        };
        let mut bin = BinOptions::default();
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "cont" => command.cont = option.boolean()?,
                    _ if parser.series_option(&option, &mut command.series, "chart")? => {}
                    _ => last_split(&mut command.row, &mut command.column).unwrap_or(&mut bin).take(&option)?,
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.eat_keyword("over") {
                command.row = Some(parser.split_field()?);
            } else if parser.eat_keyword("by") {
                parser.chart_splits(&mut command)?;
            } else if parser.eat_keyword("where") {
                command.series.filter = Some(parser.series_filter("chart", &command.aggregates)?);
            } else {
                parser.chart_aggregate("chart", &mut command.aggregates, &mut command.computed)?;
            }
        }
        if let Some(row) = &mut command.row
            && row.bin == BinOptions::default()
        {
            row.bin = bin;
        }
        parser.require_chart(command.aggregates.is_empty(), "chart")?;
        Ok(command)
    }
}

impl Semantics for ChartCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        let mut needs = FieldNeeds::default();
        needs.add_aggregates(&self.aggregates);
        needs.add_all(self.splits().map(|split| &split.field));
        needs
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        let row = self.row.iter().map(|row| row.field.text.as_str());
        let is_plain = self.column.is_none() && self.computed.is_empty();
        if is_plain {
            CreatedFields::exactly(self.aggregates.iter().map(|aggregate| aggregate.name.as_str()).chain(row))
        } else {
            None
        }
    }

    fn kind(&self, declared: Kind) -> Kind {
        match self.bins().all(|bin| bin.kind(Kind::Blocking) == Kind::Row) {
            true => kind_of_fold(&self.aggregates, declared),
            false => Kind::Blocking,
        }
    }

    fn is_repeatable(&self) -> bool {
        repeatability::are_repeatable(&self.aggregates)
            && repeatability::is_split_aligned(&self.row)
            && repeatability::is_split_aligned(&self.column)
    }

    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        find_in_report(place.text, &self.aggregates, found);
    }
}

impl ChartCommand {
    /// The split fields of rows and columns.
    fn splits(&self) -> impl Iterator<Item = &SplitField> {
        self.row.iter().chain(&self.column)
    }

    /// The `bin` commands for the split fields, which run before the chart.
    pub fn bins(&self) -> impl Iterator<Item = BinCommand> {
        self.splits().filter_map(SplitField::bin_command)
    }
}

impl Parser<'_> {
    /// Parses the fields after BY: the row field unless OVER named it, then the column field.
    fn chart_splits(&mut self, command: &mut ChartCommand) -> ParseResult<()> {
        loop {
            let split = self.split_field()?;
            if command.row.is_none() {
                command.row = Some(split);
            } else if command.column.is_none() {
                command.column = Some(split);
            } else {
                let remark = Diagnostic::error("chart: more than one row and one column field", split.field.span);
                return Err(remark.with_hint("use stats for more fields"));
            }
            self.skip_separators();
            let split_follows = !self.at_end() && !self.at_keyword("where") && self.peek_option().is_none();
            if !split_follows {
                return Ok(());
            }
        }
    }
}

/// Binning options of the split field that was parsed last.
fn last_split<'a>(row: &'a mut Option<SplitField>, column: &'a mut Option<SplitField>) -> Option<&'a mut BinOptions> {
    column.as_mut().or(row.as_mut()).map(|split| &mut split.bin)
}
