//! outputlookup, sendalert, delete and iplocation.

use super::cursor::{Parser, Read};
use super::options::Known;
use crate::ast::{Command, IpLocationCommand, KeepCommand, OutputLookupCommand, SendAlertCommand};
use crate::diagnostic::Diagnostic;

const OUTPUTLOOKUP: Known = Known {
    command: "outputlookup",
    names: &["append", "create_empty", "override_if_empty", "max", "key_field", "csv_safe"],
    ignored: &["createinapp", "create_context", "output_format", "allow_updates", "dispatch", "singlefile", "usexml"],
};
const SENDALERT: Known =
    Known { command: "sendalert", names: &["results_link", "results_path", "param.name"], ignored: &[] };
const IPLOCATION: Known = Known { command: "iplocation", names: &["prefix", "allfields", "lang"], ignored: &[] };

/// Whether names of options of `sendalert` have this character.
fn is_of_parameter(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-')
}

impl Parser<'_> {
    pub(crate) fn write_command(&mut self, name: &str) -> Read<Command> {
        match name {
            "outputlookup" => self.outputlookup(),
            "sendalert" => self.sendalert(),
            "delete" => Ok(Command::Keep(KeepCommand::Delete)),
            _ => self.iplocation(),
        }
    }

    fn outputlookup(&mut self) -> Read<Command> {
        let mut command = OutputLookupCommand {
            name: "outputlookup",
            table: String::new(),
            table_span: self.here(),
            append: false,
            create_empty: true,
            override_if_empty: true,
            max: None,
            key_field: None,
            safe: false,
        };
        loop {
            while let Some(option) = self.option(OUTPUTLOOKUP)? {
                match option.name.as_str() {
                    "append" => command.append = option.boolean()?,
                    "create_empty" => command.create_empty = option.boolean()?,
                    "override_if_empty" => command.override_if_empty = option.boolean()?,
                    "max" => command.max = Some(option.number()?),
                    "csv_safe" => command.safe = option.boolean()?,
                    _ => command.key_field = Some(option.value),
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            let word = self.expect_field("a lookup table")?;
            if !command.table.is_empty() {
                return Err(Diagnostic::error(format!("outputlookup: unexpected `{}`", word.text), word.span));
            }
            (command.table, command.table_span) = (word.text, word.span);
        }
        if command.table.is_empty() {
            return Err(Diagnostic::error("outputlookup: no lookup table is given", self.here()));
        }
        Ok(Command::Keep(KeepCommand::OutputLookup(command)))
    }

    /// `sendalert ACTION [results_link=] [results_path=] [param.NAME=VALUE]...`.
    fn sendalert(&mut self) -> Read<Command> {
        let (mut action, mut action_span) = (String::new(), self.here());
        let (mut results_link, mut results_path, mut parameters) = (None, None, Vec::new());
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            let rest = self.rest();
            let length = rest.find(|c: char| !is_of_parameter(c)).unwrap_or(rest.len());
            let written = &rest[..length];
            if length == 0 || !rest[length..].trim_start().starts_with('=') {
                let word = self.expect_field("an alert action")?;
                if !action.is_empty() {
                    let remark = Diagnostic::error(format!("sendalert: unexpected `{}`", word.text), word.span);
                    return Err(remark.with_hint("write parameters as `param.name=\"value\"`"));
                }
                (action, action_span) = (word.text, word.span);
                continue;
            }
            let option = self.read_option_of(length)?;
            match (option.name.as_str(), written.strip_prefix("param.").filter(|name| !name.is_empty())) {
                ("results_link", _) => results_link = Some(option.value),
                ("results_path", _) => results_path = Some(option.value),
                (_, Some(name)) => parameters.push((name.to_owned(), option.value)),
                _ => self.unknown_option(SENDALERT, &option),
            }
        }
        if action.is_empty() {
            let remark = Diagnostic::error("sendalert: no alert action is given", self.here());
            return Err(remark.with_hint("write `sendalert ACTION param.name=\"value\"`"));
        }
        let command = SendAlertCommand { action, action_span, results_link, results_path, parameters };
        Ok(Command::Keep(KeepCommand::SendAlert(command)))
    }

    fn iplocation(&mut self) -> Read<Command> {
        let mut command =
            IpLocationCommand { field: String::new(), prefix: String::new(), all_fields: false, languages: Vec::new() };
        loop {
            while let Some(option) = self.option(IPLOCATION)? {
                match option.name.as_str() {
                    "prefix" => command.prefix = option.value,
                    "lang" => {
                        let languages = option.value.split(',').map(|name| name.trim().to_owned());
                        command.languages = languages.filter(|name| !name.is_empty()).collect();
                    }
                    _ => command.all_fields = option.boolean()?,
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            let word = self.expect_field("a field with addresses")?;
            if !command.field.is_empty() {
                return Err(Diagnostic::error(format!("iplocation: unexpected `{}`", word.text), word.span));
            }
            command.field = word.text;
        }
        if command.field.is_empty() {
            return Err(Diagnostic::error("iplocation: no field is given", self.here()));
        }
        Ok(Command::IpLocation(command))
    }
}
