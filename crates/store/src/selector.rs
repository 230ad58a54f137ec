//! Index selection with wildcards.

/// Patterns of index names; `*` matches any run of characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexSelector {
    patterns: Vec<String>,
    /// Patterns of excluded indexes.
    without: Vec<String>,
    /// A further selector that must match.
    within: Option<Box<IndexSelector>>,
}

impl IndexSelector {
    /// Selects indexes that match one of `patterns`.
    pub fn new<Pattern: Into<String>>(patterns: impl IntoIterator<Item = Pattern>) -> IndexSelector {
        let patterns = patterns.into_iter().map(Into::into).collect();
        IndexSelector { patterns, without: Vec::new(), within: None }
    }

    /// Selects every index, including internal ones.
    pub fn all() -> IndexSelector {
        IndexSelector::new(["*", "_*"])
    }

    /// Excludes indexes that match one of `patterns`.
    pub fn without<Pattern: Into<String>>(self, patterns: impl IntoIterator<Item = Pattern>) -> IndexSelector {
        IndexSelector { without: patterns.into_iter().map(Into::into).collect(), ..self }
    }

    /// The intersection with `other`.
    pub fn within(&self, other: &IndexSelector) -> IndexSelector {
        let other = match &self.within {
            Some(already) => already.within(other),
            None => other.clone(),
        };
        IndexSelector { within: Some(Box::new(other)), ..self.clone() }
    }

    /// Whether `index` is selected. An internal index (with a leading `_`) is selected only by a pattern that also
    /// begins with `_`.
    pub fn matches(&self, index: &str) -> bool {
        let internal = index.starts_with('_');
        let fits = |pattern: &String| (!internal || pattern.starts_with('_')) && wildcard_match(pattern, index);
        self.patterns.iter().any(fits)
            && !self.without.iter().any(fits)
            && self.within.as_ref().is_none_or(|other| other.matches(index))
    }
}

/// Wildcard match: `*` in `pattern` matches any run of characters.
pub(crate) fn wildcard_match(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    // Backtracking point of the last `*`: where the pattern continues after it, and the end of its match in the text.
    let mut retry: Option<(usize, usize)> = None;
    while from < text.len() {
        if pattern.get(at) == Some(&b'*') {
            retry = Some((at + 1, from));
            at += 1;
        } else if pattern.get(at) == Some(&text[from]) {
            at += 1;
            from += 1;
        } else if let Some((after, start)) = retry {
            retry = Some((after, start + 1));
            at = after;
            from = start + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_any_run_of_characters() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("*b*", "abc", true),
            ("a*b*c", "aXbYbZc", true),
            ("a**", "a", true),
            ("ab", "a", false),
            ("*ab", "aab", true),
        ] {
            assert_eq!(wildcard_match(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn internal_indexes_require_an_explicit_pattern() {
        assert!(IndexSelector::new(["*"]).matches("main"));
        assert!(!IndexSelector::new(["*"]).matches("_internal"));
        assert!(!IndexSelector::new(["*nal"]).matches("_internal"));
        assert!(IndexSelector::new(["_*"]).matches("_internal"));
        assert!(IndexSelector::new(["x", "_internal"]).matches("_internal"));
        assert!(IndexSelector::all().matches("_internal") && IndexSelector::all().matches("main"));
        assert!(!IndexSelector::default().matches("main"));
        let allowed = IndexSelector::new(["*"]);
        let read = IndexSelector::all().within(&allowed);
        assert!(read.matches("main") && !read.matches("_internal"));
        let read = read.within(&IndexSelector::new(["web*"]));
        assert!(read.matches("web1") && !read.matches("main") && !read.matches("_web"));
        assert!(!allowed.within(&IndexSelector::default()).matches("main"));
    }
}
