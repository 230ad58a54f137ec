//! Child processes of a node: programs that bring events in, carry out search commands and act on alerts.
//!
//! Each runs in a process group of its own within limits ([`ProgramGroup`]) and is ended with all it began, at the latest by
//! [`end_all`]. [`ProgramInputs`] has the inputs of inputs.conf that run programs; [`CustomCommands`] starts the commands
//! of commands.conf for a search and the alert actions of alert_actions.conf.
//!
//! Not here: what a program's output means (`quarry_inputs::program`, the engine's chunked protocol), which apps there are
//! (`quarry_apps`).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod alert_actions;
mod commands;
mod files;
mod group;
mod inputs;

pub use commands::CustomCommands;
pub use group::{LOOK_MS, Pipes, Program, ProgramGroup, end_all, keep_complaints, spawn};
pub use inputs::{ProgramInputs, Stores, start as start_inputs};
