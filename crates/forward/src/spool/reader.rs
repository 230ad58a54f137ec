//! Reads the queue for one group, in order, up to the last durable record.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::Spool;
use super::record::{self, HEAD_BYTES, NUMBER_BYTES};
use super::segment::Segment;
use crate::ForwardError;

/// Size of the body buffer kept for reuse.
const REUSED_BUFFER_BYTES: usize = 1 << 20;

/// The read position of a group.
#[derive(Debug)]
pub struct SpoolReader {
    spool: Arc<Spool>,
    group: usize,
    name: String,
    /// Last record returned or skipped.
    passed: u64,
    location: Option<(Segment, u64)>,
    body: Vec<u8>,
}

/// A record read from the queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueRecord<'a> {
    /// Number of the record.
    pub number: u64,
    /// The packed batch.
    pub packed: &'a [u8],
}

impl SpoolReader {
    pub(super) fn new(spool: Arc<Spool>, group: usize, name: String) -> SpoolReader {
        SpoolReader { spool, group, name, passed: 0, location: None, body: Vec::new() }
    }

    /// Goes back to the first record that the group still needs.
    pub fn rewind(&mut self) {
        (self.passed, self.location) = (0, None);
    }

    /// Last record returned or skipped; unacknowledged records up to it are in flight.
    pub fn last_passed(&self) -> u64 {
        self.passed
    }

    /// The next record for the group; `None` if there is none yet. A damaged record is reported once, as an error; the
    /// next call continues after the damage.
    pub fn next_record(&mut self) -> Result<Option<QueueRecord<'_>>, ForwardError> {
        loop {
            let Some((segment, at)) = self.find() else { return Ok(None) };
            let unreadable = |error: std::io::Error| ForwardError::disk(&segment.path, "cannot be read", &error);
            let damaged = |lost: std::ops::RangeInclusive<u64>| {
                self.spool.count_unsent(self.group, lost.end() + 1 - lost.start());
                let error = std::io::Error::other(match lost.start() == lost.end() {
                    true => format!("record {} is lost", lost.start()),
                    false => format!("records {} to {} are lost", lost.start(), lost.end()),
                });
                ForwardError::disk(&segment.path, "is damaged", &error)
            };
            let mut head = [0; HEAD_BYTES + NUMBER_BYTES];
            segment.file.read_exact_at(&mut head, at).map_err(unreadable)?;
            let parts = head.split_first_chunk::<HEAD_BYTES>().and_then(|(head, rest)| {
                let number = u64::from_le_bytes(*rest.first_chunk::<8>()?);
                Some((record::parse_head(head)?, number))
            });
            let Some(((length, hash), number)) = parts else {
                let first = std::mem::replace(&mut self.passed, segment.last) + 1;
                self.location = None;
                return Err(damaged(first.min(segment.last)..=segment.last));
            };
            self.location = Some((segment.clone(), at + (HEAD_BYTES + length) as u64));
            if number <= self.passed {
                continue;
            }
            if !self.spool.is_durable(number) {
                self.location = Some((segment, at));
                return Ok(None);
            }
            self.body.clear();
            self.body.shrink_to(REUSED_BUFFER_BYTES);
            self.body.resize(length, 0);
            segment.file.read_exact_at(&mut self.body, at + HEAD_BYTES as u64).map_err(unreadable)?;
            self.passed = number;
            let Some(body) = record::read(&self.body, hash) else { return Err(damaged(number..=number)) };
            if body.groups.split(',').any(|name| name == self.name) {
                let start = self.body.len() - body.packed.len();
                return Ok(Some(QueueRecord { number, packed: &self.body[start..] }));
            }
        }
    }

    /// Counts the record returned last as unsent, because no receiver can be given it.
    pub fn count_unsent(&self) {
        self.spool.count_unsent(self.group, 1);
    }

    /// File and offset of the next record.
    fn find(&mut self) -> Option<(Segment, u64)> {
        let state = self.spool.lock();
        let cursor = state.groups.get(self.group)?.cursor;
        if self.passed < cursor {
            // The reader has just started, or the group has lost unread records.
            (self.passed, self.location) = (cursor, None);
        }
        if let Some((segment, at)) = self.location.take() {
            let is_its = |known: &&Segment| known.path == segment.path;
            let bytes = state.segments.iter().find(is_its).map_or(segment.bytes, |known| known.bytes);
            if at < bytes {
                return Some((segment, at));
            }
            if state.segments.back().is_some_and(|active| active.path == segment.path) {
                self.location = Some((segment, at));
                return None;
            }
        }
        let passed = self.passed;
        let next = state.segments.iter().find(|segment| segment.last > passed && segment.bytes > 0)?;
        Some((next.clone(), 0))
    }
}
