//! Reads the queue for one group, in order, up to the last durable record.
//!
//! The records of a file have consecutive numbers, so the number of each is known from its position, even if it is
//! damaged. A record that cannot be read is reported and counted once, however often the reader goes back. Not here:
//! what happens to the error ([`crate::link`]).

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::Spool;
use super::record::{self, HEAD_BYTES};
use super::segment::Segment;
use crate::ForwardError;

/// Size of the body buffer kept for reuse.
const REUSED_BUFFER_BYTES: usize = 1 << 20;
/// Time for which reading is retried after a disk error, in nanoseconds; after that, the records count as lost.
const UNREADABLE_NS: i64 = 60_000_000_000;

/// The read position of a group.
#[derive(Debug)]
pub struct SpoolReader {
    spool: Arc<Spool>,
    group: usize,
    name: String,
    /// Last record returned or skipped.
    passed: u64,
    /// Last record that was counted as unsent.
    counted: u64,
    /// Time since which the disk returns errors.
    unreadable_since: Option<i64>,
    location: Option<Location>,
    body: Vec<u8>,
}

/// Position of a record: file, offset, and number.
#[derive(Clone, Debug)]
struct Location {
    segment: Segment,
    at: u64,
    number: u64,
}

/// A record read from the queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueRecord<'a> {
    /// Number of the record.
    pub number: u64,
    /// The packed batch.
    pub packed: &'a [u8],
}

/// Content at a position of the queue.
enum Content {
    /// A record that was passed before.
    Passed,
    /// A record for other groups.
    OfOthers,
    /// A record for the group; its batch begins at this offset of the body.
    Record(usize),
}

/// Reason why a record cannot be read, and the offset and number of the next record, if they are known.
struct Unreadable {
    reason: io::Error,
    next: Option<(u64, u64)>,
}

impl SpoolReader {
    pub(super) fn new(spool: Arc<Spool>, group: usize, name: String) -> SpoolReader {
        let (passed, counted, unreadable_since, location) = (0, 0, None, None);
        SpoolReader { spool, group, name, passed, counted, unreadable_since, location, body: Vec::new() }
    }

    /// Goes back to the first record that the group still needs.
    pub fn rewind(&mut self) {
        (self.passed, self.location) = (0, None);
        // The time for which reading is retried begins anew with each connection.
        self.unreadable_since = None;
    }

    /// Last record returned or skipped; unacknowledged records up to it are in flight.
    pub fn last_passed(&self) -> u64 {
        self.passed
    }

    /// The next record for the group; `None` if there is none yet. Records that are lost are reported once, as
    /// [`ForwardError::Lost`]; the next call continues after them. After any other error, a later call tries the same
    /// record again.
    pub fn next_record(&mut self) -> Result<Option<QueueRecord<'_>>, ForwardError> {
        let found = self.find_next()?;
        Ok(found.map(|(number, start)| QueueRecord { number, packed: &self.body[start..] }))
    }

    /// Number of the next record for the group, and the start of its batch in the body.
    fn find_next(&mut self) -> Result<Option<(u64, usize)>, ForwardError> {
        loop {
            let Some(location) = self.find() else { return Ok(None) };
            let number = location.number;
            if number > location.segment.last {
                // The file ends with its last record, so only a damaged length can lead to a position beyond it.
                self.skip_lost(location, &damaged(), None)?;
                continue;
            }
            if !self.spool.is_durable(number) {
                self.location = Some(location);
                return Ok(None);
            }
            match self.read(&location) {
                Ok((content, at)) => {
                    self.unreadable_since = None;
                    self.passed = self.passed.max(number);
                    self.location = Some(Location { at, number: number + 1, ..location });
                    if let Content::Record(start) = content {
                        return Ok(Some((number, start)));
                    }
                }
                Err(Unreadable { reason, .. }) if self.may_recover(&reason) => {
                    let path = location.segment.path.clone();
                    self.location = Some(location);
                    // Only the first attempt is reported.
                    let is_first = self.unreadable_since.is_none();
                    self.unreadable_since.get_or_insert_with(|| self.spool.clock.elapsed_ns());
                    let error = ForwardError::disk(&path, "cannot be read now and will be retried", &reason);
                    return if is_first { Err(error) } else { Ok(None) };
                }
                Err(Unreadable { reason, next }) => {
                    self.unreadable_since = None;
                    self.skip_lost(location, &reason, next)?;
                }
            }
        }
    }

    /// Reads the record at a position; also returns the end of the record.
    fn read(&mut self, location: &Location) -> Result<(Content, u64), Unreadable> {
        let Location { segment, at, number } = location;
        let mut head = [0; HEAD_BYTES];
        let read = segment.file.read_exact_at(&mut head, *at);
        read.map_err(|reason| Unreadable { reason, next: None })?;
        let Some((length, hash)) = record::parse_head(&head) else {
            return Err(Unreadable { reason: damaged(), next: None });
        };
        let end = at + (HEAD_BYTES + length) as u64;
        if *number <= self.passed {
            return Ok((Content::Passed, end));
        }
        self.body.clear();
        self.body.shrink_to(REUSED_BUFFER_BYTES);
        self.body.resize(length, 0);
        let read = segment.file.read_exact_at(&mut self.body, at + HEAD_BYTES as u64);
        let after = Some((end, number + 1));
        read.map_err(|reason| Unreadable { reason, next: after })?;
        match record::read(&self.body, hash) {
            Some(body) if body.number == *number => {
                let is_own = body.groups.split(',').any(|name| name == self.name);
                let content = if is_own { Content::Record(length - body.packed.len()) } else { Content::OfOthers };
                Ok((content, end))
            }
            // A damaged length led past some records to the head of a later one.
            Some(body) if body.number > *number && body.number <= segment.last => {
                Err(Unreadable { reason: damaged(), next: Some((*at, body.number)) })
            }
            _ => Err(Unreadable { reason: damaged(), next: after }),
        }
    }

    /// Whether an error may be transient, so that reading is retried.
    fn may_recover(&self, reason: &io::Error) -> bool {
        let now = self.spool.clock.elapsed_ns();
        let waited = self.unreadable_since.map_or(0, |since| now.saturating_sub(since));
        waited < UNREADABLE_NS && !matches!(reason.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
    }

    /// Skips a record that cannot be read, or the rest of its file; fails if some of these records were not reported
    /// before.
    fn skip_lost(
        &mut self,
        location: Location,
        reason: &io::Error,
        next: Option<(u64, u64)>,
    ) -> Result<(), ForwardError> {
        let (path, first) = (location.segment.path.clone(), location.number.max(self.passed + 1));
        let last = match next.filter(|(at, _)| *at < location.segment.bytes) {
            Some((at, number)) => {
                self.location = Some(Location { at, number, ..location });
                number - 1
            }
            None => self.spool.end_segment(&location.segment),
        };
        self.passed = self.passed.max(last);
        let first = first.max(self.counted + 1);
        if first > last {
            return Ok(());
        }
        self.counted = last;
        self.spool.count_unsent(self.group, last - first + 1);
        Err(ForwardError::Lost { path, first, last, reason: reason.to_string() })
    }

    /// Counts a returned record as unsent, because it cannot be sent to any receiver; returns false if it has already
    /// been counted.
    pub fn count_unsent(&mut self, number: u64) -> bool {
        let is_new = number > self.counted;
        if is_new {
            self.counted = number;
            self.spool.count_unsent(self.group, 1);
        }
        is_new
    }

    /// Position of the next record.
    fn find(&mut self) -> Option<Location> {
        let state = self.spool.lock();
        let cursor = state.groups.get(self.group)?.cursor;
        if self.passed < cursor {
            // The reader has just started, or the group has lost unread records.
            (self.passed, self.location) = (cursor, None);
        }
        if let Some(mut location) = self.location.take() {
            if let Some(known) = state.segments.iter().find(|known| known.path == location.segment.path) {
                location.segment = known.clone();
            }
            if location.at < location.segment.bytes {
                return Some(location);
            }
            if state.segments.back().is_some_and(|active| active.path == location.segment.path) {
                self.location = Some(location);
                return None;
            }
        }
        let passed = self.passed;
        let next = state.segments.iter().find(|segment| segment.last > passed && segment.bytes > 0)?;
        Some(Location { segment: next.clone(), at: 0, number: next.first })
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file is damaged")
}
