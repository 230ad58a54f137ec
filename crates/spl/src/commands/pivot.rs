//! `pivot`: reports on an object of a data model; rewritten to `from`, `where`, and `stats`, `chart` or `timechart`.

use quarry_event::time::{Span as TimeSpan, SpanUnit};

use super::bin::bin_span;
use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::{
    AddTotalsCommand, Aggregate, AggregateArg, BinCommand, BinOptions, BinSpan, BinaryOp, CompareOp, DataModelCommand,
    DataModelName, Expr, NodeBuilder, SeriesOptions, SortKey, SortKind, Span, StatsFunction, TimeChartCommand,
};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionArg, ParseResult, Parser, check_wildcards};
use crate::spl_text::text_of;

/// Names, help line and kind.
pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "pivot MODEL OBJECT AGG(FIELD) [AS NAME]... [SPLITROW FIELD]... [SPLITCOL FIELD] [FILTER FIELD is VALUE]...",
    summary: "Reports on an object of a data model",
    group: Group::Reporting,
    kind: Kind::Generating,
    has_own_keywords: true,
    ..CommandInfo::DEFAULT
};

/// Default maximum number of columns of a split.
const DEFAULT_COLUMNS_MAX: usize = 100;

/// Keywords that begin a part of `pivot`.
const KEYWORDS: [&str; 12] = [
    "SPLITROW",
    "SPLITCOL",
    "FILTER",
    "LIMIT",
    "SORT",
    "TOP",
    "BOTTOM",
    "ROWSUMMARY",
    "COLSUMMARY",
    "NUMCOLS",
    "SHOWOTHER",
    "PERIOD",
];
/// Temporary column for the rank of rows; no user field has this name.
const RANK: &str = "__pivot_rank";
/// Temporary column for the joined values of a row's split fields; no user field has this name.
const ROW: &str = "__pivot_row";
/// Separator of the joined values: the ASCII unit separator, which no displayed value contains.
const JOIN_SEPARATOR: &str = "\u{1f}";
/// Temporary column for the rank of a value in `LIMIT`.
const LIMIT_RANK: &str = "pivot_rank";
/// Name of the totals row and column.
const TOTAL_NAME: &str = "ALL";
/// Values that `TRUELABEL` and `FALSELABEL` rename.
const TRUTH_VALUES: [&[&str]; 2] = [&["1", "true", "t"], &["0", "false", "f"]];

/// A field by which rows or columns are split.
struct Split {
    field: String,
    label: Option<String>,
    /// Span of time or of numbers.
    span: Option<BinSpan>,
    /// Names displayed for true and false.
    truth: (Option<String>, Option<String>),
}

/// The rows that are kept and their order, such as `TOP 10 sum(price)`.
struct Ranking {
    count: usize,
    by: Aggregate,
    lowest: bool,
}

/// The parsed arguments.
struct Pivot {
    make: NodeBuilder,
    object: String,
    cells: Vec<Aggregate>,
    rows: Vec<Split>,
    column: Option<Split>,
    filters: Vec<Expr>,
    limits: Vec<(String, Ranking)>,
    sort: Option<(usize, Vec<SortKey>)>,
    ranking: Option<Ranking>,
    /// Fields of the object that the arguments name, with their positions.
    named: Vec<(String, Span)>,
    row_totals: bool,
    column_totals: bool,
    columns_max: usize,
    shows_other: bool,
}

/// The two searches to which a `pivot` expands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PivotSearches {
    /// The search for the events.
    pub events: String,
    /// The search for the report, which begins with the search for the events.
    pub report: String,
}

/// The searches to which a `pivot` command expands; `text` contains its arguments.
pub fn pivot_searches(text: &str) -> Result<PivotSearches, Diagnostic> {
    let mut parser = Parser::new(text);
    let (name, mut pivot) = parse_pivot(&mut parser)?;
    let (events, report) = (pivot.events(name), pivot.report());
    let written = |commands: &[Command]| {
        text_of(commands).ok_or_else(|| {
            let message = "pivot: a field's name contains a quote or brace, which an expression cannot write";
            Diagnostic::error(message, Span { start: 0, end: text.len() })
        })
    };
    Ok(PivotSearches { events: written(&events)?, report: written(&[events, report].concat())? })
}

/// Parses the command's arguments.
pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Vec<Command>> {
    let (name, mut pivot) = parse_pivot(parser)?;
    // Set after the arguments are parsed, so that the generated commands have the position of the whole command.
    pivot.make = parser.builder();
    let mut commands = pivot.events(name);
    commands.extend(pivot.report());
    Ok(commands)
}

/// Reads the arguments: the name of the data model with its object, and the pivot.
fn parse_pivot(parser: &mut Parser<'_>) -> ParseResult<(DataModelName, Pivot)> {
    let model = parser.expect_field("a data model")?;
    let object = parser.expect_field("an object of the data model")?;
    let span = Span { start: model.span.start, end: object.span.end };
    let name = if model.text.contains('.') { model.text } else { format!("{}.{}", model.text, object.text) };
    let mut pivot = Pivot {
        make: parser.builder(),
        object: object.text,
        cells: Vec::new(),
        rows: Vec::new(),
        column: None,
        filters: Vec::new(),
        limits: Vec::new(),
        sort: None,
        ranking: None,
        named: Vec::new(),
        row_totals: false,
        column_totals: false,
        columns_max: DEFAULT_COLUMNS_MAX,
        shows_other: true,
    };
    let name = DataModelName::of(&name, span)?;
    while {
        parser.skip_separators();
        !parser.at_end()
    } {
        parser.pivot_part(&mut pivot)?;
    }
    if pivot.cells.is_empty() {
        let remark = Diagnostic::error("pivot: no cell value is given", parser.here());
        return Err(remark.with_hint("write `pivot MODEL OBJECT count(OBJECT) AS count`"));
    }
    if pivot.ranking.is_some() && pivot.rows.is_empty() {
        let remark = Diagnostic::error("pivot: TOP and BOTTOM rank rows and need SPLITROW", parser.here());
        return Err(remark.with_hint("write `SPLITROW field TOP 10 count(OBJECT)`"));
    }
    Ok((name, pivot))
}

impl Parser<'_> {
    fn pivot_part(&mut self, pivot: &mut Pivot) -> ParseResult<()> {
        if self.eat_keyword("SPLITROW") {
            let split = self.pivot_split(&mut pivot.named)?;
            pivot.rows.push(split);
        } else if self.eat_keyword("SPLITCOL") {
            pivot.column = Some(self.pivot_split(&mut pivot.named)?);
        } else if self.eat_keyword("FILTER") {
            self.pivot_filter(pivot)?;
        } else if self.eat_keyword("LIMIT") {
            let field = self.pivot_field("a field to limit", &mut pivot.named)?;
            if !self.eat_keyword("BY") {
                return Err(Diagnostic::error("pivot: expected BY after the field of LIMIT", self.here()));
            }
            let ranking = self.pivot_ranking(&pivot.object, &mut pivot.named)?;
            pivot.limits.push((field, ranking));
        } else if self.at_keyword("TOP") || self.at_keyword("BOTTOM") {
            pivot.ranking = Some(self.pivot_ranking(&pivot.object, &mut pivot.named)?);
        } else if self.eat_keyword("SORT") {
            pivot.sort = Some(self.pivot_sort(pivot.make)?);
        } else if self.eat_keyword("ROWSUMMARY") {
            pivot.row_totals = self.pivot_switch()?;
        } else if self.eat_keyword("COLSUMMARY") {
            pivot.column_totals = self.pivot_switch()?;
        } else if self.eat_keyword("NUMCOLS") {
            pivot.columns_max = self.pivot_number()?;
        } else if self.eat_keyword("SHOWOTHER") {
            pivot.shows_other = self.pivot_switch()?;
        } else {
            let cell = self.pivot_cell(&pivot.object, &mut pivot.named)?;
            pivot.cells.push(cell);
        }
        Ok(())
    }

    /// Parses a cell such as `count(Object) AS "Count"`.
    fn pivot_cell(&mut self, object: &str, named: &mut Vec<(String, Span)>) -> ParseResult<Aggregate> {
        let mut aggregate = self.aggregate("pivot")?;
        check_wildcards(&aggregate, "pivot")?;
        if let AggregateArg::Field(field) = &aggregate.arg {
            let counts_rows =
                aggregate.function == StatsFunction::Count && object.rsplit('.').next() == Some(&field.text);
            if counts_rows {
                aggregate.arg = AggregateArg::Rows;
            } else {
                named.push((field.text.clone(), field.span));
            }
        }
        aggregate.renamed = true;
        Ok(aggregate)
    }

    /// Parses a field of the object.
    fn pivot_field(&mut self, what: &str, named: &mut Vec<(String, Span)>) -> ParseResult<String> {
        let word = self.expect_field(what)?;
        named.push((word.text.clone(), word.span));
        Ok(word.text)
    }

    fn pivot_split(&mut self, named: &mut Vec<(String, Span)>) -> ParseResult<Split> {
        let field = self.pivot_field("a field to split by", named)?;
        let one = |unit| BinSpan::Time(TimeSpan::new(1, unit));
        let mut split = Split { field, label: None, span: None, truth: (None, None) };
        loop {
            if self.eat_keyword("AS") {
                split.label = Some(self.expect_field("a name")?.text);
            } else if self.eat_keyword("PERIOD") {
                let period = self.expect_field("a period such as day")?;
                split.span = match period.text.to_ascii_lowercase().as_str() {
                    "auto" => None,
                    "second" => Some(one(SpanUnit::Second)),
                    "minute" => Some(one(SpanUnit::Minute)),
                    "hour" => Some(one(SpanUnit::Hour)),
                    "day" => Some(one(SpanUnit::Day)),
                    "month" => Some(one(SpanUnit::Month)),
                    "year" => Some(one(SpanUnit::Year)),
                    _ => {
                        return Err(Diagnostic::error(format!("pivot: no period `{}`", period.text), period.span)
                            .with_hint("periods are auto, year, month, day, hour, minute and second"));
                    }
                };
            } else if self.eat_keyword("TRUELABEL") {
                split.truth.0 = Some(self.expect_field("a name for true")?.text);
            } else if self.eat_keyword("FALSELABEL") {
                split.truth.1 = Some(self.expect_field("a name for false")?.text);
            } else if self.eat_keyword("RANGE") {
                while self.peek_option().is_some() {
                    let option = self.read_option()?;
                    if option.name == "size" {
                        split.span = Some(split_size(&option)?);
                    }
                }
            } else {
                return Ok(split);
            }
        }
    }

    /// Parses `FILTER field is value`, or `FILTER field TOP 10 count(x)`, which is equivalent to LIMIT.
    fn pivot_filter(&mut self, pivot: &mut Pivot) -> ParseResult<()> {
        let name = self.pivot_field("a field to filter by", &mut pivot.named)?;
        if self.at_keyword("TOP") || self.at_keyword("BOTTOM") {
            let ranking = self.pivot_ranking(&pivot.object, &mut pivot.named)?;
            pivot.limits.push((name, ranking));
        } else {
            let filter = self.pivot_condition(&name, pivot.make)?;
            pivot.filters.push(filter);
        }
        Ok(())
    }

    /// Parses the condition of a filter after its field name, and returns it as an eval expression.
    fn pivot_condition(&mut self, name: &str, make: NodeBuilder) -> ParseResult<Expr> {
        self.skip_blank();
        let place = self.here();
        let mark: String = self.rest().chars().take_while(|c| matches!(c, '=' | '!' | '<' | '>' | '*')).collect();
        let word = if mark.is_empty() {
            self.expect_field("a comparison such as is")?.text.to_ascii_lowercase()
        } else {
            self.pos += mark.len();
            mark
        };
        if word == "isnull" || word == "isnotnull" {
            return Ok(make.call(&word, [make.field(name)]));
        }
        if word == "in" {
            return self.pivot_list(name, make);
        }
        let value = self.expect_field("a value to compare with")?.text;
        let lower = || make.call("lower", [make.field(name)]);
        let like = |before: &str, after: &str| {
            let value = value.to_ascii_lowercase().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
            make.call("like", [lower(), make.text(&format!("{before}{value}{after}"))])
        };
        let lacks =
            |condition: Expr| make.binary(BinaryOp::Or, make.call("isnull", [make.field(name)]), make.not(condition));
        Ok(match word.as_str() {
            "is" | "=" | "==" => equals_ignoring_case(name, &value, make),
            "isnot" | "!=" => lacks(equals_ignoring_case(name, &value, make)),
            "contains" => like("%", "%"),
            "doesnotcontain" => lacks(like("%", "%")),
            "startswith" => like("", "%"),
            "endswith" => like("%", ""),
            "<" => make.compare(CompareOp::Lt, make.field(name), number_or_text(&value, make)),
            "<=" => make.compare(CompareOp::Le, make.field(name), number_or_text(&value, make)),
            ">" => make.compare(CompareOp::Gt, make.field(name), number_or_text(&value, make)),
            ">=" => make.compare(CompareOp::Ge, make.field(name), number_or_text(&value, make)),
            _ => {
                return Err(Diagnostic::error(format!("pivot: there is no comparison `{word}`"), place).with_hint(
                    "comparisons are is, isNot, in, contains, doesNotContain, startsWith, endsWith, isNull, isNotNull, \
                     =, !=, <, <=, > and >=",
                ));
            }
        })
    }

    fn pivot_list(&mut self, name: &str, make: NodeBuilder) -> ParseResult<Expr> {
        self.expect('(', "before the list")?;
        let mut values = Vec::new();
        loop {
            self.skip_separators();
            if self.eat(')') {
                break;
            }
            let value = self.expect_field("a value of the list")?.text;
            values.push(equals_ignoring_case(name, &value, make));
        }
        Ok(match values.is_empty() {
            true => make.nullary("false"),
            false => make.join_operands(BinaryOp::Or, values),
        })
    }

    /// Parses a ranking such as `TOP 10 count(x)`.
    fn pivot_ranking(&mut self, object: &str, named: &mut Vec<(String, Span)>) -> ParseResult<Ranking> {
        let lowest = match (self.eat_keyword("TOP"), self.eat_keyword("BOTTOM")) {
            (true, _) => false,
            (_, true) => true,
            _ => return Err(Diagnostic::error("pivot: expected TOP or BOTTOM", self.here())),
        };
        let count = self.pivot_number()?;
        let by = self.pivot_cell(object, named)?;
        Ok(Ranking { count, by, lowest })
    }

    fn pivot_sort(&mut self, make: NodeBuilder) -> ParseResult<(usize, Vec<SortKey>)> {
        let (count, mut keys) = (self.pivot_number()?, Vec::new());
        loop {
            self.skip_separators();
            if self.at_end() || KEYWORDS.iter().any(|keyword| self.at_keyword(keyword)) {
                break;
            }
            let descends = self.eat('-');
            let field = self.expect_field("a field to sort by")?.text;
            keys.push(make.sort_key(&field, descends, SortKind::Auto));
        }
        if keys.is_empty() {
            return Err(Diagnostic::error("pivot: SORT names no field", self.here()));
        }
        Ok((count, keys))
    }

    fn pivot_switch(&mut self) -> ParseResult<bool> {
        let word = self.expect_field("0 or 1")?;
        match word.text.to_ascii_lowercase().as_str() {
            "0" | "f" | "false" => Ok(false),
            "1" | "t" | "true" => Ok(true),
            _ => Err(Diagnostic::error(format!("pivot: expected 0 or 1, found `{}`", word.text), word.span)),
        }
    }

    fn pivot_number(&mut self) -> ParseResult<usize> {
        self.whole_number().ok_or_else(|| {
            let message = format!("pivot: expected a number, found {}", self.found_text());
            Diagnostic::error(message, self.here())
        })
    }
}

/// Parses the `size=` option of a RANGE.
fn split_size(option: &OptionArg) -> ParseResult<BinSpan> {
    option.number::<f64>().and_then(|_| bin_span(option))
}

/// Returns `lower(FIELD)=lower("VALUE")`.
fn equals_ignoring_case(field: &str, value: &str, make: NodeBuilder) -> Expr {
    let lower = |expr: Expr| make.call("lower", [expr]);
    make.compare(CompareOp::Eq, lower(make.field(field)), lower(make.text(value)))
}

fn number_or_text(value: &str, make: NodeBuilder) -> Expr {
    make.literal(value).unwrap_or_else(|| make.text(value))
}

impl Pivot {
    /// The commands that read the events.
    fn events(&mut self, name: DataModelName) -> Vec<Command> {
        let name = DataModelName { span: self.make.span(), ..name };
        let required = std::mem::take(&mut self.named);
        let source = DataModelCommand { required, ..DataModelCommand::events_of(name) };
        let filters = self.filters.drain(..).map(|filter| self.make.filter(filter));
        std::iter::once(source.into()).chain(filters).collect()
    }

    /// The commands that make the report of the events.
    fn report(&self) -> Vec<Command> {
        let make = self.make;
        let mut commands: Vec<Command> = Vec::new();
        for (field, ranking) in &self.limits {
            commands.extend(ranking.limit(field, make));
        }
        let cells = self.cells.clone();
        let series = SeriesOptions { limit: self.columns_max, use_other: self.shows_other, ..SeriesOptions::default() };
        match (self.rows.as_slice(), &self.column, &self.ranking) {
            ([time], column, None) if time.field == "_time" => {
                let column = column.as_ref().map(|column| make.split(&column.field));
                let series = if column.is_some() { series } else { SeriesOptions::default() };
                let bin = BinOptions { span: time.span.clone(), ..BinOptions::default() };
                commands.push(TimeChartCommand { aggregates: cells, column, series, bin, ..Default::default() }.into());
            }
            (rows, None, ranking) => {
                self.add_bins(&mut commands);
                let fields: Vec<&str> = rows.iter().map(|row| row.field.as_str()).collect();
                let rank = ranking.as_ref().map(|ranking| ranking.aggregate_as(RANK));
                commands.push(make.stats(cells.into_iter().chain(rank).collect(), &fields).into());
                commands.extend(ranking.iter().flat_map(|ranking| ranking.keep_first_rows(make)));
                if !rows.is_empty() {
                    commands.push(make.table(&[fields.as_slice(), &["*"]].concat()));
                }
            }
            ([row], Some(column), None) => {
                self.add_bins(&mut commands);
                commands.push(make.chart(cells, &row.field, &column.field, series).into());
            }
            (rows, Some(column), ranking) => {
                self.add_bins(&mut commands);
                let chart = make.chart(cells, ROW, &column.field, series).into();
                commands.extend(split_both_ways(chart, rows, ranking.as_ref(), make));
            }
        }
        let renamed = self.rows.iter().filter(|row| row.name() != row.field);
        commands.extend(renamed.map(|row| make.rename(&row.field, row.name())));
        commands.extend(self.sort.clone().map(|(count, keys)| make.sort(count, keys)));
        self.add_totals(&mut commands);
        commands
    }

    /// Adds the sums of rows and columns. While the sums are computed, split fields have names with a leading
    /// underscore, because such columns are not summed.
    fn add_totals(&self, commands: &mut Vec<Command>) {
        if !self.row_totals && !self.column_totals {
            return;
        }
        let names = self.rows.iter().map(Split::name).filter(|name| !name.starts_with('_'));
        let hidden: Vec<(String, &str)> =
            names.enumerate().map(|(at, name)| (format!("_pivot_row{at}"), name)).collect();
        commands.extend(hidden.iter().map(|(hidden, name)| self.make.rename(name, hidden)));
        if self.row_totals {
            let totals = AddTotalsCommand { field_name: TOTAL_NAME.to_owned(), ..AddTotalsCommand::of_rows() };
            commands.push(totals.into());
        }
        if self.column_totals {
            let mut totals = AddTotalsCommand { row: false, column: true, ..AddTotalsCommand::of_rows() };
            if let Some((first, _)) = hidden.first() {
                (totals.label_field, totals.label) = (Some(first.clone()), TOTAL_NAME.to_owned());
            }
            commands.push(totals.into());
        }
        commands.extend(hidden.iter().map(|(hidden, name)| self.make.rename(hidden, name)));
    }

    fn add_bins(&self, commands: &mut Vec<Command>) {
        for split in self.rows.iter().chain(&self.column) {
            if split.span.is_some() || split.field == "_time" {
                let options = BinOptions { span: split.span.clone(), ..BinOptions::default() };
                commands.push(BinCommand { field: self.make.pattern(&split.field), output: None, options }.into());
            }
            commands.extend(split.rename_truth_values(self.make));
        }
    }
}

impl Split {
    /// Name of the split's column.
    fn name(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.field)
    }

    /// The commands that replace true and false with their display names.
    fn rename_truth_values(&self, make: NodeBuilder) -> impl Iterator<Item = Command> {
        let names = [&self.truth.0, &self.truth.1].into_iter().zip(TRUTH_VALUES);
        names.filter_map(move |(name, values)| {
            let field = || make.field(&self.field);
            let lower = make.call("lower", [field()]);
            let is_named =
                make.call("in", [vec![lower], values.iter().map(|value| make.text(value)).collect()].concat());
            let name = make.text(name.as_ref()?);
            Some(make.eval(&self.field, make.call("if", [is_named, name, field()])))
        })
    }
}

impl Ranking {
    /// The aggregate of the ranking under another name.
    fn aggregate_as(&self, name: &str) -> Aggregate {
        Aggregate { name: name.to_owned(), ..self.by.clone() }
    }

    /// The commands that keep the first rows in the order of [`RANK`].
    fn keep_first_rows(&self, make: NodeBuilder) -> [Command; 2] {
        [make.sort(self.count, vec![make.sort_key(RANK, !self.lowest, SortKind::Num)]), make.drop_fields(&[RANK])]
    }

    /// The commands that keep the values of a field whose ranks are within the limit.
    fn limit(&self, field: &str, make: NodeBuilder) -> [Command; 5] {
        let by_rank = make.sort_key(LIMIT_RANK, !self.lowest, SortKind::Auto);
        let position = make.aggregate(StatsFunction::Dc, field, LIMIT_RANK);
        let count = make.integer(self.count);
        [
            make.eventstats(vec![self.aggregate_as(LIMIT_RANK)], &[field]).into(),
            make.sort(0, vec![by_rank, make.sort_key(field, false, SortKind::Auto)]),
            make.streamstats(vec![position], &[]).into(),
            make.filter(make.compare(CompareOp::Le, make.field(LIMIT_RANK), count)),
            make.drop_fields(&[LIMIT_RANK]),
        ]
    }
}

/// The commands for several or ranked row fields together with a column field: the row fields pass through `chart`
/// joined into one value.
fn split_both_ways(chart: Command, rows: &[Split], ranking: Option<&Ranking>, make: NodeBuilder) -> Vec<Command> {
    let fields: Vec<&str> = rows.iter().map(|row| row.field.as_str()).collect();
    let mut commands: Vec<Command> = Vec::new();
    let mut parts: Vec<Expr> = Vec::new();
    for field in &fields {
        // Concatenating the empty text converts a number to text.
        parts.extend([make.field(field), make.text(""), make.text(JOIN_SEPARATOR)]);
    }
    if let Some(ranking) = ranking {
        commands.push(make.eventstats(vec![ranking.aggregate_as(RANK)], &fields).into());
        parts.extend([make.field(RANK), make.text(JOIN_SEPARATOR)]);
    }
    if parts.is_empty() {
        parts.push(make.text(JOIN_SEPARATOR));
    }
    commands.push(make.eval(ROW, make.join_operands(BinaryOp::Concat, parts)));
    commands.push(chart);
    let targets = fields.iter().copied().chain(ranking.map(|_| RANK));
    for (at, target) in targets.enumerate() {
        let split = make.call("split", [make.field(ROW), make.text(JOIN_SEPARATOR)]);
        let part = make.call("mvindex", [split, make.integer(at)]);
        // Times are converted back to numbers of seconds.
        let value = if target == "_time" { make.call("tonumber", [part]) } else { part };
        commands.push(make.eval(target, value));
    }
    commands.push(make.drop_fields(&[ROW]));
    match ranking {
        Some(ranking) => commands.extend(ranking.keep_first_rows(make)),
        None if !rows.is_empty() => {
            let keys = fields.iter().map(|field| make.sort_key(field, false, SortKind::Auto));
            commands.push(make.sort(0, keys.collect()));
        }
        None => {}
    }
    if !rows.is_empty() {
        commands.push(make.table(&[fields.as_slice(), &["*"]].concat()));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Stage;
    use crate::parse::tests::without_spans;

    #[test]
    fn displayed_pivot_searches_equal_the_executed_ones() {
        let pivots = [
            "Shop Orders count(Orders) AS n",
            "Shop Orders sum(price) AS sales SPLITROW city AS City SORT 10 -sales City ROWSUMMARY 1 COLSUMMARY 1",
            "Shop Orders count(Orders) perc95(price) SPLITROW city SPLITCOL user NUMCOLS 5 SHOWOTHER 0",
            "Shop Orders sum(price) AS sales SPLITROW _time PERIOD hour SPLITCOL user",
            "Shop Orders sum(price) AS sales SPLITROW _time AS when PERIOD auto COLSUMMARY 1",
            "Shop Orders dc(user) AS u SPLITROW paid TRUELABEL yes FALSELABEL \"no, not \\\"yet\\\"\" SPLITCOL price RANGE size=2.5",
            "Shop Orders values(user) FILTER city is bonn FILTER price > 5 FILTER price <= -2.5 FILTER user doesNotContain E_V%",
            "Shop Orders count FILTER city in (a, \"b c\") FILTER user in () FILTER city isNot x FILTER user isNull",
            "Shop Orders count(eval(price>5 AND (city=\"a\" OR NOT user=\"b\"))) AS n FILTER city startsWith \"x\\y\" FILTER city endsWith z",
            "Shop Orders sum(price) AS s SPLITROW user SPLITROW city LIMIT user BY TOP 1 sum(price) BOTTOM 3 avg(price)",
            "Shop Orders sum(price) AS s SPLITROW user SPLITROW _time PERIOD day SPLITCOL city FILTER city TOP 2 count(Orders)",
            "Shop Orders sparkline(sum(price), 1h) AS s SPLITROW \"a b\" TOP 2 sum(\"a b\")",
            "Shop.Orders.Paid Paid sum(*) AS * SPLITCOL city",
        ];
        for arguments in pivots {
            let direct = crate::parse(&format!("| pivot {arguments}"));
            assert!(direct.is_ok(), "{arguments}: {:?}", direct.diagnostics);
            let shown = pivot_searches(arguments).unwrap();
            assert!(shown.report.starts_with(&shown.events), "{shown:?}");
            let parsed = crate::parse(&shown.report);
            assert!(parsed.is_ok(), "{}: {:?}", shown.report, parsed.diagnostics);
            let commands = |stages: Vec<Stage>| -> Vec<String> {
                let without = |stage: Stage| match stage.command {
                    Command::DataModel(model) => DataModelCommand { required: Vec::new(), ..model }.into(),
                    other => other,
                };
                stages.into_iter().map(without).map(|command| without_spans(&command)).collect()
            };
            assert_eq!(commands(parsed.pipeline.commands), commands(direct.pipeline.commands), "{}", shown.report);
        }
        assert!(pivot_searches("Shop Orders count FILTER \"it's\" is x").is_err());
    }
}
