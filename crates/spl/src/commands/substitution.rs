//! Subsearches whose result is substituted as text: `eval n=[...]`, `where n > [...]`, `timechart span=[...]`.
//!
//! If a command with brackets does not parse as written, the brackets are read as subsearches, whose results replace
//! them as text at run time. To check that such a command can be parsed at all, the parser reads it with a simple word
//! in place of each subsearch; the tree contains the pieces of text outside the brackets. In commands with templates,
//! brackets are not subsearches.

use serde::{Deserialize, Serialize};

use super::{Beginning, Command, CommandInfo, Group, Kind, Semantics};
use crate::analyse::FieldNeeds;
use crate::ast::{Pipeline, Span};
use crate::diagnostic::{Diagnostic, excerpt};
use crate::parse::{Marks, Parser, parse_commands};

/// Simple words that represent the possible results of a subsearch: a number, a field, a text, a condition, a list of
/// fields, a new name, nothing, a pattern or an edit for rex.
const PLACEHOLDERS: [&str; 9] = ["1", "x", "\"1\"", "x=1", "x, y", "x AS y", "", "\"(?<x>y)\"", "\"s/x/y/\""];
/// Commands whose brackets are not subsearches.
const TEMPLATES: [&str; 2] = ["foreach", "map"];
/// Maximum number of subsearches of one command.
const SUBSEARCHES_MAX: usize = 16;

/// A command in which subsearches replace parts of the text. It is parsed after their results are substituted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubstitutionCommand {
    /// Text before, between and after the subsearches.
    pub pieces: Vec<String>,
    /// The subsearches, one fewer than the pieces.
    pub subsearches: Vec<Pipeline>,
    /// Whether the command begins a search.
    pub first: bool,
    /// The commands that result from parsing with simple words in place of the subsearches.
    pub shape: Vec<Command>,
}

impl SubstitutionCommand {
    /// Description of a command that has no name in searches.
    pub(super) const INFO: CommandInfo =
        CommandInfo { group: Group::Rows, kind: Kind::Blocking, ..CommandInfo::DEFAULT };
}

impl Semantics for SubstitutionCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        // The results of the subsearches may name any field.
        after.all = true;
        after
    }

    fn begins_with(&self) -> Beginning<'_> {
        self.shape.first().map_or(Beginning::Rows, Command::begins_with)
    }

    fn placeholder_commands(&self) -> &[Command] {
        &self.shape
    }

    fn returns_table(&self, _: bool) -> bool {
        self.shape.iter().any(|command| command.returns_table())
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        self.subsearches.iter().collect()
    }
}

impl Parser<'_> {
    /// Parses the command from `start` to the end of the stage with its subsearches replaced by simple words. If this
    /// succeeds, diagnostics since `checkpoint` are discarded.
    pub(crate) fn parse_with_placeholders(
        &mut self,
        start: usize,
        implicit: bool,
        first: bool,
        checkpoint: (usize, usize),
    ) -> Option<Command> {
        let places = self.brackets(start);
        self.pos = start;
        if self.item_in_brackets(start).is_some() {
            return None;
        }
        if places.is_empty() || places.len() > SUBSEARCHES_MAX || TEMPLATES.contains(&self.peek_name()) {
            return None;
        }
        let mut pieces = Vec::with_capacity(places.len() + 1);
        let mut at = start;
        for place in &places {
            pieces.push(self.text[at..place.start].to_owned());
            at = place.end;
        }
        pieces.push(self.text[at..self.end].to_owned());
        if implicit && let Some(begin) = pieces.first_mut() {
            begin.insert_str(0, "search ");
        }
        let shape = PLACEHOLDERS.iter().find_map(|word| {
            let parsed = parse_commands(&pieces.join(word), first, &self.custom);
            let sound = parsed.unsupported.is_empty() && parsed.is_ok();
            let commands: Vec<_> = parsed.pipeline.commands.into_iter().map(|stage| stage.command).collect();
            (sound && !commands.is_empty()).then_some(commands)
        })?;
        self.roll_back_to(checkpoint);
        let mut subsearches = Vec::with_capacity(places.len());
        for place in places {
            self.pos = place.start;
            let read = self.subsearch();
            subsearches.push(self.recover(read)?);
        }
        Some(Command::Substitution(SubstitutionCommand { pieces, subsearches, first, shape }))
    }

    /// An error for a name that ends in brackets, such as `g[0]`: the result of a subsearch would replace the brackets.
    /// The user probably means an item of a multivalue field, or a name with brackets.
    pub(crate) fn item_in_brackets(&self, start: usize) -> Option<Diagnostic> {
        let command = &self.text[start..self.end];
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '{' | '}' | '\'');
        let name_of_command = command.find(|c: char| !is_name(c)).unwrap_or(command.len());
        self.brackets(start).into_iter().find_map(|place| {
            let before = &self.text[start..place.start];
            let name = &before[before.trim_end_matches(is_name).len()..];
            let inner = self.text[place.start + 1..place.end - 1].trim();
            let is_item = inner.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '*' | '"' | ':'));
            let behind = self.text[place.end..self.end].trim_start();
            let is_assigned = behind.starts_with('=') && !behind.starts_with("==");
            if name.is_empty() || before.len() <= name_of_command || !(is_item || is_assigned) {
                return None;
            }
            let span = Span { start: place.start - name.len(), end: place.end };
            let (name, shown) = (excerpt(name), excerpt(&self.text[span.start..span.end]));
            let remark = Diagnostic::error(format!("`{shown}` is not a field: brackets are for subsearches"), span);
            Some(remark.with_hint(format!(
                "write mvindex({name}, 0) for one value of a multivalue field, \"{shown}\" for a name with brackets"
            )))
        })
    }

    /// Positions of the outermost `[...]` of the command, outside quotes.
    fn brackets(&self, start: usize) -> Vec<Span> {
        let (mut places, mut open, mut begin) = (Vec::new(), 0usize, 0);
        for (at, mark) in Marks::of(&self.text[start..self.end]) {
            match mark {
                b'[' => {
                    if open == 0 {
                        begin = start + at;
                    }
                    open += 1;
                }
                b']' if open > 0 => {
                    open -= 1;
                    if open == 0 {
                        places.push(Span { start: begin, end: start + at + 1 });
                    }
                }
                _ => {}
            }
        }
        if open > 0 { Vec::new() } else { places }
    }
}

impl SubstitutionCommand {
    /// The command's text, with `texts` in place of the subsearches.
    pub fn with_texts(&self, texts: &[String]) -> String {
        let is_search = self.pieces.first().is_some_and(|begin| begin.trim_start().starts_with("search "));
        let mut command = String::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            command.push_str(piece);
            let text = texts.get(at).map_or("", String::as_str);
            // `user=[... | return user]` gives `user=user="eva"`, which means `user=(user="eva")`.
            if is_search && piece.trim_end().ends_with(['=', '<', '>']) && text.contains('=') {
                command.push_str(&format!("({text})"));
            } else {
                command.push_str(text);
            }
        }
        command
    }
}
