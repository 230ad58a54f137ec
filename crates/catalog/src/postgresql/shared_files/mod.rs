//! Files that several nodes share, as rows of versioned documents in a schema of their own.
//!
//! Every change has a number, drawn from the counter in `clock`; the row of a file has the number of its last change. A
//! writer states the last number it has seen for the file, and the change is refused if another node has changed the
//! file since, so that no change is overwritten unseen. Removed files stay as rows without content, so that other nodes
//! learn of the removal. Numbers become visible in ascending order, because each transaction first updates the only row
//! of `clock`.
//!
//! A node that changes files holds an advisory lock from before it reads them until it has written them
//! ([`SharedFileTable::lock`]). The lock only prevents needless conflicts; if it is lost with its connection, the
//! numbers still reveal conflicts.
//!
//! Not here: which files are shared, and their copies on disk (sharing).

use quarry_stdx::SharedClock;
use xxhash_rust::xxh3::Xxh3;

use super::locked_sessions::{LockedSessions, commit_change};
use super::{PostgreSqlLocation, Session, in_transaction, shared_documents};
use crate::CatalogError;
use crate::transaction::{CatalogTransaction, Failure, StepResult, Transaction as _, values};

/// Version of the shared tables, which are independent of the catalog's. Version 1 had no documents.
const VERSION: i64 = 2;
const TABLES: &str = r#"
    CREATE TABLE version (version BIGINT NOT NULL);
    CREATE TABLE clock (last BIGINT NOT NULL, id BIGINT NOT NULL);
    CREATE TABLE file (
        path TEXT COLLATE "C" PRIMARY KEY,
        version BIGINT NOT NULL,
        run BIGINT NOT NULL,
        removed BIGINT NOT NULL,
        content BYTEA NOT NULL,
        checksum BIGINT NOT NULL
    );
    CREATE UNIQUE INDEX file_version ON file (version);
"#;
/// Number of these tables.
const FILE_TABLES: i64 = 3;
/// Number of all shared tables.
const ALL_TABLES: i64 = FILE_TABLES + shared_documents::TABLES_COUNT;
/// Maximum number of rows, including those of removed files.
const ROWS_MAX: i64 = 50_000;
/// A file's row without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedFileRow {
    /// Path, relative to the data directory.
    pub path: String,
    /// Number of its last change.
    pub version: i64,
}

/// A file with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedFile {
    /// Number of its last change.
    pub version: i64,
    /// Content; `None` if the file was removed.
    pub content: Option<Vec<u8>>,
}

/// A change of a file.
#[derive(Clone, Copy, Debug)]
pub struct SharedFileChange<'a> {
    /// Path, relative to the data directory.
    pub path: &'a str,
    /// Number of the last change that the writer has seen; 0 for a file it does not know.
    pub known: i64,
    /// New content; `None` removes the file.
    pub content: Option<&'a [u8]>,
}

/// Result of a change of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedPutResult {
    /// All files are changed. The first change has this number, the others the numbers that follow.
    Done(i64),
    /// Another node had changed one of the files first; nothing was changed.
    Conflict,
}

/// The shared files of a database.
#[derive(Debug)]
pub struct SharedFileTable {
    sessions: LockedSessions,
}

impl SharedFileTable {
    /// Opens the table at `place`, creating it if there is none.
    pub fn open(place: &PostgreSqlLocation, clock: &SharedClock) -> Result<SharedFileTable, CatalogError> {
        let table = SharedFileTable { sessions: LockedSessions::new(place, clock, place.schema())? };
        table.lock(clock.elapsed_ns())?;
        let made = table.sessions.write(clock.elapsed_ns(), |session| table.prepare(session));
        table.unlock();
        made.map(|()| table)
    }

    /// A random number that distinguishes this set of files from the sets in other databases.
    pub fn id(&self) -> Result<i64, CatalogError> {
        self.sessions.read(Some(self.sessions.database.clock.elapsed_ns()), |session| {
            let id = CatalogTransaction::on(session).number("SELECT id FROM clock", values![])?;
            id.ok_or_else(|| Failure::Damaged("table clock has no row".to_owned()))
        })
    }

    /// Excludes changes by others until [`SharedFileTable::unlock`]. Waits for at most the configured time, counted
    /// from `since` on the monotonic clock.
    pub fn lock(&self, since: i64) -> Result<(), CatalogError> {
        self.sessions.lock(since)
    }

    /// Ends the exclusion.
    pub fn unlock(&self) {
        self.sessions.unlock();
    }

    /// Number of the last change, and the rows changed after `version`, in order. If the connection is lost, waits for
    /// a new connection for at most the configured time after `since`; without `since`, does not wait.
    pub fn changes_since(&self, version: i64, since: Option<i64>) -> Result<(i64, Vec<SharedFileRow>), CatalogError> {
        self.sessions.read(since, |session| {
            let act = CatalogTransaction::on(session);
            let last = act.number("SELECT last FROM clock", values![])?;
            let last = last.ok_or_else(|| Failure::Damaged("table clock has no row".to_owned()))?;
            let select = "SELECT path, version FROM file WHERE version > ?1 ORDER BY version";
            let rows = act.rows(select, values![version], |row| {
                Ok(SharedFileRow { path: row.take(0)?, version: row.take(1)? })
            })?;
            Ok((last, rows))
        })
    }

    /// A file, if it was ever shared.
    pub fn file(&self, path: &str, since: Option<i64>) -> Result<Option<SharedFile>, CatalogError> {
        self.sessions.read(since, |session| {
            let select = "SELECT version, removed, content, checksum FROM file WHERE path = ?1";
            CatalogTransaction::on(session).row(select, values![path], |row| {
                let (version, is_removed, content): (i64, bool, Vec<u8>) = (row.take(0)?, row.take(1)?, row.take(2)?);
                if row.take::<i64>(3)? != sum_of(path, version, is_removed, &content) {
                    return Err(Failure::Damaged(format!("the row of {path} in file does not match its checksum")));
                }
                Ok(SharedFile { version, content: Some(content).filter(|_| !is_removed) })
            })
        })
    }

    /// Changes files: all of them or none. Durable when this returns. The caller holds the lock.
    pub fn put(&self, changes: &[SharedFileChange<'_>]) -> Result<SharedPutResult, CatalogError> {
        let mut open = None;
        self.sessions
            .write(self.sessions.database.clock.elapsed_ns(), |session| self.try_put(session, changes, &mut open))
    }

    /// One attempt. If the commit of an earlier attempt had no answer, `open` is the number of the first change in that
    /// attempt.
    fn try_put(
        &self,
        session: &Session,
        changes: &[SharedFileChange<'_>],
        open: &mut Option<i64>,
    ) -> StepResult<SharedPutResult> {
        let Some(first) = changes.first() else { return Ok(SharedPutResult::Done(0)) };
        if let Some(version) = open.take() {
            let select = "SELECT 1 FROM file WHERE path = ?1 AND version = ?2 AND run = ?3";
            if CatalogTransaction::on(session)
                .exists(select, values![first.path, version, self.sessions.database.run])?
            {
                return Ok(SharedPutResult::Done(version));
            }
        }
        let version = commit_change(session, open, || self.put_rows(session, changes))?;
        Ok(version.map_or(SharedPutResult::Conflict, SharedPutResult::Done))
    }

    /// Returns the number of the first change; `None` if another node has changed one of the files.
    fn put_rows(&self, session: &Session, changes: &[SharedFileChange<'_>]) -> StepResult<Option<i64>> {
        let act = CatalogTransaction::on(session);
        let count = i64::try_from(changes.len()).unwrap_or(i64::MAX);
        let last = act.number("UPDATE clock SET last = last + ?1 RETURNING last", values![count])?;
        let first = last.ok_or_else(|| Failure::Damaged("table clock has no row".to_owned()))? - count + 1;
        let upsert = "INSERT INTO file (path, version, run, removed, content, checksum)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (path) DO UPDATE
            SET version = excluded.version, run = excluded.run, removed = excluded.removed,
                content = excluded.content, checksum = excluded.checksum
            WHERE file.version = ?7 OR (?7 = 0 AND file.removed = 1)";
        for (change, version) in changes.iter().zip(first..) {
            let (is_removed, content) = (change.content.is_none(), change.content.unwrap_or_default());
            let sum = sum_of(change.path, version, is_removed, content);
            let run = self.sessions.database.run;
            let values = values![change.path, version, run, is_removed, content, sum, change.known];
            if act.execute(upsert, values)? == 0 {
                return Ok(None);
            }
        }
        let rows = act.number("SELECT count(*) FROM file", values![])?.unwrap_or(0);
        if rows > ROWS_MAX && changes.iter().any(|change| change.known == 0) {
            let place = self.sessions.database.place.shown.clone();
            let reason = format!("the limit of {ROWS_MAX} shared files, including removed ones, is reached");
            return Err(Failure::Permanent(CatalogError::Failed { place, reason }));
        }
        Ok(Some(first))
    }

    /// Creates the tables, or checks that their version is known.
    fn prepare(&self, session: &Session) -> StepResult<()> {
        let (act, schema) = (CatalogTransaction::on(session), &*self.sessions.database.place.shown);
        let name = self.sessions.database.place.schema();
        let count = "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = ?1";
        let tables = act.number(count, values![name])?.unwrap_or(0);
        if ![0, FILE_TABLES, ALL_TABLES].contains(&tables) {
            return Err(Failure::Damaged("its schema has tables of another program".to_owned()));
        }
        let found = if tables == 0 { 0 } else { act.number("SELECT version FROM version", values![])?.unwrap_or(0) };
        match (tables, found) {
            (0, _) => {}
            (ALL_TABLES, VERSION) => return Ok(()),
            (FILE_TABLES, 1) => {
                return in_transaction(session, "BEGIN", || {
                    session.run_script(shared_documents::TABLES)?;
                    session.execute("UPDATE version SET version = ?1", values![VERSION]).map(drop)
                });
            }
            (_, found) if found > VERSION => {
                let place = schema.to_owned();
                return Err(Failure::Permanent(CatalogError::TooNew { place, found, known: VERSION }));
            }
            _ => return Err(Failure::Damaged("its schema lacks tables".to_owned())),
        }
        in_transaction(session, "BEGIN", || {
            // A role without the right to create schemas can use an empty schema that an administrator has created.
            if !act.exists("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ?1", values![name])? {
                session.run_script(&format!("CREATE SCHEMA {name}"))?;
            }
            session.run_script(TABLES)?;
            session.run_script(shared_documents::TABLES)?;
            session.execute("INSERT INTO clock (last, id) VALUES (0, ?1)", values![self.sessions.database.run])?;
            session.execute("INSERT INTO version (version) VALUES (?1)", values![VERSION]).map(drop)
        })
    }
}

/// Checksum of a row, which is verified whenever the file is read.
fn sum_of(path: &str, version: i64, is_removed: bool, content: &[u8]) -> i64 {
    let mut sum = Xxh3::new();
    for part in [path.as_bytes(), &version.to_le_bytes(), &[u8::from(is_removed)], content] {
        sum.update(&(part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    sum.digest().cast_signed()
}

#[cfg(test)]
mod tests;
