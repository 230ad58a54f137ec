//! `makejson`: writes fields as a JSON object; rewritten to `tojson` with guessed types.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::{JsonType, ToJsonCommand};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("makejson", &["output"]);

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "makejson FIELD... output=FIELD",
    summary: "Combines fields into a JSON object",
    group: Group::Fields,
    kind: Kind::Row,
    page: Some("tojson"),
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Command> {
    let (mut fields, mut output) = (Vec::new(), None);
    loop {
        while let Some(option) = parser.option(OPTIONS)? {
            output = Some(option.value);
        }
        parser.skip_separators();
        match parser.field_word() {
            // Types in parentheses are accepted as for tojson, but types are guessed anyway.
            Some(word) => fields.push((JsonType::Auto, word.text)),
            None => break,
        }
    }
    let output = output.ok_or_else(|| {
        let remark = Diagnostic::error("makejson: no output= is given", parser.here());
        remark.with_hint("write `makejson a, b output=json`")
    })?;
    Ok(ToJsonCommand { fields, default_type: JsonType::Auto, fill_null: false, internal: false, output }.into())
}
