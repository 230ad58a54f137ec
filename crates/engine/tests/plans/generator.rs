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
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0xD129_0D3B_36A5_1F4D) ^ 0x5851_F42D_4C95_7F2D)
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
    let mut rng = Rng::new(seed);
    pipeline(&mut rng, 0)
}

fn pipeline(rng: &mut Rng, depth: u32) -> String {
    let mut text = first(rng, depth);
    for _ in 0..=rng.below(COMMANDS) {
        text.push_str(" | ");
        text.push_str(&command(rng, depth));
    }
    text
}

/// A subsearch with few rows.
fn subsearch(rng: &mut Rng, depth: u32) -> String {
    let text = pipeline(rng, depth + 1);
    let text = if text.starts_with('|') { text } else { format!("search {text}") };
    format!("[{text} | head {}]", 1 + rng.below(5))
}

fn first(rng: &mut Rng, depth: u32) -> String {
    match rng.below(12) {
        0 => format!("| makeresults count={} | streamstats count AS n", 1 + rng.below(20)),
        1 => "| inputlookup teams".to_owned(),
        2 => format!("| tstats count where index=* by {}", rng.pick(&["host", "sourcetype", "index, host"])),
        3 if depth == 0 => {
            format!("| union {} {}", subsearch(rng, depth), subsearch(rng, depth))
        }
        _ => {
            let condition = if rng.one_in(2) { "*".to_owned() } else { condition(rng, 2, depth) };
            // A separate word could be read as a command's name.
            format!("{} {condition}", rng.pick(&["index=main", "index=*", "index=other OR index=main"]))
        }
    }
}

fn condition(rng: &mut Rng, nesting: u32, depth: u32) -> String {
    match rng.below(if nesting == 0 { 4 } else { 8 }) {
        0 => rng.pick(WORDS).to_owned(),
        1 => format!("{}{}{}", rng.pick(FIELDS), rng.pick(&["=", "!="]), quoted(rng.pick(VALUES))),
        2 => format!("{}{}{}", rng.pick(NUMBERS), rng.pick(&["<", ">", "<=", ">="]), rng.below(600)),
        3 => format!("{} IN ({}, {})", rng.pick(FIELDS), quoted(rng.pick(VALUES)), quoted(rng.pick(VALUES))),
        4 => format!("({} OR {})", condition(rng, nesting - 1, depth), condition(rng, nesting - 1, depth)),
        5 => format!("NOT ({})", condition(rng, nesting - 1, depth)),
        6 if depth < SUBSEARCH_DEPTH && rng.one_in(4) => {
            let inner = condition(rng, 0, SUBSEARCH_DEPTH);
            format!("[search index=main {inner} | head {} | fields user]", 1 + rng.below(4))
        }
        _ => format!("{} {}", condition(rng, nesting - 1, depth), condition(rng, nesting - 1, depth)),
    }
}

fn quoted(value: &str) -> String {
    if value.contains(' ') { format!("\"{value}\"") } else { value.to_owned() }
}

fn fields(rng: &mut Rng, most: u64, by: &str) -> String {
    let count = 1 + rng.below(most);
    let mut chosen: Vec<&str> = Vec::new();
    for _ in 0..count {
        let field = rng.pick(FIELDS);
        if !chosen.contains(&field) {
            chosen.push(field);
        }
    }
    chosen.join(by)
}

fn number(rng: &mut Rng, depth: u32) -> String {
    if depth == 0 {
        return match rng.below(3) {
            0 => rng.below(50).to_string(),
            1 => format!("{}.{}", rng.below(9), rng.below(100)),
            _ => rng.pick(NUMBERS).to_owned(),
        };
    }
    let depth = depth - 1;
    match rng.below(9) {
        0 => {
            format!("({} {} {})", number(rng, depth), rng.pick(&["+", "-", "*", "/", "%"]), number(rng, depth))
        }
        1 => format!("round({}, {})", number(rng, depth), rng.below(4)),
        2 => format!("len({})", text(rng, depth)),
        3 => format!("if({}, {}, {})", truth(rng, depth), number(rng, depth), number(rng, depth)),
        4 => format!("coalesce({}, {})", number(rng, depth), rng.below(9)),
        5 => format!("{}({}, {})", rng.pick(&["min", "max"]), number(rng, depth), number(rng, depth)),
        6 => format!("{}({})", rng.pick(&["abs", "floor", "ceiling", "sqrt"]), number(rng, depth)),
        7 => format!("mvcount(split({}, \"{}\"))", text(rng, depth), rng.pick(&["a", "/", "0", " "])),
        _ => format!("tonumber({})", rng.pick(FIELDS)),
    }
}

fn text(rng: &mut Rng, depth: u32) -> String {
    if depth == 0 {
        return match rng.below(2) {
            0 => format!("\"{}\"", rng.pick(&["x", "eva", "", "ä/b c", "12"])),
            _ => rng.pick(FIELDS).to_owned(),
        };
    }
    let depth = depth - 1;
    match rng.below(9) {
        0 => format!("({}.{})", text(rng, depth), text(rng, depth)),
        1 => format!("{}({})", rng.pick(&["upper", "lower", "trim", "md5", "urldecode"]), text(rng, depth)),
        2 => format!("substr({}, {}, {})", text(rng, depth), 1 + rng.below(3), 1 + rng.below(5)),
        3 => format!("tostring({})", number(rng, depth)),
        4 => format!("if({}, {}, {})", truth(rng, depth), text(rng, depth), text(rng, depth)),
        5 => format!("replace({}, \"[{}]\", \"_\")", text(rng, depth), rng.pick(&["aeiou", "0-9", "x"])),
        6 => format!("case({}, {}, true(), {})", truth(rng, depth), text(rng, depth), text(rng, depth)),
        7 => format!("mvindex(split({}, \"/\"), {})", text(rng, depth), rng.pick(&["0", "-1", "0, 1"])),
        _ => format!("strftime(_time, \"{}\")", rng.pick(&["%H", "%F", "%H:%M:%S"])),
    }
}

fn truth(rng: &mut Rng, depth: u32) -> String {
    let depth = depth.saturating_sub(1);
    match rng.below(8) {
        0 => {
            format!("{} {} {}", number(rng, depth), rng.pick(&["<", ">", "=", "!=", ">="]), number(rng, depth))
        }
        1 => format!("{} {} {}", text(rng, depth), rng.pick(&["=", "!=", "<"]), text(rng, depth)),
        2 => format!("like({}, \"{}\")", text(rng, depth), rng.pick(&["%o%", "e%", "_va", "%"])),
        3 => format!("match({}, \"{}\")", text(rng, depth), rng.pick(&["^e", "\\\\d+", "o$", "a|b"])),
        4 => format!("{}({})", rng.pick(&["isnull", "isnotnull", "isnum", "isstr"]), rng.pick(FIELDS)),
        5 if depth > 0 => {
            format!("({} {} {})", truth(rng, depth), rng.pick(&["AND", "OR", "XOR"]), truth(rng, depth))
        }
        6 if depth > 0 => format!("NOT ({})", truth(rng, depth)),
        _ => format!("{} IN (\"eva\", \"200\", 404)", rng.pick(FIELDS)),
    }
}

/// An aggregate that does not depend on the order of rows unless `ordered`.
fn aggregate(rng: &mut Rng, ordered: bool) -> String {
    let field = rng.pick(FIELDS);
    let numeric = rng.pick(NUMBERS);
    match rng.below(if ordered { 13 } else { 10 }) {
        0 => "count".to_owned(),
        1 => format!("count({field})"),
        2 => format!("{}({numeric})", rng.pick(&["sum", "avg", "range", "sumsq", "min", "max"])),
        3 => format!("{}({field})", rng.pick(&["min", "max", "mode"])),
        4 => format!("dc({field})"),
        5 => format!("values({field})"),
        6 => format!("{}({numeric})", rng.pick(&["stdev", "var", "stdevp", "varp"])),
        7 => format!("{}({numeric})", rng.pick(&["median", "p90", "exactperc25", "perc99"])),
        8 => format!("count(eval({}))", truth(rng, 2)),
        9 => format!("sum(eval({}))", number(rng, 2)),
        10 => format!("{}({field})", rng.pick(&["first", "last", "list"])),
        11 => format!("{}({field})", rng.pick(&["earliest", "latest"])),
        _ => format!("rate({numeric})"),
    }
}

/// Aggregates with distinct names.
fn aggregates(rng: &mut Rng, ordered: bool) -> String {
    let count = 1 + rng.below(3);
    let named: Vec<String> = (0..count).map(|at| format!("{} AS a{at}", aggregate(rng, ordered))).collect();
    named.join(" ")
}

fn by(rng: &mut Rng) -> String {
    if rng.one_in(4) { String::new() } else { format!(" by {}", fields(rng, 3, ", ")) }
}

fn command(rng: &mut Rng, depth: u32) -> String {
    match rng.below(42) {
        0..=3 => {
            let value = if rng.one_in(2) { number(rng, EXPR_DEPTH) } else { text(rng, EXPR_DEPTH) };
            format!("eval {}={value}", rng.pick(&["made", "other", "took", "user"]))
        }
        4 => format!("where {}", truth(rng, EXPR_DEPTH)),
        5 => format!("search {}", condition(rng, 2, SUBSEARCH_DEPTH)),
        6..=10 => format!("stats {}{}", aggregates(rng, true), by(rng)),
        11 => format!("eventstats {}{}", aggregates(rng, false), by(rng)),
        12 => {
            let options = ["", "window=3 ", "current=f ", "window=4 global=f ", "reset_on_change=t "];
            format!("streamstats {}{}{}", rng.pick(&options), aggregates(rng, false), by(rng))
        }
        13 => {
            format!("top limit={} {}{}", 1 + rng.below(6), rng.pick(FIELDS), rng.pick(&["", " by host", " showperc=f"]))
        }
        14 => format!("rare {} showperc={}", fields(rng, 2, ", "), rng.flag()),
        15 => format!(
            "chart {} over {} by {} limit={}",
            aggregate(rng, false),
            rng.pick(FIELDS),
            rng.pick(&["user", "status", "level", "missing"]),
            rng.below(4)
        ),
        16 => format!(
            "timechart span={} {}{}",
            rng.pick(&["30m", "1h", "7m"]),
            aggregate(rng, false),
            rng.pick(&["", " by user", " by status limit=2"])
        ),
        17..=18 => {
            let keys: Vec<String> =
                fields(rng, 3, ",").split(',').map(|field| format!("{}{field}", rng.pick(&["", "-", "+"]))).collect();
            format!("sort {}{}", rng.pick(&["", "0 ", "7 "]), keys.join(", "))
        }
        19 => format!("dedup {}{}", rng.pick(&["", "2 "]), fields(rng, 2, " ")),
        20 => format!("dedup {} keepempty={} consecutive={}", rng.pick(FIELDS), rng.flag(), rng.flag()),
        21 => format!("head {}", 1 + rng.below(40)),
        22 => format!("tail {}", 1 + rng.below(40)),
        23 => "reverse".to_owned(),
        24 => format!("fields {}", fields(rng, 5, " ")),
        25 => format!("fields - {}", fields(rng, 2, " ")),
        26 => format!("table {}", fields(rng, 5, " ")),
        27 => format!("rename {} AS {}", rng.pick(FIELDS), rng.pick(&["made", "other", "renamed"])),
        28 => format!("fillnull value={} {}", rng.pick(&["0", "none"]), fields(rng, 3, " ")),
        29 => format!("rex field={} \"(?<made>{})\"", rng.pick(FIELDS), rng.pick(&["\\\\d+", "[a-z]+", "o.*"])),
        30 => format!(
            "rex \"{}\"",
            rng.pick(&["took=(?<made>-?\\\\d+)", "user=(?<other>\\\\w+)", "(?<made>error) (?<other>\\\\w+)"])
        ),
        31 => format!("bin {} span={}", rng.pick(NUMBERS), 1 + rng.below(50)),
        32 => format!("makemv delim=\"{}\" {}", rng.pick(&["/", " ", "a", "0"]), rng.pick(FIELDS)),
        33 => format!("mvexpand {} limit={}", rng.pick(FIELDS), rng.below(3)),
        34 => format!("regex {}{}\"{}\"", rng.pick(FIELDS), rng.pick(&["=", "!="]), rng.pick(&["^[et]", "\\\\d", "o"])),
        35 if depth < SUBSEARCH_DEPTH => format!("append {}", subsearch(rng, depth)),
        36 if depth < SUBSEARCH_DEPTH => {
            let kind = rng.pick(&["inner", "left"]);
            format!("join type={kind} {} {}", rng.pick(&["user", "status", "host"]), subsearch(rng, depth))
        }
        37 if depth < SUBSEARCH_DEPTH => format!("appendpipe [stats {}{}]", aggregates(rng, false), by(rng)),
        38 => format!("lookup teams user {} team weight", rng.pick(&["OUTPUT", "OUTPUTNEW"])),
        39 => format!("addtotals {}", fields(rng, 3, " ")),
        40 => format!("transaction {} maxevents={}", rng.pick(&["user", "session", "host"]), 1 + rng.below(9)),
        _ => format!("accum {} AS other", rng.pick(NUMBERS)),
    }
}
