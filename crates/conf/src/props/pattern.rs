//! Patterns of `[source::…]` and `[host::…]`.
//!
//! `...` matches any characters, `*` any characters except path separators, `.` only a dot; `|` and `( )` are
//! alternation. Other regular expression syntax applies only from the first path segment with a wildcard on; in earlier
//! segments it is literal. A pattern that is not a valid regular expression is read again with wildcards only.

use regex::Regex;

/// Default priority of a name without wildcards.
const LITERAL_PRIORITY: i64 = 100;
/// Default priority of a name with wildcards.
const WILDCARD_PRIORITY: i64 = 0;
/// Maximum bytes of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// `None` matches nothing.
    regex: Option<Regex>,
    wildcard: bool,
}

impl Pattern {
    pub(crate) fn new(text: &str, any_case: bool) -> Pattern {
        let syntax_from = syntax_from(text);
        let regex = compile(text, Some(syntax_from), any_case).or_else(|| compile(text, None, any_case));
        Pattern { regex, wildcard: syntax_from < text.len() || text.contains(['|', '(']) }
    }

    /// Whether the pattern matches all of `name`.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.regex.as_ref().is_some_and(|regex| regex.is_match(name))
    }

    pub(crate) fn default_priority(&self) -> i64 {
        if self.wildcard { WILDCARD_PRIORITY } else { LITERAL_PRIORITY }
    }
}

/// Whether a pattern is valid as written, without the fallback to wildcards only.
pub(crate) fn is_valid(text: &str) -> bool {
    compile(text, Some(syntax_from(text)), false).is_some()
}

/// Start of the first path segment with a wildcard; the end if there is none.
fn syntax_from(text: &str) -> usize {
    let wildcard = [text.find('*'), text.find("...")].into_iter().flatten().min();
    wildcard.map_or(text.len(), |at| text[..at].rfind(['/', '\\']).map_or(0, |separator| separator + 1))
}

/// Regular expression syntax applies from offset `syntax_from` on; with `None`, only wildcards apply.
fn compile(text: &str, syntax_from: Option<usize>, any_case: bool) -> Option<Regex> {
    let mut translated = String::from(if any_case { "(?is)^(?:" } else { "(?s)^(?:" });
    let mut at = 0;
    while let Some(sign) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = if rest.starts_with("...") { 3 } else { sign.len_utf8() };
        match sign {
            '.' if length == 3 => translated.push_str(".*"),
            '.' => translated.push_str(r"\."),
            '*' => translated.push_str(r"[^/\\]*"),
            '|' | '(' | ')' if syntax_from.is_some() => translated.push(sign),
            _ if syntax_from.is_some_and(|from| at >= from) => translated.push(sign),
            _ => translated.push_str(&regex::escape(&rest[..length])),
        }
        at += length;
    }
    translated.push_str(")$");
    regex::RegexBuilder::new(&translated).size_limit(PATTERN_BYTES_MAX).build().ok()
}

#[cfg(test)]
mod tests {
    use super::{Pattern, is_valid};

    fn fits(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern, false).matches(name)
    }

    #[test]
    fn wildcards_match_within_or_across_segments() {
        assert!(fits("/var/log/*.log", "/var/log/app.log"));
        assert!(!fits("/var/log/*.log", "/var/log/nginx/app.log"));
        assert!(fits("/var/.../app.log", "/var/log/nginx/app.log"));
        assert!(fits("....(zip|gz)", "/data/old.log.gz"));
        assert!(!fits("....(zip|gz)", "/data/old.log"));
        assert!(fits(r"C:\logs\*.log", r"C:\logs\app.log"));
        assert!(!fits(r"C:\logs\*.log", r"C:\logs\old\app.log"));
    }

    #[test]
    fn patterns_match_whole_names_and_dots_literally() {
        assert!(fits("/var/log/a.log", "/var/log/a.log"));
        assert!(!fits("/var/log/a.log", "/var/log/a.log.1"));
        assert!(!fits("/var/log/a.log", "/var/log/axlog"));
        assert!(!fits("log", "/var/log"));
    }

    #[test]
    fn regex_syntax_applies_only_after_a_wildcard() {
        assert!(fits("/srv/c++/app.log", "/srv/c++/app.log"));
        assert!(fits("/srv/c++/*-[0-9]+", "/srv/c++/app-17"));
        assert!(!fits("/srv/c++/*-[0-9]+", "/srv/c++/app-x"));
        assert!(fits("/srv/[0-9]/a", "/srv/[0-9]/a"));
    }

    #[test]
    fn broken_patterns_keep_their_wildcards() {
        assert!(!is_valid("/srv/*[.log"));
        assert!(fits("/srv/*[.log", "/srv/a[.log"));
        assert!(!is_valid("/srv/(a"));
        assert!(fits("/srv/(a", "/srv/(a"));
    }

    #[test]
    fn hosts_match_case_insensitively() {
        assert!(Pattern::new("web-*", true).matches("WEB-01"));
        assert!(!Pattern::new("web-*", false).matches("WEB-01"));
    }
}
