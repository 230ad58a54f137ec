//! `folderize`: groups values into folders; rewritten to `bucketdir` and `rename`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::BucketDirCommand;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("folderize", &["attr", "sep", "size", "minfolders", "maxfolders"]);

/// Default of `maxfolders=`.
const DEFAULT_FOLDERS_MAX: usize = 20;
/// Default of `minfolders=`.
const DEFAULT_FOLDERS_MIN: usize = 2;

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "folderize attr=FIELD [sep=TEXT] [size=FIELD] [minfolders=N] [maxfolders=N]",
    summary: "Groups values by their common prefixes",
    group: Group::Patterns,
    kind: Kind::Blocking,
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Vec<Command>> {
    let mut command = BucketDirCommand {
        path: String::new(),
        size: "totalCount".to_owned(),
        max: DEFAULT_FOLDERS_MAX,
        least: DEFAULT_FOLDERS_MIN,
        count: None,
        separator: "::".to_owned(),
    };
    while let Some(option) = parser.option(OPTIONS)? {
        match option.name.as_str() {
            "attr" => command.path = option.value,
            "size" => command.size = option.value,
            "minfolders" => command.least = option.number()?,
            "maxfolders" => command.max = option.number::<usize>()?.max(1),
            _ => command.separator = option.value,
        }
    }
    if command.path.is_empty() || command.separator.is_empty() {
        let remark = Diagnostic::error("folderize: attr= is needed, and sep= must not be empty", parser.here());
        return Err(remark.with_hint("write `folderize attr=source sep=\"/\"`"));
    }
    Ok(vec![command.into(), parser.builder().rename("count", "memberCount")])
}
