//! `[rule::…]` and `[delayedrule::…]`: guess a sourcetype by the share of lines that match patterns.

use super::{DELAYED_RULE_PREFIX, RULE_PREFIX};
use crate::layers::{MergedConf, MergedStanza};

/// Prefix of the setting for a minimum share; the percentage follows.
pub(crate) const MORE_THAN: &str = "MORE_THAN_";
/// Prefix of the setting for a maximum share; the percentage follows.
pub(crate) const LESS_THAN: &str = "LESS_THAN_";

/// A rule that guesses a sourcetype: one `[rule::…]` or `[delayedrule::…]` stanza.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcetypeRule {
    /// Name of the stanza.
    pub stanza: String,
    /// Sourcetype to assign.
    pub sourcetype: String,
    /// Patterns, each with a percentage: the share of matching lines must be larger.
    pub more_than: Vec<(usize, String)>,
    /// Patterns, each with a percentage: the share of matching lines must be smaller.
    pub less_than: Vec<(usize, String)>,
    /// Whether the rule applies only if detection recognises no format.
    pub is_delayed: bool,
}

/// All rules that name a sourcetype and a pattern, in file order.
pub(super) fn read(props: &MergedConf) -> Vec<SourcetypeRule> {
    props.stanzas().iter().filter_map(rule).collect()
}

fn rule(stanza: &MergedStanza) -> Option<SourcetypeRule> {
    let is_delayed = stanza.name.starts_with(DELAYED_RULE_PREFIX);
    if !is_delayed && !stanza.name.starts_with(RULE_PREFIX) {
        return None;
    }
    let share = |prefix: &str| -> Vec<(usize, String)> {
        let set = stanza.settings.iter().filter(|(_, setting)| !setting.value.is_empty());
        let read =
            set.filter_map(|(key, setting)| Some((key.strip_prefix(prefix)?.parse().ok()?, setting.value.clone())));
        read.collect()
    };
    let sourcetype = stanza.settings.get("sourcetype").map(|setting| setting.value.clone());
    let (more_than, less_than) = (share(MORE_THAN), share(LESS_THAN));
    let sourcetype = sourcetype.filter(|name| !name.is_empty())?;
    if more_than.is_empty() && less_than.is_empty() {
        return None;
    }
    Some(SourcetypeRule { stanza: stanza.name.clone(), sourcetype, more_than, less_than, is_delayed })
}
