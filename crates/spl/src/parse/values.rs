//! Commands that rewrite values row by row: convert, filldown, strcat, replace, rangemap, nomv, fieldformat, setfields.

use super::cursor::{Parser, Read, Word};
use super::options::Known;
use crate::ast::{
    AssignTarget, Conversion, ConvertCommand, ConvertFunction, FieldFormatCommand, FieldPattern, RangeMapCommand,
    ReplaceCommand, StrcatCommand, StrcatSource, ValuesCommand,
};
use crate::diagnostic::Diagnostic;

/// Format of dates that convert reads and writes when none is given.
const TIME_FORMAT: &str = "%m/%d/%Y %H:%M:%S";
/// What rangemap writes where no range fits.
const NO_RANGE: &str = "None";

const CONVERT: Known = Known { command: "convert", names: &["timeformat"], ignored: &[] };
const STRCAT: Known = Known { command: "strcat", names: &["allrequired"], ignored: &[] };

/// Functions of convert by name.
const CONVERSIONS: &[(&str, ConvertFunction)] = &[
    ("auto", ConvertFunction::Auto),
    ("ctime", ConvertFunction::CTime),
    ("dur2sec", ConvertFunction::Dur2Sec),
    ("memk", ConvertFunction::MemK),
    ("mktime", ConvertFunction::MkTime),
    ("mstime", ConvertFunction::MsTime),
    ("none", ConvertFunction::None),
    ("num", ConvertFunction::Num),
    ("rmcomma", ConvertFunction::RmComma),
    ("rmunit", ConvertFunction::RmUnit),
];

/// Commands that act outside the rows in a way that is not there, or only prepare rows for being shown; each with what
/// the user is told.
const TOLD: &[(&str, &str)] = &[
    ("abstract", "texts are not shortened"),
    ("excerpt", "texts are not shortened"),
    ("geom", "shapes of maps are not added"),
    ("rtorder", "rows are not held back to order them"),
    ("sendemail", "searches send no mail"),
];

impl Parser<'_> {
    /// The command of this name, or `None` when it is none of this family.
    pub(crate) fn values_command(&mut self, name: &str) -> Read<Option<ValuesCommand>> {
        let command = match name {
            "convert" => ValuesCommand::Convert(self.convert()?),
            "filldown" => ValuesCommand::FillDown(self.fields_to_end()?),
            "strcat" => ValuesCommand::Strcat(self.strcat()?),
            "replace" => ValuesCommand::Replace(self.replace()?),
            "rangemap" => ValuesCommand::RangeMap(self.rangemap()?),
            "nomv" => ValuesCommand::NoMv(self.expect_field("a field")?.text),
            "fieldformat" => ValuesCommand::FieldFormat(self.fieldformat()?),
            "addinfo" => ValuesCommand::AddInfo,
            "setfields" => ValuesCommand::SetFields(self.setfields()?),
            "noop" | "localop" | "highlight" | "iconify" | "redistribute" => {
                self.pos = self.end;
                ValuesCommand::Pass
            }
            _ => match TOLD.iter().find(|(told, _)| *told == name) {
                Some((_, remark)) => {
                    let span = self.since(self.pos - name.len());
                    self.pos = self.end;
                    self.report(Diagnostic::warning(format!("{name}: {remark}; rows pass as they are"), span));
                    ValuesCommand::Pass
                }
                None => return Ok(None),
            },
        };
        Ok(Some(command))
    }

    /// Field names up to the end of the command; perhaps none.
    pub(crate) fn fields_to_end(&mut self) -> Read<Vec<FieldPattern>> {
        let mut fields = Vec::new();
        loop {
            self.skip_separators();
            if self.at_end() {
                return Ok(fields);
            }
            fields.push(self.expect_field("a field name")?.field());
        }
    }

    // ---- convert --------------------------------------------------------------------------------------------------

    fn convert(&mut self) -> Read<ConvertCommand> {
        let mut command = ConvertCommand { time_format: TIME_FORMAT.to_owned(), conversions: Vec::new() };
        loop {
            while let Some(option) = self.option(CONVERT)? {
                command.time_format = option.value;
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            command.conversions.push(self.conversion()?);
        }
        if command.conversions.is_empty() {
            let remark = Diagnostic::error("convert: no conversion is given", self.here());
            return Err(remark.with_hint("write `convert ctime(field)`"));
        }
        Ok(command)
    }

    /// `function(field) [AS new]`.
    fn conversion(&mut self) -> Read<Conversion> {
        let start = self.pos;
        let written = self.peek_name();
        self.pos += written.len();
        let known = CONVERSIONS.iter().find(|(name, _)| written.eq_ignore_ascii_case(name));
        let Some((name, function)) = known else {
            let span = if written.is_empty() { self.here() } else { self.since(start) };
            let message = match written {
                "" => format!("convert: expected a function, found {}", self.found()),
                written => format!("convert: unknown function `{written}`"),
            };
            let names = CONVERSIONS.iter().map(|(name, _)| *name);
            return Err(self.suggest(Diagnostic::error(message, span), written, names));
        };
        let field = self.converted_field(start, name)?;
        let output = if self.eat_keyword("as") { Some(self.expect_field("a name after AS")?.field()) } else { None };
        if let Some(output) = &output {
            let stars = |pattern: &FieldPattern| pattern.text.matches('*').count();
            if stars(&field) != stars(output) {
                let message = format!("convert: `{}` and `{}` differ in their number of `*`", field.text, output.text);
                return Err(Diagnostic::error(message, output.span));
            }
        }
        Ok(Conversion { function: *function, field, output })
    }

    /// What is in the parentheses of a conversion; without them, or with nothing in them, every field.
    fn converted_field(&mut self, start: usize, name: &str) -> Read<FieldPattern> {
        let all = |parser: &Self| FieldPattern { text: "*".to_owned(), span: parser.since(start) };
        if !self.eat('(') {
            if name == "auto" && (self.at_end() || self.peek().is_some_and(|next| next.is_whitespace() || next == ','))
            {
                return Ok(all(self));
            }
            self.expect('(', &format!("after `{name}`"))?;
        }
        self.skip_blank();
        if self.eat(')') { Ok(all(self)) } else { self.field_in_parentheses("convert") }
    }

    /// A field up to the closing parenthesis, and this.
    fn field_in_parentheses(&mut self, command: &str) -> Read<FieldPattern> {
        self.skip_blank();
        let field = match self.quoted().or_else(|| self.single_quoted()) {
            Some(word) => word.field(),
            None => {
                let start = self.pos;
                let rest = self.rest();
                self.pos += rest.find(')').unwrap_or(rest.len());
                let span = self.since(start);
                Word { text: self.text[span.start..span.end].to_owned(), quoted: false, span }.field()
            }
        };
        if field.text.is_empty() {
            let message = format!("{command}: a field is missing in the parentheses");
            return Err(Diagnostic::error(message, self.here()));
        }
        self.expect(')', "after the field")?;
        Ok(field)
    }

    // ---- strcat, replace ------------------------------------------------------------------------------------------

    fn strcat(&mut self) -> Read<StrcatCommand> {
        let mut all_required = false;
        let mut words: Vec<Word> = Vec::new();
        loop {
            while let Some(option) = self.option(STRCAT)? {
                all_required = option.boolean()?;
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            let quoted = self.peek() == Some('"');
            let word = self.expect_field("a field or a quoted text")?;
            words.push(Word { quoted, ..word });
        }
        let hint = "write `strcat field1 \"text\" field2 new`";
        let Some(target) = words.pop() else {
            return Err(Diagnostic::error("strcat: no field is given", self.here()).with_hint(hint));
        };
        if words.is_empty() {
            let message = format!("strcat: nothing is joined into `{}`", target.text);
            return Err(Diagnostic::error(message, target.span).with_hint(hint));
        }
        let source =
            |word: Word| if word.quoted { StrcatSource::Text(word.text) } else { StrcatSource::Field(word.text) };
        Ok(StrcatCommand { all_required, sources: words.into_iter().map(source).collect(), target: target.text })
    }

    fn replace(&mut self) -> Read<ReplaceCommand> {
        let hint = "write `replace old WITH new IN field`";
        let mut command = ReplaceCommand { pairs: Vec::new(), fields: Vec::new() };
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if !command.pairs.is_empty() && self.eat_keyword("in") {
                command.fields = self.field_list("replace")?;
                break;
            }
            let from = self.expect_field("a value to replace")?;
            if !self.eat_keyword("with") {
                let message = format!("replace: expected WITH after `{}`, found {}", from.text, self.found());
                return Err(Diagnostic::error(message, self.here()).with_hint(hint));
            }
            let to = self.expect_field("a value after WITH")?;
            let stars = |word: &Word| word.text.matches('*').count();
            if stars(&to) > 0 && stars(&to) != stars(&from) {
                let message = format!("replace: `{}` and `{}` differ in their number of `*`", from.text, to.text);
                let remark = Diagnostic::error(message, to.span);
                return Err(remark.with_hint("the new value has as many `*` as the old one, or none"));
            }
            command.pairs.push((from.text, to.text));
        }
        if command.pairs.is_empty() {
            return Err(Diagnostic::error("replace: nothing to replace is given", self.here()).with_hint(hint));
        }
        Ok(command)
    }

    // ---- rangemap, fieldformat, setfields -------------------------------------------------------------------------

    fn rangemap(&mut self) -> Read<RangeMapCommand> {
        let hint = "write `rangemap field=NAME low=0-10 high=11-100 default=other`";
        let (mut field, mut ranges, mut default) = (None, Vec::new(), NO_RANGE.to_owned());
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.peek_option().is_none() {
                let message = format!("rangemap: expected name=start-end, found {}", self.found());
                return Err(Diagnostic::error(message, self.here()).with_hint(hint));
            }
            let option = self.read_option()?;
            match option.name.as_str() {
                "field" => field = Some(option.value),
                "default" => default = option.value,
                _ => {
                    let (least, greatest) = number_range(&option.value)
                        .ok_or_else(|| option.refuse("a range of two numbers such as 0-10").with_hint(hint))?;
                    let name = self.text[option.name_span.start..option.name_span.end].to_owned();
                    ranges.push((name, least, greatest));
                }
            }
        }
        let Some(field) = field else {
            return Err(Diagnostic::error("rangemap: no field is given", self.here()).with_hint(hint));
        };
        Ok(RangeMapCommand { field, ranges, default })
    }

    fn fieldformat(&mut self) -> Read<FieldFormatCommand> {
        let start = self.pos;
        let assignment = self.assignment()?;
        let AssignTarget::Field(field) = assignment.target else {
            return Err(Diagnostic::error("fieldformat: the field must be named as it is", self.since(start)));
        };
        Ok(FieldFormatCommand { field, expr: assignment.expr })
    }

    fn setfields(&mut self) -> Read<Vec<(String, String)>> {
        let mut fields = Vec::new();
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.peek_option().is_none() {
                let message = format!("setfields: expected field=\"value\", found {}", self.found());
                return Err(Diagnostic::error(message, self.here()));
            }
            let option = self.read_option()?;
            fields.push((self.text[option.name_span.start..option.name_span.end].to_owned(), option.value));
        }
        if fields.is_empty() {
            let remark = Diagnostic::error("setfields: no field is given", self.here());
            return Err(remark.with_hint("write `setfields field=\"value\"`"));
        }
        Ok(fields)
    }
}

/// `a-b`, each perhaps negative.
fn number_range(text: &str) -> Option<(f64, f64)> {
    let dashes = text.char_indices().skip(1).filter(|(_, character)| *character == '-');
    let ends = dashes.filter_map(|(at, _)| {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number(&text[..at]).zip(number(&text[at + 1..]))
    });
    let (first, second) = { ends }.next()?;
    Some(if first <= second { (first, second) } else { (second, first) })
}
