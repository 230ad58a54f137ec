//! Test support for a catalog in PostgreSQL: a server, and a proxy that cuts connections.
//!
//! [`PostgreSql`] starts the installed server in a folder that is removed when the value is dropped; the server can be
//! killed as in a power failure, and started again. [`CuttingProxy`] sits between a client and the server, counts the
//! client's messages, and cuts the connection at a chosen message.
//!
//! Not here: the reaction of a client.
#![allow(clippy::expect_used, clippy::panic, reason = "a test ends where its world cannot be made")]

mod proxy;
mod server;

pub use proxy::{Cut, CuttingProxy};
pub use server::PostgreSql;
