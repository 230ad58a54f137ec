//! The typing stage: processing of an event by props.conf and transforms.conf between its timestamp and the index.
//!
//! In this order: `ROUTE_EVENTS_OLDER_THAN`, `SEDCMD-` by class, `TRANSFORMS-` by class and as listed, `RULESET-`
//! likewise. A [`TypingPlan`] is compiled once per source; sources without such settings have none and no overhead.
//! Rules write keys of a [`TypedEvent`](event::TypedEvent), which is finally added to the batch: possibly for another
//! index, as several copies, or not at all.
//!
//! Not here: timestamps, breaking and merging (earlier stages); `punct` and the `date_` fields, which searches compute.

mod assign;
pub(crate) mod event;
mod format;
mod output;
mod plan;
mod rule;
mod sed;

pub(crate) use output::Typing;
pub use output::{EventTyping, TypingStage, WholeEvent};
pub use plan::TypingPlan;

#[cfg(test)]
mod tests;
