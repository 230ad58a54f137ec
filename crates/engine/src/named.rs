//! Commands that read what is defined elsewhere: datamodel, from, savedsearch.

use std::collections::BTreeSet;

use arrow::record_batch::RecordBatch;
use quarry_spl::ast::{
    Command, DataModelCommand, DataModelMode, DataModelName, FieldPattern, FieldsCommand, FromCommand,
    InputLookupCommand, MetadataCommand, Pipeline, RenameCommand, SavedSearchCommand, SearchExpr, SearchTxnCommand,
    Span, Stage, TimeModifiers,
};

use crate::EngineError;
use crate::command::RowIter;
use crate::knowledge::macros::expanded;
use crate::knowledge::{did_you_mean, model_names, model_text};
use crate::rows::{ColumnBuilder, batch_of};
use crate::run::Runner;

/// Saved searches that run saved searches, at most so deep.
const SAVED_SEARCH_DEPTH_MAX: usize = 8;
/// Fields that every event of a data model keeps.
const EVENT_FIELDS: [&str; 6] = ["host", "source", "sourcetype", "index", "eventtype", "tag"];

impl Runner {
    /// The rows of `datamodel` and the commands after it.
    pub(crate) fn data_model(
        &self,
        command: &DataModelCommand,
        span: Span,
        rest: &[Stage],
    ) -> Result<RowIter, EngineError> {
        match (&command.name, command.mode) {
            (Some(name), DataModelMode::Search) => self.model_events(name, true, command.strict_fields, span, rest),
            (Some(name), DataModelMode::Flat) => self.model_events(name, false, command.strict_fields, span, rest),
            (name, _) => {
                let rows = self.definitions(name.as_ref())?;
                self.chain(Box::new(std::iter::once(Ok(rows))), rest, &self.context)
            }
        }
    }

    /// The rows of `metadata` and the commands after it: what is known of events without their text.
    pub(crate) fn metadata(&self, command: &MetadataCommand, rest: &[Stage]) -> Result<RowIter, EngineError> {
        let kind = &command.kind;
        let field = kind.strip_suffix('s').unwrap_or(kind);
        let indexes: Vec<String> =
            command.indexes.iter().map(|index| format!("index=\"{}\"", index.replace(['"', '\\'], ""))).collect();
        let text = format!(
            "search {} | stats min(_time) AS firstTime max(_time) AS lastTime max(_indextime) AS recentTime \
             count AS totalCount BY {field} | eval type=\"{kind}\" \
             | table firstTime {field} lastTime recentTime totalCount type",
            if indexes.is_empty() { "*".to_owned() } else { format!("({})", indexes.join(" OR ")) },
        );
        let parsed = quarry_spl::parse(&text);
        let rows = self.run(&parsed.pipeline)?;
        self.chain(rows, rest, &self.context)
    }

    /// The rows of `from` and the commands after it.
    pub(crate) fn dataset(&self, command: &FromCommand, span: Span, rest: &[Stage]) -> Result<RowIter, EngineError> {
        match command {
            FromCommand::DataModel(name) => self.model_events(name, false, false, span, rest),
            FromCommand::Lookup(table, table_span) => {
                let lookup = InputLookupCommand {
                    table: table.clone(),
                    table_span: *table_span,
                    append: false,
                    strict: true,
                    start: 0,
                    max: usize::MAX,
                    filter: None,
                };
                let stage = Stage { command: Command::InputLookup(lookup), span };
                self.run(&Pipeline { commands: [vec![stage], rest.to_vec()].concat(), span })
            }
            FromCommand::Transactions(command) => self.transactions(command, rest),
            FromCommand::SavedSearch(name, name_span) => {
                let command =
                    SavedSearchCommand { name: name.clone(), span: *name_span, tokens: Vec::new(), substitutes: false };
                self.saved_search(&command, rest)
            }
        }
    }

    /// The rows of `searchtxn` and the commands after it: of the events that the stanza selects, those that share a
    /// value of its fields with one that fits the condition, brought together.
    fn transactions(&self, command: &SearchTxnCommand, rest: &[Stage]) -> Result<RowIter, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(command.span) };
        let (kind, condition) = (&command.kind, &command.condition);
        let Some(settings) = self.knowledge.transaction_type(kind) else {
            let hint = did_you_mean(kind, &self.knowledge.transaction_types());
            return Err(invalid(format!("searchtxn: transactiontypes.conf has no stanza {kind}{hint}")));
        };
        let setting = |name: &str| settings.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
        let selected = setting("search").map_or("*".to_owned(), |text| format!("({text})"));
        let fields: Vec<String> = setting("fields")
            .unwrap_or_default()
            .split([',', ' '])
            .filter(|name| !name.is_empty())
            .map(|name| format!("\"{}\"", name.trim_matches('"')))
            .collect();
        let mut text = format!("search {selected}");
        if !fields.is_empty() {
            let (fields, terms) = (fields.join(" "), command.terms_max);
            let join = if command.any { "OR" } else { "AND" };
            text.push_str(&format!(
                " [ search {selected} ({condition}) | table {fields} | dedup keepempty=t {fields} | head {terms} \
                 | format \"(\" \"(\" \"{join}\" \")\" \"OR\" \")\" ]"
            ));
        }
        if !command.events_only {
            text.push_str(&format!(" | transaction name=\"{kind}\" | search {condition}"));
        }
        let text = self.expanded(&text).map_err(|fault| invalid(format!("searchtxn: {fault}")))?;
        let parsed = quarry_spl::parse(&text);
        if let Some(fault) = parsed.diagnostics.iter().find(|remark| remark.severity == quarry_spl::Severity::Error) {
            return Err(invalid(format!("searchtxn: with transactiontypes.conf [{kind}]: {fault}")));
        }
        let stages = Pipeline { commands: [parsed.pipeline.commands, rest.to_vec()].concat(), span: command.span };
        self.run(&stages)
    }

    /// The rows of `savedsearch` and the commands after it.
    pub(crate) fn saved_search(&self, command: &SavedSearchCommand, rest: &[Stage]) -> Result<RowIter, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(command.span) };
        let name = &command.name;
        if self.depth >= SAVED_SEARCH_DEPTH_MAX {
            return Err(invalid(format!("saved searches run each other more than {SAVED_SEARCH_DEPTH_MAX} deep")));
        }
        let tokens = if command.substitutes { command.tokens.as_slice() } else { &[] };
        let text = self.saved_with(name, tokens, command.span)?;
        let parsed = quarry_spl::parse_with_commands(&text, &self.commands.names());
        if let Some(fault) = parsed.diagnostics.iter().find(|remark| remark.severity == quarry_spl::Severity::Error) {
            return Err(invalid(format!("saved search {name}: {fault}")));
        }
        let explainer = self.explainer.as_ref().map(|explainer| explainer.with_text(&text));
        let inner = Runner { depth: self.depth + 1, explainer, ..self.clone() };
        let rows = inner.run(&parsed.pipeline).map_err(|error| match error {
            EngineError::Invalid { message, .. } => invalid(format!("saved search {name}: {message}")),
            other => other,
        })?;
        self.chain(rows, rest, &self.context)
    }

    /// Text of a saved search, its macros replaced.
    pub(crate) fn text_of_saved(&self, name: &str, span: Span) -> Result<String, EngineError> {
        self.saved_with(name, &[], span)
    }

    /// The same with values for `$token$`.
    fn saved_with(&self, name: &str, tokens: &[(String, String)], span: Span) -> Result<String, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(span) };
        let Some(text) = self.knowledge.saved_search(name) else {
            let hint = did_you_mean(name, &self.knowledge.saved_searches());
            return Err(invalid(format!("there is no saved search {name}{hint}")));
        };
        let fill = |text: String, (token, value): &(String, String)| text.replace(&format!("${token}$"), value);
        let text = tokens.iter().fold(text, fill);
        self.expanded(&text).map_err(|fault| invalid(format!("saved search {name}: {fault}")))
    }

    /// A text with its macros replaced.
    pub(crate) fn expanded(&self, text: &str) -> Result<String, String> {
        let context = self.context.expressions();
        let expansion = expanded(text, self.knowledge.as_ref(), &context);
        match expansion.diagnostics.first() {
            None => Ok(expansion.text),
            Some(fault) => Err(fault.to_string()),
        }
    }

    /// The events of an object of a data model, its fields with or without the object's path.
    fn model_events(
        &self,
        name: &DataModelName,
        with_path: bool,
        strict: bool,
        span: Span,
        rest: &[Stage],
    ) -> Result<RowIter, EngineError> {
        let object = self.model_object(name, &BTreeSet::new())?;
        let fields = object.fields();
        let wanted: BTreeSet<String> = fields.iter().map(|(_, field)| field.clone()).collect();
        let (search, mut stages) = object.search(&SearchExpr::All, TimeModifiers::default(), &wanted, span);
        let pattern = |text: &str| FieldPattern { text: text.to_owned(), span };
        let mut commands = Vec::new();
        if strict {
            let kept = wanted.iter().map(String::as_str).chain(EVENT_FIELDS);
            commands.push(Command::from(FieldsCommand { removes: false, fields: kept.map(pattern).collect() }));
        }
        if with_path {
            let named = fields.iter().filter(|(_, field)| !EVENT_FIELDS.contains(&field.as_str()));
            let pairs: Vec<_> = named.map(|(path, field)| (pattern(field), pattern(path))).collect();
            commands.push(RenameCommand { pairs }.into());
        }
        stages.extend(commands.into_iter().map(|command| Stage { command, span }));
        stages.extend_from_slice(rest);
        self.object_rows(&object, search, stages, span)
    }

    /// The JSON texts of all models, of one, or of one object.
    fn definitions(&self, name: Option<&DataModelName>) -> Result<RecordBatch, EngineError> {
        let source = self.knowledge.as_ref();
        let mut texts = Vec::new();
        match name {
            None => {
                for model in model_names(source) {
                    texts.push(model_text(source, &model)?);
                }
            }
            Some(name) => {
                let invalid = |message: String| EngineError::Invalid { message, span: Some(name.span) };
                let text = model_text(source, &name.model).map_err(|error| invalid(error.to_string()))?;
                texts.push(match &name.object {
                    None => text,
                    Some(object) => object_text(&text, object)
                        .ok_or_else(|| invalid(format!("data model {} has no object {object}", name.model)))?,
                });
            }
        }
        let mut column = ColumnBuilder::new(texts.len());
        texts.iter().for_each(|text| column.push_text(text));
        batch_of([("model", column.finish())], texts.len())
    }
}

/// The part of a model's JSON that defines an object.
fn object_text(model: &str, object: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(model).ok()?;
    let objects = json["objects"].as_array()?;
    objects.iter().find(|known| known["objectName"] == object).map(ToString::to_string)
}
