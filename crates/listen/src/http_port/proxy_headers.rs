//! Detection of requests forwarded by a proxy, where a local peer does not mean a local client.
//!
//! A request counts as forwarded if it has a header that proxies, load balancers or CDNs are known to add, whatever its
//! value, or a `Host` that does not name this machine. The check of `Host` detects proxies that add no header but
//! forward the client's host name, and browsers attacked by DNS rebinding. The only effect of a false positive is that
//! the initial password is not accepted. Not detected: proxies below HTTP, and proxies that neither add a header nor
//! keep the `Host`.

use std::net::IpAddr;

use hyper::header::HOST;
use hyper::http::HeaderMap;
use hyper::http::uri::Authority;

/// Headers that proxies add.
const NAMES: &[&str] = &[
    "akamai-origin-hop",
    "cdn-loop",
    "client-ip",
    "cluster-client-ip",
    "forwarded",
    "forwarded-for",
    "forwarded-for-ip",
    "front-end-https",
    "incap-client-ip",
    "proxy-client-ip",
    "proxy-connection",
    "remote-addr",
    "remote-user",
    "true-client-ip",
    "via",
    "wl-proxy-client-ip",
    "wl-proxy-ssl",
    "x-amz-cf-id",
    "x-amzn-trace-id",
    "x-arr-clientcert",
    "x-arr-log-id",
    "x-arr-ssl",
    "x-authenticated-user",
    "x-client-ip",
    "x-cloud-trace-context",
    "x-cluster-client-ip",
    "x-coming-from",
    "x-host",
    "x-http-destinationurl",
    "x-originating-ip",
    "x-proxy-id",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-real-port",
    "x-remote-addr",
    "x-remote-ip",
    "x-remote-user",
    "x-rewrite-url",
    "x-scheme",
    "x-sendfile-type",
    "x-true-client-ip",
    "x-url-scheme",
    "x-varnish",
    "x-webauth-user",
];
/// Prefixes of such headers.
const PREFIXES: &[&str] = &[
    "cf-",
    "fastly-",
    "ssl-client-",
    "tailscale-",
    "x-appengine-",
    "x-auth-request-",
    "x-azure-",
    "x-envoy-",
    "x-forward",
    "x-goog-authenticated-",
    "x-original",
    "x-ssl-client-",
    "x-vercel-",
];
/// The local host name.
const LOCALHOST: &str = "localhost";

/// True if a request was probably forwarded; `authority` comes from the request target, which has the host in HTTP/2.
pub(super) fn is_forwarded(headers: &HeaderMap, authority: Option<&Authority>) -> bool {
    headers.keys().any(|name| is_proxy_header(name.as_str()))
        || authority.is_some_and(|authority| !is_this_machine(authority.host()))
        || headers.get_all(HOST).iter().any(|host| !host.to_str().is_ok_and(|host| is_this_machine(host_of(host))))
}

/// True if proxies add a header with this lower-case name.
fn is_proxy_header(name: &str) -> bool {
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Removes the port from a host.
fn host_of(host: &str) -> &str {
    let port = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    host.rsplit_once(':').filter(|(_, rest)| port(rest)).map_or(host, |(host, _)| host)
}

fn is_this_machine(host: &str) -> bool {
    let host = host.trim();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    host.is_empty()
        || name.rsplit('.').next() == Some(LOCALHOST)
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn with(name: &str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn every_proxy_header_is_detected() {
        for name in [
            "Forwarded",
            "Via",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Forwarded-Proto",
            "X-Forwarded-Port",
            "X-Forwarded-Server",
            "X-Forwarded-Prefix",
            "X-Forwarded-Ssl",
            "X-Real-IP",
            "X-Client-IP",
            "Client-IP",
            "True-Client-IP",
            "X-Cluster-Client-IP",
            "CF-Connecting-IP",
            "CF-Connecting-IPv6",
            "CF-Ray",
            "CDN-Loop",
            "Fastly-Client-IP",
            "X-Original-Forwarded-For",
            "X-Original-Host",
            "X-Original-URL",
            "X-Originating-IP",
            "X-Rewrite-URL",
            "X-Envoy-External-Address",
            "X-Azure-ClientIP",
            "X-Appengine-User-IP",
            "X-Amzn-Trace-Id",
            "X-ProxyUser-IP",
            "WL-Proxy-Client-IP",
            "X-Auth-Request-User",
            "Tailscale-User-Login",
            "X-Varnish",
            "Remote-User",
            "Proxy-Connection",
            "Front-End-Https",
        ] {
            assert!(is_forwarded(&with(name, ""), None), "{name}");
        }
        for name in NAMES.iter().chain(PREFIXES) {
            assert_eq!(*name, name.to_ascii_lowercase());
        }
        for name in [
            "Accept",
            "Authorization",
            "Connection",
            "Content-Type",
            "Cookie",
            "Origin",
            "Referer",
            "User-Agent",
            "X-Requested-With",
            "X-Splunk-Form-Key",
            "X-Splunk-Request-Channel",
            "X-Request-Id",
        ] {
            assert!(!is_forwarded(&with(name, "x"), None), "{name}");
        }
    }

    #[test]
    fn foreign_hosts_are_detected() {
        for host in [
            "",
            "localhost",
            "LOCALHOST:8089",
            "a.localhost:1",
            "localhost.",
            "127.0.0.1",
            "127.8.9.1:80",
            "[::1]:8089",
        ] {
            assert!(!is_forwarded(&with("Host", host), None), "{host}");
        }
        for host in ["splunk.example.com", "h:8089", "192.0.2.1", "[2001:db8::1]:8089", "localhost.example.com", "é"] {
            let value = HeaderValue::from_bytes(host.as_bytes()).unwrap();
            assert!(is_forwarded(&HeaderMap::from_iter([(HOST, value)]), None), "{host}");
        }
        let of = |target: &str| is_forwarded(&HeaderMap::new(), Some(&target.parse().unwrap()));
        assert!(of("splunk.example.com:443") && !of("localhost:8089") && !of("[::1]:8089"));
    }
}
