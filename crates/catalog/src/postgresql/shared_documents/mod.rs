//! Documents of collections that several nodes share, as versioned rows in the database of the shared files.
//!
//! Each change of a document takes the next number of a counter for all collections (`document_clock`), and the row of
//! a document has the number of its last change. A node that has applied the changes of a collection up to a number
//! asks for the rows with higher numbers. Removed documents stay as rows without a body, so that other nodes learn of
//! the removal; once there are many, the oldest are deleted, and `collection.purged` is the highest number of a deleted
//! row. A node that has applied only changes with lower numbers reads the whole collection again.
//!
//! A node that changes documents holds an advisory lock, states the number up to which it knows the collection, and is
//! refused if another node has changed the collection since.
//!
//! Not here: the documents on this node's disk (collections), when nodes read changes (sharing).

use quarry_stdx::SharedClock;
use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3;

use super::locked_sessions::{LockedSessions, commit_change};
use super::{PostgreSqlLocation, Session, nul};
use crate::CatalogError;
use crate::transaction::{CatalogTransaction, Failure, Row, StepResult, values};

/// The tables, which version 2 of the shared tables has.
pub(super) const TABLES: &str = r#"
    CREATE TABLE document_clock (last BIGINT NOT NULL);
    INSERT INTO document_clock (last) VALUES (0);
    CREATE TABLE collection (
        app TEXT COLLATE "C" NOT NULL,
        name TEXT COLLATE "C" NOT NULL,
        purged BIGINT NOT NULL,
        PRIMARY KEY (app, name)
    );
    CREATE TABLE document (
        app TEXT COLLATE "C" NOT NULL,
        name TEXT COLLATE "C" NOT NULL,
        username TEXT COLLATE "C" NOT NULL,
        key TEXT COLLATE "C" NOT NULL,
        version BIGINT NOT NULL,
        run BIGINT NOT NULL,
        removed BIGINT NOT NULL,
        body TEXT NOT NULL,
        checksum BIGINT NOT NULL,
        PRIMARY KEY (app, name, username, key)
    );
    CREATE UNIQUE INDEX document_version ON document (version);
    CREATE INDEX document_of_collection ON document (app, name, version);
    CREATE INDEX document_removed ON document (app, name, version) WHERE removed = 1;
"#;
/// Number of these tables.
pub(super) const TABLES_COUNT: i64 = 3;
/// Maximum number of removed documents per collection whose rows are kept; beyond it, the oldest rows are deleted.
const REMOVED_MAX: i64 = 2_000;
/// Number of these rows that are left by such a deletion.
const REMOVED_KEPT: i64 = 1_000;
/// Maximum number of rows of a page, and the total bytes of their bodies after which no row is added to a page.
const PAGE_ROWS_MAX: i64 = 1_000;
const PAGE_BYTES_MAX: i64 = 8 << 20;

/// A document as nodes share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedDocument {
    /// User to whom it belongs.
    pub user: String,
    /// Key.
    pub key: String,
    /// Members as JSON; `None` if the document was removed.
    pub body: Option<String>,
}

/// State of a collection in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedCollectionState {
    /// Number of the last change in the database, whichever collection it changed.
    pub last: i64,
    /// Number of the newest removal whose row has been deleted; rows of later removals still exist.
    pub purged: i64,
}

/// Result of a change of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentPutResult {
    /// All documents are changed; the last one has this number.
    Done(i64),
    /// Another node had changed the collection first; nothing was changed.
    Conflict,
}

/// The documents to write, in parts: returns the part with a given number, counted from 0; an empty part means that
/// there are no more. Parts are requested again if a connection is lost.
pub type DocumentParts<'p> = &'p dyn Fn(usize) -> Result<Vec<SharedDocument>, CatalogError>;

/// The documents that the nodes of a cluster share.
#[derive(Debug)]
pub struct SharedDocumentTable {
    sessions: LockedSessions,
}

impl SharedDocumentTable {
    /// The table at `place`, which [`SharedFileTable::open`](super::SharedFileTable::open) has created.
    pub fn open(place: &PostgreSqlLocation, clock: &SharedClock) -> Result<SharedDocumentTable, CatalogError> {
        let lock_name = format!("{} documents", place.schema());
        Ok(SharedDocumentTable { sessions: LockedSessions::new(place, clock, &lock_name)? })
    }

    /// Excludes changes by others until [`SharedDocumentTable::unlock`]. Waits for at most the configured time, counted
    /// from `since` on the monotonic clock.
    pub fn lock(&self, since: i64) -> Result<(), CatalogError> {
        self.sessions.lock(since)
    }

    /// Ends the exclusion.
    pub fn unlock(&self) {
        self.sessions.unlock();
    }

    /// Number of the last change, and app and name of the collections changed after `version`. If the connection is
    /// lost, waits for a new connection for at most the configured time after `since`; without `since`, does not wait.
    pub fn collections_changed_since(
        &self,
        version: i64,
        since: Option<i64>,
    ) -> Result<(i64, Vec<(String, String)>), CatalogError> {
        self.sessions.read(since, |session| {
            let act = CatalogTransaction::on(session);
            let last = last_change(&act)?;
            if last == version {
                return Ok((last, Vec::new()));
            }
            let select = "SELECT app, name FROM document WHERE version > ?1
                UNION SELECT app, name FROM collection WHERE purged > ?1 ORDER BY app, name";
            let changed = act.rows(select, values![version], |row| Ok((row.take(0)?, row.take(1)?)))?;
            Ok((last, changed))
        })
    }

    /// Numbers of the last change in the database and of the newest deleted row of the collection.
    pub fn state(&self, app: &str, name: &str, since: Option<i64>) -> Result<SharedCollectionState, CatalogError> {
        self.sessions.read(since, |session| {
            let act = CatalogTransaction::on(session);
            Ok(SharedCollectionState { last: last_change(&act)?, purged: purged(&act, app, name)? })
        })
    }

    /// The next documents of a collection that were changed after number `after` and up to `last`, each with the number
    /// of its last change, in the order of these numbers; empty at the end.
    pub fn page(
        &self,
        (app, name): (&str, &str),
        (after, last): (i64, i64),
        since: Option<i64>,
    ) -> Result<Vec<(i64, SharedDocument)>, CatalogError> {
        let select = "SELECT username, key, version, removed, body, checksum FROM (
                SELECT *, sum(octet_length(body)) OVER (ORDER BY version) - octet_length(body) AS before FROM (
                    SELECT * FROM document WHERE app = ?1 AND name = ?2 AND version > ?3 AND version <= ?4
                    ORDER BY version LIMIT ?5) AS page) AS page
            WHERE before <= ?6 ORDER BY version";
        self.sessions.read(since, |session| {
            let values = values![app, name, after, last, PAGE_ROWS_MAX, PAGE_BYTES_MAX];
            CatalogTransaction::on(session).rows(select, values, |row| read_document(app, name, row))
        })
    }

    /// Writes documents of a collection in one transaction; durable when this returns. The caller holds the lock, and
    /// has applied the collection's changes up to number `known`.
    pub fn put(
        &self,
        (app, name): (&str, &str),
        known: i64,
        parts: DocumentParts<'_>,
    ) -> Result<DocumentPutResult, CatalogError> {
        self.change((app, name), known, &|act, run| put_rows(act, run, (app, name), parts))
    }

    /// Removes all documents of a collection, including those that this node does not know. The caller holds the lock.
    pub fn clear(&self, (app, name): (&str, &str)) -> Result<(), CatalogError> {
        let clear = |act: &CatalogTransaction<'_>, _: i64| {
            let removed = act.execute("DELETE FROM document WHERE app = ?1 AND name = ?2", values![app, name])?;
            if removed == 0 {
                return last_change(act);
            }
            let last = advance(act, 1)?;
            set_purged(act, (app, name), last).map(|()| last)
        };
        self.change((app, name), i64::MAX, &clear).map(drop)
    }

    /// Runs `work` in a transaction, repeatedly if connections are lost, but commits it only once.
    fn change(
        &self,
        place: (&str, &str),
        known: i64,
        work: &dyn Fn(&CatalogTransaction<'_>, i64) -> StepResult<i64>,
    ) -> Result<DocumentPutResult, CatalogError> {
        let mut open = None;
        self.sessions.write(self.sessions.database.clock.elapsed_ns(), |session| {
            self.try_change(session, place, known, work, &mut open)
        })
    }

    /// One attempt. If the commit of an earlier attempt had no answer, `open` is the number of its last change.
    fn try_change(
        &self,
        session: &Session,
        (app, name): (&str, &str),
        known: i64,
        work: &dyn Fn(&CatalogTransaction<'_>, i64) -> StepResult<i64>,
        open: &mut Option<i64>,
    ) -> StepResult<DocumentPutResult> {
        let (act, run) = (CatalogTransaction::on(session), self.sessions.database.run);
        if let Some(last) = open.take()
            && act.exists("SELECT 1 FROM document WHERE version = ?1 AND run = ?2", values![last, run])?
        {
            return Ok(DocumentPutResult::Done(last));
        }
        let last = commit_change(session, open, || {
            // Taking numbers first excludes other transactions, so that numbers become visible in ascending order.
            advance(&act, 0)?;
            let newer = "SELECT 1 FROM document WHERE app = ?1 AND name = ?2 AND version > ?3";
            if act.exists(newer, values![app, name, known])? || purged(&act, app, name)? > known {
                return Ok(None);
            }
            work(&act, run).map(Some)
        })?;
        Ok(last.map_or(DocumentPutResult::Conflict, DocumentPutResult::Done))
    }
}

fn last_change(act: &CatalogTransaction<'_>) -> StepResult<i64> {
    let last = act.number("SELECT last FROM document_clock", values![])?;
    last.ok_or_else(|| Failure::Damaged("table document_clock has no row".to_owned()))
}

/// Takes `count` numbers; returns the last one.
fn advance(act: &CatalogTransaction<'_>, count: i64) -> StepResult<i64> {
    let last = act.number("UPDATE document_clock SET last = last + ?1 RETURNING last", values![count])?;
    last.ok_or_else(|| Failure::Damaged("table document_clock has no row".to_owned()))
}

fn purged(act: &CatalogTransaction<'_>, app: &str, name: &str) -> StepResult<i64> {
    let select = "SELECT purged FROM collection WHERE app = ?1 AND name = ?2";
    Ok(act.number(select, values![app, name])?.unwrap_or(0))
}

fn set_purged(act: &CatalogTransaction<'_>, (app, name): (&str, &str), purged: i64) -> StepResult<()> {
    let upsert = "INSERT INTO collection (app, name, purged) VALUES (?1, ?2, ?3)
        ON CONFLICT (app, name) DO UPDATE SET purged = excluded.purged";
    act.execute(upsert, values![app, name, purged]).map(drop)
}

/// Writes the parts and returns the number of the last change.
fn put_rows(
    act: &CatalogTransaction<'_>,
    run: i64,
    (app, name): (&str, &str),
    parts: DocumentParts<'_>,
) -> StepResult<i64> {
    // One parameter for many rows; as JSON, because a parameter of the catalog is a number, a text or bytes.
    let upsert = "INSERT INTO document (app, name, username, key, version, run, removed, body, checksum)
        SELECT ?1, ?2, part.username, part.key, part.version, ?3, part.removed, part.body, part.checksum
        FROM json_to_recordset(CAST(CAST(?4 AS TEXT) AS JSON)) AS part
            (username TEXT, key TEXT, version BIGINT, removed BIGINT, body TEXT, checksum BIGINT)
        ON CONFLICT (app, name, username, key) DO UPDATE
        SET version = excluded.version, run = excluded.run, removed = excluded.removed, body = excluded.body,
            checksum = excluded.checksum";
    let (mut last, mut has_removed) = (0, false);
    for at in 0.. {
        let part = parts(at).map_err(Failure::Permanent)?;
        let count = i64::try_from(part.len()).unwrap_or(i64::MAX);
        if count == 0 {
            break;
        }
        last = advance(act, count)?;
        let rows: Vec<Value> = part
            .iter()
            .zip(last - count + 1..)
            .map(|(document, version)| row_of(app, name, document, version))
            .collect();
        act.execute(upsert, values![app, name, run, &Value::from(rows).to_string()])?;
        has_removed |= part.iter().any(|document| document.body.is_none());
    }
    if has_removed {
        purge(act, (app, name))?;
    }
    if last == 0 { last_change(act) } else { Ok(last) }
}

/// The row of a document as a JSON object. The database cannot store NUL in texts.
fn row_of(app: &str, name: &str, document: &SharedDocument, version: i64) -> Value {
    json!({
        "username": nul::escape(&document.user),
        "key": nul::escape(&document.key),
        "version": version,
        "removed": i64::from(document.body.is_none()),
        "body": nul::escape(document.body.as_deref().unwrap_or_default()),
        "checksum": sum_of(app, name, document, version),
    })
}

/// Deletes the oldest rows of removed documents if there are too many.
fn purge(act: &CatalogTransaction<'_>, (app, name): (&str, &str)) -> StepResult<()> {
    let newest = "SELECT version FROM document WHERE app = ?1 AND name = ?2 AND removed = 1
        ORDER BY version DESC LIMIT 1 OFFSET ?3";
    if act.number(newest, values![app, name, REMOVED_MAX])?.is_none() {
        return Ok(());
    }
    if let Some(last) = act.number(newest, values![app, name, REMOVED_KEPT])? {
        let delete = "DELETE FROM document WHERE app = ?1 AND name = ?2 AND removed = 1 AND version <= ?3";
        act.execute(delete, values![app, name, last])?;
        set_purged(act, (app, name), last)?;
    }
    Ok(())
}

fn read_document(app: &str, name: &str, row: &mut Row) -> StepResult<(i64, SharedDocument)> {
    let (user, key, version): (String, String, i64) = (row.take(0)?, row.take(1)?, row.take(2)?);
    let (is_removed, body): (bool, String) = (row.take(3)?, row.take(4)?);
    let document = SharedDocument { user, key, body: Some(body).filter(|_| !is_removed) };
    if row.take::<i64>(5)? != sum_of(app, name, &document, version) {
        let key = &document.key;
        let reason =
            format!("the row of document {key:.80} of collection {name} in document does not match its checksum");
        return Err(Failure::Damaged(reason));
    }
    Ok((version, document))
}

/// Checksum of a row, which is verified whenever the document is read.
fn sum_of(app: &str, name: &str, document: &SharedDocument, version: i64) -> i64 {
    let mut sum = Xxh3::new();
    let body = document.body.as_deref().unwrap_or_default();
    let is_removed = [u8::from(document.body.is_none())];
    for part in [app, name, &document.user, &document.key, body]
        .map(str::as_bytes)
        .into_iter()
        .chain([version.to_le_bytes().as_slice(), is_removed.as_slice()])
    {
        sum.update(&(part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    sum.digest().cast_signed()
}

#[cfg(test)]
mod tests;
