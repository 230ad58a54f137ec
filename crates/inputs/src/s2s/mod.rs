//! Forwarders: the S2S protocol that Splunk's forwarders speak, without sockets.
//!
//! [`wire`] cuts bytes into frames (versions 2 and 3: pairs of keys and values) and packets (version 4: tags and
//! variable-length numbers), also compressed ones, within limits. A [`Forwarder`] is one connection: it answers the
//! handshake, keeps channels, sends text that is not cut yet through index pipelines and takes events that are as they
//! are. What was acknowledged is on disk: ids leave only together with the receipts they wait for.
//!
//! [`sender`] is the other side: what a forwarder of ours says to an indexer. To one that answers that it knows them it
//! sends whole [`batch`]es, each with a number by which a repeated one is known.
//!
//! Facts are from public captures and descriptions of the protocol. Not here: sockets, TLS,
//! heartbeats to forwarders.

pub mod batch;
mod channel;
mod forwarder;
pub mod sender;
pub mod wire;
mod zone;

pub use forwarder::{Forwarder, ForwarderDefaults, Numbered};

use quarry_stdx::{ErrorKind, HasKind};

/// Why a connection is given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum S2sError {
    /// The first bytes are not a forwarder's.
    #[error("not a forwarder: the connection does not begin with a greeting of S2S version 2 or 3")]
    Greeting,
    /// A frame or packet is longer than what is taken.
    #[error("{what} of {bytes} bytes is longer than {limit}")]
    TooLong {
        /// What it is.
        what: &'static str,
        /// Bytes that it says it has.
        bytes: u64,
        /// Bytes that are taken.
        limit: usize,
    },
    /// The bytes do not fit the protocol.
    #[error("{0}")]
    Malformed(&'static str),
    /// A packet that is not known.
    #[error("unknown packet {0:#04x}")]
    UnknownPacket(u8),
    /// A channel's number is not open, or open already, or there are too many.
    #[error("channel {number} {problem}")]
    Channel {
        /// Its number.
        number: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// It shows no token, or none that is known.
    #[error("it shows no token of [splunktcptoken://NAME]; write one as `token` to its outputs.conf")]
    Token,
    /// The rules of a sourcetype cannot be used.
    #[error("{0}")]
    Pipeline(String),
}

impl HasKind for S2sError {
    fn kind(&self) -> ErrorKind {
        match self {
            S2sError::Greeting
            | S2sError::TooLong { .. }
            | S2sError::Malformed(_)
            | S2sError::UnknownPacket(_)
            | S2sError::Channel { .. }
            | S2sError::Pipeline(_) => ErrorKind::Invalid,
            S2sError::Token => ErrorKind::Denied,
        }
    }
}
