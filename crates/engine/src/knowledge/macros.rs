//! Macro expansion with the macros of the knowledge source; macro expressions are evaluated on one row without fields.

use std::cell::RefCell;

use quarry_eval::expr::{CompiledExpr, ExprContext};
use quarry_eval::rows::{Value, batch_of, null_column, reader, with_column};
use quarry_spl::first_fault;
use quarry_spl::macros::{Expansion, Macro, MacroSource, MacroValue, expand};
use quarry_stdx::Fault;

use super::KnowledgeSource;

/// Expands the macros of a search.
pub(crate) fn expand_macros(text: &str, knowledge: &dyn KnowledgeSource, context: &ExprContext) -> Expansion {
    expand(text, &Macros { knowledge, context, names: RefCell::default() })
}

struct Macros<'a> {
    knowledge: &'a dyn KnowledgeSource,
    context: &'a ExprContext,
    names: RefCell<Option<Vec<String>>>,
}

impl MacroSource for Macros<'_> {
    fn find(&self, name: &str, arguments: usize) -> Option<Macro> {
        self.knowledge.macro_definition(name, arguments)
    }

    fn names(&self) -> Vec<String> {
        self.names.borrow_mut().get_or_insert_with(|| self.knowledge.macro_names()).clone()
    }

    fn evaluate(&self, expression: &str) -> Result<MacroValue, Fault> {
        let expr = quarry_spl::parse_expression(expression).map_err(|faults| first_fault(&faults))?;
        let compiled = CompiledExpr::new(&expr, self.context)?;
        let row = batch_of([("_time", null_column(1))], 1)?;
        let row = with_column(&row, "value", compiled.evaluate(&row)?)?;
        let value = reader(&row, "value");
        Ok(match value.value(0) {
            Value::Null => MacroValue::Null,
            Value::Bool(value) => MacroValue::Bool(value),
            value => value.text().map_or(MacroValue::Null, |text| MacroValue::Text(text.into_owned())),
        })
    }
}
