//! Pipelines: finding the end of a command, its name, and subsearches.
//!
//! A command ends at the next `|` or `]` outside quotes and brackets. Commands with errors are dropped from the
//! pipeline with a diagnostic.

use super::cursor::{ParseResult, Parser};
use super::{MAX_COMMANDS, MAX_NAMES, MAX_SUBSEARCH_DEPTH, Marks};
use crate::ast::{Command, CustomCommand, Pipeline, Span, Stage};
use crate::commands::{
    Call, Syntax, UNSUPPORTED_COMMANDS, entry, help, help_of, is_command, set_words, unsupported_hint,
};
use crate::diagnostic::Diagnostic;
use crate::functions::stats_function;
use crate::missing_pipe::inner_command;

/// Commands that generate rows and whose names are unlikely search terms.
const GENERATING: &[&str] =
    &["dbinspect", "gentimes", "inputlookup", "loadjob", "makeresults", "multisearch", "rest", "tstats"];

/// Prefix of the diagnostic for an unknown command.
pub(crate) const UNKNOWN_COMMAND: &str = "unknown command";

/// Maximum number of subsearches of one command.
const SUBSEARCHES_MAX: usize = 100;
/// Maximum length in characters of a command that a hint repeats.
const REST_CHARS_MAX: usize = 60;

impl Parser<'_> {
    /// Parses the whole text as one search.
    pub(crate) fn whole_search(&mut self) -> Pipeline {
        if self.is_empty_search() {
            let hint = "write `*` to select every event";
            self.report(Diagnostic::error("the search is empty", self.here()).with_hint(hint));
        }
        self.pos = 0;
        self.pipeline()
    }

    /// Whether the whole text has no command.
    fn is_empty_search(&self) -> bool {
        let is_blank = |c: char| c.is_whitespace() || c == '|';
        self.macros.is_empty() && self.text.chars().all(is_blank)
    }

    /// Parses commands up to the end of the text or of the subsearch.
    pub(crate) fn pipeline(&mut self) -> Pipeline {
        let start = self.pos;
        let implicit = !self.eat('|');
        let mut pipeline = self.commands(implicit, true);
        pipeline.span.start = start;
        pipeline
    }

    /// Parses commands. `implicit` says that `search` may be omitted in front of them, `first` that they begin a
    /// search.
    pub(crate) fn commands(&mut self, mut implicit: bool, mut first: bool) -> Pipeline {
        let outer_end = self.end;
        let start = self.pos;
        let mut commands = Vec::new();
        while self.pos <= outer_end {
            let stop = self.boundary(true);
            self.end = stop;
            let depth = self.depth;
            self.commands_read += 1;
            if self.commands_read > MAX_COMMANDS {
                let message = format!("more than the limit of {MAX_COMMANDS} commands");
                self.report(Diagnostic::error(message, self.here()));
                self.pos = outer_end;
                self.end = outer_end;
                break;
            }
            commands.extend(self.stage(implicit, first, outer_end).unwrap_or_default());
            self.depth = depth;
            self.pos = stop;
            self.end = outer_end;
            if !self.next_stage() {
                break;
            }
            (implicit, first) = (false, false);
        }
        set_words(&mut commands);
        drop_leading_noops(&mut commands);
        Pipeline { commands, span: self.since(start) }
    }

    /// Skips the `|` before the next command; reports unmatched brackets on the way.
    fn next_stage(&mut self) -> bool {
        loop {
            match self.peek() {
                Some('|') => {
                    self.bump();
                    return true;
                }
                Some(']') => {
                    self.report(Diagnostic::error("this `]` has no `[`", self.here()).with_hint("remove it"));
                    self.bump();
                    self.pos = self.boundary(true);
                }
                _ => return false,
            }
        }
    }

    /// Position of the next `]`, or with `at_pipe` of the next `|` or `]`, outside quotes and inner brackets; the end
    /// if there is none.
    pub(crate) fn boundary(&self, at_pipe: bool) -> usize {
        let mut open = 0usize;
        for (at, mark) in Marks::of(self.rest()) {
            match mark {
                b'[' => open += 1,
                b']' if open > 0 => open -= 1,
                b']' => return self.pos + at,
                _ if open == 0 && at_pipe => return self.pos + at,
                _ => {}
            }
        }
        self.end
    }

    /// Parses one command between pipes; returns several if it is rewritten.
    fn stage(&mut self, implicit: bool, first: bool, outer_end: usize) -> Option<Vec<Stage>> {
        let opened = self.pos;
        self.skip_blank();
        let start = self.pos;
        let begins_with_macro = self.has_macro(opened, start);
        let implicit = implicit && !self.at_command() && (begins_with_macro || !self.at_bare_word());
        if self.accepts_unknown_macros && begins_with_macro && !implicit {
            return None;
        }
        if self.at_end() {
            let explained = self.has_macro(self.stage_start().saturating_sub(1), self.end);
            let reported = first && self.is_empty_search();
            // As in Splunk, a trailing `|` ends the search.
            let last = !first && self.end >= outer_end;
            if !explained && !reported && !last {
                let is_or = self.text[..self.end].ends_with('|') && self.text[self.end..].starts_with('|');
                let hint = if is_or { "write OR: each `|` begins a command" } else { "remove the `|`" };
                self.report(Diagnostic::error("a command is missing here", self.here()).with_hint(hint));
            }
            return None;
        }
        if implicit {
            self.warn_missing_pipe();
        }
        let checkpoint = self.checkpoint();
        let read = if implicit { self.search_stage(first) } else { self.named_command(first) };
        let read = read.map_err(|remark| self.item_in_brackets(start).unwrap_or(remark));
        if read.is_err()
            && let Some(command) = self.parse_with_placeholders(start, implicit, first, checkpoint)
        {
            return Some(self.finish_stage(vec![command], start));
        }
        if read.is_err()
            && implicit
            && let Some(commands) = self.parse_without_pipe(start, first, checkpoint)
        {
            return Some(self.finish_stage(commands, start));
        }
        if read.is_err() && self.has_unknown_macro(opened, self.end) {
            return None;
        }
        let commands = self.recover(read.map_err(|remark| self.with_syntax_hint(remark, start, implicit)))??;
        Some(self.finish_stage(commands, start))
    }

    /// Ends a stage and gives all its commands the position of the whole stage.
    fn finish_stage(&mut self, commands: Vec<Command>, start: usize) -> Vec<Stage> {
        self.pos = self.end;
        let span = self.since(start);
        commands.into_iter().map(|command| Stage { command, span }).collect()
    }

    /// Adds a hint to a command's error: the missing pipe if a pipe is missing, or else the command's syntax.
    fn with_syntax_hint(&self, remark: Diagnostic, start: usize, implicit: bool) -> Diagnostic {
        let stage = Span { start, end: self.end };
        if let Some(inner) = inner_command(self.text, stage).filter(|inner| remark.span.start >= inner.span.start) {
            return remark.with_hint(inner.hint());
        }
        let text = &self.text[start..self.end];
        let name = text[..text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())].to_lowercase();
        match help_of(&name) {
            Some(row) if !implicit && remark.hint.is_none() && !matches!(row.name, "eval" | "where") => {
                remark.with_hint(format!("write `{}`", row.syntax))
            }
            _ => remark,
        }
    }

    /// First byte after the `|` or `[` before the command being read.
    pub(crate) fn stage_start(&self) -> usize {
        self.text[..self.pos].rfind(['|', '[']).map_or(0, |at| at + 1)
    }

    /// Whether a search without leading `|` starts with a command name. Outside of subsearches, only `search` counts.
    fn at_command(&mut self) -> bool {
        let name = self.peek_name().to_ascii_lowercase();
        let rest = &self.rest()[name.len().min(self.rest().len())..];
        let alone = rest.is_empty() || rest.starts_with(|c: char| c.is_whitespace() || matches!(c, '(' | '"' | '['));
        let operator = rest.trim_start().starts_with(['=', '!', '<', '>']);
        let known = name == "search"
            || (self.subsearches > 0
                && (is_command(&name) || unsupported_hint(&name).is_some() || self.custom.contains(&name)));
        alone && !operator && known
    }

    /// Whether a subsearch without leading `|` starts with a word without a comparison operator. As in Splunk, that
    /// word is a command, known or not, and never a search term.
    fn at_bare_word(&self) -> bool {
        let rest = self.rest();
        let name = self.peek_name();
        if self.subsearches == 0 || name.is_empty() || name == "NOT" {
            return false;
        }
        let is_call = rest[name.len()..].starts_with('(') && matches!(name, "TERM" | "CASE");
        let word = rest.split(|c: char| c.is_whitespace() || c == '|').next().unwrap_or_default();
        let behind = rest[word.len()..].trim_start();
        let in_list = behind.get(..2).is_some_and(|next| next.eq_ignore_ascii_case("in"))
            && behind[2..].trim_start().starts_with('(');
        let is_compared =
            word.contains(['=', '<', '>']) || word.contains("::") || behind.starts_with(['=', '!', '<', '>']);
        !is_call && !in_list && !is_compared
    }

    /// Warns of a search for a word such as `makeresults` if the command was probably meant.
    fn warn_missing_pipe(&mut self) {
        let name = self.peek_name();
        if GENERATING.contains(&name) && !self.rest()[name.len()..].trim_start().starts_with(['=', '!']) {
            let span = Span { start: self.pos, end: self.pos + name.len() };
            let remark = Diagnostic::warning(format!("`{name}` is searched for as a word"), span);
            self.report(remark.with_hint(format!("write `| {name}` for the command")));
        }
    }

    /// Parses text that is invalid as a search but begins with a command, such as the second half of a search that a
    /// dashboard appends to another.
    fn parse_without_pipe(&mut self, start: usize, first: bool, checkpoint: (usize, usize)) -> Option<Vec<Command>> {
        let after = self.checkpoint();
        let place = std::mem::replace(&mut self.pos, start);
        let name = self.peek_name();
        if is_command(&name.to_ascii_lowercase())
            && let Ok(Some(commands)) = self.named_command(first)
            && self.checkpoint() == after
        {
            self.roll_back_to(checkpoint);
            let span = Span { start, end: start + name.len() };
            let remark = Diagnostic::warning(format!("`{name}` is read as the command"), span);
            self.report(remark.with_hint(format!("write `| {name}`")));
            return Some(commands);
        }
        self.roll_back_to(after);
        self.pos = place;
        None
    }

    fn search_stage(&mut self, first: bool) -> ParseResult<Option<Vec<Command>>> {
        let command = self.search_command(first)?;
        self.expect_end("search")?;
        Ok(Some(vec![command.into()]))
    }

    fn named_command(&mut self, first: bool) -> ParseResult<Option<Vec<Command>>> {
        let start = self.pos;
        let written = self.peek_name();
        if written.is_empty() {
            return Err(Diagnostic::error(format!("expected a command, found {}", self.found_text()), self.here()));
        }
        self.pos += written.len();
        let name = written.to_ascii_lowercase();
        let commands = self.arguments_of(&name, first)?;
        if commands.is_none() {
            self.report_unknown_command(&name, self.since(start));
        }
        Ok(commands)
    }

    /// Parses the arguments of the command of this lower-case name, if there is one.
    pub(crate) fn arguments_of(&mut self, name: &str, is_first: bool) -> ParseResult<Option<Vec<Command>>> {
        let call = Call { name, is_first };
        let start = self.pos;
        // The names in a subsearch do not count for the command that contains it, which goes on after the subsearch.
        let outer = std::mem::take(&mut self.names_read);
        let commands = match entry(name) {
            Some(entry) => (entry.parse)(self, call)?,
            None if self.custom.contains(name) => vec![CustomCommand::parse(self, call)?.into()],
            None => return Ok(None),
        };
        self.expect_end(name)?;
        let names = std::mem::replace(&mut self.names_read, outer);
        if names > MAX_NAMES {
            let message = format!("{name}: more than the limit of {MAX_NAMES} names of fields in one command");
            return Err(Diagnostic::error(message, self.since(start)).with_hint("divide it into several commands"));
        }
        Ok(Some(commands))
    }

    fn report_unknown_command(&mut self, name: &str, span: Span) {
        self.report_unsupported(format!("command:{name}"));
        let remark = if let Some(reason) = unsupported_hint(name) {
            let remark = Diagnostic::error(format!("unsupported: command `{name}`"), span);
            if reason.is_empty() { remark } else { remark.with_hint(reason) }
        } else if let Some(hint) = crate::foreign_words::command(name) {
            let count =
                self.rest().split_whitespace().next().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
            let hint = count.map_or_else(|| hint.to_owned(), |count| hint.replace("head 10", &format!("head {count}")));
            Diagnostic::error(format!("{UNKNOWN_COMMAND} `{name}`"), span).with_hint(hint)
        } else if stats_function(name).is_some() {
            let remark = Diagnostic::error(format!("{UNKNOWN_COMMAND} `{name}`: it is an aggregate"), span);
            let rest: String = self.rest().trim_end().chars().take(REST_CHARS_MAX).collect();
            remark.with_hint(format!("write `stats {name}{rest}`"))
        } else {
            let known = help().iter().map(|row| row.name).chain(UNSUPPORTED_COMMANDS.iter().map(|(name, _)| *name));
            let known = known.chain(self.custom.iter().map(String::as_str));
            let remark = self.suggest(Diagnostic::error(format!("{UNKNOWN_COMMAND} `{name}`"), span), name, known);
            let before = self.text[..span.start].trim_end();
            let begins_subsearch = self.subsearches > 0 && (before.is_empty() || before.ends_with('['));
            match remark.hint {
                Some(_) => remark,
                None if begins_subsearch => {
                    remark.with_hint(format!(
                        "a search in brackets begins with a command: write `search {name}` for the word, or quote a text with brackets"
                    ))
                }
                // A search begins with a command if it is sent over REST or if its first character is `|`.
                None if before == "|" => remark.with_hint(format!(
                    "write `search {name}` for events with this word: a search begins with a command here, and no command has this name"
                )),
                // The name is probably not misspelt: some app that is not installed may declare the command.
                None => remark.with_hint(
                    "no app declares a command of this name in commands.conf; `quarry help` lists the built-in ones",
                ),
            }
        };
        self.report(remark);
    }

    /// Parses `[ SEARCH ]`.
    pub(crate) fn subsearch(&mut self) -> ParseResult<Pipeline> {
        self.expect('[', "before a subsearch")?;
        let open = Span { start: self.pos - 1, end: self.pos };
        let close = self.boundary(false);
        if close >= self.end {
            return Err(Diagnostic::error("this `[` is never closed", open).with_hint("add `]`"));
        }
        if self.subsearches >= MAX_SUBSEARCH_DEPTH {
            let message = format!("subsearches nested deeper than the limit of {MAX_SUBSEARCH_DEPTH}");
            return Err(Diagnostic::error(message, open));
        }
        self.parse_nested(|parser| {
            parser.subsearches += 1;
            let outer_end = std::mem::replace(&mut parser.end, close);
            let pipeline = parser.pipeline();
            parser.end = outer_end;
            parser.pos = close + 1;
            parser.subsearches -= 1;
            Ok(pipeline)
        })
    }

    /// Parses subsearches up to the end of the command, or whatever `dataset` reads instead.
    pub(crate) fn subsearches(
        &mut self,
        command: &str,
        least: usize,
        dataset: fn(&mut Self) -> ParseResult<Option<Pipeline>>,
    ) -> ParseResult<Vec<Pipeline>> {
        let mut subsearches = Vec::new();
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if let Some(dataset) = dataset(self)? {
                subsearches.push(dataset);
                continue;
            }
            if self.peek() != Some('[') {
                let remark =
                    Diagnostic::error(format!("{command}: expected `[`, found {}", self.found_text()), self.here());
                return Err(remark.with_hint("write a subsearch in brackets; union also takes `datamodel:NAME`, `lookup:NAME`, `savedsearch:NAME`"));
            }
            if subsearches.len() >= SUBSEARCHES_MAX {
                let message = format!("{command}: more than the limit of {SUBSEARCHES_MAX} subsearches");
                return Err(Diagnostic::error(message, self.here()));
            }
            subsearches.push(self.subsearch()?);
        }
        if subsearches.len() < least {
            let message = format!("{command}: at least {least} subsearches are needed");
            let remark = Diagnostic::error(message, self.here());
            return Err(remark.with_hint(format!("write `{command} [ search ... ] [ search ... ]`")));
        }
        Ok(subsearches)
    }
}

/// Removes commands without effect from the front: `| localop | rest ...` begins with `rest`.
fn drop_leading_noops(commands: &mut Vec<Stage>) {
    let is_idle = |stage: &Stage| matches!(stage.command, Command::Noop(_));
    let idle = commands.iter().take_while(|stage| is_idle(stage)).count();
    if idle < commands.len() {
        commands.drain(..idle);
    }
}
