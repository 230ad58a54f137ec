//! `bin`: groups numbers or times into spans.

use quarry_event::time::Span as TimeSpan;
use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, TIME, repeatability};
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionArg, OptionNames, ParseResult, Parser};

/// Default base of a logarithmic span.
const DEFAULT_LOG_BASE: f64 = 10.0;

const OPTIONS: OptionNames = OptionNames::new("bin", BinOptions::NAMES);

/// `bin FIELD [AS NEW] [span=]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BinCommand {
    /// Field binned.
    pub field: FieldPattern,
    /// Output name; the field itself if absent.
    pub output: Option<String>,
    /// Width and alignment of the bins.
    pub options: BinOptions,
}

/// Binning options shared by bin, chart and timechart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BinOptions {
    /// `span=`: width of a bin.
    pub span: Option<BinSpan>,
    /// `bins=`: maximum number of bins, if no width is set.
    pub bins: Option<usize>,
    /// `minspan=`: minimum width, if the width is derived.
    pub min_span: Option<BinSpan>,
    /// `start=`: start of the range that is divided into bins.
    pub start: Option<f64>,
    /// `end=`: end of the range that is divided into bins.
    pub end: Option<f64>,
    /// `aligntime=` as written: `earliest`, `latest` or a time.
    pub align_time: Option<String>,
}

/// `span=` of a bin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BinSpan {
    /// Numeric width (seconds when the field is `_time`).
    Number(f64),
    /// Time span.
    Time(TimeSpan),
    /// `COEFFICIENTlogBASE`.
    Log {
        /// Coefficient, 1 when absent.
        coefficient: f64,
        /// Base, 10 when absent.
        base: f64,
    },
}

impl Syntax for BinCommand {
    const INFO: CommandInfo = CommandInfo {
        aliases: &["bucket", "discretize"],
        syntax: "bin FIELD [AS NEW] [span=|bins=|minspan=|start=|end=|aligntime=]",
        summary: "Groups numbers or times into bins",
        group: Group::Fields,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<BinCommand> {
        let mut options = BinOptions::default();
        let mut field = None;
        let mut output = None;
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                options.take(&option)?;
            }
            if parser.at_end() {
                break;
            }
            if field.is_some() && parser.eat_keyword("as") {
                output = Some(parser.expect_field("a name after AS")?.text);
            } else if field.is_none() {
                field = Some(parser.expect_field("a field")?.field());
            } else {
                return Err(Diagnostic::error(format!("bin: unexpected {}", parser.found_text()), parser.here()));
            }
        }
        let Some(field) = field else {
            return Err(
                Diagnostic::error("bin: no field is given", parser.here()).with_hint("write `bin _time span=1h`")
            );
        };
        Ok(BinCommand { field, output, options })
    }
}

impl Semantics for BinCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field.text);
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::adding(self.output.as_deref())
    }

    fn kind(&self, declared: Kind) -> Kind {
        match &self.options.span {
            Some(BinSpan::Log { .. }) if self.field.text == TIME => declared,
            Some(_) => Kind::Row,
            // The span is derived from the values.
            None => declared,
        }
    }

    fn written_fields(&self) -> Option<Vec<&str>> {
        Some(vec![self.output.as_ref().unwrap_or(&self.field.text).as_str()])
    }

    fn is_repeatable(&self) -> bool {
        repeatability::is_aligned(&self.options)
    }
}

impl BinOptions {
    /// The `minspan=` option, if it is a time span.
    pub fn min_time_span(&self) -> Option<&TimeSpan> {
        match &self.min_span {
            Some(BinSpan::Time(span)) => Some(span),
            _ => None,
        }
    }

    /// Names of the options.
    pub(crate) const NAMES: &[&str] = &["span", "bins", "minspan", "start", "end", "aligntime"];

    /// Applies one of these options.
    pub(crate) fn take(&mut self, option: &OptionArg) -> ParseResult<()> {
        match option.name.as_str() {
            // Same as without the option: the span is derived from the values or the time range.
            "span" if option.value.eq_ignore_ascii_case("auto") => {}
            "span" => self.span = Some(bin_span(option)?),
            "bins" => {
                self.bins = Some(option.number().and_then(|bins| match bins {
                    0 => Err(option.invalid_value("a number of at least 1")),
                    bins => Ok(bins),
                })?);
            }
            "minspan" => {
                let fraction = || bin_span(option).ok().filter(|span| matches!(span, BinSpan::Number(_)));
                let span = option.time_span().map(BinSpan::Time);
                self.min_span = Some(span.or_else(|error| fraction().ok_or(error))?);
            }
            "start" => self.start = Some(option.number()?),
            "end" => self.end = Some(option.number()?),
            _ => self.align_time = Some(option.value.clone()),
        }
        Ok(())
    }
}

/// Parses a span such as `5m`, `0.5`, `2log10` or `log2`.
pub(super) fn bin_span(option: &OptionArg) -> ParseResult<BinSpan> {
    let wrong = || option.invalid_value("a positive number, a span of time or a logarithm such as 2log10");
    if let Ok(width) = option.value.parse::<f64>() {
        return if width.is_finite() && width > 0.0 { Ok(BinSpan::Number(width)) } else { Err(wrong()) };
    }
    if let Some((coefficient, base)) = option.value.split_once("log") {
        let read = |text: &str, default: f64| if text.is_empty() { Some(default) } else { text.parse().ok() };
        let coefficient = read(coefficient, 1.0).ok_or_else(wrong)?;
        let base = read(base, DEFAULT_LOG_BASE).ok_or_else(wrong)?;
        let valid = base > 1.0 && coefficient >= 1.0 && coefficient < base;
        return if valid { Ok(BinSpan::Log { coefficient, base }) } else { Err(wrong()) };
    }
    TimeSpan::parse(&option.value).map(BinSpan::Time).map_err(|_| wrong())
}
