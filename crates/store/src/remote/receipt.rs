//! The receipt of a bucket: a small object next to the bucket's two objects on a volume, with everything that the
//! catalog knows about the bucket.
//!
//! The receipt is uploaded last, so a bucket with a receipt is complete, and a lost catalog can be rebuilt from
//! receipts ([`super::rebuild`]). A receipt also names the buckets that were merged into its bucket, because their
//! objects may still exist. The receipt contains the rows of deleted events, and its key contains the number of these
//! rows. When more events are deleted, a new receipt replaces the old one.
//!
//! A receipt consists of a line of JSON and a line with the XXH3-64 of the first line.

use quarry_catalog::{BucketRow, BucketState, FoundBucket, Origin, RemoteCopy, RemoteState};
use quarry_stdx::Fault;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::copies::{RemotePath, stem};
use crate::deletion::RowSet;
use crate::object_names::object_stem;
use crate::sealed_buckets::LiveRow;
use crate::segment::BUCKET_NUMBER_MAX;

/// Version of the format; newer ones are refused.
const VERSION: u64 = 1;
/// Maximum size of a receipt in bytes: enough for all origins of the largest bucket, and for twice the deleted events
/// that it can have.
pub(super) const BYTES_MAX: u64 = 64 << 20;

/// Content of a receipt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receipt<'a> {
    /// Id of the data directory.
    pub(crate) store: &'a str,
    pub(crate) row: &'a LiveRow,
    pub(crate) origins: &'a [Origin],
    pub(crate) deleted: Option<&'a RowSet>,
    /// Stems of the buckets that were merged into the bucket.
    pub(crate) replaces: &'a [String],
}

impl Receipt<'_> {
    /// The receipt as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let row = self.row;
        // A bucket that is not the result of a merge is its own origin.
        let origins: Vec<Value> = match row.level {
            0 => Vec::new(),
            _ => self.origins.iter().map(|origin| json!([origin.first_row, origin.number])).collect(),
        };
        let line = json!({
            "version": VERSION,
            "store": self.store,
            "stem": stem(row),
            "number": row.number,
            "index": &*row.index,
            "slabs": row.slabs,
            "time_min": row.time_min,
            "time_max": row.time_max,
            "events": row.events,
            "raw_bytes": row.raw_bytes,
            "object_bytes": row.object_bytes,
            "filter_bytes": row.filter_bytes,
            "created": row.created,
            "level": row.level,
            "origins": origins,
            "replaces": self.replaces,
            "deleted": self.deleted.map(|rows| to_hex(&rows.encode())),
        });
        let mut bytes = line.to_string().into_bytes();
        let sum = xxh3_64(&bytes);
        bytes.extend(format!("\n{sum:016x}\n").bytes());
        debug_assert!(bytes.len() as u64 <= BYTES_MAX, "a receipt can be read again");
        bytes
    }
}

/// Decodes the receipt of a bucket of data directory `store`; the result is a bucket that exists at `place` only.
pub(super) fn decode(bytes: &[u8], store: &str, place: &RemotePath, deleted: u64) -> Result<FoundBucket, Fault> {
    let damaged = |what: &str| Fault::corrupt(format!("its receipt {what}"));
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("is not text"))?;
    let (line, sum) = text.split_once('\n').ok_or_else(|| damaged("is cut off"))?;
    if u64::from_str_radix(sum.trim_end(), 16) != Ok(xxh3_64(line.as_bytes())) {
        return Err(damaged("does not match its checksum"));
    }
    let told: Value = serde_json::from_str(line).map_err(|_| damaged("is not JSON"))?;
    let missing = |key: &str| damaged(&format!("lacks {key}"));
    let count = |key: &str| told[key].as_u64().ok_or_else(|| missing(key));
    let time = |key: &str| told[key].as_i64().ok_or_else(|| missing(key));
    let small = |key: &str| count(key).and_then(|count| u32::try_from(count).map_err(|_| missing(key)));
    let text = |key: &str| told[key].as_str().map(str::to_owned).ok_or_else(|| missing(key));
    if count("version")? > VERSION {
        return Err(Fault::unavailable(format!("its receipt has version {}; use a newer quarry", count("version")?)));
    }
    if text("store")? != store {
        return Err(damaged("belongs to another data directory"));
    }
    let possible = |number: u64| match number <= BUCKET_NUMBER_MAX {
        true => Ok(number),
        false => Err(damaged(&format!("has the impossible bucket number {number}"))),
    };
    let (index, number) = (text("index")?, possible(count("number")?)?);
    let local = object_stem(&index, number);
    let list = |key: &'static str| told[key].as_array().map(Vec::as_slice).ok_or_else(|| missing(key));
    let origin = |value: &Value| match (value[0].as_u64(), value[1].as_u64()) {
        (Some(first_row), Some(number)) => possible(number).map(|number| Origin { first_row, number }),
        _ => Err(missing("origins")),
    };
    let rows = match told["deleted"].as_str() {
        None => None,
        Some(text) => {
            let rows = parse_hex(text).filter(|rows| RowSet::decode(rows).is_some_and(|rows| rows.len() == deleted));
            Some(rows.ok_or_else(|| missing("deleted"))?)
        }
    };
    let replaced = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| missing("replaces"));
    let mut row = BucketRow {
        number,
        index,
        state: BucketState::Live,
        object: format!("{local}.bucket"),
        filter: format!("{local}.filter"),
        slabs: small("slabs")?,
        time_min: time("time_min")?,
        time_max: time("time_max")?,
        events: count("events")?,
        raw_bytes: count("raw_bytes")?,
        object_bytes: count("object_bytes")?,
        filter_bytes: count("filter_bytes")?,
        created: time("created")?,
        level: small("level")?,
        thawed: false,
        remote: Some(RemoteCopy {
            volume: place.volume.clone(),
            folder: place.path.clone(),
            state: RemoteState::Evicted,
            receipt: Some(deleted),
        }),
        other: None,
        stem: None,
        merged_into: None,
        origins: list("origins")?.iter().map(origin).collect::<Result<_, _>>()?,
    };
    let told_stem = text("stem")?;
    row.stem = (told_stem != stem(&row)).then_some(told_stem);
    Ok(FoundBucket { row, deleted: rows, replaces: list("replaces")?.iter().map(replaced).collect::<Result<_, _>>()? })
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> BucketRow {
        BucketRow {
            number: 12,
            index: "web".into(),
            state: BucketState::Live,
            object: "web/0000000012.bucket".into(),
            filter: "web/0000000012.filter".into(),
            slabs: 3,
            time_min: i64::MIN,
            time_max: i64::MAX,
            events: 9_000,
            raw_bytes: u64::MAX,
            object_bytes: 1 << 60,
            filter_bytes: 7,
            created: -5,
            level: 2,
            thawed: false,
            remote: Some(RemoteCopy {
                volume: "cold".into(),
                folder: "x/5eed".into(),
                state: RemoteState::Evicted,
                receipt: Some(2),
            }),
            other: None,
            stem: None,
            merged_into: None,
            origins: vec![Origin { first_row: 0, number: 3 }, Origin { first_row: 4_000, number: 9 }],
        }
    }

    fn rows() -> RowSet {
        let mut rows = RowSet::default();
        [5, 8_999].into_iter().for_each(|row| rows.insert(row));
        rows
    }

    fn receipt(row: &BucketRow, deleted: Option<&RowSet>) -> Vec<u8> {
        let replaces = ["0000000003-0000000000000001".to_owned()];
        let (origins, row) = (&row.origins, &LiveRow::new(row.clone()));
        Receipt { store: "5eed", row, origins, deleted, replaces: &replaces }.encode()
    }

    fn place() -> RemotePath {
        RemotePath { volume: "cold".into(), path: "x/5eed".into() }
    }

    #[test]
    fn receipts_contain_all_catalog_data_of_a_bucket() {
        for stem in [None, Some("0000000002-000000000000000b".to_owned())] {
            let row = BucketRow { stem, ..row() };
            let found = decode(&receipt(&row, Some(&rows())), "5eed", &place(), 2).unwrap();
            assert_eq!((&found.row, found.deleted), (&row, Some(rows().encode())));
            assert_eq!(found.replaces, ["0000000003-0000000000000001"]);
        }
    }

    #[test]
    fn foreign_receipts_are_rejected_with_the_reason() {
        let whole = receipt(&row(), None);
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let is_end_of_line = at + 1 == whole.len();
            assert!(is_end_of_line || decode(&changed, "5eed", &place(), 0).is_err(), "byte {at}");
            assert!(is_end_of_line || decode(&whole[..at], "5eed", &place(), 0).is_err(), "cut at {at}");
        }
        let refused = |bytes: &[u8], store, deleted| decode(bytes, store, &place(), deleted).unwrap_err().to_string();
        assert!(refused(&whole, "other", 0).contains("belongs to another data directory"));
        assert!(refused(&receipt(&row(), Some(&rows())), "5eed", 3).contains("lacks deleted"));
        assert!(refused(b"{}\n0", "5eed", 0).contains("checksum"));
        let number = BUCKET_NUMBER_MAX + 1;
        let numbered = BucketRow { number, ..row() };
        let merged = BucketRow { origins: vec![Origin { first_row: 0, number }], ..row() };
        for row in [numbered, merged] {
            assert!(refused(&receipt(&row, None), "5eed", 0).contains("the impossible bucket number 4294967296"));
        }
    }
}
