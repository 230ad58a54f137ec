//! Text that comes over the network: bytes of connections and datagrams to events in the store, without sockets.
//!
//! A [`RawStream`] is one connection: its bytes go through an index pipeline, which is given up when the connection is
//! silent, so that thousands of silent ones hold next to nothing. [`Datagrams`] are the senders of one UDP port, each
//! with a pipeline. Events leave through an [`Appender`], which keeps what the store has not taken.
//!
//! Not here: binding and reading, TLS, names of addresses, who waits for whom.

mod access;
mod appender;
mod datagrams;
mod framing;
mod statsd;
mod stream;

pub use access::AccessList;
pub use appender::{Appender, hand_over};
pub use datagrams::{Datagram, Datagrams};
pub use stream::{RawStream, Template};
