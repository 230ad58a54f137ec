//! Commands about more than one search: appendcols, appendpipe, multireport, union, multisearch, set, format, return,
//! gentimes.

use quarry_event::time::{Span as TimeSpan, SpanUnit};

use super::cursor::{Parser, Read};
use super::options::{Known, OptionArg};
use crate::ast::{
    FormatCommand, GenTime, GenTimesCommand, Pipeline, ReturnCommand, ReturnItem, SetOperation, SeveralCommand,
    SubsearchLimits,
};
use crate::diagnostic::Diagnostic;

const APPENDCOLS: Known = Known {
    command: "appendcols",
    names: &["override", "maxout", "maxtime", "timeout", "extendtimerange"],
    ignored: &[],
};
const APPENDPIPE: Known = Known { command: "appendpipe", names: &[], ignored: &["run_in_preview"] };
const UNION: Known =
    Known { command: "union", names: &["maxout", "maxtime", "timeout", "extendtimerange"], ignored: &[] };
const FORMAT: Known = Known { command: "format", names: &["mvsep", "maxresults", "emptystr"], ignored: &[] };
const GENTIMES: Known = Known { command: "gentimes", names: &["start", "end", "increment"], ignored: &[] };
/// Texts that format takes around and between rows and fields.
const FORMAT_TEXTS: usize = 6;
/// Subsearches of union and multisearch at most.
const SUBSEARCHES_MAX: usize = 100;

impl Parser<'_> {
    /// The command of this name, or `None` when it is none of this family.
    pub(crate) fn several_command(&mut self, name: &str) -> Read<Option<SeveralCommand>> {
        let command = match name {
            "appendcols" => self.appendcols()?,
            "appendpipe" => {
                while self.option(APPENDPIPE)?.is_some() {}
                SeveralCommand::AppendPipe(self.subsearch()?)
            }
            "union" => self.union()?,
            "multireport" => {
                if self.at_end() {
                    let remark = Diagnostic::error("multireport: no commands in brackets are given", self.here());
                    return Err(remark.with_hint("write `multireport [ stats count ] [ stats dc(host) ]`"));
                }
                SeveralCommand::MultiReport(self.subsearches("multireport", 1)?)
            }
            "multisearch" => SeveralCommand::MultiSearch(self.subsearches("multisearch", 2)?),
            "set" => self.set()?,
            "format" => SeveralCommand::Format(self.format()?),
            "return" => SeveralCommand::Return(self.return_command()?),
            "gentimes" => SeveralCommand::GenTimes(self.gentimes()?),
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    fn appendcols(&mut self) -> Read<SeveralCommand> {
        let (mut replaces, mut limits, mut subsearch) = (false, SubsearchLimits::default(), None);
        loop {
            while let Some(option) = self.option(APPENDCOLS)? {
                match option.name.as_str() {
                    "override" => replaces = option.boolean()?,
                    _ => limits.take(&option)?,
                }
            }
            if self.at_end() || subsearch.is_some() {
                break;
            }
            subsearch = Some(self.subsearch()?);
        }
        let Some(subsearch) = subsearch else {
            let remark = Diagnostic::error("appendcols: no subsearch is given", self.here());
            return Err(remark.with_hint("write `appendcols [ search ... ]`"));
        };
        Ok(SeveralCommand::AppendCols { replaces, subsearch, limits })
    }

    fn union(&mut self) -> Read<SeveralCommand> {
        let mut limits = SubsearchLimits::default();
        while let Some(option) = self.option(UNION)? {
            limits.take(&option)?;
        }
        Ok(SeveralCommand::Union { subsearches: self.subsearches("union", 1)?, limits })
    }

    /// `datamodel:NAME`, `lookup:NAME`, `savedsearch:NAME` as the search that reads it.
    fn dataset(&mut self) -> Read<Option<Pipeline>> {
        let name = self.peek_name().to_ascii_lowercase();
        let is_kind = matches!(name.as_str(), "datamodel" | "lookup" | "inputlookup" | "savedsearch");
        if !is_kind || !self.rest()[name.len()..].starts_with(':') {
            return Ok(None);
        }
        let start = self.pos;
        let word = self.expect_field("the name of a dataset")?;
        // The name may stand in quotes.
        let quoted = if word.text.ends_with(':') { self.quoted() } else { None };
        let name = quoted.map_or_else(|| word.text.clone(), |name| format!("{}{}", word.text, name.text));
        let parsed = super::parse(&format!("| from {name}"));
        match parsed.diagnostics.first() {
            Some(fault) => Err(Diagnostic::error(fault.message.clone(), self.since(start))),
            None => Ok(Some(parsed.pipeline)),
        }
    }

    /// Subsearches to the end of the command.
    fn subsearches(&mut self, command: &str, least: usize) -> Read<Vec<Pipeline>> {
        let mut subsearches = Vec::new();
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if command == "union"
                && let Some(dataset) = self.dataset()?
            {
                subsearches.push(dataset);
                continue;
            }
            if self.peek() != Some('[') {
                let remark = Diagnostic::error(format!("{command}: expected `[`, found {}", self.found()), self.here());
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

    fn set(&mut self) -> Read<SeveralCommand> {
        let word = self.expect_field("union, diff or intersect")?;
        let operation = match word.text.to_ascii_lowercase().as_str() {
            "union" => SetOperation::Union,
            "diff" => SetOperation::Diff,
            "intersect" => SetOperation::Intersect,
            _ => {
                let remark = Diagnostic::error(format!("set: unknown operation `{}`", word.text), word.span);
                return Err(self.suggest(remark, &word.text, ["union", "diff", "intersect"]));
            }
        };
        let place = self.here();
        let mut sides = self.subsearches("set", 2)?.into_iter();
        match (sides.next(), sides.next(), sides.next()) {
            (Some(left), Some(right), None) => Ok(SeveralCommand::Set { operation, left, right }),
            _ => Err(Diagnostic::error("set: two subsearches are needed, no more", place)),
        }
    }

    // ---- format, return -------------------------------------------------------------------------------------------

    fn format(&mut self) -> Read<FormatCommand> {
        let (mut value_separator, mut rows_max, mut empty) = ("OR".to_owned(), 0, "NOT( )".to_owned());
        let mut texts = Vec::new();
        loop {
            while let Some(option) = self.option(FORMAT)? {
                match option.name.as_str() {
                    "mvsep" => value_separator = option.value,
                    "maxresults" => rows_max = option.number()?,
                    _ => empty = option.value,
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            texts.push(self.expect_field("a text in quotes")?.text);
        }
        if texts.is_empty() {
            texts = ["(", "(", "AND", ")", "OR", ")"].map(str::to_owned).to_vec();
        }
        let Ok([row_prefix, column_prefix, column_separator, column_end, row_separator, row_end]) =
            <[String; FORMAT_TEXTS]>::try_from(texts)
        else {
            let remark = Diagnostic::error("format: six texts are needed, or none", self.here());
            return Err(remark.with_hint("write `format \"(\" \"(\" \"AND\" \")\" \"OR\" \")\"`"));
        };
        Ok(FormatCommand {
            value_separator,
            rows_max,
            empty,
            row_prefix,
            column_prefix,
            column_separator,
            column_end,
            row_separator,
            row_end,
        })
    }

    fn return_command(&mut self) -> Read<ReturnCommand> {
        let count = self.whole_number().unwrap_or(1);
        let mut items = Vec::new();
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.peek_option().is_some() {
                let option = self.read_option()?;
                let name = self.text[option.name_span.start..option.name_span.end].to_owned();
                items.push(ReturnItem::Pair { name, field: option.value });
                continue;
            }
            let word = self.expect_field("a field")?;
            items.push(match word.text.strip_prefix('$') {
                Some(field) => ReturnItem::Value(field.to_owned()),
                None => ReturnItem::Pair { name: word.text.clone(), field: word.text },
            });
        }
        if items.is_empty() {
            let remark = Diagnostic::error("return: no field is given", self.here());
            return Err(remark.with_hint("write `return field`, `return name=field` or `return $field`"));
        }
        Ok(ReturnCommand { count, items })
    }

    // ---- gentimes -------------------------------------------------------------------------------------------------

    fn gentimes(&mut self) -> Read<GenTimesCommand> {
        let (mut start, mut end, mut increment) = (None, None, TimeSpan::new(1, SpanUnit::Day));
        while let Some(option) = self.option(GENTIMES)? {
            let wants = "MM/DD/YYYY, MM/DD/YYYY:HH:MM:SS or a number of days such as -5";
            let time = || gen_time(&option.value).ok_or_else(|| option.refuse(wants));
            match option.name.as_str() {
                "start" => start = Some(time()?),
                "end" => end = Some(time()?),
                _ => increment = gen_increment(&option)?,
            }
        }
        let Some(start) = start else {
            let remark = Diagnostic::error("gentimes: no start is given", self.here());
            return Err(remark.with_hint("write `gentimes start=-7`"));
        };
        Ok(GenTimesCommand { start, end, increment })
    }
}

/// `MM/DD/YYYY[:HH:MM:SS]` or a number of days.
fn gen_time(text: &str) -> Option<GenTime> {
    /// Years written with two digits are those of this century.
    const CENTURY: i16 = 2000;
    if let Ok(days) = text.parse() {
        return Some(GenTime::Days(days));
    }
    let (date, clock) = text.split_once(':').unwrap_or((text, "0:0:0"));
    let three = |text: &str, mark: char| -> Option<[i16; 3]> {
        let parts: Option<Vec<i16>> = text.split(mark).map(|part| part.parse().ok()).collect();
        <[i16; 3]>::try_from(parts?).ok()
    };
    let ([month, day, year], [hour, minute, second]) = (three(date, '/')?, three(clock, ':')?);
    let year = if (0..100).contains(&year) { CENTURY + year } else { year };
    let valid = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (1..=9999).contains(&year)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second);
    valid.then_some(GenTime::Date([year, month, day, hour, minute, second]))
}

/// A whole number with `s`, `m`, `h` or `d`.
fn gen_increment(option: &OptionArg) -> Read<TimeSpan> {
    let wrong = || option.refuse("a whole number with s, m, h or d, such as 12h");
    let unit = match option.value.chars().last() {
        Some('s') => SpanUnit::Second,
        Some('m') => SpanUnit::Minute,
        Some('h') => SpanUnit::Hour,
        Some('d') => SpanUnit::Day,
        _ => return Err(wrong()),
    };
    let amount: u64 = option.value[..option.value.len() - 1].parse().map_err(|_| wrong())?;
    if amount == 0 { Err(wrong()) } else { Ok(TimeSpan::new(amount, unit)) }
}
