//! `bucketdir`: groups paths into directories until few enough remain.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("bucketdir", &["pathfield", "sizefield", "maxcount", "countfield", "sep"]);

/// `bucketdir`, and `folderize`, which is rewritten to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BucketDirCommand {
    /// `pathfield=`: field with the path.
    pub path: String,
    /// `sizefield=`: field with the size.
    pub size: String,
    /// `maxcount=` (default `10`): maximum number of paths that remain.
    pub max: usize,
    /// `minfolders=` of `folderize`: minimum number of paths that remain.
    pub least: usize,
    /// `countfield=`: field with the number of items at a path.
    pub count: Option<String>,
    /// `sep=` (default `/`): separator between directories.
    pub separator: String,
}

impl Syntax for BucketDirCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "bucketdir pathfield=FIELD sizefield=FIELD [maxcount=N] [countfield=FIELD] [sep=C]",
        summary: "Groups paths into directories",
        group: Group::Patterns,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<BucketDirCommand> {
        let mut command = BucketDirCommand {
            path: String::new(),
            size: String::new(),
            max: 10,
            least: 0,
            count: None,
            separator: "/".to_owned(),
        };
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "pathfield" => command.path = option.value,
                "sizefield" => command.size = option.value,
                "maxcount" => command.max = option.number::<usize>()?.max(1),
                "countfield" => command.count = Some(option.value),
                _ => command.separator = option.value,
            }
        }
        if command.path.is_empty() || command.size.is_empty() || command.separator.is_empty() {
            return Err(Diagnostic::error("bucketdir: pathfield= and sizefield= are needed", parser.here()));
        }
        Ok(command)
    }
}

impl Semantics for BucketDirCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.path);
        after.add(&self.size);
        after
    }
}
