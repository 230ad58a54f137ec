//! `reltime`: how long ago a time is; rewritten to `eval`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::parse::{Known, Parser, Read, eval_field};

const OPTIONS: Known = Known { command: "reltime", names: &["timefield", "prefix"], ignored: &[] };

/// Names, help line and kind.
pub(super) const INFO: CommandInfo = CommandInfo {
    names: &["reltime"],
    syntax: "reltime [timefield=FIELD] [prefix=TEXT]",
    summary: "Tells how long ago a time is",
    group: Group::Fields,
    kind: Kind::Row,
    ..CommandInfo::DEFAULT
};

/// Parses the command's arguments.
pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<Vec<Command>> {
    let (mut fields, mut prefix) = (Vec::new(), "reltime_".to_owned());
    while let Some(option) = parser.option(OPTIONS)? {
        match option.name.as_str() {
            "timefield" => fields.extend(option.value.split(',').map(|name| name.trim().to_owned())),
            _ => prefix = option.value,
        }
    }
    let mut text = String::from("| eval ");
    if fields.is_empty() {
        text.push_str(&relative_time("_time", "reltime"));
    }
    let assignments: Vec<String> = fields.iter().map(|name| relative_time(name, &format!("{prefix}{name}"))).collect();
    text.push_str(&assignments.join(", "));
    parser.standing_for(&text)
}

/// An expression that sets `output` to how long ago the time in `name` is.
fn relative_time(name: &str, output: &str) -> String {
    let age = format!("(now()-{})", eval_field(name));
    let units = [
        ("second", 1_u64, 60_u64),
        ("minute", 60, 3_600),
        ("hour", 3_600, 86_400),
        ("day", 86_400, 2_592_000),
        ("month", 2_592_000, 31_536_000),
        ("year", 31_536_000, u64::MAX >> 20),
    ];
    let cases = units.map(|(unit, length, below)| {
        let count = format!("floor({age}/{length})");
        format!("{age}<{below}, tostring({count}).if({count}=1, \" {unit} ago\", \" {unit}s ago\")")
    });
    format!("{}=case({age}<0, null(), {})", eval_field(output), cases.join(", "))
}
