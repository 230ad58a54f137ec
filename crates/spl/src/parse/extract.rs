//! Commands that read into field values: regex, spath, makemv, mvexpand.
//!
//! Regular expressions are kept as text; only their named groups are read here.

use super::cursor::{Parser, Read, Word};
use super::options::Known;
use crate::ast::{Command, MakeMvCommand, MvExpandCommand, MvSplit, Pattern, RegexCommand, SpathCommand};
use crate::diagnostic::Diagnostic;

/// Field read by rex, regex and spath when none is named.
const RAW: &str = "_raw";

const SPATH: Known = Known { command: "spath", names: &["input", "output", "path"], ignored: &[] };
const MAKEMV: Known = Known { command: "makemv", names: &["delim", "tokenizer", "allowempty", "setsv"], ignored: &[] };
const MVEXPAND: Known = Known { command: "mvexpand", names: &["limit"], ignored: &[] };

impl From<Word> for Pattern {
    fn from(word: Word) -> Pattern {
        Pattern { text: word.text, span: word.span }
    }
}

impl Parser<'_> {
    pub(crate) fn extract_command(&mut self, name: &str) -> Read<Command> {
        match name {
            "regex" => self.regex(),
            "spath" => self.spath(),
            "makemv" => self.makemv(),
            _ => self.mvexpand(),
        }
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
