//! The typing stage: processing of an event by props.conf and transforms.conf between its timestamp and the index.
//!
//! Order of processing: `ROUTE_EVENTS_OLDER_THAN`; `SEDCMD-` settings by class; `TRANSFORMS-` by class and, within a
//! class, as listed; `RULESET-` in the same order. A [`TypingPlan`] is compiled once per source; sources without such
//! settings have no plan and no overhead. Rules write keys of a [`TypedEvent`](event::TypedEvent), which is finally
//! added to the batch, possibly for another index or with copies (`CLONE_SOURCETYPE`), or dropped.
//!
//! Not here: timestamps, breaking and merging (earlier stages); `punct` and the `date_` fields, which searches compute.

mod assign;
pub(crate) mod event;
mod format;
mod output;
mod plan;
mod rule;
mod sed;

pub use format::pairs as meta_pairs;
pub(crate) use output::Typing;
pub use output::{EventTyping, TypingStage, WholeEvent};
pub use plan::TypingPlan;

#[cfg(test)]
mod tests;
