//! `pivot`: a report over an object of a data model, written out as `from`, a condition, and `stats` or `chart`.

use super::cursor::{Parser, Read};
use super::short::quote;
use crate::ast::Command;
use crate::diagnostic::Diagnostic;

/// Columns of a split when nothing is said.
const COLUMNS: usize = 100;

/// Words that begin a part of `pivot`.
const KEYWORDS: [&str; 10] =
    ["SPLITROW", "SPLITCOL", "FILTER", "LIMIT", "SORT", "ROWSUMMARY", "COLSUMMARY", "NUMCOLS", "SHOWOTHER", "PERIOD"];

/// A field rows or columns are split by.
struct Split {
    field: String,
    label: Option<String>,
    /// Span of time or of numbers.
    span: Option<String>,
}

/// What was read.
struct Pivot {
    object: String,
    cells: Vec<String>,
    rows: Vec<Split>,
    column: Option<Split>,
    filters: Vec<String>,
    limits: Vec<String>,
    sort: Option<String>,
    row_totals: bool,
    column_totals: bool,
    columns_max: usize,
    shows_other: bool,
}

impl Parser<'_> {
    /// The commands `pivot` stands for.
    pub(super) fn pivot(&mut self) -> Read<Command> {
        let model = self.expect_field("a data model")?.text;
        let object = self.expect_field("an object of the data model")?.text;
        let name = if model.contains('.') { model.clone() } else { format!("{model}.{object}") };
        let mut pivot = Pivot {
            object,
            cells: Vec::new(),
            rows: Vec::new(),
            column: None,
            filters: Vec::new(),
            limits: Vec::new(),
            sort: None,
            row_totals: false,
            column_totals: false,
            columns_max: COLUMNS,
            shows_other: true,
        };
        while {
            self.skip_separators();
            !self.at_end()
        } {
            self.pivot_part(&mut pivot)?;
        }
        if pivot.cells.is_empty() {
            let remark = Diagnostic::error("pivot: no cell value is given", self.here());
            return Err(remark.with_hint("write `pivot MODEL OBJECT count(OBJECT) AS count`"));
        }
        let report = pivot.report().map_err(|message| Diagnostic::error(message, self.here()))?;
        let filters: String = pivot.filters.iter().map(|filter| format!(" | where {filter}")).collect();
        self.standing_for(&format!("| from datamodel:{}{filters}{report}", quote(&name)))
    }

    fn pivot_part(&mut self, pivot: &mut Pivot) -> Read<()> {
        if self.eat_keyword("SPLITROW") {
            let split = self.pivot_split()?;
            pivot.rows.push(split);
        } else if self.eat_keyword("SPLITCOL") {
            pivot.column = Some(self.pivot_split()?);
        } else if self.eat_keyword("FILTER") {
            let filter = self.pivot_filter()?;
            pivot.filters.push(filter);
        } else if self.eat_keyword("LIMIT") {
            let limit = self.pivot_limit(&pivot.object)?;
            pivot.limits.push(limit);
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
            let cell = self.pivot_cell(&pivot.object)?;
            pivot.cells.push(cell);
        }
        Ok(())
    }

    /// `count(Object) AS "Count"`.
    fn pivot_cell(&mut self, object: &str) -> Read<String> {
        let start = self.pos;
        let aggregate = self.aggregate("pivot")?;
        let written = self.text[start..self.pos].trim();
        let call = written.find(')').map_or(written, |end| &written[..=end]);
        let inner = call.split_once('(').map(|(_, inner)| inner.trim_end_matches(')').trim_matches('"').trim());
        let last = object.rsplit('.').next();
        let counts_rows = call.starts_with("count(") && (inner.is_some() && inner == last);
        let call = if counts_rows { "count" } else { call };
        Ok(format!("{call} AS {}", quote(&aggregate.name)))
    }

    fn pivot_split(&mut self) -> Read<Split> {
        let field = self.expect_field("a field to split by")?.text;
        let mut split = Split { field, label: None, span: None };
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

    /// `FILTER field is value` as an eval expression.
    fn pivot_filter(&mut self) -> Read<String> {
        let name = self.expect_field("a field to filter by")?.text;
        let field = format!("'{}'", name.replace('\'', ""));
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

    /// `LIMIT field BY top 10 count(x)` as the commands that keep these values.
    fn pivot_limit(&mut self, object: &str) -> Read<String> {
        let field = quote(&self.expect_field("a field to limit")?.text);
        if !self.eat_keyword("BY") {
            return Err(Diagnostic::error("pivot: expected BY after the field of LIMIT", self.here()));
        }
        let lowest = match (self.eat_keyword("TOP"), self.eat_keyword("BOTTOM")) {
            (true, _) => false,
            (_, true) => true,
            _ => return Err(Diagnostic::error("pivot: expected TOP or BOTTOM after LIMIT", self.here())),
        };
        let count = self.pivot_number()?;
        let cell = self.pivot_cell(object)?;
        let call = cell.split_once(" AS ").map_or(cell.as_str(), |(call, _)| call);
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
    /// The commands after the condition.
    fn report(&self) -> Result<String, &'static str> {
        let cells = self.cells.join(" ");
        let mut text = self.limits.concat();
        let options = format!("limit={} useother={}", self.columns_max, self.shows_other);
        match (self.rows.as_slice(), &self.column) {
            ([time], column) if time.field == "_time" => {
                let span = time.span.as_ref().map_or(String::new(), |span| format!("span={span} "));
                let by = column.as_ref().map_or(String::new(), |column| format!(" BY {}", quote(&column.field)));
                let options = if column.is_some() { format!("{options} ") } else { String::new() };
                text.push_str(&format!(" | timechart {span}{options}{cells}{by}"));
            }
            (rows, None) => {
                self.bins(&mut text);
                let by: Vec<String> = rows.iter().map(|row| quote(&row.field)).collect();
                let by = if by.is_empty() { String::new() } else { format!(" BY {}", by.join(" ")) };
                text.push_str(&format!(" | stats {cells}{by}"));
                let fields: Vec<String> = rows.iter().map(|row| quote(&row.field)).collect();
                if !fields.is_empty() {
                    text.push_str(&format!(" | table {} *", fields.join(" ")));
                }
            }
            ([row], Some(column)) => {
                self.bins(&mut text);
                text.push_str(&format!(
                    " | chart {options} {cells} OVER {} BY {}",
                    quote(&row.field),
                    quote(&column.field)
                ));
            }
            (_, Some(_)) => return Err("pivot: SPLITCOL needs exactly one SPLITROW; more are not supported yet"),
        }
        for row in &self.rows {
            if let Some(label) = row.label.as_ref().filter(|label| **label != row.field) {
                text.push_str(&format!(" | rename {} AS {}", quote(&row.field), quote(label)));
            }
        }
        text.push_str(self.sort.as_deref().unwrap_or_default());
        if self.row_totals {
            text.push_str(" | addtotals fieldname=ALL");
        }
        if self.column_totals {
            text.push_str(" | addcoltotals");
        }
        Ok(text)
    }

    fn bins(&self, text: &mut String) {
        for split in self.rows.iter().chain(&self.column) {
            match (&split.span, split.field.as_str()) {
                (Some(span), field) => text.push_str(&format!(" | bin {} span={span}", quote(field))),
                (None, "_time") => text.push_str(" | bin _time"),
                _ => {}
            }
        }
    }
}
