//! Rules of multikv.conf: the position of a table's sections in a text, and the conversion of their lines to names and
//! cells.
//!
//! A table consists of a preamble (`pre`), a `header`, a `body` and a trailer (`post`). The start and the end of each
//! section are lines found by a regular expression, or are given by a number of lines. The header's tokens are the
//! column names; each line of the body is a row. Further tables may follow.
//!
//! Not here: the choice of rows and fields by `multikv` ([`super`]); tokens of `pre` and `post`, which rows do not use.

use quarry_stdx::Fault;
use std::collections::BTreeMap;

use crate::pattern::{Regex, Replacement};

use super::tokens::{Tokens, items};

/// Names of the sections in their order.
const SECTIONS: [&str; 4] = ["pre", "header", "body", "post"];
/// Maximum number of lines in a setting of a rule; a rule with a larger number is rejected.
const LINES_MAX: usize = 1_000_000;

/// Rules for reading tables of one kind.
#[derive(Debug)]
pub struct TableRule {
    pre: Option<Section>,
    header: Option<Section>,
    body: Section,
    post: Option<Section>,
}

#[derive(Debug, Default)]
struct Section {
    start: SectionStart,
    end: SectionEnd,
    member: Option<Regex>,
    ignored: IgnoredLines,
    replaced: Vec<(Regex, Replacement)>,
    tokens: Option<Tokens>,
}

#[derive(Debug, Default)]
enum SectionStart {
    /// The section starts at the end of the previous one.
    #[default]
    Here,
    /// The section starts this many lines after the end of the previous one.
    After(usize),
    /// The section starts at the next line that matches.
    At(Regex),
}

#[derive(Debug, Default)]
enum SectionEnd {
    #[default]
    Unspecified,
    /// The section ends after this many lines.
    Count(usize),
    /// The section ends before the next line that matches.
    Before(Regex),
}

#[derive(Debug, Default)]
enum IgnoredLines {
    #[default]
    Nothing,
    All,
    Like(Vec<Regex>),
}

/// Receives rows: the line, and the names and values of its cells.
pub type CellVisitor<'s> = &'s mut dyn FnMut(&str, Vec<(String, String)>);

impl TableRule {
    /// Parses a stanza; the error is for the user.
    pub fn new(settings: &BTreeMap<String, String>) -> Result<TableRule, Fault> {
        let mut sections: BTreeMap<&str, Section> = BTreeMap::new();
        for (key, value) in settings {
            let (name, part) = key.split_once('.').unwrap_or((key, ""));
            let name = SECTIONS.iter().find(|known| **known == name);
            let name =
                name.ok_or_else(|| Fault::invalid(format!("{key}: settings begin with {}", SECTIONS.join(", "))))?;
            let section = sections.entry(name).or_default();
            section.set(name, part, value).map_err(|fault| fault.with_context(key))?;
        }
        let mut section = |name: &str| sections.remove(name);
        let body = section("body").ok_or_else(|| Fault::invalid("it has no body section"))?;
        let rule = TableRule { pre: section("pre"), header: section("header"), body, post: section("post") };
        if let Some(Section { end: SectionEnd::Unspecified, .. }) = &rule.pre
            && !matches!(rule.header.as_ref().unwrap_or(&rule.body).start, SectionStart::At(_))
        {
            return Err(Fault::invalid("the end of pre is undefined: give pre.end, pre.linecount or header.start"));
        }
        Ok(rule)
    }

    /// Passes each row of the tables in a text to `see`.
    pub fn rows(&self, text: &str, several_tables: bool, named: bool, see: CellVisitor<'_>) {
        let lines: Vec<&str> = text.lines().collect();
        let mut start = 0;
        while start < lines.len() {
            let Some(end) = self.table(&lines, start, named, see) else { return };
            if end <= start || !several_tables {
                return;
            }
            start = end;
        }
    }

    /// Passes the rows of the next table to `see` and returns the line after the table; `None` if there is no further
    /// table.
    fn table(&self, lines: &[&str], from: usize, named: bool, see: CellVisitor<'_>) -> Option<usize> {
        let mut line = from;
        if let Some(pre) = &self.pre {
            let (start, end) = pre.section_range(lines, line, 0)?;
            line = start.max(end);
        }
        let (mut names, mut header_line) = (Vec::new(), String::new());
        if let Some(header) = &self.header {
            // A header that is only a list of names occupies no lines.
            let is_list = matches!(header.tokens, Some(Tokens::List(_)));
            let default_count = usize::from(!is_list || !matches!(header.start, SectionStart::Here));
            let (start, end) = header.section_range(lines, line, default_count)?;
            line = end;
            header_line = header.members(&lines[start..end]).next().unwrap_or_default();
            names = match &header.tokens {
                Some(tokens) => tokens.of(&header_line, &header_line, 0),
                None => Tokens::default().of(&header_line, &header_line, 0),
            };
        }
        if !named {
            names.clear();
        }
        let (start, end) = self.body.section_range(lines, line, usize::MAX)?;
        for (row, text) in self.body.members_of(&lines[start..end]) {
            let default = Tokens::default();
            let values = self.body.tokens.as_ref().unwrap_or(&default).of(&text, &header_line, names.len());
            let cells = values.into_iter().enumerate().filter(|(_, value)| !value.is_empty());
            see(row, cells.map(|(at, value)| (name_of(&names, at), value)).collect());
        }
        line = end;
        if let Some(post) = &self.post
            && let Some((_, end)) = post.section_range(lines, line, usize::MAX)
        {
            line = end;
        }
        Some(line)
    }
}

/// Name of a column.
fn name_of(names: &[String], at: usize) -> String {
    let clean = |name: &String| -> String {
        let sign = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '_' };
        name.chars().map(sign).collect::<String>().trim_matches('_').to_owned()
    };
    names.get(at).map(clean).filter(|name| !name.is_empty()).unwrap_or_else(|| format!("Column_{}", at + 1))
}

impl Section {
    fn set(&mut self, section: &str, part: &str, value: &str) -> Result<(), Fault> {
        let count = || match value.trim().parse::<usize>() {
            Ok(count) if count <= LINES_MAX => Ok(count),
            _ => Err(Fault::invalid(format!("`{value}` is not a number of lines up to {LINES_MAX}"))),
        };
        match part {
            "start" => self.start = SectionStart::At(regex(value)?),
            "start_offset" => self.start = SectionStart::After(count()?),
            "end" => self.end = SectionEnd::Before(regex(value)?),
            "linecount" => self.end = SectionEnd::Count(count()?),
            "member" => self.member = Some(regex(value)?),
            "ignore" => self.ignored = parse_ignored(value)?,
            "replace" => self.replaced = parse_replacements(value)?,
            "tokens" if matches!(section, "header" | "body") => self.tokens = Some(Tokens::new(value)?),
            "tokens" => {}
            _ => return Err(Fault::invalid("there is no such setting")),
        }
        Ok(())
    }

    /// First line and end of the section, which has `default_count` lines unless a setting defines its end. `None` if the
    /// section does not start.
    fn section_range(&self, lines: &[&str], from: usize, default_count: usize) -> Option<(usize, usize)> {
        let (start, is_found) = match &self.start {
            SectionStart::Here => (from, false),
            SectionStart::After(count) => (from.saturating_add(*count), false),
            SectionStart::At(regex) => (from + lines.get(from..)?.iter().position(|line| regex.is_match(line))?, true),
        };
        let rest = lines.get(start..)?;
        let count = match &self.end {
            SectionEnd::Unspecified => default_count,
            SectionEnd::Count(count) => *count,
            SectionEnd::Before(regex) => {
                // The line that matched the start is part of the section, even if it also matches the end.
                let first = usize::from(is_found);
                let end = rest.iter().skip(first).position(|line| regex.is_match(line));
                end.map_or(rest.len(), |end| end + first)
            }
        };
        Some((start, start + count.min(rest.len())))
    }

    /// Lines that belong to the section, each as in the text and after replacement.
    fn members_of<'s>(&'s self, lines: &'s [&'s str]) -> impl Iterator<Item = (&'s str, String)> {
        let is_member = |line: &&&str| {
            let is_ignored = match &self.ignored {
                IgnoredLines::Nothing => false,
                IgnoredLines::All => true,
                IgnoredLines::Like(all) => all.iter().any(|regex| regex.is_match(line)),
            };
            !is_ignored && self.member.as_ref().is_none_or(|regex| regex.is_match(line))
        };
        lines.iter().filter(is_member).map(|line| {
            let replace =
                |text: String, (regex, with): &(Regex, Replacement)| regex.replace_all(&text, with).unwrap_or(text);
            (*line, self.replaced.iter().fold((*line).to_owned(), replace))
        })
    }

    fn members<'s>(&'s self, lines: &'s [&'s str]) -> impl Iterator<Item = String> {
        self.members_of(lines).map(|(_, text)| text)
    }
}

fn regex(text: &str) -> Result<Regex, Fault> {
    let text = text.trim();
    let inner = text.strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
    Regex::new(inner.unwrap_or(text))
}

fn parse_ignored(value: &str) -> Result<IgnoredLines, Fault> {
    let items = items(value);
    match items.split_first() {
        Some((first, [])) if first.text == "_all_" => Ok(IgnoredLines::All),
        Some((first, [])) if first.text == "_none_" => Ok(IgnoredLines::Nothing),
        Some((first, all)) if first.text == "_regex_" && !all.is_empty() => {
            all.iter().map(|item| Regex::new(&item.text)).collect::<Result<_, _>>().map(IgnoredLines::Like)
        }
        _ => Err(Fault::invalid("write _all_, _none_ or _regex_ with regular expressions in quotes")),
    }
}

fn parse_replacements(value: &str) -> Result<Vec<(Regex, Replacement)>, Fault> {
    let items = items(value);
    if items.is_empty() || !items.len().is_multiple_of(2) || items.iter().any(|item| !item.quoted) {
        return Err(Fault::invalid("write pairs such as \"%\" = \"_\", \"#\" = \"_\""));
    }
    let pair = |pair: &[super::tokens::Item]| {
        let regex = Regex::new(&pair[0].text)?;
        let with = Replacement::new(&pair[1].text, &regex);
        Ok((regex, with))
    };
    items.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Result<TableRule, Fault> {
        let pairs = text.lines().filter_map(|line| line.split_once(" = "));
        TableRule::new(&pairs.map(|(key, value)| (key.trim().to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn incomplete_or_invalid_stanzas_are_refused() {
        for (text, expected) in [
            ("header.linecount = 1", "it has no body section"),
            ("body.end = (", "body.end: "),
            ("body.linecount = x", "body.linecount: `x` is not a number of lines"),
            ("body.linecount = 99999999", "up to 1000000"),
            ("body.color = red", "body.color: there is no such setting"),
            ("foot.end = x", "foot.end: settings begin with pre, header, body, post"),
            ("pre.start = x\nbody.end = y", "the end of pre is undefined"),
            ("body.ignore = x", "write _all_, _none_ or _regex_"),
            ("body.replace = \"a\" = b", "write pairs"),
            ("body.tokens = _split_, 1", "body.tokens: "),
        ] {
            let fault = rule(text).map(drop).unwrap_err().to_string();
            assert!(fault.contains(expected), "{text}: {fault}");
        }
    }
}
