//! Commands about the words and fields that indexes hold: walklex, typeahead.
//!
//! They are written out as searches. They read events: the dictionaries of sealed slabs leave out words that
//! columns hold, and hot events have none yet, so that a list of them alone would be incomplete.

use quarry_event::segment::{is_breaker, is_major};

use super::cursor::{Parser, Read};
use super::options::Known;
use super::written_out::quote;
use crate::ast::{Command, SeveralCommand};
use crate::diagnostic::Diagnostic;

const WALKLEX: Known = Known {
    command: "walklex",
    names: &["type", "prefix", "pattern", "index"],
    ignored: &["splunk_server", "splunk_server_group"],
};
const TYPEAHEAD: Known = Known {
    command: "typeahead",
    names: &["prefix", "count", "index", "starttimeu", "endtimeu"],
    ignored: &["max_time", "collapse", "splunk_server", "use_fast_typeahead"],
};

/// Suggestions of `typeahead` when `count=` is absent.
const SUGGESTIONS: usize = 50;
/// Fields of every event, which `typeahead` knows by name.
const EVENT_FIELDS: [&str; 4] = ["host", "index", "source", "sourcetype"];

/// What `walklex` lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    Fields,
    FieldValues,
    Terms,
    All,
}

/// The inside of a character class of a regular expression that holds these ASCII characters.
fn class_of(holds: impl Fn(u8) -> bool) -> String {
    let marks = (b' '..=b'~').filter(|byte| holds(*byte) && !byte.is_ascii_whitespace());
    format!("\\s{}", marks.map(|byte| format!("\\{}", char::from(byte))).collect::<String>())
}

/// A pattern of `like` for a pattern with stars.
fn like_of(pattern: &str) -> String {
    let escaped = pattern.to_lowercase().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    quote(&escaped.replace('*', "%"))
}

/// Conditions on indexes as one.
fn scope_of(indexes: &[String]) -> String {
    let terms: Vec<String> = indexes.iter().map(|index| format!("index={}", quote(index))).collect();
    if terms.is_empty() { "index=*".to_owned() } else { format!("({})", terms.join(" OR ")) }
}

impl Parser<'_> {
    /// The command of this name, or `None` when it is none of these.
    pub(crate) fn lexicon_command(&mut self, name: &str) -> Read<Option<Command>> {
        Ok(Some(match name {
            "walklex" => self.walklex()?,
            "typeahead" => self.typeahead()?,
            _ => return Ok(None),
        }))
    }

    /// `walklex [type=field|fieldvalue|term|all] [prefix=TEXT | pattern=TEXT] index=INDEX...`.
    fn walklex(&mut self) -> Read<Command> {
        let (mut listed, mut pattern, mut indexes) = (Listed::All, None, Vec::new());
        while let Some(option) = self.option(WALKLEX)? {
            match option.name.as_str() {
                "index" => indexes.push(option.value),
                "type" => {
                    listed = match option.value.to_ascii_lowercase().as_str() {
                        "all" => Listed::All,
                        "field" => Listed::Fields,
                        "fieldvalue" => Listed::FieldValues,
                        "term" => Listed::Terms,
                        _ => return Err(option.refuse("all, field, fieldvalue or term")),
                    };
                }
                _ if pattern.is_some() => {
                    let remark =
                        Diagnostic::error("walklex: prefix= and pattern= exclude each other", option.name_span);
                    return Err(remark.with_hint("write pattern=abc* for a prefix"));
                }
                "prefix" => pattern = Some(format!("{}*", option.value)),
                _ => pattern = Some(option.value),
            }
        }
        if indexes.is_empty() {
            let remark = Diagnostic::error("walklex: no index is given", self.here());
            return Err(remark.with_hint("write `walklex type=term index=main`"));
        }
        let pairs = "foreach * [ eval __word=mvappend(__word, mvmap('<<FIELD>>', \"<<FIELD>>::\".'<<FIELD>>')) ]";
        let (majors, breakers) = (class_of(is_major), class_of(is_breaker));
        // A word is listed with the parts that its minor breakers cut.
        let terms = format!(
            "rex max_match=0 {} | rex max_match=0 {} | eval __word=mvappend(__word, __part, __piece)",
            quote(&format!("(?<__part>[^{majors}]+)")),
            quote(&format!("(?<__piece>[^{breakers}]+)")),
        );
        let once = "eval __word=mvdedup(mvmap(__word, lower(__word))) | stats count BY index __word";
        let (name, made) = match listed {
            Listed::Fields => (
                "field",
                format!(
                    "{pairs} | stats count BY index __word | eval field=replace(__word, \"(?s)::.*$\", \"\") \
                     | stats sum(count) AS count count AS distinct_values BY index field"
                ),
            ),
            Listed::FieldValues => ("term", format!("{pairs} | {once} | rename __word AS term")),
            Listed::Terms => ("term", format!("eval __word=null() | {terms} | {once} | rename __word AS term")),
            Listed::All => ("term", format!("{pairs} | {terms} | {once} | rename __word AS term")),
        };
        let kept =
            pattern.map_or(String::new(), |pattern| format!(" | where like(lower({name}), {})", like_of(&pattern)));
        let columns = if listed == Listed::Fields { "field count distinct_values index" } else { "term count index" };
        let text = format!("search {} | {made}{kept} | table {columns}", scope_of(&indexes));
        self.of_index_time("walklex", &text)
    }

    /// The command as a search over index-time fields; it keeps its name, to which what it takes is bound.
    fn of_index_time(&self, command: &'static str, text: &str) -> Read<Command> {
        let parsed = super::parse(text);
        match parsed.diagnostics.first() {
            Some(fault) => Err(Diagnostic::error(fault.message.clone(), self.since(self.stage_start()))),
            None => Ok(Command::Several(SeveralCommand::IndexTime { command, search: parsed.pipeline })),
        }
    }

    /// `typeahead prefix=TEXT [count=N] [index=INDEX]...`.
    fn typeahead(&mut self) -> Read<Command> {
        let (mut prefix, mut count, mut indexes, mut range) = (None, SUGGESTIONS, Vec::new(), String::new());
        while let Some(option) = self.option(TYPEAHEAD)? {
            match option.name.as_str() {
                "prefix" => prefix = Some((option.value, option.value_span)),
                "count" => count = option.number()?,
                "index" => indexes.push(option.value),
                "starttimeu" => range.push_str(&format!(" earliest={}", option.number::<u32>()?)),
                _ => range.push_str(&format!(" latest={}", option.number::<u32>()?)),
            }
        }
        let Some((prefix, place)) = prefix else {
            let remark = Diagnostic::error("typeahead: no prefix= is given", self.here());
            return Err(remark.with_hint("write `typeahead prefix=err count=10`"));
        };
        let scope = format!("{}{range}", scope_of(&indexes));
        let values = |name: &str, value: &str| {
            let field = name.replace('\'', "");
            format!(
                "tstats count WHERE {scope} {name}={} BY {name} \
                 | eval content=\"{field}=\\\"\".replace('{field}', \"([\\\\\\\\\\\"])\", \"\\\\\\\\\\1\").\"\\\"\"",
                quote(&format!("{value}*"))
            )
        };
        let text = if let Some((name, value)) = prefix.split_once('=') {
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
            if !is_name {
                let remark = Diagnostic::error(format!("typeahead: `{name}` is no name of a field"), place);
                return Err(remark.with_hint("write prefix=sourcetype=acc"));
            }
            format!("| {}", values(name, value.trim_matches('"')))
        } else {
            if prefix.is_empty() || prefix.bytes().any(|byte| is_major(byte) || byte == b'`') {
                let remark = Diagnostic::error("typeahead: a prefix is the beginning of one word", place);
                return Err(remark.with_hint("write prefix=err or prefix=sourcetype=acc"));
            }
            let literal: String =
                prefix.chars().map(|c| if c.is_alphanumeric() { c.to_string() } else { format!("\\{c}") }).collect();
            let majors = class_of(is_major);
            let words = quote(&format!("(?i)(?:^|[{majors}])(?<content>{literal}[^{majors}]*)"));
            let mut text = format!(
                "search {scope} {} | rex max_match=0 {words} | eval content=mvdedup(mvmap(content, lower(content))) \
                 | stats count BY content",
                quote(&format!("{prefix}*"))
            );
            for name in EVENT_FIELDS.iter().filter(|name| name.starts_with(&prefix.to_ascii_lowercase())) {
                text.push_str(&format!(" | append [ | {} ]", values(name, "")));
            }
            text
        };
        let text = format!(
            "{text} | eval operator=\"false\" | sort {count} -num(count) content | table content count operator"
        );
        self.of_index_time("typeahead", &text)
    }
}
