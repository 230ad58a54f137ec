//! S2S, the protocol of Splunk's forwarders, without sockets.
//!
//! [`wire`] splits bytes into frames (versions 2 and 3: pairs of keys and values) and packets (version 4: tags and
//! varints), also compressed ones, and enforces limits. A [`Forwarder`] is one incoming connection: it answers the
//! handshake, maintains channels, parses unparsed text through index pipelines and stores parsed events as they are.
//! Data is acknowledged only when it is on disk, so the ids to acknowledge are returned together with the batches that
//! must be stored first.
//!
//! [`sender`] is the other side: the messages of Quarry's forwarder to an indexer. A receiver that supports whole
//! [`batch`]es gets them with numbers, by which it recognises a repeated batch.
//!
//! The implementation follows public captures and descriptions of the protocol. Not here: sockets, TLS, heartbeats to
//! forwarders.

pub mod batch;
mod channel;
mod forwarder;
pub mod sender;
pub mod wire;
mod zone;

pub use forwarder::{Forwarder, ForwarderDefaults, NumberedBatch};

use quarry_stdx::{ErrorKind, HasKind};

/// Error that ends a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum S2sError {
    /// The first bytes are not a forwarder's.
    #[error("not a forwarder: the connection does not begin with a greeting of S2S version 2 or 3")]
    Greeting,
    /// A frame or packet exceeds its limit.
    #[error("{what} of {bytes} bytes is longer than {limit}")]
    TooLong {
        /// Name of the frame, packet or text.
        what: &'static str,
        /// Declared size.
        bytes: u64,
        /// The limit.
        limit: usize,
    },
    /// A frame or packet has too many elements.
    #[error("{count} {what} are more than {limit}")]
    TooMany {
        /// The elements and their container, such as `pairs in a frame`.
        what: &'static str,
        /// Declared number.
        count: u64,
        /// The limit.
        limit: usize,
    },
    /// The bytes violate the protocol.
    #[error("{0}")]
    Malformed(&'static str),
    /// An unknown packet.
    #[error("unknown packet {0:#04x}")]
    UnknownPacket(u8),
    /// A channel is not open, is opened twice, or is one too many.
    #[error("channel {number} {problem}")]
    Channel {
        /// Channel number.
        number: u64,
        /// Violated rule.
        problem: &'static str,
    },
    /// The forwarder presents no valid token.
    #[error("it sends no token of [splunktcptoken://NAME]; set `token` in its outputs.conf")]
    Token,
    /// The rules of a sourcetype are invalid.
    #[error("{0}")]
    Pipeline(String),
}

impl HasKind for S2sError {
    fn kind(&self) -> ErrorKind {
        match self {
            S2sError::Greeting
            | S2sError::TooLong { .. }
            | S2sError::TooMany { .. }
            | S2sError::Malformed(_)
            | S2sError::UnknownPacket(_)
            | S2sError::Channel { .. }
            | S2sError::Pipeline(_) => ErrorKind::Invalid,
            S2sError::Token => ErrorKind::Denied,
        }
    }
}
