//! Merges the files of all layers: each file is parsed, checked against the settings tables, and merged over the files
//! of lower precedence.
//!
//! The global order, lowest precedence first: system/default, then apps' default folders, then apps' local folders,
//! then system/local; of two apps, the app whose name sorts first wins. A [`View`] uses the order of an app and user
//! instead, for the confs that searches read: system/default, system/local, settings shared by other apps, the app's
//! default and local settings, the user's own settings.

use crate::check::check;
use crate::default_files::builtin_sources;
use crate::layers::{ConfSource, Layer, Layers};
use crate::namespace::View;
use crate::object_access::Readable;
use crate::settings::indexes::check_merged;
use crate::text::Conf;

impl Layers {
    /// Merges files over the built-in defaults. The order of `sources` matters only within one folder.
    pub fn new(sources: impl IntoIterator<Item = ConfSource>) -> Layers {
        Layers::readable(sources, &Readable::unrestricted())
    }

    /// Like [`Layers::new`], without the objects that may not be read.
    pub fn readable(sources: impl IntoIterator<Item = ConfSource>, readable: &Readable) -> Layers {
        Layers::merge_sources(builtin_sources().into_iter().chain(sources), readable)
    }

    /// Merges the files that a namespace sees over the built-in defaults, without the objects that may not be read.
    /// User files in `sources` must all belong to the view's user.
    pub fn for_view(sources: impl IntoIterator<Item = ConfSource>, view: &View, readable: &Readable) -> Layers {
        let sources: Vec<ConfSource> = builtin_sources().into_iter().chain(sources).collect();
        let is_followed = |source: &&ConfSource| View::is_namespaced(source.conf_name());
        let mut followed: Vec<ConfSource> = sources.iter().filter(is_followed).cloned().collect();
        let mut layers = Layers::without_builtin(sources);
        for (name, conf) in &mut layers.confs {
            conf.retain(|key| !View::is_namespaced_setting(name, key));
        }
        let rank = |source: &ConfSource| match source.layer {
            Layer::SystemDefault => 0,
            Layer::SystemLocal => 1,
            Layer::AppDefault | Layer::AppLocal => 2,
            Layer::User => 3,
        };
        followed.sort_by(|a, b| {
            let apps = a.app.as_deref().map(|app| view.rank(app)).cmp(&b.app.as_deref().map(|app| view.rank(app)));
            rank(a).cmp(&rank(b)).then(apps).then_with(|| a.layer.cmp(&b.layer))
        });
        for source in &followed {
            let warnings_before = layers.warnings.len();
            layers.merge_source(source, |name, conf| {
                view.retain_visible(name, source, conf);
                readable.retain_readable(name, source, conf);
            });
            // All files but user files were already checked above.
            if source.layer != Layer::User {
                layers.warnings.truncate(warnings_before);
            }
        }
        layers
    }

    /// Like [`Layers::readable`], but a user's own files override all other files, for the confs that searches read.
    pub fn with_private(
        sources: impl IntoIterator<Item = ConfSource>,
        own: &[ConfSource],
        readable: &Readable,
    ) -> Layers {
        let mut layers = Layers::readable(sources, readable);
        for source in own.iter().filter(|source| View::is_namespaced(source.conf_name())) {
            layers.merge_source(source, |name, conf| {
                let follows = |key: &str| View::is_namespaced_setting(name, key);
                conf.stanzas.iter_mut().for_each(|stanza| stanza.settings.retain(|setting| follows(&setting.key)));
            });
        }
        layers
    }

    /// These files, with another one that overrides them all.
    #[must_use]
    pub fn overridden_by(&self, source: &ConfSource) -> Layers {
        let mut layers = self.clone();
        layers.merge_source(source, |_, _| ());
        layers
    }

    /// Merges files without the built-in defaults.
    pub fn without_builtin(sources: impl IntoIterator<Item = ConfSource>) -> Layers {
        Layers::merge_sources(sources, &Readable::unrestricted())
    }

    fn merge_sources(sources: impl IntoIterator<Item = ConfSource>, readable: &Readable) -> Layers {
        let mut sources: Vec<ConfSource> = sources.into_iter().collect();
        sources.retain(|source| source.layer != Layer::User);
        // Lowest precedence first, because later files overwrite earlier files: within a layer, the app whose name
        // sorts first comes last.
        sources.sort_by(|a, b| a.layer.cmp(&b.layer).then_with(|| b.app.cmp(&a.app)));
        let mut layers = Layers::default();
        for source in &sources {
            layers.merge_source(source, |name, conf| readable.retain_readable(name, source, conf));
        }
        if let Some(conf) = layers.confs.get("indexes") {
            check_merged(conf, &mut layers.warnings);
        }
        layers
    }

    /// Merges a file over the current settings, after `narrow` has removed the settings that do not apply.
    fn merge_source(&mut self, source: &ConfSource, narrow: impl FnOnce(&str, &mut Conf)) {
        let (mut conf, warnings) = Conf::parse(&source.file, &source.text);
        self.warnings.extend(warnings);
        check(source.conf_name(), &mut conf, &mut self.warnings);
        narrow(source.conf_name(), &mut conf);
        self.confs.entry(source.conf_name().to_owned()).or_default().merge_over(conf);
    }
}
