//! `/`: a start page for browsers and curl.

use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::answer_shape::AnswerShape;
use super::row::{Access, Endpoint};
use crate::message::escape_xml;

/// Host in the examples if the request names none.
const HOST: &str = "127.0.0.1:8089";
/// Maximum length in characters of a displayed host name.
const HOST_CHARS_MAX: usize = 100;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::new(Method::GET, "", Access::Open, "Shows a page with links to the endpoints.", get(page))
            .at_root()
            .answers(AnswerShape::Texts(&["text/html", "text/plain"])),
    ]
}

/// Answers with a page for clients that accept HTML, and with the same content as text for other clients.
async fn page(headers: HeaderMap) -> Response {
    let text_of = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let host = text_of(header::HOST);
    let is_plain = |host: &str| {
        !host.is_empty()
            && host.chars().all(|character| character.is_ascii_alphanumeric() || ".-:[]".contains(character))
    };
    let host = if host.len() <= HOST_CHARS_MAX && is_plain(host) { host } else { HOST };
    if text_of(header::ACCEPT).contains("text/html") {
        return ([(header::CONTENT_TYPE, "text/html; charset=UTF-8")], html(host)).into_response();
    }
    ([(header::CONTENT_TYPE, "text/plain; charset=UTF-8")], text(host)).into_response()
}

fn example(host: &str) -> String {
    let is_here = ["127.", "localhost", "[::1]"].iter().any(|begin| host.starts_with(begin));
    // Remote clients must use TLS, and the generated certificate is self-signed.
    let begin = if is_here { "http://" } else { "-k https://" };
    format!(
        "curl -u admin {begin}{host}/services/search/jobs/export \\\n    -d output_mode=csv \\\n    --data-urlencode \
         search='search index=* | stats count by index'"
    )
}

fn text(host: &str) -> String {
    let (version, example) = (env!("CARGO_PKG_VERSION"), example(host));
    format!(
        "Quarry {version}: the management port of a node. It speaks Splunk's REST\n\
         interface; there is no web page yet.\n\nSearch with curl (it asks for the password):\n\n  {example}\n\nor with the command line on this \
         machine (D is its data directory):\n\n  quarry --data-dir D search 'index=* | stats count by \
         index, sourcetype'\n\nDocumentation: docs/ of the source code; \
         `quarry help` lists the search\ncommands, `quarry help stats` shows one.\n"
    )
}

fn html(host: &str) -> String {
    let (version, example) = (env!("CARGO_PKG_VERSION"), escape_xml(&example(host)));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Quarry {version}</title></head>\n<body>\n\
         <h1>Quarry {version}</h1>\n<p>This is the management port of a node. It speaks Splunk's REST interface; there is no web \
         page yet.</p>\n<p>Search with curl (it asks for the password):</p>\n<pre>{example}</pre>\n<p>or with the command line on \
         this machine, where D is the data directory of the node:</p>\n<pre>quarry --data-dir D search 'index=* | stats count by index, sourcetype'</pre>\n<p>Documentation: \
         <code>docs/</code> of the source code; <code>quarry help</code> lists the search commands, <code>quarry help \
         stats</code> shows one.</p>\n</body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_an_example_and_fits_a_terminal() {
        let page = text("127.0.0.1:8089");
        assert!(page.lines().all(|line| line.len() <= 80), "{page}");
        assert!(text("127.0.0.1:8089").contains("curl -u admin http://127.0.0.1:8089/services/search/jobs/export"));
        assert!(html("h:1").contains("<pre>curl -u admin -k https://h:1/"));
    }
}
