//! `sendalert`: passes all rows to an alert action of an app, once, and emits them unchanged.
//!
//! The engine collects the rows and formats them. The implementation of [`CommandSource`] knows the actions, runs the
//! program and reports its messages. If the action fails, the rows are still passed on and a message is shown.

use std::io::Write;
use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::SeenNames;
use quarry_eval::rows::{self, RowBuffer, RowIter, is_hidden};
use quarry_spl::ast::SendAlertCommand;
use quarry_stdx::Fault;

use super::Execute;
use crate::blocking::Blocking;
use crate::custom_commands::chunk::{is_multivalue, write_body};
use crate::custom_commands::{AlertCall, CommandSource};
use crate::lowering::{Environment, Lowering, SearchEnvironment, Step, blocking};
use crate::node::NodeSession;

impl Execute for SendAlertCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let (source, environment) = (lowering.environment.commands(), lowering.environment.detach());
        Ok(vec![blocking(SendAlert { command: self.clone(), source, environment })])
    }

    fn check(&self, environment: &dyn SearchEnvironment) -> Result<(), EngineError> {
        let checked = environment.commands().check_alert(&self.action);
        checked.map_err(|fault| EngineError::at(fault.with_context("sendalert"), self.action_span))
    }
}

/// Runs the action on all rows and passes them on.
struct SendAlert {
    command: SendAlertCommand,
    environment: Arc<dyn Environment + Send + Sync>,
    source: Arc<dyn CommandSource>,
}

impl Blocking for SendAlert {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let failed = |fault: Fault| EngineError::at(fault.with_context("sendalert"), self.command.action_span);
        self.source.check_alert(&self.command.action).map_err(failed)?;
        let (mut all, mut names) = (RowBuffer::new("sendalert", &context.dataflow), SeenNames::default());
        for batch in rows {
            let batch = batch?;
            names.add(&batch);
            all.push(&batch)?;
        }
        let names: Vec<String> = names.all().iter().filter(|name| !is_hidden(name)).cloned().collect();
        let first_row = first_row(&all, &names)?;
        let mut write_rows = |out: &mut dyn Write| write_rows(&all, &names, out).map_err(Fault::from);
        let session = self.environment.open_session();
        let call = AlertCall {
            action: &self.command.action,
            parameters: &self.command.parameters,
            results_link: self.command.results_link.as_deref(),
            results_path: self.command.results_path.as_deref(),
            sid: &context.id,
            search: &context.search,
            user: (!context.permissions.is_owner()).then_some(context.permissions.user.as_str()),
            session_key: session.as_ref().map_or("", NodeSession::key),
            now: context.now,
            zone: &context.zone,
            row_count: all.num_rows(),
            first_row: &first_row,
            write_rows: &mut write_rows,
        };
        let messages = self.source.send_alert(call, &|| context.stop.is_cancelled()).map_err(failed)?;
        for message in messages {
            context.messages.push(format!("sendalert {}: {message}", self.command.action));
        }
        Ok(all.into_rows())
    }
}

/// Fields of the first row.
fn first_row(all: &RowBuffer, names: &[String]) -> Result<Vec<(String, Vec<String>)>, EngineError> {
    let Some(batch) = all.iter().next().transpose()? else { return Ok(Vec::new()) };
    let fields = names.iter().map(|name| {
        let reader = rows::reader(&batch, name);
        let values = reader.value(0).into_values().into_iter().map(|value| value.into_owned());
        (name.clone(), values.collect::<Vec<String>>())
    });
    Ok(fields.filter(|(_, values)| !values.is_empty()).collect())
}

/// Writes all rows under one header line.
fn write_rows(all: &RowBuffer, names: &[String], out: &mut dyn Write) -> Result<(), EngineError> {
    let mut multi = vec![false; names.len()];
    for batch in all.iter() {
        let batch = batch?;
        for (name, multi) in names.iter().zip(&mut multi) {
            *multi = *multi || is_multivalue(&rows::reader(&batch, name), batch.num_rows());
        }
    }
    let mut writer = csv::Writer::from_writer(out);
    let mut is_first = true;
    for batch in all.iter() {
        write_body(&mut writer, &batch?, names, &multi, std::mem::take(&mut is_first))?;
    }
    writer.flush().map_err(|error| EngineError::invalid(format!("rows cannot be written as CSV: {error}")))
}
