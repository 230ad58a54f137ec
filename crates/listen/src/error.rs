//! Why a port does not listen.

use std::io;
use std::net::SocketAddr;

use quarry_stdx::{ErrorKind, Fault, HasKind};

/// A port that cannot listen as it is asked to.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The command line asks for a port that would show tokens to others.
    #[error(
        "--hec {0} is reachable from other machines, and tokens must not go there in clear: set enableSSL = true in [http]"
    )]
    TokensInClear(SocketAddr),
    /// The address is taken, or is not this machine's.
    #[error("cannot listen on {address}: {source}")]
    Address {
        /// Where it should listen.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A stanza of inputs.conf cannot be carried out.
    #[error("inputs.conf [{stanza}]: {reason}")]
    Stanza {
        /// Name of the stanza, or of those that share the port.
        stanza: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificate cannot be used or made.
    #[error("TLS: {0}")]
    Tls(Fault),
}

impl HasKind for ListenError {
    fn kind(&self) -> ErrorKind {
        match self {
            ListenError::TokensInClear(_) | ListenError::Stanza { .. } => ErrorKind::Invalid,
            ListenError::Tls(fault) => fault.kind(),
            ListenError::Address { .. } => ErrorKind::Unavailable,
        }
    }
}
