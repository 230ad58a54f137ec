//! The index-time pipeline of one source: bytes in, events out.
//!
//! Bytes go through the line breaker, lines through the merge rules, events through the timestamper into the caller's
//! batch. Without a sourcetype the first [`SAMPLE_BYTES`] wait for the guess. The events do not depend on how the bytes
//! are cut into chunks, and a pipeline that starts at [`Pipeline::safe_offset`] with [`Pipeline::resume_hint`] gives
//! exactly the events that are missing.
//!
//! Not here: reading files, packing, storing; fields at search time.

use std::borrow::Cow;
use std::sync::Arc;

use encoding_rs::Encoding;
use jiff::tz::TimeZone;
use memchr::memchr2;
use quarry_conf::settings::indexes::IndexNames;
use quarry_conf::{PropsResolver, PropsSettings};
use quarry_event::time::TimeNs;
use quarry_event::{EventBatch, Metadata};

use crate::assemble::{Assembler, EventRules};
use crate::charset::{Charset, Decoding};
use crate::error::PipelineError;
use crate::guess::{self, Guess, GuessRules};
use crate::header::Header;
use crate::host::HostRules;
use crate::lines::{LineBreaker, Until};
use crate::setting_faults;
use crate::timestamp::{TimeHistory, Timestamper};
use crate::typing::{Typing, TypingPlan};

/// Bytes looked at to guess a sourcetype.
pub const SAMPLE_BYTES: usize = 64 << 10;
/// The mark some editors put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What is known of a source before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// Index its events go to.
    pub index: String,
    /// `host` of its events.
    pub host: String,
    /// Whether the host is the user's word, so that no rule takes another from the text.
    pub host_is_fixed: bool,
    /// `source` of its events: path, port or stream.
    pub source: String,
    /// `sourcetype` if one is set; without it the data are looked at.
    pub sourcetype: Option<String>,
}

/// What the pipeline must know of the present.
#[derive(Clone, Debug)]
pub struct PipelineContext {
    /// Current time; also `_indextime`.
    pub now: TimeNs,
    /// Zone of times that name none and for which no `TZ` is set; the node's when absent.
    pub zone: Option<TimeZone>,
    /// Modification time of the file.
    pub modified: Option<TimeNs>,
}

/// What a pipeline did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineCounters {
    /// Events given.
    pub events: u64,
    /// Input bytes taken.
    pub bytes: u64,
    /// Events whose text gave no acceptable time.
    pub bad_timestamps: u64,
    /// Lines cut to `TRUNCATE`.
    pub truncated_lines: u64,
    /// Bytes that were no UTF-8.
    pub undecodable_bytes: u64,
    /// Lines that joined the event before them.
    pub merged_lines: u64,
    /// Events that rules dropped; they do not count as given.
    pub dropped_events: u64,
}

/// What a pipeline must know to go on in the middle of a source as if it had read it from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumeHint {
    /// The sourcetype in use.
    pub sourcetype: Option<String>,
    pub(crate) history: TimeHistory,
    pub(crate) header: Option<Header>,
    pub(crate) encoding: Option<&'static Encoding>,
    /// What a line of the source said about where its events come from.
    pub(crate) metadata: Option<Metadata>,
    /// Whether nothing of the source was read yet, so that what its first bytes tell is still to come.
    pub(crate) is_at_start: bool,
}

/// Turns the bytes of one source into events.
#[derive(Debug)]
pub struct Pipeline {
    stage: Stage,
    counters: PipelineCounters,
    guess: Option<Guess>,
    problem: Option<PipelineError>,
}

#[derive(Debug)]
enum Stage {
    Opening(Box<Opening>),
    Running(Box<Running>),
    /// Only between the two.
    Closed,
}

/// Waits for the bytes that decide how to begin.
#[derive(Debug)]
struct Opening {
    bytes: Vec<u8>,
    needed: usize,
    info: SourceInfo,
    context: PipelineContext,
    plan: Plan,
}

/// How to begin.
#[derive(Debug)]
enum Plan {
    Ready(Box<Running>),
    Guess(Candidates),
}

/// What the guess chooses from.
#[derive(Debug)]
struct Candidates {
    /// Settings and rules of each sourcetype it may name.
    settings: Vec<(PropsSettings, Result<RulePlan, PipelineError>)>,
    rules: GuessRules,
    /// Plain lines, for when those of the named one are faulty.
    plain: Box<Running>,
}

#[derive(Debug)]
struct Running {
    sourcetype: String,
    lines: LineBreaker,
    assembler: Assembler,
    /// Offset of the next byte of text.
    fed: u64,
    charset: Charset,
    /// Set when the bytes are no UTF-8.
    decoding: Option<Box<Decoding>>,
    /// Decoded text of the current call.
    text: Vec<u8>,
}

/// What is done with the events of a source behind their timestamps.
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
                Pipeline::of_settings(&info, &sourcetype, &settings, props, &context)
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
                let plain = Running::new(&info, name, &plain, rules, &context)?;
                let rules = GuessRules::new(props)?;
                let plan = Plan::Guess(Candidates { settings, rules, plain: Box::new(plain) });
                Ok(Pipeline::opening(info, context, plan, SAMPLE_BYTES))
            }
        }
    }

    /// As [`Pipeline::new`], for a source that cannot wait until its settings are corrected: those that cannot be used are
    /// left out, and [`Pipeline::problem`] says what is wrong with the first of them.
    pub fn tolerant(
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
        let make = |settings: &PropsSettings| Pipeline::of_settings(&info, &sourcetype, settings, props, &context);
        match setting_faults::make_of(settings, make, setting_faults::leave_out).0 {
            Some(pipeline) => Ok(Pipeline { problem: Some(problem), ..pipeline }),
            None => Err(problem),
        }
    }

    /// A pipeline for a source whose sourcetype is known.
    fn of_settings(
        info: &SourceInfo,
        sourcetype: &str,
        settings: &PropsSettings,
        props: &PropsResolver,
        context: &PipelineContext,
    ) -> Result<Pipeline, PipelineError> {
        let rules = RulePlan::new(info, settings, props)?;
        let running = Running::new(info, sourcetype.to_owned(), settings, rules, context)?;
        let needed = if running.charset == Charset::Auto { SAMPLE_BYTES } else { BYTE_ORDER_MARK.len() };
        Ok(Pipeline::opening(info.clone(), context.clone(), Plan::Ready(Box::new(running)), needed))
    }

    /// A pipeline that waits for so many bytes.
    fn opening(info: SourceInfo, context: PipelineContext, plan: Plan, needed: usize) -> Pipeline {
        let opening = Opening { bytes: Vec::new(), needed, info, context, plan };
        Pipeline {
            stage: Stage::Opening(Box::new(opening)),
            counters: PipelineCounters::default(),
            guess: None,
            problem: None,
        }
    }

    /// A pipeline for a source of which the bytes before its first one were read by a pipeline that gave `hint`.
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
            // A mark in the middle is part of an event.
            opening.needed = 0;
        }
        Ok(pipeline)
    }

    /// Tells a pipeline that lives long what time it is and when the file was last modified, before it gets bytes of
    /// that time. Batches that are being filled keep one `_indextime`, so it begins a new one.
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

    /// Takes bytes and appends the events they complete to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut EventBatch) {
        self.counters.bytes += bytes.len() as u64;
        match &mut self.stage {
            Stage::Running(running) => running.feed(bytes, out, &mut self.counters),
            Stage::Opening(opening) => {
                let missing = opening.needed.saturating_sub(opening.bytes.len());
                let (sample, rest) = bytes.split_at(missing.min(bytes.len()));
                opening.bytes.extend_from_slice(sample);
                if opening.bytes.len() >= opening.needed {
                    self.open(out);
                    if let Stage::Running(running) = &mut self.stage {
                        running.feed(rest, out, &mut self.counters);
                    }
                }
            }
            Stage::Closed => {}
        }
    }

    /// Appends what is complete when no bytes come for a while: the open event too, but no line without its break.
    pub fn pause(&mut self, out: &mut EventBatch) {
        self.drain(Until::Pause, out);
    }

    /// Whether bytes wait for more of them to tell how the source begins (its sourcetype, its character set), and hold a
    /// whole line, so that [`Pipeline::begin`] would give what they tell by now.
    pub fn can_begin(&self) -> bool {
        matches!(&self.stage, Stage::Opening(opening) if memchr2(b'\r', b'\n', &opening.bytes).is_some())
    }

    /// Whether bytes wait for more of them to tell how the source begins.
    pub fn is_beginning(&self) -> bool {
        matches!(&self.stage, Stage::Opening(_))
    }

    /// Decides how the source begins by the bytes that are there, and appends the events they complete.
    pub fn begin(&mut self, out: &mut EventBatch) {
        if matches!(&self.stage, Stage::Opening(opening) if !opening.bytes.is_empty()) {
            self.open(out);
        }
    }

    /// Appends all that is left; the source has ended.
    pub fn finish(&mut self, out: &mut EventBatch) {
        self.drain(Until::End, out);
    }

    /// Input bytes whose events are all in `out` batches; reading may start again there.
    pub fn safe_offset(&self) -> u64 {
        match &self.stage {
            Stage::Opening(_) => 0,
            Stage::Running(running) => running.safe_offset(),
            Stage::Closed => 0,
        }
    }

    /// What a pipeline that starts at [`Pipeline::safe_offset`] must know.
    pub fn resume_hint(&self) -> ResumeHint {
        let is_at_start = matches!(&self.stage, Stage::Opening(opening) if opening.needed > 0);
        ResumeHint { is_at_start, ..self.running().map(Running::resume_hint).unwrap_or_default() }
    }

    /// The hint for a source of which only the first bytes are at hand, not the pipeline that read it: sourcetype and
    /// header are those of `head`, times go on without a past.
    pub fn hint_of_head(
        info: SourceInfo,
        props: &PropsResolver,
        context: PipelineContext,
        head: &[u8],
    ) -> Result<ResumeHint, PipelineError> {
        let mut pipeline = Pipeline::new(info, props, context)?;
        let mut events = EventBatch::default();
        pipeline.push(head, &mut events);
        pipeline.pause(&mut events);
        Ok(ResumeHint { history: TimeHistory::default(), ..pipeline.resume_hint() })
    }

    /// The sourcetype, once it is known.
    pub fn sourcetype(&self) -> Option<&str> {
        self.running().map(|running| running.sourcetype.as_str())
    }

    fn running(&self) -> Option<&Running> {
        match &self.stage {
            Stage::Running(running) => Some(running),
            Stage::Opening(opening) => match &opening.plan {
                Plan::Ready(running) => Some(running),
                Plan::Guess(_) => None,
            },
            Stage::Closed => None,
        }
    }

    /// Which sourcetype was guessed, and why.
    pub fn guess(&self) -> Option<&Guess> {
        self.guess.as_ref()
    }

    /// What is wrong with the settings: of the guessed sourcetype, and the data went on as plain lines; or of one whose
    /// pipeline is [`Pipeline::tolerant`].
    pub fn problem(&self) -> Option<&PipelineError> {
        self.problem.as_ref()
    }

    /// Why an event did not go to the index that a rule named.
    pub fn refused_index(&self) -> Option<&str> {
        self.running().and_then(|running| running.assembler.refused_index())
    }

    /// Numbers for the metrics of inputs.
    pub fn counters(&self) -> PipelineCounters {
        self.counters
    }

    /// Bytes of memory held for lines and events that are not complete.
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

    fn drain(&mut self, until: Until, out: &mut EventBatch) {
        self.begin(out);
        if let Stage::Running(running) = &mut self.stage {
            running.drain(until, out, &mut self.counters);
        }
    }

    /// Decides and feeds the bytes that waited.
    fn open(&mut self, out: &mut EventBatch) {
        let Stage::Opening(opening) = std::mem::replace(&mut self.stage, Stage::Closed) else { return };
        let Opening { bytes, needed, info, context, plan } = *opening;
        let mut running = match plan {
            Plan::Ready(running) => running,
            Plan::Guess(candidates) => {
                let guess = candidates.rules.guess(&candidates.plain.sample(&bytes), &info.source);
                let running = candidates.choose(&guess, &info, &context);
                self.guess = Some(guess);
                running.unwrap_or_else(|(problem, plain)| {
                    self.problem = Some(problem);
                    plain
                })
            }
        };
        // A pipeline that goes on in the middle knows the set, and a mark there is part of an event.
        let mark = if needed > 0 { running.start(&bytes) } else { 0 };
        running.feed(&bytes[mark..], out, &mut self.counters);
        self.stage = Stage::Running(running);
    }
}

/// The character set of a source and the length of the mark in front of it.
fn start_of(charset: Charset, bytes: &[u8]) -> (Option<&'static Encoding>, usize) {
    let (encoding, mark) = charset.of_start(bytes);
    let is_marked = encoding.is_none() && bytes.starts_with(BYTE_ORDER_MARK);
    (encoding, if is_marked { BYTE_ORDER_MARK.len() } else { mark })
}

impl Candidates {
    /// The pipeline of the guessed sourcetype, or what is wrong with its settings and plain lines.
    fn choose(
        self,
        guess: &Guess,
        info: &SourceInfo,
        context: &PipelineContext,
    ) -> Result<Box<Running>, (PipelineError, Box<Running>)> {
        let named = self.settings.into_iter().find(|(settings, _)| settings.sourcetype == guess.sourcetype);
        let Some((settings, rules)) = named else { return Ok(self.plain) };
        let running = rules.and_then(|rules| Running::new(info, guess.sourcetype.clone(), &settings, rules, context));
        running.map(Box::new).map_err(|problem| (problem, self.plain))
    }
}

impl Running {
    fn new(
        info: &SourceInfo,
        sourcetype: String,
        settings: &PropsSettings,
        rules: RulePlan,
        context: &PipelineContext,
    ) -> Result<Running, PipelineError> {
        let breaker = match &settings.json_records {
            Some(name) => Ok(LineBreaker::of_records(name, settings.truncate)),
            None => LineBreaker::new(&settings.line_breaker, settings.truncate),
        };
        let lines = breaker
            .map_err(|reason| PipelineError::of_pattern(settings, "LINE_BREAKER", &settings.line_breaker, &reason))?;
        let meta = Metadata {
            index: Arc::from(info.index.as_str()),
            host: Arc::from(info.host.as_str()),
            source: Arc::from(info.source.as_str()),
            sourcetype: Arc::from(sourcetype.as_str()),
        };
        let timestamper = Timestamper::new(settings, context)?;
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
        Ok(Running { sourcetype, lines, assembler, fed: 0, charset, decoding, text })
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
        let safe = self.safe_text();
        if let Some(decoding) = &mut self.decoding {
            decoding.forget_before(safe);
        }
    }

    fn feed_text(&mut self, text: &[u8], out: &mut EventBatch, counters: &mut PipelineCounters) {
        self.fed += text.len() as u64;
        let Running { lines, assembler, .. } = self;
        assembler.look_at(text, self.fed);
        lines.feed(text, &mut |line| assembler.line(line, out, counters));
    }

    /// Begins a source whose first bytes are these; gives the length of their mark.
    fn start(&mut self, bytes: &[u8]) -> usize {
        let (encoding, mark) = start_of(self.charset, bytes);
        self.begin_text(encoding, mark as u64);
        mark
    }

    /// The first bytes as text.
    fn sample<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let (encoding, mark) = start_of(self.charset, bytes);
        let Some(encoding) = encoding else { return Cow::Borrowed(&bytes[mark..]) };
        let mut text = Vec::new();
        Decoding::new(encoding, 0).feed(&bytes[mark..], &mut text);
        Cow::Owned(text)
    }

    /// Begins behind a mark of so many bytes, with bytes in this character set.
    fn begin_text(&mut self, encoding: Option<&'static Encoding>, mark: u64) {
        match encoding {
            Some(encoding) => self.decoding = Some(Box::new(Decoding::new(encoding, mark))),
            None => {
                self.lines.skip(mark);
                self.fed = mark;
            }
        }
    }

    /// Bytes of text whose events are all given.
    fn safe_text(&self) -> u64 {
        self.assembler.open_start().unwrap_or(self.lines.start())
    }

    /// Input bytes whose events are all given.
    fn safe_offset(&self) -> u64 {
        let text = self.safe_text();
        self.decoding.as_ref().map_or(text, |decoding| decoding.input_of(text))
    }

    fn resume_hint(&self) -> ResumeHint {
        let encoding = self.decoding.as_ref().map(|decoding| decoding.encoding());
        ResumeHint { encoding, ..self.assembler.resume_hint(self.sourcetype.clone()) }
    }

    fn drain(&mut self, until: Until, out: &mut EventBatch, counters: &mut PipelineCounters) {
        self.assembler.begin(out);
        if until == Until::End
            && let Some(decoding) = &mut self.decoding
        {
            let mut text = Vec::new();
            decoding.finish(&mut text);
            counters.undecodable_bytes += std::mem::take(&mut decoding.undecodable);
            self.feed_text(&text, out, counters);
        }
        let Running { lines, assembler, .. } = self;
        lines.drain(until, &mut |line| assembler.line(line, out, counters));
        assembler.close(out, counters);
    }
}

#[cfg(test)]
mod tests;
