//! Runs every example of the manual (`spec/spl/*.md`) and compares the answers with what the pages say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod outcome;
mod page;
mod world;

use std::path::{Path, PathBuf};

use page::{Page, read_page};
use world::EventStorage;

fn pages() -> Vec<(String, Page)> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/spl");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let page = read_page(&text).unwrap_or_else(|fault| panic!("spec/spl/{name}:{fault}"));
            (name, page)
        })
        .collect()
}

/// Every mismatch of a page.
fn mismatches(name: &str, page: &Page, kept: EventStorage) -> Vec<String> {
    let examples = page.examples.iter();
    let failed = examples.filter_map(|example| outcome::check(example, kept).err().map(|text| (example, text)));
    failed.map(|(example, text)| format!("spec/spl/{name}:{text}\n      in: {}", example.title)).collect()
}

#[expect(clippy::disallowed_methods, reason = "SPEC_PAGE=stats runs the pages whose name begins so")]
fn selected_pages() -> Vec<(String, Page)> {
    let mut pages = pages();
    if let Ok(only) = std::env::var("SPEC_PAGE") {
        pages.retain(|(name, _)| name.starts_with(&only));
    }
    assert!(!pages.is_empty(), "no page is chosen");
    pages
}

#[test]
fn manual_examples_give_the_documented_results() {
    let pages = selected_pages();
    let count: usize = pages.iter().map(|(_, page)| page.examples.len()).sum();
    let failed: Vec<String> =
        pages.iter().flat_map(|(name, page)| mismatches(name, page, EventStorage::InMemory)).collect();
    assert!(failed.is_empty(), "{} of {count} examples differ\n\n{}", failed.len(), failed.join("\n\n"));
}

/// Examples whose results differ in this storage form.
fn result_mismatches(kept: EventStorage) -> Vec<String> {
    let mut pages = selected_pages();
    pages.iter_mut().for_each(|(_, page)| page.examples.retain(|example| !example.events.is_empty()));
    // Most of the time is spent waiting for the disk.
    std::thread::scope(|scope| {
        let run = |(name, page)| scope.spawn(move || mismatches(name, page, kept));
        let running: Vec<_> = pages.iter().map(|(name, page)| run((name, page))).collect();
        running.into_iter().flat_map(|page| page.join().unwrap()).collect()
    })
}

#[test]
fn sealed_buckets_give_the_same_answers() {
    let failed = result_mismatches(EventStorage::Sealed);
    assert!(failed.is_empty(), "{} examples differ\n\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn buckets_only_on_a_volume_give_the_same_answers() {
    let failed = result_mismatches(EventStorage::Far);
    assert!(failed.is_empty(), "{} examples differ\n\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn buckets_on_an_s3_server_give_the_same_answers() {
    let Some(gateway) = quarry_s3world::Gateway::start() else { return };
    let port = gateway.address().rsplit(':').next().unwrap().parse().unwrap();
    let failed = result_mismatches(EventStorage::OnS3(port));
    assert!(failed.is_empty(), "{} examples differ\n\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn summaries_of_data_models_give_the_same_answers() {
    let mut pages = pages();
    let sums_up =
        |example: &page::Example| !example.models.is_empty() && !example.search.text().contains("summariesonly=t");
    pages.iter_mut().for_each(|(_, page)| page.examples.retain(sums_up));
    assert!(pages.iter().any(|(_, page)| !page.examples.is_empty()));
    let failed: Vec<String> =
        pages.iter().flat_map(|(name, page)| mismatches(name, page, EventStorage::Summarised)).collect();
    assert!(failed.is_empty(), "{} examples differ\n\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn pages_have_the_sections_of_a_manual() {
    for (name, page) in pages() {
        assert!(!page.title.is_empty(), "spec/spl/{name} has no title");
        assert!(
            page.examples.len() >= 3,
            "spec/spl/{name} has {} examples, at least 3 are needed",
            page.examples.len()
        );
        for section in ["Syntax", "Examples"] {
            assert!(page.sections.iter().any(|known| known == section), "spec/spl/{name} lacks `## {section}`");
        }
    }
}

const FAULTY: &str = r#"# demo
## Examples
### wrong cell
```spl
| makeresults | eval x=1 | table x
```
```result
x
2
```
### wrong columns
```spl
| makeresults | eval x=1, y=2 | table x y
```
```result
x
1
```
### a row too many
```spl
| makeresults count=2 | eval x=1 | table x
```
```result
x
1
```
### refused
```spl
| makeresults | nonsense
```
```result
x
1
```
### not refused
```spl
| makeresults | table x
```
```error
no
```
### wrong place
```spl
| makeresults | eval x=lenn("a")
```
```error
unknown function `lenn` (did you mean `len`?)
| makeresults | eval x=lenn("a")
^
```
"#;

#[test]
fn the_runner_detects_each_kind_of_mismatch() {
    let found = mismatches("demo.md", &read_page(FAULTY).unwrap(), EventStorage::InMemory);
    let wanted = [
        "demo.md:8: row 1, x: \"1\" instead of \"2\"",
        "demo.md:16: columns are x, y instead of x",
        "demo.md:24: 2 rows instead of 1",
        "demo.md:32: refused",
        "demo.md:40: not refused",
        "demo.md:47: another error",
    ];
    assert_eq!(found.len(), wanted.len(), "{}", found.join("\n"));
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(found.starts_with(&format!("spec/spl/{wanted}")), "{found}\n  should start with {wanted}");
    }
}

#[test]
fn faulty_pages_are_refused_with_the_line() {
    for (text, wanted) in [
        ("# a\n## Examples\n### b\n```spl\nx", "4: this block has no end"),
        ("# a\n## Examples\n### b\n```result\nx\n```", "3: example `b` has no `spl` block"),
        ("# a\n## Examples\n### b\n```spl\nx\n```\n```resalt\n```", "8: block `resalt` is unknown here or comes twice"),
        ("# a\n```spl\nx\n```", "2: a block `spl` outside of an example"),
    ] {
        assert_eq!(read_page(text).unwrap_err(), wanted);
    }
}

#[test]
fn every_command_and_function_is_on_a_page() {
    let pages = pages();
    for command in quarry_spl::commands::help() {
        let wanted = format!("{}.md", command.page);
        assert!(pages.iter().any(|(name, _)| *name == wanted), "spec/spl/{wanted} is missing");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/spl");
    let of_eval: Vec<&str> = quarry_spl::functions::EVAL_FUNCTIONS.iter().map(|row| row.help.name).collect();
    let of_stats: Vec<&str> = quarry_spl::functions::STATS_FUNCTIONS.iter().map(|row| row.help.name).collect();
    for (page, names) in [("eval-functions.md", of_eval), ("stats-functions.md", of_stats)] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        for name in names {
            assert!(text.contains(&format!("`{name}")), "spec/spl/{page} does not mention {name}");
        }
    }
}
