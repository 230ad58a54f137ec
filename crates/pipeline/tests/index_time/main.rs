//! Tests that the examples of `spec/index-time` are correct. Examples with expressions run in the engine's tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod runner;

/// Pages whose examples need expressions.
const WITH_EXPRESSIONS: [&str; 1] = ["ingest-eval.md"];

#[test]
fn documented_examples_match() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/index-time");
    let (mut failures, mut examples) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if WITH_EXPRESSIONS.contains(&name.as_str()) {
            continue;
        }
        let (failed, count) = runner::run_page(&std::fs::read_to_string(&path).unwrap(), None);
        assert!(count > 0, "{name} holds no example");
        failures.extend(failed.into_iter().map(|failure| format!("{name} {failure}")));
        examples += count;
    }
    assert!(failures.is_empty(), "{} of {examples} failed\n\n{}", failures.len(), failures.join("\n\n"));
}
