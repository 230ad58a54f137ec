//! Rules whose groups begin and end inside values that have templates of their own, such as `10.0.0.1:443`: searches of
//! templates have the same results as searches of texts.
//!
//! The lines consist of random sequences of such values. Each rule is a random expression for all or some of them, in
//! which parts are optional, divided at other positions than the values, or missing.

use quarry_conf::{ConfSource, Layer};
use quarry_engine::Slicing;
use tempfile::tempdir;

use crate::generator::Rng;
use crate::world::{engine_of, has_templates, run_search, storage_forms_of_lines};
use crate::{SUFFICIENT_BYTES, difference};

const EVENTS: u64 = 1_500;
const SEEDS: u64 = 10;
const PLACES: u64 = 4;

/// Kinds of values in the lines of a seed.
const KINDS: &[&str] = &["peer", "name", "path", "mail", "state", "pair", "level", "padded", "word", "wide", "verdict"];

fn address(rng: &mut Rng) -> String {
    format!("10.{}.{}.{}", rng.below(3), rng.below(200), rng.below(9))
}

/// A value of a kind.
fn value(rng: &mut Rng, kind: &str) -> String {
    match kind {
        "peer" if rng.below(4) == 0 => address(rng),
        "peer" => format!("{}:{}", address(rng), 1_024 + rng.below(60_000)),
        "name" => {
            let name = rng.pick(&["anna.phone", "bela", "carlos.home", "dmitri"]).to_owned();
            let prefix = if rng.below(3) == 0 { String::new() } else { name + "/" };
            format!("{prefix}{}:{}", address(rng), rng.below(60_000))
        }
        "path" => (0..1 + rng.below(4)).map(|_| format!("/{}", rng.pick(&["a", "b1", "img", "x.js"]))).collect(),
        "mail" => format!("<u{}@{}>", rng.below(90), rng.pick(&["b.c", "example.net", "mail.b.c"])),
        "state" => {
            let state = rng.pick(&["HIER_NONE/-", "HIER_DIRECT/", "SIBLING/"]);
            if state.ends_with('-') { state.to_owned() } else { format!("{state}{}", address(rng)) }
        }
        "pair" => {
            format!("{}/{}", rng.pick(&["TCP_HIT", "TCP_MISS", "NONE"]), rng.pick(&["200", "304", "503", "-"]))
        }
        "level" => format!("[{}:{}]", rng.pick(&["core", "auth", "mpm"]), rng.pick(&["info", "warn", "error"])),
        "padded" => {
            format!("{} {:<13} {:04x}", rng.pick(&["Snd", "Rcv"]), address(rng), rng.below(65_536))
        }
        "wide" => rng.pick(&["größe", "naïve x", "-", "ok"]).to_owned(),
        "verdict" => rng.pick(&["a] [b", "a", "", "b] c", "[b"]).to_owned(),
        _ => format!("w{}", rng.below(700)),
    }
}

/// An expression for a value of a kind, whose groups have the names `first` and `second`.
fn expression(rng: &mut Rng, kind: &str, first: &str, second: &str) -> String {
    let ways: &[&str] = match kind {
        "peer" => &[
            r"(?<A>[\d.]+)(?::(?<B>\d+))?",
            r"(?<A>\S+):(?<B>\d+)",
            r"(?<A>\d+\.\d+)\.(?<B>[\d.]+)\S*",
            r"(?<A>[^:]+?):?(?<B>\d*)",
        ],
        "name" => &[
            r"(?:(?<A>[\w.-]+)/)?(?<B>[\d.]+):\d+",
            r"(?:(?<A>\w+)\S*/)?[\d.]+:(?<B>\d+)",
            r"(?<A>[^/\s]+)(?:/(?<B>\S+))?",
        ],
        "path" => &[r"/(?<A>\w+)(?<B>/\S+)?", r"(?<A>\S*)/(?<B>[^/\s]+)", r"/(?<A>[a-z]+)\S*?(?:\.(?<B>js))?"],
        "mail" => &[r"<(?<A>\w+)@(?<B>[^>]+)>", r"<(?<A>[^@]+)@\w+\.(?<B>\S+)>", r"<?(?<A>\S+?)@(?<B>mail)?\S*"],
        "state" => &[r"(?<A>[A-Z_]+)/(?<B>\S+)", r"(?<A>[A-Z]+)\S*/(?<B>\d+)?\S*", r"\w+/(?:-|(?<A>[\d.]+))(?<B>)"],
        "pair" => &[r"(?<A>[A-Z_]+)/(?<B>\d+|-)", r"(?<A>TCP)?\w*/(?<B>\d)?\S*", r"(?<A>\w+)/(?<B>2\d\d)"],
        "level" => &[r"\[(?<A>\w+):(?<B>\w+)\]", r"\[(?:(?<A>auth)|\w+):(?<B>\w)\S+", r"\[(?<A>[^\]]+)(?<B>\])"],
        "padded" => &[
            r"(?<A>Snd|Rcv) [\d.]+\s+(?<B>[0-9a-f]{4})",
            r"(?<A>\w+) (?<B>[\d.]+)\s+\w+",
            r"Snd (?<A>\S+ +)(?<B>\w\w)\w+",
        ],
        "wide" => &[r"(?<A>\S+(?: x)?)(?<B>)", r"(?<A>[^ ]+)(?: (?<B>x))?", r"(?<A>.+?)(?<B>)"],
        "verdict" => &[r"(?<A>[^\]]*?)\]?(?<B>.*?)", r"(?<A>a)?(?<B>.*?)", r"(?<A>\S*)(?<B>.*?)"],
        _ => &[r"(?<A>w\d+)(?<B>)", r"w(?<A>\d)(?<B>\d*)", r"(?<A>w[1-4]\d*)(?<B>)"],
    };
    rng.pick(ways).replace("<A>", &format!("<{first}>")).replace("<B>", &format!("<{second}>"))
}

/// The literals around the values: one more than there are values.
fn borders(rng: &mut Rng) -> Vec<String> {
    (0..=PLACES)
        .map(|at| match at {
            0 => rng.pick(&["", "id ", "{"]).to_owned(),
            PLACES => rng.pick(&["", " end", "}"]).to_owned(),
            _ => rng.pick(&[" ", " -> ", "  ", " - "]).to_owned(),
        })
        .collect()
}

/// The rules of a seed: one long expression, and up to two short ones, which produce some of its fields.
fn rules(rng: &mut Rng, kinds: &[&str], borders: &[String]) -> String {
    let escape = |text: &str| text.replace('{', r"\{").replace('}', r"\}");
    let mut long = if rng.below(2) == 0 { "^".to_owned() } else { String::new() };
    for (at, kind) in kinds.iter().enumerate() {
        long.push_str(&escape(&borders[at]));
        long.push_str(&match rng.below(6) {
            0 => r"\S+".to_owned(),
            1 => r".*?".to_owned(),
            _ => expression(rng, kind, &format!("f{at}"), &format!("g{at}")),
        });
    }
    long.push_str(&escape(&borders[kinds.len()]));
    if rng.below(2) == 0 {
        long.push_str(rng.pick(&["$", "(?<rest>.*)$", r"(?<rest>\S*)$"]));
    }
    let mut stanza =
        format!("[lines]\nSHOULD_LINEMERGE = false\nKV_MODE = {}\nEXTRACT-b = {long}\n", rng.pick(&["none", "auto"]));
    for name in ["a", "c"] {
        if rng.below(2) == 0 {
            let at = rng.below(kinds.len() as u64) as usize;
            let (first, second) = (format!("f{at}"), format!("g{}", rng.below(PLACES)));
            let (before, after) = (rng.pick(&["", " ", "> "]), rng.pick(&["", " ", "$"]));
            stanza.push_str(&format!(
                "EXTRACT-{name} = {before}{}{after}\n",
                expression(rng, kinds[at], &first, &second)
            ));
        }
    }
    stanza
}

fn searches(rng: &mut Rng, texts: &[String]) -> Vec<String> {
    let names: Vec<String> =
        (0..PLACES).flat_map(|at| [format!("f{at}"), format!("g{at}")]).chain(["rest".into()]).collect();
    let mut found = Vec::new();
    for name in &names {
        found.push(format!("* | stats count dc({name}) min({name}) max({name}) by {name}"));
        let text = &texts[rng.below(texts.len() as u64) as usize];
        let words: Vec<&str> =
            text.split(|c: char| !c.is_alphanumeric() && c != '.').filter(|word| !word.is_empty()).collect();
        if let Some(word) = words.get(rng.below(words.len().max(1) as u64) as usize) {
            let test = rng.pick(&["=", "!=", ">", "<="]);
            found.push(format!("{name}{test}\"{word}\" | stats count by {name}"));
            found.push(format!(
                "NOT {name}=\"{}*\" | stats count",
                &word[..word.chars().next().map_or(0, char::len_utf8)]
            ));
        }
    }
    for _ in 0..8 {
        let mut pick = || names[rng.below(names.len() as u64) as usize].clone();
        let (a, b, c) = (pick(), pick(), pick());
        found.push(format!("* | stats count by {a} {b}"));
        found.push(format!("{a}=* | stats dc({b}) values({c})"));
        found.push(format!("* | sort 9 - {a} _time | table _time {a} {b} {c}"));
        found.push(format!("* | eval x={a}.\"|\".{b} | where isnotnull({c}) | stats count by x"));
        found.push(format!("* | rex field={a} \"(?<x>\\w+)\\W(?<y>\\w+)\" | stats count by x y"));
        found.push(format!("* | head 400 | dedup {a} | table {a} {b}"));
        found.push(format!("* | timechart span=10m limit=0 count by {a}"));
    }
    found
}

#[test]
fn groups_inside_nested_values_give_the_same_results_as_their_texts() {
    let mut faults = Vec::new();
    let mut with_templates = 0;
    for seed in 0..SEEDS {
        let mut rng = Rng::new(0x6e65_7374 + seed);
        let kinds: Vec<&str> = (0..PLACES).map(|_| rng.pick(KINDS)).collect();
        let borders = borders(&mut rng);
        let texts: Vec<String> = (0..EVENTS)
            .map(|_| {
                let mut text = borders[0].clone();
                for (kind, border) in kinds.iter().zip(&borders[1..]) {
                    text.push_str(&value(&mut rng, kind));
                    text.push_str(border);
                }
                text
            })
            .collect();
        let props = rules(&mut rng, &kinds, &borders);
        let source =
            ConfSource { layer: Layer::SystemLocal, app: None, file: "props.conf".into(), text: props.clone() };
        let engine = engine_of(vec![source], SUFFICIENT_BYTES, Slicing::default());
        let folder = tempdir().unwrap();
        let forms = storage_forms_of_lines(folder.path(), "lines", &texts);
        with_templates += forms.iter().filter(|form| form.name == "sealed" && has_templates(form)).count();
        for search in searches(&mut rng, &texts) {
            let expected = run_search(&engine, &forms[0].kept, &search);
            for form in &forms[1..] {
                let found = run_search(&engine, &form.kept, &search);
                if found != expected {
                    faults.push(format!(
                        "seed {seed} {}: {search}\n{props}{}",
                        form.name,
                        difference(&found, &expected)
                    ));
                }
            }
        }
    }
    assert!(with_templates > SEEDS as usize / 2, "most lines have templates: {with_templates}");
    assert!(faults.is_empty(), "{} differ\n{}", faults.len(), faults[..faults.len().min(6)].join("\n"));
}
