//! Events whose texts identify them.

use quarry_catalog::{CheckpointKey, FileCheckpoint, SourceIdentity, tail_hash};
use quarry_event::{EventBatch, Metadata};

/// `events` events of `index`, numbered from `first`; the text of an event names index and number, and its time is the
/// number.
pub(crate) fn batch(index: &str, first: u64, events: u64) -> EventBatch {
    batch_of(index, (first..first + events).map(|number| (number, text(index, number))))
}

/// A batch of events with these numbers and texts.
pub(crate) fn batch_of(index: &str, events: impl Iterator<Item = (u64, String)>) -> EventBatch {
    let mut batch = EventBatch { index_time: 5, ..EventBatch::default() };
    for (number, text) in events {
        let host = format!("host{}", number % 3);
        let meta = Metadata {
            index: index.into(),
            host: host.as_str().into(),
            source: "a.log".into(),
            sourcetype: "test".into(),
        };
        let code = batch.intern(&meta);
        batch.push(text.as_bytes(), number as i64, code);
    }
    batch
}

/// Text of event `number` of `index`.
pub(crate) fn text(index: &str, number: u64) -> String {
    format!("{index} number={number} ünïcode")
}

/// A checkpoint of file `source` at `offset`; the head of the file is its name.
pub(crate) fn checkpoint(source: &str, offset: u64) -> FileCheckpoint {
    FileCheckpoint {
        key: CheckpointKey { identity: SourceIdentity::of(source.as_bytes(), ""), variant: 0 },
        head_bytes: source.len() as u32,
        offset,
        tail_hash: tail_hash(source.as_bytes()),
        source: source.to_owned(),
        milestones: vec![7, u32::MAX],
    }
}
