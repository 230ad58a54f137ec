//! Compares the events found with the ledgers of the senders.

use std::collections::BTreeMap;

use super::{Ledger, Sent};

/// Prefix of lines that a truncation of the file may remove before they are read.
const DOUBTFUL: &str = "doubtful ";
/// Maximum number of faults listed.
const LISTED_MAX: usize = 8;

/// Compares the texts found with the ledgers of the senders.
pub(crate) fn check(found: &[String], ledgers: &[&Ledger]) -> Result<(), String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    found.iter().for_each(|text| *counts.entry(text).or_default() += 1);
    let mut faults = Vec::new();
    // A line that a truncation removes while it is read may be found partially.
    let is_doubtful = |text: &str| text.starts_with(DOUBTFUL) || DOUBTFUL.starts_with(text);
    let begun: Vec<&str> = counts
        .keys()
        .filter(|text| is_doubtful(text) && !ledgers.iter().any(|ledger| ledger.contains_key(**text)))
        .copied()
        .collect();
    for text in begun {
        // Several lines may begin with this text; those found completely are excluded.
        if let Some(line) = lines_begun_by(text, ledgers).into_iter().find(|line| !counts.contains_key(line)) {
            let count = counts.remove(text).unwrap_or(0);
            counts.insert(line, count);
        }
    }
    for (text, sent) in ledgers.iter().flat_map(|ledger| ledger.iter()) {
        let count = counts.remove(text.as_str()).unwrap_or(0);
        if let Some(fault) = fault_of(count, sent) {
            faults.push(format!("{fault}: {}", short(text)));
        }
    }
    faults.extend(counts.keys().map(|text| format!("nobody sent: {}", short(text))));
    if faults.is_empty() {
        return Ok(());
    }
    let reported = faults[..faults.len().min(LISTED_MAX)].join("\n  ");
    Err(format!("{} events differ from what was sent:\n  {reported}", faults.len()))
}

/// Lines marked as doubtful that begin with `text`.
fn lines_begun_by<'l>(text: &str, ledgers: &[&'l Ledger]) -> Vec<&'l str> {
    let mut lines = Vec::new();
    for ledger in ledgers {
        let begun = ledger.range(text.to_owned()..).take_while(|(line, _)| line.starts_with(text));
        lines.extend(begun.filter(|(_, sent)| !sent.acknowledged).map(|(line, _)| line.as_str()));
    }
    lines
}

/// Events found more than once.
pub(crate) fn doubled<'l>(found: &[String], ledger: &'l Ledger) -> Vec<(&'l str, Sent)> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    found.iter().for_each(|text| *counts.entry(text).or_default() += 1);
    let is_doubled = |text: &str| counts.get(text).is_some_and(|count| *count > 1);
    ledger.iter().filter(|(text, _)| is_doubled(text)).map(|(text, sent)| (text.as_str(), *sent)).collect()
}

/// Describes the error if an event must not be found `count` times.
fn fault_of(count: u32, sent: &Sent) -> Option<String> {
    if sent.acknowledged && count == 0 {
        return Some("acknowledged and lost".to_owned());
    }
    (count > sent.times).then(|| format!("sent {} times and stored {count} times", sent.times))
}

/// The beginning of an event.
pub(crate) fn short(text: &str) -> &str {
    text.split_at_checked(40).map_or(text, |(start, _)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_duplicate_and_unknown_events_are_reported() {
        let of = |times, acknowledged| Sent { times, acknowledged, ..Sent::default() };
        let ledger: Ledger = [("a", of(1, true)), ("b", of(1, false)), ("c", of(2, true))]
            .map(|(text, sent)| (text.to_owned(), sent))
            .into();
        let check =
            |found: &[&str]| check(&found.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), &[&ledger]);
        assert!(check(&["a", "c"]).is_ok() && check(&["a", "b", "c", "c"]).is_ok());
        for (found, fault) in [
            (&["c"][..], "acknowledged and lost: a"),
            (&["a", "a", "c"], "sent 1 times and stored 2 times: a"),
            (&["a", "b", "b", "c"], "sent 1 times and stored 2 times: b"),
            (&["a", "c", "d"], "nobody sent: d"),
        ] {
            assert!(check(found).unwrap_err().contains(fault), "{found:?}");
        }
    }

    #[test]
    fn a_truncated_line_may_be_found_partially() {
        let (line, next) = ("doubtful 7 zzzz", "doubtful 9 zzzz");
        let check = |found: &[&str], acknowledged| {
            let sent = |acknowledged| Sent { times: 1, acknowledged, ..Sent::default() };
            let ledger: Ledger = [(line.to_owned(), sent(acknowledged)), (next.to_owned(), sent(false))].into();
            check(&found.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), &[&ledger])
        };
        assert!(check(&["doubtful 7 z"], false).is_ok() && check(&[line], false).is_ok());
        assert!(check(&["do", line], false).is_ok() && check(&["dx", line], false).is_err());
        assert!(check(&["doubtful ", line], false).is_ok() && check(&["doubtful ", line, next], false).is_err());
        let fault = |found: &[&str], acknowledged| check(found, acknowledged).unwrap_err();
        assert!(fault(&["doubtful 7 z", line], false).contains("nobody sent"));
        assert!(fault(&["doubtful 7 z", "doubtful 7 zz"], false).contains("nobody sent"));
        assert!(fault(&["doubtful 7 z"], true).contains("acknowledged and lost"));
        assert!(fault(&["doubtful 8 z"], false).contains("nobody sent"));
    }
}
