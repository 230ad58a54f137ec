//! File names that indicate a sourcetype, unless the contents indicate another: the file `access.log` of a web server
//! may contain JSON, and a `.jsonl` file may contain records in a vendor's format.
//!
//! Not here: names that determine the sourcetype regardless of the contents; they are `[source::]` stanzas of
//! props.conf.

use super::Guess;

/// The sourcetype indicated by a file name.
pub(super) struct FileNameHint {
    sourcetype: &'static str,
    /// Sourcetypes that, if guessed from the contents, give way to this hint.
    kinds: &'static [&'static str],
}

const JSON_LINES: FileNameHint = FileNameHint { sourcetype: "json_lines", kinds: &["_json"] };
const ACCESS: FileNameHint =
    FileNameHint { sourcetype: "access_combined", kinds: &["access_combined", "access_combined_wcookie"] };
const APACHE_ERROR: FileNameHint = FileNameHint { sourcetype: "apache_error", kinds: &["apache_error"] };

impl FileNameHint {
    /// Whether `looks_like`, the sourcetype guessed from the contents, gives way to this hint.
    pub(super) fn is_kind_of(&self, looks_like: &str) -> bool {
        self.kinds.contains(&looks_like)
    }

    pub(super) fn guess(&self) -> Guess {
        Guess::new(self.sourcetype, "determined by the file name")
    }
}

/// The sourcetype indicated by the name of a source.
pub(super) fn hint_by_name(source: &str) -> Option<FileNameHint> {
    let mut folders = source.rsplit('/');
    let name = folders.next().unwrap_or_default();
    if [".jsonl", ".ndjson"].iter().any(|ending| name.ends_with(ending)) {
        return Some(JSON_LINES);
    }
    if after_word(name, "access").is_some_and(|rest| is_log(rest, true)) {
        return Some(ACCESS);
    }
    let is_of_apache = folders.next().is_some_and(|folder| matches!(folder, "apache2" | "httpd"));
    let is_error = is_of_apache && after_word(name, "error").is_some_and(|rest| is_log(rest, false));
    is_error.then_some(APACHE_ERROR)
}

/// The text after a word that is at the start of the name or after `_` or `-`.
fn after_word<'n>(name: &'n str, word: &str) -> Option<&'n str> {
    let mut places = name.rmatch_indices(word).map(|(at, _)| at);
    let at = places.find(|at| *at == 0 || matches!(name.as_bytes()[at - 1], b'_' | b'-'))?;
    Some(&name[at + word.len()..])
}

/// Whether the rest of a name is `.log` or `_log`, with an optional rotation number; with `is_dated`, `_` and any text
/// may follow.
fn is_log(rest: &str, is_dated: bool) -> bool {
    let Some(rest) = [".log", "_log"].iter().find_map(|log| rest.strip_prefix(log)) else { return false };
    let number = rest.strip_prefix('.').unwrap_or_default();
    let is_numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    rest.is_empty() || is_numbered || (is_dated && rest.starts_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_file_names_determine_the_sourcetype() {
        for (source, sourcetype) in [
            ("/var/log/nginx/access.log", "access_combined"),
            ("access.log.12", "access_combined"),
            ("/var/log/httpd/ssl_access_log", "access_combined"),
            ("/x/access.log_2026", "access_combined"),
            ("/var/log/apache2/error.log", "apache_error"),
            ("/var/log/httpd/my-error_log.1", "apache_error"),
            ("/data/x.jsonl", "json_lines"),
            ("/data/x.ndjson", "json_lines"),
            ("/var/log/nginx/error.log", ""),
            ("/data/access.txt", ""),
            ("/data/noaccess.log", ""),
            ("/data/access.log.gone", ""),
            ("/data/jsonl", ""),
            ("", ""),
        ] {
            let reported = hint_by_name(source).map_or("", |name| name.sourcetype);
            assert_eq!(reported, sourcetype, "{source}");
        }
    }
}
