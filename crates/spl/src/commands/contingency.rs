//! `contingency`: counts the rows for each pair of values of two fields; rewritten to `chart` and totals.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::{AddTotalsCommand, BinaryOp, CompareOp, EventStatsCommand, NodeBuilder, SeriesOptions, SortKind};
use crate::ast::{FillNullCommand, StatsFunction};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionArg, OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("contingency", &["usetotal", "totalstr", "maxrows", "maxcols", "mincolcover", "minrowcover"]);

/// Temporary column for labels while totals are computed; no user field has this name.
const LABEL: &str = "__label";
/// Temporary columns for finding the most frequent values; no user field has these names.
const COUNT: &str = "__count";
const OF_VALUE: &str = "__v";
const RANK_OF_ROW: &str = "__rr";
const RANK_OF_COLUMN: &str = "__rc";

pub(super) const INFO: CommandInfo = CommandInfo {
    aliases: &["counttable", "ctable"],
    syntax: "contingency ROWS COLUMNS [usetotal=] [totalstr=] [maxrows=] [maxcols=]",
    summary: "Counts how often the values of two fields occur together",
    group: Group::Reporting,
    kind: Kind::Blocking,
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Vec<Command>> {
    let (mut total, mut fields) = (Some("TOTAL".to_owned()), Vec::new());
    let (mut rows_max, mut columns_max) = (0_u32, 0_u32);
    loop {
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "usetotal" if option.boolean()? => {}
                "usetotal" => total = None,
                "maxrows" => rows_max = option.number()?,
                "maxcols" => columns_max = option.number()?,
                "mincolcover" | "minrowcover" => parse_cover_share(&option)?,
                _ => total = total.map(|_| option.value),
            }
        }
        parser.skip_separators();
        match parser.field_word() {
            Some(word) => fields.push(word.text),
            None => break,
        }
    }
    let [rows, columns] = fields.as_slice() else {
        let remark = Diagnostic::error("contingency: two fields are needed", parser.here());
        return Err(remark.with_hint("write `contingency rows columns`"));
    };
    let make = parser.builder();
    let series = SeriesOptions { limit: 0, use_other: false, use_null: false, ..SeriesOptions::default() };
    let mut commands = Vec::new();
    if rows_max == 0 && columns_max == 0 {
        commands.push(make.chart(vec![make.count("count")], rows, columns, series).into());
    } else {
        commands.push(make.stats(vec![make.count(COUNT)], &[rows, columns]).into());
        most_frequent(make, [(columns, RANK_OF_COLUMN, columns_max), (rows, RANK_OF_ROW, rows_max)], &mut commands);
        let sum = make.aggregate(StatsFunction::Sum, COUNT, "count");
        commands.push(make.chart(vec![sum], rows, columns, series).into());
        commands.push(FillNullCommand { value: "0".to_owned(), fields: Vec::new() }.into());
    }
    if let Some(total) = total {
        // Labels must not be numbers while sums are computed.
        commands.push(make.rename(rows, LABEL));
        commands.push(make.eval(LABEL, make.binary(BinaryOp::Concat, make.text("="), make.field(LABEL))));
        let (row, column, label_field, fields) = (true, true, Some(LABEL.to_owned()), Vec::new());
        let label = format!("={total}");
        commands.push(AddTotalsCommand { row, column, field_name: total, label_field, label, fields }.into());
        commands.push(make.eval(LABEL, make.call("substr", [make.field(LABEL), make.number(2)])));
        commands.push(make.rename(LABEL, rows));
    }
    Ok(commands)
}

/// Adds commands that keep only the rows with the most frequent values of two fields, ranked by the sum of `COUNT`; a
/// limit of 0 keeps all values.
fn most_frequent(make: NodeBuilder, limits: [(&str, &str, u32); 2], commands: &mut Vec<Command>) {
    let limits = limits.into_iter().filter(|(_, _, most)| *most > 0);
    for (name, rank, _) in limits.clone() {
        let sum = make.aggregate(StatsFunction::Sum, COUNT, OF_VALUE);
        commands.push(EventStatsCommand(make.stats(vec![sum], &[name])).into());
        // Ties are broken by value.
        let keys = vec![make.sort_key(OF_VALUE, true, SortKind::Auto), make.sort_key(name, false, SortKind::Auto)];
        commands.push(make.sort(0, keys));
        commands.push(make.streamstats(vec![make.aggregate(StatsFunction::Dc, name, rank)], &[]).into());
    }
    // The ranks of both fields are computed before either field is filtered, so that all values count.
    commands.extend(
        limits.map(|(_, rank, most)| make.filter(make.compare(CompareOp::Le, make.field(rank), make.number(most)))),
    );
}

/// Checks the share of values to cover: only 1, which means all values, is supported.
fn parse_cover_share(option: &OptionArg) -> ParseResult<()> {
    let share: f64 = option.number()?;
    if !(0.0..=1.0).contains(&share) {
        return Err(option.invalid_value("a share from 0 to 1"));
    }
    if share < 1.0 {
        let message =
            format!("contingency: `{}` is not supported: only the number of rows and columns is limited", option.name);
        return Err(Diagnostic::error(message, option.name_span).with_hint("use maxrows= and maxcols="));
    }
    Ok(())
}
