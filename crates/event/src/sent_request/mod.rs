//! Requests that their senders repeat if they get no response, such as requests to the HTTP Event Collector.

mod answers;
mod parts;

use xxhash_rust::xxh3::Xxh3;

use crate::EventBatch;

pub use answers::{ANSWER_SLOTS, ANSWERS_HEADER_BYTES, RecordedAnswers, answer_writes, answers_header};
pub use parts::{SentParts, UNANSWERED_PARTS_MAX, UNANSWERED_SECS};

/// Identity of a request from its first event to its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentRequest {
    /// Hash of sender and content.
    pub key: u128,
    /// Distinguishes requests within one run; 0 if the store keeps no record of requests.
    pub id: u64,
}

impl SentRequest {
    /// Hash of the request and the events of one part of it. Times are excluded, because they differ between repetitions
    /// if the body contains none.
    pub fn part_key(&self, batch: &EventBatch) -> u128 {
        let mut hasher = Xxh3::new();
        hasher.update(&self.key.to_le_bytes());
        for text in batch.metas.iter().map(|meta| meta.index.as_bytes()).chain([&batch.raw[..]]) {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        batch.ends.iter().for_each(|end| hasher.update(&end.to_le_bytes()));
        hasher.digest128()
    }
}
