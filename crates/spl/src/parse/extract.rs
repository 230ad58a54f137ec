//! Commands that read into field values: rex, regex, spath, makemv, mvexpand.
//!
//! Regular expressions are kept as text; only their named groups are read here.

use super::cursor::{Parser, Read, Word};
use super::options::Known;
use crate::ast::{
    Command, MakeMvCommand, MvExpandCommand, MvSplit, Pattern, RegexCommand, RexCommand, RexSedCommand, SedEdit,
    SedMatches, Span, SpathCommand,
};
use crate::diagnostic::Diagnostic;

/// Field read by rex, regex and spath when none is named.
const RAW: &str = "_raw";

const REX: Known = Known { command: "rex", names: &["field", "max_match", "offset_field", "mode"], ignored: &[] };
const SPATH: Known = Known { command: "spath", names: &["input", "output", "path"], ignored: &[] };
const MAKEMV: Known = Known { command: "makemv", names: &["delim", "tokenizer", "allowempty", "setsv"], ignored: &[] };
const MVEXPAND: Known = Known { command: "mvexpand", names: &["limit"], ignored: &[] };

impl From<Word> for Pattern {
    fn from(word: Word) -> Pattern {
        Pattern { text: word.text, span: word.span }
    }
}

impl Parser<'_> {
    pub(super) fn extract_command(&mut self, name: &str) -> Read<Command> {
        match name {
            "rex" => self.rex(),
            "regex" => self.regex(),
            "spath" => self.spath(),
            "makemv" => self.makemv(),
            _ => self.mvexpand(),
        }
    }

    // ---- rex ------------------------------------------------------------------------------------------------------

    fn rex(&mut self) -> Read<Command> {
        let (mut field, mut max_match, mut offset_field, mut sed) = (RAW.to_owned(), 1, None, false);
        let mut pattern: Option<Word> = None;
        while !self.at_end() {
            if let Some(option) = self.rex_option()? {
                match option.name.as_str() {
                    "field" => field = option.value,
                    "max_match" => max_match = option.number()?,
                    "offset_field" => offset_field = Some(option.value),
                    _ if option.value.eq_ignore_ascii_case("sed") => sed = true,
                    _ => return Err(option.refuse("`sed`")),
                }
            } else if pattern.is_none() {
                pattern = Some(self.quoted().unwrap_or_else(|| self.bare_pattern()));
            } else {
                return Err(Diagnostic::error(format!("rex: unexpected {}", self.found()), self.here()));
            }
        }
        let Some(pattern) = pattern else {
            let hint = "write `rex field=name \"(?<group>...)\"`";
            return Err(Diagnostic::error("rex: no regular expression is given", self.here()).with_hint(hint));
        };
        if sed {
            let edits = sed_edits(&pattern)?;
            return Ok(Command::RexSed(RexSedCommand { field, edits }));
        }
        let groups = group_names(&pattern)?;
        Ok(Command::Rex(RexCommand { field, pattern: pattern.into(), groups, max_match, offset_field }))
    }

    /// An option of rex; other `name=` may be part of an unquoted pattern.
    fn rex_option(&mut self) -> Read<Option<super::options::OptionArg>> {
        match self.peek_option() {
            Some(name) if REX.names.contains(&name.to_ascii_lowercase().as_str()) => self.read_option().map(Some),
            _ => Ok(None),
        }
    }

    /// An unquoted regular expression: the next word.
    fn bare_pattern(&mut self) -> Word {
        self.skip_blank();
        let start = self.pos;
        let rest = self.rest();
        self.pos += rest.find(char::is_whitespace).unwrap_or(rest.len());
        Word { text: self.text[start..self.pos].to_owned(), quoted: false, span: self.since(start) }
    }

    // ---- regex ----------------------------------------------------------------------------------------------------

    fn regex(&mut self) -> Read<Command> {
        self.skip_blank();
        let place = self.pos;
        let (mut field, mut negated) = (RAW.to_owned(), false);
        let name = match self.quoted() {
            Some(word) => Some(word.text),
            None => {
                let rest = self.rest();
                let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '-' | '{' | '}' | '@');
                let length = rest.find(|c: char| !inside(c)).unwrap_or(rest.len());
                self.pos += length;
                (length > 0).then(|| rest[..length].to_owned())
            }
        };
        self.skip_blank();
        match (name, self.peek(), self.peek_second()) {
            (Some(name), Some('='), _) => {
                self.bump();
                field = name;
            }
            (Some(name), Some('!'), Some('=')) => {
                self.pos += "!=".len();
                (field, negated) = (name, true);
            }
            _ => self.pos = place,
        }
        self.skip_blank();
        let start = self.pos;
        let pattern = self.quoted().unwrap_or_else(|| {
            self.pos = self.end;
            let span = self.since(start);
            Word { text: self.text[span.start..span.end].to_owned(), quoted: false, span }
        });
        if pattern.text.is_empty() {
            let remark = Diagnostic::error("regex: no regular expression is given", self.here());
            return Err(remark.with_hint("write `regex field=\"...\"`"));
        }
        Ok(Command::Regex(RegexCommand { field, negated, pattern: pattern.into() }))
    }

    // ---- spath, makemv, mvexpand ----------------------------------------------------------------------------------

    fn spath(&mut self) -> Read<Command> {
        let mut command = SpathCommand { input: RAW.to_owned(), output: None, path: None };
        loop {
            while let Some(option) = self.option(SPATH)? {
                match option.name.as_str() {
                    "input" => command.input = option.value,
                    "output" => command.output = Some(option.value),
                    _ => command.path = Some(option.value),
                }
            }
            if self.at_end() {
                break;
            }
            if command.path.is_some() {
                return Err(Diagnostic::error(format!("spath: unexpected {}", self.found()), self.here()));
            }
            command.path = Some(self.expect_field("a path")?.text);
        }
        if command.output.is_some() && command.path.is_none() {
            return Err(Diagnostic::error("spath: output= needs a path", self.here()).with_hint("write path=a.b"));
        }
        Ok(Command::Spath(command))
    }

    fn makemv(&mut self) -> Read<Command> {
        let mut split = MvSplit::Delimiter(" ".to_owned());
        let (mut allow_empty, mut set_sv, mut field) = (false, false, None);
        loop {
            while let Some(option) = self.option(MAKEMV)? {
                match option.name.as_str() {
                    "delim" => split = MvSplit::Delimiter(option.value),
                    "tokenizer" => {
                        split = MvSplit::Tokenizer(Pattern { text: option.value, span: option.value_span });
                    }
                    "allowempty" => allow_empty = option.boolean()?,
                    _ => set_sv = option.boolean()?,
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if field.is_some() {
                return Err(Diagnostic::error(format!("makemv: unexpected {}", self.found()), self.here()));
            }
            field = Some(self.expect_field("a field")?.text);
        }
        let Some(field) = field else {
            return Err(Diagnostic::error("makemv: no field is given", self.here()));
        };
        Ok(Command::MakeMv(MakeMvCommand { field, split, allow_empty, set_sv }))
    }

    fn mvexpand(&mut self) -> Read<Command> {
        let (mut field, mut limit) = (None, 0);
        loop {
            while let Some(option) = self.option(MVEXPAND)? {
                limit = option.number()?;
            }
            if self.at_end() {
                break;
            }
            if field.is_some() {
                return Err(Diagnostic::error(format!("mvexpand: unexpected {}", self.found()), self.here()));
            }
            field = Some(self.expect_field("a field")?.text);
        }
        let Some(field) = field else {
            return Err(Diagnostic::error("mvexpand: no field is given", self.here()));
        };
        Ok(Command::MvExpand(MvExpandCommand { field, limit }))
    }
}

/// Names of the groups `(?<name>`, `(?P<name>` and `(?'name'` of a pattern, in order.
fn group_names(pattern: &Word) -> Read<Vec<String>> {
    let text = pattern.text.as_str();
    let mut names: Vec<String> = Vec::new();
    let mut in_class = false;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        match c {
            '\\' => at += rest[1..].chars().next().map_or(0, char::len_utf8),
            '[' if !in_class => {
                in_class = true;
                let negation = usize::from(rest[1..].starts_with('^'));
                at += negation + usize::from(rest[1 + negation..].starts_with(']'));
            }
            ']' => in_class = false,
            '(' if !in_class => {
                if let Some(name) = group_name(rest) {
                    check_group_name(name, pattern.span)?;
                    if !names.iter().any(|known| known == name) {
                        names.push(name.to_owned());
                    }
                }
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    if names.is_empty() {
        let remark = Diagnostic::error("rex: the regular expression has no named group", pattern.span);
        return Err(remark.with_hint("name what to extract: (?<field>...)"));
    }
    Ok(names)
}

/// The name of the group at the start of `text`, if it is a named one.
fn group_name(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("(?")?;
    let (rest, close) = match rest.strip_prefix('\'') {
        Some(rest) => (rest, '\''),
        None => (rest.strip_prefix('P').unwrap_or(rest).strip_prefix('<')?, '>'),
    };
    if rest.starts_with(['=', '!']) {
        return None;
    }
    rest.find(close).map(|end| &rest[..end])
}

fn check_group_name(name: &str, span: Span) -> Read<()> {
    let valid = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !valid || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        let remark = Diagnostic::error(format!("rex: `{name}` cannot be the name of a group"), span);
        return Err(remark.with_hint("use letters, digits and `_`, then rename the field"));
    }
    Ok(())
}

/// The `s/…/…/` and `y/…/…/` commands of a sed text.
fn sed_edits(word: &Word) -> Read<Vec<SedEdit>> {
    let wrong = |what: &str| {
        Diagnostic::error(format!("rex mode=sed: {what}"), word.span).with_hint("write \"s/regex/replacement/g\"")
    };
    let mut edits = Vec::new();
    let mut rest = word.text.trim_start();
    while let Some(kind) = rest.chars().next() {
        let body = &rest[kind.len_utf8()..];
        let Some(delimiter) = body.chars().next().filter(|c| matches!(kind, 's' | 'y') && !c.is_alphanumeric()) else {
            return Err(wrong("expected `s/` or `y/`"));
        };
        let body = &body[delimiter.len_utf8()..];
        let (from, body) = sed_part(body, delimiter).ok_or_else(|| wrong("the pattern is never closed"))?;
        let (to, body) = sed_part(body, delimiter).ok_or_else(|| wrong("the replacement is never closed"))?;
        let flags_len = body.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(body.len());
        let flags = &body[..flags_len];
        edits.push(if kind == 's' {
            let (ignore_case, which) = sed_flags(flags).ok_or_else(|| wrong(&format!("unknown flag in `{flags}`")))?;
            let text = if ignore_case { format!("(?i){from}") } else { from };
            SedEdit::Substitute { pattern: Pattern { text, span: word.span }, replacement: to, which }
        } else {
            let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
            if from.len() != to.len() {
                return Err(wrong("both parts of `y` must have the same length"));
            }
            SedEdit::Transliterate { from, to }
        });
        rest = body[flags_len..].trim_start_matches(|c: char| c.is_whitespace() || c == ';');
    }
    if edits.is_empty() {
        return Err(wrong("nothing to do"));
    }
    Ok(edits)
}

/// Text up to the next delimiter, whose escaped form is resolved, and what follows it.
fn sed_part(text: &str, delimiter: char) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == delimiter {
            return Some((part, &text[at + c.len_utf8()..]));
        }
        if c != '\\' {
            part.push(c);
            continue;
        }
        match chars.next() {
            Some((_, next)) if next == delimiter => part.push(next),
            Some((_, next)) => part.extend([c, next]),
            None => part.push(c),
        }
    }
    None
}

/// Flags after a substitution: `g`, `i`, a number.
fn sed_flags(flags: &str) -> Option<(bool, SedMatches)> {
    let ignore_case = flags.contains(['i', 'I']);
    let rest: String = flags.chars().filter(|c| !matches!(c, 'i' | 'I')).collect();
    let which = match rest.as_str() {
        "" => SedMatches::First,
        "g" => SedMatches::All,
        digits => SedMatches::Nth(digits.parse().ok().filter(|n| *n > 0)?),
    };
    Some((ignore_case, which))
}
