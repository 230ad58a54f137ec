//! The costs of a job: their form in a finished job's file, and the message about the most expensive part of a slow
//! search.
//!
//! Not here: the measurement ([`quarry_engine::Costs`]), and the names that clients see for the parts (api).

use quarry_engine::{CostFigures, CostReport, PruneFigures, ScanPart};
use serde_json::{Value, json};

/// Run time in milliseconds from which a job reports its most expensive part.
const SLOW_MS: u64 = 2_000;
/// Minimum share of the run time, in percent, of a part that is reported.
const SHARE_MIN: u64 = 25;

/// The costs in the form in which [`from_facts`] reads them.
pub(super) fn to_facts(costs: &CostReport) -> Value {
    let list = |of: &CostFigures| json!([of.time_ns, of.calls, of.rows_in, of.rows_out]);
    let commands: Vec<Value> = costs.commands.iter().map(|(name, of)| json!([name, list(of)])).collect();
    let PruneFigures { slabs, slabs_left, pages, pages_left, text_bytes } = costs.pruned;
    json!({
        "scan": costs.scan.iter().map(list).collect::<Vec<Value>>(), "commands": commands,
        "pruned": [slabs, slabs_left, pages, pages_left, text_bytes],
    })
}

/// The costs of a finished job; missing figures are 0.
pub(super) fn from_facts(facts: &Value) -> CostReport {
    let number = |of: &Value, at: usize| of[at].as_u64().unwrap_or(0);
    let figures = |of: &Value| CostFigures {
        time_ns: number(of, 0),
        calls: number(of, 1),
        rows_in: number(of, 2),
        rows_out: number(of, 3),
    };
    let commands = facts["commands"].as_array().into_iter().flatten();
    let pruned = &facts["pruned"];
    CostReport {
        scan: std::array::from_fn(|part| figures(&facts["scan"][part])),
        commands: commands.filter_map(|of| Some((of[0].as_str()?.to_owned(), figures(&of[1])))).collect(),
        pruned: PruneFigures {
            slabs: number(pruned, 0),
            slabs_left: number(pruned, 1),
            pages: number(pruned, 2),
            pages_left: number(pruned, 3),
            text_bytes: number(pruned, 4),
        },
    }
}

/// Message about the most expensive part of a slow search, with advice.
pub(super) fn slow_search_message(costs: &CostReport, elapsed_ms: u64) -> Option<String> {
    let time = |part| costs.scan_part(part).time_ns;
    let commands = costs.commands.iter().map(|(_, of)| of.time_ns);
    let all_ns = (commands.sum::<u64>() + time(ScanPart::Index) + time(ScanPart::Pages)).max(1);
    let (took_ns, text) = exclusive_parts(costs).into_iter().max_by_key(|(took_ns, _)| *took_ns)?;
    let percent = took_ns.saturating_mul(100) / all_ns;
    (elapsed_ms >= SLOW_MS && percent >= SHARE_MIN).then(|| format!("{percent} % of the time was spent {text}"))
}

/// The parts of a search that do not overlap, each with advice.
fn exclusive_parts(costs: &CostReport) -> Vec<(u64, String)> {
    let time = |part| costs.scan_part(part).time_ns;
    let PruneFigures { pages, pages_left, .. } = costs.pruned;
    let pruned = match pages_left.saturating_mul(10) >= pages.saturating_mul(9) {
        true => "no term of the search excludes pages".to_owned(),
        false => format!("{pages_left} of {pages} pages may hold a match"),
    };
    let fewer = format!("{pruned}; add a word that few events have, or shorten the time range");
    let within = [ScanPart::RawData, ScanPart::Fields, ScanPart::Filter, ScanPart::Rules];
    let rest = time(ScanPart::Pages).saturating_sub(within.into_iter().map(time).sum());
    let mut parts = vec![
        (time(ScanPart::RawData), format!("reading the text of events: {fewer}")),
        (rest, format!("reading pages: {fewer}")),
        (time(ScanPart::Filter), format!("testing the search condition: {fewer}")),
        (time(ScanPart::Index), "looking up terms: shorten the time range, or name the index".to_owned()),
        (
            time(ScanPart::Fields),
            "extracting fields: name the fields that you need, for example with `fields`".to_owned(),
        ),
        (
            time(ScanPart::Rules),
            "on aliases, calculated fields, lookups, event types and tags of props.conf: name the fields that you need"
                .to_owned(),
        ),
    ];
    parts.extend(costs.commands.iter().map(|(name, of)| {
        let text = format!("in the command {name}, which received {} rows: filter or aggregate before it", of.rows_in);
        (of.time_ns, text)
    }));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(scan: [u64; ScanPart::ALL.len()], stats: u64, pages_left: u64) -> CostReport {
        let of = |time_ns| CostFigures { time_ns, calls: 3, rows_in: 500, rows_out: 2 };
        CostReport {
            scan: scan.map(of),
            commands: vec![("eval".to_owned(), of(1)), ("stats".to_owned(), of(stats))],
            pruned: PruneFigures { slabs: 4, slabs_left: 3, pages: 100, pages_left, text_bytes: 9 },
        }
    }

    #[test]
    fn costs_round_trip_through_job_facts() {
        let costs = costs([1, 2, 3, 4, 5, 6], 7, 8);
        assert_eq!(from_facts(&to_facts(&costs)), costs);
        assert_eq!(from_facts(&Value::Null), CostReport::default());
    }

    #[test]
    fn slow_searches_report_their_most_expensive_part() {
        // Scan times of index, pages, raw data, fields, filter and rules; time of `stats`; number of pages left to
        // read, of 100; expected message.
        for (scan, stats, pages_left, expected) in [
            (
                [0, 90, 80, 5, 5, 0],
                9,
                95,
                "80 % of the time was spent reading the text of events: no term of the search excludes pages",
            ),
            ([0, 90, 80, 5, 5, 0], 9, 40, "reading the text of events: 40 of 100 pages may hold a match"),
            ([0, 60, 10, 5, 5, 0], 0, 95, "65 % of the time was spent reading pages"),
            ([0, 90, 5, 80, 5, 0], 9, 95, "extracting fields"),
            ([0, 90, 5, 5, 80, 0], 9, 95, "testing the search condition"),
            ([0, 90, 5, 5, 0, 80], 9, 95, "on aliases"),
            ([90, 9, 9, 0, 0, 0], 0, 95, "90 % of the time was spent looking up terms"),
            ([0, 9, 9, 0, 0, 0], 90, 95, "90 % of the time was spent in the command stats, which received 500 rows"),
        ] {
            let told = slow_search_message(&costs(scan, stats, pages_left), SLOW_MS).unwrap();
            assert!(told.contains(expected), "{told}");
        }
        assert_eq!(slow_search_message(&costs([0, 90, 80, 5, 5, 0], 9, 95), SLOW_MS - 1), None);
        assert_eq!(slow_search_message(&CostReport::default(), SLOW_MS), None, "nothing was measured");
    }
}
