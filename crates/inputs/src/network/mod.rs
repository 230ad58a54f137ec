//! Text over the network: converts the bytes of connections and datagrams to stored events, without sockets.
//!
//! A [`RawStream`] is one connection: its bytes pass through an index pipeline. The pipeline is dropped when the
//! connection is silent, so that thousands of silent connections take almost no memory. [`Datagrams`] has the senders
//! of one UDP port, each with a pipeline. Events leave through an [`Appender`], which keeps what the store has not
//! accepted.
//!
//! Not here: sockets, TLS, DNS, scheduling.

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
