//! Variables of access log lines.
//!
//! Web servers and proxies write a request as one quoted text, `"GET /path?query HTTP/1.1"`. Searches need the parts of
//! this text, so each part is a variable of its own. The names before the time, the status and the size are variables,
//! too. Every kind of variable here allows only a narrow set of bytes, which lets a search prove that an extraction
//! pattern matches every line of a template at the same position. A request in any other form remains one variable in a
//! template of its own. Values with bytes that patterns treat differently (escaped quotes, non-ASCII characters) get
//! columns of their own, so that one odd line does not affect other lines.
//!
//! Formats: Apache's `LogFormat` ("common", "combined") and nginx's `log_format`.

use memchr::{memchr, memchr_iter};

use super::classes::{BYTE_CLASSES, DELIMITER, graphic_run_end};
use super::variables::{Variable, VariableKind, find_unescaped_close, scan_quoted_text};

/// Kinds of variables in an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessPart {
    /// A name before the time: client, ident, user.
    Who,
    /// A name before the time that contains non-ASCII characters.
    OddWho,
    Method,
    Path,
    Query,
    Version,
    Status,
    Size,
    /// Quoted text after the status: referer, user agent, cookies.
    Note,
    /// Quoted text after the status with escaped quotes or non-ASCII characters.
    OddNote,
}

/// Separator between the target and the version of a request.
const PROTOCOL: &[u8] = b" HTTP/";
/// Minimum and maximum number of names before the time: client, ident and user, possibly with the virtual host and a
/// port.
const LEADING_NAMES_MIN: usize = 3;
const LEADING_NAMES_MAX: usize = 5;

impl AccessPart {
    /// Role of the variable's column, which does not depend on the literal before the variable.
    pub(super) fn role(self) -> &'static [u8] {
        match self {
            AccessPart::Who | AccessPart::OddWho => b"\"who",
            AccessPart::Method => b"\"method",
            AccessPart::Path => b"\"path",
            AccessPart::Query => b"\"query",
            AccessPart::Version => b"\"version",
            AccessPart::Status => b"\"status",
            AccessPart::Size => b"\"size",
            AccessPart::Note | AccessPart::OddNote => b"\"note",
        }
    }

    /// Whether values of this kind get a column of their own within the role.
    pub(super) fn is_irregular(self) -> bool {
        matches!(self, AccessPart::OddWho | AccessPart::OddNote)
    }

    /// End of a variable of this kind that starts at `at`; `None` if there is no such variable. Not inlined, so that
    /// the code for other kinds of variables need not save registers for this call.
    #[inline(never)]
    pub(super) fn variable_end(self, text: &[u8], at: usize) -> Option<usize> {
        let followed_by = |end: usize, byte: u8| (text.get(end) == Some(&byte)).then_some(end);
        match self {
            AccessPart::Who => followed_by(graphic_run_end(text, at, b'"'), b' '),
            AccessPart::OddWho => {
                let end = at + memchr(b' ', text.get(at..)?)?;
                let is_odd = !text[at..end].is_ascii();
                (is_odd && !text[at..end].iter().any(|byte| *byte < b' ' || *byte == b'"')).then_some(end)
            }
            AccessPart::Method => {
                let is_method = |byte: &u8| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_');
                let len = text.get(at..)?.iter().position(|byte| !is_method(byte))?;
                followed_by(at + len, b' ')
            }
            AccessPart::Path => {
                if text.get(at) != Some(&b'/') {
                    return None;
                }
                let end = graphic_run_end(text, at, b'?');
                matches!(text.get(end), Some(b'?' | b' ')).then_some(end)
            }
            AccessPart::Query => followed_by(graphic_run_end(text, at, b'"'), b' '),
            AccessPart::Version => {
                let len = text.get(at..)?.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.'))?;
                let version = &text[at..at + len];
                let is_version = matches!(version, [b'0'..=b'9'] | [b'0'..=b'9', .., b'0'..=b'9']);
                if is_version { followed_by(at + len, b'"') } else { None }
            }
            AccessPart::Status => {
                let digits = text.get(at..at + 3)?;
                if digits.iter().all(u8::is_ascii_digit) { followed_by(at + 3, b' ') } else { None }
            }
            AccessPart::Size => {
                let rest = text.get(at..)?;
                let len = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
                ends_at(text, at + len).then_some(at + len)
            }
            AccessPart::Note => find_unescaped_close(text, at).filter(|end| text[at..*end].is_ascii()),
            AccessPart::OddNote => {
                let (end, has_quotes) = scan_quoted_text(text, at)?;
                (has_quotes || !text[at..end].is_ascii()).then_some(end)
            }
        }
    }
}

/// Whether a chunk that reaches `at` ends there: at a delimiter or at the end of the text.
fn ends_at(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| BYTE_CLASSES[usize::from(*byte)] & DELIMITER != 0)
}

/// Adds the names before the time of a line that begins like an access log. Returns the position of the bracket that
/// opens the time; `None` for any other line.
pub(super) fn split_names(text: &[u8], variables: &mut Vec<Variable>) -> Option<usize> {
    // Most lines have no such bracket, and looking for a bracket is cheaper than splitting the names before it.
    if !matches!(text.first(), Some(b'{' | b'<')) && !memchr_iter(b'[', text).any(|at| opens_timestamp(text, at)) {
        return None;
    }
    let mut names = [(AccessPart::Who, 0, 0); LEADING_NAMES_MAX];
    let (mut count, mut at) = (0, 0);
    while text.get(at) != Some(&b'[') {
        let found = [AccessPart::Who, AccessPart::OddWho]
            .into_iter()
            .find_map(|piece| Some((piece, piece.variable_end(text, at)?)));
        let (piece, end) = found.filter(|(_, end)| *end > at)?;
        *names.get_mut(count)? = (piece, at, end);
        (count, at) = (count + 1, end + 1);
    }
    if count < LEADING_NAMES_MIN || !opens_timestamp(text, at) {
        return None;
    }
    variables.extend(
        names[..count].iter().map(|(piece, start, end)| Variable::new(*start, *end, VariableKind::Access(*piece))),
    );
    Some(at)
}

/// Whether a bracket opens a time such as `[20/Nov/2026:14:00:00`.
#[inline]
fn opens_timestamp(text: &[u8], bracket: usize) -> bool {
    matches!(text.get(bracket + 1..bracket + 5), Some([b'0'..=b'9', b'0'..=b'9', b'/', b'A'..=b'Z']))
}

/// Adds the parts of the request in `from..close`; returns false if this range is not a request.
pub(super) fn split_request(text: &[u8], from: usize, close: usize, variables: &mut Vec<Variable>) -> bool {
    let Some(parts) = request_parts(text, from, close) else { return false };
    variables.extend(parts.into_iter().flatten().filter(|variable| variable.end > variable.start));
    true
}

/// Whether the bytes `from..close` of a text, those between two quotes, are a request.
#[inline]
pub(super) fn is_request(text: &[u8], from: usize, close: usize) -> bool {
    // Checked first, because most texts do not end in a digit.
    close > from && text[close - 1].is_ascii_digit() && request_parts(text, from, close).is_some()
}

fn request_parts(text: &[u8], from: usize, close: usize) -> Option<[Option<Variable>; 4]> {
    let piece = |piece: AccessPart, at: usize| {
        let end = piece.variable_end(text, at).filter(|end| *end > at)?;
        Some(Variable::new(at, end, VariableKind::Access(piece)))
    };
    let method = piece(AccessPart::Method, from)?;
    let path = piece(AccessPart::Path, method.end + 1)?;
    let mut at = path.end;
    let mut query = None;
    if text.get(at) == Some(&b'?') {
        query = piece(AccessPart::Query, at + 1);
        at = query.map_or(at + 1, |query| query.end);
    }
    if text.get(at..at + PROTOCOL.len()) != Some(PROTOCOL) {
        return None;
    }
    let version = piece(AccessPart::Version, at + PROTOCOL.len())?;
    (version.end == close).then_some([Some(method), Some(path), query, Some(version)])
}

/// Adds the status and, if it is present, the size after the closing quote of a request. Returns the position after
/// both; `None` if there is no status.
pub(super) fn split_status_and_size(text: &[u8], close: usize, variables: &mut Vec<Variable>) -> Option<usize> {
    if text.get(close + 1) != Some(&b' ') {
        return None;
    }
    let status = AccessPart::Status.variable_end(text, close + 2)?;
    variables.push(Variable::new(close + 2, status, VariableKind::Access(AccessPart::Status)));
    let size = status + 1;
    match AccessPart::Size.variable_end(text, size).filter(|end| *end > size) {
        Some(end) => {
            variables.push(Variable::new(size, end, VariableKind::Access(AccessPart::Size)));
            Some(end)
        }
        // The dash for a missing size belongs to the literal, so that all sizes are numbers.
        None if text.get(size) == Some(&b'-') && ends_at(text, size + 1) => Some(size + 1),
        None => Some(status),
    }
}

#[cfg(test)]
mod tests;
