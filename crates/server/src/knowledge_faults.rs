//! Errors of search-time knowledge that only searches would report: patterns of transforms.conf, searches of event
//! types, and arguments of macros.

use quarry_conf::{Layers, MergedSetting, MergedStanza, parse_bool};
use quarry_pipeline::Pattern;

/// The errors, each with its file and line.
pub(crate) fn knowledge_faults(layers: &Layers) -> Vec<String> {
    let mut faults = Vec::new();
    let mut look = |conf: &str, key: &str, fault_of: &dyn Fn(&MergedStanza, &MergedSetting) -> Option<String>| {
        for stanza in layers.conf(conf).stanzas().iter().filter(|stanza| !is_disabled(stanza)) {
            let Some(setting) = stanza.settings.get(key) else { continue };
            let fault = fault_of(stanza, setting);
            let (file, line, name) = (&setting.file, setting.line, &stanza.name);
            faults.extend(fault.map(|fault| format!("{file}:{line}: [{name}] {key}: {fault}")));
        }
    };
    look("transforms", "REGEX", &|stanza, setting| match is_index_time(stanza) {
        true => None,
        false => fault_of_pattern(&setting.value),
    });
    look("eventtypes", "search", &|_, setting| fault_of_condition(&setting.value));
    look("macros", "args", &|stanza, setting| fault_of_arguments(&stanza.name, &setting.value));
    faults
}

fn is_disabled(stanza: &MergedStanza) -> bool {
    stanza.settings.get("disabled").and_then(|setting| parse_bool(&setting.value)).unwrap_or(false)
}

/// Whether a transform is a rule of index time, whose errors the pipeline reports.
fn is_index_time(stanza: &MergedStanza) -> bool {
    ["DEST_KEY", "WRITE_META"].iter().any(|key| stanza.settings.contains_key(*key))
}

/// Error of a pattern that is valid neither for bytes nor for UTF-8; searches match texts.
fn fault_of_pattern(pattern: &str) -> Option<String> {
    let fault = Pattern::new(pattern).err()?;
    Pattern::new(&format!("(*UTF){pattern}")).is_err().then(|| fault.to_string())
}

/// Error of the search of an event type. A search with macros can be read only after they are expanded.
fn fault_of_condition(search: &str) -> Option<String> {
    if search.is_empty() || search.contains('`') {
        return None;
    }
    let faults = quarry_spl::parse_condition(search).err()?;
    Some(faults.first().map_or_else(|| "it cannot be read".to_owned(), ToString::to_string))
}

/// Error of a macro whose stanza `name(N)` names a different number of arguments.
fn fault_of_arguments(stanza: &str, arguments: &str) -> Option<String> {
    let named = arguments.split(',').filter(|name| !name.trim().is_empty()).count();
    let (_, count) = stanza.split_once('(')?;
    let expected: usize = count.strip_suffix(')')?.parse().ok()?;
    (named != expected).then(|| format!("names {named} arguments, but the name of the stanza says {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_for_bytes_and_for_characters_are_valid() {
        for pattern in ["(a)", "(?<n>\\w+)", "(?<=a)b", "\\x{2019}s", "ä+"] {
            assert_eq!(fault_of_pattern(pattern), None, "{pattern}");
        }
        assert!(fault_of_pattern("(a").is_some());
    }

    #[test]
    fn macros_name_as_many_arguments_as_their_stanza_says() {
        assert_eq!(fault_of_arguments("m(2)", "x, y"), None);
        assert_eq!(fault_of_arguments("m", "x"), None);
        assert!(fault_of_arguments("m(1)", "x, y").is_some_and(|fault| fault.starts_with("names 2 arguments")));
    }
}
