//! Whole tables against their digests, which are the XOR of the checksums of their rows.
//!
//! Not here: the rows ([`crate::checksum`]), and how a digest follows a change of them.

use rusqlite::{Connection, OptionalExtension, params};

use crate::bucket::sum_of_buckets;
use crate::checkpoint::sum_of_checkpoints;
use crate::checksum::{Table, damaged};
use crate::deletion::sum_of_deletions;
use crate::log_segment::sum_of_log_segments;
use crate::position::sum_of_positions;
use crate::setting::sum_of_settings;
use crate::unanswered_requests::sum_of_unanswered;

/// Version of a catalog from which on rows have checksums.
pub(crate) const WITH_CHECKSUMS: usize = 3;
/// Version of a catalog from which on there are deletions.
const WITH_DELETIONS: usize = 5;

const TABLES: [Table; 7] = [
    Table::Bucket,
    Table::Position,
    Table::Checkpoint,
    Table::Setting,
    Table::LogSegment,
    Table::Unanswered,
    Table::Deletion,
];

/// Tables with checksums of a catalog of a version.
fn tables_of(version: usize) -> impl Iterator<Item = Table> {
    TABLES.into_iter().filter(move |table| version >= since(*table))
}

/// Version from which on there is such a table.
fn since(table: Table) -> usize {
    match table {
        Table::Deletion => WITH_DELETIONS,
        _ => WITH_CHECKSUMS,
    }
}

/// XOR of the checksums of all rows, each compared with its row.
fn sum_of(table: Table, act: &Connection) -> rusqlite::Result<i64> {
    match table {
        Table::Bucket => sum_of_buckets(act),
        Table::Position => sum_of_positions(act),
        Table::Checkpoint => sum_of_checkpoints(act),
        Table::Setting => sum_of_settings(act),
        Table::LogSegment => sum_of_log_segments(act),
        Table::Unanswered => sum_of_unanswered(act),
        Table::Deletion => sum_of_deletions(act),
    }
}

/// Compares every row with its checksum and every table with its digest, in a catalog of this version.
pub(crate) fn check_all(act: &Connection, version: usize) -> rusqlite::Result<()> {
    for table in tables_of(version) {
        let select = "SELECT sum FROM digest WHERE name = ?1";
        let digest = act.prepare_cached(select)?.query_row([table.name()], |row| row.get::<_, i64>(0)).optional()?;
        let name = table.name();
        match digest {
            None => return Err(damaged(format!("table digest has no row {name}"))),
            Some(digest) if digest != sum_of(table, act)? => {
                return Err(damaged(format!("rows of table {name} are missing or changed")));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Gives all tables the digest of the rows they have, for a catalog that had none.
pub(crate) fn begin(act: &Connection, version: usize) -> rusqlite::Result<()> {
    for table in tables_of(version) {
        let insert = "INSERT OR REPLACE INTO digest (name, sum) VALUES (?1, ?2)";
        act.execute(insert, params![table.name(), sum_of(table, act)?])?;
    }
    Ok(())
}
