//! Typed settings of the conf files other than props.conf. Missing and invalid settings have their defaults; only
//! [`volumes`] reports errors.

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
