//! `loadjob`: loads the result of a finished search.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("loadjob", &["savedsearch", "events", "artifact_offset"])
    .ignoring(&["ignore_running", "job_delegate"]);

/// `loadjob`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadJobCommand {
    /// Job or saved search whose results are loaded.
    pub job: LoadedJob,
    /// Position of the job's name in the text.
    pub span: Span,
    /// `artifact_offset=` (default `0`): number of runs of a saved search to go back.
    pub offset: usize,
    /// `events=` (default `f`): whether the events of the search are loaded instead of its result.
    pub events: bool,
}

/// Results that `loadjob` reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadedJob {
    /// A search id.
    Sid(String),
    /// `savedsearch="user:app:name"`.
    Saved {
        /// Owner.
        user: String,
        /// App.
        app: String,
        /// Name.
        name: String,
    },
}

impl Syntax for LoadJobCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "loadjob SID | savedsearch=\"USER:APP:NAME\"",
        summary: "Loads the results of a finished search",
        group: Group::Generating,
        kind: Kind::Generating,
        page: Some("rest"),
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<LoadJobCommand> {
        let (mut job, mut offset, mut events) = (None, 0, false);
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "events" => events = option.boolean()?,
                    "artifact_offset" => offset = option.number()?,
                    _ => {
                        let mut parts = option.value.splitn(3, ':').map(str::to_owned);
                        let (Some(user), Some(app), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
                            return Err(option.invalid_value("user:app:name"));
                        };
                        job = Some((LoadedJob::Saved { user, app, name }, option.value_span));
                    }
                }
            }
            match parser.field_word() {
                Some(word) => job = Some((LoadedJob::Sid(word.text), word.span)),
                None => break,
            }
        }
        match job {
            Some((job, span)) => Ok(LoadJobCommand { job, span, offset, events }),
            None => Err(Diagnostic::error("loadjob: no job is given", parser.here())
                .with_hint("write `loadjob SID` or `loadjob savedsearch=\"user:app:name\"`")),
        }
    }
}

impl Semantics for LoadJobCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }
}
