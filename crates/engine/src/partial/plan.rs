//! Which searches have partial states that can be kept, and under what name.
//!
//! The name of a plan is everything its states follow from, written out: the condition with its subsearches replaced
//! by what they found, the commands up to the fold with all their options, the fields wanted, the zone. Whoever is not
//! sure that a part is in the name gives none: a search without a name is run as always.
//!
//! Not here: how fields are cut (an engine and its states share one set of rules), and the range of the search (states
//! are kept of pages that lie wholly inside it).

use jiff::tz::TimeZone;
use quarry_spl::ast::{
    AggregateArg, BinOptions, Command, Expr, ExprKind, SearchCommand, SearchExpr, SplitField, Stage,
};

use crate::command::CommandContext;
use crate::scan::fields::FieldWish;

/// Bytes of a plan's name at most; what a large subsearch found makes longer ones.
const NAME_BYTES_MAX: usize = 16 << 10;
/// Functions whose value is not a matter of the row alone.
const CHANGING: [&str; 5] = ["now", "time", "random", "rand", "lookup"];

/// The name of the plan whose fold is the first reducing command of `rest`; `None` where no states can be kept. `fold`
/// is what the fold adds to the name ([`crate::command::Reduce::fold_name`]).
pub(crate) fn plan_name(
    condition: &SearchExpr,
    search: &SearchCommand,
    rest: &[Stage],
    wish: &FieldWish,
    fold: &str,
    context: &CommandContext,
) -> Option<String> {
    let is_fold = |stage: &Stage| {
        use Command::{Chart, Rare, Stats, TimeChart, Top};
        matches!(stage.command, Stats(_) | Chart(_) | TimeChart(_) | Top(_) | Rare(_))
    };
    let map = &rest[..=rest.iter().position(is_fold)?];
    // All fields, or those of a pattern, are shown up to a number that counts over the whole search.
    let is_open = wish.all || !wish.patterns.is_empty();
    let by_arrival = search.time.index_earliest.is_some() || search.time.index_latest.is_some();
    if is_open || by_arrival || !is_settled(condition) || !map.iter().all(is_repeatable) {
        return None;
    }
    let commands: Vec<&Command> = map.iter().map(|stage| &stage.command).collect();
    let zone = name_of(&context.zone)?;
    let name = format!("{condition:?}\n{commands:?}\n{wish:?}\n{fold:?}\n{zone:?}");
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// Zones without a name are compared with nothing.
fn name_of(zone: &TimeZone) -> Option<&str> {
    zone.iana_name()
}

/// Whether a command makes the same of a row in every search, and always has this name.
pub(crate) fn is_repeatable(stage: &Stage) -> bool {
    let arguments = |aggregates: &[quarry_spl::ast::Aggregate]| {
        aggregates.iter().all(|aggregate| match &aggregate.arg {
            AggregateArg::Eval(expr) => is_constant(expr),
            AggregateArg::Rows | AggregateArg::Field(_) => true,
        })
    };
    let splits = |split: &Option<SplitField>| split.as_ref().is_none_or(|split| is_aligned(&split.bin));
    match &stage.command {
        Command::Search(search) => is_settled(&search.expr),
        Command::Where(expr) => is_constant(expr),
        Command::Eval(assignments) => assignments.iter().all(|assignment| is_constant(&assignment.expr)),
        Command::Stats(stats) => arguments(&stats.aggregates),
        Command::Chart(chart) => arguments(&chart.aggregates) && splits(&chart.row) && splits(&chart.column),
        Command::TimeChart(chart) => arguments(&chart.aggregates) && splits(&chart.column) && is_aligned(&chart.bin),
        Command::Bin(bin) => is_aligned(&bin.options),
        Command::Top(_)
        | Command::Rare(_)
        | Command::Table(_)
        | Command::FieldsKeep(_)
        | Command::FieldsRemove(_)
        | Command::Rename(_)
        | Command::Rex(_)
        | Command::RexSed(_)
        | Command::Regex(_)
        | Command::Spath(_)
        | Command::FillNull(_)
        | Command::MakeMv(_)
        | Command::MvExpand(_) => true,
        // Lookups read tables that change without a trace; the others do not come before a fold.
        _ => false,
    }
}

/// Whether spans start where the span itself says, and not at a bound of the search.
fn is_aligned(options: &BinOptions) -> bool {
    options.align_time.is_none()
}

/// Whether a condition needs nothing but the event.
pub(crate) fn is_settled(condition: &SearchExpr) -> bool {
    match condition {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().all(is_settled),
        SearchExpr::Not(part) => is_settled(part),
        // One in the middle of a search is run where the search is made ready; what it found is not in the tree.
        SearchExpr::Subsearch(_) => false,
        SearchExpr::All
        | SearchExpr::Keyword(_)
        | SearchExpr::Term(_)
        | SearchExpr::Case(_)
        | SearchExpr::Compare { .. }
        | SearchExpr::In { .. }
        | SearchExpr::Indexed { .. } => true,
    }
}

/// Whether a time format is known to name the day and its year, so that no time read by it depends on today.
fn names_whole_day(format: Option<&Expr>) -> bool {
    let Some(Expr { kind: ExprKind::Text(format), .. }) = format else { return false };
    let names = |directives: &[&str]| directives.iter().any(|directive| format.contains(directive));
    names(&["%s", "%F", "%D", "%x", "%c", "%+"]) || (names(&["%Y", "%y"]) && names(&["%d", "%e", "%j"]))
}

/// Whether an expression gives the same for the same row at any time.
pub(crate) fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Text(_) | ExprKind::Number(..) | ExprKind::Bool(_) | ExprKind::Field(_) => true,
        ExprKind::Unary(_, value) => is_constant(value),
        ExprKind::Binary(_, left, right) => is_constant(left) && is_constant(right),
        ExprKind::In(value, list) => is_constant(value) && list.iter().all(is_constant),
        ExprKind::Call(name, arguments) => {
            let depends = CHANGING.iter().any(|changing| name.eq_ignore_ascii_case(changing))
                || (name.eq_ignore_ascii_case("strptime") && !names_whole_day(arguments.get(1)));
            !depends && arguments.iter().all(is_constant)
        }
    }
}
