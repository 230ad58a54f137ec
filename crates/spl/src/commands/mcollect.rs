//! `mcollect` and `meventcollect`: write measurements as events with JSON fields; rewritten to `eval`, `foreach` and
//! `collect`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::diagnostic::Diagnostic;
use crate::parse::{Known, Parser, Read, quote};

const OPTIONS: Known = Known {
    command: "mcollect",
    names: &["index", "split", "prefix_field", "host", "source", "sourcetype", "marker"],
    ignored: &["spool", "file", "split_field", "run_in_preview"],
};

/// Names, help line and kind.
pub(super) const INFO: CommandInfo = CommandInfo {
    names: &["mcollect", "meventcollect"],
    syntax: "mcollect index=INDEX [split=] [DIMENSION...]",
    summary: "Stores the rows as measurements of a metrics index",
    group: Group::Keeping,
    capability: Some("run_mcollect"),
    kind: Kind::Blocking,
    page: Some("mcatalog"),
};

/// Parses the command's arguments.
pub(super) fn parse(parser: &mut Parser<'_>, call: Call<'_>) -> Read<Vec<Command>> {
    let name = call.name;
    let (mut index, mut options, mut splits, mut prefix) = (None, String::new(), false, None);
    let mut dimensions = Vec::new();
    loop {
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "index" => index = Some(option.value),
                "split" => splits = option.value.eq_ignore_ascii_case("allnums") || option.boolean()?,
                "prefix_field" => prefix = Some(option.value.replace('\'', "")),
                "marker" => return Err(option.refuse("nothing: measurements have dimensions")),
                other => options.push_str(&format!(" {other}={}", quote(&option.value))),
            }
        }
        parser.skip_separators();
        match parser.field_word() {
            Some(word) => dimensions.push(word.text.replace('\'', "")),
            None => break,
        }
    }
    let Some(index) = index else {
        let remark = Diagnostic::error(format!("{name}: no index is given"), parser.here());
        return Err(remark.with_hint(format!("write `{name} index=my_metrics`")));
    };
    if !options.contains(" sourcetype=") {
        options.push_str(" sourcetype=mcollect_stash");
    }
    let mut text = String::from("| eval _quarry_time=_time");
    if splits {
        // Every numeric field that is not a dimension is a separate measurement.
        let prefix = prefix.map_or(String::new(), |field| format!(".'{field}'.\".\""));
        let is_dimension = dimensions.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let guard =
            if is_dimension.is_empty() { String::new() } else { format!("NOT in(\"<<FIELD>>\", {is_dimension}) AND ") };
        text.push_str(&format!(
            " | foreach * [ eval _metric=\"metric_name:\"{prefix}.\"<<FIELD>>\", {{_metric}}=if({guard}\
             isnum('<<FIELD>>'), '<<FIELD>>', null()), \"<<FIELD>>\"=if({guard}isnum('<<FIELD>>'), null(), \
             '<<FIELD>>') ]"
        ));
    } else {
        text.push_str(
            " | eval _metric=if(isnull(metric_name), null(), \"metric_name:\".metric_name), {_metric}=_value \
             | fields - metric_name",
        );
    }
    text.push_str(" | fields - _raw _metric _value | tojson output_field=_raw");
    text.push_str(&format!(
        " | eval _time=_quarry_time | fields - _quarry_time | collect index={}{options}",
        quote(&index)
    ));
    let place = parser.since(parser.stage_start());
    let mut commands = parser.standing_for(&text)?;
    if let Some(Command::Collect(collect)) = commands.last_mut() {
        collect.index_span = place;
        collect.name = name.to_owned();
    }
    Ok(commands)
}
