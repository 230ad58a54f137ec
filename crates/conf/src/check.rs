//! Checks a file against its settings table and removes invalid settings, so that the layer below applies.

pub(crate) mod stanza_kinds;

use std::sync::Arc;

use crate::props::{self, HOST_PREFIX, SOURCE_PREFIX, pattern};
use crate::settings::http_input::INPUTS;
use crate::settings::outputs::OUTPUTS;
use crate::settings::transforms::{ACCEPTED_KEYS, TRANSFORMS};
use crate::spelling::nearest;
use crate::table::{ANY_NAME, ConfTable, Kind, Row, Section, StanzaName, listed_name, matches_name};
use crate::text::{Conf, DEFAULT_STANZA, Setting};
use crate::values::{self, parse_bool};
use crate::warning::{ConfWarning, Problem, truncate};

/// Setting that also accepts the keys listed in `[accepted_keys]`.
const DEST_KEY: &str = "DEST_KEY";
/// Setting that disables a stanza.
const DISABLED: &str = "disabled";

/// Removes bad values from `conf` and reports them; unknown and unsupported settings are reported and kept.
pub(crate) fn check(name: &str, conf: &mut Conf, warnings: &mut Vec<ConfWarning>) {
    warnings.extend(no_effect_warning(name, conf));
    let Some(table) = ConfTable::find_table(name) else { return };
    let file: Arc<str> = conf.file.clone();
    let accepted = accepted_keys(name, conf);
    for stanza in &mut conf.stanzas {
        let mut warn = |line, problem| {
            warnings.push(ConfWarning { file: file.clone(), line, stanza: stanza.name.clone(), problem });
        };
        if name == "props" && !is_valid_pattern(&stanza.name) {
            warn(stanza.line, Problem::StanzaPattern);
        }
        // Apps may add kinds of inputs, so unknown kinds are reported when the inputs are started.
        let meant = if name == INPUTS.conf { None } else { stanza_kinds::suggest_name(table, &stanza.name) };
        let Some(sections) = table.sections_of(&stanza.name) else {
            let near = nearest(&stanza.name, stanza_names(table)).map(str::to_owned).or(meant);
            let is_disabled =
                stanza.settings.iter().any(|it| it.key == DISABLED && parse_bool(&it.value) == Some(true));
            match near {
                Some(nearest) => warn(stanza.line, Problem::UnknownStanza { nearest }),
                // An unknown stanza of outputs.conf may name a destination to which data would silently not be sent.
                // Unknown stanzas of other confs are ignored.
                None if name == OUTPUTS.conf && !is_disabled => warn(stanza.line, Problem::StanzaWithoutEffect),
                None => {}
            }
            continue;
        };
        if let Some(nearest) = meant {
            warn(stanza.line, Problem::UnknownStanza { nearest });
        }
        stanza.settings.retain(|setting| match find_problem(table, sections, &stanza.name, setting) {
            None => true,
            Some(Problem::BadValue { key, .. }) if key == DEST_KEY && accepted.contains(&setting.value) => true,
            Some(problem) => {
                let keep = !matches!(problem, Problem::BadValue { .. });
                warn(setting.line, problem);
                keep
            }
        });
    }
}

/// Splunk's conf files that nothing reads here, each with the missing feature.
const WITHOUT_EFFECT: [(&str, &str); 4] = [
    (
        "authentication",
        "users are managed with `quarry user` and have passwords; there is no LDAP, SAML or scripted login",
    ),
    ("deploymentclient", "there is no deployment server"),
    ("distsearch", "searches run on this node alone"),
    ("serverclass", "there is no deployment server"),
];
const SAVED_SEARCHES: &str = "savedsearches";
const ENABLE_SCHEDULE: &str = "enableSched";

/// The warning for a file without effect, or for saved searches whose schedules have no effect; at most one per file.
fn no_effect_warning(name: &str, conf: &Conf) -> Option<ConfWarning> {
    let at = |line: u32, stanza: &str, problem: Problem| {
        Some(ConfWarning { file: conf.file.clone(), line, stanza: stanza.to_owned(), problem })
    };
    if let Some((_, what)) = WITHOUT_EFFECT.iter().find(|(conf, _)| *conf == name) {
        let first = conf.stanzas.iter().find(|stanza| !stanza.settings.is_empty())?;
        return at(first.line, &first.name, Problem::FileWithoutEffect { what });
    }
    if name != SAVED_SEARCHES {
        return None;
    }
    let asks = |setting: &&Setting| setting.key == ENABLE_SCHEDULE && parse_bool(&setting.value) == Some(true);
    let scheduled = conf.stanzas.iter().filter_map(|stanza| Some((stanza, stanza.settings.iter().find(asks)?)));
    let mut scheduled = scheduled.peekable();
    let (stanza, setting) = *scheduled.peek()?;
    at(setting.line, &stanza.name, Problem::NotScheduled { searches: scheduled.count() })
}

/// Keys listed in the file's `[accepted_keys]`.
fn accepted_keys(name: &str, conf: &Conf) -> Vec<String> {
    let lists = conf.stanzas.iter().filter(|stanza| name == TRANSFORMS.conf && stanza.name == ACCEPTED_KEYS);
    lists.flat_map(|stanza| &stanza.settings).map(|setting| setting.value.clone()).collect()
}

/// Whether the pattern of a `[source::…]` or `[host::…]` stanza is valid as written.
fn is_valid_pattern(stanza: &str) -> bool {
    let text = stanza.strip_prefix(SOURCE_PREFIX).or_else(|| stanza.strip_prefix(HOST_PREFIX));
    text.is_none_or(pattern::is_valid)
}

fn find_problem(table: &ConfTable, sections: &'static [Section], stanza: &str, setting: &Setting) -> Option<Problem> {
    let rows = || sections.iter().flat_map(|section| section.rows);
    let listed = |entries: &'static [&str]| entries.iter().filter_map(|entry| listed_name(entry, stanza));
    let is_listed = |entries: &'static [&'static str]| listed(entries).any(|name| matches_name(name, &setting.key));
    let (is_unused, is_unsupported) = (is_listed(table.unused), is_listed(table.unsupported));
    // A row for any name applies only to settings that are listed neither as unused nor as unsupported. In [default], a
    // row of free text would hide misspelt settings of other rows, so such a row applies there only if it restricts
    // values and the value is valid.
    let is_named = is_unused || is_unsupported;
    let is_default = stanza == DEFAULT_STANZA;
    let takes_any_name =
        |row: &&Row| !is_named && (!is_default || (row.kind != Kind::Text && row.kind.accepts(&setting.value)));
    let fits = |row: &&Row| row.matches_key(&setting.key) && (row.name != ANY_NAME || takes_any_name(row));
    let mut fitting = rows().filter(fits).peekable();
    if fitting.peek().is_some() {
        // In [default], several sections may have a setting of this name; the value is valid if one of the sections
        // accepts it.
        let refused: Vec<&Row> = fitting.collect();
        if refused.iter().any(|row| row.kind.accepts(&setting.value)) {
            return None;
        }
        return Some(Problem::BadValue {
            key: setting.key.clone(),
            value: truncate(&setting.value),
            allowed: refused[0].kind.describe_values(),
        });
    }
    if is_unused {
        return None;
    }
    if is_unsupported {
        return Some(Problem::Unsupported { key: setting.key.clone() });
    }
    let (written, class) = match setting.key.split_once('-') {
        Some((head, class)) => (format!("{head}-"), class),
        None => (setting.key.clone(), ""),
    };
    let known = rows().map(|row| row.name).chain(listed(table.unused)).chain(listed(table.unsupported));
    let nearest = nearest(&written, known).map(|name| format!("{name}{class}")).filter(|name| *name != setting.key);
    Some(Problem::UnknownSetting { key: setting.key.clone(), nearest })
}

fn stanza_names(table: &ConfTable) -> impl Iterator<Item = &'static str> {
    table.sections.iter().filter_map(|section| match section.stanza {
        StanzaName::Named(name) => Some(name),
        _ => None,
    })
}

/// Whether a value matches this word of a choice.
fn is_choice(word: &str, value: &str) -> bool {
    let begins = || value.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    word.eq_ignore_ascii_case(value) || (word.ends_with(':') && value.len() > word.len() && begins())
}

impl Kind {
    /// Whether a value is valid for this type.
    pub fn accepts(self, value: &str) -> bool {
        value.is_empty()
            || match self {
                Kind::Text => true,
                Kind::Bool => values::parse_bool(value).is_some(),
                Kind::Integer { min, max } => value.parse::<i64>().is_ok_and(|value| (min..=max).contains(&value)),
                Kind::Choice(words) => words.iter().any(|word| is_choice(word, value)),
                Kind::Regex { groups_min } => values::capture_groups(value).is_some_and(|groups| groups >= groups_min),
                Kind::TimeFormat => quarry_event::time::Format::new(value).is_ok(),
                Kind::Zone => quarry_event::time::parse_zone(value).is_some(),
                Kind::Delimiter => values::parse_delimiter(value).is_some() || matches!(value, "whitespace" | "ws"),
                Kind::Age => crate::settings::index_rules::parse_age(value).is_some(),
                Kind::Extract => values::has_named_group(props::split_extract(value).0),
            }
    }
}

#[cfg(test)]
mod tests;
