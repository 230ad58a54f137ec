//! TLS to a PostgreSQL server with rustls. The server's certificate and host name are always verified.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quarry_stdx::Fault;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// The TLS configuration, used if `sslmode` requires or prefers TLS.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Trusts the CA certificates of `authorities`, the content of a PEM file, or else those of the system.
    pub(super) fn new(authorities: Option<&[u8]>) -> Result<Tls, Fault> {
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate = certificate.map_err(|error| Fault::invalid(format!("sslRootCAPath: {error}")))?;
                    roots.add(certificate).map_err(|error| Fault::invalid(format!("sslRootCAPath: {error}")))?;
                }
                if roots.is_empty() {
                    return Err(Fault::invalid("sslRootCAPath: the file has no certificate"));
                }
            }
            None => {
                // An unreadable certificate of the system is skipped.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::bug(format!("TLS: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Tls(Arc::new(config)))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = ToHost;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<ToHost, InvalidDnsNameError> {
        // Called even for hosts without TLS; a Unix socket has no name.
        let name = if host.is_empty() { None } else { Some(ServerName::try_from(host.to_owned())?) };
        Ok(ToHost { config: self.0.clone(), name })
    }
}

/// Connector for one host.
pub(super) struct ToHost {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl TlsConnect<Socket> for ToHost {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let name =
                self.name.ok_or_else(|| io::Error::other("TLS needs a host name, and a Unix socket has none"))?;
            Ok(Encrypted(TlsConnector::from(self.config).connect(name, socket).await?))
        })
    }
}

/// An encrypted connection.
pub(super) struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, out)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
