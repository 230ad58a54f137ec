//! Writes generated commands as SPL, for clients that show the search to which a `pivot` expands.
//!
//! Only the commands to which `pivot` expands can be written; parsing the text yields equal nodes. Not here: searches
//! of users, which are kept as text.

use crate::ast::{
    AddTotalsCommand, Aggregate, AggregateArg, AssignTarget, Assignment, BinCommand, BinOptions, BinSpan, BinaryOp,
    ChartCommand, Command, CompareOp, DataModelCommand, DataModelMode, Expr, ExprKind, FieldPattern, SeriesOptions,
    SortCommand, SortKey, SortKind, SplitField, StatsCommand, StatsFunction, StreamStatsCommand, TimeChartCommand,
    UnaryOp,
};

/// The commands as a search; `None` if one of them cannot be written.
pub(crate) fn text_of(commands: &[Command]) -> Option<String> {
    let texts: Vec<String> = commands.iter().map(command).collect::<Option<_>>()?;
    Some(format!("| {}", texts.join(" | ")))
}

fn command(command: &Command) -> Option<String> {
    Some(match command {
        Command::DataModel(model) => source(model)?,
        Command::Where(filter) => format!("where {}", expr(&filter.condition)?),
        Command::Eval(eval) => {
            let assignments: Vec<String> = eval.assignments.iter().map(assignment).collect::<Option<_>>()?;
            format!("eval {}", assignments.join(", "))
        }
        Command::Stats(stats) => stats_text("stats", stats)?,
        Command::EventStats(stats) => stats_text("eventstats", &stats.0)?,
        Command::StreamStats(stats) => running(stats)?,
        Command::Chart(chart) => chart_text(chart)?,
        Command::TimeChart(chart) => timechart(chart)?,
        Command::Bin(bin) => bin_text(bin)?,
        Command::Rename(rename) => {
            let pairs = rename.pairs.iter().map(|(from, to)| format!("{} AS {}", quote(&from.text), quote(&to.text)));
            format!("rename {}", pairs.collect::<Vec<_>>().join(", "))
        }
        Command::Sort(sort) => sort_text(sort)?,
        Command::Table(table) => format!("table {}", names(&table.fields)),
        Command::Fields(fields) => {
            format!("fields {}{}", if fields.removes { "- " } else { "" }, names(&fields.fields))
        }
        Command::AddTotals(totals) => totals_text(totals)?,
        _ => return None,
    })
}

fn source(model: &DataModelCommand) -> Option<String> {
    let name = model.name.as_ref().filter(|_| model.mode == DataModelMode::Flat && !model.strict_fields)?;
    let object = name.object.as_ref().map_or(String::new(), |object| format!(".{object}"));
    Some(format!("from datamodel:{}", quote(&format!("{}{object}", name.model))))
}

fn stats_text(name: &str, stats: &StatsCommand) -> Option<String> {
    let StatsCommand { aggregates, by, all_num: false, dedup_split_values: false, .. } = stats else { return None };
    Some(format!("{name} {}{}", aggregates_text(aggregates)?, by_text(by)))
}

fn running(stats: &StreamStatsCommand) -> Option<String> {
    let rest = StreamStatsCommand { aggregates: Vec::new(), by: Vec::new(), ..stats.clone() };
    let text = format!("streamstats {}{}", aggregates_text(&stats.aggregates)?, by_text(&stats.by));
    (rest == StreamStatsCommand::default()).then_some(text)
}

fn chart_text(chart: &ChartCommand) -> Option<String> {
    let ChartCommand { aggregates, computed, row: Some(row), column: Some(column), series, cont: true } = chart else {
        return None;
    };
    let (options, cells) = (series_text(series)?, aggregates_text(aggregates)?);
    let text = format!("chart {options} {cells} OVER {} BY {}", split(row)?, split(column)?);
    computed.is_empty().then_some(text)
}

fn timechart(chart: &TimeChartCommand) -> Option<String> {
    let TimeChartCommand { aggregates, computed, column, series, bin, cont: true, fixed_range: true, partial: true } =
        chart
    else {
        return None;
    };
    let span = span_option(bin)?.map_or(String::new(), |span| format!("{span} "));
    let cells = aggregates_text(aggregates)?;
    let text = match column {
        Some(column) => format!("timechart {span}{} {cells} BY {}", series_text(series)?, split(column)?),
        None if *series == SeriesOptions::default() => format!("timechart {span}{cells}"),
        None => return None,
    };
    computed.is_empty().then_some(text)
}

fn series_text(series: &SeriesOptions) -> Option<String> {
    let (limit, use_other) = (series.limit, series.use_other);
    let is_whole = *series == SeriesOptions { limit, use_other, ..SeriesOptions::default() };
    is_whole.then(|| format!("limit={limit} useother={use_other}"))
}

fn split(split: &SplitField) -> Option<String> {
    (split.bin == BinOptions::default()).then(|| quote(&split.field.text))
}

fn bin_text(bin: &BinCommand) -> Option<String> {
    let span = span_option(&bin.options)?.map_or(String::new(), |span| format!(" {span}"));
    bin.output.is_none().then(|| format!("bin {}{span}", quote(&bin.field.text)))
}

/// The text of `span=`, if it is set; `None` if there are options that cannot be written.
fn span_option(options: &BinOptions) -> Option<Option<String>> {
    if *options != (BinOptions { span: options.span.clone(), ..BinOptions::default() }) {
        return None;
    }
    Some(match &options.span {
        None => None,
        Some(BinSpan::Number(width)) => Some(format!("span={width}")),
        Some(BinSpan::Time(span)) if span.snap.is_none() => Some(format!("span={}{}", span.amount, span.unit.name())),
        Some(_) => return None,
    })
}

fn sort_text(sort: &SortCommand) -> Option<String> {
    let SortCommand { limit, has_limit: true, keys, reverse: false } = sort else { return None };
    let keys: Vec<String> = keys.iter().map(sort_key).collect();
    Some(format!("sort {limit} {}", keys.join(" ")))
}

fn sort_key(key: &SortKey) -> String {
    let (sign, field) = (if key.descending { "-" } else { "" }, quote(&key.field.text));
    match key.kind {
        SortKind::Auto => format!("{sign}{field}"),
        SortKind::Num => format!("{sign}num({field})"),
        SortKind::Ip => format!("{sign}ip({field})"),
        SortKind::Str => format!("{sign}str({field})"),
    }
}

fn totals_text(totals: &AddTotalsCommand) -> Option<String> {
    let AddTotalsCommand { row, column, field_name, label_field, label, fields } = totals;
    if row == column || !fields.is_empty() {
        return None;
    }
    let label_field = label_field.as_ref().map_or(String::new(), |field| format!(" labelfield={}", quote(field)));
    Some(match row {
        true => format!("addtotals fieldname={}", quote(field_name)),
        false => format!("addcoltotals{label_field} label={}", quote(label)),
    })
}

fn aggregates_text(aggregates: &[Aggregate]) -> Option<String> {
    let text = |aggregate: &Aggregate| {
        let call = call_text(&aggregate.function, &aggregate.arg)?;
        Some(if aggregate.renamed { format!("{call} AS {}", quote(&aggregate.name)) } else { call })
    };
    aggregates.iter().map(text).collect::<Option<Vec<_>>>().map(|texts| texts.join(" "))
}

fn call_text(function: &StatsFunction, arg: &AggregateArg) -> Option<String> {
    if let StatsFunction::Sparkline { inner, span } = function {
        let span = span.as_ref().map_or(String::new(), |span| format!(", {}{}", span.amount, span.unit.name()));
        return Some(format!("sparkline({}{span})", call_text(inner, arg)?));
    }
    // Only `mstats` has these functions, in its own syntax.
    let is_written = !matches!(function, StatsFunction::SeriesRate { .. });
    let name = is_written.then(|| function.name())?;
    Some(match arg {
        AggregateArg::Rows => name,
        AggregateArg::Field(field) => format!("{name}({})", argument(&field.text)),
        AggregateArg::Eval(inner) => format!("{name}(eval({}))", expr(inner)?),
    })
}

/// A field as the argument of an aggregate: in quotes unless it is a plain name.
fn argument(name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '*'));
    if is_plain { name.to_owned() } else { quote(name) }
}

fn by_text(by: &[FieldPattern]) -> String {
    if by.is_empty() { String::new() } else { format!(" BY {}", names(by)) }
}

fn names(fields: &[FieldPattern]) -> String {
    fields.iter().map(|field| quote(&field.text)).collect::<Vec<_>>().join(" ")
}

fn assignment(assignment: &Assignment) -> Option<String> {
    match &assignment.target {
        // Braces in a target represent the value of another field.
        AssignTarget::Field(name) if !name.contains(['{', '}']) => {
            Some(format!("{}={}", eval_field(name)?, expr(&assignment.expr)?))
        }
        _ => None,
    }
}

fn expr(node: &Expr) -> Option<String> {
    let list = |nodes: &[Expr]| nodes.iter().map(expr).collect::<Option<Vec<_>>>().map(|texts| texts.join(", "));
    Some(match &node.kind {
        ExprKind::Text(text) => quote(text),
        ExprKind::Number(_, written) => written.clone(),
        ExprKind::Bool(_) => return None,
        ExprKind::Field(name) => eval_field(name)?,
        ExprKind::Unary(UnaryOp::Neg, inner) => format!("-{}", operand(inner)?),
        ExprKind::Unary(UnaryOp::Plus, inner) => format!("+{}", operand(inner)?),
        ExprKind::Unary(UnaryOp::Not, inner) => format!("NOT {}", operand(inner)?),
        ExprKind::Binary(op, left, right) => {
            // A chain of an associative operator needs no parentheses: the parser builds the same balanced tree.
            let part = |part: &Expr| match &part.kind {
                ExprKind::Binary(inner, ..) if inner == op && is_chained(*op) => expr(part),
                _ => operand(part),
            };
            format!("{}{}{}", part(left)?, operator(*op), part(right)?)
        }
        ExprKind::In(value, values) => format!("{} IN ({})", operand(value)?, list(values)?),
        ExprKind::Call(name, arguments) => format!("{name}({})", list(arguments)?),
    })
}

/// An expression as an operand: in parentheses if it has an operator itself.
fn operand(node: &Expr) -> Option<String> {
    let text = expr(node)?;
    let is_alone = !matches!(node.kind, ExprKind::Unary(..) | ExprKind::Binary(..) | ExprKind::In(..));
    Some(if is_alone { text } else { format!("({text})") })
}

fn is_chained(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Concat)
}

fn operator(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Rem => "%",
        BinaryOp::Concat => ".",
        BinaryOp::Compare(CompareOp::Eq) => "=",
        BinaryOp::Compare(CompareOp::Ne) => "!=",
        BinaryOp::Compare(CompareOp::Lt) => "<",
        BinaryOp::Compare(CompareOp::Le) => "<=",
        BinaryOp::Compare(CompareOp::Gt) => ">",
        BinaryOp::Compare(CompareOp::Ge) => ">=",
        BinaryOp::Like => " LIKE ",
        BinaryOp::And => " AND ",
        BinaryOp::Or => " OR ",
        BinaryOp::Xor => " XOR ",
    }
}

/// A text in double quotes.
pub(crate) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A field name in single quotes, as in expressions; `None` if the name contains a single quote.
fn eval_field(name: &str) -> Option<String> {
    (!name.contains('\'')).then(|| format!("'{name}'"))
}
