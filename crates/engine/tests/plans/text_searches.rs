//! Random searches made from the texts and fields of events: conditions that some events meet, and patterns that match
//! them.
//!
//! The same seed and the same events yield the same search.

use crate::generator::Rng;

/// Maximum length of a phrase taken from a text, in characters.
const PHRASE_CHARS: u64 = 36;
/// Maximum length of a value in a condition, in characters.
const VALUE_CHARS: usize = 80;
/// Names of the capture groups of generated patterns.
const CREATED_FIELDS: [&str; 3] = ["x0", "x1", "x2"];

/// Texts and field values of the searched events.
pub(crate) struct CorpusSample {
    pub(crate) texts: Vec<String>,
    /// Fields with some of their values.
    pub(crate) fields: Vec<(String, Vec<String>)>,
}

impl CorpusSample {
    fn text(&self, rng: &mut Rng) -> &str {
        &self.texts[rng.below(self.texts.len() as u64) as usize]
    }

    /// A field; in one of ten cases, one that no event has.
    fn field(&self, rng: &mut Rng) -> &str {
        if rng.below(10) == 0 {
            return "no_such";
        }
        &self.fields[rng.below(self.fields.len() as u64) as usize].0
    }

    /// A field with one of its values.
    fn value(&self, rng: &mut Rng) -> (&str, &str) {
        let (field, values) = &self.fields[rng.below(self.fields.len() as u64) as usize];
        (field, values.get(rng.below(values.len() as u64) as usize).map_or("", String::as_str))
    }
}

/// A field that a command created, or a field of the events.
fn field<'a>(rng: &mut Rng, known: &'a CorpusSample, made: &[&'a str]) -> &'a str {
    if !made.is_empty() && rng.below(2) == 0 { rng.pick(made) } else { known.field(rng) }
}

/// A search of these events.
pub(crate) fn search(rng: &mut Rng, known: &CorpusSample) -> String {
    let condition = if rng.below(3) == 0 { String::new() } else { condition(rng, known, 2) };
    let mut text = format!("index=main {condition}");
    let mut made = Vec::new();
    for name in CREATED_FIELDS.iter().take(rng.below(4) as usize) {
        text.push_str(" | ");
        text.push_str(&extraction(rng, known, name));
        made.push(*name);
    }
    if rng.below(4) == 0 {
        text.push_str(" | ");
        text.push_str(&test(rng, known, &made));
    }
    text.push_str(" | ");
    text.push_str(&report(rng, known, &made));
    text
}

/// A quoted string of a search, with escapes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A part of the text of some event.
fn some_phrase(rng: &mut Rng, known: &CorpusSample) -> String {
    let text = known.text(rng);
    phrase(rng, text)
}

/// A part of a text, in one line.
fn phrase(rng: &mut Rng, text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let chars: Vec<char> = line.chars().collect();
    let from = rng.below(chars.len() as u64) as usize;
    let count = 1 + rng.below(PHRASE_CHARS) as usize;
    chars.iter().skip(from).take(count).collect()
}

fn condition(rng: &mut Rng, known: &CorpusSample, nesting: u32) -> String {
    match rng.below(if nesting == 0 { 6 } else { 9 }) {
        0 => quoted(&some_phrase(rng, known)),
        1 => {
            let phrase = some_phrase(rng, known);
            let word = phrase.split(|letter: char| !letter.is_alphanumeric()).max_by_key(|word| word.len());
            let word = word.unwrap_or_default();
            match rng.below(4) {
                0 => quoted(&format!("*{word}*")),
                1 => quoted(&format!("{word}*")),
                2 => quoted(&format!("*{word}")),
                _ => quoted(word),
            }
        }
        2 | 3 => {
            let (field, value) = known.value(rng);
            let value: String = value.chars().take(VALUE_CHARS).collect();
            let half: String = value.chars().take(value.chars().count() / 2).collect();
            let value = match rng.below(6) {
                0 => format!("{half}*"),
                1 => format!("*{half}*"),
                _ => value,
            };
            format!("{}{}{}", named(field), rng.pick(&["=", "=", "=", "!="]), quoted(&value))
        }
        4 => {
            let (field, value) = known.value(rng);
            let number = value.parse::<f64>().map_or_else(|_| "100".to_owned(), |_| value.to_owned());
            format!("{}{}{number}", named(field), rng.pick(&["<", ">", "<=", ">="]))
        }
        5 => format!("{}=*", named(known.field(rng))),
        6 => format!("({} OR {})", condition(rng, known, nesting - 1), condition(rng, known, nesting - 1)),
        7 => format!("NOT ({})", condition(rng, known, nesting - 1)),
        _ => format!("{} {}", condition(rng, known, nesting - 1), condition(rng, known, nesting - 1)),
    }
}

/// A regular expression for these characters; within quotes of a search.
fn literal(rng: &mut Rng, characters: &[char]) -> String {
    let mut pattern = String::new();
    for character in characters {
        match character {
            '0'..='9' if rng.below(3) == 0 => pattern.push_str("\\d"),
            ' ' if rng.below(4) == 0 => pattern.push_str("\\s+"),
            letter if letter.is_ascii_alphanumeric() || " _-/:,=<>;@#%&~!'".contains(*letter) => pattern.push(*letter),
            letter if ".()[]{}+?*^$|".contains(*letter) => {
                pattern.push('\\');
                pattern.push(*letter);
            }
            _ => pattern.push('.'),
        }
    }
    pattern
}

/// A regular expression that matches somewhere in a text, with a group of this name.
fn pattern(rng: &mut Rng, text: &str, name: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = rng.below(chars.len() as u64 + 1) as usize;
    let from = at.saturating_sub(rng.below(14) as usize);
    let group_end = (at + 1 + rng.below(16) as usize).min(chars.len());
    let end = (group_end + rng.below(8) as usize).min(chars.len());
    let group = &chars[at.min(group_end)..group_end];
    let classes: &[&str] = match group.first() {
        Some('0'..='9') => &["\\d+", "\\d{1,3}", "[0-9a-f]+", "[\\d.]+", "\\w+", "\\S+"],
        Some('a'..='z') => &["[a-z]+", "\\w+", "[a-z-]+", "[^ ]+", "\\S+", "[^\\\"]*", "(?:[a-z]+ )+[a-z]+"],
        _ => &["\\S+", "[^ ]+", ".+?", "\\W+\\w+", ".{1,5}", "[^,]*"],
    };
    let class = rng.pick(classes);
    let before = literal(rng, &chars[from..at]);
    let after = if rng.below(2) == 0 { literal(rng, &chars[group_end..end]) } else { String::new() };
    let (start, finish) = match rng.below(10) {
        0 if from == 0 => ("^", ""),
        1 => ("\\b", ""),
        2 => ("", "\\b"),
        3 if end == chars.len() => ("", "$"),
        4 => ("(?i)", ""),
        5 => (".*", ""),
        _ => ("", ""),
    };
    format!("{start}{before}(?<{name}>{class}){after}{finish}")
}

fn extraction(rng: &mut Rng, known: &CorpusSample, name: &str) -> String {
    match rng.below(8) {
        0 => format!("eval {name}=len(_raw)"),
        1 => {
            let (field, value) = known.value(rng);
            let (field, value) = (named(field), value.to_owned());
            format!("rex field={field} \"{}\"", pattern(rng, &value, name))
        }
        2 => format!("spath path={} output={name}", named(known.field(rng))),
        3 => format!("eval {name}=upper('{}')", known.field(rng)),
        _ => {
            let text = known.text(rng).to_owned();
            format!("rex \"{}\"", pattern(rng, &text, name))
        }
    }
}

fn test(rng: &mut Rng, known: &CorpusSample, made: &[&str]) -> String {
    let text = known.text(rng);
    match rng.below(4) {
        0 => format!("regex _raw=\"{}\"", pattern(rng, text, "unused")),
        1 => format!("where match(_raw, \"{}\")", pattern(rng, text, "unused")),
        2 => {
            let letters: Vec<char> = phrase(rng, text).chars().collect();
            format!("where like(_raw, \"%{}%\")", literal(rng, &letters).replace('\\', ""))
        }
        _ => format!("search {}=*", named(field(rng, known, made))),
    }
}

fn report(rng: &mut Rng, known: &CorpusSample, made: &[&str]) -> String {
    let one = named(field(rng, known, made));
    let other = named(field(rng, known, made));
    match rng.below(16) {
        0..=2 => format!("stats count by {one}"),
        3 => format!("stats count by {one} {other}"),
        4 => format!("stats dc({one}) by {other}"),
        5 => format!("stats count({one}) min({one}) max({one}) sum({other}) avg({other})"),
        6 => format!("stats values({one}) by {other}"),
        7 => format!("top limit=5 {one}"),
        8 => format!("sort {} {}{one} | table {one} {other}", 1 + rng.below(30), rng.pick(&["", "- ", "- num", "str"]))
            .replace(&format!("num{one}"), &format!("num({one})"))
            .replace(&format!("str{one}"), &format!("str({one})")),
        9 => format!("dedup {one} | table {one} {other}"),
        10 => format!("timechart span=1m count by {one} limit=3"),
        11 => format!("eventstats count AS c by {one} | where c>2 | stats count by {other}"),
        12 => format!("streamstats count AS c by {one} | stats sum(c) by {other}"),
        13 => format!("head {} | table _time {one} {other} _raw", 1 + rng.below(200)),
        14 => format!("stats count dc({one}) AS d | eval e=d*2"),
        _ => "stats count by sourcetype".to_owned(),
    }
}

/// A field name as lists of names and conditions accept it.
fn named(field: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.{}".contains(&byte);
    if field.bytes().all(is_plain) { field.to_owned() } else { quoted(field) }
}
