//! Mutated conf files: reading any content yields settings and warnings, never a panic.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[path = "../../../fuzz/entries/conf_text.rs"]
mod entry;
#[path = "../../../fuzz/entries/mutations.rs"]
mod mutations;

#[test]
fn any_text_parses() {
    let mut seeds = Vec::new();
    for folder in ["valid", "invalid"] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "conf") {
                seeds.push(path);
            }
        }
    }
    seeds.sort();
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(seeds.len() > 5);
    seeds.iter().for_each(|seed| entry::run(seed));
    mutations::for_each_mutation(&seeds, 3_000, entry::run);
}
