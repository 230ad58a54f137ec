//! More commands that are short for others: tags, typer.

use super::cursor::{Parser, Read};
use super::options::Known;
use crate::ast::{Command, TagsCommand, ValuesCommand};

const TAGS: Known =
    Known { command: "tags", names: &["outputfield", "inclname", "inclvalue", "allowed_tags"], ignored: &[] };
const TYPER: Known = Known { command: "typer", names: &[], ignored: &["eventtype", "maxlen"] };

impl Parser<'_> {
    /// The last of the commands that one of this name stands for, those before it being put aside; `None` when it is
    /// none of these.
    pub(crate) fn brief_command(&mut self, name: &str) -> Read<Option<Command>> {
        let command = match name {
            "tags" => self.tags()?,
            "typer" => {
                while self.option(TYPER)?.is_some() {}
                Command::Values(ValuesCommand::Typer)
            }
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    /// `tags [outputfield=F] [inclname=] [inclvalue=] [allowed_tags=] [FIELD ...]`.
    fn tags(&mut self) -> Read<Command> {
        let (fields, output, allowed) = (Vec::new(), None, None);
        let mut command = TagsCommand { fields, output, with_name: false, with_value: false, allowed };
        loop {
            while let Some(option) = self.option(TAGS)? {
                match option.name.as_str() {
                    "outputfield" => command.output = Some(option.value),
                    "inclname" => command.with_name = option.boolean()?,
                    "inclvalue" => command.with_value = option.boolean()?,
                    _ => {
                        let names = option.value.split([',', ' ']).filter(|name| !name.is_empty());
                        command.allowed = Some(names.map(str::to_owned).collect());
                    }
                }
            }
            self.skip_separators();
            match self.field_word() {
                Some(word) => command.fields.push(word.text),
                None => break,
            }
        }
        Ok(Command::Values(ValuesCommand::Tags(command)))
    }
}
