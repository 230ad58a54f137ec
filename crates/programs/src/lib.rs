//! Child processes of a node: inputs, custom search commands and alert actions.
//!
//! Each process runs in its own process group with limits ([`ProgramGroup`]), and the whole group is ended with it.
//! [`end_all`] ends all groups before the node exits. [`ProgramInputs`] runs the program inputs of inputs.conf;
//! [`CustomCommands`] starts the commands of commands.conf and the alert actions of alert_actions.conf.
//!
//! Not here: interpreting output (`quarry_inputs::program`, the engine's chunked protocol), finding apps
//! (`quarry_apps`).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod alert_actions;
mod commands;
mod files;
mod group;
mod inputs;

pub use commands::CustomCommands;
pub use group::{POLL_MS, Pipes, Program, ProgramGroup, capture_stderr, end_all, spawn};
pub use inputs::{
    ManagementPort, ModularInputKind, ModularInputKinds, ProgramInputs, ProgramSessions, SchemeArgument, Stores,
    faults as input_faults, start as start_inputs,
};
