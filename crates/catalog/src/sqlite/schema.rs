//! The database schema and its migrations.
//!
//! `user_version` counts the applied migrations. A migration is never edited after a release; a change of the schema is
//! a new migration at the end of [`MIGRATIONS`].

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::CatalogError;
use crate::bucket::add_bucket_sums;
use crate::checkpoint::add_checkpoint_sums;
use crate::digest::{BucketCheck, CHECKSUMS_VERSION, begin, check_all, check_at_opening};
use crate::position::advance_position;
use crate::setting::write_setting;
use crate::transaction::{CatalogTransaction, StepResult, values};

/// Migration `i` upgrades version `i` to `i + 1`.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE bucket (
        number INTEGER PRIMARY KEY,
        index_name TEXT NOT NULL,
        state INTEGER NOT NULL,
        object TEXT NOT NULL,
        filter TEXT NOT NULL,
        slabs INTEGER NOT NULL,
        time_min INTEGER NOT NULL,
        time_max INTEGER NOT NULL,
        events INTEGER NOT NULL,
        raw_bytes INTEGER NOT NULL,
        object_bytes INTEGER NOT NULL,
        filter_bytes INTEGER NOT NULL,
        created INTEGER NOT NULL
    );
    CREATE INDEX bucket_of_index ON bucket (index_name, number);
    CREATE TABLE position (
        index_name TEXT PRIMARY KEY,
        sealed_through INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE checkpoint (
        identity BLOB NOT NULL,
        variant INTEGER NOT NULL,
        head_bytes INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        tail_hash INTEGER NOT NULL,
        source TEXT NOT NULL,
        lsn INTEGER NOT NULL,
        PRIMARY KEY (identity, variant)
    ) WITHOUT ROWID;
    CREATE TABLE setting (
        name TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) WITHOUT ROWID;
",
    "
    ALTER TABLE bucket ADD COLUMN level INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE origin (
        bucket INTEGER NOT NULL,
        first_row INTEGER NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (bucket, first_row)
    ) WITHOUT ROWID;
",
    "
    ALTER TABLE bucket ADD COLUMN thawed INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE bucket ADD COLUMN checksum INTEGER;
    ALTER TABLE position ADD COLUMN checksum INTEGER;
    ALTER TABLE checkpoint ADD COLUMN checksum INTEGER;
    ALTER TABLE setting ADD COLUMN checksum INTEGER;
    CREATE TABLE log_segment (
        first_lsn INTEGER PRIMARY KEY,
        last_lsn INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    );
    CREATE TABLE unanswered (
        run INTEGER NOT NULL,
        number INTEGER NOT NULL,
        key BLOB NOT NULL,
        time INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (run, number)
    ) WITHOUT ROWID;
    CREATE TABLE digest (
        name TEXT PRIMARY KEY,
        sum INTEGER NOT NULL
    ) WITHOUT ROWID;
",
    "
    ALTER TABLE checkpoint ADD COLUMN milestones BLOB NOT NULL DEFAULT x'';
",
    "
    CREATE TABLE deletion (
        bucket INTEGER PRIMARY KEY,
        rows BLOB NOT NULL,
        checksum INTEGER NOT NULL
    );
    INSERT INTO digest (name, sum) VALUES ('deletion', 0);
",
    "
    ALTER TABLE bucket ADD COLUMN volume TEXT;
    ALTER TABLE bucket ADD COLUMN folder TEXT;
    ALTER TABLE bucket ADD COLUMN remote INTEGER;
",
    "
    ALTER TABLE bucket ADD COLUMN receipt INTEGER;
    ALTER TABLE bucket ADD COLUMN stem TEXT;
    ALTER TABLE bucket ADD COLUMN other_volume TEXT;
    ALTER TABLE bucket ADD COLUMN other_folder TEXT;
    ALTER TABLE bucket ADD COLUMN other_going INTEGER;
    ALTER TABLE bucket ADD COLUMN merged_into INTEGER;
    CREATE INDEX bucket_merged_into ON bucket (merged_into) WHERE merged_into IS NOT NULL;
    CREATE INDEX bucket_stem ON bucket (stem) WHERE stem IS NOT NULL;
",
    "
    CREATE INDEX bucket_by_span ON bucket (index_name, (
        CASE
            WHEN time_max / 2 - time_min / 2 < 4294967296 THEN 0
            WHEN time_max / 2 - time_min / 2 < 34359738368 THEN 1
            WHEN time_max / 2 - time_min / 2 < 274877906944 THEN 2
            WHEN time_max / 2 - time_min / 2 < 2199023255552 THEN 3
            WHEN time_max / 2 - time_min / 2 < 17592186044416 THEN 4
            WHEN time_max / 2 - time_min / 2 < 140737488355328 THEN 5
            WHEN time_max / 2 - time_min / 2 < 1125899906842624 THEN 6
            WHEN time_max / 2 - time_min / 2 < 9007199254740992 THEN 7
            WHEN time_max / 2 - time_min / 2 < 72057594037927936 THEN 8
            ELSE 9
        END
        ), time_min, time_max) WHERE state = 1;
    CREATE INDEX bucket_not_live ON bucket (state, number) WHERE state <> 1;
",
];

/// The current version.
pub(crate) const VERSION: usize = MIGRATIONS.len();

/// Temporary views that present a read-only catalog of an older version as a current one; they hide the file's tables
/// of the same names.
const COMPATIBILITY_VIEWS: &[&str] = &[
    "",
    "
    CREATE TEMP VIEW bucket AS SELECT *, 0 AS level, 0 AS thawed, NULL AS checksum,
        NULL AS volume, NULL AS folder, NULL AS remote,
        NULL AS receipt, NULL AS stem, NULL AS other_volume, NULL AS other_folder, NULL AS other_going,
        NULL AS merged_into FROM main.bucket;
    CREATE TEMP TABLE origin (bucket INTEGER, first_row INTEGER, number INTEGER);
    CREATE TEMP VIEW position AS SELECT *, NULL AS checksum FROM main.position;
    CREATE TEMP VIEW checkpoint AS SELECT *, NULL AS checksum, x'' AS milestones FROM main.checkpoint;
    CREATE TEMP VIEW setting AS SELECT *, NULL AS checksum FROM main.setting;
    CREATE TEMP TABLE log_segment (first_lsn INTEGER, last_lsn INTEGER, checksum INTEGER);
    CREATE TEMP TABLE unanswered (run INTEGER, number INTEGER, key BLOB, time INTEGER, checksum INTEGER);
    CREATE TEMP TABLE deletion (bucket INTEGER, rows BLOB, checksum INTEGER);
",
    "
    CREATE TEMP VIEW bucket AS SELECT *, 0 AS thawed, NULL AS checksum,
        NULL AS volume, NULL AS folder, NULL AS remote,
        NULL AS receipt, NULL AS stem, NULL AS other_volume, NULL AS other_folder, NULL AS other_going,
        NULL AS merged_into FROM main.bucket;
    CREATE TEMP VIEW position AS SELECT *, NULL AS checksum FROM main.position;
    CREATE TEMP VIEW checkpoint AS SELECT *, NULL AS checksum, x'' AS milestones FROM main.checkpoint;
    CREATE TEMP VIEW setting AS SELECT *, NULL AS checksum FROM main.setting;
    CREATE TEMP TABLE log_segment (first_lsn INTEGER, last_lsn INTEGER, checksum INTEGER);
    CREATE TEMP TABLE unanswered (run INTEGER, number INTEGER, key BLOB, time INTEGER, checksum INTEGER);
    CREATE TEMP TABLE deletion (bucket INTEGER, rows BLOB, checksum INTEGER);
",
    "
    CREATE TEMP VIEW bucket AS SELECT *, NULL AS volume, NULL AS folder, NULL AS remote,
        NULL AS receipt, NULL AS stem, NULL AS other_volume, NULL AS other_folder, NULL AS other_going,
        NULL AS merged_into FROM main.bucket;
    CREATE TEMP VIEW checkpoint AS SELECT *, x'' AS milestones FROM main.checkpoint;
    CREATE TEMP TABLE deletion (bucket INTEGER, rows BLOB, checksum INTEGER);
",
    "
    CREATE TEMP VIEW bucket AS SELECT *, NULL AS volume, NULL AS folder, NULL AS remote,
        NULL AS receipt, NULL AS stem, NULL AS other_volume, NULL AS other_folder, NULL AS other_going,
        NULL AS merged_into FROM main.bucket;
    CREATE TEMP TABLE deletion (bucket INTEGER, rows BLOB, checksum INTEGER);
",
    "
    CREATE TEMP VIEW bucket AS SELECT *, NULL AS volume, NULL AS folder, NULL AS remote,
        NULL AS receipt, NULL AS stem, NULL AS other_volume, NULL AS other_folder, NULL AS other_going,
        NULL AS merged_into FROM main.bucket;
",
    "
    CREATE TEMP VIEW bucket AS SELECT *, NULL AS receipt, NULL AS stem, NULL AS other_volume, NULL AS other_folder,
        NULL AS other_going, NULL AS merged_into FROM main.bucket;
",
];

/// Number of tables in a catalog of each version.
const TABLE_COUNTS: &[i64] = &[0, 4, 5, 8, 8, 9, 9, 9, 9];

/// Configures the connection, checks the file, and applies missing migrations.
pub(crate) fn prepare(
    connection: &mut Connection,
    path: &Path,
    busy_wait: Duration,
    buckets: BucketCheck,
) -> Result<(), CatalogError> {
    let failed = |error: rusqlite::Error| CatalogError::at(path, error);
    connection.busy_timeout(busy_wait).map_err(failed)?;
    let found = check_version(connection, path)?;
    if found > 0 {
        // Rows are looked up in the B-trees of tables and indexes; a damaged page of a B-tree could hide some of them.
        check_structure(connection, path)?;
    }
    if found == VERSION {
        check_at_opening(&CatalogTransaction::on(connection), VERSION, buckets)
            .map_err(|failure| CatalogError::at(path, failure))?;
    }
    connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    if found < MIGRATIONS.len() {
        let transaction = connection.transaction().map_err(failed)?;
        migrate(&transaction, found).map_err(|failure| CatalogError::at(path, failure))?;
        transaction.commit().map_err(failed)?;
    }
    Ok(())
}

/// Applies all missing migrations in one transaction. Rows are read only after the last migration, because this program
/// knows only their current form.
fn migrate(connection: &Connection, found: usize) -> StepResult<()> {
    MIGRATIONS.iter().skip(found).try_for_each(|migration| connection.execute_batch(migration))?;
    let act = CatalogTransaction::on(connection);
    if found < CHECKSUMS_VERSION {
        add_checksums(&act)?;
    } else {
        check_all(&act, VERSION)?;
    }
    Ok(connection.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?)
}

/// Refuses a file that is not a complete catalog (emptied, or with missing tables); returns its version.
pub(crate) fn check_complete(connection: &Connection, path: &Path) -> Result<usize, CatalogError> {
    let damaged = |reason: &str| CatalogError::Corrupt { place: path.display().to_string(), reason: reason.to_owned() };
    let version = check_version(connection, path)?;
    if version == 0 {
        return Err(damaged("it is empty"));
    }
    let select = "SELECT count(*) FROM sqlite_master
        WHERE name IN ('bucket', 'position', 'checkpoint', 'setting', 'origin', 'log_segment', 'unanswered', 'digest',
                       'deletion')";
    let tables = connection.query_row(select, [], |row| row.get::<_, i64>(0));
    match tables.map_err(|error| CatalogError::at(path, error))? {
        tables if TABLE_COUNTS.get(version) == Some(&tables) => Ok(version),
        _ => Err(damaged("tables are missing")),
    }
}

/// Makes a read-only catalog of an older version readable as if it were current.
pub(crate) fn create_compatibility_views(
    connection: &Connection,
    path: &Path,
    version: usize,
) -> Result<(), CatalogError> {
    let failed = |error: rusqlite::Error| CatalogError::at(path, error);
    let Some(stand_ins) = COMPATIBILITY_VIEWS.get(version) else { return Ok(()) };
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(failed)?;
    connection.execute_batch(stand_ins).map_err(failed)
}

/// Refuses a database with damaged B-trees.
fn check_structure(connection: &Connection, path: &Path) -> Result<(), CatalogError> {
    run_check_pragma(connection, path, "PRAGMA quick_check(1)")
}

/// Refuses a database with damaged B-trees or with indexes that do not match their tables.
pub(crate) fn check_indexes(connection: &Connection, path: &Path) -> Result<(), CatalogError> {
    run_check_pragma(connection, path, "PRAGMA integrity_check(1)")
}

fn run_check_pragma(connection: &Connection, path: &Path, pragma: &str) -> Result<(), CatalogError> {
    let found = connection.query_row(pragma, [], |row| row.get::<_, String>(0));
    match found.map_err(|error| CatalogError::at(path, error))? {
        found if found == "ok" => Ok(()),
        reason => Err(CatalogError::Corrupt { place: path.display().to_string(), reason }),
    }
}

/// Adds checksums to all rows of an older catalog.
fn add_checksums(act: &CatalogTransaction<'_>) -> StepResult<()> {
    begin(act, VERSION)?;
    add_bucket_sums(act)?;
    add_checkpoint_sums(act)?;
    let settings =
        act.rows("SELECT name, value FROM setting", &[], |row| Ok((row.take::<String>(0)?, row.take::<String>(1)?)))?;
    for (name, value) in settings {
        act.execute("DELETE FROM setting WHERE name = ?1", values![&name])?;
        write_setting(act, &name, &value)?;
    }
    let positions = act.rows("SELECT index_name, sealed_through FROM position", &[], |row| {
        Ok((row.take::<String>(0)?, row.unsigned(1)?))
    })?;
    for (index, through) in positions {
        act.execute("DELETE FROM position WHERE index_name = ?1", values![&index])?;
        advance_position(act, &index, through)?;
    }
    begin(act, VERSION)
}

/// Number of applied migrations; an error if a newer program applied more.
pub(crate) fn check_version(connection: &Connection, path: &Path) -> Result<usize, CatalogError> {
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    let found = version.map_err(|error| CatalogError::at(path, error))?;
    let known = MIGRATIONS.len() as i64;
    match usize::try_from(found) {
        Ok(applied) if found <= known => Ok(applied),
        _ => Err(CatalogError::TooNew { place: path.display().to_string(), found, known }),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) fn last_migration() -> &'static str {
        super::MIGRATIONS.last().unwrap()
    }
}
