//! Tokens in parameters of alert actions: `$result.FIELD$` and attributes of the search.
//!
//! Unknown names stay as they are with their dollar signs, so that other texts with dollar signs are not changed.

use jiff::tz::TimeZone;
use quarry_event::TimeNs;
use quarry_event::time::{NS_PER_SEC, strftime};

/// Formats of the search's times.
const DATE: &str = "%B %d, %Y";
const TIME_OF_DAY: &str = "%H:%M:%S";
/// Separator of a multivalue field.
const VALUE_SEPARATOR: &str = "\n";
/// Names of tokens that have values only in saved searches.
const SAVED_SEARCH_TOKENS: [&str; 8] = [
    "name",
    "description",
    "cron_schedule",
    "next_scheduled_time",
    "alert_type",
    "alert.severity",
    "alert.expires",
    "type",
];

/// Values of tokens.
pub(super) struct Tokens<'a> {
    pub(super) app: &'a str,
    pub(super) owner: &'a str,
    pub(super) host: &'a str,
    pub(super) sid: &'a str,
    pub(super) search: &'a str,
    pub(super) results_link: &'a str,
    pub(super) results_file: &'a str,
    pub(super) now: TimeNs,
    pub(super) zone: &'a TimeZone,
    pub(super) row_count: usize,
    pub(super) first_row: &'a [(String, Vec<String>)],
}

impl Tokens<'_> {
    /// Replaces tokens; inserted values are not expanded again.
    pub(super) fn replace(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('$') {
            let after = &rest[start + 1..];
            let value = after.find('$').and_then(|end| Some((end, self.value(&after[..end])?)));
            match value {
                Some((end, value)) => {
                    out.push_str(&rest[..start]);
                    out.push_str(&value);
                    rest = &after[end + 1..];
                }
                None => {
                    out.push_str(&rest[..=start]);
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// The value of a token; `None` if the name is unknown.
    fn value(&self, name: &str) -> Option<String> {
        if let Some(field) = name.strip_prefix("result.") {
            // A field that is missing in the row has the empty value.
            let values = self.first_row.iter().find(|(known, _)| known == field).map(|(_, values)| values);
            return Some(values.map(|values| values.join(VALUE_SEPARATOR)).unwrap_or_default());
        }
        let of_now = |format: &str| strftime(self.now, format, self.zone);
        let value = match name {
            "app" => self.app.to_owned(),
            "owner" => self.owner.to_owned(),
            "search" | "job.search" => self.search.to_owned(),
            "sid" | "job.sid" => self.sid.to_owned(),
            "results.count" | "job.resultCount" => self.row_count.to_string(),
            "results_link" | "results.url" => self.results_link.to_owned(),
            "results_file" | "results.file" => self.results_file.to_owned(),
            "server.serverName" | "server.host" => self.host.to_owned(),
            "trigger_time" => self.now.div_euclid(NS_PER_SEC).to_string(),
            "trigger_date" => of_now(DATE),
            "trigger_timeHMS" => of_now(TIME_OF_DAY),
            name if SAVED_SEARCH_TOKENS.contains(&name) => String::new(),
            _ => return None,
        };
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_other_dollars_stay() {
        let first_row = [("user".to_owned(), vec!["eva".to_owned()]), ("n".to_owned(), vec!["1".into(), "2".into()])];
        let tokens = Tokens {
            app: "shop",
            owner: "ann",
            host: "web-1",
            sid: "7.1",
            search: "index=main | sendalert a",
            results_link: "http://x",
            results_file: "/r.csv.gz",
            now: 1_795_186_800 * NS_PER_SEC,
            zone: &TimeZone::UTC,
            row_count: 3,
            first_row: &first_row,
        };
        for (text, expected) in [
            ("$result.user$ logged in", "eva logged in"),
            ("$result.n$", "1\n2"),
            ("[$result.gone$]", "[]"),
            ("$name$$app$/$owner$", "shop/ann"),
            ("costs $5 or $ 6", "costs $5 or $ 6"),
            ("$5 to $result.user$", "$5 to eva"),
            ("$other$ $sid$", "$other$ 7.1"),
            ("$results.count$ in $results.file$ of $search$", "3 in /r.csv.gz of index=main | sendalert a"),
            ("$trigger_time$ $trigger_date$ $trigger_timeHMS$", "1795186800 November 20, 2026 15:00:00"),
            ("end$", "end$"),
        ] {
            assert_eq!(tokens.replace(text), expected, "{text}");
        }
    }
}
