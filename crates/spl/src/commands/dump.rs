//! `dump`: writes the rows of a search to files in the search's folder.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Effect, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, RAW};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("dump", &["basefilename", "rollsize", "compress", "format", "fields"]);

/// Field with the subfolder to which a row is written.
pub const DUMP_FOLDER_FIELD: &str = "_dstpath";
/// Default of `rollsize=`, in MB.
const DEFAULT_ROLL_MB: u64 = 63;
/// Maximum of `rollsize=`.
const ROLL_MB_MAX: u64 = 1 << 20;
/// Default of `compress=`.
const DEFAULT_COMPRESSION: u32 = 2;
/// Maximum of `compress=`.
const COMPRESSION_MAX: u32 = 9;
/// Maximum length in characters of `basefilename=`.
const NAME_CHARS_MAX: usize = 100;

/// `dump`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DumpCommand {
    /// `basefilename=`: prefix of the file names.
    pub base: String,
    /// Position of the name.
    pub base_span: Span,
    /// `rollsize=` (default 63 MB), in bytes: a file gets no more rows once its rows have this size uncompressed.
    pub roll_bytes: u64,
    /// `compress=` (default `2`): level of gzip; 0 is none.
    pub compression: u32,
    /// `format=` (default `raw`): file format.
    pub format: DumpFormat,
    /// `fields=`; if empty, all.
    pub fields: Vec<String>,
}

/// Format of rows that `dump` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DumpFormat {
    /// The text of the event.
    Raw,
    /// Comma-separated values, with names in the first line.
    Csv,
    /// CSV with tabs.
    Tsv,
    /// One JSON object per line.
    Json,
    /// A `result` element with the fields in it.
    Xml,
}

impl Syntax for DumpCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "dump basefilename=NAME [rollsize=MB] [compress=N] [format=raw|csv|tsv|json|xml] [fields=FIELD,...]",
        summary: "Writes the rows to files in the directory of the search",
        group: Group::Storing,
        capability: Some("run_dump"),
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<DumpCommand> {
        let mut command = DumpCommand {
            base: String::new(),
            base_span: parser.here(),
            roll_bytes: DEFAULT_ROLL_MB << 20,
            compression: DEFAULT_COMPRESSION,
            format: DumpFormat::Raw,
            fields: Vec::new(),
        };
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "basefilename" => (command.base, command.base_span) = (option.value, option.value_span),
                "rollsize" => {
                    let size = option.number::<u64>().ok().filter(|size| (1..=ROLL_MB_MAX).contains(size));
                    let refused = || option.invalid_value(&format!("a number of MB from 1 to {ROLL_MB_MAX}"));
                    command.roll_bytes = size.ok_or_else(refused)? << 20;
                }
                "compress" => {
                    let level = option.number::<u32>().ok().filter(|level| *level <= COMPRESSION_MAX);
                    command.compression =
                        level.ok_or_else(|| option.invalid_value(&format!("a level from 0 to {COMPRESSION_MAX}")))?;
                }
                "format" => {
                    command.format = match option.value.to_ascii_lowercase().as_str() {
                        "raw" => DumpFormat::Raw,
                        "csv" => DumpFormat::Csv,
                        "tsv" => DumpFormat::Tsv,
                        "json" => DumpFormat::Json,
                        "xml" => DumpFormat::Xml,
                        _ => return Err(option.invalid_value("raw, csv, tsv, json or xml")),
                    }
                }
                _ => {
                    let names = option.value.split(',').map(str::trim).filter(|name| !name.is_empty());
                    command.fields = names.map(str::to_owned).collect();
                    // Unquoted values end at the first comma.
                    while parser.eat(',') {
                        command.fields.extend(parser.field_word().map(|word| word.text));
                    }
                }
            }
        }
        let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if command.base.is_empty() {
            let remark = Diagnostic::error("dump: no basefilename= is given", command.base_span);
            return Err(remark.with_hint("write `dump basefilename=export`"));
        }
        if !command.base.chars().all(is_allowed)
            || command.base.starts_with('.')
            || command.base.chars().count() > NAME_CHARS_MAX
        {
            let remark = Diagnostic::error(
                format!("dump: `{}` cannot begin the name of a file", command.base),
                command.base_span,
            );
            return Err(remark.with_hint("use letters, digits, `-`, `_` and `.`; the field _dstpath names folders"));
        }
        Ok(command)
    }
}

impl Semantics for DumpCommand {
    fn effect(&self) -> Option<Effect<'_>> {
        Some(Effect::Other)
    }

    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(DUMP_FOLDER_FIELD);
        match (self.format, self.fields.is_empty()) {
            (DumpFormat::Raw, _) => after.add(RAW),
            (_, true) => after.all = true,
            (_, false) => self.fields.iter().for_each(|field| after.add(field)),
        }
        after
    }
}
