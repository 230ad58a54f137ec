//! `diff`: shows the lines in which a field differs between two rows.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

/// Default of `maxlen=`, in bytes.
const DEFAULT_BYTES_MAX: usize = 100_000;

const OPTIONS: OptionNames =
    OptionNames::new("diff", &["position1", "position2", "attribute", "diffheader", "context", "maxlen"]);

/// `diff`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffCommand {
    /// `position1=` (default `1`) and `position2=` (default `2`): numbers of the compared rows, from 1; the second is
    /// the greater.
    pub positions: (usize, usize),
    /// `attribute=` (default `_raw`): field that is compared.
    pub field: String,
    /// `diffheader=` (default `f`): whether two lines that name the rows come first.
    pub header: bool,
    /// `context=` (default `f`): whether the output is in context format.
    pub context: bool,
    /// `maxlen=` (default `100000`): bytes of each text that are compared; 0 for all.
    pub bytes_max: usize,
}

impl Syntax for DiffCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "diff [position1=N] [position2=N] [attribute=FIELD] [diffheader=] [context=] [maxlen=]",
        summary: "Shows the lines in which two rows differ",
        group: Group::Rows,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<DiffCommand> {
        let field = "_raw".to_owned();
        let mut command =
            DiffCommand { positions: (1, 2), field, header: false, context: false, bytes_max: DEFAULT_BYTES_MAX };
        let mut place = parser.here();
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "position1" => command.positions.0 = option.number()?,
                "position2" => command.positions.1 = option.number()?,
                "attribute" => command.field = option.value,
                "diffheader" => command.header = option.boolean()?,
                "context" => command.context = option.boolean()?,
                _ => command.bytes_max = option.number()?,
            }
            if option.name.starts_with("position") {
                place = option.value_span;
            }
        }
        let (first, second) = command.positions;
        if first == 0 || second <= first {
            let remark = Diagnostic::error("diff: position1 must be at least 1, and position2 greater", place);
            return Err(remark.with_hint("write `diff position1=1 position2=2`"));
        }
        Ok(command)
    }
}

impl Semantics for DiffCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}
