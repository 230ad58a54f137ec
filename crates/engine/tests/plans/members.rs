//! JSON objects with varying optional members: searches of their templates have the same results as searches of their
//! texts.

use quarry_engine::Slicing;
use tempfile::tempdir;

use crate::generator::Rng;
use crate::world::{engine, has_templates, run_search, storage_forms_of_texts};
use crate::{SUFFICIENT_BYTES, difference};

const EVENTS: u64 = 1_200;
const SEEDS: u64 = 3;

/// Keys that a seed's objects may have, in order, each with its frequency in tenths.
struct Keys(Vec<(&'static str, u64)>);

impl Keys {
    fn of(rng: &mut Rng) -> Keys {
        let all = [
            "level", "took", "user", "note", "err", "tags", "in", "k.1", "k", "zo\u{eb}", "q\\\"k", "host", "list",
            "deep",
        ];
        let mut keys: Vec<(&str, u64)> = all.iter().map(|key| (*key, 1 + rng.below(10))).collect();
        for at in (1..keys.len()).rev() {
            keys.swap(at, rng.below(at as u64 + 1) as usize);
        }
        keys[1].1 = 10;
        Keys(keys)
    }
}

fn string(rng: &mut Rng) -> String {
    let words =
        ["alpha", "status", "x y", "", "zo\u{eb}", "0", "null", "a.b", "12", "{\\\"a\\\":1}", "],[", "e=1", "a\\nb"];
    let mut text = rng.pick(&words).to_owned();
    if rng.below(3) == 0 {
        text.push_str(rng.pick(&words));
    }
    text
}

fn value(rng: &mut Rng, key: &str, depth: u32) -> String {
    match key {
        "level" => format!("\"{}\"", rng.pick(&["INFO", "WARN", "ERROR"])),
        "took" => rng.pick(&["12", "7.25", "0", "130", "1e3"]).to_owned(),
        "user" if rng.below(3) == 0 => "null".to_owned(),
        "user" => rng.below(40).to_string(),
        "note" | "zo\u{eb}" => format!("\"{}\"", string(rng)),
        "err" => match rng.below(3) {
            0 => "null".to_owned(),
            1 => format!("\"{}\"", string(rng)),
            _ => rng.below(5).to_string(),
        },
        "tags" => {
            let tags: Vec<String> = (0..rng.below(4)).map(|_| format!("\"{}\"", string(rng))).collect();
            format!("[{}]", tags.join(","))
        }
        "in" | "deep" if depth < 2 => {
            let keys = Keys(vec![("level", 10), ("user", 5), ("note", 4), ("deep", if key == "deep" { 3 } else { 0 })]);
            object(rng, &keys, depth + 1)
        }
        "list" => format!("[{{\"user\":{}}},{{\"user\":2}}]", rng.below(3)),
        _ => match rng.below(4) {
            0 => "true".to_owned(),
            1 => "-0.5".to_owned(),
            _ => format!("\"{}\"", rng.below(9)),
        },
    }
}

fn object(rng: &mut Rng, keys: &Keys, depth: u32) -> String {
    let mut members = Vec::new();
    for (key, tenths) in &keys.0 {
        if rng.below(10) < *tenths {
            members.push(format!("\"{key}\":{}", value(rng, key, depth)));
        }
    }
    // Some members are in another order, and some occur twice.
    if depth == 0 && members.len() > 3 && rng.below(3) == 0 {
        let at = 2 + rng.below(members.len() as u64 - 2) as usize;
        let member = if rng.below(4) == 0 { members[at].clone() } else { members.remove(at) };
        members.push(member);
    }
    if depth == 0 && rng.below(6) == 0 {
        members.push(format!("\"new{}\":{}", rng.below(4), value(rng, "err", 2)));
    }
    format!("{{{}}}", members.join(","))
}

fn texts(seed: u64) -> Vec<String> {
    let mut rng = Rng::new(seed);
    let keys = Keys::of(&mut rng);
    let other = Keys::of(&mut rng);
    let blanks = rng.below(3) == 0;
    let text = |_| {
        let keys = if rng.below(8) == 0 { &other } else { &keys };
        let mut text = object(&mut rng, keys, 0);
        match rng.below(60) {
            0 => text.truncate(text.floor_char_boundary(text.len() / 2)),
            1 => text.push_str(" behind"),
            2 => text = text.replace(':', " : "),
            3 => text = text.replacen('{', "{\"level\":\"twice\",", 1),
            4 => text = text.replace('1', "x"),
            _ if blanks => text = text.replace("\":", "\": "),
            _ => {}
        }
        text
    };
    (0..EVENTS).map(text).collect()
}

const FIELDS: [&str; 21] = [
    "new1",
    "level",
    "took",
    "user",
    "note",
    "err",
    "tags{}",
    "in.level",
    "in.user",
    "in.note",
    "in.deep.level",
    "deep.user",
    "deep.deep.note",
    "k.1",
    "k",
    "zo\u{eb}",
    "q\"k",
    "extracted_host",
    "list{}.user",
    "in.deep.user",
    "deep.level",
];

/// Paths of `spath`; a path is not the name of a field.
const PATHS: [&str; 15] = [
    "level",
    "user",
    "note",
    "err",
    "new1",
    "k.1",
    "host",
    "in",
    "in.user",
    "in.deep.level",
    "deep.deep.note",
    "tags{}",
    "tags{1}",
    "list{}.user",
    "list{1}.user",
];

const SEARCHES: [&str; 16] = [
    "level=INFO user=1* | stats count by level user",
    "NOT user=null | stats count by level",
    "user!=null | stats count avg(took) by err",
    "err=* NOT err=null | stats dc(err) values(err)",
    "in.user>20 | stats count sum(in.user) by in.level",
    "alpha | stats count by note",
    "\"x y\" OR TERM(INFO) | stats count by level",
    "note=*zo* | table _time note",
    "user=12 OR took>1 | stats count",
    "* | sort 20 -user | table _time user level",
    "* | dedup user err | table user err",
    "* | where isnull(user) | stats count by level",
    "* | rex \"level.:.(?<l>\\w+)\" | stats count by l",
    "* | top err",
    "* | eval n=len(_raw) | stats count sum(n) by level",
    "* | regex \"user.:\\d+,.*zo\" | stats count by level",
];

/// Objects with an array of objects, as in invoices with their lines: the number of items varies, and an item has
/// optional members.
fn texts_with_arrays(seed: u64) -> Vec<String> {
    let mut rng = Rng::new(seed);
    let text = |number| {
        let item = |rng: &mut Rng| {
            let product = rng.pick(&["prod_a", "prod_b", "prod_c", "7", "7.0", "Prod_A"]);
            let (amount, cents) = (rng.below(2_000), if rng.below(2) == 0 { ".50" } else { "" });
            let note = match rng.below(6) {
                0 => format!(",\"note\":\"{}\"", string(rng)),
                1 => ",\"note\":null".to_owned(),
                _ => String::new(),
            };
            format!("{{\"amount\":{amount}{cents},\"price\":{{\"product\":\"{product}\",\"tax\":[]}}{note}}}")
        };
        let items: Vec<String> = (0..[1, 0, 2, 1, 3, 8][rng.below(6) as usize]).map(|_| item(&mut rng)).collect();
        let kind = rng.pick(&["paid", "open", "void"]);
        format!("{{\"id\":\"ev{number}\",\"items\":[{}],\"kind\":\"{kind}\"}}", items.join(","))
    };
    (0..EVENTS).map(text).collect()
}

const ARRAY_SEARCHES: [&str; 21] = [
    "* | stats count by items{}.price.product",
    "* | stats sum(items{}.amount) count(items{}.amount) dc(items{}.amount) max(items{}.amount)",
    "* | eval n=mvcount('items{}.amount') | stats count by n",
    "* | eval m=max('items{}.amount') | stats max(m) by kind",
    "* | rename items{}.price.product AS p | mvexpand p | stats count by p kind",
    "* | eval b=mvcount(mvfilter(match('items{}.price.product',\"prod\"))) | stats sum(b)",
    "* | eval z=mvzip('items{}.price.product','items{}.amount',\"|\") | table id z",
    "kind=paid | spath path=items{} output=i | mvexpand i | spath input=i | stats sum(amount) count by price.product",
    "* | stats count by items{}.note",
    "items{}.price.product=prod_a | stats count by kind",
    "items{}.price.product=7 | stats count by kind",
    "items{}.price.product!=prod_a | stats count by kind",
    "NOT items{}.price.product=prod_a | stats count by kind",
    "items{}.price.product=prod_* kind=open | stats count",
    "items{}.price.product IN (prod_b, 7) | stats count",
    "items{}.amount>1900 | stats count sum(items{}.amount)",
    "items{}.amount=5 OR items{}.amount=5.0 | stats count",
    "items{}.amount<3 items{}.price.product=prod_c | table id items{}.amount",
    "items{}.note=null | stats count",
    "items{}.note=*zo* OR kind=void | stats count by kind",
    "items{}.price.product=* NOT items{}.amount=* | stats count",
];

#[test]
fn arrays_of_objects_give_the_same_results_as_their_texts() {
    let engine = engine(SUFFICIENT_BYTES, Slicing::default());
    for seed in 0..SEEDS {
        let folder = tempdir().unwrap();
        let forms = storage_forms_of_texts(folder.path(), &texts_with_arrays(seed));
        assert!(has_templates(&forms[1]), "seed {seed} is stored as texts");
        for search in ARRAY_SEARCHES {
            let expected = run_search(&engine, &forms[0].kept, search);
            assert!(expected.as_ref().is_ok_and(|rows| !rows.is_empty()), "{search}: {expected:?}");
            for form in &forms[1..] {
                let found = run_search(&engine, &form.kept, search);
                assert_eq!(found, expected, "seed {seed}, {}: {search}: {}", form.name, difference(&found, &expected));
            }
        }
    }
}

#[test]
fn json_objects_give_the_same_results_as_their_texts() {
    let engine = engine(SUFFICIENT_BYTES, Slicing::default());
    let mut faults = Vec::new();
    for seed in 0..SEEDS {
        let folder = tempdir().unwrap();
        let forms = storage_forms_of_texts(folder.path(), &texts(seed));
        assert!(has_templates(&forms[1]), "seed {seed} is stored as texts");
        let of_fields = FIELDS.iter().flat_map(|field| {
            [
                format!("* | stats count by \"{field}\""),
                format!("* | eval v='{field}' | table _time v"),
                format!("\"{field}\"=* level=INFO | stats count"),
                format!("\"{field}\"!=12 | stats count"),
            ]
        });
        let of_paths = PATHS.iter().flat_map(|path| {
            [
                format!("* | spath path={path} output=o | stats count by o"),
                format!("level=INFO | spath {path} | stats count dc(user) by \"{path}\""),
                format!("* | spath path={path} output=level | table _time level"),
            ]
        });
        for search in of_fields.chain(of_paths).chain(SEARCHES.map(str::to_owned)) {
            let expected = run_search(&engine, &forms[0].kept, &search);
            for form in &forms[1..] {
                let found = run_search(&engine, &form.kept, &search);
                if found != expected {
                    faults.push(format!("seed {seed}, {}: {search}: {}", form.name, difference(&found, &expected)));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} differ\n{}", faults.len(), faults[..faults.len().min(8)].join("\n"));
}
