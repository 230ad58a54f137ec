//! The tables of a catalog in PostgreSQL: one schema for each store.
//!
//! The tables have the same rows as in SQLite, and texts sort by their bytes in both. Two tables exist only in
//! PostgreSQL: `version`, and `writer` with the run that may write and its last transaction.
//!
//! `bucket` is not partitioned by time: a partitioned table cannot keep numbers unique without the time. A database
//! index finds the live buckets of a time range instead (`crate::overlap`).

use super::session::Session;
use crate::CatalogError;
use crate::checksum::TABLES;
use crate::digest::{BucketCheck, check_at_opening};
use crate::transaction::{CatalogTransaction, Failure, StepResult, Transaction, values};

/// The current version; always that of SQLite's tables.
pub(super) const VERSION: usize = crate::sqlite::schema::VERSION;

/// First version of the tables that exists in PostgreSQL; older versions exist only in SQLite.
const FIRST_VERSION: usize = 7;

/// Migration `i` upgrades version `FIRST_VERSION + i` by one; a migration is never edited after a release.
const MIGRATIONS: &[&str] = &["
    DROP INDEX bucket_by_time;
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
        ), time_min, time_max, number) WHERE state = 1;
"];
const _: () = assert!(FIRST_VERSION + MIGRATIONS.len() == VERSION, "both databases have the same versions");

/// The tables of version 7. A change of the tables is a new migration.
const TABLES_OF_VERSION_7: &str = r#"
    CREATE TABLE version (version BIGINT NOT NULL);
    CREATE TABLE writer (run BIGINT NOT NULL, transaction BIGINT NOT NULL);
    CREATE TABLE bucket (
        number BIGINT PRIMARY KEY,
        index_name TEXT COLLATE "C" NOT NULL,
        state BIGINT NOT NULL,
        object TEXT COLLATE "C" NOT NULL,
        filter TEXT COLLATE "C" NOT NULL,
        slabs BIGINT NOT NULL,
        time_min BIGINT NOT NULL,
        time_max BIGINT NOT NULL,
        events BIGINT NOT NULL,
        raw_bytes BIGINT NOT NULL,
        object_bytes BIGINT NOT NULL,
        filter_bytes BIGINT NOT NULL,
        created BIGINT NOT NULL,
        level BIGINT NOT NULL,
        thawed BIGINT NOT NULL,
        checksum BIGINT NOT NULL,
        volume TEXT COLLATE "C",
        folder TEXT COLLATE "C",
        remote BIGINT,
        receipt BIGINT,
        stem TEXT COLLATE "C",
        other_volume TEXT COLLATE "C",
        other_folder TEXT COLLATE "C",
        other_going BIGINT,
        merged_into BIGINT
    );
    CREATE INDEX bucket_of_index ON bucket (index_name, number);
    CREATE INDEX bucket_by_time ON bucket (index_name, time_max, time_min) WHERE state = 1;
    CREATE INDEX bucket_not_live ON bucket (state, number) WHERE state <> 1;
    CREATE INDEX bucket_merged_into ON bucket (merged_into) WHERE merged_into IS NOT NULL;
    CREATE INDEX bucket_stem ON bucket (stem) WHERE stem IS NOT NULL;
    CREATE TABLE origin (
        bucket BIGINT NOT NULL,
        first_row BIGINT NOT NULL,
        number BIGINT NOT NULL,
        PRIMARY KEY (bucket, first_row)
    );
    CREATE TABLE position (
        index_name TEXT COLLATE "C" PRIMARY KEY,
        sealed_through BIGINT NOT NULL,
        checksum BIGINT NOT NULL
    );
    CREATE TABLE checkpoint (
        identity BYTEA NOT NULL,
        variant BIGINT NOT NULL,
        head_bytes BIGINT NOT NULL,
        "offset" BIGINT NOT NULL,
        tail_hash BIGINT NOT NULL,
        source TEXT COLLATE "C" NOT NULL,
        lsn BIGINT NOT NULL,
        checksum BIGINT NOT NULL,
        milestones BYTEA NOT NULL,
        PRIMARY KEY (identity, variant)
    );
    CREATE INDEX checkpoint_lsn ON checkpoint (lsn);
    CREATE TABLE setting (
        name TEXT COLLATE "C" PRIMARY KEY,
        value TEXT COLLATE "C" NOT NULL,
        checksum BIGINT NOT NULL
    );
    CREATE TABLE log_segment (
        first_lsn BIGINT PRIMARY KEY,
        last_lsn BIGINT NOT NULL,
        checksum BIGINT NOT NULL
    );
    CREATE TABLE unanswered (
        run BIGINT NOT NULL,
        number BIGINT NOT NULL,
        key BYTEA NOT NULL,
        "time" BIGINT NOT NULL,
        checksum BIGINT NOT NULL,
        PRIMARY KEY (run, number)
    );
    CREATE TABLE deletion (
        bucket BIGINT PRIMARY KEY,
        rows BYTEA NOT NULL,
        checksum BIGINT NOT NULL
    );
    CREATE TABLE digest (name TEXT COLLATE "C" PRIMARY KEY, sum BIGINT NOT NULL);
"#;

/// Number of tables in a schema.
const TABLES_MAX: i64 = 11;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaContents {
    /// No tables, or no such schema.
    Nothing,
    /// A catalog of this version.
    Version(usize),
}

/// Examines the session's schema; refuses an incomplete catalog and a catalog of a newer version.
pub(super) fn inspect_schema(session: &Session, schema: &str, place: &str) -> StepResult<SchemaContents> {
    let select = "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = ?1";
    let act = CatalogTransaction::on(session);
    let tables = act.number(select, values![schema])?.unwrap_or(0);
    if tables == 0 {
        return Ok(SchemaContents::Nothing);
    }
    let own = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = ?1 AND tablename = 'version'";
    if !act.exists(own, values![schema])? {
        return Err(Failure::Damaged("its schema has tables, but no table named version".to_owned()));
    }
    let found = act.number("SELECT version FROM version", values![])?.unwrap_or(0);
    let known = VERSION as i64;
    if found > known {
        return Err(Failure::Permanent(CatalogError::TooNew { place: place.to_owned(), found, known }));
    }
    match usize::try_from(found) {
        Ok(version @ FIRST_VERSION..=VERSION) if tables == TABLES_MAX => Ok(SchemaContents::Version(version)),
        _ => Err(Failure::Damaged(format!("its schema has {tables} tables, which does not fit its version {found}"))),
    }
}

/// Creates the schema with empty tables; the caller has begun a transaction.
pub(super) fn create(session: &Session, schema: &str) -> StepResult<()> {
    // A role without the right to create schemas can use an empty schema that an administrator has created.
    let is_there = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ?1";
    if !CatalogTransaction::on(session).exists(is_there, values![schema])? {
        session.run_script(&format!("CREATE SCHEMA {schema}"))?;
    }
    session.run_script(TABLES_OF_VERSION_7)?;
    MIGRATIONS.iter().try_for_each(|migration| session.run_script(migration))?;
    session.execute("INSERT INTO version (version) VALUES (?1)", values![VERSION as i64])?;
    session.execute("INSERT INTO writer (run, transaction) VALUES (0, 0)", values![])?;
    for table in TABLES {
        session.execute("INSERT INTO digest (name, sum) VALUES (?1, 0)", values![table.name()])?;
    }
    Ok(())
}

/// Applies the missing migrations to a catalog of version `found`; the caller has begun a transaction.
pub(super) fn migrate(session: &Session, found: usize) -> StepResult<()> {
    MIGRATIONS.iter().skip(found.saturating_sub(FIRST_VERSION)).try_for_each(|step| session.run_script(step))?;
    session.execute("UPDATE version SET version = ?1", values![VERSION as i64]).map(drop)
}

/// Verifies the rows and tables of a catalog of this version.
pub(super) fn check(session: &Session, version: usize, buckets: BucketCheck) -> StepResult<()> {
    check_at_opening(&CatalogTransaction::on(session), version, buckets)
}
