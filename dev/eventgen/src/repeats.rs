//! Repeats a sample log with new times and ids in each round.
//!
//! Times advance by uneven steps and replace those of the sample. Every number and hexadecimal word of four characters
//! or more is replaced by another of the same length; within one round, equal words get equal replacements, like the
//! ids of one program run. The sample's vocabulary is kept, because real logs repeat their words, too.
//!
//! Not here: the samples, which belong to third parties and are read from a folder.

use jiff::{Timestamp, tz::TimeZone};

use crate::random::Rng;

/// Minimum length of a replaced number; shorter numbers are counts or measurements.
const ID_BYTES_MIN: usize = 4;
/// Maximum time between two events of a burst, in milliseconds.
const BURST_MILLIS: u64 = 12;
/// Maximum pause, in milliseconds.
const PAUSE_MILLIS: u64 = 4_000;
/// Mean number of events between two pauses.
const EVENTS_PER_PAUSE: u64 = 6;

/// Position and format of the time in a log line.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Number of words before the time.
    pub words_before: usize,
    /// Number of bytes, such as a bracket, between the start of the word and the time.
    pub bytes_before: usize,
    /// strftime format of the time, whose output always has the same length.
    pub format: &'static str,
    /// Length of the time in bytes.
    pub bytes: usize,
}

/// File name prefixes of the eight samples, and their time formats.
const STAMPS: [(&str, Stamp); 8] = [
    ("Android", Stamp { words_before: 0, bytes_before: 0, format: "%m-%d %H:%M:%S%.3f", bytes: 18 }),
    ("Apache", Stamp { words_before: 0, bytes_before: 1, format: "%a %b %d %H:%M:%S %Y", bytes: 24 }),
    ("HDFS", Stamp { words_before: 0, bytes_before: 0, format: "%y%m%d %H%M%S", bytes: 13 }),
    ("Linux", Stamp { words_before: 0, bytes_before: 0, format: "%b %e %H:%M:%S", bytes: 15 }),
    ("OpenSSH", Stamp { words_before: 0, bytes_before: 0, format: "%b %e %H:%M:%S", bytes: 15 }),
    ("OpenStack", Stamp { words_before: 1, bytes_before: 0, format: "%Y-%m-%d %H:%M:%S%.3f", bytes: 23 }),
    ("Windows", Stamp { words_before: 0, bytes_before: 0, format: "%Y-%m-%d %H:%M:%S", bytes: 19 }),
    ("Zookeeper", Stamp { words_before: 0, bytes_before: 0, format: "%Y-%m-%d %H:%M:%S,%3f", bytes: 23 }),
];

impl Stamp {
    /// Time format of the sample with this file name.
    pub fn of(file_name: &str) -> Option<Stamp> {
        STAMPS.iter().find(|(name, _)| file_name.starts_with(name)).map(|(_, stamp)| *stamp)
    }

    /// Position of the time in a line; `None` if the line is too short.
    fn place(&self, line: &str) -> Option<usize> {
        let mut at = 0;
        for _ in 0..self.words_before {
            at += line[at..].find(' ')? + 1;
        }
        at += self.bytes_before;
        (line.is_char_boundary(at) && line.is_char_boundary(at + self.bytes) && at + self.bytes <= line.len())
            .then_some(at)
    }
}

/// Passes about `bytes` bytes of events to `each`: the lines of `sample` repeatedly, with times from midnight
/// (`start_s`) on.
pub fn repeat(sample: &str, stamp: Option<Stamp>, seed: u64, bytes: u64, start_s: i64, each: &mut dyn FnMut(&str)) {
    let mut rng = Rng::new(seed);
    let (mut made, mut millis) = (0, 0);
    let mut event = String::new();
    while made < bytes {
        let round = rng.next();
        let before = made;
        for line in sample.lines() {
            let is_pause = rng.one_in(EVENTS_PER_PAUSE);
            millis += rng.below(if is_pause { PAUSE_MILLIS } else { BURST_MILLIS });
            event.clear();
            match stamp.and_then(|stamp| Some((stamp.place(line)?, stamp))) {
                Some((at, stamp)) => {
                    renew_ids(&line[..at], round, &mut event);
                    event.push_str(&format_time(start_s * 1_000 + millis as i64, stamp.format));
                    renew_ids(&line[at + stamp.bytes..], round, &mut event);
                }
                None => renew_ids(line, round, &mut event),
            }
            each(&event);
            made += event.len() as u64 + 1;
            if made >= bytes {
                return;
            }
        }
        if made == before {
            return;
        }
    }
}

pub(crate) fn format_time(millis: i64, format: &str) -> String {
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH);
    time.to_zoned(TimeZone::UTC).strftime(format).to_string()
}

/// Appends `text` to `out` with its ids replaced.
fn renew_ids(text: &str, round: u64, out: &mut String) {
    let mut rest = text;
    while !rest.is_empty() {
        let word_len = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word_len);
        renew_word(word, round, out);
        let gap_len = after.find(|letter: char| letter.is_ascii_alphanumeric()).unwrap_or(after.len());
        out.push_str(&after[..gap_len]);
        rest = &after[gap_len..];
    }
}

fn renew_word(word: &str, round: u64, out: &mut String) {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    let is_hex = word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && word.bytes().any(|byte| byte.is_ascii_digit());
    if word.len() < ID_BYTES_MIN || !(is_number || is_hex) {
        return out.push_str(word);
    }
    let seed = word.bytes().fold(round, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    let mut rng = Rng::new(seed);
    for (at, byte) in word.bytes().enumerate() {
        let digit = if !is_number {
            rng.below(16)
        } else if at == 0 && byte != b'0' {
            1 + rng.below(9)
        } else {
            rng.below(10)
        };
        out.push(char::from(b"0123456789abcdef"[digit as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "Dec 10 06:55:46 host sshd[24200]: Invalid user web from 173.234.31.186\n\
                          Dec 10 06:55:47 host sshd[24200]: block 00af93bc closed\n";

    fn made(seed: u64) -> Vec<String> {
        let mut events = Vec::new();
        let start_s = 1_795_132_800;
        repeat(SAMPLE, Stamp::of("OpenSSH_2k.log"), seed, 1_000, start_s, &mut |event| events.push(event.to_owned()));
        events
    }

    #[test]
    fn every_round_has_times_and_ids_of_its_own() {
        let events = made(1);
        assert_eq!(events, made(1));
        assert_ne!(events, made(2));
        assert!(events[0].starts_with("Nov 20 00:00:0") && events[0].ends_with(" web from 173.234.31.186"));
        let ids: Vec<&str> = events.iter().map(|event| &event[26..31]).collect();
        assert_eq!(ids[0], ids[1]);
        assert_ne!(ids[0], ids[2]);
        assert_ne!(ids[0], "24200");
        assert!(events.iter().enumerate().all(|(at, event)| event.len() == SAMPLE.lines().nth(at % 2).unwrap().len()));
        assert!(events.iter().map(|event| &event[..15]).is_sorted());
    }
}
