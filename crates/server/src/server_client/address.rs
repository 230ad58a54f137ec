//! Address, credentials and TLS settings for another node.
//!
//! Passwords are never sent unencrypted to another machine. Unless `--insecure` turns verification off, the node's
//! certificate must be valid for its host and signed by a CA: one in the file of `--ca-cert`, or without this option
//! one that the system trusts.

use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use quarry_stdx::log;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::CONNECT_TIMEOUT;
use crate::cli::NodeArgs;
use crate::failure::Failure;
use crate::password_input::{read_password, read_typed};

/// Default management port.
const PORT_DEFAULT: u16 = 8089;
/// Environment variable with the password for `--auth USER`. The variable exists because arguments are visible to all
/// accounts of the machine.
const PASSWORD_VARIABLE: &str = "QUARRY_PASSWORD";
/// Hint for an untrusted certificate.
pub(super) const CERTIFICATE_HINT: &str = ": the certificate is not trusted. Pass the node's certificate (etc/auth/server.pem in its data directory) with --ca-cert FILE, \
                                           or turn verification off with --insecure";

/// Scheme, host and port of an address.
pub(super) fn parse_base(uri: &str) -> Result<String, Failure> {
    let wrong = |reason: &str| Failure::Usage(format!("--uri {uri}: {reason}, as in https://HOST:8089"));
    let (scheme, rest) = uri.split_once("://").unwrap_or(("https", uri));
    let address = rest.trim_end_matches('/');
    if !matches!(scheme, "https" | "http") || address.contains(['/', '?', '#', '@']) {
        return Err(wrong("give only scheme, host and port"));
    }
    // If an IPv6 address has no port, its last colon is inside the brackets.
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong("that is not a port"))?),
        _ => (address, PORT_DEFAULT),
    };
    let is_named = !host.is_empty() && !host.contains(char::is_whitespace);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if !is_named || (bare.contains(':') && !host.starts_with('[')) {
        return Err(wrong("that is not a host name"));
    }
    let is_here = bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if scheme == "http" && !is_here {
        return Err(wrong("passwords must not be sent to another machine unencrypted, write https"));
    }
    Ok(format!("{scheme}://{host}:{port}"))
}

/// The `Authorization` header; `None` without credentials on the command line.
pub(crate) fn authorization(node: &NodeArgs) -> Result<Option<String>, Failure> {
    if let Some(token) = &node.token {
        return Ok(Some(format!("Bearer {token}")));
    }
    let Some(auth) = &node.auth else { return Ok(None) };
    let pair = match auth.split_once(':') {
        Some(_) => auth.clone(),
        None => format!("{auth}:{}", obtain_password(auth)?),
    };
    Ok(Some(format!("Basic {}", BASE64_STANDARD.encode(pair))))
}

/// Obtains the password of a user who was named without a password.
#[expect(clippy::disallowed_methods, reason = "the server crate is where the environment is read")]
fn obtain_password(user: &str) -> Result<String, Failure> {
    if let Ok(password) = std::env::var(PASSWORD_VARIABLE) {
        return Ok(password);
    }
    if std::io::stdin().is_terminal() { read_typed(&format!("password of {user}: ")) } else { read_password() }
}

/// An HTTP client with the TLS settings of the command line.
pub(super) fn agent(node: &NodeArgs) -> Result<ureq::Agent, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder().unversioned_rustls_crypto_provider(provider).disable_verification(node.insecure);
    let tls = tls.root_certs(RootCerts::from(trusted_roots(node.ca_cert.as_deref(), node.insecure)?)).build();
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        // Splunk's clients do not use a proxy either.
        .proxy(None)
        .tls_config(tls);
    Ok(config.build().into())
}

/// Trusted CA certificates.
fn trusted_roots(file: Option<&Path>, is_none_needed: bool) -> Result<Vec<Certificate<'static>>, Failure> {
    let certificate = |der: CertificateDer<'_>| Certificate::from_der(&der).to_owned();
    if is_none_needed {
        return Ok(Vec::new());
    }
    let Some(file) = file else {
        let found = rustls_native_certs::load_native_certs();
        found.errors.iter().for_each(log::warning);
        return Ok(found.certs.into_iter().map(certificate).collect());
    };
    let wrong = |reason: &dyn std::fmt::Display| Failure::Usage(format!("--ca-cert {}: {reason}", file.display()));
    let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
    let found: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| wrong(&error))?;
    if found.is_empty() {
        return Err(wrong(&"it contains no certificate in PEM format"));
    }
    Ok(found.into_iter().map(certificate).collect())
}

/// True if a request failed because the certificate was rejected.
pub(super) fn is_certificate_error(error: &ureq::Error) -> bool {
    let of_io = |error: &std::io::Error| {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
    };
    match error {
        ureq::Error::Rustls(rustls::Error::InvalidCertificate(_)) => true,
        ureq::Error::Io(error) => of_io(error),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_scheme_host_and_port() {
        for (uri, base) in [
            ("https://splunk.example:8089", "https://splunk.example:8089"),
            ("https://splunk.example/", "https://splunk.example:8089"),
            ("10.0.0.5:9000", "https://10.0.0.5:9000"),
            ("http://127.0.0.1:8089", "http://127.0.0.1:8089"),
            ("http://localhost", "http://localhost:8089"),
            ("https://[2001:db8::1]", "https://[2001:db8::1]:8089"),
            ("[::1]:1", "https://[::1]:1"),
        ] {
            assert_eq!(parse_base(uri).unwrap(), base, "{uri}");
        }
        for uri in [
            "http://10.0.0.5:8089",
            "ftp://h",
            "https://h/services",
            "https://eva:pw@h:1",
            "https://h:port",
            "https://h:70000",
            "https://",
            "https://2001:db8::1",
            "",
        ] {
            assert!(matches!(parse_base(uri), Err(Failure::Usage(_))), "{uri}");
        }
    }
}
