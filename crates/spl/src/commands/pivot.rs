//! `pivot`: a report on an object of a data model; rewritten to `from`, `where`, and `stats` or `chart`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::{AggregateArg, Span};
use crate::diagnostic::Diagnostic;
use crate::parse::{Parser, Read, eval_field, quote};

/// Names, help line and kind.
pub(super) const INFO: CommandInfo = CommandInfo {
    names: &["pivot"],
    syntax: "pivot MODEL OBJECT AGG(FIELD) [AS NAME]... [SPLITROW FIELD]... [SPLITCOL FIELD] [FILTER FIELD is VALUE]...",
    summary: "Reports on an object of a data model",
    group: Group::Reporting,
    kind: Kind::Generating,
    ..CommandInfo::DEFAULT
};

/// Default number of columns of a split.
const COLUMNS: usize = 100;

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
/// Separator of these values: the ASCII unit separator, which no displayed value contains.
const JOINT: &str = "\u{1f}";

/// A field by which rows or columns are split.
struct Split {
    field: String,
    label: Option<String>,
    /// Span of time or of numbers.
    span: Option<String>,
    /// Names displayed for true and false.
    truth: (Option<String>, Option<String>),
}

/// `TOP 10 sum(price)`: which rows are kept, and their order.
struct Ranking {
    count: usize,
    call: String,
    lowest: bool,
}

/// The parsed arguments.
#[derive(Default)]
struct Pivot {
    object: String,
    cells: Vec<String>,
    rows: Vec<Split>,
    column: Option<Split>,
    filters: Vec<String>,
    limits: Vec<String>,
    sort: Option<String>,
    ranking: Option<Ranking>,
    /// Fields of the object that are named, with their positions.
    named: Vec<(String, Span)>,
    row_totals: bool,
    column_totals: bool,
    columns_max: usize,
    shows_other: bool,
}

/// A pivot as the searches that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PivotSearches {
    /// The events it reports on.
    pub events: String,
    /// The report.
    pub report: String,
}

/// The searches that a `pivot` command stands for; `text` has its arguments.
pub fn pivot_searches(text: &str) -> Result<PivotSearches, Diagnostic> {
    let mut parser = Parser::new(text);
    let (name, pivot) = read(&mut parser)?;
    let searches = pivot.searches(&name);
    // A field or value that cannot be written as part of a search is refused here, not when the search runs.
    parser.standing_for(&searches.report)?;
    Ok(searches)
}

/// Parses the command's arguments.
pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<Vec<Command>> {
    let (name, pivot) = read(parser)?;
    let mut commands = parser.standing_for(&pivot.searches(&name).report)?;
    if let Some(Command::DataModel(model)) = commands.first_mut() {
        model.required = pivot.named;
    }
    Ok(commands)
}

/// Reads the arguments: the name of the data model with its object, and the pivot.
fn read(parser: &mut Parser<'_>) -> Read<(String, Pivot)> {
    let model = parser.expect_field("a data model")?.text;
    let object = parser.expect_field("an object of the data model")?.text;
    let name = if model.contains('.') { model.clone() } else { format!("{model}.{object}") };
    let mut pivot = Pivot { object, columns_max: COLUMNS, shows_other: true, ..Pivot::default() };
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
        let remark = Diagnostic::error("pivot: TOP and BOTTOM rank rows, and there is no SPLITROW", parser.here());
        return Err(remark.with_hint("write `SPLITROW field TOP 10 count(OBJECT)`"));
    }
    Ok((name, pivot))
}

impl Parser<'_> {
    fn pivot_part(&mut self, pivot: &mut Pivot) -> Read<()> {
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
            let limit = self.pivot_limit(&field, &pivot.object, &mut pivot.named)?;
            pivot.limits.push(limit);
        } else if self.at_keyword("TOP") || self.at_keyword("BOTTOM") {
            pivot.ranking = Some(self.pivot_ranking(&pivot.object, &mut pivot.named)?);
        } else if self.eat_keyword("SORT") {
            pivot.sort = Some(self.pivot_sort()?);
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

    /// `count(Object) AS "Count"`.
    fn pivot_cell(&mut self, object: &str, named: &mut Vec<(String, Span)>) -> Read<String> {
        let start = self.pos;
        let aggregate = self.aggregate("pivot")?;
        let written = self.text[start..self.pos].trim();
        let call = written.find(')').map_or(written, |end| &written[..=end]);
        let inner = call.split_once('(').map(|(_, inner)| inner.trim_end_matches(')').trim_matches('"').trim());
        let last = object.rsplit('.').next();
        let counts_rows = call.starts_with("count(") && (inner.is_some() && inner == last);
        if let (AggregateArg::Field(field), false) = (&aggregate.arg, counts_rows) {
            named.push((field.text.clone(), field.span));
        }
        let call = if counts_rows { "count" } else { call };
        Ok(format!("{call} AS {}", quote(&aggregate.name)))
    }

    /// A field of the object.
    fn pivot_field(&mut self, what: &str, named: &mut Vec<(String, Span)>) -> Read<String> {
        let word = self.expect_field(what)?;
        named.push((word.text.clone(), word.span));
        Ok(word.text)
    }

    fn pivot_split(&mut self, named: &mut Vec<(String, Span)>) -> Read<Split> {
        let field = self.pivot_field("a field to split by", named)?;
        let mut split = Split { field, label: None, span: None, truth: (None, None) };
        loop {
            if self.eat_keyword("AS") {
                split.label = Some(self.expect_field("a name")?.text);
            } else if self.eat_keyword("PERIOD") {
                let period = self.expect_field("a period such as day")?;
                split.span = match period.text.to_ascii_lowercase().as_str() {
                    "auto" => None,
                    "second" => Some("1s".to_owned()),
                    "minute" => Some("1m".to_owned()),
                    "hour" => Some("1h".to_owned()),
                    "day" => Some("1d".to_owned()),
                    "month" => Some("1mon".to_owned()),
                    "year" => Some("1y".to_owned()),
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
                        split.span = Some(option.number::<f64>()?.to_string());
                    }
                }
            } else {
                return Ok(split);
            }
        }
    }

    /// `FILTER field is value`, or `FILTER field TOP 10 count(x)`, which is another way to write LIMIT.
    fn pivot_filter(&mut self, pivot: &mut Pivot) -> Read<()> {
        let name = self.pivot_field("a field to filter by", &mut pivot.named)?;
        if self.at_keyword("TOP") || self.at_keyword("BOTTOM") {
            let limit = self.pivot_limit(&name, &pivot.object, &mut pivot.named)?;
            pivot.limits.push(limit);
        } else {
            let filter = self.pivot_condition(&name)?;
            pivot.filters.push(filter);
        }
        Ok(())
    }

    /// What follows the field of a filter, as an eval expression.
    fn pivot_condition(&mut self, name: &str) -> Read<String> {
        let field = eval_field(name);
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
            return Ok(format!("{word}({field})"));
        }
        if word == "in" {
            return self.pivot_list(&field);
        }
        let value = self.expect_field("a value to compare with")?.text;
        let like = |before: &str, after: &str| {
            let value = value.to_ascii_lowercase().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
            format!("like(lower({field}), {})", quote(&format!("{before}{value}{after}")))
        };
        let same = format!("lower({field})=lower({})", quote(&value));
        Ok(match word.as_str() {
            "is" | "=" | "==" => format!("({same})"),
            "isnot" | "!=" => format!("(isnull({field}) OR NOT {same})"),
            "contains" => like("%", "%"),
            "doesnotcontain" => format!("(isnull({field}) OR NOT {})", like("%", "%")),
            "startswith" => like("", "%"),
            "endswith" => like("%", ""),
            "<" | "<=" | ">" | ">=" => format!("{field} {word} {}", number_or_text(&value)),
            _ => {
                return Err(Diagnostic::error(format!("pivot: there is no comparison `{word}`"), place).with_hint(
                    "comparisons are is, isNot, in, contains, doesNotContain, startsWith, endsWith, isNull, isNotNull, \
                     =, !=, <, <=, > and >=",
                ));
            }
        })
    }

    fn pivot_list(&mut self, field: &str) -> Read<String> {
        self.expect('(', "before the list")?;
        let mut values = Vec::new();
        loop {
            self.skip_separators();
            if self.eat(')') {
                break;
            }
            let value = self.expect_field("a value of the list")?.text;
            values.push(format!("lower({field})=lower({})", quote(&value)));
        }
        Ok(format!("({})", if values.is_empty() { "1=2".to_owned() } else { values.join(" OR ") }))
    }

    /// `TOP 10 count(x)`.
    fn pivot_ranking(&mut self, object: &str, named: &mut Vec<(String, Span)>) -> Read<Ranking> {
        let lowest = match (self.eat_keyword("TOP"), self.eat_keyword("BOTTOM")) {
            (true, _) => false,
            (_, true) => true,
            _ => return Err(Diagnostic::error("pivot: expected TOP or BOTTOM", self.here())),
        };
        let count = self.pivot_number()?;
        let cell = self.pivot_cell(object, named)?;
        let call = cell.split_once(" AS ").map_or(cell.as_str(), |(call, _)| call).to_owned();
        Ok(Ranking { count, call, lowest })
    }

    /// The commands for `TOP 10 count(x)` after a field, which keep its values of these ranks.
    fn pivot_limit(&mut self, field: &str, object: &str, named: &mut Vec<(String, Span)>) -> Read<String> {
        let (field, Ranking { count, call, lowest }) = (quote(field), self.pivot_ranking(object, named)?);
        let order = if lowest { "" } else { "-" };
        Ok(format!(
            " | eventstats {call} AS pivot_rank BY {field} | sort 0 {order}pivot_rank {field} \
             | streamstats dc({field}) AS pivot_rank | where pivot_rank<={count} | fields - pivot_rank"
        ))
    }

    fn pivot_sort(&mut self) -> Read<String> {
        let mut text = format!(" | sort {}", self.pivot_number()?);
        loop {
            self.skip_separators();
            if self.at_end() || KEYWORDS.iter().any(|keyword| self.at_keyword(keyword)) {
                return Ok(text);
            }
            let descends = self.eat('-');
            let field = self.expect_field("a field to sort by")?.text;
            text.push_str(if descends { " -" } else { " " });
            text.push_str(&quote(&field));
        }
    }

    fn pivot_switch(&mut self) -> Read<bool> {
        let word = self.expect_field("0 or 1")?;
        match word.text.to_ascii_lowercase().as_str() {
            "0" | "f" | "false" => Ok(false),
            "1" | "t" | "true" => Ok(true),
            _ => Err(Diagnostic::error(format!("pivot: expected 0 or 1, found `{}`", word.text), word.span)),
        }
    }

    fn pivot_number(&mut self) -> Read<usize> {
        self.whole_number().ok_or_else(|| {
            let message = format!("pivot: expected a number, found {}", self.found());
            Diagnostic::error(message, self.here())
        })
    }
}

fn number_or_text(value: &str) -> String {
    if value.parse::<f64>().is_ok() { value.to_owned() } else { quote(value) }
}

impl Pivot {
    /// The searches over an object of a data model.
    fn searches(&self, name: &str) -> PivotSearches {
        let filters: String = self.filters.iter().map(|filter| format!(" | where {filter}")).collect();
        let events = format!("| from datamodel:{}{filters}", quote(name));
        PivotSearches { report: format!("{events}{}", self.report()), events }
    }

    /// The commands after the condition.
    fn report(&self) -> String {
        let cells = self.cells.join(" ");
        let mut text = self.limits.concat();
        let options = format!("limit={} useother={}", self.columns_max, self.shows_other);
        match (self.rows.as_slice(), &self.column, &self.ranking) {
            ([time], column, None) if time.field == "_time" => {
                let span = time.span.as_ref().map_or(String::new(), |span| format!("span={span} "));
                let by = column.as_ref().map_or(String::new(), |column| format!(" BY {}", quote(&column.field)));
                let options = if column.is_some() { format!("{options} ") } else { String::new() };
                text.push_str(&format!(" | timechart {span}{options}{cells}{by}"));
            }
            (rows, None, ranking) => {
                self.bins(&mut text);
                let fields = rows.iter().map(|row| quote(&row.field)).collect::<Vec<_>>().join(" ");
                let by = if rows.is_empty() { String::new() } else { format!(" BY {fields}") };
                let rank = ranking.as_ref().map_or(String::new(), |ranking| format!(" {} AS {RANK}", ranking.call));
                text.push_str(&format!(" | stats {cells}{rank}{by}"));
                text.push_str(&ranking.as_ref().map_or(String::new(), Ranking::order));
                if !rows.is_empty() {
                    text.push_str(&format!(" | table {fields} *"));
                }
            }
            ([row], Some(column), None) => {
                self.bins(&mut text);
                let (row, column) = (quote(&row.field), quote(&column.field));
                text.push_str(&format!(" | chart {options} {cells} OVER {row} BY {column}"));
            }
            (rows, Some(column), ranking) => {
                self.bins(&mut text);
                text.push_str(&split_both_ways(&format!("{options} {cells}"), rows, column, ranking.as_ref()));
            }
        }
        for row in self.rows.iter().filter(|row| row.name() != row.field) {
            text.push_str(&format!(" | rename {} AS {}", quote(&row.field), quote(row.name())));
        }
        text.push_str(self.sort.as_deref().unwrap_or_default());
        text.push_str(&self.totals());
        text
    }

    /// Sums of rows and columns. Names with a leading underscore are not summed, which excludes the values of split
    /// fields.
    fn totals(&self) -> String {
        if !self.row_totals && !self.column_totals {
            return String::new();
        }
        let names: Vec<String> =
            self.rows.iter().map(Split::name).filter(|name| !name.starts_with('_')).map(quote).collect();
        let kept = |at: usize| format!("_pivot_row{at}");
        let mut text = String::new();
        for (at, name) in names.iter().enumerate() {
            text.push_str(&format!(" | rename {name} AS {}", kept(at)));
        }
        if self.row_totals {
            text.push_str(" | addtotals fieldname=ALL");
        }
        if self.column_totals {
            let label = if names.is_empty() { String::new() } else { format!(" labelfield={} label=ALL", kept(0)) };
            text.push_str(&format!(" | addcoltotals{label}"));
        }
        for (at, name) in names.iter().enumerate() {
            text.push_str(&format!(" | rename {} AS {name}", kept(at)));
        }
        text
    }

    fn bins(&self, text: &mut String) {
        for split in self.rows.iter().chain(&self.column) {
            match (&split.span, split.field.as_str()) {
                (Some(span), field) => text.push_str(&format!(" | bin {} span={span}", quote(field))),
                (None, "_time") => text.push_str(" | bin _time"),
                _ => {}
            }
            text.push_str(&split.named_truth());
        }
    }
}

impl Split {
    /// Name of its column.
    fn name(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.field)
    }

    /// Replaces true and false by their names.
    fn named_truth(&self) -> String {
        let field = eval_field(&self.field);
        let named = |name: &Option<String>, values: &str| {
            let name = name.as_ref()?;
            Some(format!(" | eval {field}=if(in(lower({field}), {values}), {}, {field})", quote(name)))
        };
        let parts = [named(&self.truth.0, "\"1\", \"true\", \"t\""), named(&self.truth.1, "\"0\", \"false\", \"f\"")];
        parts.into_iter().flatten().collect()
    }
}

impl Ranking {
    /// The commands that keep and order rows by [`RANK`].
    fn order(&self) -> String {
        let order = if self.lowest { "" } else { "-" };
        format!(" | sort {} {order}num({RANK}) | fields - {RANK}", self.count)
    }
}

/// The commands for several or ranked row fields together with a column field: the row fields pass through `chart` as
/// one value.
fn split_both_ways(chart: &str, rows: &[Split], column: &Split, ranking: Option<&Ranking>) -> String {
    let fields: Vec<String> = rows.iter().map(|row| eval_field(&row.field)).collect();
    let names = rows.iter().map(|row| quote(&row.field)).collect::<Vec<_>>().join(" ");
    let mut parts: Vec<String> = fields.iter().map(|field| format!("{field}.\"\"")).collect();
    let mut text = String::new();
    if let Some(ranking) = ranking {
        text.push_str(&format!(" | eventstats {} AS {RANK} BY {names}", ranking.call));
        parts.push(RANK.to_owned());
    }
    let joined = if parts.is_empty() { "\"\"".to_owned() } else { parts.join(&format!(".\"{JOINT}\".")) };
    text.push_str(&format!(" | eval {ROW}={joined}.\"{JOINT}\""));
    text.push_str(&format!(" | chart {chart} OVER {ROW} BY {}", quote(&column.field)));
    let targets = fields.iter().map(String::as_str).chain(ranking.map(|_| RANK));
    for (at, target) in targets.enumerate() {
        let part = format!("mvindex(split({ROW}, \"{JOINT}\"), {at})");
        // Times are converted back to numbers of seconds.
        let value = if target == "'_time'" { format!("tonumber({part})") } else { part };
        text.push_str(&format!(" | eval {target}={value}"));
    }
    text.push_str(&format!(" | fields - {ROW}"));
    match ranking {
        Some(ranking) => text.push_str(&ranking.order()),
        None if !rows.is_empty() => text.push_str(&format!(" | sort 0 {names}")),
        None => {}
    }
    if rows.is_empty() { text } else { format!("{text} | table {names} *") }
}
