//! Options of a request that change its search: the source of rows, sampling of events, and the part of the search that
//! runs.
//!
//! The options are applied to the tree before planning, so that plans, caches and permissions see an ordinary search.
//! Commands that they add have an empty span, which distinguishes them from the commands in the text. Not here:
//! request parameters (api).

use quarry_event::time::modifier_text;
use quarry_event::{TimeNs, TimeRange};
use quarry_spl::analyse::{is_transforming, required_fields, search_fields};
use quarry_spl::ast::{
    BinaryOp, Command, CompareOp, FieldsCommand, LoadJobCommand, LoadedJob, NodeBuilder, Pipeline, ReverseCommand,
    SearchCommand, SearchExpr, Span, Stage, TimeModifiers, TimeText, WhereCommand,
};
use quarry_spl::commands::Kind;
use quarry_spl::{Diagnostic, ParsedSearch};

/// Event fields that are always shown.
const DEFAULT_FIELDS: [&str; 5] = ["host", "index", "source", "sourcetype", "splunk_server"];
/// Text of an event.
const RAW_FIELD: &str = "_raw";
/// Hexadecimal digits of the hash used for sampling.
const HASH_DIGITS: u32 = 8;

/// Options of a request; the default changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchShape {
    /// Whether the text is a search condition rather than a whole search; the result is the events that meet it.
    pub is_condition: bool,
    /// The job whose rows replace the events at the start of the search.
    pub job: Option<String>,
    /// Sampling ratio N: about one event of N is kept, always the same events; 0 and 1 mean all events.
    pub sample: u32,
    /// Whether events have only the fields named in the search and the default fields.
    pub named_fields_only: bool,
    /// Whether the search is run repeatedly and therefore must have no side effects.
    pub is_repeated: bool,
    /// Reads only events that arrived at this time or later. A search with its own earliest time of arrival ignores
    /// this time.
    pub arrived_from: Option<TimeNs>,
    /// Reads only events that arrived in this range. A search with its own range of arrival times ignores this range.
    pub arrived: TimeRange,
    /// Runs only the commands before the first command that is transforming or has side effects, over the events that
    /// had arrived by this time.
    pub events_until: Option<TimeNs>,
    /// Fields with values that the events at the start must have, in addition to meeting the condition of the search.
    pub same_fields: Vec<(String, String)>,
    /// Whether the events at the start are read oldest first.
    pub oldest_first: bool,
    /// Commands that follow those of the search.
    pub trailing_commands: Vec<Command>,
    /// Maximum number of rows of the result: a `head` at the end.
    pub head: Option<usize>,
    /// Whether only the text of the events in the result is shown: a `fields` at the end.
    pub text_only: bool,
    /// Number of matching events after which the search finishes early, with the pages read by then.
    pub events_max: Option<u64>,
    /// Whether automatic lookups of props.conf are skipped. Summaries of data models keep the values they were built
    /// with.
    pub skips_lookups: bool,
}

impl SearchShape {
    /// Whether an option for the output is set: the order of events, the number of rows, or the text alone.
    pub fn is_for_output(&self) -> bool {
        self.oldest_first || self.head.is_some() || self.text_only
    }

    /// Applies the options to the search.
    pub(super) fn apply(&self, parsed: &mut ParsedSearch) -> Result<(), Diagnostic> {
        let pipeline = &mut parsed.pipeline;
        if let (false, Some(Stage { command: Command::Search(search), span })) =
            (self.same_fields.is_empty(), pipeline.commands.first_mut())
        {
            let make = NodeBuilder::at(*span);
            let same = self.same_fields.iter().map(|(field, value)| make.equals(field, value));
            search.expr = SearchExpr::And(
                std::iter::once(std::mem::replace(&mut search.expr, SearchExpr::All)).chain(same).collect(),
            );
        }
        let until = TimeRange { earliest: None, latest: self.events_until };
        limit_to_arrival_range(pipeline, &self.arrived.intersect(&until));
        if let Some(until) = self.events_until {
            truncate_to_events(pipeline, until);
        }
        // Without events, there is nothing that further commands could process.
        if self.events_until.is_none() || !pipeline.commands.is_empty() {
            self.extend(pipeline);
        }
        if let Some(from) = self.arrived_from {
            limit_to_arrivals(pipeline, from)?;
        }
        if let Some(sid) = &self.job {
            return begin_with_job(pipeline, sid);
        }
        if self.named_fields_only {
            keep_named_fields(pipeline);
        }
        if self.sample > 1 {
            sample(pipeline, self.sample);
        }
        Ok(())
    }

    /// Adds commands after the events at the start, and at the end.
    fn extend(&self, pipeline: &mut Pipeline) {
        let make = builder_after(pipeline.span);
        let begins_with_events =
            pipeline.commands.first().is_some_and(|first| matches!(first.command, Command::Search(_)));
        if self.oldest_first && begins_with_events {
            pipeline.commands.insert(1, make.stage(ReverseCommand));
        }
        let head = self.head.map(|rows| make.head(rows));
        let text = self.text_only.then(|| FieldsCommand { removes: false, fields: make.patterns(&[RAW_FIELD]) }.into());
        let commands = self.trailing_commands.iter().cloned().chain(head).chain(text);
        pipeline.commands.extend(commands.map(|command| make.stage(command)));
    }
}

/// A builder of nodes at the end of a span.
fn builder_after(span: Span) -> NodeBuilder {
    NodeBuilder::at(Span { start: span.end, end: span.end })
}

/// The search for the events that meet a condition.
pub(super) fn parsed_condition(text: &str) -> ParsedSearch {
    let span = Span { start: 0, end: text.len() };
    let (commands, diagnostics) = match quarry_spl::parse_condition(text) {
        Ok(expr) => {
            let command = SearchCommand { expr, time: TimeModifiers::default() }.into();
            (vec![Stage { command, span }], Vec::new())
        }
        Err(diagnostics) => (Vec::new(), diagnostics),
    };
    ParsedSearch { diagnostics, ..ParsedSearch::of(Pipeline { commands, span }) }
}

fn begin_with_job(pipeline: &mut Pipeline, sid: &str) -> Result<(), Diagnostic> {
    if let Some(stage) = pipeline.commands.first().filter(|stage| stage.command.kind() == Kind::Generating) {
        let name = stage.command.name();
        return Err(Diagnostic::error(
            format!("{name} generates rows: begin with a command that processes the rows of the job"),
            stage.span,
        ));
    }
    let span = Span::default();
    let load = LoadJobCommand { job: LoadedJob::Sid(sid.to_owned()), span, offset: 0, events: false };
    pipeline.commands.insert(0, Stage { command: load.into(), span });
    Ok(())
}

/// Limits the events at the start to events that arrived at a time or later, unless the search itself has such a limit
/// (`_index_earliest`).
fn limit_to_arrivals(pipeline: &mut Pipeline, from: TimeNs) -> Result<(), Diagnostic> {
    match pipeline.commands.first_mut() {
        Some(Stage { command: Command::Search(search), span }) => {
            search.time.index_earliest.get_or_insert(time_text(from, *span));
            Ok(())
        }
        first => {
            let (name, span) = first.map_or(("", Span::default()), |first| (first.command.name(), first.span));
            let text = format!("{name} reads no events, so it cannot be a real-time search without a window");
            Err(Diagnostic::error(text, span).with_hint("give a window, as in earliest_time=rt-5m"))
        }
    }
}

/// Limits the events at the start to those that arrived in a range, unless the search itself has such a limit.
fn limit_to_arrival_range(pipeline: &mut Pipeline, range: &TimeRange) {
    let Some(Stage { command, span }) = pipeline.commands.first_mut() else { return };
    let time = match command {
        Command::Search(search) => &mut search.time,
        Command::Tstats(tstats) => &mut tstats.time,
        _ => return,
    };
    if time.index_earliest.is_none() && time.index_latest.is_none() {
        time.index_earliest = range.earliest.map(|from| time_text(from, *span));
        time.index_latest = range.latest.map(|to| time_text(to, *span));
    }
}

/// A time in the notation of searches.
fn time_text(time: TimeNs, span: Span) -> TimeText {
    TimeText { text: modifier_text(time), span }
}

fn truncate_to_events(pipeline: &mut Pipeline, until: TimeNs) {
    let is_cut = |stage: &Stage| is_transforming(std::slice::from_ref(stage)) || stage.command.effect().is_some();
    let end = pipeline.commands.iter().position(is_cut).unwrap_or(pipeline.commands.len());
    pipeline.commands.truncate(end);
    match pipeline.commands.first_mut().map(|stage| (stage.span, &mut stage.command)) {
        Some((span, Command::Search(search))) => {
            search.time.index_latest.get_or_insert(time_text(until, span));
        }
        // Rows from other sources are not events, so there are no events to return.
        _ => pipeline.commands.clear(),
    }
}

/// Removes from the events at the start the fields that nothing requests.
fn keep_named_fields(pipeline: &mut Pipeline) {
    let Some((Stage { command: Command::Search(search), span }, rest)) = pipeline.commands.split_first() else {
        return;
    };
    let make = builder_after(*span);
    let fields = |names: &[&str]| make.stage(FieldsCommand { removes: false, fields: make.patterns(names) });
    let mut commands = rest.to_vec();
    commands.push(fields(&DEFAULT_FIELDS));
    let needs = required_fields(&commands);
    if needs.all {
        return;
    }
    let asked = search_fields(&search.expr);
    let names = DEFAULT_FIELDS.into_iter().chain(needs.fields.iter().map(String::as_str));
    let mut names: Vec<&str> =
        names.chain(needs.patterns.iter().map(String::as_str)).chain(asked.iter().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    let kept = fields(&names);
    pipeline.commands.insert(1, kept);
}

/// Keeps one event in `of`: events for which a hash of time and text is a multiple of `of`.
fn sample(pipeline: &mut Pipeline, of: u32) {
    let Some(Stage { command: Command::Search(_), span }) = pipeline.commands.first() else { return };
    let make = builder_after(*span);
    let hash = make.call("md5", [make.binary(BinaryOp::Concat, make.field("_time"), make.field("_raw"))]);
    let digits = make.call("substr", [hash, make.number(1), make.number(HASH_DIGITS)]);
    let hash = make.call("tonumber", [digits, make.number(16)]);
    let rest = make.binary(BinaryOp::Rem, hash, make.number(of));
    let condition = make.compare(CompareOp::Eq, rest, make.number(0));
    pipeline.commands.insert(1, make.stage(WhereCommand { condition }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply_shape(text: &str, shape: &SearchShape) -> Result<String, String> {
        let mut parsed = quarry_spl::parse(text);
        shape.apply(&mut parsed).map_err(|fault| fault.to_string())?;
        let names = parsed.pipeline.commands.iter().map(|stage| match &stage.command {
            Command::Fields(fields) => {
                let names: Vec<&str> = fields.fields.iter().map(|field| field.text.as_str()).collect();
                format!("fields {}", names.join(","))
            }
            command => command.name().to_owned(),
        });
        Ok(names.collect::<Vec<_>>().join(" | "))
    }

    #[test]
    fn searches_can_continue_with_the_rows_of_a_job() {
        let shape = SearchShape { job: Some("1.2".to_owned()), ..SearchShape::default() };
        assert_eq!(apply_shape("search a=1 | head 5", &shape).as_deref(), Ok("loadjob | search | head"));
        assert_eq!(apply_shape("| stats count by a", &shape).as_deref(), Ok("loadjob | stats"));
        assert!(apply_shape("| makeresults | head 5", &shape).is_err());
    }

    #[test]
    fn rows_are_sorted_and_limited_for_display() {
        let shape = SearchShape { oldest_first: true, head: Some(5), text_only: true, ..SearchShape::default() };
        let shown = apply_shape("a | where b>1 | head 9", &shape);
        assert_eq!(shown.as_deref(), Ok("search | reverse | where | head | head | fields _raw"));
        // Generated rows have no order other than the one in which they are generated.
        assert_eq!(apply_shape("| makeresults", &shape).as_deref(), Ok("makeresults | head | fields _raw"));
    }

    #[test]
    fn conditions_with_commands_are_refused() {
        let found = parsed_condition("x OR user=tom");
        assert!(found.is_ok() && matches!(found.pipeline.commands[0].command, Command::Search(_)), "{found:?}");
        for condition in ["x | delete", "x) | delete", "(x | delete", "x) | search (y", "search x | delete", "(x"] {
            assert!(!parsed_condition(condition).is_ok(), "{condition}");
        }
    }

    #[test]
    fn only_event_searches_can_be_limited_by_arrival() {
        let arriving = SearchShape { arrived_from: Some(5_000_000_001), ..SearchShape::default() };
        let mut parsed = quarry_spl::parse("search a | stats count");
        arriving.apply(&mut parsed).unwrap();
        let Command::Search(search) = &parsed.pipeline.commands[0].command else {
            panic!("a search begins with search")
        };
        assert_eq!(search.time.index_earliest.as_ref().unwrap().text, "5.000000001");
        assert!(apply_shape("| makeresults", &arriving).unwrap_err().contains("earliest_time=rt-5m"));
    }

    #[test]
    fn requests_limit_the_arrival_of_events_unless_the_search_does() {
        let arrived = TimeRange { earliest: Some(5_000_000_000), latest: Some(9_000_000_000) };
        let of = |text: &str, events_until: Option<TimeNs>| {
            let mut parsed = quarry_spl::parse(text);
            SearchShape { arrived, events_until, ..SearchShape::default() }.apply(&mut parsed).unwrap();
            let time = match parsed.pipeline.commands.first().map(|stage| stage.command.clone()) {
                Some(Command::Search(search)) => search.time,
                Some(Command::Tstats(tstats)) => tstats.time,
                _ => TimeModifiers::default(),
            };
            [time.index_earliest, time.index_latest].map(|time| time.map(|time| time.text))
        };
        let texts = |earliest: &str, latest: &str| [Some(earliest.to_owned()), Some(latest.to_owned())];
        let whole = texts("5", "9");
        assert_eq!(of("search a", None), whole);
        assert_eq!(of("| tstats count where index=*", None), whole);
        assert_eq!(of("search a", Some(7_000_000_000)), texts("5", "7"));
        assert_eq!(of("search a", Some(11_000_000_000)), whole);
        assert_eq!(of("search a _index_earliest=1", None), [Some("1".to_owned()), None]);
        assert_eq!(of("| makeresults", None), [None, None]);
        let arrived = TimeRange { earliest: Some(-1_500_000_000), latest: Some(-1) };
        let mut parsed = quarry_spl::parse("search a");
        SearchShape { arrived, ..SearchShape::default() }.apply(&mut parsed).unwrap();
        let Some(Command::Search(search)) = parsed.pipeline.commands.first().map(|stage| stage.command.clone()) else {
            panic!("a search begins with search")
        };
        let bounds = [search.time.index_earliest, search.time.index_latest].map(|time| {
            let utc = jiff::tz::TimeZone::UTC;
            quarry_event::time::parse_time(&time.unwrap().text, 5_000_000_000, &utc).unwrap()
        });
        assert_eq!(bounds, [-1_500_000_000, -1], "before 1970");
    }

    #[test]
    fn event_searches_end_before_reports_and_side_effects() {
        let shape = SearchShape { events_until: Some(5), ..SearchShape::default() };
        for (text, events) in [
            ("search a | eval b=1 | stats count by b | head 2", "search | eval"),
            ("search a | collect index=x | stats count", "search"),
            ("| tstats count | head 1", ""),
            ("| makeresults | stats count", ""),
        ] {
            assert_eq!(apply_shape(text, &shape).as_deref(), Ok(events), "{text}");
        }
    }

    #[test]
    fn sampling_and_field_selection_follow_the_events() {
        let sample = SearchShape { sample: 10, ..SearchShape::default() };
        assert_eq!(apply_shape("search a | stats count", &sample).as_deref(), Ok("search | where | stats"));
        assert_eq!(apply_shape("| makeresults | stats count", &sample).as_deref(), Ok("makeresults | stats"));
        let one = SearchShape { sample: 1, ..SearchShape::default() };
        assert_eq!(apply_shape("search a", &one).as_deref(), Ok("search"));
        let named = SearchShape { named_fields_only: true, ..SearchShape::default() };
        let kept = "search | fields _raw,_time,a,host,index,source,sourcetype,splunk_server | eval";
        assert_eq!(apply_shape("search a=1 | eval b=c", &named).as_deref(), Ok(kept));
    }
}
