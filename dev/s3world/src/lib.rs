//! What tests of remote storage share: an S3 server of their own, and a proxy before it that fails as told.
//!
//! [`Gateway`] starts versitygw on a folder that goes when the value is dropped. [`FaultProxy`] stands between a
//! client and the server; what it does to a request follows from a seed and from the request, so that a seed replays.
//!
//! Not here: what a client should make of it.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where its world cannot be made, and says what it skips"
)]

mod gateway;
mod proxy;

pub use gateway::{CONTAINER, Gateway, KEY_ID, SECRET, ServerCertificate};
pub use proxy::{FaultProxy, Faults, Seen};
