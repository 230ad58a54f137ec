//! `timechart`: aggregates per time span, optionally with a column for each value of a field.

use serde::{Deserialize, Serialize};

use super::stats::kind_of_fold;
use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::{FieldNeeds, TIME, repeatability};
use crate::ast::{Aggregate, BinCommand, BinOptions, BinSpan, ComputedAggregate, SeriesOptions, SplitField};
use crate::diagnostic::Diagnostic;
use crate::lints::find_in_report;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new(
    "timechart",
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
        "fixedrange",
        "partial",
    ],
)
.ignoring(&["dedup_splitvals"]);

/// `timechart`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeChartCommand {
    /// Aggregates, at least one, including those inside `eval(...)`.
    pub aggregates: Vec<Aggregate>,
    /// `eval(...)` over aggregates, in order.
    pub computed: Vec<ComputedAggregate>,
    /// Column split.
    pub column: Option<SplitField>,
    /// Series options.
    pub series: SeriesOptions,
    /// Time binning (`span=`, `bins=`, `minspan=`, `aligntime=`).
    pub bin: BinOptions,
    /// `cont=` (default `t`): whether spans without rows are shown.
    pub cont: bool,
    /// `fixedrange=` (default `t`): whether the whole time range of the search is shown.
    pub fixed_range: bool,
    /// `partial=` (default `t`): whether incomplete spans at the edges of the range are kept.
    pub partial: bool,
}

impl Syntax for TimeChartCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "timechart [span=] [limit=] [useother=] AGG... [BY FIELD] [where ...]",
        summary: "Computes aggregates over time",
        group: Group::Reporting,
        kind: Kind::Fold,
        returns_table: true,
        clauses: &["where"],
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TimeChartCommand> {
        let mut command = TimeChartCommand::default();
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "cont" => command.cont = option.boolean()?,
                    "fixedrange" => command.fixed_range = option.boolean()?,
                    "partial" => command.partial = option.boolean()?,
                    _ if parser.series_option(&option, &mut command.series, "timechart")? => {}
                    _ => command.column.as_mut().map_or(&mut command.bin, |split| &mut split.bin).take(&option)?,
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.eat_keyword("by") {
                if command.column.is_some() {
                    return Err(Diagnostic::error("timechart: BY is given twice", parser.here()));
                }
                command.column = Some(parser.split_field()?);
                parser.one_split_only()?;
            } else if parser.eat_keyword("where") {
                command.series.filter = Some(parser.series_filter("timechart", &command.aggregates)?);
            } else {
                parser.chart_aggregate("timechart", &mut command.aggregates, &mut command.computed)?;
            }
        }
        // A time span after BY can only be meant for the time axis.
        if command.bin.span.is_none()
            && let Some(split) = &mut command.column
            && matches!(split.bin.span, Some(BinSpan::Time(_)))
        {
            command.bin.span = split.bin.span.take();
        }
        // If the split field is `_time`, the series are the rows' own times, without binning.
        if let Some(split) = command.column.as_mut().filter(|split| split.field.text == TIME) {
            split.bin = BinOptions::default();
        }
        parser.require_chart(command.aggregates.is_empty(), "timechart")?;
        Ok(command)
    }
}

impl Default for TimeChartCommand {
    fn default() -> TimeChartCommand {
        TimeChartCommand {
            aggregates: Vec::new(),
            computed: Vec::new(),
            column: None,
            series: SeriesOptions::default(),
            bin: BinOptions::default(),
            cont: true,
            fixed_range: true,
            partial: true,
        }
    }
}

impl Semantics for TimeChartCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        let mut needs = FieldNeeds::default();
        needs.add_aggregates(&self.aggregates);
        needs.add_all(self.column.iter().map(|split| &split.field));
        needs.add(TIME);
        needs
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        let is_plain = self.column.is_none() && self.computed.is_empty();
        if is_plain {
            CreatedFields::exactly(self.aggregates.iter().map(|aggregate| aggregate.name.as_str()).chain([TIME]))
        } else {
            None
        }
    }

    fn kind(&self, declared: Kind) -> Kind {
        match self.split_bin().is_none_or(|bin| bin.kind(Kind::Blocking) == Kind::Row) {
            true => kind_of_fold(&self.aggregates, declared),
            false => Kind::Blocking,
        }
    }

    fn is_repeatable(&self) -> bool {
        repeatability::are_repeatable(&self.aggregates)
            && repeatability::is_split_aligned(&self.column)
            && repeatability::is_aligned(&self.bin)
    }

    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        find_in_report(place.text, &self.aggregates, found);
    }
}

impl TimeChartCommand {
    /// The `bin` command for the field after BY, which runs before the chart.
    pub fn split_bin(&self) -> Option<BinCommand> {
        self.column.as_ref().and_then(SplitField::bin_command)
    }
}

impl Parser<'_> {
    fn one_split_only(&mut self) -> ParseResult<()> {
        self.skip_separators();
        if self.at_end() || self.at_keyword("where") || self.peek_option().is_some() {
            return Ok(());
        }
        let remark =
            Diagnostic::error(format!("timechart: splits by one field only, found {}", self.found_text()), self.here());
        Err(remark.with_hint("join the fields with eval first"))
    }
}
