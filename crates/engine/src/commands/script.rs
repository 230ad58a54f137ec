//! `script`, `run` and commands of apps: starts the program, asks for its type, and exchanges rows with it.

use std::fmt::Display;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowIter, concat_rows};
use quarry_event::time::NS_PER_SEC;
use quarry_spl::ast::CustomCommand;
use quarry_stdx::number::f64_of;
use serde_json::{Value, json};

use super::Execute;
use crate::blocking::Blocking;
use crate::custom_commands::chunk::{body_of, rows_of};
use crate::custom_commands::{CommandChunk, CommandProcess, CommandSource};
use crate::lowering::{Environment, Lowering, SearchEnvironment, Step, blocking, lower};
use crate::node::NodeSession;
use crate::run::apply;

/// Maximum number of rows per chunk, as announced to the program.
const CHUNK_ROWS_MAX: usize = 50_000;
/// Maximum number of exchanges after the last input rows were sent, or while the program generates rows.
const EXCHANGES_MAX: usize = 1_000_000;

impl Execute for CustomCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        // Here the command receives rows, even if it is the first of a subpipeline, as in `appendpipe`.
        let command = CustomCommand { is_first: false, ..self.clone() };
        Ok(vec![blocking(Custom::new(command, lowering.environment))])
    }

    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        Custom::new(self.clone(), search).run(Box::new(std::iter::empty()), search.context()).map(Some)
    }
}

/// Passes rows through the program; the program reports its type at run time.
struct Custom {
    command: CustomCommand,
    environment: Arc<dyn Environment + Send + Sync>,
    source: Arc<dyn CommandSource>,
}

impl Blocking for Custom {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let name = self.command.name.clone();
        let process = self.source.start(&name, self.command.is_first).map_err(|fault| self.program_error(fault))?;
        let session = self.environment.open_session();
        let greeting = self.getinfo(context, session.as_ref());
        let mut dialogue = ProgramSession {
            name,
            process,
            context: context.clone(),
            reported_error: None,
            has_new_error: false,
            _session: session,
        };
        let (info, _) = dialogue.request(&greeting, Vec::new())?;
        let makes_rows = info["generating"] == Value::Bool(true);
        match (makes_rows, self.command.is_first) {
            (true, false) => return Err(self.program_error("it generates rows and must be the first command")),
            (false, true) => return Err(self.program_error("it processes rows and cannot be the first command")),
            _ => {}
        }
        let rows = match info["streaming_preop"].as_str().map(str::trim) {
            None | Some("") => rows,
            Some(before) => self.rows_through(before, rows, context)?,
        };
        let text = |field: &Value| field.as_str().map(str::to_owned);
        let required: Vec<String> = info["required_fields"].as_array().into_iter().flatten().filter_map(text).collect();
        // Programs of other types process all rows, which are sent at once if they fit into a chunk.
        let gathers = !matches!(info["type"].as_str(), Some("streaming" | "stateful"));
        let rows = (!makes_rows).then_some(rows);
        let waiting = Vec::new();
        Ok(Box::new(ProgramRows {
            rows,
            pending: waiting,
            fills_chunks: gathers,
            required,
            session: dialogue,
            exchanges: 0,
            done: false,
        }))
    }
}

impl Custom {
    fn new(command: CustomCommand, environment: &dyn Environment) -> Custom {
        Custom { command, environment: environment.detach(), source: environment.commands() }
    }

    /// Any error of a program is reported as a fault of the search that uses it.
    fn program_error(&self, fault: impl Display) -> EngineError {
        EngineError::Invalid { message: format!("{}: {fault}", self.command.name), span: Some(self.command.span) }
    }

    /// Applies the commands that the program requires before it.
    fn rows_through(&self, before: &str, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let parsed = quarry_spl::parse_commands(before, false, &self.source.names());
        if !parsed.is_ok() {
            let fault = parsed.diagnostics.first().map(ToString::to_string).unwrap_or_default();
            return Err(self.program_error(format!("its streaming_preop {before}: {fault}")));
        }
        let mut steps = Vec::new();
        for stage in &parsed.pipeline.commands {
            steps.extend(lower(stage, self.environment.as_ref())?);
        }
        apply(rows, steps, context)
    }

    /// Information about the search that the program receives.
    fn getinfo(&self, context: &CommandContext, session: Option<&NodeSession>) -> Value {
        let time = |time: Option<i64>| {
            time.map_or_else(|| "0".to_owned(), |time| (f64_of(time) / f64_of(NS_PER_SEC)).to_string())
        };
        json!({
            "action": "getinfo",
            "preview": false,
            "streaming_command_will_restart": false,
            "searchinfo": {
                "args": self.command.arguments,
                "raw_args": self.command.raw_arguments,
                "command": self.command.name,
                "app": self.source.app(&self.command.name),
                "sid": &*context.id,
                "owner": context.permissions.user,
                "username": context.permissions.user,
                "search": &*context.search,
                "session_key": session.map_or("", NodeSession::key),
                "splunkd_uri": session.map_or("", NodeSession::uri),
                "splunk_version": "9.0",
                "dispatch_dir": "",
                "maxresultrows": CHUNK_ROWS_MAX,
                "earliest_time": time(context.range.earliest),
                "latest_time": time(context.range.latest),
            },
        })
    }
}

/// Exchange of requests and answers with a program.
struct ProgramSession {
    name: String,
    process: Box<dyn CommandProcess>,
    context: CommandContext,
    /// Error messages reported by the program.
    reported_error: Option<String>,
    /// Whether the last answer contained an error message.
    has_new_error: bool,
    /// The session of the program at the REST interface, which ends with the program.
    _session: Option<NodeSession>,
}

impl ProgramSession {
    /// Sends a request and returns the answer's metadata and body; messages in the answer go to the user.
    fn request(&mut self, metadata: &Value, body: Vec<u8>) -> Result<(Value, Vec<u8>), EngineError> {
        let name = &self.name;
        let failed = |fault: &dyn Display| EngineError::invalid(format!("{name}: {fault}"));
        let stop = Arc::clone(&self.context.stop);
        let chunk = CommandChunk { metadata: metadata.to_string(), body };
        let answer = self.process.exchange(&chunk, &|| stop.is_cancelled());
        let answer = answer.map_err(|fault| match &self.reported_error {
            Some(told) => failed(told),
            None => failed(&fault),
        })?;
        let metadata: Value = match answer.metadata.trim() {
            "" => Value::Null,
            text => serde_json::from_str(text).map_err(|error| failed(&format!("its answer is not JSON: {error}")))?,
        };
        self.has_new_error = false;
        for message in metadata["inspector"]["messages"].as_array().into_iter().flatten() {
            let (level, text) = (message[0].as_str().unwrap_or_default(), message[1].as_str().unwrap_or_default());
            if !level.eq_ignore_ascii_case("debug") && !text.is_empty() {
                self.context.messages.push(format!("{name}: {text}"));
            }
            if level.eq_ignore_ascii_case("error") || level.eq_ignore_ascii_case("fatal") {
                let before = self.reported_error.take().map(|told| format!("{told}; ")).unwrap_or_default();
                self.reported_error = Some(format!("{before}{text}"));
                self.has_new_error = true;
            }
        }
        match metadata["error"].as_str() {
            Some(fault) if !fault.is_empty() => Err(failed(&fault)),
            _ => Ok((metadata, answer.body)),
        }
    }
}

/// Rows that a program returns for the rows that it receives, or that it generates.
struct ProgramRows {
    /// Rows still to be read and sent; `None` at the end.
    rows: Option<RowIter>,
    /// Rows read but not sent; the next rows to send are last.
    pending: Vec<RecordBatch>,
    /// Whether rows are collected to fill a chunk.
    fills_chunks: bool,
    required: Vec<String>,
    session: ProgramSession,
    /// Exchanges since the last rows were sent.
    exchanges: usize,
    done: bool,
}

impl ProgramRows {
    /// The next rows to send, small enough for a chunk.
    fn next_rows(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        let batch = match (self.pending.pop(), &mut self.rows) {
            (Some(batch), _) => batch,
            (None, Some(rows)) => match rows.next().transpose()? {
                Some(batch) => batch,
                None => {
                    self.rows = None;
                    return Ok(None);
                }
            },
            (None, None) => return Ok(None),
        };
        if batch.num_rows() > CHUNK_ROWS_MAX {
            self.pending.push(batch.slice(CHUNK_ROWS_MAX, batch.num_rows() - CHUNK_ROWS_MAX));
            return Ok(Some(batch.slice(0, CHUNK_ROWS_MAX)));
        }
        Ok(Some(batch))
    }

    /// The rows of the next chunk, and whether it is the last.
    fn next_chunk(&mut self) -> Result<(Option<RecordBatch>, bool), EngineError> {
        if !self.fills_chunks {
            let rows = self.next_rows()?;
            let is_last = rows.is_none();
            return Ok((rows, is_last));
        }
        let (mut batches, mut count) = (Vec::new(), 0);
        while let Some(batch) = self.next_rows()? {
            if count + batch.num_rows() > CHUNK_ROWS_MAX {
                self.pending.push(batch);
                return Ok((Some(concat_rows(batches)?), false));
            }
            count += batch.num_rows();
            batches.push(batch);
        }
        Ok(((!batches.is_empty()).then(|| concat_rows(batches)).transpose()?, true))
    }

    /// One exchange: sends rows and receives rows.
    fn exchange_rows(&mut self) -> Result<RecordBatch, EngineError> {
        let (rows, is_last) = self.next_chunk()?;
        let body = rows.map(|rows| body_of(&rows, &self.required)).transpose()?.unwrap_or_default();
        let (metadata, body) = self.session.request(&json!({ "action": "execute", "finished": is_last }), body)?;
        self.done = metadata["finished"] == Value::Bool(true);
        if let Some(told) =
            self.session.reported_error.as_ref().filter(|_| self.done && self.session.has_new_error && body.is_empty())
        {
            // The program has failed, so the rows that it returned before are incomplete.
            return Err(EngineError::invalid(format!("{}: {told}", self.session.name)));
        }
        self.exchanges += usize::from(is_last);
        if self.exchanges > EXCHANGES_MAX {
            let what = format!("{}: the program does not finish", self.session.name);
            return Err(EngineError::Limit {
                what,
                limit: "exchanges after the last input rows",
                value: EXCHANGES_MAX as u64,
            });
        }
        rows_of(&body).map_err(|fault| EngineError::invalid(format!("{}: {fault}", self.session.name)))
    }
}

impl Iterator for ProgramRows {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            match self.exchange_rows() {
                Ok(rows) if rows.num_rows() == 0 => {}
                Ok(rows) => return Some(Ok(rows)),
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
