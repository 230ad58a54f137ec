//! What was found against what the senders know.

use std::collections::BTreeMap;

use super::{Ledger, Sent};

/// Faults that are told.
const TOLD_MAX: usize = 8;

/// Compares the texts that were found with the ledgers.
pub(crate) fn check(found: &[String], ledgers: &[&Ledger]) -> Result<(), String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    found.iter().for_each(|text| *counts.entry(text).or_default() += 1);
    let mut faults = Vec::new();
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
    let told = faults[..faults.len().min(TOLD_MAX)].join("\n  ");
    Err(format!("{} events are not as they should be:\n  {told}", faults.len()))
}

/// How many of these events are there more than once.
pub(crate) fn doubled(found: &[String], ledger: &Ledger) -> u64 {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    found.iter().for_each(|text| *counts.entry(text).or_default() += 1);
    ledger.keys().filter(|text| counts.get(text.as_str()).is_some_and(|count| *count > 1)).count() as u64
}

/// What is wrong with an event that is there so many times.
fn fault_of(count: u32, sent: &Sent) -> Option<String> {
    if sent.acknowledged && count == 0 {
        return Some("acknowledged and lost".to_owned());
    }
    (count > sent.times).then(|| format!("sent {} times and stored {count} times", sent.times))
}

fn short(text: &str) -> &str {
    text.split_at_checked(40).map_or(text, |(start, _)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_doubles_and_strangers_are_told() {
        let of = |times, acknowledged| Sent { times, acknowledged };
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
}
