//! Reads the `.conf` files of a data folder and hands their texts to `conf`; every warning is told once.

use std::path::{Path, PathBuf};

use quarry_conf::{ConfSource, Layer, Layers};

/// Largest conf file read, in bytes.
const CONF_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Merged configuration of a data folder, built-in defaults included.
pub(crate) fn read(data_dir: &Path) -> Layers {
    let mut sources = Vec::new();
    let etc = data_dir.join("etc");
    collect(&etc.join("system/local"), Layer::SystemLocal, None, &mut sources);
    for app in folders(&etc.join("apps")) {
        let name = app.file_name().map(|name| name.to_string_lossy().into_owned());
        collect(&app.join("default"), Layer::AppDefault, name.clone(), &mut sources);
        collect(&app.join("local"), Layer::AppLocal, name, &mut sources);
    }
    Layers::new(sources)
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

/// Reads each `*.conf` of a folder; one that cannot be read is told and left out.
fn collect(folder: &Path, layer: Layer, app: Option<String>, sources: &mut Vec<ConfSource>) {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    files.sort();
    for path in files {
        let too_large = path.metadata().is_ok_and(|metadata| metadata.len() > CONF_BYTES_MAX);
        if too_large {
            crate::tell(&format!("warning: {}: larger than {CONF_BYTES_MAX} bytes, not read", path.display()));
            continue;
        }
        match std::fs::read(&path) {
            Ok(bytes) => sources.push(ConfSource {
                layer,
                app: app.clone(),
                file: path.display().to_string(),
                text: String::from_utf8_lossy(&bytes).into_owned(),
            }),
            Err(error) => crate::tell(&format!("warning: {}: {error}, not read", path.display())),
        }
    }
}
