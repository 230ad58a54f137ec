//! Errors when a port is opened.

use std::io;
use std::net::SocketAddr;

use quarry_stdx::{ErrorKind, Fault, HasKind};

/// Error when a port is opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The command line requests a port that would expose tokens.
    #[error(
        "--hec {0} is reachable from other machines, and tokens must not be sent unencrypted: set enableSSL = true \
         in [http]"
    )]
    TokensInClear(SocketAddr),
    /// The port cannot be opened, for example because its address is in use or not local.
    #[error("{name}: cannot listen on {address}: {source}{}", port_advice(source, setting))]
    Address {
        /// The service of the port.
        name: String,
        /// The option or setting that names the port.
        setting: &'static str,
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A stanza of inputs.conf cannot be applied.
    #[error("inputs.conf [{stanza}]: {reason}")]
    Stanza {
        /// Name of the stanza, or names of all stanzas that share the port.
        stanza: String,
        /// Problem and remedy.
        reason: String,
    },
    /// The host that a stanza restricts its port to has no address.
    #[error(
        "inputs.conf [{stanza}]: {sender} has no address ({source}), so nothing is received for it: correct the name, \
         then change the input or start the node again"
    )]
    UnknownSender {
        /// Name of the stanza.
        stanza: String,
        /// The host that the stanza names.
        sender: String,
        /// The system's error.
        source: io::Error,
    },
    /// The certificate cannot be used or generated.
    #[error("TLS: {0}")]
    Tls(Fault),
    /// The file with the next acknowledgment id cannot be used.
    #[error("{0}")]
    AckNumbers(Fault),
}

/// The remedy for a port that an option or setting names.
fn port_advice(error: &io::Error, setting: &str) -> String {
    advice(error, &format!("another program listens there: stop it, or name another port with {setting}"))
}

/// Suggests a remedy for a port that cannot be opened; `in_use` applies if another program uses the port.
pub(crate) fn advice(error: &io::Error, in_use: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("; {in_use}"),
        io::ErrorKind::PermissionDenied => {
            "; a port below 1024 requires root or the capability CAP_NET_BIND_SERVICE (AmbientCapabilities in a systemd \
             unit)"
                .to_owned()
        }
        _ => String::new(),
    }
}

impl HasKind for ListenError {
    fn kind(&self) -> ErrorKind {
        match self {
            ListenError::TokensInClear(_) | ListenError::Stanza { .. } => ErrorKind::Invalid,
            ListenError::Tls(fault) | ListenError::AckNumbers(fault) => fault.kind(),
            ListenError::Address { .. } | ListenError::UnknownSender { .. } => ErrorKind::Unavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_depends_on_the_error() {
        let advice = |kind: io::ErrorKind| advice(&kind.into(), "stop the other program");
        assert_eq!(advice(io::ErrorKind::AddrInUse), "; stop the other program");
        assert!(advice(io::ErrorKind::PermissionDenied).contains("CAP_NET_BIND_SERVICE"));
        assert_eq!(advice(io::ErrorKind::AddrNotAvailable), "");
    }
}
