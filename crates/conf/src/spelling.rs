//! Spelling suggestions: the known name closest to an unknown name.

/// Maximum edit distance of a suggestion.
const DISTANCE_MAX: usize = 3;

/// The closest of `known`, ignoring case, if it is close enough to be a typing error.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let close_enough = DISTANCE_MAX.min(name.len() / 3);
    known
        .map(|known| (strsim::levenshtein(&lower, &known.to_lowercase()), known))
        .filter(|(distance, _)| *distance <= close_enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_typos_are_found() {
        let known = ["TRUNCATE", "TIME_PREFIX", "TIME_FORMAT", "TZ"];
        let find = |name| nearest(name, known.into_iter());
        assert_eq!(find("TRUNCTE"), Some("TRUNCATE"));
        assert_eq!(find("time_format"), Some("TIME_FORMAT"));
        assert_eq!(find("TIMEPREFIX"), Some("TIME_PREFIX"));
        assert_eq!(find("colour"), None);
        assert_eq!(find("TX"), None);
    }
}
