//! XML with entities, CDATA, comments, optional and repeated elements: fields and paths have the same values in columns
//! as in texts.

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::MemoryStore;

use super::json::Rng;
use super::{compare_in, engine_of};

const PROPS: &str =
    "[xml]\nKV_MODE = xml\n[rule]\nKV_MODE = xml\nEXTRACT-level = level=\"(?<level>\\w+)\"\nREPORT-took = took\n";
const TRANSFORMS: &str = "[took]\nREGEX = <took>(?<took>\\d+)<\n";

/// The content of an element, or an attribute's value.
fn content(rng: &mut Rng) -> String {
    let word = ["alpha", "status", "x y", "", "zoë", "7", "0.50", "a.b"];
    let special = ["&amp;", "&#233;", " ", "&bad;", "&", "\u{a0}", ">"];
    let mut text = String::new();
    for _ in 0..1 + rng.below(2) {
        text.push_str(rng.of(&word));
        if rng.below(6) == 0 {
            text.push_str(rng.of(&special));
        }
    }
    text
}

fn element(rng: &mut Rng, name: &str) -> String {
    match rng.below(20) {
        0 => format!("<{name}/>"),
        1 => format!("<{name}><![CDATA[{} < b]]></{name}>", content(rng)),
        2 => format!("<{name}>{}<!-- {} --></{name}>", content(rng), content(rng)),
        3 => format!("<{name}>\n  {}\n</{name}>", content(rng)),
        4 => format!("<{name} q='{}'>{}</{name}>", content(rng), content(rng)),
        _ => format!("<{name}>{}</{name}>", content(rng)),
    }
}

fn event(rng: &mut Rng) -> String {
    let mut inner = element(rng, "note");
    inner += &format!("<took>{}</took>", rng.of(&["12", "7.25", "0", "130", ""]));
    if rng.below(2) == 0 {
        inner += &format!("<user realm=\"{}\">{}</user>", rng.of(&["corp", "x&lt;y", ""]), rng.below(40));
    }
    if rng.below(4) == 0 {
        inner += &element(rng, "level");
    }
    for _ in 0..rng.below(3) {
        inner += &format!("<Data Name='k{}'>{}</Data>", rng.below(3), content(rng));
    }
    if rng.below(3) == 0 {
        let name = rng.of(&["f", "note", "a-b", "host"]).to_owned();
        inner += &format!("<in>{}{}</in>", element(rng, &name), element(rng, "f"));
    }
    let level = rng.of(&["INFO", "WARN", "ERROR"]);
    let mut text = format!("<m t=\"{}\" level=\"{level}\">{inner}</m>", rng.below(1_000));
    match rng.below(40) {
        0 => text.truncate(text.floor_char_boundary(text.len() / 2)),
        1 => text = format!("<?xml version=\"1.0\"?>\n{text}"),
        2 => text = format!("prefix {} {text}", rng.below(9)),
        3 => text = text.replace("</note>", ""),
        _ => {}
    }
    text
}

fn store(seed: u64) -> MemoryStore {
    let mut rng = Rng(seed);
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
    let meta_of = |sourcetype: &str| Metadata {
        index: "main".into(),
        host: "web1".into(),
        source: "/var/log/x.log".into(),
        sourcetype: sourcetype.into(),
    };
    let metas = ["xml", "rule", "auto"].map(|sourcetype| batch.intern(&meta_of(sourcetype)));
    for at in 0..160 {
        let text = event(&mut rng);
        batch.push(text.as_bytes(), at * 1_000_000_000, metas[rng.below(3)]);
    }
    store.append(batch).unwrap();
    store
}

#[test]
fn elements_have_the_same_values_in_columns() {
    for seed in 0..3 {
        let store = store(seed);
        let fields = ["note", "took", "user", "Data", "f", "a_b", "level", "m", "nothing", "q"];
        let searches = fields.iter().flat_map(|field| {
            [
                format!("* | stats count by {field}"),
                format!("* | eval v={field} | table _time v"),
                format!("{field}=* level=INFO | stats count"),
                format!("{field}=alpha | table _time {field}"),
                format!("NOT {field}=0 | stats count"),
            ]
        });
        let more = [
            "user=12 OR took>1 | stats count",
            "note=\"*&*\" | stats count by note",
            "note=\"zoë*\" | table _time note",
            "* | rex \"level=.(?<l>\\w+)\" | stats count by l took",
            "* | stats sum(took) max(user) dc(note) values(Data) by level",
        ];
        let all = searches.chain(more.map(|search| search.to_owned()));
        compare_in(&store, &engine_of(PROPS, TRANSFORMS), all.map(|search| (search, TimeRange::ALL)));
    }
}

#[test]
fn paths_have_the_same_values_in_columns() {
    let paths = [
        "m",
        "m.note",
        "m.took",
        "m.user",
        "m.user{@realm}",
        "m{@level}",
        "m{@t}",
        "m.Data",
        "m.Data{2}",
        "m.Data{@Name}",
        "m.in",
        "m.in.f",
        "m.in.note",
        "m.note{@q}",
        "note",
        "m..x",
    ];
    for seed in 20..22 {
        let store = store(seed);
        let searches = paths.iter().flat_map(|path| {
            [
                format!("* | spath path=\"{path}\" output=o | stats count by o"),
                format!("* | spath \"{path}\" | stats count by \"{path}\""),
                format!("level=INFO | spath output=level path=\"{path}\" | table _time level"),
                format!("* | spath path=\"{path}\" output=o | search o=* o!=0 | stats count dc(o)"),
                format!("* | spath | stats count by \"{path}\""),
            ]
        });
        let more = [
            "* | spath path=m.took output=o | spath path=m{@level} output=l | stats sum(o) by l",
            "* | spath path=m.note output=o | spath input=o path=a output=k | stats count by k",
        ];
        let all = searches.chain(more.map(|search| search.to_owned()));
        compare_in(&store, &engine_of(PROPS, TRANSFORMS), all.map(|search| (search, TimeRange::ALL)));
    }
}
