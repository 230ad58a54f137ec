//! The merged conf files of all layers, each setting with its origin, as plain data.
//!
//! Not here: reading, checking and ordering files ([`crate::merge`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::text::{Conf, DEFAULT_STANZA};
use crate::warning::ConfWarning;

/// The layer of a file; later layers win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// `etc/system/default`, and the built-in files.
    SystemDefault,
    /// `etc/apps/APP/default`.
    AppDefault,
    /// `etc/apps/APP/local`.
    AppLocal,
    /// `etc/system/local`.
    SystemLocal,
    /// `etc/users/USER/APP/local`: applies only in the view of this user and app.
    User,
}

/// A file's text and its layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfSource {
    /// Layer of its folder.
    pub layer: Layer,
    /// App of the file; only in the app layers.
    pub app: Option<String>,
    /// Label shown in origins and warnings, usually the path. Its last part names the conf: `…/props.conf`.
    pub file: String,
    /// Content of the file.
    pub text: String,
}

impl ConfSource {
    /// Name of the conf, such as `props` for `etc/system/local/props.conf`.
    pub(crate) fn conf_name(&self) -> &str {
        let name = self.file.rsplit(['/', '\\']).next().unwrap_or(&self.file);
        name.strip_suffix(".conf").unwrap_or(name)
    }
}

/// All conf files, merged.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    pub(crate) confs: BTreeMap<String, MergedConf>,
    pub(crate) warnings: Vec<ConfWarning>,
}

/// One conf, merged over all layers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedConf {
    /// Stanzas in order of first appearance, lowest layer first.
    stanzas: Vec<MergedStanza>,
    by_name: BTreeMap<String, usize>,
}

/// One stanza, merged over all layers, without the settings it inherits from `[default]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedStanza {
    /// Name of the stanza.
    pub name: String,
    /// Settings by name.
    pub settings: BTreeMap<String, MergedSetting>,
}

/// A setting's winning value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedSetting {
    /// Text after the equals sign, without surrounding blanks.
    pub value: String,
    /// Label of the file that sets the value.
    pub file: Arc<str>,
    /// Line in the file, from 1.
    pub line: u32,
}

/// A row of `quarry btool CONF list --debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BtoolRow<'a> {
    /// Label of the file the value comes from.
    pub file: &'a str,
    /// Line in the file, from 1.
    pub line: u32,
    /// Stanza the row is listed under; inherited settings are listed under the stanza that inherits them.
    pub stanza: &'a str,
    /// Setting.
    pub key: &'a str,
    /// Value in force.
    pub value: &'a str,
}

impl Layers {
    /// The conf of this name, without `.conf`; empty if no file of that name exists.
    pub fn conf(&self, name: &str) -> &MergedConf {
        static EMPTY: MergedConf = MergedConf { stanzas: Vec::new(), by_name: BTreeMap::new() };
        self.confs.get(name).unwrap_or(&EMPTY)
    }

    /// Names of all confs.
    pub fn conf_names(&self) -> impl Iterator<Item = &str> {
        self.confs.keys().map(String::as_str)
    }

    /// Total bytes of all names and values, which is about the size of the files.
    pub fn text_bytes(&self) -> usize {
        let of_stanza = |stanza: &MergedStanza| {
            let settings = stanza.settings.iter().map(|(key, setting)| key.len() + setting.value.len());
            stanza.name.len() + settings.sum::<usize>()
        };
        self.confs.values().flat_map(|conf| &conf.stanzas).map(of_stanza).sum()
    }

    /// Faults found while reading, lowest layer first.
    pub fn warnings(&self) -> &[ConfWarning] {
        &self.warnings
    }

    /// The output of `btool CONF list [STANZA]`: every stanza with its own and inherited settings, by name. `stanza`
    /// selects stanzas by prefix.
    pub fn btool(&self, conf: &str, stanza: Option<&str>) -> Vec<BtoolRow<'_>> {
        let conf = self.conf(conf);
        let mut stanzas: Vec<&MergedStanza> = conf.stanzas.iter().collect();
        stanzas.retain(|merged| stanza.is_none_or(|wanted| merged.name.starts_with(wanted)));
        stanzas.sort_by(|a, b| a.name.cmp(&b.name));
        let rows = |merged: &'_ MergedStanza| conf.effective(&merged.name).into_iter().collect::<Vec<_>>();
        stanzas
            .into_iter()
            .flat_map(|merged| rows(merged).into_iter().map(|(key, setting)| row(merged, key, setting)))
            .collect()
    }
}

fn row<'a>(stanza: &'a MergedStanza, key: &'a str, setting: &'a MergedSetting) -> BtoolRow<'a> {
    BtoolRow { file: &setting.file, line: setting.line, stanza: &stanza.name, key, value: &setting.value }
}

impl MergedConf {
    /// Stanzas in order of first appearance.
    pub fn stanzas(&self) -> &[MergedStanza] {
        &self.stanzas
    }

    /// Stanza by name, without inherited settings.
    pub fn stanza(&self, name: &str) -> Option<&MergedStanza> {
        self.by_name.get(name).map(|at| &self.stanzas[*at])
    }

    /// Value of a stanza's setting, own or inherited from `[default]`.
    pub fn get(&self, stanza: &str, key: &str) -> Option<&str> {
        let own = self.stanza(stanza).and_then(|stanza| stanza.settings.get(key));
        let inherited = || self.stanza(DEFAULT_STANZA).and_then(|stanza| stanza.settings.get(key));
        own.or_else(inherited).map(|setting| setting.value.as_str())
    }

    /// All settings of a stanza, own and inherited, by name.
    pub fn effective(&self, stanza: &str) -> BTreeMap<&str, &MergedSetting> {
        let layers = [self.stanza(DEFAULT_STANZA), self.stanza(stanza)];
        let settings = layers.into_iter().flatten().flat_map(|stanza| &stanza.settings);
        settings.map(|(key, setting)| (key.as_str(), setting)).collect()
    }

    /// Removes settings for which `keep` returns false, and stanzas left without settings.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.stanzas.iter_mut().for_each(|stanza| stanza.settings.retain(|key, _| keep(key)));
        self.stanzas.retain(|stanza| !stanza.settings.is_empty());
        let places = self.stanzas.iter().enumerate();
        self.by_name = places.map(|(at, stanza)| (stanza.name.clone(), at)).collect();
    }

    /// Merges a file over the current settings.
    pub(crate) fn merge_over(&mut self, conf: Conf) {
        for stanza in conf.stanzas {
            let next = self.stanzas.len();
            let at = *self.by_name.entry(stanza.name.clone()).or_insert(next);
            if at == next {
                self.stanzas.push(MergedStanza { name: stanza.name, settings: BTreeMap::new() });
            }
            for setting in stanza.settings {
                let merged = MergedSetting { value: setting.value, file: conf.file.clone(), line: setting.line };
                self.stanzas[at].settings.insert(setting.key, merged);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
