//! `datamodel`: returns the events or the definition of a data model.

use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{Span, Stage};
use crate::dependencies::Dependencies;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser, Word};

const OPTIONS: OptionNames = OptionNames::new("datamodel", &["strict_fields"]).ignoring(&[
    "allow_old_summaries",
    "summariesonly",
    "strictfields",
]);

/// `datamodel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataModelCommand {
    /// Model and object; `None` lists the models.
    pub name: Option<DataModelName>,
    /// Output of the command.
    pub mode: DataModelMode,
    /// `strict_fields=` (default `t`): whether only fields of the model are kept.
    pub strict_fields: bool,
    /// Fields that `pivot` names, each with its position; the object must have them.
    pub required: Vec<(String, Span)>,
}

impl DataModelCommand {
    /// The command to which `from` is rewritten: returns the events of an object with all their fields.
    pub(super) fn events_of(name: DataModelName) -> DataModelCommand {
        let (mode, strict_fields, required) = (DataModelMode::Flat, false, Vec::new());
        DataModelCommand { name: Some(name), mode, strict_fields, required }
    }
}

/// Output of `datamodel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataModelMode {
    /// The definition.
    Definition,
    /// Events, fields named `Object.field`.
    Search,
    /// Events with fields under their own names.
    Flat,
}

/// A data model and one of its objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataModelName {
    /// Name of the model.
    pub model: String,
    /// Name of the object: the last element of its path.
    pub object: Option<String>,
    /// Position in the text.
    pub span: Span,
}

impl Syntax for DataModelCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "datamodel [MODEL [OBJECT] [search|flat]] [strict_fields=]",
        summary: "Shows the events or the definition of a data model",
        group: Group::Searching,
        kind: Kind::Generating,
        clauses: &["search"],
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<DataModelCommand> {
        let mut command =
            DataModelCommand { name: None, mode: DataModelMode::Definition, strict_fields: true, required: Vec::new() };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                command.strict_fields = option.boolean()?;
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            let Some(name) = &mut command.name else {
                command.name = Some(parser.data_model_name()?);
                continue;
            };
            let place = parser.pos;
            let word = parser.expect_field("an object of the data model")?;
            let mode = match word.text.to_ascii_lowercase().as_str() {
                "search" | "acceleration_search" => Some(DataModelMode::Search),
                "flat" => Some(DataModelMode::Flat),
                _ => None,
            };
            let name = match (name, mode) {
                (_, Some(mode)) => {
                    command.mode = mode;
                    continue;
                }
                (name, None) if name.object.is_none() => name,
                _ => {
                    parser.pos = place;
                    parser.skip_blank();
                    let remark = Diagnostic::error(format!("datamodel: unexpected {}", parser.found_text()), word.span);
                    return Err(remark.with_hint("write `datamodel MODEL OBJECT search`"));
                }
            };
            name.object = word.text.rsplit('.').next().map(str::to_owned);
            name.span.end = word.span.end;
        }
        if command.mode != DataModelMode::Definition && command.name.is_none() {
            return Err(Diagnostic::error("datamodel: no data model is given", parser.here()));
        }
        Ok(command)
    }
}

impl Semantics for DataModelCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn begins_with(&self) -> Beginning<'_> {
        match &self.name {
            Some(name) if self.mode != DataModelMode::Definition => Beginning::DataModel(self, name),
            _ => Beginning::Rows,
        }
    }

    fn returns_table(&self, _: bool) -> bool {
        self.mode == DataModelMode::Definition
    }

    fn add_dependencies(&self, _: &[Stage], needs: &mut Dependencies) {
        self.name.iter().for_each(|name| needs.add_model(name));
    }
}

impl Parser<'_> {
    /// Parses `MODEL`, `MODEL.OBJECT` or `MODEL.ROOT.CHILD`, quoted or not.
    pub(super) fn data_model_name(&mut self) -> ParseResult<DataModelName> {
        let start = self.pos;
        self.skip_blank();
        if self.has_unknown_macro(start, self.pos) {
            return Ok(DataModelName { model: "macro".to_owned(), object: None, span: self.here() });
        }
        let Word { mut text, mut span, .. } = self.expect_field("the name of a data model")?;
        // Each part may be quoted separately.
        while self.text[self.pos..self.end].starts_with(".\"") {
            self.bump();
            if let Some(part) = self.eat_quoted() {
                text = format!("{text}.{}", part.text);
                span.end = part.span.end;
            }
        }
        DataModelName::of(&text, span)
    }
}

impl DataModelName {
    /// Splits `MODEL`, `MODEL.OBJECT` or `MODEL.ROOT.CHILD`.
    pub(super) fn of(text: &str, span: Span) -> ParseResult<DataModelName> {
        let mut parts = text.split('.').map(|part| part.trim().trim_matches('"'));
        let model = parts.next().unwrap_or_default().to_owned();
        let object = parts.next_back().map(str::to_owned);
        if model.is_empty() || object.as_deref() == Some("") {
            return Err(Diagnostic::error(format!("`{text}` is not MODEL or MODEL.OBJECT"), span));
        }
        Ok(DataModelName { model, object, span })
    }
}
