//! The typing stage: what props.conf and transforms.conf do with an event between its timestamp and the index.
//!
//! In this order: `ROUTE_EVENTS_OLDER_THAN`, `SEDCMD-` by class, `TRANSFORMS-` by class and as listed, `RULESET-` alike.
//! A [`TypingPlan`] is compiled once per source; sources without such settings have none and pay nothing. Rules write
//! keys of a [`TypedEvent`](event::TypedEvent), which goes to the batch at the end: to another index, as several copies,
//! or not at all.
//!
//! Not here: times, breaking and merging (before), `punct` and the `date_` fields, which searches compute.

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
