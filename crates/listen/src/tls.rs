//! TLS of ports, with the configured certificate or a generated one.
//!
//! Without `serverCert`, the first start generates a key and a certificate in `etc/auth` of the data directory; they
//! are kept, so that clients that pin them continue to work. TLS is implemented by rustls with ring
//! (docs/decisions/0016).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use quarry_conf::SslSettings;
use quarry_stdx::{Fault, log, private_file};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::error::ListenError;
use crate::http_port::Security;

/// The generated certificate and key, relative to the data directory.
const OWN_CERTIFICATE: &str = "etc/auth/server.pem";

/// Creates a TLS acceptor. ALPN is not used if `protocols` is empty. `host` is the name in a generated certificate.
pub(crate) fn acceptor(
    data_dir: &Path,
    host: &str,
    settings: &SslSettings,
    protocols: &[&[u8]],
) -> Result<TlsAcceptor, ListenError> {
    let mut config = config(data_dir, host, settings).map_err(ListenError::Tls)?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl Security {
    /// Security of a port that accepts TLS, and plain connections from this machine.
    pub fn optional_tls(data_dir: &Path, host: &str, settings: &SslSettings) -> Result<Security, ListenError> {
        acceptor(data_dir, host, settings, &[]).map(Security::TlsBeyond)
    }
}

fn config(data_dir: &Path, host: &str, settings: &SslSettings) -> Result<ServerConfig, Fault> {
    let path = match &settings.certificate {
        Some(path) => data_dir.join(expand_home(path, data_dir)),
        None => own_certificate(data_dir, host)?,
    };
    let about = |reason: &dyn std::fmt::Display| Fault::invalid(format!("{}: {reason}", path.display()));
    let pem = std::fs::read(&path).map_err(|error| about(&error))?;
    let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| about(&error))?;
    let key = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|error| about(&format!("there is no unencrypted private key: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| Fault::bug(error.to_string()))?;
    let builder = match roots(data_dir, settings)? {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| Fault::invalid(error.to_string()))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| about(&error))?;
    // No session tickets are sent: a client that only sends events and closes would leave them unread. The client's
    // system would then reset the connection and drop data that had not been sent yet.
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Certificate authorities of client certificates, if such certificates are required.
fn roots(data_dir: &Path, settings: &SslSettings) -> Result<Option<RootCertStore>, Fault> {
    if !settings.requires_client {
        return Ok(None);
    }
    let path = settings.roots.as_ref().ok_or_else(|| Fault::invalid("requireClientCert needs sslRootCAPath"))?;
    let path = data_dir.join(expand_home(path, data_dir));
    let about = |reason: &dyn std::fmt::Display| Fault::invalid(format!("{}: {reason}", path.display()));
    let pem = std::fs::read(&path).map_err(|error| about(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.map_err(|error| about(&error))?).map_err(|error| about(&error))?;
    }
    Ok(Some(roots))
}

/// Expands `$SPLUNK_HOME` to the data directory.
pub fn expand_home(path: &str, data_dir: &Path) -> String {
    path.replace("$SPLUNK_HOME", &data_dir.display().to_string())
}

fn own_certificate(data_dir: &Path, host: &str) -> Result<PathBuf, Fault> {
    let path = data_dir.join(OWN_CERTIFICATE);
    if path.exists() {
        return Ok(path);
    }
    let names = vec![host.to_owned(), "localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| Fault::bug(error.to_string()))?;
    let pem = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
    private_file::write(&path, &pem)?;
    log::info(format!("created a self-signed certificate: {}", path.display()));
    Ok(path)
}

/// Timeout of a handshake; then the connection is closed.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
