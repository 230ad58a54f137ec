//! The index-time pipeline of one source: bytes in, events out.
//!
//! The line breaker turns bytes into lines, the merge rules turn lines into events, and the timestamper adds times
//! before events are appended to the caller's batch. Without a sourcetype, the first [`SAMPLE_BYTES`] are buffered to
//! guess it. Events do not depend on the division of the bytes into chunks, and a pipeline that starts at
//! [`Pipeline::safe_offset`] with [`Pipeline::resume_hint`] yields exactly the missing events.
//!
//! Not here: reading files, compression, storage; search-time fields.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use encoding_rs::Encoding;
use jiff::tz::TimeZone;
use memchr::memchr2;
use quarry_conf::settings::indexes::IndexNames;
use quarry_conf::{PropsResolver, PropsSettings};
use quarry_event::time::TimeNs;
use quarry_event::{EventBatch, Metadata};

use crate::assemble::{Assembler, EventRules};
use crate::charset::{Charset, TextDecoder};
use crate::date_orders::DateOrders;
use crate::error::PipelineError;
use crate::guess::{self, Guess, GuessRules};
use crate::header::Header;
use crate::host::HostRules;
use crate::lines::{InputState, LineBreaker};
use crate::setting_faults;
use crate::timestamp::{TimeHistory, Timestamper};
use crate::typing::{Typing, TypingPlan};

/// Number of bytes examined to guess a sourcetype.
pub const SAMPLE_BYTES: usize = 64 << 10;
/// The UTF-8 byte order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Facts about a source that are known before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// Index that receives the events.
    pub index: String,
    /// `host` of the events.
    pub host: String,
    /// Whether the host was set explicitly, so that no rule may change it.
    pub host_is_fixed: bool,
    /// `source` of the events: path, port or stream.
    pub source: String,
    /// `sourcetype`, if set; otherwise it is guessed from the data.
    pub sourcetype: Option<String>,
}

/// Current time, time zone and other context of a pipeline.
#[derive(Clone, Debug)]
pub struct PipelineContext {
    /// Current time; also `_indextime`.
    pub now: TimeNs,
    /// Time zone of timestamps without a zone, for sources without a `TZ` setting; the node's zone if absent.
    pub zone: Option<TimeZone>,
    /// Modification time of the file.
    pub modified: Option<TimeNs>,
    /// Registry of date orders that pipelines of the same source share; `None` if they are not shared.
    pub orders: Option<Arc<DateOrders>>,
}

/// Counters of a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineCounters {
    /// Number of events returned.
    pub events: u64,
    /// Number of input bytes consumed.
    pub bytes: u64,
    /// Number of events whose text yielded no acceptable timestamp.
    pub bad_timestamps: u64,
    /// Number of lines cut to `TRUNCATE`.
    pub truncated_lines: u64,
    /// Number of events with a text or field value that rules made too long, so that it was truncated.
    pub events_cut_by_rules: u64,
    /// Number of bytes that are not valid in the source's character set.
    pub undecodable_bytes: u64,
    /// Number of lines that joined the previous event.
    pub merged_lines: u64,
    /// Number of events dropped by rules; they are not in `events`.
    pub dropped_events: u64,
    /// Number of events whose date was read with the month first without evidence for this order.
    pub ambiguous_dates: u64,
}

impl PipelineCounters {
    /// Remarks about dates that can be read in two ways and about text that is not stored, if the source has any.
    pub fn remark(&self) -> Option<String> {
        let dates = "dates are read with the month first (05/11 is May 11), but the order of day and month is \
                     ambiguous: if the day comes first, set TIME_FORMAT in props.conf";
        let cut = "lines longer than TRUNCATE are cut, and the rest of them is not stored: set TRUNCATE in props.conf \
                   to a larger number of bytes, or to 0 for 16 MB";
        let cut_by_rules = "rules make the text of events longer than 16 MB, or field values longer than 1 MB, and the rest \
                            of these is not stored: correct the rules in props.conf and transforms.conf";
        let counted =
            [(self.ambiguous_dates, dates), (self.truncated_lines, cut), (self.events_cut_by_rules, cut_by_rules)];
        let remarks: Vec<&str> = counted.iter().filter(|(count, _)| *count > 0).map(|(_, text)| *text).collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }
}

/// State that a pipeline needs to continue in the middle of a source as if it had read it from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumeHint {
    /// The sourcetype in use.
    pub sourcetype: Option<String>,
    pub(crate) history: TimeHistory,
    pub(crate) header: Option<Header>,
    pub(crate) encoding: Option<&'static Encoding>,
    /// Metadata set by a line of the source.
    pub(crate) metadata: Option<Metadata>,
    /// Whether the source's first bytes have not been examined yet, so that reading starts with them again.
    pub(crate) is_at_start: bool,
}

/// Turns the bytes of one source into events.
#[derive(Debug)]
pub struct Pipeline {
    stage: Stage,
    counters: PipelineCounters,
    guess: Option<Guess>,
    problem: Option<PipelineError>,
    /// Whether the offsets of events are recorded.
    records_starts: bool,
}

#[derive(Debug)]
enum Stage {
    Opening(Box<Opening>),
    Running(Box<LineStages>),
    /// Placeholder while `Opening` is replaced by `Running`.
    Closed,
}

/// Buffers the bytes that determine how to begin.
#[derive(Debug)]
struct Opening {
    bytes: Vec<u8>,
    /// See [`Pipeline::set_samples`].
    samples: Vec<u8>,
    needed: usize,
    info: SourceInfo,
    context: PipelineContext,
    plan: Plan,
}

/// Start of a pipeline: with known settings, or with a guess of the sourcetype.
#[derive(Debug)]
enum Plan {
    Ready(Box<LineStages>),
    Guess(Candidates),
}

/// Candidate sourcetypes for the guess.
#[derive(Debug)]
struct Candidates {
    /// Settings and rules of each candidate sourcetype.
    settings: Vec<(PropsSettings, Result<RulePlan, PipelineError>)>,
    rules: GuessRules,
    /// Plain lines, used if the guessed sourcetype is no candidate or its settings are invalid.
    plain: Box<LineStages>,
}

/// The stages from bytes to events of a source whose sourcetype is known.
#[derive(Debug)]
struct LineStages {
    sourcetype: String,
    lines: LineBreaker,
    assembler: Assembler,
    /// Text offset of the next byte.
    fed: u64,
    charset: Charset,
    /// The decoder, if the bytes are not UTF-8.
    decoding: Option<Box<TextDecoder>>,
    /// Decoded text of the current call.
    text: Vec<u8>,
}

/// Processing of a source's events after their timestamps.
#[derive(Debug)]
struct RulePlan {
    plan: TypingPlan,
    indexes: Arc<IndexNames>,
}

impl RulePlan {
    fn new(info: &SourceInfo, settings: &PropsSettings, props: &PropsResolver) -> Result<RulePlan, PipelineError> {
        let indexes = Arc::clone(props.indexes());
        let plan = if HostRules::are_all(&settings.typing) {
            TypingPlan::default()
        } else {
            TypingPlan::new(props, &info.source, &info.host, &settings.sourcetype, &settings.typing)?
        };
        Ok(RulePlan { plan, indexes })
    }
}

impl Pipeline {
    /// A pipeline for a source that is read from its start.
    pub fn new(info: SourceInfo, props: &PropsResolver, context: PipelineContext) -> Result<Pipeline, PipelineError> {
        match info.sourcetype.clone().or_else(|| props.sourcetype_for_source(&info.source)) {
            Some(sourcetype) => {
                let settings = props.resolve(&info.source, &info.host, &sourcetype);
                Pipeline::with_settings(&info, &sourcetype, &settings, props, &context)
            }
            None => {
                let resolve = |name: &String| props.resolve(&info.source, &info.host, name);
                let with_rules = |settings: PropsSettings| {
                    let rules = RulePlan::new(&info, &settings, props);
                    (settings, rules)
                };
                let settings = guess::candidates(&info.source, props).iter().map(resolve).map(with_rules).collect();
                let name = guess::PLAIN_SOURCETYPE.to_owned();
                let plain = resolve(&name);
                let rules = RulePlan::new(&info, &plain, props)?;
                let plain = LineStages::new(&info, name, &plain, rules, &context)?;
                let rules = GuessRules::new(props)?;
                let plan = Plan::Guess(Candidates { settings, rules, plain: Box::new(plain) });
                Ok(Pipeline::with_buffering(info, context, plan, SAMPLE_BYTES))
            }
        }
    }

    /// Like [`Pipeline::new`], for a source that cannot wait until its settings are corrected: unusable settings are
    /// ignored, and [`Pipeline::settings_error`] reports the first of them.
    pub fn new_lenient(
        info: SourceInfo,
        props: &PropsResolver,
        context: PipelineContext,
    ) -> Result<Pipeline, PipelineError> {
        let problem = match Pipeline::new(info.clone(), props, context.clone()) {
            Ok(pipeline) => return Ok(pipeline),
            Err(problem) => problem,
        };
        let named = info.sourcetype.clone().or_else(|| props.sourcetype_for_source(&info.source));
        let sourcetype = named.unwrap_or_else(|| guess::PLAIN_SOURCETYPE.to_owned());
        let settings = props.resolve(&info.source, &info.host, &sourcetype);
        let make = |settings: &PropsSettings| Pipeline::with_settings(&info, &sourcetype, settings, props, &context);
        match setting_faults::build_lenient(settings, make, setting_faults::remove_setting).0 {
            Some(pipeline) => Ok(Pipeline { problem: Some(problem), ..pipeline }),
            None => Err(problem),
        }
    }

    /// The errors in the settings of a source: after each error, the pipeline is built again without the unusable
    /// setting.
    pub fn setting_errors(
        info: &SourceInfo,
        settings: PropsSettings,
        props: &PropsResolver,
        context: &PipelineContext,
    ) -> Vec<PipelineError> {
        let sourcetype = settings.sourcetype.clone();
        let errors = RefCell::new(Vec::new());
        let make = |settings: &PropsSettings| {
            let made = Pipeline::with_settings(info, &sourcetype, settings, props, context);
            made.inspect_err(|error| errors.borrow_mut().push(error.clone()))
        };
        setting_faults::build_lenient(settings, make, setting_faults::remove_setting);
        errors.into_inner()
    }

    /// A pipeline for a source with a known sourcetype.
    fn with_settings(
        info: &SourceInfo,
        sourcetype: &str,
        settings: &PropsSettings,
        props: &PropsResolver,
        context: &PipelineContext,
    ) -> Result<Pipeline, PipelineError> {
        let rules = RulePlan::new(info, settings, props)?;
        let running = LineStages::new(info, sourcetype.to_owned(), settings, rules, context)?;
        let needed = if running.charset == Charset::Auto { SAMPLE_BYTES } else { BYTE_ORDER_MARK.len() };
        Ok(Pipeline::with_buffering(info.clone(), context.clone(), Plan::Ready(Box::new(running)), needed))
    }

    /// A pipeline that waits for `needed` bytes before it starts.
    fn with_buffering(info: SourceInfo, context: PipelineContext, plan: Plan, needed: usize) -> Pipeline {
        let opening = Opening { bytes: Vec::new(), samples: Vec::new(), needed, info, context, plan };
        Pipeline {
            stage: Stage::Opening(Box::new(opening)),
            counters: PipelineCounters::default(),
            guess: None,
            problem: None,
            records_starts: false,
        }
    }

    /// A pipeline that continues a source at the [`Pipeline::safe_offset`] of the pipeline that returned `hint`.
    pub fn resume(
        info: SourceInfo,
        props: &PropsResolver,
        context: PipelineContext,
        hint: ResumeHint,
    ) -> Result<Pipeline, PipelineError> {
        let sourcetype = hint.sourcetype.clone().or_else(|| info.sourcetype.clone());
        let info = SourceInfo { sourcetype, ..info };
        let mut pipeline = Pipeline::new(info, props, context)?;
        if hint.is_at_start {
            return Ok(pipeline);
        }
        if let Stage::Opening(opening) = &mut pipeline.stage
            && let Plan::Ready(running) = &mut opening.plan
        {
            running.assembler.resume(hint.history, hint.header, hint.metadata);
            running.begin_text(hint.encoding, 0);
            // A byte order mark in the middle of a source is part of an event.
            opening.needed = 0;
        }
        Ok(pipeline)
    }

    /// Passes whole lines from later in the source to a new pipeline, before it receives bytes. They may show the
    /// order of day and month in dates like 05/11/2026 if the first bytes do not.
    pub fn set_samples(&mut self, samples: Vec<u8>) {
        if let Stage::Opening(opening) = &mut self.stage {
            opening.samples = samples;
        }
    }

    /// Whether [`Pipeline::set_samples`] could make a difference.
    pub fn needs_samples(&self) -> bool {
        match &self.stage {
            Stage::Opening(opening) => match &opening.plan {
                Plan::Ready(running) => running.assembler.needs_samples(),
                Plan::Guess(_) => true,
            },
            Stage::Running(_) | Stage::Closed => false,
        }
    }

    /// Sets the current time and the file's modification time of a long-lived pipeline, before the pipeline receives
    /// bytes that arrived at this time. A batch has a single `_indextime`, so the caller must start a new batch.
    pub fn set_now(&mut self, now: TimeNs, modified: Option<TimeNs>) {
        match &mut self.stage {
            Stage::Running(running) => running.assembler.set_now(now, modified),
            Stage::Opening(opening) => {
                (opening.context.now, opening.context.modified) = (now, modified);
                match &mut opening.plan {
                    Plan::Ready(running) => running.assembler.set_now(now, modified),
                    Plan::Guess(candidates) => candidates.plain.assembler.set_now(now, modified),
                }
            }
            Stage::Closed => {}
        }
    }

    /// Consumes bytes and appends the completed events to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut EventBatch) {
        self.counters.bytes += bytes.len() as u64;
        match &mut self.stage {
            Stage::Running(running) => running.feed(bytes, out, &mut self.counters),
            Stage::Opening(opening) => {
                let missing = opening.needed.saturating_sub(opening.bytes.len());
                let (sample, rest) = bytes.split_at(missing.min(bytes.len()));
                opening.bytes.extend_from_slice(sample);
                if opening.bytes.len() >= opening.needed {
                    self.open(false, out);
                    if let Stage::Running(running) = &mut self.stage {
                        running.feed(rest, out, &mut self.counters);
                    }
                }
            }
            Stage::Closed => {}
        }
    }

    /// Appends all completed events when no bytes arrive for a while, including the open event. A line without its
    /// line break stays pending.
    pub fn pause(&mut self, out: &mut EventBatch) {
        self.drain(InputState::Pause, out);
    }

    /// Whether bytes are buffered to determine how the source begins (sourcetype, character set) and contain a
    /// complete line, so that [`Pipeline::begin`] can process them now.
    pub fn can_begin(&self) -> bool {
        matches!(&self.stage, Stage::Opening(opening) if memchr2(b'\r', b'\n', &opening.bytes).is_some())
    }

    /// Whether bytes are buffered to determine how the source begins.
    pub fn is_beginning(&self) -> bool {
        matches!(&self.stage, Stage::Opening(_))
    }

    /// Determines from the buffered bytes how the source begins, and appends the completed events.
    pub fn begin(&mut self, out: &mut EventBatch) {
        self.begin_at(InputState::Pause, out);
    }

    fn begin_at(&mut self, until: InputState, out: &mut EventBatch) {
        if matches!(&self.stage, Stage::Opening(opening) if !opening.bytes.is_empty()) {
            self.open(until == InputState::Pause, out);
        }
    }

    /// Appends all remaining events at the end of the source.
    pub fn finish(&mut self, out: &mut EventBatch) {
        self.drain(InputState::End, out);
    }

    /// Input offset up to which all events were appended to batches; reading can resume there.
    pub fn safe_offset(&self) -> u64 {
        match &self.stage {
            Stage::Opening(_) => 0,
            Stage::Running(running) => running.safe_offset(),
            Stage::Closed => 0,
        }
    }

    /// Records for each event where its text begins, for [`Pipeline::take_starts`]. To be called before bytes arrive.
    pub fn record_starts(&mut self) {
        self.records_starts = true;
    }

    /// Input offsets at which the events appended since the last call begin, in order; for a source that is not UTF-8,
    /// the offsets of the lines in which they begin.
    pub fn take_starts(&mut self) -> Vec<u64> {
        match &mut self.stage {
            Stage::Running(running) => running.assembler.take_starts(),
            _ => Vec::new(),
        }
    }

    /// State for a pipeline that starts at [`Pipeline::safe_offset`].
    pub fn resume_hint(&self) -> ResumeHint {
        let is_at_start = matches!(&self.stage, Stage::Opening(opening) if opening.needed > 0);
        ResumeHint { is_at_start, ..self.running().map(LineStages::resume_hint).unwrap_or_default() }
    }

    /// The hint for a source whose pipeline is lost and of which only the first bytes, `head`, are available:
    /// sourcetype, header and the order of dates come from `head`; other timestamp history is lost. `was_growing`: the
    /// earlier pipeline began before all of `head` was written.
    pub fn resume_hint_from_head(
        info: SourceInfo,
        props: &PropsResolver,
        context: PipelineContext,
        head: &[u8],
        was_growing: bool,
    ) -> Result<ResumeHint, PipelineError> {
        let mut pipeline = Pipeline::new(info, props, context)?;
        let mut events = EventBatch::default();
        pipeline.push(head, &mut events);
        pipeline.begin_at(if was_growing { InputState::Pause } else { InputState::End }, &mut events);
        pipeline.pause(&mut events);
        let hint = pipeline.resume_hint();
        Ok(ResumeHint { history: hint.history.for_distant_text(), ..hint })
    }

    /// The sourcetype; `None` until it is known.
    pub fn sourcetype(&self) -> Option<&str> {
        self.running().map(|running| running.sourcetype.as_str())
    }

    fn running(&self) -> Option<&LineStages> {
        match &self.stage {
            Stage::Running(running) => Some(running),
            Stage::Opening(opening) => match &opening.plan {
                Plan::Ready(running) => Some(running),
                Plan::Guess(_) => None,
            },
            Stage::Closed => None,
        }
    }

    /// The guessed sourcetype and the reason.
    pub fn guess(&self) -> Option<&Guess> {
        self.guess.as_ref()
    }

    /// The fault in the settings of the guessed sourcetype, whose data was then read as plain lines; or the first
    /// fault that a [`Pipeline::new_lenient`] pipeline ignored.
    pub fn settings_error(&self) -> Option<&PipelineError> {
        self.problem.as_ref()
    }

    /// Reason why an event did not go to the index named by a rule or by a line of the source.
    pub fn refused_index(&self) -> Option<&str> {
        self.running().and_then(|running| running.assembler.refused_index())
    }

    /// Counters for the inputs' metrics.
    pub fn counters(&self) -> PipelineCounters {
        self.counters
    }

    /// Memory held for incomplete lines and events, in bytes.
    pub fn buffered_capacity(&self) -> usize {
        match &self.stage {
            Stage::Opening(opening) => opening.bytes.capacity(),
            Stage::Running(running) => {
                let decoding = running.decoding.as_ref().map_or(0, |decoding| decoding.capacity());
                running.lines.capacity() + running.assembler.capacity() + running.text.capacity() + decoding
            }
            Stage::Closed => 0,
        }
    }

    fn drain(&mut self, until: InputState, out: &mut EventBatch) {
        self.begin_at(until, out);
        if let Stage::Running(running) = &mut self.stage {
            running.drain(until, out, &mut self.counters);
        }
    }

    /// Determines how the source begins and processes the buffered bytes. `may_continue` is set if the buffer is
    /// shorter than a sample and more bytes may follow.
    fn open(&mut self, may_continue: bool, out: &mut EventBatch) {
        let Stage::Opening(opening) = std::mem::replace(&mut self.stage, Stage::Closed) else { return };
        let Opening { bytes, samples, needed, info, context, plan } = *opening;
        let mut running = match plan {
            Plan::Ready(running) => running,
            Plan::Guess(candidates) => {
                let guess = candidates.rules.guess(&candidates.plain.sample(&bytes), &info.source, may_continue);
                let running = candidates.choose(&guess, &info, &context);
                self.guess = Some(guess);
                running.unwrap_or_else(|(problem, plain)| {
                    self.problem = Some(problem);
                    plain
                })
            }
        };
        running.assembler.set_samples(samples);
        if self.records_starts {
            running.assembler.record_starts();
        }
        // A resumed pipeline knows the character set; a byte order mark at its start is part of an event.
        let mark = if needed > 0 { running.start(&bytes) } else { 0 };
        running.feed(&bytes[mark..], out, &mut self.counters);
        self.stage = Stage::Running(running);
    }
}

/// The character set of a source and the length of its byte order mark.
fn detect_start(charset: Charset, bytes: &[u8]) -> (Option<&'static Encoding>, usize) {
    let (encoding, mark) = charset.resolve(bytes);
    let is_marked = encoding.is_none() && bytes.starts_with(BYTE_ORDER_MARK);
    (encoding, if is_marked { BYTE_ORDER_MARK.len() } else { mark })
}

impl Candidates {
    /// The pipeline for the guessed sourcetype or, if its settings are invalid, the error and a pipeline for plain
    /// lines.
    fn choose(
        self,
        guess: &Guess,
        info: &SourceInfo,
        context: &PipelineContext,
    ) -> Result<Box<LineStages>, (PipelineError, Box<LineStages>)> {
        let named = self.settings.into_iter().find(|(settings, _)| settings.sourcetype == guess.sourcetype);
        let Some((settings, rules)) = named else { return Ok(self.plain) };
        let running =
            rules.and_then(|rules| LineStages::new(info, guess.sourcetype.clone(), &settings, rules, context));
        running.map(Box::new).map_err(|problem| (problem, self.plain))
    }
}

impl LineStages {
    fn new(
        info: &SourceInfo,
        sourcetype: String,
        settings: &PropsSettings,
        rules: RulePlan,
        context: &PipelineContext,
    ) -> Result<LineStages, PipelineError> {
        let lines = LineBreaker::of(settings)
            .map_err(|reason| PipelineError::of_pattern(settings, "LINE_BREAKER", &settings.line_breaker, &reason))?;
        let meta = Metadata {
            index: Arc::from(info.index.as_str()),
            host: Arc::from(info.host.as_str()),
            source: Arc::from(info.source.as_str()),
            sourcetype: Arc::from(sourcetype.as_str()),
        };
        let mut timestamper = Timestamper::new(settings, context)?;
        if let Some(orders) = &context.orders {
            timestamper.share_order(Arc::clone(orders), &info.source);
        }
        let hosts = if info.host_is_fixed { None } else { HostRules::new(settings)? };
        let RulePlan { plan, indexes } = rules;
        let typing =
            Typing::new(plan, Arc::clone(&indexes), info.host_is_fixed, settings.indexed_fields_max, context.now);
        let assembler =
            Assembler::new(settings, timestamper, meta, EventRules { hosts, typing, indexes }, context.now)?;
        let charset = Charset::new(&settings.charset).ok_or_else(|| PipelineError::Charset {
            sourcetype: settings.sourcetype.clone(),
            charset: settings.charset.clone(),
        })?;
        let (decoding, text) = (None, Vec::new());
        Ok(LineStages { sourcetype, lines, assembler, fed: 0, charset, decoding, text })
    }

    fn feed(&mut self, bytes: &[u8], out: &mut EventBatch, counters: &mut PipelineCounters) {
        self.assembler.begin(out);
        if self.decoding.is_none() {
            self.feed_text(bytes, out, counters);
            return;
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        if let Some(decoding) = &mut self.decoding {
            decoding.feed(bytes, &mut text);
            counters.undecodable_bytes += std::mem::take(&mut decoding.undecodable);
        }
        self.feed_text(&text, out, counters);
        self.text = text;
        self.convert_starts();
        let safe = self.safe_text();
        if let Some(decoding) = &mut self.decoding {
            decoding.drop_before(safe);
        }
    }

    fn feed_text(&mut self, text: &[u8], out: &mut EventBatch, counters: &mut PipelineCounters) {
        self.fed += text.len() as u64;
        let LineStages { lines, assembler, .. } = self;
        assembler.look_ahead(text, self.fed);
        lines.feed(text, &mut |line| assembler.push_line(line, out, counters));
    }

    /// Starts a source that begins with these bytes; returns the length of the byte order mark.
    fn start(&mut self, bytes: &[u8]) -> usize {
        let (encoding, mark) = detect_start(self.charset, bytes);
        self.begin_text(encoding, mark as u64);
        mark
    }

    /// The first bytes, decoded to text.
    fn sample<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let (encoding, mark) = detect_start(self.charset, bytes);
        let Some(encoding) = encoding else { return Cow::Borrowed(&bytes[mark..]) };
        let mut text = Vec::new();
        TextDecoder::new(encoding, 0).feed(&bytes[mark..], &mut text);
        Cow::Owned(text)
    }

    /// Starts the text after a byte order mark of `mark` bytes, in this character set.
    fn begin_text(&mut self, encoding: Option<&'static Encoding>, mark: u64) {
        match encoding {
            Some(encoding) => self.decoding = Some(Box::new(TextDecoder::new(encoding, mark))),
            None => {
                self.lines.skip(mark);
                self.fed = mark;
            }
        }
    }

    /// Number of text bytes whose events were all emitted.
    fn safe_text(&self) -> u64 {
        self.assembler.open_event_offset().unwrap_or(self.lines.start())
    }

    /// Number of input bytes whose events were all emitted.
    fn safe_offset(&self) -> u64 {
        let text = self.safe_text();
        self.decoding.as_ref().map_or(text, |decoding| decoding.input_offset(text))
    }

    fn resume_hint(&self) -> ResumeHint {
        let encoding = self.decoding.as_ref().map(|decoding| decoding.encoding());
        ResumeHint { encoding, ..self.assembler.resume_hint(self.sourcetype.clone()) }
    }

    fn drain(&mut self, until: InputState, out: &mut EventBatch, counters: &mut PipelineCounters) {
        self.assembler.begin(out);
        if until == InputState::End
            && let Some(decoding) = &mut self.decoding
        {
            let mut text = Vec::new();
            decoding.finish(&mut text);
            counters.undecodable_bytes += std::mem::take(&mut decoding.undecodable);
            self.feed_text(&text, out, counters);
        }
        let LineStages { lines, assembler, .. } = self;
        lines.drain(until, &mut |line| assembler.push_line(line, out, counters));
        assembler.close(out, counters);
        self.convert_starts();
    }

    /// Converts the recorded offsets of events from the decoded text to the input.
    fn convert_starts(&mut self) {
        let Some(decoding) = &self.decoding else { return };
        self.assembler.convert_starts(|offset| decoding.input_offset(offset));
    }
}

#[cfg(test)]
mod tests;
