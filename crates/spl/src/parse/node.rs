//! Commands that read what the node knows: rest, loadjob, history, dbinspect.

use super::cursor::{Parser, Read};
use super::options::Known;
use crate::ast::{Command, DbInspectCommand, LoadJobCommand, LoadedJob, NodeCommand, RestCommand};
use crate::diagnostic::Diagnostic;

const REST: Known = Known {
    command: "rest",
    names: &["count", "search", "f", "strict", "report_as", "splunk_server"],
    ignored: &["splunk_server_group", "timeout"],
};
const LOADJOB: Known = Known {
    command: "loadjob",
    names: &["savedsearch", "events", "artifact_offset"],
    ignored: &["ignore_running", "job_delegate"],
};
const HISTORY: Known = Known { command: "history", names: &[], ignored: &["events"] };
const DBINSPECT: Known = Known {
    command: "dbinspect",
    names: &["index", "timeformat", "span", "corruptonly", "alltime"],
    ignored: &["cached", "splunk_server", "splunk_server_group"],
};

impl Parser<'_> {
    /// The command of this name, or `None` when it is none of this family.
    pub(crate) fn node_command(&mut self, name: &str) -> Read<Option<Command>> {
        let command = match name {
            "rest" => NodeCommand::Rest(self.rest_command()?),
            "loadjob" => NodeCommand::LoadJob(self.loadjob()?),
            "history" => {
                while self.option(HISTORY)?.is_some() {}
                NodeCommand::History
            }
            "dbinspect" => NodeCommand::DbInspect(self.dbinspect()?),
            _ => return Ok(None),
        };
        Ok(Some(Command::Node(command)))
    }

    fn rest_command(&mut self) -> Read<RestCommand> {
        let mut command = RestCommand {
            path: String::new(),
            span: self.here(),
            count: 0,
            search: None,
            fields: Vec::new(),
            strict: false,
            servers: Vec::new(),
            as_text: false,
        };
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.peek_option().is_some() {
                let place = self.pos;
                let option = self.read_option()?;
                match option.name.as_str() {
                    "count" => command.count = option.number()?,
                    "search" => command.search = Some(option.value),
                    "f" => command.fields.extend(option.value.split(',').map(|name| name.trim().to_owned())),
                    "strict" => command.strict = option.boolean()?,
                    "splunk_server" => command.servers.push(option.value),
                    "report_as" if option.value.eq_ignore_ascii_case("text") => command.as_text = true,
                    "report_as" => return Err(option.refuse("text")),
                    name if REST.ignored.contains(&name) => {}
                    // Any other is an argument of the endpoint.
                    _ => {
                        let written = self.text[place..self.pos].trim();
                        let mark = if command.path.contains('?') { '&' } else { '?' };
                        command.path.push_str(&format!("{mark}{}", written.replace('"', "")));
                    }
                }
                continue;
            }
            let word = self.expect_field("the path of an endpoint")?;
            let rest = std::mem::replace(&mut command.path, word.text);
            command.path.push_str(&rest);
            command.span = word.span;
        }
        if command.path.is_empty() || command.path.starts_with('?') {
            let remark = Diagnostic::error("rest: no endpoint is given", command.span);
            return Err(remark.with_hint("write `rest /services/server/info`"));
        }
        if !command.path.starts_with('/') {
            command.path.insert(0, '/');
        }
        Ok(command)
    }

    fn loadjob(&mut self) -> Read<LoadJobCommand> {
        let (mut job, mut offset, mut events) = (None, 0, false);
        loop {
            while let Some(option) = self.option(LOADJOB)? {
                match option.name.as_str() {
                    "events" => events = option.boolean()?,
                    "artifact_offset" => offset = option.number()?,
                    _ => {
                        let mut parts = option.value.splitn(3, ':').map(str::to_owned);
                        let (Some(user), Some(app), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
                            return Err(option.refuse("user:app:name"));
                        };
                        job = Some((LoadedJob::Saved { user, app, name }, option.value_span));
                    }
                }
            }
            match self.field_word() {
                Some(word) => job = Some((LoadedJob::Sid(word.text), word.span)),
                None => break,
            }
        }
        match job {
            Some((job, span)) => Ok(LoadJobCommand { job, span, offset, events }),
            None => Err(Diagnostic::error("loadjob: no job is given", self.here())
                .with_hint("write `loadjob SID` or `loadjob savedsearch=\"user:app:name\"`")),
        }
    }

    fn dbinspect(&mut self) -> Read<DbInspectCommand> {
        let mut command = DbInspectCommand {
            indexes: Vec::new(),
            time_format: "%m/%d/%Y:%H:%M:%S".to_owned(),
            span: None,
            corrupt_only: false,
            all_time: false,
        };
        while let Some(option) = self.option(DBINSPECT)? {
            match option.name.as_str() {
                "index" => command.indexes.push(option.value),
                "timeformat" => command.time_format = option.value,
                "span" => command.span = Some(option.time_span()?),
                "alltime" => command.all_time = option.boolean()?,
                _ => command.corrupt_only = option.boolean()?,
            }
        }
        Ok(command)
    }
}
