//! TLS connections to indexers, as configured in outputs.conf.
//!
//! Without `sslVerifyServerCert` the connection is encrypted but any certificate is accepted, as in Splunk. With this
//! setting, the certificate must be signed by one of `sslRootCAPath` and match the server's name.

use std::path::Path;
use std::sync::Arc;

use quarry_conf::OutputTls;
use quarry_listen::expand_home;
use quarry_stdx::Fault;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

/// A TLS connector for a server address, and the name the server's certificate must have.
pub(super) fn connector(
    data_dir: &Path,
    address: &str,
    settings: &OutputTls,
) -> Result<(TlsConnector, ServerName<'static>), Fault> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| Fault::bug(error.to_string()))?;
    let builder = if settings.verifies {
        let path = settings.roots.as_ref().ok_or_else(|| Fault::invalid("sslVerifyServerCert needs sslRootCAPath"))?;
        builder.with_root_certificates(roots(&data_dir.join(expand_home(path, data_dir)))?)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
    };
    let config = match &settings.certificate {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let path = data_dir.join(expand_home(path, data_dir));
            let about = file_error(&path);
            let pem = std::fs::read(&path).map_err(|error| about(&error))?;
            let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            let chain = chain.map_err(|error| about(&error))?;
            let key = PrivateKeyDer::from_pem_slice(&pem)
                .map_err(|error| about(&format!("there is no unencrypted private key: {error}")))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| about(&error))?
        }
    };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let name = settings.name.as_deref().unwrap_or(host);
    let name = ServerName::try_from(name.to_owned()).map_err(|error| Fault::invalid(format!("{name}: {error}")))?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

fn roots(path: &Path) -> Result<RootCertStore, Fault> {
    let about = file_error(path);
    let pem = std::fs::read(path).map_err(|error| about(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.map_err(|error| about(&error))?).map_err(|error| about(&error))?;
    }
    Ok(roots)
}

/// Error context for a file of certificates or keys.
fn file_error(path: &Path) -> impl Fn(&dyn std::fmt::Display) -> Fault {
    move |reason| Fault::invalid(format!("{}: {reason}", path.display()))
}

/// Accepts any certificate; the handshake still proves that the server has the certificate's private key.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
