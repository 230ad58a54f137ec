//! Typed views of the confs other than props.conf: missing and invalid settings have their defaults.

pub mod authorize;
pub mod catalog;
pub mod datamodels;
pub mod http_input;
pub mod index_rules;
pub mod indexes;
pub mod limits;
pub mod macros;
pub mod monitor;
pub mod network_input;
pub mod outputs;
pub mod program_input;
pub mod server;
pub mod tags;
pub mod transforms;
pub mod volumes;
