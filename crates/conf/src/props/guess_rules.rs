//! `[rule::…]` and `[delayedrule::…]`: which sourcetype data have by the share of lines that match patterns.

use super::{DELAYED_RULE_PREFIX, RULE_PREFIX};
use crate::layers::{Merged, MergedStanza};

/// What the setting of a least share begins with; the share in percent follows.
pub(crate) const MORE_THAN: &str = "MORE_THAN_";
/// What the setting of a largest share begins with.
pub(crate) const LESS_THAN: &str = "LESS_THAN_";

/// One stanza.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcetypeRule {
    /// Name of the stanza.
    pub stanza: String,
    /// The sourcetype of data that fit.
    pub sourcetype: String,
    /// Patterns of which more than this percentage of lines must match.
    pub more_than: Vec<(usize, String)>,
    /// Patterns of which less than this percentage of lines may match.
    pub less_than: Vec<(usize, String)>,
    /// Whether the rule counts only where nothing else tells.
    pub is_delayed: bool,
}

/// All rules that name a sourcetype and a pattern, in the order of the files.
pub(super) fn read(props: &Merged) -> Vec<SourcetypeRule> {
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
