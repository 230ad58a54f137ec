//! How often a `cron_schedule` runs a search, for results that are kept for so many periods.
//!
//! The shortest time between two runs of a day; a schedule that names weekdays has a week, one that names days or
//! months has a month. Nothing is run by this.

/// Minutes of a day, of a week and of the longest month.
const DAY: u32 = 24 * 60;
const WEEK: u32 = 7 * DAY;
const MONTH: u32 = 31 * DAY;
/// Seconds of a minute.
const MINUTE: i64 = 60;

/// Seconds between two runs; `None` for what is no schedule of five fields.
pub(crate) fn period_seconds(schedule: &str) -> Option<i64> {
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else { return None };
    let minutes = values(minute, 60)?;
    let hours = values(hour, 24)?;
    let mut runs: Vec<u32> =
        hours.iter().flat_map(|hour| minutes.iter().map(move |minute| hour * 60 + minute)).collect();
    runs.sort_unstable();
    let round = runs.first()? + DAY;
    let shortest = runs.iter().zip(runs.iter().skip(1).chain([&round])).map(|(run, next)| next - run).min()?;
    let period = match (day, month, weekday) {
        _ if runs.len() > 1 => shortest,
        ("*", "*", "*") => DAY,
        ("*", "*", _) => WEEK,
        _ => MONTH,
    };
    Some(i64::from(period) * MINUTE)
}

/// The values of a field below `end`: `*`, `5`, `1-5`, each with `/step`, several between commas.
fn values(field: &str, end: u32) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in field.split(',') {
        let (range, step) =
            part.split_once('/').map_or(Some((part, 1)), |(range, step)| Some((range, step.parse().ok()?)))?;
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (0, end - 1),
            Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
            None => {
                let only: u32 = range.parse().ok()?;
                (only, if part.contains('/') { end - 1 } else { only })
            }
        };
        if step == 0 || last >= end {
            return None;
        }
        all.extend((first..=last).step_by(step as usize));
    }
    all.sort_unstable();
    all.dedup();
    Some(all).filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use super::period_seconds;

    #[test]
    fn the_time_between_two_runs() {
        for (schedule, minutes) in [
            ("* * * * *", 1),
            ("*/5 * * * *", 5),
            ("7 * * * *", 60),
            ("0,10,40 * * * *", 10),
            ("30 3 * * *", 24 * 60),
            ("0 6-18/4 * * *", 4 * 60),
            ("0 6 * * 1", 7 * 24 * 60),
            ("0 6 1 * *", 31 * 24 * 60),
        ] {
            assert_eq!(period_seconds(schedule), Some(minutes * 60), "{schedule}");
        }
        for faulty in ["", "daily", "* * * *", "61 * * * *", "*/0 * * * *", "x * * * *"] {
            assert_eq!(period_seconds(faulty), None, "{faulty}");
        }
    }
}
