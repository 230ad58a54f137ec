//! The catalog row of a live bucket in compact form, because a store keeps the rows of all its live buckets in memory.
//!
//! Names that can be derived from index and number are not stored, and the rows of an index share one copy of its name.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use quarry_catalog::{BucketRow, Origin};

use crate::object_names::object_stem;

/// File extensions of a bucket's objects in the data directory.
const OBJECT_EXTENSION: &str = ".bucket";
const FILTER_EXTENSION: &str = ".filter";

/// The row of a live bucket, without the parts that can change while the bucket is live.
#[derive(Clone, Debug)]
pub(crate) struct LiveRow {
    pub(crate) number: u64,
    pub(crate) index: Arc<str>,
    pub(crate) slabs: u32,
    pub(crate) level: u32,
    pub(crate) time_min: i64,
    pub(crate) time_max: i64,
    pub(crate) events: u64,
    pub(crate) raw_bytes: u64,
    pub(crate) object_bytes: u64,
    pub(crate) filter_bytes: u64,
    pub(crate) created: i64,
    pub(crate) thawed: bool,
    /// Names that cannot be derived from index and number.
    own_names: Option<Box<ExplicitNames>>,
}

#[derive(Clone, Debug)]
struct ExplicitNames {
    object: Box<str>,
    filter: Box<str>,
    /// Stem of the remote objects.
    stem: Option<Box<str>>,
}

impl LiveRow {
    pub(crate) fn new(row: BucketRow) -> LiveRow {
        debug_assert!(row.time_min <= row.time_max, "bucket {}: the first time is not after the last", row.number);
        let stem = object_stem(&row.index, row.number);
        let follows = |name: &str, ending: &str| name.strip_prefix(&*stem) == Some(ending);
        let all_follow =
            follows(&row.object, OBJECT_EXTENSION) && follows(&row.filter, FILTER_EXTENSION) && row.stem.is_none();
        let own_names = || ExplicitNames {
            object: row.object.into(),
            filter: row.filter.into(),
            stem: row.stem.map(String::into_boxed_str),
        };
        LiveRow {
            number: row.number,
            index: row.index.into(),
            slabs: row.slabs,
            level: row.level,
            time_min: row.time_min,
            time_max: row.time_max,
            events: row.events,
            raw_bytes: row.raw_bytes,
            object_bytes: row.object_bytes,
            filter_bytes: row.filter_bytes,
            created: row.created,
            thawed: row.thawed,
            own_names: (!all_follow).then(|| Box::new(own_names())),
        }
    }

    /// Whether the bucket was sealed from the log and not merged since. Only the numbers of such buckets follow the log.
    pub(crate) fn is_from_log(&self) -> bool {
        self.level == 0 && !self.thawed
    }

    /// Name of the bucket object.
    pub(crate) fn object(&self) -> Cow<'_, str> {
        match &self.own_names {
            Some(names) => Cow::Borrowed(&names.object),
            None => Cow::Owned(object_stem(&self.index, self.number) + OBJECT_EXTENSION),
        }
    }

    /// Name of the term filter object.
    pub(crate) fn filter(&self) -> Cow<'_, str> {
        match &self.own_names {
            Some(names) => Cow::Borrowed(&names.filter),
            None => Cow::Owned(object_stem(&self.index, self.number) + FILTER_EXTENSION),
        }
    }

    /// Stem of the remote objects, if it is not derived from number and time.
    pub(crate) fn stem(&self) -> Option<&str> {
        self.own_names.as_ref()?.stem.as_deref()
    }

    /// Total bytes of the bucket's objects.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.object_bytes + self.filter_bytes
    }
}

/// The sealed buckets from which a bucket's events came, by ascending row and number.
#[derive(Clone, Debug)]
pub(crate) enum Origins {
    /// The bucket is not the result of a merge, so it is its own origin.
    Own([Origin; 1]),
    Merged(Box<[Origin]>),
}

impl Origins {
    pub(crate) fn new(number: u64, origins: Vec<Origin>) -> Origins {
        debug_assert!(origins.is_sorted_by(|one, next| one.first_row < next.first_row), "origins ascend by row");
        match origins.is_empty() {
            true => Origins::Own([Origin { first_row: 0, number }]),
            false => Origins::Merged(origins.into()),
        }
    }
}

impl Deref for Origins {
    type Target = [Origin];

    fn deref(&self) -> &[Origin] {
        match self {
            Origins::Own(own) => own,
            Origins::Merged(origins) => origins,
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_catalog::BucketState;

    use super::*;

    #[test]
    fn object_names_round_trip() {
        let row = |object: &str, filter: &str, stem: Option<&str>| BucketRow {
            number: 7,
            index: "main".into(),
            state: BucketState::Live,
            object: object.into(),
            filter: filter.into(),
            slabs: 1,
            time_min: 0,
            time_max: 1,
            events: 1,
            raw_bytes: 1,
            object_bytes: 1,
            filter_bytes: 1,
            created: 0,
            level: 0,
            thawed: false,
            remote: None,
            other: None,
            stem: stem.map(Into::into),
            merged_into: None,
            origins: Vec::new(),
        };
        for (object, filter, stem, follows) in [
            ("main/0000000007.bucket", "main/0000000007.filter", None, true),
            ("main/0000000007.bucket", "main/0000000007.terms", None, false),
            ("main/0000000008.bucket", "main/0000000007.filter", None, false),
            ("main/0000000007.bucket.1", "main/0000000007.filter", None, false),
            ("thaweddb/x/main.bucket", "thaweddb/x/main.filter", None, false),
            ("main/0000000007.bucket", "main/0000000007.filter", Some("0000000003-0"), false),
            ("", "", None, false),
        ] {
            let live = LiveRow::new(row(object, filter, stem));
            assert_eq!((&*live.object(), &*live.filter(), live.stem()), (object, filter, stem));
            assert_eq!(live.own_names.is_none(), follows, "{object}");
        }
    }

    #[test]
    fn unmerged_buckets_are_their_own_origin() {
        assert_eq!(*Origins::new(7, Vec::new()), [Origin { first_row: 0, number: 7 }]);
        let merged = vec![Origin { first_row: 0, number: 3 }, Origin { first_row: 9, number: 5 }];
        assert_eq!(*Origins::new(7, merged.clone()), *merged);
    }
}
