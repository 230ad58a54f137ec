//! Conf files with expected results: the settings of each `valid/*.conf` and the warnings of each `invalid/*.conf` are
//! in the `.txt` file of the same name. The part of the name before the dash is the name of the conf. `UPDATE_TEXTS=1
//! cargo test` rewrites the expected results.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use quarry_conf::{ConfSource, Layer, Layers};

fn texts(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut texts: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "conf")).collect();
    texts.sort();
    assert!(!texts.is_empty());
    texts
}

fn conf_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap().to_str().unwrap();
    stem.split('-').next().unwrap().to_owned()
}

fn read(path: &Path) -> Layers {
    let file = format!("{}.conf", conf_of(path));
    let text = std::fs::read_to_string(path).unwrap();
    Layers::without_builtin([ConfSource { layer: Layer::SystemLocal, app: None, file, text }])
}

fn answer(layers: &Layers, conf: &str) -> String {
    let mut answer = String::new();
    for warning in layers.warnings() {
        writeln!(answer, "! {warning}").unwrap();
    }
    for row in layers.btool(conf, None) {
        writeln!(answer, "{}: [{}] {} = {:?}", row.line, row.stanza, row.key, row.value).unwrap();
    }
    answer
}

fn check(folder: &str, wants_warnings: bool) {
    for path in texts(folder) {
        let layers = read(&path);
        assert_eq!(!layers.warnings().is_empty(), wants_warnings, "{}: {:?}", path.display(), layers.warnings());
        let answer = answer(&layers, &conf_of(&path));
        let expected = path.with_extension("txt");
        if std::env::var_os("UPDATE_TEXTS").is_some() {
            std::fs::write(&expected, &answer).unwrap();
        }
        assert_eq!(answer, std::fs::read_to_string(&expected).unwrap_or_default(), "{}", path.display());
    }
}

#[test]
fn valid_texts_give_the_expected_settings() {
    check("valid", false);
}

#[test]
fn invalid_texts_are_reported_and_the_rest_applies() {
    check("invalid", true);
}
