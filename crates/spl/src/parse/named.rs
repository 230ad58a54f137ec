//! Commands that read what is defined elsewhere: datamodel, from, savedsearch; and metadata.

use super::cursor::{Parser, Read};
use super::options::Known;
use crate::ast::{Command, DataModelCommand, DataModelMode, FromCommand, MetadataCommand, SavedSearchCommand};
use crate::diagnostic::Diagnostic;

const DATAMODEL: Known = Known {
    command: "datamodel",
    names: &["strict_fields"],
    ignored: &["allow_old_summaries", "summariesonly", "strictfields"],
};

const METADATA: Known = Known {
    command: "metadata",
    names: &["type", "index"],
    ignored: &["splunk_server", "splunk_server_group", "datatype"],
};

impl Parser<'_> {
    pub(crate) fn named_source(&mut self, name: &str) -> Read<Command> {
        match name {
            "datamodel" => self.datamodel(),
            "from" => self.dataset_command(),
            "metadata" => self.metadata(),
            _ => self.savedsearch(),
        }
    }

    /// `datamodel [MODEL [OBJECT] [search|flat|acceleration_search]] [strict_fields=]`.
    fn datamodel(&mut self) -> Read<Command> {
        let mut command = DataModelCommand { name: None, mode: DataModelMode::Definition, strict_fields: true };
        loop {
            while let Some(option) = self.option(DATAMODEL)? {
                command.strict_fields = option.boolean()?;
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            let Some(name) = &mut command.name else {
                command.name = Some(self.data_model_name()?);
                continue;
            };
            let place = self.pos;
            let word = self.expect_field("an object of the data model")?;
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
                    self.pos = place;
                    self.skip_blank();
                    let remark = Diagnostic::error(format!("datamodel: unexpected {}", self.found()), word.span);
                    return Err(remark.with_hint("write `datamodel MODEL OBJECT search`"));
                }
            };
            name.object = word.text.rsplit('.').next().map(str::to_owned);
            name.span.end = word.span.end;
        }
        if command.mode != DataModelMode::Definition && command.name.is_none() {
            return Err(Diagnostic::error("datamodel: no data model is given", self.here()));
        }
        Ok(Command::DataModel(command))
    }

    /// `metadata type=hosts|sources|sourcetypes [index=...]`.
    fn metadata(&mut self) -> Read<Command> {
        let mut command = MetadataCommand { kind: "hosts".to_owned(), indexes: Vec::new() };
        while let Some(option) = self.option(METADATA)? {
            if option.name == "index" {
                command.indexes.push(option.value);
                continue;
            }
            let kind = option.value.to_ascii_lowercase();
            if !matches!(kind.as_str(), "hosts" | "sources" | "sourcetypes") {
                return Err(option.refuse("hosts, sources or sourcetypes"));
            }
            command.kind = kind;
        }
        Ok(Command::Metadata(command))
    }

    /// `from TYPE:NAME`, the name quoted or not, `TYPE NAME` too.
    fn dataset_command(&mut self) -> Read<Command> {
        self.skip_blank();
        let start = self.pos;
        // The whole of it may stand in quotes.
        let quoted = self.peek() == Some('"');
        if quoted {
            self.bump();
        }
        let kind = self.peek_name().to_ascii_lowercase();
        self.pos += kind.len();
        let known = matches!(kind.as_str(), "datamodel" | "lookup" | "inputlookup" | "savedsearch");
        if !known {
            self.pos = start;
            let remark = Diagnostic::error(format!("from: unexpected {}", self.found()), self.here());
            return Err(remark.with_hint("write from datamodel:NAME, lookup:NAME or savedsearch:NAME"));
        }
        if !self.eat(':') {
            self.eat('=');
        }
        let command = match kind.as_str() {
            "datamodel" => FromCommand::DataModel(self.data_model_name()?),
            "savedsearch" => {
                let word = self.expect_field("the name of a saved search")?;
                FromCommand::SavedSearch(word.text, word.span)
            }
            _ => {
                let word = self.expect_field("the name of a lookup")?;
                FromCommand::Lookup(word.text, word.span)
            }
        };
        if quoted {
            self.eat('"');
        }
        Ok(Command::From(command))
    }

    /// `savedsearch NAME [nosubstitution=] [TOKEN=VALUE ...]`.
    fn savedsearch(&mut self) -> Read<Command> {
        let mut command =
            SavedSearchCommand { name: String::new(), span: self.here(), tokens: Vec::new(), substitutes: true };
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.peek_option().is_some() {
                let start = self.pos;
                let option = self.read_option()?;
                // The name keeps its letters: tokens are told apart by case.
                let written = self.text[start..self.pos].trim_start();
                let name = written[..option.name.len().min(written.len())].to_owned();
                if option.name == "nosubstitution" {
                    command.substitutes = !option.boolean()?;
                } else {
                    command.tokens.push((name, option.value));
                }
                continue;
            }
            let word = self.expect_field("the name of a saved search")?;
            if command.name.is_empty() {
                (command.name, command.span) = (word.text, word.span);
            } else {
                return Err(Diagnostic::error(format!("savedsearch: unexpected `{}`", word.text), word.span)
                    .with_hint("put a name with blanks in quotes"));
            }
        }
        if command.name.is_empty() {
            return Err(Diagnostic::error("savedsearch: no name is given", self.here()));
        }
        Ok(Command::SavedSearch(command))
    }
}
