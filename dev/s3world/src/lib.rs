//! Test support for remote storage: an S3 server, and a proxy that injects faults.
//!
//! [`Gateway`] starts versitygw, or MinIO, on a directory that is removed when the value is dropped. [`FaultProxy`]
//! sits between a client and the server; its faults are determined by a seed and the request, so that a seed can be
//! replayed.
//!
//! Not here: the reaction of a client.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where its world cannot be made, and says what it skips"
)]

mod gateway;
mod proxy;

pub use gateway::{CONTAINER, Gateway, KEY_ID, SECRET, ServerCertificate, install};
pub use proxy::{FaultProxy, Faults, ProxiedRequest};
