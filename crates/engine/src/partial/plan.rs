//! Which searches have partial states that can be kept, and under what name.
//!
//! The name of a plan is everything its states follow from, written out: the condition with its subsearches replaced
//! by what they found, the commands up to the fold with all their options, the fields wanted, the zone. Whoever is not
//! sure that a part is in the name gives none: a search without a name is run as always.
//!
//! Not here: how fields are cut (an engine and its states share one set of rules), and the range of the search (states
//! are kept of pages that lie wholly inside it).

use jiff::tz::TimeZone;
use quarry_spl::analyse::is_settled;
use quarry_spl::ast::{Command, SearchCommand, SearchExpr, Stage};

use crate::command::CommandContext;
use crate::scan::fields::FieldWish;

/// Bytes of a plan's name at most; what a large subsearch found makes longer ones.
const NAME_BYTES_MAX: usize = 16 << 10;
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
        use Command::{Chart, Stats, TimeChart, Top};
        matches!(stage.command, Stats(_) | Chart(_) | TimeChart(_) | Top(_))
    };
    let map = &rest[..=rest.iter().position(is_fold)?];
    // All fields, or those of a pattern, are shown up to a number that counts over the whole search.
    let is_open = wish.all || !wish.patterns.is_empty();
    let by_arrival = search.time.index_earliest.is_some() || search.time.index_latest.is_some();
    if is_open || by_arrival || !is_settled(condition) || !map.iter().all(|stage| stage.command.is_repeatable()) {
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
