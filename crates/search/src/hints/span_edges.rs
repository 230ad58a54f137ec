//! A hint about time spans that begin at unexpected minutes. As in Splunk, spans shorter than a day are counted from
//! midnight UTC. In zones with a half-hour offset, hours therefore begin at :30.

use quarry_event::time::NS_PER_SEC;
use quarry_spl::Diagnostic;
use quarry_spl::analyse::is_removed;
use quarry_spl::ast::{BinOptions, BinSpan, Command, Stage};

use super::outcome::find_name_span;

const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 24 * HOUR_S;

/// A hint about the first command whose spans begin at unexpected minutes in a zone with this offset.
pub(super) fn span_edge_note(text: &str, commands: &[Stage], offset_s: i32) -> Option<Diagnostic> {
    let offset_s = i64::from(offset_s);
    if offset_s % HOUR_S == 0 {
        return None;
    }
    commands.iter().enumerate().find_map(|(at, stage)| {
        let bin = time_bins(&stage.command).filter(|_| !is_removed("_time", &commands[..at]))?;
        let Some(BinSpan::Time(span)) = &bin.span else { return None };
        let width_s = span.unit.fixed_ns()?.checked_mul(i64::try_from(span.amount).ok()?)? / NS_PER_SEC;
        // Spans that do not divide a day evenly begin at different times each day in every zone, so they get no hint.
        let is_odd = width_s > 0 && DAY_S % width_s == 0 && offset_s % width_s != 0;
        let minute = (offset_s.rem_euclid(HOUR_S)) / 60;
        let remark =
            format!("spans below a day are counted from midnight UTC, so they begin at :{minute:02} in this zone");
        let place = find_name_span(text, stage.span, "span");
        (is_odd && bin.align_time.is_none())
            .then(|| Diagnostic::warning(remark, place).with_hint("aligntime=@d counts them from midnight here"))
    })
}

/// Options with which a command bins `_time`; `None` for other commands.
fn time_bins(command: &Command) -> Option<&BinOptions> {
    match command {
        Command::TimeChart(chart) => Some(&chart.bin),
        Command::Bin(bin) if bin.field.text == "_time" => Some(&bin.options),
        Command::Chart(chart) => {
            let by = [&chart.row, &chart.column].into_iter().flatten().find(|split| split.field.text == "_time")?;
            Some(&by.bin)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_at_odd_minutes_are_reported_with_a_fix() {
        const KOLKATA: i32 = 19_800;
        const KATHMANDU: i32 = 20_700;
        for (text, offset_s, minute) in [
            ("* | timechart span=1h count", KOLKATA, Some(":30")),
            ("* | timechart span=30m count", KOLKATA, None),
            ("* | timechart span=30m count", KATHMANDU, Some(":45")),
            ("* | bin _time span=2h | stats count by _time", -12_600, Some(":30")),
            ("* | chart count by _time span=1h", KOLKATA, Some(":30")),
            ("* | bin bytes span=1h", KOLKATA, None),
            ("* | stats count by host | bin _time span=1h", KOLKATA, None),
            ("* | timechart span=1h aligntime=@d count", KOLKATA, None),
            ("* | timechart span=1d count", KOLKATA, None),
            ("* | timechart span=1s count", KOLKATA, None),
            ("* | timechart span=4h count", 7_200, None),
        ] {
            let parsed = quarry_spl::parse(text);
            let said = span_edge_note(text, &parsed.pipeline.commands, offset_s).map(|remark| remark.message);
            assert_eq!(said.is_some(), minute.is_some(), "{text}: {said:?}");
            assert!(said.unwrap_or_default().contains(minute.unwrap_or_default()));
        }
    }
}
