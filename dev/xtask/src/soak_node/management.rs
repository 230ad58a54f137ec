//! A connection to the management port of a node that may be killed at any moment: a missing answer is not an error.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::senders::ANSWER_WAIT;

/// A connection to the management port; paths are relative to the app `search`.
pub(super) struct Connection<'a> {
    stream: BufReader<TcpStream>,
    token: &'a str,
}

impl Connection<'_> {
    pub(super) fn open<'a>(address: &str, token: &'a str) -> Option<Connection<'a>> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(ANSWER_WAIT)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Connection { stream: BufReader::new(stream), token })
    }

    /// Sends a form; returns status and body of the answer, or `None` if there was none.
    pub(super) fn ask(&mut self, method: &str, path: &str, form: &str) -> Option<(u16, Value)> {
        self.send(method, path, "application/x-www-form-urlencoded", form)
    }

    /// Like [`Connection::ask`], with a JSON document.
    pub(super) fn post_json(&mut self, path: &str, document: &Value) -> Option<(u16, Value)> {
        self.send("POST", path, "application/json", &document.to_string())
    }

    fn send(&mut self, method: &str, path: &str, kind: &str, body: &str) -> Option<(u16, Value)> {
        let (token, bytes) = (self.token, body.len());
        let request = format!(
            "{method} /servicesNS/nobody/search/{path} HTTP/1.1\r\nHost: soak\r\nAuthorization: Splunk {token}\r\n\
             Content-Type: {kind}\r\nContent-Length: {bytes}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        self.stream.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let (mut length, mut is_chunked) = (0, false);
        loop {
            line.clear();
            self.stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok()?,
                "transfer-encoding" => is_chunked = value.trim() == "chunked",
                _ => {}
            }
        }
        let mut body = Vec::new();
        if is_chunked {
            loop {
                line.clear();
                self.stream.read_line(&mut line).ok()?;
                let bytes = usize::from_str_radix(line.trim_end(), 16).ok()?;
                let mut part = vec![0; bytes + 2];
                self.stream.read_exact(&mut part).ok()?;
                body.extend_from_slice(&part[..bytes]);
                if bytes == 0 {
                    return Some((status, serde_json::from_slice(&body).unwrap_or_default()));
                }
            }
        }
        body.resize(length, 0);
        self.stream.read_exact(&mut body).ok()?;
        Some((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}
