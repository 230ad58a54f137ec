//! `quarry search`: searches the data directory, files, or the running server.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::HumanCount;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use quarry_conf::Namespace;
use quarry_engine::{SearchShape, Stopper};
use quarry_event::time::{NS_PER_SEC, parse_time};
use quarry_inputs::InputError;
use quarry_inputs::file::{OneshotOptions, Rotation, add_file, expand};
use quarry_search::DEFAULT_INDEX;
use quarry_search::hints::{HintRow, Probes, SearchOutcome, hints};
use quarry_search::{Outcome, ResultTable, Row, SearchParams, SearchService};
use quarry_spl::Severity;
use quarry_stdx::number::f64_of;
use quarry_stdx::{SharedClock, SystemClock, log, random};
use quarry_store::MemoryStore;

use crate::bars;
use crate::cli::{Cli, EventOrder, OutputForm, SearchArgs};
use crate::data_directory::{self, MemorySink, Settings, open_read_only};
use crate::dispatch;
use crate::failure::{self, Failure};
use crate::follow;
use crate::interrupt::Interrupt;
use crate::output::line_folding::prepare_message;
use crate::output::pager::Pager;
use crate::output::{HighlightTerms, NO_WRAP, OutputStatistics, OutputStyle, OutputWriter};
use crate::remarks::Remarks;
use crate::search_progress::SearchProgress;
use crate::server_client::{AnswerRow, Remote, RemoteAnswer, to_table};
use crate::{terminal, zone};

/// Maximum number of rows of a search that looks for hints.
const HINT_ROWS_MAX: usize = 2_000;
/// Random bytes in the ID of a search.
const ID_BYTES: usize = 12;

/// Runs a search and prints its result; returns the exit code.
pub(crate) fn run(cli: &Cli, arguments: &SearchArgs) -> Result<u8, Failure> {
    if arguments.job.detach {
        return dispatch::run(cli, arguments);
    }
    if arguments.follow {
        return follow::run(cli, arguments, &mut std::io::stdout());
    }
    if arguments.job.is_given() {
        return Err(Failure::Usage(
            "--id, --timeout and --max-time are options of jobs: add --detach, or write `quarry dispatch` in place of `quarry search`"
                .into(),
        ));
    }
    show(cli, arguments, None)
}

/// Runs a search, or reads the result of a job that has ended, and shows the rows.
pub(crate) fn show(cli: &Cli, arguments: &SearchArgs, job: Option<&EndedJob>) -> Result<u8, Failure> {
    let zone = zone::parse_option(arguments.zone.as_deref())?.unwrap_or_else(zone::machine);
    let namespace = arguments.namespace.parse()?;
    check_files(arguments)?;
    check_words(arguments)?;
    check_previews(arguments)?;
    // A search on another node is not checked, because that node may have other apps and commands.
    if arguments.node.uri.is_none() {
        check(&arguments.text, &cli.data_dir, namespace.clone())?;
    }
    check_times(arguments, &zone)?;
    let clock = SystemClock::shared();
    let mut started_ns = clock.elapsed_ns();
    let mut pager = Pager::open(!arguments.no_pager);
    let is_typed = std::io::stdin().is_terminal() && arguments.files.iter().any(|file| file == "-");
    let stop = SearchStop::install(is_typed)?;
    let mut out = SearchOutput::new(&mut pager, clock.clone(), &stop);
    let place = Searcher::of(cli, arguments, namespace, &zone, &stop)?;
    let answer = match &place {
        Searcher::InProcess { service, all_read } => stream(service, cli, arguments, &zone, &stop, &mut out)
            .map(|answer| Answer { is_partial: answer.is_partial || !all_read, ..answer }),
        Searcher::Server(remote) => {
            // Time spent typing a password is not counted.
            started_ns = clock.elapsed_ns();
            match job {
                Some(job) => {
                    started_ns -= job.ran_ns;
                    print_rows(remote.job_result(&job.sid, &zone)?, cli, arguments, &zone, &mut out)
                }
                None => run_on_server(remote, cli, arguments, &zone, &stop, &mut out),
            }
        }
    };
    out.progress = None;
    let searched_ns = clock.elapsed_ns() - started_ns - out.spent_ns;
    if out.is_cut.load(Ordering::Relaxed) {
        // Resets colours and starts a new line for the following output.
        pager.write_all(if terminal::colors(cli.color) { b"\x1b[0m\n" } else { b"\n" })?;
        pager.close()?;
        log::info("stopped: what was found beyond this is not shown");
        return Ok(failure::INTERRUPTED);
    }
    let answer = match answer {
        // Ctrl-C stopped the search before the pager started, so the result is partial; the user then quit the pager
        // early.
        Err(Failure::ReaderLeft) if stop.interrupt.is_set() => return Ok(failure::PARTIAL),
        answer => answer?,
    };
    let mut after = Vec::new();
    if terminal::is_interactive() {
        writeln!(after, "{}", prepare_message(&summary(&answer, searched_ns)))?;
        if pager.is_paged() {
            // The paged output ends with this note, which a user who quits the pager earlier has not seen.
            answer.written.left_out.iter().try_for_each(|line| writeln!(after, "{}", prepare_message(line)))?;
        }
    }
    let is_stopped = stop.interrupt.is_set() || job.is_some_and(|job| job.is_stopped);
    write_notes(cli, arguments, (&place, &zone), &answer, (is_stopped, &mut after))?;
    // Rows and notes share the screen: if both together exceed it, both are paged.
    if terminal::is_interactive() && !pager.is_paged() {
        pager.write_all(&after)?;
        pager.close()?;
    } else {
        pager.close()?;
        std::io::stderr().lock().write_all(&after)?;
    }
    Ok(if answer.is_partial { failure::PARTIAL } else { 0 })
}

/// A job whose result is shown.
pub(crate) struct EndedJob {
    pub(crate) sid: String,
    /// Whether Ctrl-C ended the job.
    pub(crate) is_stopped: bool,
    /// Time spent waiting for the job, in nanoseconds.
    pub(crate) ran_ns: i64,
}

/// Search output. On a terminal, Ctrl-C ends the output once rows are being shown; for files and programs, the rows
/// found before Ctrl-C are written completely. Time spent writing is measured, because it depends on how fast the user
/// pages.
struct SearchOutput<'a> {
    out: &'a mut dyn Write,
    clock: SharedClock,
    spent_ns: i64,
    interrupt: Interrupt,
    /// Whether Ctrl-C ends the output.
    is_watched: bool,
    has_begun: Arc<AtomicBool>,
    /// Set if some output was not written.
    is_cut: Arc<AtomicBool>,
    /// The progress line, shown until the first output.
    progress: Option<SearchProgress>,
}

impl<'a> SearchOutput<'a> {
    fn new(out: &'a mut dyn Write, clock: SharedClock, stop: &SearchStop) -> SearchOutput<'a> {
        let is_watched = std::io::stdout().is_terminal();
        let (interrupt, has_begun) = (stop.interrupt.clone(), Arc::clone(&stop.is_showing));
        let (is_cut, progress) = (Arc::default(), None);
        SearchOutput { out, clock, spent_ns: 0, interrupt, is_watched, has_begun, is_cut, progress }
    }
}

impl SearchOutput<'_> {
    /// True if further rows are no longer shown.
    fn is_over(&self) -> bool {
        // If no row was shown before Ctrl-C, the rows found so far are shown.
        let has_begun = self.has_begun.load(Ordering::Relaxed);
        self.is_cut.load(Ordering::Relaxed) || (self.is_watched && has_begun && self.interrupt.is_set())
    }

    fn write_timed<T>(&mut self, write: impl FnOnce(&mut dyn Write) -> std::io::Result<T>) -> std::io::Result<T> {
        let started_ns = self.clock.elapsed_ns();
        let written = write(self.out);
        self.spent_ns += self.clock.elapsed_ns() - started_ns;
        written
    }
}

impl Write for SearchOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.is_over() {
            self.is_cut.store(true, Ordering::Relaxed);
            return Ok(bytes.len());
        }
        self.progress = None;
        let was_pressed = self.interrupt.is_set();
        let written = self.write_timed(|out| out.write(bytes))?;
        if self.is_watched && !was_pressed {
            self.has_begun.store(true, Ordering::Relaxed);
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.write_timed(|out| out.flush())
    }
}

/// Process that runs a search.
enum Searcher {
    /// The search runs in this process; `all_read` is false if a file could not be read.
    InProcess { service: Box<SearchService>, all_read: bool },
    /// The server that the command line names, or that has the data directory open.
    Server(Remote),
}

impl Searcher {
    fn of(
        cli: &Cli,
        arguments: &SearchArgs,
        namespace: Option<Namespace>,
        zone: &TimeZone,
        stop: &SearchStop,
    ) -> Result<Searcher, Failure> {
        if !arguments.files.is_empty() {
            // Sourcetypes and knowledge come from the data directory, if there is one, as for files that are added.
            let settings = Settings::for_search(&cli.data_dir, namespace)?;
            let store = Arc::new(MemoryStore::new(DEFAULT_INDEX));
            let all_read = read_files(&settings, &store, arguments, zone, stop)?;
            return Ok(Searcher::InProcess {
                service: Box::new(settings.in_place_search_settings(&cli.data_dir).service(store)?),
                all_read,
            });
        }
        if let Some(remote) = Remote::of(&arguments.node, &cli.data_dir)? {
            return Ok(Searcher::Server(remote.in_namespace(namespace.as_ref())));
        }
        if arguments.node.is_given() {
            let folder = cli.data_dir.display();
            return Err(Failure::Usage(format!(
                "--auth and --token: no server has {folder} open, and anyone who may read its files may search them: \
                 leave them out, or name another node with --uri"
            )));
        }
        let settings = Settings::for_search(&cli.data_dir, namespace)?;
        let service = match open_read_only(&cli.data_dir, &settings) {
            Ok(store) => settings.search_settings(Some(&cli.data_dir)).service(store)?,
            // A search that generates its rows needs no data.
            Err(_) if generates_rows(&arguments.text) => {
                settings.search_settings(Some(&cli.data_dir)).service(Arc::new(MemoryStore::new(DEFAULT_INDEX)))?
            }
            Err(error) => {
                if !std::io::stdin().is_terminal() {
                    log::note("to search standard input, name `-`: quarry search 'SEARCH' -");
                }
                return Err(error.into());
            }
        };
        Ok(Searcher::InProcess { service: Box::new(service), all_read: true })
    }

    /// Runs a small search in a time range to find hints; `None` if it fails.
    fn probe_rows(
        &self,
        text: &str,
        (earliest, latest): (Option<&str>, Option<&str>),
        zone: &TimeZone,
    ) -> Option<Vec<HintRow>> {
        match self {
            Searcher::InProcess { service, .. } => {
                let params = SearchParams {
                    text: text.to_owned(),
                    earliest: earliest.map(str::to_owned),
                    latest: latest.map(str::to_owned),
                    zone: Some(zone.clone()),
                    rows_max: Some(HINT_ROWS_MAX),
                    is_narrowed: true,
                    is_internal: true,
                    ..SearchParams::for_owner()
                };
                let table = service.run(params).ok()?.table;
                let row = |row: Row<'_>| {
                    row.cells().map(|(name, value)| (name.to_owned(), value.join_values(" ").into_owned())).collect()
                };
                Some(table.rows().map(row).collect())
            }
            Searcher::Server(remote) => server_probe_rows(remote, text, (earliest, latest), zone),
        }
    }
}

/// Searches that look for hints about a search of the command line.
struct CommandLineProbes<'a> {
    searcher: &'a Searcher,
    arguments: &'a SearchArgs,
    zone: &'a TimeZone,
}

impl Probes for CommandLineProbes<'_> {
    fn rows(&mut self, search: &str) -> Option<Vec<HintRow>> {
        let range = (self.arguments.earliest.as_deref(), self.arguments.latest.as_deref());
        self.searcher.probe_rows(search, range, self.zone)
    }

    fn rows_of_all_time(&mut self, search: &str) -> Option<Vec<HintRow>> {
        self.searcher.probe_rows(search, (None, None), self.zone)
    }
}

/// Runs a small search on a server to find hints; `None` if it fails.
pub(crate) fn server_probe_rows(
    remote: &Remote,
    text: &str,
    (earliest, latest): (Option<&str>, Option<&str>),
    zone: &TimeZone,
) -> Option<Vec<HintRow>> {
    let count = HINT_ROWS_MAX.to_string();
    let mut form =
        vec![("search", text), ("exec_mode", "oneshot"), ("output_mode", "json_rows"), ("count", count.as_str())];
    form.push(("history", "0"));
    form.extend(earliest.map(|time| ("earliest_time", time)));
    form.extend(latest.map(|time| ("latest_time", time)));
    let zone = zone::name(zone);
    form.extend(zone.as_deref().map(|zone| ("zone", zone)));
    let mut found = Vec::new();
    let mut take = |fields: &[String], rows: &[AnswerRow]| {
        let row = |row: &AnswerRow| {
            let cells = fields.iter().zip(row).filter(|(_, values)| !values.is_empty());
            cells.map(|(name, values)| (name.clone(), values.join(" "))).collect()
        };
        found.extend(rows.iter().map(row));
        Ok(())
    };
    remote.search(&form).ok()?.read(&mut take).ok()?;
    Some(found)
}

/// Writes notes on an answer: remarks with their position in the search, then messages.
fn write_notes(
    cli: &Cli,
    arguments: &SearchArgs,
    (place, zone): (&Searcher, &TimeZone),
    answer: &Answer,
    (is_stopped, out): (bool, &mut Vec<u8>),
) -> Result<(), Failure> {
    let text = arguments.text.as_str();
    let mut remarks = quarry_spl::parse(text).diagnostics;
    remarks.retain(|remark| remark.severity == Severity::Warning);
    let is_remark = |message: &String| remarks.iter().any(|remark| remark.to_one_line(text) == *message);
    let messages: Vec<&String> = answer.messages.iter().filter(|message| !is_remark(message)).collect();
    if !is_stopped && !answer.is_partial {
        let columns = &answer.written.columns;
        let found = SearchOutcome {
            text,
            rows: if answer.written.is_empty_aggregate() { 0 } else { columns.rows },
            empty: &columns.empty,
            filled: &columns.filled,
            zeros: &columns.zeros,
            now: SystemClock::shared().now_ns(),
            offset_s: offset_s(zone),
            has_range: arguments.earliest.is_some() || arguments.latest.is_some(),
            is_watched: crate::terminal::is_interactive(),
            is_filtered: false,
        };
        remarks.extend(hints(&found, &mut CommandLineProbes { searcher: place, arguments, zone }));
    }
    let color = terminal::colors_on_stderr(cli.color);
    for remark in &remarks {
        failure::report_diagnostic(text, remark, out, color)?;
    }
    for message in messages {
        failure::report_note(message, out, color)?;
    }
    if is_stopped {
        let told = match answer.is_partial {
            true => "stopped early: the answer covers only the events read until then",
            false => "all events had been read before Ctrl-C: the answer is complete",
        };
        failure::report_note(told, out, color)?;
    }
    Ok(())
}

/// Current offset of a zone from UTC in seconds.
fn offset_s(zone: &TimeZone) -> i32 {
    let now = Timestamp::from_nanosecond(SystemClock::shared().now_ns().into());
    now.map_or(0, |now| zone.to_offset(now).seconds())
}

/// Result of a search without its rows.
struct Answer {
    messages: Vec<String>,
    /// Whether data is missing.
    is_partial: bool,
    /// Whether the rows are events.
    is_events: bool,
    written: OutputStatistics,
}

/// Formats the number of rows and the time they took.
fn summary(answer: &Answer, elapsed_ns: i64) -> String {
    let what = match (answer.is_events, answer.written.columns.rows) {
        (true, 1) => "event",
        (true, _) => "events",
        (false, 1) => "row",
        (false, _) => "rows",
    };
    let seconds = f64_of(elapsed_ns) / f64_of(NS_PER_SEC);
    format!("{} {what} in {seconds:.2} s", HumanCount(answer.written.columns.rows as u64))
}

fn style(cli: &Cli, arguments: &SearchArgs, events: bool) -> OutputStyle {
    let width = terminal::width().map(|columns| if arguments.splunks.wrap == Some(false) { NO_WRAP } else { columns });
    let color = terminal::colors(cli.color);
    OutputStyle { form: arguments.form(), has_head: arguments.header, events, color, width }
}

/// True if a search generates its rows and reads no events.
fn generates_rows(text: &str) -> bool {
    !quarry_spl::analyse::begins_with_events(&quarry_spl::parse(text).pipeline.commands)
}

/// Current effect of Ctrl-C: stop reading files, finalise the search, or end the process.
pub(crate) struct SearchStop {
    pub(crate) interrupt: Interrupt,
    action: Arc<Mutex<StopAction>>,
    /// Whether rows are being shown.
    is_showing: Arc<AtomicBool>,
}

#[derive(Default)]
pub(crate) enum StopAction {
    /// Files are being read; their reader checks the interrupt.
    #[default]
    None,
    /// A search runs in this process.
    Finish(Stopper),
    /// A server runs the search, which has this ID.
    FinishOnServer(Remote, String),
}

impl SearchStop {
    /// Installs the handler; `is_typed` tells whether the lines to be searched are typed on a terminal.
    pub(crate) fn install(is_typed: bool) -> Result<SearchStop, Failure> {
        let action: Arc<Mutex<StopAction>> = Arc::default();
        let current = Arc::clone(&action);
        let is_showing = Arc::<AtomicBool>::default();
        let shows = Arc::clone(&is_showing);
        // Once rows are being shown, no message is printed.
        let tell = move || {
            if !shows.load(Ordering::Relaxed) {
                report_stopping()
            }
        };
        let interrupt = Interrupt::install(move || match &*current.lock().unwrap_or_else(PoisonError::into_inner) {
            // A read of typed input may block until the next line, so the process ends at once.
            StopAction::None if is_typed => std::process::exit(i32::from(failure::INTERRUPTED)),
            StopAction::None => {}
            StopAction::Finish(stopper) => {
                stopper.finish_early();
                tell();
            }
            StopAction::FinishOnServer(remote, id) => match remote.finalize(id) {
                Ok(()) => tell(),
                // The search has not begun, is queued behind others, or has just ended.
                Err(_) => {
                    log::info("stopped before an answer was shown");
                    std::process::exit(i32::from(failure::INTERRUPTED));
                }
            },
        })?;
        Ok(SearchStop { interrupt, action, is_showing })
    }

    pub(crate) fn set(&self, action: StopAction) {
        *self.action.lock().unwrap_or_else(PoisonError::into_inner) = action;
    }
}

fn report_stopping() {
    if terminal::is_interactive() {
        log::info("stopping: no further events are read; the results so far follow. Ctrl-C again ends at once");
    }
}

/// The shape that the output of a search requires: events in the requested order, at most the requested number of rows,
/// and only fields that are shown.
pub(crate) fn printed_shape(arguments: &SearchArgs) -> SearchShape {
    let parsed = quarry_spl::parse(&arguments.text);
    let shows_raw = matches!(arguments.form(), OutputForm::Raw | OutputForm::Table);
    // Only a search that begins with search terms is known to show events; a saved search or a job may be a report.
    let reads = quarry_spl::analyse::begins_with_events(&parsed.pipeline.commands);
    // The output of a command that an app defines is unknown.
    let is_of_events = reads && parsed.is_ok() && !quarry_spl::analyse::is_transforming(&parsed.pipeline.commands);
    SearchShape {
        oldest_first: arguments.order == EventOrder::Oldest,
        head: Some(arguments.maxout).filter(|rows| *rows > 0),
        // A search that mentions `_raw` may have removed it; then other fields are shown.
        text_only: shows_raw && is_of_events && !["_raw", "_*"].iter().any(|name| arguments.text.contains(name)),
        ..SearchShape::default()
    }
}

/// The shape as parameters of a request.
pub(crate) fn shape_parameters(shape: &SearchShape) -> Vec<(&'static str, String)> {
    let mut parameters = Vec::new();
    if shape.oldest_first {
        parameters.push(("event_order", "oldest".to_owned()));
    }
    parameters.extend(shape.head.map(|rows| ("head", rows.to_string())));
    if shape.text_only {
        parameters.push(("text_only", "1".to_owned()));
    }
    parameters
}

/// Runs a search in this process and prints its rows, as they arrive if the output format permits it; returns its
/// messages and whether data is missing. Ctrl-C stops reading; the rows found so far are the result.
fn stream(
    service: &SearchService,
    cli: &Cli,
    arguments: &SearchArgs,
    zone: &TimeZone,
    stop: &SearchStop,
    out: &mut SearchOutput<'_>,
) -> Result<Answer, Failure> {
    let failed = |error| Failure::from_search_error(&arguments.text, error);
    let mut running = service.start(params(arguments, zone)).map_err(failed)?;
    stop.set(StopAction::Finish(running.stopper()));
    out.progress = Some(SearchProgress::start(Some(running.shared_progress()), &stop.interrupt));
    let style = style(cli, arguments, running.is_events());
    let cut = Arc::clone(&out.is_cut);
    let is_cut = || cut.load(Ordering::Relaxed);
    let mut writer = OutputWriter::new(style, HighlightTerms::of(&arguments.text, style), out);
    if OutputWriter::can_stream(style) {
        while let Some(part) = running.next_table(zone).map_err(failed)? {
            writer.write(&part)?;
            if is_cut() {
                break;
            }
        }
    } else {
        let rows = running.collect_rows(zone).map_err(failed)?;
        writer.begin(rows.fields())?;
        writer.set_expected_rows(rows.len());
        if writer.requires_inspection() {
            for part in rows.parts() {
                writer.inspect(&part.map_err(failed)?);
            }
        }
        for part in rows.parts() {
            writer.write(&part.map_err(failed)?)?;
            if is_cut() {
                break;
            }
        }
    }
    let written = writer.end()?;
    let (messages, is_partial) = (running.messages(), running.is_partial());
    Ok(Answer { messages, is_partial, is_events: style.events, written })
}

/// Refuses options that have no effect on a search over files.
fn check_files(arguments: &SearchArgs) -> Result<(), Failure> {
    if arguments.files.is_empty() {
        return Ok(());
    }
    if arguments.node.is_given() {
        return Err(Failure::Usage("--uri, --auth and --token: files are searched here; leave them out".into()));
    }
    if arguments.namespace.app.is_some() {
        return Err(Failure::Usage(
            "--app: files are searched with the knowledge objects of all apps; leave it out".into(),
        ));
    }
    Ok(())
}

/// Refuses Splunk's options that request previews, because only final results are printed.
fn check_previews(arguments: &SearchArgs) -> Result<(), Failure> {
    for (name, value) in [("-preview", arguments.splunks.preview), ("-batch", arguments.splunks.batch)] {
        if value == Some(true) {
            return Err(Failure::Usage(format!(
                "{name} true: only the rows of the answer are printed; previews of a job are at \
                 search/jobs/SID/results_preview"
            )));
        }
    }
    Ok(())
}

/// Refuses a search that the shell has split into words, and a file name in place of the search.
pub(crate) fn check_words(arguments: &SearchArgs) -> Result<(), Failure> {
    let text = &arguments.text;
    if let Some(sourcetype) = arguments.sourcetype.as_ref().filter(|_| arguments.files.is_empty()) {
        return Err(Failure::Usage(format!(
            "--sourcetype is for files that are searched in place, and none is named: write sourcetype={sourcetype} in the \
             search for events with it"
        )));
    }
    let is_file = |word: &str| Path::new(word).is_file();
    if arguments.files.is_empty() && text.contains('/') && is_file(text) {
        return Err(Failure::Usage(format!("`{text}` is a file, and the search is missing: quarry search '*' {text}")));
    }
    if let Some(whole) = explain_expanded_star(text, &arguments.files) {
        return Err(Failure::Usage(whole));
    }
    let is_word = |word: &String| word != "-" && !word.contains(['/', '*', '?', '[', '.']) && !Path::new(word).exists();
    if let Some(word) = arguments.files.iter().find(|file| is_file(text) && is_word(file)) {
        return Err(Failure::Usage(format!("the search comes before the files: quarry search '{word}' {text}")));
    }
    let words = arguments.files.iter().take_while(|word| is_word(word)).count();
    if words > 0 {
        let (cut, files) = arguments.files.split_at(words);
        let whole = format!("quarry search '{text} {}' {}", cut.join(" "), files.join(" "));
        return Err(Failure::Usage(format!(
            "there is no file `{}`: put the whole search in quotes, as in {}",
            cut[0],
            whole.trim_end()
        )));
    }
    Ok(())
}

/// Explains that the shell has expanded `*` to the names in the working directory, so that the search is one of these
/// names.
fn explain_expanded_star(text: &str, files: &[String]) -> Option<String> {
    let is_there = |word: &str| Path::new(word).symlink_metadata().is_ok();
    if files.is_empty() || text.contains(char::is_whitespace) || !is_there(text) {
        return None;
    }
    let given: BTreeSet<&str> = files.iter().map(String::as_str).chain([text]).collect();
    let folder = std::fs::read_dir(".").ok()?.filter_map(Result::ok).map(|entry| entry.file_name());
    let mut shown = folder.filter(|name| !name.as_encoded_bytes().starts_with(b".")).peekable();
    // A lone `*` expands to every name; `*` with more text expands to several names of files.
    let is_star = shown.peek().is_some() && shown.all(|name| name.to_str().is_some_and(|name| given.contains(name)));
    let are_alike = files.len() > 1 && text.contains('.') && files.iter().all(|file| is_there(file));
    (is_star || are_alike).then(|| {
        format!(
            "`{text}` is a file, and so {}: where a `*` stands without quotes, the shell puts names of files in its \
             place. Put the search in quotes, as in quarry search '*' {}",
            if files.len() == 1 { "is the word after it" } else { "are the words after it" },
            files.last().map_or("FILE", String::as_str)
        )
    })
}

/// Refuses an invalid search before any file is read.
pub(crate) fn check(text: &str, data_dir: &Path, namespace: Option<Namespace>) -> Result<(), Failure> {
    // The engine expands macros and reports missing macros.
    let parsed = quarry_spl::parse_with_unknown_macros(text);
    if !parsed.is_ok() && !parsed.unsupported.is_empty() {
        // If an app defines a command of the search, the engine checks the whole search instead.
        let custom = Settings::for_search(data_dir, namespace)?
            .search_settings(Some(data_dir))
            .commands
            .map(|commands| commands.names())
            .unwrap_or_default();
        let is_custom = |feature: &String| feature.strip_prefix("command:").is_some_and(|name| custom.contains(name));
        if parsed.unsupported.iter().any(is_custom) {
            return Ok(());
        }
    }
    if parsed.is_ok() { Ok(()) } else { Err(Failure::Spl { text: text.to_owned(), diagnostics: parsed.diagnostics }) }
}

/// True if a time is a span without a sign, such as `5m`, which means a time in the future.
fn is_unsigned_span(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < text.len() && unit.starts_with(|c: char| c.is_ascii_alphabetic()) && !text.contains([':', 'T'])
}

/// Refuses an invalid time, and a range that ends before it begins; notes a time that may lack a minus sign.
pub(crate) fn check_times(arguments: &SearchArgs, zone: &TimeZone) -> Result<(), Failure> {
    let now = SystemClock::shared().now_ns();
    let time = |name: &str, text: &Option<String>| {
        let text = text.as_deref().filter(|text| !text.is_empty());
        let parsed = text.map(|text| parse_time(text, now, zone)).transpose();
        parsed.map_err(|error| Failure::Usage(format!("{name}: {error}")))
    };
    let range = (time("--earliest", &arguments.earliest)?, time("--latest", &arguments.latest)?);
    for (name, text, time) in [("--earliest", &arguments.earliest, range.0), ("--latest", &arguments.latest, range.1)] {
        if let Some(text) = text.as_deref().filter(|text| time > Some(now) && is_unsigned_span(text)) {
            log::note(format!("{name} {text} lies in the future: did you mean -{text}?"));
        }
    }
    match range {
        (Some(earliest), Some(latest)) if earliest > latest => {
            let given = |text: &Option<String>| text.clone().unwrap_or_default();
            let (earliest, latest) = (given(&arguments.earliest), given(&arguments.latest));
            Err(Failure::Usage(format!(
                "--earliest {earliest} is after --latest {latest}: no time lies between them; swap them"
            )))
        }
        _ => Ok(()),
    }
}

fn params(arguments: &SearchArgs, zone: &TimeZone) -> SearchParams {
    let shape = printed_shape(arguments);
    SearchParams {
        text: arguments.text.clone(),
        is_narrowed: shape.is_for_output(),
        shape,
        earliest: arguments.earliest.clone(),
        latest: arguments.latest.clone(),
        zone: Some(zone.clone()),
        rows_max: None,
        ..SearchParams::for_owner()
    }
}

/// Runs a search in this process. Ctrl-C stops reading; the rows found so far are the result.
pub(crate) fn run_in_process(service: &SearchService, params: SearchParams) -> Result<Outcome, Failure> {
    let text = params.text.clone();
    let running = service.start(params).map_err(|error| Failure::from_search_error(&text, error))?;
    let stopper = running.stopper();
    let _interrupt = Interrupt::install(move || stopper.finish_early());
    running.finish().map_err(|error| Failure::from_search_error(&text, error))
}

/// Reads the named files into memory; returns false if a file could not be read completely.
fn read_files(
    settings: &Settings,
    store: &MemoryStore,
    arguments: &SearchArgs,
    zone: &TimeZone,
    stop: &SearchStop,
) -> Result<bool, Failure> {
    let mut options = OneshotOptions {
        index: DEFAULT_INDEX.to_owned(),
        host: data_directory::host_name(),
        host_is_fixed: false,
        source: None,
        sourcetype: arguments.sourcetype.clone(),
        ignore_positions: true,
        scope: None,
        rotation: Rotation::None,
        ended: Arc::default(),
        zone: Some(zone.clone()),
        now: settings.clock.now_ns(),
    };
    let (mut all_read, mut remarks, mut empty) = (true, Remarks::default(), Vec::new());
    let mut bar = bars::bar(stop.interrupt.clone());
    for path in expand(&arguments.files)? {
        if stop.interrupt.is_set() {
            return Ok(false);
        }
        let is_stdin = path.as_os_str() == "-";
        // The source of a file is its absolute path, as for files that are added, so that `[source::…]` stanzas match.
        options.source = is_stdin.then(|| "stdin".to_owned());
        match is_stdin && std::io::stdin().is_terminal() {
            // A progress line would be drawn over the typed text.
            true => log::info(terminal::TYPED_INPUT_NOTE),
            false => bar.begin(&path),
        }
        let read = add_file(&path, &options, &settings.props, &mut MemorySink(store), &mut bar);
        bar.end();
        match read {
            Ok(report) => {
                let warnings = report.warnings.iter();
                warnings.for_each(|warning| remarks.print(&format!("warning: {}: {warning}", path.display())));
                if report.bytes == 0 && report.warnings.is_empty() && !report.interrupted {
                    empty.push(if is_stdin { "standard input".to_owned() } else { path.display().to_string() });
                }
            }
            Err(error) => {
                let told = match error {
                    InputError::PartiallyRead { fault, report } => {
                        format!("{fault}; {} events before that position are searched", report.events)
                    }
                    error => error.to_string(),
                };
                remarks.print(&format!("error: {told}"));
                all_read = false;
            }
        }
    }
    match empty.as_slice() {
        [] => {}
        [only] => remarks.print(&format!("note: {only} is empty")),
        [first, ..] => remarks.print(&format!("note: {} files are empty, the first is {first}", empty.len())),
    }
    remarks.end();
    Ok(all_read && !stop.interrupt.is_set())
}

/// Creates a unique ID for a search on a server.
pub(crate) fn new_id() -> String {
    format!("cli_{}", random::id::<ID_BYTES>())
}

/// Runs the search on the server and prints its rows as they arrive; returns its messages and whether data is missing.
fn run_on_server(
    remote: &Remote,
    cli: &Cli,
    arguments: &SearchArgs,
    zone: &TimeZone,
    stop: &SearchStop,
    out: &mut SearchOutput<'_>,
) -> Result<Answer, Failure> {
    let (text, id) = (arguments.text.as_str(), new_id());
    let mut form = vec![("search", text), ("exec_mode", "oneshot"), ("output_mode", "json_rows"), ("count", "0")];
    form.push(("id", &id));
    let shape = shape_parameters(&printed_shape(arguments));
    form.extend(shape.iter().map(|(name, value)| (*name, value.as_str())));
    stop.set(StopAction::FinishOnServer(remote.clone(), id.clone()));
    out.progress = Some(SearchProgress::start(None, &stop.interrupt));
    let zone_name = zone::name(zone);
    let named = [("earliest_time", &arguments.earliest), ("latest_time", &arguments.latest), ("zone", &zone_name)];
    form.extend(named.iter().filter_map(|(key, value)| value.as_deref().map(|value| (*key, value))));
    print_rows(remote.search(&form)?, cli, arguments, zone, out)
}

/// Prints the rows from a server as they arrive; returns the messages and whether data is missing.
fn print_rows(
    answer: RemoteAnswer,
    cli: &Cli,
    arguments: &SearchArgs,
    zone: &TimeZone,
    out: &mut SearchOutput<'_>,
) -> Result<Answer, Failure> {
    let (is_partial, is_events) = (answer.partial, answer.events);
    let style = style(cli, arguments, is_events);
    let cut = Arc::clone(&out.is_cut);
    let mut writer = OutputWriter::new(style, HighlightTerms::of(&arguments.text, style), out);
    // One part is held back, because the writer must know whether another part follows.
    let mut held: Option<ResultTable> = None;
    let mut parts = 0;
    let messages = answer.read(&mut |fields, rows| {
        if cut.load(Ordering::Relaxed) {
            return Err(Failure::ReaderLeft);
        }
        if parts == 0 {
            writer.begin(fields)?;
        }
        parts += 1;
        if let Some(before) = held.replace(to_table(fields, rows, zone)?) {
            writer.take_rows(before)?;
        }
        Ok(())
    })?;
    if let Some(last) = held {
        if parts == 1 {
            writer.set_expected_rows(last.len());
        }
        writer.take_rows(last)?;
    }
    let written = writer.end()?;
    Ok(Answer { messages, is_partial, is_events, written })
}
