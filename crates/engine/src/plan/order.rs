//! Whether commands without a fold in the workers give the same result for rows in any order.

use quarry_spl::analyse::required_fields;
use quarry_spl::ast::{Aggregate, Command, DedupCommand, DependsOn, Stage};
use quarry_spl::commands::Kind;

/// Whether these commands have the same result for rows in any order: true for a `stats` whose functions depend only on
/// values, after commands that process each row by itself, `eventstats` with such functions, and `dedup` that may keep
/// any row of a combination.
pub(super) fn is_any_order_enough(commands: &[Stage]) -> bool {
    for (at, stage) in commands.iter().enumerate() {
        match &stage.command {
            Command::Search(_) | Command::Where(_) | Command::Eval(_) if stage.command.is_repeatable() => {}
            Command::EventStats(eventstats) if read_only_values(&eventstats.0.aggregates) => {}
            Command::Dedup(dedup) if is_any_row_enough(dedup, &commands[at + 1..]) => {}
            Command::Stats(stats) => return stage.command.kind() == Kind::Fold && read_only_values(&stats.aggregates),
            _ => return false,
        }
    }
    false
}

fn read_only_values(aggregates: &[Aggregate]) -> bool {
    aggregates.iter().all(|aggregate| aggregate.function.depends_on() == DependsOn::Nothing)
}

/// Whether `dedup` may keep any rows of a combination, because the commands after it read no fields.
fn is_any_row_enough(dedup: &DedupCommand, rest: &[Stage]) -> bool {
    let needs = required_fields(rest);
    let is_plain = !dedup.keep_events && !dedup.consecutive && dedup.sort_by.is_empty();
    is_plain && !needs.all && needs.patterns.is_empty() && needs.fields.is_empty()
}
