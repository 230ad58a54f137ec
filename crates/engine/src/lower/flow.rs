//! Steps of commands that run searches of their own: foreach, map, transaction.

use std::sync::Arc;

use quarry_spl::ast::{
    EventTest, FlowCommand, ForeachCommand, ForeachOver, MapCommand, MapSearch, Span, TransactionCommand,
};

use super::{Lowering, Step};
use crate::EngineError;
use crate::commands::foreach::{Foreach, steps_for_field};
use crate::commands::map::Map;
use crate::commands::transaction::{Test, Transaction};
use crate::expr::CompiledExpr;
use crate::filled::filled;
use crate::knowledge::macros::expanded;
use crate::row_filter::RowFilter;

impl Lowering<'_> {
    /// foreach, map and transaction.
    pub(super) fn flow(&self, flow: &FlowCommand) -> Result<Vec<Step>, EngineError> {
        match flow {
            FlowCommand::Foreach(foreach) => self.foreach(foreach),
            FlowCommand::Map(map) => Ok(vec![self.map(map)?]),
            FlowCommand::Filled(command) => {
                let commands = filled(command, self.span, self.environment)?;
                let steps = commands.iter().map(|command| self.steps(command));
                Ok(steps.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
            }
            FlowCommand::Transaction(transaction) => {
                let transaction = self.transaction_of_kind(transaction)?;
                let test = |test: &EventTest| -> Result<Test, EngineError> {
                    Ok(match test {
                        EventTest::Condition(expr) => Test::Condition(RowFilter::new(expr, &self.expressions())?),
                        EventTest::Expression(expr) => Test::Expression(CompiledExpr::new(expr, &self.expressions())?),
                    })
                };
                let starts = transaction.starts_with.as_ref().map(test).transpose()?;
                let ends = transaction.ends_with.as_ref().map(test).transpose()?;
                let command = transaction;
                Ok(vec![Step::Blocking(Arc::new(Transaction { command, starts, ends }))])
            }
        }
    }

    /// The text of `map` with its macros replaced, which those of the search were not: it stands in quotes.
    fn with_macros(&self, text: &str, span: Span) -> Result<String, EngineError> {
        let knowledge = self.environment.knowledge();
        let expansion = expanded(text, knowledge.as_ref(), &self.expressions());
        match expansion.diagnostics.first() {
            Some(fault) => Err(EngineError::Invalid { message: format!("map: {fault}"), span: Some(span) }),
            None => Ok(expansion.text),
        }
    }

    /// `transaction` with what its stanza of transactiontypes.conf says.
    fn transaction_of_kind(&self, transaction: &TransactionCommand) -> Result<TransactionCommand, EngineError> {
        let Some(kind) = &transaction.kind else { return Ok(transaction.clone()) };
        let (name, knowledge) = (&kind.name, self.environment.knowledge());
        let invalid = |message: String| EngineError::Invalid { message, span: Some(kind.span) };
        let settings = knowledge.transaction_type(name).ok_or_else(|| {
            let known = knowledge.transaction_types();
            let known =
                if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
            invalid(format!("transaction: transactiontypes.conf has no stanza {name}; {known}"))
        })?;
        transaction.of_kind(&settings).map_err(|fault| invalid(format!("transactiontypes.conf [{name}]: {fault}")))
    }

    fn foreach(&self, foreach: &ForeachCommand) -> Result<Vec<Step>, EngineError> {
        if let ForeachOver::Fields(fields) = &foreach.over
            && fields.iter().all(|field| !field.is_wildcard())
        {
            let steps = fields.iter().map(|field| steps_for_field(foreach, &field.text, &[], self.environment));
            return Ok(steps.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
        }
        let environment = self.environment.detached();
        Ok(vec![Step::Blocking(Arc::new(Foreach { command: foreach.clone(), environment }))])
    }

    fn map(&self, map: &MapCommand) -> Result<Step, EngineError> {
        let text = match &map.search {
            // Before values are written in, which may hold anything.
            MapSearch::Text(text, span) => self.with_macros(text, *span)?,
            MapSearch::Saved(name, span) => self.environment.saved_text(name, *span)?,
        };
        let environment = self.environment.detached();
        Ok(Step::Blocking(Arc::new(Map { command: map.clone(), text, environment })))
    }
}
