//! The binary as its users meet it: processes, files, exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod add_and_search;
mod alert_actions;
mod changes;
mod collections;
mod collector;
mod compaction;
mod configuration;
mod crash_and_damage;
mod custom_commands;
mod deleting;
mod doors;
mod dumping;
mod explain;
mod forwarders;
mod forwarding;
mod hostile;
mod jobs;
mod kept_results;
mod knowledge;
mod links;
mod lookup_uploads;
mod models;
mod monitor;
mod namespaces;
mod network;
mod objects;
mod older_commands;
mod permissions;
mod pipeline_sets;
mod preview;
mod programs;
mod server;
mod support;
mod what_works;
mod zones;
