//! Commands that choose, order and name rows and fields: sort, head, tail, dedup, top, table, fields, rename and kin.

use super::cursor::{Parser, Read, Word};
use super::options::Known;
use crate::ast::{
    Command, DedupCommand, FieldPattern, FillNullCommand, HeadCommand, SortCommand, SortKey, SortKind, TopCommand,
};
use crate::diagnostic::Diagnostic;

/// Rows `sort` keeps when no number is given.
const DEFAULT_SORT_LIMIT: usize = 10_000;
/// Rows `head`, `tail`, `top` and `rare` keep when no number is given.
const DEFAULT_ROWS: usize = 10;

const HEAD: Known = Known { command: "head", names: &["limit", "null", "keeplast"], ignored: &[] };
const DEDUP: Known = Known { command: "dedup", names: &["keepevents", "keepempty", "consecutive"], ignored: &[] };
const TOP: Known = Known {
    command: "top",
    names: &["limit", "showcount", "showperc", "countfield", "percentfield", "useother", "otherstr"],
    ignored: &[],
};
const RARE: Known = Known {
    command: "rare",
    names: &["limit", "showcount", "showperc", "countfield", "percentfield", "useother", "otherstr"],
    ignored: &[],
};
const FILLNULL: Known = Known { command: "fillnull", names: &["value"], ignored: &[] };

impl Parser<'_> {
    /// The command of this name, or `None` when there is no such command.
    pub(crate) fn row_command(&mut self, name: &str) -> Read<Option<Command>> {
        let command = match name {
            "table" => Command::Table(self.field_list("table")?),
            "fields" => self.fields()?,
            "rename" => self.rename()?,
            "sort" => self.sort()?,
            "head" => self.head()?,
            "tail" => Command::Tail(self.row_count("tail")?.unwrap_or(DEFAULT_ROWS)),
            "reverse" => Command::Reverse,
            "dedup" => self.dedup()?,
            "top" => Command::Top(self.top(TOP)?),
            "rare" => Command::Rare(self.top(RARE)?),
            "fillnull" => self.fillnull()?,
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    /// Field names up to the end of the command; at least one.
    pub(crate) fn field_list(&mut self, command: &str) -> Read<Vec<FieldPattern>> {
        let mut fields = Vec::new();
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            fields.push(self.expect_field("a field name")?.field());
        }
        if fields.is_empty() {
            return Err(Diagnostic::error(format!("{command}: no field is given"), self.here()));
        }
        Ok(fields)
    }

    fn fields(&mut self) -> Read<Command> {
        self.skip_blank();
        let remove = self.peek() == Some('-');
        if remove || self.peek() == Some('+') {
            self.bump();
        }
        self.skip_blank();
        // No field at all keeps none, which `stats count | fields | eval …` makes a row to fill of.
        let fields = if !remove && self.at_end() { Vec::new() } else { self.field_list("fields")? };
        Ok(if remove { Command::FieldsRemove(fields) } else { Command::FieldsKeep(fields) })
    }

    fn rename(&mut self) -> Read<Command> {
        let mut pairs = Vec::new();
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            let from = self.expect_field("a field to rename")?.field();
            // Splunk's usage message lists TO and `->` beside AS.
            if !self.eat_keyword("as") && !self.eat_keyword("to") && !self.eat_arrow() {
                let message = format!("rename: expected AS after `{}`, found {}", from.text, self.found());
                return Err(Diagnostic::error(message, self.here()).with_hint("write `rename old AS new`"));
            }
            let to = self.expect_field("a new name after AS")?.field();
            let stars = |pattern: &FieldPattern| pattern.text.matches('*').count();
            // The new name of one field is taken as it is.
            if stars(&from) > 0 && stars(&from) != stars(&to) {
                let message = format!("rename: `{}` and `{}` differ in their number of `*`", from.text, to.text);
                return Err(Diagnostic::error(message, to.span));
            }
            pairs.push((from, to));
        }
        if pairs.is_empty() {
            return Err(
                Diagnostic::error("rename: no field is given", self.here()).with_hint("write `rename old AS new`")
            );
        }
        Ok(Command::Rename(pairs))
    }

    /// Steps over `->`.
    fn eat_arrow(&mut self) -> bool {
        self.skip_blank();
        let is_arrow = self.rest().starts_with("->");
        if is_arrow {
            self.pos += "->".len();
        }
        is_arrow
    }

    // ---- sort -----------------------------------------------------------------------------------------------------

    fn sort(&mut self) -> Read<Command> {
        let mut limit = self.whole_number();
        let known = Known { command: "sort", names: &["limit"], ignored: &[] };
        while let Some(option) = self.option(known)? {
            limit = Some(option.number()?);
        }
        let (keys, reverse) = self.sort_keys("sort")?;
        while let Some(option) = self.option(known)? {
            limit = Some(option.number()?);
        }
        Ok(Command::Sort(SortCommand { limit: limit.unwrap_or(DEFAULT_SORT_LIMIT), keys, reverse }))
    }

    /// Keys to the end of the command, and whether a trailing `desc` turns the order around.
    ///
    /// A sign joined to a field is that field's; a sign standing alone holds for the fields after it.
    fn sort_keys(&mut self, command: &str) -> Read<(Vec<SortKey>, bool)> {
        let mut keys: Vec<SortKey> = Vec::new();
        let mut descending_after = false;
        loop {
            self.skip_separators();
            if self.at_end() || self.peek_option().is_some() {
                break;
            }
            let mut descending = descending_after;
            if let Some(sign @ ('-' | '+')) = self.peek() {
                self.bump();
                descending = sign == '-';
                if self.peek().is_some_and(|c| c.is_whitespace() || c == ',') {
                    descending_after = descending;
                    continue;
                }
            }
            if !keys.is_empty() && matches!(self.rest().trim(), "d" | "desc") {
                self.pos = self.end;
                return Ok((keys, true));
            }
            let (field, kind) = self.sort_field()?;
            keys.push(SortKey { field, descending, kind });
        }
        if keys.is_empty() {
            return Err(Diagnostic::error(format!("{command}: no field to sort by"), self.here()));
        }
        Ok((keys, false))
    }

    /// `field` or `num(field)`.
    fn sort_field(&mut self) -> Read<(FieldPattern, SortKind)> {
        for (name, kind) in
            [("auto", SortKind::Auto), ("num", SortKind::Num), ("ip", SortKind::Ip), ("str", SortKind::Str)]
        {
            let place = self.pos;
            if self.peek_name().eq_ignore_ascii_case(name) {
                self.pos += name.len();
                if self.eat('(') {
                    let field = self.sort_argument()?;
                    self.expect(')', "after the field")?;
                    return Ok((field, kind));
                }
            }
            self.pos = place;
        }
        Ok((self.expect_field("a field to sort by")?.field(), SortKind::Auto))
    }

    fn sort_argument(&mut self) -> Read<FieldPattern> {
        self.skip_blank();
        if let Some(word) = self.quoted().or_else(|| self.single_quoted()) {
            return Ok(word.field());
        }
        let start = self.pos;
        let rest = self.rest();
        self.pos += rest.find(')').unwrap_or(rest.len());
        let span = self.since(start);
        if span.start == span.end {
            return Err(Diagnostic::error("sort: a field is missing in the parentheses", self.here()));
        }
        Ok(Word { text: self.text[span.start..span.end].to_owned(), quoted: false, span }.field())
    }

    // ---- head, dedup, top, fillnull -------------------------------------------------------------------------------

    fn head(&mut self) -> Read<Command> {
        let mut command = HeadCommand { limit: None, condition: None, null_is_true: false, keep_last: false };
        loop {
            while let Some(name) = self.peek_option().map(str::to_ascii_lowercase) {
                if !HEAD.names.contains(&name.as_str()) {
                    break;
                }
                let option = self.read_option()?;
                match name.as_str() {
                    "limit" => command.limit = Some(option.number()?),
                    "null" => command.null_is_true = option.boolean()?,
                    _ => command.keep_last = option.boolean()?,
                }
            }
            if self.at_end() {
                break;
            }
            match self.row_count("head")? {
                Some(limit) if command.limit.is_none() => command.limit = Some(limit),
                None if command.condition.is_none() => command.condition = Some(self.expression()?),
                _ => return Err(Diagnostic::error(format!("head: unexpected {}", self.found()), self.here())),
            }
        }
        if command.limit.is_none() && command.condition.is_none() {
            command.limit = Some(DEFAULT_ROWS);
        }
        Ok(Command::Head(command))
    }

    /// A number of rows, where one stands next; a negative one is refused, which would be read as something else.
    fn row_count(&mut self, command: &str) -> Read<Option<usize>> {
        self.skip_blank();
        let start = self.pos;
        if self.eat('-') {
            let is_number = self.whole_number().is_some();
            let place = self.since(start);
            self.pos = start;
            if is_number {
                let remark = Diagnostic::error(format!("{command}: a number of rows cannot be negative"), place);
                return Err(remark.with_hint("write it without the minus"));
            }
        }
        Ok(self.whole_number())
    }

    fn dedup(&mut self) -> Read<Command> {
        let mut command = DedupCommand {
            count: 1,
            fields: Vec::new(),
            keep_events: false,
            keep_empty: false,
            consecutive: false,
            sort_by: Vec::new(),
        };
        self.skip_blank();
        let number = self.here();
        if let Some(count) = self.row_count("dedup")? {
            if count == 0 {
                return Err(Diagnostic::error("dedup: the number must be at least 1", number));
            }
            command.count = count;
        }
        loop {
            while let Some(option) = self.option(DEDUP)? {
                match option.name.as_str() {
                    "keepevents" => command.keep_events = option.boolean()?,
                    "keepempty" => command.keep_empty = option.boolean()?,
                    _ => command.consecutive = option.boolean()?,
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.eat_keyword("sortby") {
                (command.sort_by, _) = self.sort_keys("dedup")?;
            } else {
                command.fields.push(self.expect_field("a field")?.field());
            }
        }
        if command.fields.is_empty() {
            return Err(Diagnostic::error("dedup: no field is given", self.here()));
        }
        Ok(Command::Dedup(command))
    }

    fn top(&mut self, known: Known) -> Read<TopCommand> {
        let mut command = TopCommand {
            limit: self.row_count(known.command)?.unwrap_or(DEFAULT_ROWS),
            fields: Vec::new(),
            by: Vec::new(),
            show_count: true,
            show_percent: true,
            count_field: "count".to_owned(),
            percent_field: "percent".to_owned(),
            use_other: false,
            other_name: "OTHER".to_owned(),
        };
        loop {
            while let Some(option) = self.option(known)? {
                match option.name.as_str() {
                    "limit" => command.limit = option.number()?,
                    "showcount" => command.show_count = option.boolean()?,
                    "showperc" => command.show_percent = option.boolean()?,
                    "countfield" => command.count_field = option.value,
                    "percentfield" => command.percent_field = option.value,
                    "useother" => command.use_other = option.boolean()?,
                    _ => command.other_name = option.value,
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.eat_keyword("by") {
                command.by = self.by_fields(known)?;
            } else {
                command.fields.push(self.expect_field("a field")?.field());
            }
        }
        if command.fields.is_empty() {
            return Err(Diagnostic::error(format!("{}: no field is given", known.command), self.here()));
        }
        Ok(command)
    }

    fn fillnull(&mut self) -> Read<Command> {
        let mut command = FillNullCommand { value: "0".to_owned(), fields: Vec::new() };
        loop {
            while let Some(option) = self.option(FILLNULL)? {
                command.value = option.value;
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            command.fields.push(self.expect_field("a field")?.field());
        }
        Ok(Command::FillNull(command))
    }
}
