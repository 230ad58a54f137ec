//! House rules that the compiler does not check: sizes, module docs, names, forbidden words, parts of commands,
//! files in the map.
//!
//! Sizes have a ratchet (`dev/xtask/ratchet.txt`): a file or function over the limit is listed there with its size and
//! may only shrink. The same applies to type names that occur in several files (`dev/xtask/type_names.txt`). `tidy
//! --update` lowers the entries of these lists and never raises one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::assertions::Assertions;
use crate::casts;
use crate::error_types::ErrorTypes;
use crate::root;

/// Maximum number of product lines of a file.
const FILE_LINES_MAX: usize = 900;
/// Maximum number of lines of a function.
const FUNCTION_LINES_MAX: usize = 70;
/// Maximum number of types in product code that have the same name.
const SAME_NAMES_MAX: usize = 3;
/// Module names without meaning.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "manager", "misc"];
/// Adjectives and adverbs that no ending in [`ADJECTIVE_ENDINGS`] identifies.
const ADJECTIVES: &[&str] = &[
    "alike", "brief", "common", "complete", "deep", "distinct", "far", "few", "first", "flat", "full", "hidden",
    "hostile", "hot", "known", "last", "later", "left", "less", "local", "long", "lower", "modular", "more", "near",
    "new", "newer", "old", "older", "other", "over", "plain", "raw", "real", "several", "short", "shown", "simple",
    "single", "small", "some", "together", "upper", "vague", "vertical", "wide", "yet",
];
/// Endings of adjectives and participles.
const ADJECTIVE_ENDINGS: &[&str] =
    &["able", "arest", "ed", "en", "ful", "ible", "ic", "ical", "ive", "less", "ous", "tial", "ual"];
/// Nouns and verbs with such an ending, and words of Splunk or of the command line.
const NOUNS: &[&str] = &[
    // Nouns.
    "archive",
    "arithmetic",
    "credential",
    "diagnostic",
    "feed",
    "interval",
    "manual",
    "metric",
    "seed",
    "table",
    "token",
    "topic",
    "traffic",
    "trial",
    "variable",
    // Verbs, and names of commands and functions.
    "derive",
    "open",
    "receive",
    "makecontinuous",
    "untable",
    "first_last",
    // Output formats and options by their names.
    "raw",
    "vertical",
];
/// Texts that product and test code must not contain.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("#[", "ignore"), "a test runs or is deleted"),
    (concat!("todo", "!("), "no stubs"),
    (concat!("unimplemented", "!("), "no stubs"),
    (concat!("thread::", "sleep"), "wait on a condition or a clock"),
    (concat!("TO", "DO"), "finish it or put it in an issue"),
    (concat!("FIX", "ME"), "finish it or put it in an issue"),
];

/// Words that open a question. A doc comment that opens with such a word only paraphrases the name of its item.
const QUESTION_WORDS: &[&str] = &["What", "Why", "How", "Where", "Which", "When", "Who", "Whose"];

/// Calls of functions that parse SPL.
const SPL_PARSERS: &[&str] = &[
    "quarry_spl::parse(",
    "crate::parse(",
    "parse::parse(",
    "parse_with_commands(",
    "parse_with_stand_ins(",
    "parse_commands(",
    "parse_arguments(",
    "parse_condition(",
    "parse_expression(",
];

/// Checks every Rust file of the project.
pub(crate) fn run(update: bool) -> Result<(), String> {
    let mut files = Vec::new();
    for folder in ["crates", "dev"] {
        collect(&root().join(folder), &mut files);
    }
    files.sort();
    let ratchet_path = root().join("dev/xtask/ratchet.txt");
    let ratchet = read_ratchet(&ratchet_path);
    let mut faults = Vec::new();
    let mut oversize = BTreeMap::new();
    let (mut errors, mut assertions) = (ErrorTypes::default(), Assertions::default());
    let mut names = BTreeMap::new();
    for file in &files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.strip_prefix(root()).unwrap_or(file).display().to_string();
        check_text(&name, &text, &mut faults);
        measure(&name, &text, &mut oversize);
        errors.add(&name, &text);
        casts::check(&name, &text, &mut faults)?;
        assertions.add(&name, &text);
        if crate_of(&name).is_some() && !is_test_file(&name) {
            type_names(&text).for_each(|name| *names.entry(name).or_default() += 1);
        }
    }
    errors.check(&mut faults);
    assertions.check(&mut faults);
    names.retain(|_, count| *count > SAME_NAMES_MAX);
    let names_path = root().join("dev/xtask/type_names.txt");
    let allowed_names = read_ratchet(&names_path);
    check_type_names(&names, &allowed_names, &mut faults);
    crate::commands::check(&mut faults)?;
    crate::file_map::check(&files, &mut faults)?;
    for (what, size) in &oversize {
        match ratchet.get(what) {
            Some(allowed) if size <= allowed => {}
            Some(allowed) => faults.push(format!("{what}: {size} lines, the ratchet allows {allowed}")),
            None => faults.push(format!("{what}: {size} lines, over the limit: split it by subject")),
        }
    }
    if update {
        let kept = oversize.iter().filter(|(what, size)| ratchet.get(*what).is_some_and(|allowed| *size <= allowed));
        let text: String = kept.map(|(what, size)| format!("{size} {what}\n")).collect();
        std::fs::write(&ratchet_path, text).map_err(|error| format!("{}: {error}", ratchet_path.display()))?;
        let text = lowered(&names, &allowed_names);
        std::fs::write(&names_path, text).map_err(|error| format!("{}: {error}", names_path.display()))?;
    }
    if faults.is_empty() {
        println!("tidy: {} files, {} under the ratchet", files.len(), oversize.len());
        return Ok(());
    }
    Err(faults.join("\n"))
}

/// The lines of a ratchet file whose entries may only shrink: an entry that is not allowed yet is not added.
fn lowered(counts: &BTreeMap<String, usize>, allowed: &BTreeMap<String, usize>) -> String {
    let kept = counts.iter().filter_map(|(name, count)| Some((name, count.min(allowed.get(name)?))));
    kept.map(|(name, count)| format!("{count} {name}\n")).collect()
}

/// Names of the types that the product part of a file defines at its top level.
fn type_names(text: &str) -> impl Iterator<Item = String> {
    product_lines(text).into_iter().filter_map(|line| {
        let line = match line.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ")?.1,
            None => line.strip_prefix("pub ").unwrap_or(line),
        };
        let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|kind| line.strip_prefix(kind))?;
        Some(word(rest))
    })
}

/// Reports names that more types share than allowed, because a reader must open the file to know which type is meant.
fn check_type_names(names: &BTreeMap<String, usize>, allowed: &BTreeMap<String, usize>, faults: &mut Vec<String>) {
    for (name, count) in names {
        let most = allowed.get(name).copied().unwrap_or(SAME_NAMES_MAX);
        if *count > most {
            faults.push(format!(
                "{count} types are named `{name}`, but only {most} may be: give the new one a more specific name"
            ));
        }
    }
}

/// The identifier at the beginning of a text.
pub(crate) fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The crate of a product file.
pub(crate) fn crate_of(name: &str) -> Option<&str> {
    let (owner, rest) = name.strip_prefix("crates/")?.split_once('/')?;
    rest.starts_with("src/").then_some(owner)
}

pub(crate) fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn read_ratchet(path: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let rows = text.lines().filter_map(|line| line.split_once(' '));
    rows.filter_map(|(size, what)| Some((what.to_owned(), size.parse().ok()?))).collect()
}

pub(crate) fn is_test_file(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs") || name.contains("/fuzz/") || name.contains("/benches/")
}

fn check_text(name: &str, text: &str, faults: &mut Vec<String>) {
    // A `tests.rs` beside its module needs no description, because the module has one.
    let describes_itself = text.trim_start().starts_with("//!");
    if !describes_itself && !name.ends_with("/tests.rs") && !name.contains("/fuzz/") {
        faults.push(format!("{name}: opens without a `//!` head that says what it is"));
    }
    let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".rs");
    if EMPTY_NAMES.contains(&stem) {
        faults.push(format!("{name}: `{stem}` says nothing, name the thing"));
    }
    for module in modules(name).filter(|module| is_adjective(module)) {
        faults.push(format!("{name}: `{module}` is an adjective or adverb; name the module after what it holds"));
    }
    let is_product = name.contains("/src/") && !is_test_file(name) && !name.starts_with("dev/");
    let product = if is_product { product_lines(text).len() } else { 0 };
    for at in questions(text) {
        faults.push(format!("{name}:{at}: a doc comment opens with a noun or verb phrase, not with a question word"));
    }
    let mut formatted = FormattedTexts::default();
    for (at, line) in text.lines().enumerate() {
        if line.ends_with(' ') && !is_test_file(name) {
            faults.push(format!("{name}:{}: trailing blank", at + 1));
        }
        if at < product && has_text_error(line) {
            faults.push(format!("{name}:{}: an error is a type with a kind, not a String", at + 1));
        }
        if at < product && formatted.parses(line) {
            faults.push(format!(
                "{name}:{}: SPL is formatted and parsed again; build its nodes with `NodeBuilder`",
                at + 1
            ));
        }
        for (word, why) in FORBIDDEN.iter().filter(|(word, _)| line.contains(word)) {
            faults.push(format!("{name}:{}: `{word}`: {why}", at + 1));
        }
    }
}

/// Line numbers of doc comments that open with a question word.
fn questions(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (at, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let sentence = code.strip_prefix("///").or_else(|| code.strip_prefix("//!"));
        let opening = sentence.filter(|_| !is_inside).map(|sentence| word(sentence.trim_start()));
        found.extend(opening.filter(|first| QUESTION_WORDS.contains(&first.as_str())).map(|_| at + 1));
        is_inside = sentence.is_some();
    }
    found
}

/// The variables of a function that hold formatted texts.
#[derive(Default)]
struct FormattedTexts {
    names: BTreeSet<String>,
    /// Variable whose value begins on the next line.
    open: Option<String>,
}

impl FormattedTexts {
    /// True if a line parses a formatted text as SPL, given the lines before it.
    fn parses(&mut self, line: &str) -> bool {
        let code = line.trim_start();
        if function_name(code).is_some() {
            self.names.clear();
        }
        if let Some(name) = self.open.take().filter(|_| code.starts_with("format!(")) {
            self.names.insert(name);
        }
        if let Some((name, value)) = code.strip_prefix("let ").and_then(|rest| rest.split_once('=')) {
            let name = word(name.trim_start_matches("mut "));
            match value.trim() {
                "" => self.open = Some(name),
                value if value.starts_with("format!(") => drop(self.names.insert(name)),
                _ => drop(self.names.remove(&name)),
            }
        }
        if let Some((name, _)) = code.split_once(".push_str(&format!(") {
            self.names.insert(word(name));
        }
        let is_formatted = |argument: &str| {
            let argument = argument.trim_start_matches('&');
            argument.starts_with("format!(") || self.names.contains(&word(argument))
        };
        SPL_PARSERS.iter().any(|parser| code.split(parser).skip(1).any(is_formatted))
    }
}

/// Names of the modules in a path: the directories below the crate's `src` and the file itself.
fn modules(name: &str) -> impl Iterator<Item = &str> {
    let parts = name.trim_end_matches(".rs").split('/');
    parts.skip(2).filter(|part| !matches!(*part, "src" | "tests" | "examples" | "mod" | "lib" | "main"))
}

/// True if a name ends with an adjective, adverb or participle, so that it describes a property instead of naming a
/// thing.
fn is_adjective(module: &str) -> bool {
    let last = module.rsplit('_').next().unwrap_or(module);
    let has_ending = || ADJECTIVE_ENDINGS.iter().any(|ending| last.len() > ending.len() + 1 && last.ends_with(ending));
    !NOUNS.contains(&module) && !NOUNS.contains(&last) && (ADJECTIVES.contains(&last) || has_ending())
}

/// True if a line contains a `Result` whose error is a text, because callers cannot distinguish such errors.
fn has_text_error(line: &str) -> bool {
    line.match_indices("Result<").any(|(at, opening)| {
        let (mut depth, mut last) = (1, "");
        let inner = &line[at + opening.len()..];
        let end = inner.char_indices().find(|(place, c)| {
            match c {
                '<' | '(' => depth += 1,
                '>' | ')' if !inner[..*place].ends_with('-') => depth -= 1,
                ',' if depth == 1 => last = &inner[place + 1..],
                _ => {}
            }
            depth == 0
        });
        end.is_some() && last.trim_start().strip_prefix("String").is_some_and(|rest| rest.starts_with('>'))
    })
}

/// Product part of a file: everything before its inline test module.
pub(crate) fn product_lines(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{'));
    lines[..tests.unwrap_or(lines.len())].to_vec()
}

fn measure(name: &str, text: &str, oversize: &mut BTreeMap<String, usize>) {
    if is_test_file(name) {
        return;
    }
    let lines = product_lines(text);
    if lines.len() > FILE_LINES_MAX {
        oversize.insert(name.to_owned(), lines.len());
    }
    for (function, length) in functions(&lines) {
        if length > FUNCTION_LINES_MAX {
            oversize.insert(format!("{name}::{function}"), length);
        }
    }
}

/// Name and length of each function of formatted code: a function ends at the first `}` with its own indentation.
fn functions(lines: &[&str]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let Some(name) = function_name(line.trim_start()) else { continue };
        let close = format!("{}}}", " ".repeat(indent));
        let one_line = line.trim_end().ends_with('}') || line.trim_end().ends_with(';');
        let end = lines[at..].iter().position(|later| **later == close);
        if let (false, Some(length)) = (one_line, end) {
            found.push((name, length + 1));
        }
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let mut rest = line;
    for prefix in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe "] {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    let rest = rest.strip_prefix("fn ")?;
    Some(word(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check_text(name, text, &mut faults);
        faults
    }

    #[test]
    fn house_rules_are_reported_by_file_and_line() {
        assert!(faults("crates/a/src/lib.rs", "//! Head.\nfn a() {}\n").is_empty());
        assert_eq!(faults("a.rs", "fn a() {}\n"), ["a.rs: opens without a `//!` head that says what it is"]);
        assert_eq!(faults("b/utils.rs", "//! Head.\n"), ["b/utils.rs: `utils` says nothing, name the thing"]);
        for (signature, is_told) in [
            ("fn a() -> Result<(), String> {}", true),
            ("fn a(b: &dyn Fn() -> Result<Vec<u8>, String>) {}", true),
            ("fn a() -> Result<BTreeMap<String, String>, Fault> {}", false),
            ("fn a() -> Result<Option<String>, Fault> {}", false),
        ] {
            let told = faults("crates/a/src/lib.rs", &format!("//! Head.\n{signature}\n"));
            assert_eq!(!told.is_empty(), is_told, "{signature}: {told:?}");
        }
        let stub = format!("//! Head.\nfn a() {{ {}{}) }} \n", "todo", "!(");
        let told = format!("a.rs:2: `{}{}`: no stubs", "todo", "!(");
        assert_eq!(faults("a.rs", &stub), ["a.rs:2: trailing blank", &told]);
    }

    #[test]
    fn doc_comments_do_not_open_with_a_question_word() {
        let text = "//! How it works.\n//! Where it is.\n\n/// The rows.\n/// Which they are.\n\
                    pub struct A {\n    /// When it came.\n    at: u64,\n}\n/// Whether it is.\nfn b() {}\n\
                    #[cold]\n/// Why it fails.\nfn c() {}\n";
        let told = "a doc comment opens with a noun or verb phrase, not with a question word";
        let expected = [1, 7, 13].map(|at| format!("crates/a/src/lib.rs:{at}: {told}"));
        assert_eq!(faults("crates/a/src/lib.rs", text), expected);
    }

    #[test]
    fn type_names_do_not_spread() {
        let text = "pub struct State {\n}\npub(crate) enum Step {\n}\ntype Kind = u8;\nimpl Iterator for Step {\n    type Item = u8;\n}\n";
        assert_eq!(type_names(text).collect::<Vec<_>>(), ["State", "Step", "Kind"]);
        let list = |pairs: &[(&str, usize)]| pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let told = |count: usize| {
            let mut faults = Vec::new();
            check_type_names(
                &list(&[("State", count), ("Step", 4)]),
                &list(&[("State", 12), ("Step", 4)]),
                &mut faults,
            );
            faults
        };
        assert!(told(12).is_empty());
        assert_eq!(told(13), ["13 types are named `State`, but only 12 may be: give the new one a more specific name"]);
        let mut faults = Vec::new();
        check_type_names(&list(&[("New", 4)]), &BTreeMap::new(), &mut faults);
        assert_eq!(faults, ["4 types are named `New`, but only 3 may be: give the new one a more specific name"]);
    }

    #[test]
    fn formatted_texts_are_not_parsed() {
        let told = |body: &str| faults("crates/a/src/lib.rs", &format!("//! Head.\nfn a() {{\n{body}\n}}\n")).len();
        assert_eq!(told("quarry_spl::parse(&format!(\"| {a}\"));"), 1);
        assert_eq!(told("let text = format!(\"| {a}\");\nlet b = parse_commands(&text, true, &c);"), 1);
        assert_eq!(told("let text =\n    format!(\"| {a}\");\nlet b = parse_condition(&text);"), 1);
        assert_eq!(told("text.push_str(&format!(\"| {a}\"));\nlet b = quarry_spl::parse(&text);"), 1);
        assert_eq!(told("let text = format!(\"| {a}\");\n}\nfn b(text: &str) {\nquarry_spl::parse(text);"), 0);
        assert_eq!(told("let text = format!(\"{a}\");\nlet span = Span::parse(&text);"), 0);
    }

    #[test]
    fn modules_are_not_named_by_an_adjective() {
        let (bad, good) = (
            "bundled chunked derived left_over newest_first not_yet mixed modular numeric older partial",
            "archive bits derived_fields first_rows older_commands open_files seed trial",
        );
        assert!(bad.split(' ').all(is_adjective));
        assert!(!good.split(' ').any(is_adjective));
        let told = faults("crates/store/src/sealed/cut.rs", "//! Head.\n");
        assert_eq!(
            told,
            ["crates/store/src/sealed/cut.rs: `sealed` is an adjective or adverb; name the module after what it holds"]
        );
        assert!(faults("crates/store/src/tests/mod.rs", "//! Head.\n").is_empty());
    }

    #[test]
    fn an_update_never_raises_a_limit() {
        let of = |entries: &[(&str, usize)]| entries.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let lines = lowered(&of(&[("a", 2), ("b", 5), ("new", 1)]), &of(&[("a", 3), ("b", 4), ("gone", 1)]));
        assert_eq!(lines, "2 a\n4 b\n");
    }

    #[test]
    fn a_product_file_belongs_to_its_crate() {
        assert_eq!(crate_of("crates/store/src/wal/record.rs"), Some("store"));
        assert_eq!((crate_of("crates/store/tests/a.rs"), crate_of("dev/xtask/src/a.rs")), (None, None));
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let text = "pub(crate) fn a() {\n    b();\n}\nimpl X {\n    fn c(\n        x: u8,\n    ) {\n        if x {\n        }\n    }\n}\nfn d() {}\n";
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(functions(&lines), [("a".to_owned(), 3), ("c".to_owned(), 6)]);
    }

    #[test]
    fn inline_tests_do_not_count_and_test_files_are_not_measured() {
        let text = "//! Head.\nfn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(product_lines(text).len(), 2);
        let long = format!("fn long() {{\n{}}}\n", "    a();\n".repeat(FUNCTION_LINES_MAX));
        let mut oversize = BTreeMap::new();
        measure("crates/a/src/tests.rs", &long, &mut oversize);
        assert!(oversize.is_empty());
        measure("crates/a/src/a.rs", &long, &mut oversize);
        assert_eq!(oversize, BTreeMap::from([("crates/a/src/a.rs::long".to_owned(), FUNCTION_LINES_MAX + 2)]));
    }
}
