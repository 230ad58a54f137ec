//! The built-in default files: the lowest layer.

use crate::layers::{ConfSource, Layer};

/// Folder shown as the origin of built-in files.
const BUILTIN_FOLDER: &str = "etc/system/default";

/// Conf name and text of every built-in file.
const BUILTIN: &[(&str, &str)] = &[
    ("authorize", include_str!("../default/authorize.conf")),
    ("indexes", include_str!("../default/indexes.conf")),
    ("limits", include_str!("../default/limits.conf")),
    ("props", include_str!("../default/props.conf")),
    ("savedsearches", include_str!("../default/savedsearches.conf")),
    ("server", include_str!("../default/server.conf")),
    ("transforms", include_str!("../default/transforms.conf")),
    ("web", include_str!("../default/web.conf")),
];

/// The built-in files as sources.
pub fn builtin_sources() -> Vec<ConfSource> {
    let source = |(name, text): &(&str, &str)| ConfSource {
        layer: Layer::SystemDefault,
        app: None,
        file: format!("{BUILTIN_FOLDER}/{name}.conf"),
        text: (*text).to_owned(),
    };
    BUILTIN.iter().map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_transforms_have_names_of_their_own() {
        let sources = builtin_sources();
        let transforms = sources.iter().find(|source| source.file.ends_with("/transforms.conf")).unwrap();
        let names = transforms.text.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
        let others: Vec<&str> = names.filter(|name| *name != "default" && !name.starts_with("quarry_")).collect();
        assert!(others.is_empty(), "a stanza of a user would be merged with {others:?}");
    }
}
