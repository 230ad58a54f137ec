//! Notes on inputs whose index does not exist: the first event creates the index, perhaps by mistake.

use std::collections::BTreeSet;

use quarry_conf::{IndexesConf, Layers, MergedStanza, parse_bool};
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

fn missing_index_notes(layers: &Layers, known: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut notes = Vec::new();
    for stanza in layers.conf("inputs").stanzas().iter().filter(|stanza| !is_disabled(stanza)) {
        for index in indexes_of(stanza).filter(|index| seen.insert((*index).to_owned())) {
            let note = new_index_note(index, known, CREATED_BY_FIRST_EVENT);
            notes.extend(note.map(|note| format!("inputs.conf [{}]: {note}", stanza.name)));
        }
    }
    notes
}

fn is_disabled(stanza: &MergedStanza) -> bool {
    stanza.settings.get("disabled").and_then(|setting| parse_bool(&setting.value)).unwrap_or(false)
}

/// The indexes that a stanza names, except `default`, which means the default index.
fn indexes_of(stanza: &MergedStanza) -> impl Iterator<Item = &str> {
    let settings = SETTINGS.iter().filter_map(|name| stanza.settings.get(*name));
    let names = settings.flat_map(|setting| setting.value.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty() && *name != "default")
}

#[cfg(test)]
mod tests {
    use quarry_conf::{ConfSource, Layer};

    use super::*;

    #[test]
    fn each_index_that_does_not_exist_is_reported_once() {
        let text = "[http://shop]\ntoken = abc\nindex = shpo\nindexes = shop, audit ,shpo\n[monitor:///a]\nindex = audit\n\
                    [udp://514]\nindex = off\ndisabled = true\n[tcp://1]\nindex = default\n";
        let file = "etc/system/local/inputs.conf".to_owned();
        let layers = Layers::new([ConfSource { layer: Layer::SystemLocal, app: None, file, text: text.to_owned() }]);
        let known = ["main", "shop"].map(str::to_owned);
        let expected = [
            "inputs.conf [http://shop]: there is no index `shpo`: it is created when the first event arrives; did you mean `shop`?",
            "inputs.conf [http://shop]: there is no index `audit`: it is created when the first event arrives",
        ];
        assert_eq!(missing_index_notes(&layers, &known), expected);
    }
}
