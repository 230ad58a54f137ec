//! `tags`: adds the tags of field values as fields.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("tags", &["outputfield", "inclname", "inclvalue", "allowed_tags"]);

/// `tags [outputfield=FIELD] [inclname=] [inclvalue=] [allowed_tags=] [FIELD...]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagsCommand {
    /// Fields whose tags are added; empty for all.
    pub fields: Vec<String>,
    /// `outputfield=`: one field for all tags; by default the tags of each field are in a field of their own,
    /// `tag::FIELD`.
    pub output: Option<String>,
    /// `inclname=` (default `f`): whether `FIELD::` precedes a tag.
    pub with_name: bool,
    /// `inclvalue=` (default `f`): whether the value and `::` precede a tag.
    pub with_value: bool,
    /// `allowed_tags=`: the only tags to add.
    pub allowed: Option<Vec<String>>,
}

impl Syntax for TagsCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "tags [outputfield=FIELD] [inclname=] [inclvalue=] [FIELD...]",
        summary: "Adds the tags of field values to rows",
        group: Group::Fields,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TagsCommand> {
        let (fields, output, allowed) = (Vec::new(), None, None);
        let mut command = TagsCommand { fields, output, with_name: false, with_value: false, allowed };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
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
            parser.skip_separators();
            match parser.field_word() {
                Some(word) => command.fields.push(word.text),
                None => break,
            }
        }
        Ok(command)
    }
}

impl Semantics for TagsCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        // Tags may have conditions on fields that are known only at run time.
        after.all |= self.fields.is_empty();
        for field in &self.fields {
            after.add(field);
            after.add(&format!("tag::{field}"));
        }
        after
    }
}
