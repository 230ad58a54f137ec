//! Kinds of stanzas, identified by a prefix such as `monitor://` or `source::`, and suggestions for misspelt kinds.
//!
//! Not here: stanzas with a fixed name, whose misspellings are detected like misspellings of settings.

use crate::props::{DELAYED_RULE_PREFIX, HOST_PREFIX, RULE_PREFIX, SOURCE_PREFIX, table::PROPS};
use crate::settings::http_input::INPUTS;
use crate::spelling::nearest;
use crate::table::{ConfTable, StanzaName};

/// Separators that end a kind in a stanza's name; longer separators first.
const KIND_SEPARATORS: [&str; 4] = ["://", "::", ":", "_"];
/// Kinds of props.conf, all of which have the same settings.
const PROPS_KINDS: [&str; 4] = [SOURCE_PREFIX, HOST_PREFIX, RULE_PREFIX, DELAYED_RULE_PREFIX];
/// Prefix written by mistake in props.conf, where stanzas of sourcetypes have no prefix.
const SOURCETYPE: &str = "sourcetype::";

/// Suggested name for a stanza of an unknown kind in inputs.conf. The caller checks first that no app defines the kind.
pub fn suggest_input(stanza: &str) -> Option<String> {
    suggest_name(&INPUTS, stanza)
}

/// Suggested name for a stanza of a kind that the conf does not have.
pub(super) fn suggest_name(table: &ConfTable, stanza: &str) -> Option<String> {
    let is_props = table.conf == PROPS.conf;
    if let Some(sourcetype) = stanza.strip_prefix(SOURCETYPE).filter(|_| is_props) {
        return Some(sourcetype.to_owned());
    }
    let of_sections = table.sections.iter().filter_map(|section| match section.stanza {
        StanzaName::Prefix(prefix) => Some(prefix),
        StanzaName::Named(_) | StanzaName::Any => None,
    });
    let kinds: Vec<&str> = if is_props { PROPS_KINDS.to_vec() } else { of_sections.collect() };
    let is_named =
        table.sections.iter().any(|section| matches!(section.stanza, StanzaName::Named(name) if name == stanza));
    if is_named || kinds.iter().any(|kind| stanza.starts_with(kind)) {
        return None;
    }
    let takes_all = table.sections.iter().any(|section| section.stanza == StanzaName::Any);
    // If the conf accepts stanzas of any name, a separator alone proves nothing: a sourcetype may contain a colon, and
    // an index an underscore.
    let is_used = |end: &&&str| !takes_all || kinds.iter().any(|kind| separator_of(kind) == Some(**end));
    let mut found = KIND_SEPARATORS.iter().filter(is_used).filter_map(|end| {
        let (kind, rest) = stanza.split_at(stanza.find(end)? + end.len());
        nearest(kind, kinds.iter().copied()).map(|near| format!("{near}{rest}"))
    });
    found.next()
}

/// Separator at the end of a kind.
fn separator_of(kind: &str) -> Option<&'static str> {
    KIND_SEPARATORS.into_iter().find(|end| kind.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_kinds_are_recognised_and_other_names_ignored() {
        for (conf, stanza, expected) in [
            ("inputs", "montor:///var/log", Some("monitor:///var/log")),
            ("inputs", "monitor:/var/log", Some("monitor:///var/log")),
            ("inputs", "Batch:///spool", Some("batch:///spool")),
            ("inputs", "htp://shop", Some("http://shop")),
            ("inputs", "upd://514", Some("udp://514")),
            ("inputs", "weather://rome", None),
            ("inputs", "monitor:///x", None),
            ("outputs", "tcput:all", Some("tcpout:all")),
            ("outputs", "tcpout-servr://a:9997", Some("tcpout-server://a:9997")),
            ("outputs", "rfs:archive", None),
            ("props", "sorce::/var/log/*", Some("source::/var/log/*")),
            ("props", "hots::web*", Some("host::web*")),
            ("props", "sourcetype::app", Some("app")),
            ("props", "source::/x", None),
            ("props", "rules:web", None),
            ("props", "cisco:asa", None),
            ("indexes", "voume:hot", Some("volume:hot")),
            ("indexes", "volumes_x", None),
            ("indexes", "volume:hot", None),
            ("authorize", "rol_admin", Some("role_admin")),
            ("authorize", "capabilty::x", Some("capability::x")),
            ("limits", "a:b", None),
        ] {
            let found = suggest_name(ConfTable::find_table(conf).unwrap(), stanza);
            assert_eq!(found.as_deref(), expected, "{conf} [{stanza}]");
        }
    }
}
