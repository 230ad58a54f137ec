//! Searches generated at random from the grammar: each one parses, and none depends on randomness or the current time.
//!
//! The same seed yields the same search on every machine.

/// Deepest nesting of expressions.
const EXPR_DEPTH: u32 = 3;
/// Deepest nesting of subsearches.
const SUBSEARCH_DEPTH: u32 = 2;
/// Maximum number of commands in a search.
const COMMANDS: u64 = 5;

const FIELDS: &[&str] = &[
    "user",
    "status",
    "took",
    "level",
    "path",
    "n",
    "session",
    "host",
    "sourcetype",
    "code",
    "word",
    "tags",
    "made",
    "other",
    "missing",
    "zone",
];
const NUMBERS: &[&str] = &["took", "status", "n", "session", "code", "made"];
const VALUES: &[&str] = &["eva", "tom", "zo*", "200", "404", "5*", "INFO", "error", "a b", "7", "-3.5", "*"];
const WORDS: &[&str] = &["error", "disk", "opens", "eva", "full", "te*", "took", "code", "\"disk full\"", "nothing"];

/// Seeded random choices (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0xD129_0D3B_36A5_1F4D) ^ 0x5851_F42D_4C95_7F2D)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }

    fn flag(&mut self) -> &'static str {
        self.pick(&["t", "f"])
    }
}

/// The search of a seed.
pub(crate) fn search(seed: u64) -> String {
    let mut chance = Chance::new(seed);
    pipeline(&mut chance, 0)
}

fn pipeline(chance: &mut Chance, depth: u32) -> String {
    let mut text = first(chance, depth);
    for _ in 0..=chance.below(COMMANDS) {
        text.push_str(" | ");
        text.push_str(&command(chance, depth));
    }
    text
}

/// A subsearch with few rows.
fn subsearch(chance: &mut Chance, depth: u32) -> String {
    let text = pipeline(chance, depth + 1);
    let text = if text.starts_with('|') { text } else { format!("search {text}") };
    format!("[{text} | head {}]", 1 + chance.below(5))
}

fn first(chance: &mut Chance, depth: u32) -> String {
    match chance.below(12) {
        0 => format!("| makeresults count={} | streamstats count AS n", 1 + chance.below(20)),
        1 => "| inputlookup teams".to_owned(),
        2 => format!("| tstats count where index=* by {}", chance.pick(&["host", "sourcetype", "index, host"])),
        3 if depth == 0 => {
            format!("| union {} {}", subsearch(chance, depth), subsearch(chance, depth))
        }
        _ => {
            let condition = if chance.one_in(2) { "*".to_owned() } else { condition(chance, 2, depth) };
            // A separate word could be read as a command's name.
            format!("{} {condition}", chance.pick(&["index=main", "index=*", "index=other OR index=main"]))
        }
    }
}

fn condition(chance: &mut Chance, nesting: u32, depth: u32) -> String {
    match chance.below(if nesting == 0 { 4 } else { 8 }) {
        0 => chance.pick(WORDS).to_owned(),
        1 => format!("{}{}{}", chance.pick(FIELDS), chance.pick(&["=", "!="]), quoted(chance.pick(VALUES))),
        2 => format!("{}{}{}", chance.pick(NUMBERS), chance.pick(&["<", ">", "<=", ">="]), chance.below(600)),
        3 => format!("{} IN ({}, {})", chance.pick(FIELDS), quoted(chance.pick(VALUES)), quoted(chance.pick(VALUES))),
        4 => format!("({} OR {})", condition(chance, nesting - 1, depth), condition(chance, nesting - 1, depth)),
        5 => format!("NOT ({})", condition(chance, nesting - 1, depth)),
        6 if depth < SUBSEARCH_DEPTH && chance.one_in(4) => {
            let inner = condition(chance, 0, SUBSEARCH_DEPTH);
            format!("[search index=main {inner} | head {} | fields user]", 1 + chance.below(4))
        }
        _ => format!("{} {}", condition(chance, nesting - 1, depth), condition(chance, nesting - 1, depth)),
    }
}

fn quoted(value: &str) -> String {
    if value.contains(' ') { format!("\"{value}\"") } else { value.to_owned() }
}

fn fields(chance: &mut Chance, most: u64, by: &str) -> String {
    let count = 1 + chance.below(most);
    let mut chosen: Vec<&str> = Vec::new();
    for _ in 0..count {
        let field = chance.pick(FIELDS);
        if !chosen.contains(&field) {
            chosen.push(field);
        }
    }
    chosen.join(by)
}

fn number(chance: &mut Chance, depth: u32) -> String {
    if depth == 0 {
        return match chance.below(3) {
            0 => chance.below(50).to_string(),
            1 => format!("{}.{}", chance.below(9), chance.below(100)),
            _ => chance.pick(NUMBERS).to_owned(),
        };
    }
    let depth = depth - 1;
    match chance.below(9) {
        0 => {
            format!("({} {} {})", number(chance, depth), chance.pick(&["+", "-", "*", "/", "%"]), number(chance, depth))
        }
        1 => format!("round({}, {})", number(chance, depth), chance.below(4)),
        2 => format!("len({})", text(chance, depth)),
        3 => format!("if({}, {}, {})", truth(chance, depth), number(chance, depth), number(chance, depth)),
        4 => format!("coalesce({}, {})", number(chance, depth), chance.below(9)),
        5 => format!("{}({}, {})", chance.pick(&["min", "max"]), number(chance, depth), number(chance, depth)),
        6 => format!("{}({})", chance.pick(&["abs", "floor", "ceiling", "sqrt"]), number(chance, depth)),
        7 => format!("mvcount(split({}, \"{}\"))", text(chance, depth), chance.pick(&["a", "/", "0", " "])),
        _ => format!("tonumber({})", chance.pick(FIELDS)),
    }
}

fn text(chance: &mut Chance, depth: u32) -> String {
    if depth == 0 {
        return match chance.below(2) {
            0 => format!("\"{}\"", chance.pick(&["x", "eva", "", "ä/b c", "12"])),
            _ => chance.pick(FIELDS).to_owned(),
        };
    }
    let depth = depth - 1;
    match chance.below(9) {
        0 => format!("({}.{})", text(chance, depth), text(chance, depth)),
        1 => format!("{}({})", chance.pick(&["upper", "lower", "trim", "md5", "urldecode"]), text(chance, depth)),
        2 => format!("substr({}, {}, {})", text(chance, depth), 1 + chance.below(3), 1 + chance.below(5)),
        3 => format!("tostring({})", number(chance, depth)),
        4 => format!("if({}, {}, {})", truth(chance, depth), text(chance, depth), text(chance, depth)),
        5 => format!("replace({}, \"[{}]\", \"_\")", text(chance, depth), chance.pick(&["aeiou", "0-9", "x"])),
        6 => format!("case({}, {}, true(), {})", truth(chance, depth), text(chance, depth), text(chance, depth)),
        7 => format!("mvindex(split({}, \"/\"), {})", text(chance, depth), chance.pick(&["0", "-1", "0, 1"])),
        _ => format!("strftime(_time, \"{}\")", chance.pick(&["%H", "%F", "%H:%M:%S"])),
    }
}

fn truth(chance: &mut Chance, depth: u32) -> String {
    let depth = depth.saturating_sub(1);
    match chance.below(8) {
        0 => {
            format!("{} {} {}", number(chance, depth), chance.pick(&["<", ">", "=", "!=", ">="]), number(chance, depth))
        }
        1 => format!("{} {} {}", text(chance, depth), chance.pick(&["=", "!=", "<"]), text(chance, depth)),
        2 => format!("like({}, \"{}\")", text(chance, depth), chance.pick(&["%o%", "e%", "_va", "%"])),
        3 => format!("match({}, \"{}\")", text(chance, depth), chance.pick(&["^e", "\\\\d+", "o$", "a|b"])),
        4 => format!("{}({})", chance.pick(&["isnull", "isnotnull", "isnum", "isstr"]), chance.pick(FIELDS)),
        5 if depth > 0 => {
            format!("({} {} {})", truth(chance, depth), chance.pick(&["AND", "OR", "XOR"]), truth(chance, depth))
        }
        6 if depth > 0 => format!("NOT ({})", truth(chance, depth)),
        _ => format!("{} IN (\"eva\", \"200\", 404)", chance.pick(FIELDS)),
    }
}

/// An aggregate that does not depend on the order of rows unless `ordered`.
fn aggregate(chance: &mut Chance, ordered: bool) -> String {
    let field = chance.pick(FIELDS);
    let numeric = chance.pick(NUMBERS);
    match chance.below(if ordered { 13 } else { 10 }) {
        0 => "count".to_owned(),
        1 => format!("count({field})"),
        2 => format!("{}({numeric})", chance.pick(&["sum", "avg", "range", "sumsq", "min", "max"])),
        3 => format!("{}({field})", chance.pick(&["min", "max", "mode"])),
        4 => format!("dc({field})"),
        5 => format!("values({field})"),
        6 => format!("{}({numeric})", chance.pick(&["stdev", "var", "stdevp", "varp"])),
        7 => format!("{}({numeric})", chance.pick(&["median", "p90", "exactperc25", "perc99"])),
        8 => format!("count(eval({}))", truth(chance, 2)),
        9 => format!("sum(eval({}))", number(chance, 2)),
        10 => format!("{}({field})", chance.pick(&["first", "last", "list"])),
        11 => format!("{}({field})", chance.pick(&["earliest", "latest"])),
        _ => format!("rate({numeric})"),
    }
}

/// Aggregates with distinct names.
fn aggregates(chance: &mut Chance, ordered: bool) -> String {
    let count = 1 + chance.below(3);
    let named: Vec<String> = (0..count).map(|at| format!("{} AS a{at}", aggregate(chance, ordered))).collect();
    named.join(" ")
}

fn by(chance: &mut Chance) -> String {
    if chance.one_in(4) { String::new() } else { format!(" by {}", fields(chance, 3, ", ")) }
}

fn command(chance: &mut Chance, depth: u32) -> String {
    match chance.below(42) {
        0..=3 => {
            let value = if chance.one_in(2) { number(chance, EXPR_DEPTH) } else { text(chance, EXPR_DEPTH) };
            format!("eval {}={value}", chance.pick(&["made", "other", "took", "user"]))
        }
        4 => format!("where {}", truth(chance, EXPR_DEPTH)),
        5 => format!("search {}", condition(chance, 2, SUBSEARCH_DEPTH)),
        6..=10 => format!("stats {}{}", aggregates(chance, true), by(chance)),
        11 => format!("eventstats {}{}", aggregates(chance, false), by(chance)),
        12 => {
            let options = ["", "window=3 ", "current=f ", "window=4 global=f ", "reset_on_change=t "];
            format!("streamstats {}{}{}", chance.pick(&options), aggregates(chance, false), by(chance))
        }
        13 => format!(
            "top limit={} {}{}",
            1 + chance.below(6),
            chance.pick(FIELDS),
            chance.pick(&["", " by host", " showperc=f"])
        ),
        14 => format!("rare {} showperc={}", fields(chance, 2, ", "), chance.flag()),
        15 => format!(
            "chart {} over {} by {} limit={}",
            aggregate(chance, false),
            chance.pick(FIELDS),
            chance.pick(&["user", "status", "level", "missing"]),
            chance.below(4)
        ),
        16 => format!(
            "timechart span={} {}{}",
            chance.pick(&["30m", "1h", "7m"]),
            aggregate(chance, false),
            chance.pick(&["", " by user", " by status limit=2"])
        ),
        17..=18 => {
            let keys: Vec<String> = fields(chance, 3, ",")
                .split(',')
                .map(|field| format!("{}{field}", chance.pick(&["", "-", "+"])))
                .collect();
            format!("sort {}{}", chance.pick(&["", "0 ", "7 "]), keys.join(", "))
        }
        19 => format!("dedup {}{}", chance.pick(&["", "2 "]), fields(chance, 2, " ")),
        20 => format!("dedup {} keepempty={} consecutive={}", chance.pick(FIELDS), chance.flag(), chance.flag()),
        21 => format!("head {}", 1 + chance.below(40)),
        22 => format!("tail {}", 1 + chance.below(40)),
        23 => "reverse".to_owned(),
        24 => format!("fields {}", fields(chance, 5, " ")),
        25 => format!("fields - {}", fields(chance, 2, " ")),
        26 => format!("table {}", fields(chance, 5, " ")),
        27 => format!("rename {} AS {}", chance.pick(FIELDS), chance.pick(&["made", "other", "renamed"])),
        28 => format!("fillnull value={} {}", chance.pick(&["0", "none"]), fields(chance, 3, " ")),
        29 => format!("rex field={} \"(?<made>{})\"", chance.pick(FIELDS), chance.pick(&["\\\\d+", "[a-z]+", "o.*"])),
        30 => format!(
            "rex \"{}\"",
            chance.pick(&["took=(?<made>-?\\\\d+)", "user=(?<other>\\\\w+)", "(?<made>error) (?<other>\\\\w+)"])
        ),
        31 => format!("bin {} span={}", chance.pick(NUMBERS), 1 + chance.below(50)),
        32 => format!("makemv delim=\"{}\" {}", chance.pick(&["/", " ", "a", "0"]), chance.pick(FIELDS)),
        33 => format!("mvexpand {} limit={}", chance.pick(FIELDS), chance.below(3)),
        34 => format!(
            "regex {}{}\"{}\"",
            chance.pick(FIELDS),
            chance.pick(&["=", "!="]),
            chance.pick(&["^[et]", "\\\\d", "o"])
        ),
        35 if depth < SUBSEARCH_DEPTH => format!("append {}", subsearch(chance, depth)),
        36 if depth < SUBSEARCH_DEPTH => {
            let kind = chance.pick(&["inner", "left"]);
            format!("join type={kind} {} {}", chance.pick(&["user", "status", "host"]), subsearch(chance, depth))
        }
        37 if depth < SUBSEARCH_DEPTH => format!("appendpipe [stats {}{}]", aggregates(chance, false), by(chance)),
        38 => format!("lookup teams user {} team weight", chance.pick(&["OUTPUT", "OUTPUTNEW"])),
        39 => format!("addtotals {}", fields(chance, 3, " ")),
        40 => format!("transaction {} maxevents={}", chance.pick(&["user", "session", "host"]), 1 + chance.below(9)),
        _ => format!("accum {} AS other", chance.pick(NUMBERS)),
    }
}
