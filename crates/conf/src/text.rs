//! The syntax of conf files: stanzas, settings, comments, continued lines.
//!
//! `#` starts a comment only if nothing but blanks precedes it on its line. A `\` at the very end of a line continues
//! the value on the next line; the line break is part of the value. Settings before any stanza belong to `[default]`.
//! Stanzas of the same name are merged; the last value of a repeated setting applies.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::warning::{ConfWarning, Problem, truncate};

/// Name of the stanza whose settings every stanza of its conf inherits.
pub const DEFAULT_STANZA: &str = "default";

/// A parsed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conf {
    /// Label of the file.
    pub file: Arc<str>,
    /// Stanzas in order of first appearance.
    pub stanzas: Vec<Stanza>,
}

/// A stanza of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stanza {
    /// Text between the brackets.
    pub name: String,
    /// Line of the header, from 1; 0 for settings before any stanza.
    pub line: u32,
    /// Settings in order of first appearance.
    pub settings: Vec<Setting>,
}

/// A setting of one stanza.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Name as written.
    pub key: String,
    /// Value without surrounding blanks; may be empty.
    pub value: String,
    /// Line of the key, from 1.
    pub line: u32,
}

impl Conf {
    /// Parses a text; `file` labels warnings and origins.
    pub fn parse(file: &str, text: &str) -> (Conf, Vec<ConfWarning>) {
        let mut parser = Parser {
            conf: Conf { file: file.into(), stanzas: Vec::new() },
            places: BTreeMap::new(),
            current: None,
            warnings: Vec::new(),
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines().zip(1u32..);
        while let Some((line, number)) = lines.next() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            if trimmed.starts_with('[') {
                parser.open(trimmed, number);
                continue;
            }
            let mut value = line.to_owned();
            while value.ends_with('\\') {
                value.pop();
                let Some((next, _)) = lines.next() else { break };
                value.push('\n');
                value.push_str(next);
            }
            parser.set(&value, number);
        }
        (parser.conf, parser.warnings)
    }

    /// Stanza by name.
    pub fn stanza(&self, name: &str) -> Option<&Stanza> {
        self.stanzas.iter().find(|stanza| stanza.name == name)
    }
}

impl Stanza {
    /// Value of a setting.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.as_str())
    }
}

struct Parser {
    conf: Conf,
    /// Positions of the stanzas by name, because a file may contain thousands of them.
    places: BTreeMap<String, usize>,
    /// Position of the current stanza; `None` before the first.
    current: Option<usize>,
    warnings: Vec<ConfWarning>,
}

impl Parser {
    fn open(&mut self, line: &str, number: u32) {
        match line.rfind(']') {
            // Text after the last bracket is not part of the name.
            Some(end) => self.current = Some(self.stanza_at(&line[1..end], number)),
            None => {
                self.warn(number, Problem::OpenStanza { line: truncate(line) });
                // The settings that follow must not become part of the previous stanza.
                self.current = Some(self.stanza_at(&line[1..], number));
            }
        }
    }

    fn stanza_at(&mut self, name: &str, line: u32) -> usize {
        if let Some(at) = self.places.get(name) {
            return *at;
        }
        let at = self.conf.stanzas.len();
        self.conf.stanzas.push(Stanza { name: name.to_owned(), line, settings: Vec::new() });
        self.places.insert(name.to_owned(), at);
        at
    }

    fn set(&mut self, line: &str, number: u32) {
        let Some((key, value)) = line.split_once('=') else {
            return self.warn(number, Problem::Line { line: truncate(line.trim()) });
        };
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        if key.is_empty() {
            return self.warn(number, Problem::NoKey);
        }
        let at = match self.current {
            Some(at) => at,
            None => self.stanza_at(DEFAULT_STANZA, 0),
        };
        self.current = Some(at);
        let settings = &mut self.conf.stanzas[at].settings;
        let setting = Setting { key, value, line: number };
        match settings.iter().position(|known| known.key == setting.key) {
            Some(known) => settings[known] = setting,
            None => settings.push(setting),
        }
    }

    fn warn(&mut self, line: u32, problem: Problem) {
        let stanza = self.current.map_or(DEFAULT_STANZA, |at| &self.conf.stanzas[at].name).to_owned();
        self.warnings.push(ConfWarning { file: self.conf.file.clone(), line, stanza, problem });
    }
}

#[cfg(test)]
mod tests;
