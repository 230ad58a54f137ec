//! Commands that look at all rows of a table: makecontinuous, timewrap, concurrency, outlier, cluster,
//! require.

use quarry_event::time::{Span as TimeSpan, SpanUnit};

use super::cursor::{Parser, Read};
use super::options::Known;
use crate::ast::{
    ClusterCommand, ClusterMatch, ConcurrencyCommand, ContinuousStep, MakeContinuousCommand, OutlierCommand,
    TablesCommand, TimeWrapCommand, WrapSeries,
};
use crate::diagnostic::Diagnostic;

/// Rows of makecontinuous when no span is given.
const BINS: usize = 100;

const MAKECONTINUOUS: Known =
    Known { command: "makecontinuous", names: &["span", "bins", "start", "end"], ignored: &["aligntime"] };
const TIMEWRAP: Known = Known { command: "timewrap", names: &["align", "series", "time_format"], ignored: &[] };
const CONCURRENCY: Known = Known { command: "concurrency", names: &["duration", "start", "output"], ignored: &[] };
const OUTLIER: Known =
    Known { command: "outlier", names: &["action", "param", "uselower", "mark"], ignored: &["type"] };
const CLUSTER: Known = Known {
    command: "cluster",
    names: &["t", "delims", "showcount", "countfield", "labelfield", "field", "labelonly", "match"],
    ignored: &[],
};

impl Parser<'_> {
    /// The command of this name, or `None` when it is none of this family.
    pub(crate) fn tables_command(&mut self, name: &str) -> Read<Option<TablesCommand>> {
        let command = match name {
            "makecontinuous" => TablesCommand::MakeContinuous(self.makecontinuous()?),
            "timewrap" => TablesCommand::TimeWrap(self.timewrap()?),
            "concurrency" => TablesCommand::Concurrency(self.concurrency()?),
            "outlier" => TablesCommand::Outlier(self.outlier()?),
            "cluster" => TablesCommand::Cluster(self.cluster()?),
            "require" => TablesCommand::Require,
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    fn makecontinuous(&mut self) -> Read<MakeContinuousCommand> {
        let mut command =
            MakeContinuousCommand { field: "_time".to_owned(), step: ContinuousStep::Bins(BINS), bounds: (None, None) };
        loop {
            while let Some(option) = self.option(MAKECONTINUOUS)? {
                match option.name.as_str() {
                    "span" => {
                        command.step = match option.value.parse::<f64>() {
                            Ok(number) if number > 0.0 && number.is_finite() => ContinuousStep::Number(number),
                            _ => ContinuousStep::Time(option.time_span()?),
                        }
                    }
                    "bins" => command.step = ContinuousStep::Bins(option.number::<usize>()?.max(1)),
                    "start" => command.bounds.0 = Some(option.number()?),
                    _ => command.bounds.1 = Some(option.number()?),
                }
            }
            match self.field_word() {
                Some(word) => command.field = word.text,
                None => return Ok(command),
            }
        }
    }

    fn timewrap(&mut self) -> Read<TimeWrapCommand> {
        let (mut span, mut ends_now, mut series, mut format) = (None, false, WrapSeries::Relative, None);
        loop {
            while let Some(option) = self.option(TIMEWRAP)? {
                match (option.name.as_str(), option.value.to_ascii_lowercase().as_str()) {
                    ("align", "now") => ends_now = true,
                    ("align", "end") => ends_now = false,
                    ("align", _) => return Err(option.refuse("now or end")),
                    ("series", "relative") => series = WrapSeries::Relative,
                    ("series", "short") => series = WrapSeries::Short,
                    ("series", "exact") => series = WrapSeries::Exact(String::new()),
                    ("series", _) => return Err(option.refuse("relative, exact or short")),
                    _ => format = Some(option.value),
                }
            }
            let Some(word) = self.field_word() else { break };
            // A unit alone is one of it.
            let text = if word.text.starts_with(|c: char| c.is_ascii_digit()) {
                word.text.clone()
            } else {
                format!("1{}", word.text)
            };
            let read = TimeSpan::parse(&text).ok().and_then(|span| unit_name(span.unit).map(|unit| (span, unit)));
            span = Some(read.ok_or_else(|| {
                let message = format!("timewrap: `{}` is no length of a period", word.text);
                Diagnostic::error(message, word.span).with_hint("write `timewrap 1day` or `timewrap 1week`")
            })?);
        }
        if let WrapSeries::Exact(_) = series {
            series = WrapSeries::Exact(format.unwrap_or_else(|| "%Y-%m-%d %H:%M:%S".to_owned()));
        }
        match span {
            Some((span, unit)) => Ok(TimeWrapCommand { span, unit, ends_now, series }),
            None => Err(Diagnostic::error("timewrap: no length of a period is given", self.here())
                .with_hint("write `timewrap 1day`")),
        }
    }

    fn concurrency(&mut self) -> Read<ConcurrencyCommand> {
        let (mut duration, mut start, mut output) = (None, "_time".to_owned(), "concurrency".to_owned());
        while let Some(option) = self.option(CONCURRENCY)? {
            match option.name.as_str() {
                "duration" => duration = Some(option.value),
                "start" => start = option.value,
                _ => output = option.value,
            }
        }
        match duration {
            Some(duration) => Ok(ConcurrencyCommand { duration, start, output }),
            None => Err(Diagnostic::error("concurrency: no duration= is given", self.here())
                .with_hint("write `concurrency duration=FIELD`")),
        }
    }

    fn outlier(&mut self) -> Read<OutlierCommand> {
        let mut command =
            OutlierCommand { removes: false, marks: false, factor: 2.5, lower: false, fields: Vec::new() };
        loop {
            while let Some(option) = self.option(OUTLIER)? {
                match (option.name.as_str(), option.value.to_ascii_lowercase().as_str()) {
                    ("action", "rm" | "remove") => command.removes = true,
                    ("action", "tf" | "transform") => command.removes = false,
                    ("action", _) => return Err(option.refuse("rm or tf")),
                    ("param", _) => command.factor = option.number()?,
                    ("uselower", _) => command.lower = option.boolean()?,
                    _ => command.marks = option.boolean()?,
                }
            }
            self.skip_separators();
            match self.field_word() {
                Some(word) => command.fields.push(word.field()),
                None => return Ok(command),
            }
        }
    }

    fn cluster(&mut self) -> Read<ClusterCommand> {
        let mut command = ClusterCommand {
            threshold: 0.8,
            delimiters: None,
            shows_count: false,
            count_field: "cluster_count".to_owned(),
            label_field: "cluster_label".to_owned(),
            field: "_raw".to_owned(),
            label_only: false,
            matching: ClusterMatch::TermList,
        };
        while let Some(option) = self.option(CLUSTER)? {
            match option.name.as_str() {
                "t" => {
                    command.threshold = option.number()?;
                    if !(command.threshold > 0.0 && command.threshold < 1.0) {
                        return Err(option.refuse("a number above 0 and below 1"));
                    }
                }
                "delims" => command.delimiters = Some(option.value),
                "showcount" => command.shows_count = option.boolean()?,
                "countfield" => command.count_field = option.value,
                "labelfield" => command.label_field = option.value,
                "field" => command.field = option.value,
                "labelonly" => command.label_only = option.boolean()?,
                _ => {
                    command.matching = match option.value.to_ascii_lowercase().as_str() {
                        "termlist" => ClusterMatch::TermList,
                        "termset" => ClusterMatch::TermSet,
                        "ngramset" => ClusterMatch::NGramSet,
                        _ => return Err(option.refuse("termlist, termset or ngramset")),
                    }
                }
            }
        }
        Ok(command)
    }
}

fn unit_name(unit: SpanUnit) -> Option<&'static str> {
    Some(match unit {
        SpanUnit::Second => "second",
        SpanUnit::Minute => "minute",
        SpanUnit::Hour => "hour",
        SpanUnit::Day => "day",
        SpanUnit::Week => "week",
        SpanUnit::Month => "month",
        SpanUnit::Quarter => "quarter",
        SpanUnit::Year => "year",
        _ => return None,
    })
}
