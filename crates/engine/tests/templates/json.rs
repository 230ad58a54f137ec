//! JSON with values of every kind: an undecided variable affects no other field, and no answer.

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::MemoryStore;

use super::{compare_in, engine};

/// Pseudo-random numbers, the same for the same seed (splitmix64).
pub(super) struct Rng(pub u64);

impl Rng {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    pub(super) fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn string(&mut self) -> String {
        let word = ["alpha", "status", "x y", "", "zoë", "f", "0", "null", "a.b"];
        let escape = ["\\\"", "\\n", "\\\\", "\\u00e4", "\\/", "\\ud83d\\ude00", "\\\\\\\""];
        let mut text = String::new();
        for _ in 0..1 + self.below(3) {
            text.push_str(self.of(&word));
            if self.below(4) == 0 {
                text.push_str(self.of(&escape));
            }
        }
        text
    }

    fn scalar(&mut self) -> String {
        match self.below(9) {
            0 => "null".to_owned(),
            1 => self.of(&["true", "false"]).to_owned(),
            2 => format!("{}.{:02}", self.below(30), self.below(100)),
            3 => self.of(&["-1", "0", "-0.5", "1e3", "2.5E-2", "0.0", "10"]).to_owned(),
            4 | 5 => self.below(1_000).to_string(),
            _ => format!("\"{}\"", self.string()),
        }
    }

    pub(super) fn object(&mut self, depth: usize) -> String {
        let mut members = vec![format!("\"level\":\"{}\"", self.of(&["INFO", "WARN", "ERROR"]))];
        if self.below(10) > 0 {
            members.push(format!("\"took\":{}", self.of(&["12", "7.25", "0", "0.5", "130"])));
        }
        members.push(format!(
            "\"user\":{}",
            if self.below(3) == 0 { "null".to_owned() } else { self.below(50).to_string() }
        ));
        members.push(format!("\"note\":\"{}\"", self.string()));
        for _ in 0..self.below(3) {
            let key = self.of(&["k1", "k2", "level", "f", "a.b", "q\\\"k", "host", "user"]);
            members.push(format!("\"{key}\":{}", self.scalar()));
        }
        if depth < 2 && self.below(2) == 0 {
            members.push(format!("\"in\":{}", self.object(depth + 1)));
        }
        if self.below(3) == 0 {
            let tags: Vec<String> = (0..1 + self.below(3)).map(|_| self.scalar()).collect();
            members.push(format!("\"tags\":[{}]", tags.join(",")));
        }
        if self.below(3) == 0 {
            let named = |rng: &mut Rng| format!("{{\"n\":\"{}\",\"v\":{}}}", rng.of(&["host", "ua"]), rng.scalar());
            members.push(format!("\"headers\":[{},{}]", named(self), named(self)));
        }
        let at = self.below(members.len());
        members.swap(0, at);
        format!("{{{}}}", members.join(if self.below(20) == 0 { " , " } else { "," }))
    }
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
    let metas = [batch.intern(&meta_of("json")), batch.intern(&meta_of("auto"))];
    for at in 0..160 {
        let mut text = rng.object(0);
        match rng.below(40) {
            0 => text.truncate(text.floor_char_boundary(text.len() / 2)),
            1 => text.push_str(" trailing"),
            2 => text = text.replace(':', ": "),
            3 => text = text.replacen("null", "NaN", 1),
            4 => text = text.replacen("\\\"", "\\x22", 1),
            5 => text
                .truncate(text.floor_char_boundary(text.rfind(|it: char| it.is_ascii_digit()).map_or(0, |at| at + 1))),
            _ => {}
        }
        batch.push(text.as_bytes(), at * 1_000_000_000, metas[rng.below(2)]);
    }
    store.append(batch).unwrap();
    store
}

const FIELDS: [&str; 17] = [
    "level",
    "took",
    "user",
    "note",
    "k1",
    "k2",
    "f",
    "a.b",
    "extracted_host",
    "in.level",
    "in.note",
    "in.in.user",
    "tags{}",
    "in.tags{}",
    "headers{}.n",
    "headers{}.v",
    "in.k1",
];

#[test]
fn every_form_of_value_reads_the_same_from_columns() {
    for seed in 0..6 {
        let store = store(seed);
        let searches = FIELDS.iter().flat_map(|field| {
            [
                format!("* | stats count by \"{field}\""),
                format!("* | eval v='{field}' | table _time v"),
                format!("\"{field}\"=* level=INFO | stats count"),
            ]
        });
        let more = [
            "user=12 OR took>1 | stats count",
            "* | table _time _raw level k1 f in.note",
            "took=* | eval n=len(_raw) | stats sum(n) count by user level",
            "* | regex _raw=\"k[12]\" | stats count by note tags{}",
            "note=*zo* | stats count by note",
            "k1=true | stats count",
            "NOT user=null | stats count by level",
            "f=0 | eval v=mvjoin(f, \",\") | table _time v",
            "* | table _time k* *.note",
            "* | rename in.* as inner.* | stats count by inner.level inner.in.user",
            "level=INFO | stats count(k*) dc(*ote) values(a*) by level",
        ];
        let all = searches.chain(more.map(|search| search.to_owned()));
        compare_in(&store, &engine(), all.map(|search| (search, TimeRange::ALL)));
    }
}

/// Paths of `spath`: to scalars, objects, arrays and elements, to members that never exist, and paths that exist only
/// as names with dots.
const PATHS: [&str; 22] = [
    "level",
    "took",
    "user",
    "note",
    "k1",
    "f",
    "host",
    "a.b",
    "in",
    "in.level",
    "in.note",
    "in.k1",
    "in.in.user",
    "tags",
    "tags{}",
    "tags{0}",
    "tags{1}",
    "tags{7}",
    "in.tags{1}",
    "in{}.level",
    "level.x",
    "nowhere",
];

#[test]
fn paths_give_the_same_values_in_columns() {
    for seed in 20..22 {
        let store = store(seed);
        let searches = PATHS.iter().flat_map(|path| {
            [
                format!("* | spath path={path} output=o | stats count by o"),
                format!("* | spath {path} | stats count by \"{path}\""),
                format!("level=INFO | spath output=level path={path} | table _time level"),
                format!("* | spath path={path} output=o | search o=* o!=0 | stats count dc(o)"),
                format!("* | spath path={path} output=o | spath path=level output=l | rex \"note.:.(?<n>\\w+)\" | stats count by o l n"),
            ]
        });
        let more = [
            "* | spath path=level output=host | stats count by host",
            "* | spath path=note output=o | spath path=level output=o | stats count by o",
            "* | spath path=note | spath input=note path=k1 output=k | stats count by k",
            "* | spath path=level output=l | stats count by l | sort l",
            "* | spath path=level output=l | eval n=len(_raw) | stats sum(n) by l",
            "* | spath path=level output=l | sort 5 l | table _time l",
            "* | spath path=level output=l | head 3 | table l",
            "* | spath path=level output=l | timechart span=10s count by l",
            "* | spath path=user output=u | stats count",
        ];
        let all = searches.chain(more.map(|search| search.to_owned()));
        compare_in(&store, &engine(), all.map(|search| (search, TimeRange::ALL)));
    }
}
