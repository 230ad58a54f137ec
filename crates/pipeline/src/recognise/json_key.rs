//! The timestamp of a JSON object, found by well-known key names.
//!
//! The time of an object often comes after a kilobyte of other data that contains other times. Therefore, the values of
//! well-known keys are preferred, and keys of the object itself have precedence over those of nested objects. The text
//! is scanned once, without building a tree, up to an unambiguous key or [`SCANNED_BYTES_MAX`].
//!
//! Not here: validation beyond what the scan needs; of invalid or incomplete JSON, the text before the fault counts.

use super::{Rank, Recogniser, Stamp, digits};

/// Timestamp keys in lower case, the most specific first.
const NAMES: [&[u8]; 30] = [
    b"@timestamp",
    b"timestamp",
    b"_time",
    b"eventtime",
    b"event_time",
    b"eventtimestamp",
    b"event_timestamp",
    b"time",
    b"ts",
    b"@t",
    b"datetime",
    b"date_time",
    b"__realtime_timestamp",
    b"asctime",
    b"log_time",
    b"logtime",
    b"timegenerated",
    b"timecreated",
    b"stagetimestamp",
    b"requestreceivedtimestamp",
    b"start_time",
    b"starttime",
    b"created_at",
    b"createdat",
    b"created",
    b"creationtime",
    b"published",
    b"timestamp_ms",
    b"date",
    b"t",
];
/// Number of leading [`NAMES`] that are unambiguous: after a date with a time of day under one of these in the object
/// itself, the rest of the object is not scanned.
const UNAMBIGUOUS_NAMES: usize = 10;
/// Maximum bytes of an object that are scanned.
const SCANNED_BYTES_MAX: usize = 64 << 10;
/// Maximum nesting depth that is scanned.
const DEPTH_MAX: usize = 32;
/// Length of the longest name in [`NAMES`].
const NAME_BYTES_MAX: usize = 24;
/// Exponents of current epochs in scientific notation (`1.79E9`), in seconds, milli-, micro- and nanoseconds.
const POWERS: [usize; 4] = [9, 12, 15, 18];
/// Wrappers that some writers put around a time: `{"$date": "…"}`.
const WRAPPERS: [&[u8]; 2] = [b"$date", b"$numberLong"];

/// A value that may be the timestamp.
#[derive(Clone, Copy)]
struct Candidate {
    /// Whether the value is nested (values of the object itself come first), then the index of its key in [`NAMES`].
    order: (bool, usize),
    stamp: Stamp,
}

/// The best candidates of a scan so far.
#[derive(Default)]
struct BestCandidates {
    full: Option<Candidate>,
    /// The first date without a time of day and the first time of day without a date, under well-known keys of the
    /// object itself.
    date: Option<Stamp>,
    clock: Option<Stamp>,
}

impl BestCandidates {
    fn note(&mut self, order: (bool, usize), stamp: Stamp) {
        match stamp.rank {
            Rank::Full if self.full.is_none_or(|known| order < known.order) => {
                self.full = Some(Candidate { order, stamp });
            }
            Rank::Date if !order.0 => _ = self.date.get_or_insert(stamp),
            Rank::Clock if !order.0 => _ = self.clock.get_or_insert(stamp),
            _ => {}
        }
    }

    fn best(self) -> Option<Candidate> {
        let of_object = self.full.filter(|found| !found.order.0);
        let both = self.date.zip(self.clock).map(|(date, clock)| {
            let parts = super::DateTimeParts {
                year: date.parts.year,
                month: date.parts.month,
                day: date.parts.day,
                ..clock.parts
            };
            Candidate { order: (false, NAMES.len()), stamp: Stamp { parts, rank: Rank::Full, ..date } }
        });
        of_object.or(both).or(self.full)
    }
}

impl Recogniser {
    /// The timestamp under a well-known key of the object at the start of `text`, and whether the key belongs to the
    /// object itself.
    pub(crate) fn find_in_json(&self, text: &[u8]) -> Option<(Stamp, bool)> {
        let start = text.iter().position(|byte| !byte.is_ascii_whitespace())?;
        if text[start] != b'{' {
            return None;
        }
        let text = &text[..text.len().min(SCANNED_BYTES_MAX)];
        let (mut seen, mut depth, mut at) = (BestCandidates::default(), 0_usize, start);
        while let Some(byte) = text.get(at) {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    // The text may be cut inside the string; a time found before it counts.
                    let Some(end) = string_end(text, at + 1) else { break };
                    let value = value_start(text, end + 1);
                    let name = value.and_then(|_| name_index(&text[at + 1..end]));
                    if let (Some(value), Some(name)) = (value, name)
                        && let Some(stamp) = self.value(text, value)
                    {
                        seen.note((depth > 1, name), Stamp { leads: false, ..stamp });
                        if name < UNAMBIGUOUS_NAMES && depth == 1 && stamp.rank == Rank::Full {
                            break;
                        }
                    }
                    at = end;
                }
                _ => {}
            }
            if depth == 0 || depth > DEPTH_MAX {
                break;
            }
            at += 1;
        }
        seen.best().map(|found| (found.stamp, !found.order.0))
    }

    /// The timestamp of a value at `at`: a string or a number, possibly in a wrapper.
    fn value(&self, text: &[u8], at: usize) -> Option<Stamp> {
        let at = skip_wrappers(text, at);
        let (start, end) = match text.get(at)? {
            b'"' => (at + 1, string_end(text, at + 1)?),
            b'0'..=b'9' => (at, at + number_bytes(&text[at..])),
            _ => return None,
        };
        let value = &text[start..end];
        if start == at && matches!(text.get(end), Some(b'e' | b'E')) {
            return self.epoch_with_power(text, start, end);
        }
        let run = digits(value, 0);
        if matches!(run, 10 | 13 | 16 | 19)
            && let Some(stamp) = self.epoch(value, 0, run, true).filter(|stamp| stamp.end == value.len())
        {
            return Some(shift_positions(stamp, start));
        }
        let is_text = text[at] == b'"';
        let stamp = if is_text { self.find(value)? } else { return None };
        (stamp.start == 0 && stamp.rank != Rank::LooseEpoch).then(|| shift_positions(stamp, start))
    }
}

impl Recogniser {
    /// An epoch in scientific notation, such as `1.7956008E9`: a digit, decimals, and a power of ten.
    fn epoch_with_power(&self, text: &[u8], start: usize, power: usize) -> Option<Stamp> {
        let [whole, b'.', rest @ ..] = &text[start..power] else { return None };
        let sign = usize::from(text.get(power + 1) == Some(&b'+'));
        let from = power + 1 + sign;
        let end = from + digits(text, from);
        let places: usize = std::str::from_utf8(&text[from..end]).ok()?.parse().ok()?;
        let is_number = rest.iter().all(u8::is_ascii_digit) && !text.get(end).is_some_and(u8::is_ascii_alphanumeric);
        if !is_number || !POWERS.contains(&places) {
            return None;
        }
        let mut written = vec![*whole];
        written.extend(rest.iter().copied().chain(std::iter::repeat(b'0')).take(places));
        if let Some(fraction) = rest.get(places..).filter(|fraction| !fraction.is_empty() && places == POWERS[0]) {
            written.push(b'.');
            written.extend(fraction);
        }
        let stamp = self.epoch(&written, 0, places + 1, true)?;
        Some(Stamp { start, end, ..stamp })
    }
}

/// Shifts the positions of a timestamp that was found in a text that begins at `start`.
fn shift_positions(stamp: Stamp, start: usize) -> Stamp {
    Stamp { start: start + stamp.start, end: start + stamp.end, ..stamp }
}

fn number_bytes(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count()
}

/// For each length, a bit set of the first bytes of well-known names of that length, by the low five bits of these
/// bytes. Bytes that differ only in case have the same bits.
static FIRST_BYTE_SETS: [u32; NAME_BYTES_MAX + 1] = first_byte_sets();

const fn first_byte_sets() -> [u32; NAME_BYTES_MAX + 1] {
    let mut firsts = [0; NAME_BYTES_MAX + 1];
    let mut at = 0;
    while at < NAMES.len() {
        firsts[NAMES[at].len()] |= 1 << (NAMES[at][0] & 31);
        at += 1;
    }
    firsts
}

/// Index of a name in [`NAMES`].
fn name_index(name: &[u8]) -> Option<usize> {
    let firsts = FIRST_BYTE_SETS.get(name.len())?;
    if firsts >> (name.first()? & 31) & 1 == 0 {
        return None;
    }
    NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))
}

/// The closing quote of a string that begins at `at`.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// Start of the value after a name that ends before `at`; `None` if no colon follows.
fn value_start(text: &[u8], at: usize) -> Option<usize> {
    let colon = skip_blanks(text, at);
    (text.get(colon) == Some(&b':')).then(|| skip_blanks(text, colon + 1))
}

fn skip_blanks(text: &[u8], at: usize) -> usize {
    at + text.get(at..).map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count())
}

/// Start of the value inside wrappers; `at` if there are no wrappers.
fn skip_wrappers(text: &[u8], at: usize) -> usize {
    let mut at = at;
    for _ in WRAPPERS {
        let inner = || {
            let quote = (text.get(at) == Some(&b'{')).then(|| skip_blanks(text, at + 1))?;
            let end = (text.get(quote) == Some(&b'"')).then(|| string_end(text, quote + 1))??;
            WRAPPERS.contains(&&text[quote + 1..end]).then(|| value_start(text, end + 1))?
        };
        let Some(inner) = inner() else { return at };
        at = inner;
    }
    at
}

#[cfg(test)]
mod tests {
    use quarry_event::time::{NS_PER_SEC, ResolveContext, strftime};

    use super::*;

    fn read(text: &str) -> String {
        let found = Recogniser::new(1_795_244_400 * NS_PER_SEC, [].into()).find_in_json(text.as_bytes());
        let Some((stamp, _)) = found else { return "none".to_owned() };
        let utc = jiff::tz::TimeZone::UTC;
        let time = stamp.parts.resolve(&ResolveContext { now: 0, tz: &utc, last: None }).unwrap();
        strftime(time, "%FT%T.%6N", &utc).trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    #[test]
    fn well_known_keys_are_found_at_any_position() {
        let long = "x".repeat(500);
        for (text, time) in [
            (format!(r#"{{"a":"{long}","eventTime":"2026-11-20T13:42:07Z"}}"#), "2026-11-20T13:42:07"),
            (format!(r#"{{"a":"{long}","@timestamp" : "2026-11-20T13:42:07.5Z"}}"#), "2026-11-20T13:42:07.5"),
            (format!(r#"{{"a":"{long}","ts":1795244400}}"#), "2026-11-21T07:00:00"),
            (format!(r#"{{"a":"{long}","ts":1795244400.25}}"#), "2026-11-21T07:00:00.25"),
            (format!(r#"{{"a":"{long}","time":1795244400125}}"#), "2026-11-21T07:00:00.125"),
            (format!(r#"{{"a":"{long}","ts":1.79524440025E9}}"#), "2026-11-21T07:00:00.25"),
            (format!(r#"{{"a":"{long}","ts":1.7952444e+09,"b":1}}"#), "2026-11-21T07:00:00"),
            (format!(r#"{{"a":"{long}","time":1.795244400125e12}}"#), "2026-11-21T07:00:00.125"),
            (format!(r#"{{"a":"{long}","time":"1795244400125250"}}"#), "2026-11-21T07:00:00.12525"),
            (format!(r#"{{"a":"{long}","_time":1795244400125250000}}"#), "2026-11-21T07:00:00.12525"),
            (format!(r#"{{"a":"{long}","created_at":"2026-11-20 13:42:07"}}"#), "2026-11-20T13:42:07"),
            (format!(r#"{{"a":"{long}","date":"2026-11-20","time":"13:42:07"}}"#), "2026-11-20T13:42:07"),
            (format!(r#" {{"a":"{long}","t":{{"$date":"2026-11-20T13:42:07.5Z"}}}}"#), "2026-11-20T13:42:07.5"),
            (
                format!(r#"{{"a":"{long}","t":{{"$date":{{"$numberLong":"1795244400125"}}}}}}"#),
                "2026-11-21T07:00:00.125",
            ),
        ] {
            assert_eq!(read(&text), time, "{text}");
        }
    }

    #[test]
    fn outer_keys_and_better_names_take_precedence() {
        let inner = r#""context":{"timestamp":"2001-01-01T00:00:00Z"}"#;
        assert_eq!(read(&format!(r#"{{{inner},"created_at":"2026-11-20T13:42:07Z"}}"#)), "2026-11-20T13:42:07");
        assert_eq!(read(&format!("{{{inner}}}")), "2001-01-01T00:00:00");
        let two = r#"{"created_at":"2001-01-01T00:00:00Z","timestamp":"2026-11-20T13:42:07Z"}"#;
        assert_eq!(read(two), "2026-11-20T13:42:07");
        let quoted = r#"{"msg":"\"timestamp\":\"2001-01-01T00:00:00Z\"","time":"2026-11-20T13:42:07Z"}"#;
        assert_eq!(read(quoted), "2026-11-20T13:42:07");
    }

    #[test]
    fn a_time_before_a_cut_string_is_found() {
        let long = "x".repeat(SCANNED_BYTES_MAX);
        let time = r#""created_at":"2026-11-20T13:42:07Z""#;
        assert_eq!(read(&format!(r#"{{{time},"a":"{long}"}}"#)), "2026-11-20T13:42:07", "cut by the limit");
        assert_eq!(read(&format!(r#"{{{time},"a":"cut by TRUNC"#)), "2026-11-20T13:42:07");
        assert_eq!(read(&format!(r#"{{"a":"{long}",{time}}}"#)), "none", "the time is beyond the limit");
    }

    #[test]
    fn values_without_a_time_are_skipped() {
        for text in [
            r#"{"time":12,"ts":"soon","timestamp":null,"date":[]}"#,
            r#"{"time":1.2e9x,"ts":1.7e3,"timestamp":1.7e99999999999999999999,"date":1e9}"#,
            r#"{"time":"took 2026-11-20T13:42:07Z"}"#,
            r#"{"mytime":"2026-11-20T13:42:07Z"}"#,
            r#"{"time"#,
            r#"{"time":"2026-11-20T13:42"#,
            "[1]",
            "",
        ] {
            assert_eq!(read(text), "none", "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in r#"\{("(time|ts|a|\\"|\$date)"|[:,{}\[\] ]|"2026-11-20T13:42:07Z"|1795244400|\\){0,20}"#) {
            let _stamp = Recogniser::new(1_795_244_400 * NS_PER_SEC, [].into()).find_in_json(text.as_bytes());
        }
    }
}
