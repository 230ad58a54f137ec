//! Notes on inputs whose index does not exist (the first event creates it, perhaps by mistake), and errors of inputs
//! whose index cannot receive events.

use std::collections::BTreeSet;

use quarry_conf::settings::indexes::IndexNames;
use quarry_conf::{DEFAULT_INDEX_WORD, IndexesConf, Layers, MergedStanza, parse_bool};
use quarry_store::Store;

use crate::add::new_index_note;

/// Settings that name one index, or several indexes separated by commas.
const SETTINGS: [&str; 2] = ["index", "indexes"];
/// End of the note on an index that an input uses and that does not exist.
const CREATED_BY_FIRST_EVENT: &str = "is created when the first event arrives";

/// Notes on the inputs of a node, one for each missing index.
pub(crate) fn notes(layers: &Layers, store: &Store) -> Vec<String> {
    let configured = IndexesConf::new(layers);
    let known = configured.names().map(str::to_owned).chain(store.stats().into_iter().map(|stats| stats.index));
    missing_index_notes(layers, &known.collect::<Vec<_>>())
}

/// Errors of the inputs whose index cannot receive events, one for each such index.
pub(crate) fn faults(layers: &Layers) -> Vec<String> {
    let configured = IndexNames::new(layers);
    let fault =
        |(stanza, index): (&str, &str)| Some(format!("inputs.conf [{stanza}]: {}", configured.check(index).err()?));
    named_indexes(layers).into_iter().filter_map(fault).collect()
}

fn missing_index_notes(layers: &Layers, known: &[String]) -> Vec<String> {
    let configured = IndexNames::new(layers);
    let note = |(stanza, index): (&str, &str)| {
        let note = new_index_note(index, known, CREATED_BY_FIRST_EVENT)?;
        let text = configured.check(index).err().map_or(note, |fault| fault.to_string());
        Some(format!("inputs.conf [{stanza}]: {text}"))
    };
    named_indexes(layers).into_iter().filter_map(note).collect()
}

/// The indexes that enabled inputs name, each with the first stanza that names it.
fn named_indexes(layers: &Layers) -> Vec<(&str, &str)> {
    let mut seen = BTreeSet::new();
    let stanzas = layers.conf("inputs").stanzas().iter().filter(|stanza| !is_disabled(stanza));
    let named = stanzas.flat_map(|stanza| indexes_of(stanza).map(move |index| (stanza.name.as_str(), index)));
    named.filter(|(_, index)| seen.insert(*index)).collect()
}

fn is_disabled(stanza: &MergedStanza) -> bool {
    stanza.settings.get("disabled").and_then(|setting| parse_bool(&setting.value)).unwrap_or(false)
}

/// The indexes that a stanza names, except `default`, which means the default index.
fn indexes_of(stanza: &MergedStanza) -> impl Iterator<Item = &str> {
    let settings = SETTINGS.iter().filter_map(|name| stanza.settings.get(*name));
    let names = settings.flat_map(|setting| setting.value.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty() && *name != DEFAULT_INDEX_WORD)
}

#[cfg(test)]
mod tests {
    use quarry_conf::{ConfSource, Layer};

    use super::*;

    #[test]
    fn each_index_that_does_not_exist_is_reported_once() {
        let text = "[http://shop]\ntoken = abc\nindex = shpo\nindexes = shop, audit ,shpo\n[monitor:///a]\nindex = audit\n\
                    [udp://514]\nindex = off\ndisabled = true\n[tcp://1]\nindex = default\n[http://x]\nindex = Shop\n";
        let file = "etc/system/local/inputs.conf".to_owned();
        let layers = Layers::new([ConfSource { layer: Layer::SystemLocal, app: None, file, text: text.to_owned() }]);
        let known = ["main", "shop"].map(str::to_owned);
        let expected = [
            "inputs.conf [http://shop]: there is no index `shpo`: it is created when the first event arrives; did you mean `shop`?",
            "inputs.conf [http://shop]: there is no index `audit`: it is created when the first event arrives",
            "inputs.conf [http://x]: index Shop: a name must consist of lower-case letters, digits, _ and -, and must not begin with -",
        ];
        assert_eq!(faults(&layers), expected[2..]);
        assert_eq!(missing_index_notes(&layers, &known), expected);
    }
}
