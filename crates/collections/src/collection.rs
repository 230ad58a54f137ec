//! One collection: a SQLite file with its documents and the index entries of its accelerated fields.
//!
//! There is one writer at a time. A write is one transaction, which is on disk (`synchronous=FULL`) before the request
//! is answered. Readers have their own connections and see the state committed when they began; readers and writers do
//! not block each other. A document keeps its row id when it is replaced; row ids are the default order of answers.
//!
//! A failed commit may leave a complete transaction in SQLite's log. This process does not see the transaction, but a
//! process that opens the file after a crash would. Before any further read or write, a small transaction therefore
//! overwrites the failed one in the log.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use serde_json::Value;

use self::replica::TouchedDocuments;
use crate::access::StoredAcceleration;
use crate::definition::{Acceleration, CollectionDefinition};
use crate::document::{Object, ObjectConsumer, PreparedDocument, check_key, new_key, prepare, write_answer};
use crate::entry::{IndexedDocument, entries};
use crate::error::Failure;
use crate::field_path::FieldPath;
use crate::find::{ALL, DocumentView, Find, StoredDocument};
use crate::{CollectionError, Query, SharedDocuments, migration};

mod replica;
#[cfg(test)]
mod replica_tests;

/// Time for which a statement waits for a lock that another process holds.
const BUSY_WAIT: Duration = Duration::from_secs(10);
/// Reader connections kept open.
const IDLE_READERS_MAX: usize = 2;
/// Schema version of the file.
const VERSION: i64 = 1;
/// Page cache of the writer, in KiB.
const WRITER_KIB: i64 = 4_096;
/// Page cache of a reader, in KiB.
const READER_KIB: i64 = 1_024;
/// Settings of the writer. Readers do not set them: the journal mode is stored in the file, and setting it would
/// contend with the writer.
const WRITER_PRAGMAS: &str = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;";
/// Size to which the log is truncated after a checkpoint.
const LOG_BYTES_KEPT: i64 = 16 << 20;

const SCHEMA: &str = "\
     CREATE TABLE IF NOT EXISTS documents (place INTEGER PRIMARY KEY, user TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL); \
     CREATE UNIQUE INDEX IF NOT EXISTS keys ON documents (user, key); \
     CREATE TABLE IF NOT EXISTS accelerations (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, fields TEXT NOT NULL, \
     exact INTEGER NOT NULL); \
     CREATE TABLE IF NOT EXISTS shared (id INTEGER NOT NULL, version INTEGER NOT NULL); \
     CREATE TABLE IF NOT EXISTS entries (acceleration INTEGER NOT NULL, value BLOB NOT NULL, place INTEGER NOT NULL, \
     PRIMARY KEY (acceleration, value, place)) WITHOUT ROWID;";

/// Size of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionSize {
    /// Documents of all users.
    pub documents: u64,
    /// Bytes of the file, with its indexes.
    pub bytes: u64,
}

/// Documents that [`Collection::save_all`] removes before it writes new documents.
pub enum Removed<'r> {
    /// No document, except those whose keys are written again.
    Nothing,
    /// All documents of the user.
    All,
    /// The documents selected by a predicate on their members, including key and user.
    Matching(&'r dyn Fn(&Object) -> bool),
}

/// One collection of documents, stored in a file of its own.
#[derive(Debug)]
pub struct Collection {
    app: String,
    name: String,
    path: PathBuf,
    /// File in the older format that may still contain documents of this collection.
    former_path: PathBuf,
    /// The database through which nodes share the documents.
    shared: Option<Arc<dyn SharedDocuments>>,
    writer: Mutex<Writer>,
    /// Whether the last commit failed, so that its transaction may reappear after a crash.
    is_in_doubt: AtomicBool,
    idle: Mutex<Vec<Connection>>,
    /// The accelerations that the file has; `None` if not yet known.
    adopted: Mutex<Option<Vec<Acceleration>>>,
}

#[derive(Debug, Default)]
struct Writer {
    connection: Option<Connection>,
    is_removed: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collection {
    pub(crate) fn new(
        path: PathBuf,
        (app, name): (&str, &str),
        former_path: PathBuf,
        shared: Option<Arc<dyn SharedDocuments>>,
    ) -> Collection {
        Collection {
            app: app.to_owned(),
            name: name.to_owned(),
            path,
            former_path,
            shared,
            writer: Mutex::default(),
            is_in_doubt: AtomicBool::new(false),
            idle: Mutex::default(),
            adopted: Mutex::default(),
        }
    }

    /// Adds a document and returns its key; fails if the user already has a document with this key.
    pub fn insert(
        &self,
        user: &str,
        document: Object,
        definition: &CollectionDefinition,
    ) -> Result<String, CollectionError> {
        let prepared = prepare(document, definition)?;
        self.write(definition, |file| {
            let key = prepared.key.clone().unwrap_or_else(new_key);
            if file.existing(user, &key)?.is_some() {
                return Err(CollectionError::Exists.into());
            }
            file.put(user, &key, &prepared)?;
            Ok(key)
        })
    }

    /// Replaces an existing document.
    pub fn replace(
        &self,
        user: &str,
        key: &str,
        document: Object,
        definition: &CollectionDefinition,
    ) -> Result<(), CollectionError> {
        let prepared = prepare(document, definition)?;
        self.write(definition, |file| {
            if file.existing(user, key)?.is_none() {
                return Err(CollectionError::Unknown.into());
            }
            file.put(user, key, &prepared)
        })
    }

    /// Atomically deletes the `removed` documents and writes new documents, which replace existing documents of the
    /// same keys. Returns the keys written. `fill` must pass each document to its argument, a consumer.
    pub fn save_all(
        &self,
        user: &str,
        definition: &CollectionDefinition,
        removed: &Removed<'_>,
        fill: &mut dyn FnMut(ObjectConsumer<'_>) -> Result<(), CollectionError>,
    ) -> Result<Vec<String>, CollectionError> {
        self.write(definition, |file| {
            match removed {
                Removed::Nothing => {}
                Removed::All => drop(file.remove_matching(user, &Query::default(), &|_| true)?),
                Removed::Matching(is_removed) => drop(file.remove_matching(user, &Query::default(), is_removed)?),
            }
            let mut keys = Vec::new();
            let mut failed = None;
            let filled = fill(&mut |document| {
                let prepared = prepare(document, definition)?;
                let key = prepared.key.clone().unwrap_or_else(new_key);
                if let Err(failure) = file.put(user, &key, &prepared) {
                    failed = Some(failure);
                    return Err(CollectionError::Unknown);
                }
                keys.push(key);
                Ok(())
            });
            match failed {
                Some(failure) => Err(failure),
                None => Ok(filled.map(|()| keys)?),
            }
        })
    }

    /// Removes a document.
    pub fn remove(&self, user: &str, key: &str, definition: &CollectionDefinition) -> Result<(), CollectionError> {
        self.write(definition, |file| match file.existing(user, key)? {
            Some((row_id, body)) => file.remove_at(row_id, user, key, &body),
            None => Err(CollectionError::Unknown.into()),
        })
    }

    /// Removes a user's matching documents; returns their number.
    pub fn remove_matching(
        &self,
        user: &str,
        query: &Query,
        definition: &CollectionDefinition,
    ) -> Result<usize, CollectionError> {
        self.write(definition, |file| file.remove_matching(user, query, &|_| true))
    }

    /// Brings the file's accelerations in line with a definition.
    pub fn update_accelerations(&self, definition: &CollectionDefinition) -> Result<(), CollectionError> {
        if self.is_up_to_date(definition) || !self.exists() {
            return Ok(());
        }
        self.write_here(&mut locked(&self.writer), definition, |_| Ok(()))
    }

    fn is_up_to_date(&self, definition: &CollectionDefinition) -> bool {
        locked(&self.adopted).as_ref() == Some(&definition.accelerations)
    }

    /// The document with this key as JSON, from the first of the users with such a document.
    pub fn document(&self, users: &[&str], key: &str) -> Result<String, CollectionError> {
        let mut out = String::new();
        let is_found = self.read(users, |reading| {
            reading.by_key(key, &mut |found| {
                write_answer(found.user, found.key, found.body, &mut out);
                Ok(())
            })
        })?;
        if is_found == Some(true) { Ok(out) } else { Err(CollectionError::Unknown) }
    }

    /// Appends the requested documents of these users to `out`, as a JSON list.
    pub fn find(&self, users: &[&str], find: &Find, out: &mut String) -> Result<(), CollectionError> {
        let length = out.len();
        let found = self.read(users, |reading| reading.find(find, out))?;
        if found.is_none() {
            out.truncate(length);
            out.push_str("[]");
        }
        Ok(())
    }

    /// Passes key and members of each document of a user to `take`, in row order.
    pub fn for_each(
        &self,
        user: &str,
        take: &mut dyn FnMut(&str, Object) -> Result<(), CollectionError>,
    ) -> Result<(), CollectionError> {
        self.read(&[user], |reading| {
            reading.for_each_match(&Query::default(), &mut |found, _| {
                take(found.key, found.own_members()?)?;
                Ok(ControlFlow::Continue(()))
            })
        })?;
        Ok(())
    }

    /// Number of a user's documents; reads keys only.
    pub fn count(&self, user: &str) -> Result<usize, CollectionError> {
        let found = self.read(&[user], |reading| {
            let text = "SELECT count(*) FROM documents WHERE user = ?1";
            let count: i64 = reading.connection.prepare_cached(text)?.query_row(params![user], |row| row.get(0))?;
            usize::try_from(count).map_err(|_| Failure::Damage(format!("a count of documents is {count}")))
        })?;
        Ok(found.unwrap_or(0))
    }

    /// Number of the documents of all users, and bytes of the file.
    pub fn size(&self) -> Result<CollectionSize, CollectionError> {
        let found = self.read(&[], |reading| {
            let number = |text: &str| -> Result<u64, Failure> {
                let number: i64 = reading.connection.prepare_cached(text)?.query_row([], |row| row.get(0))?;
                u64::try_from(number).map_err(|_| Failure::Damage(format!("{text} is {number}")))
            };
            let pages = number("SELECT page_count FROM pragma_page_count()")?;
            let page_bytes = number("SELECT page_size FROM pragma_page_size()")?;
            let documents = number("SELECT count(*) FROM documents")?;
            Ok(CollectionSize { documents, bytes: pages.saturating_mul(page_bytes) })
        })?;
        Ok(found.unwrap_or_default())
    }

    fn exists(&self) -> bool {
        self.path.is_file() || self.former_path.is_file()
    }

    /// Reads in one transaction; `None` if the collection was never written or has been removed.
    fn read<T>(
        &self,
        users: &[&str],
        work: impl FnOnce(&DocumentView<'_>) -> Result<T, Failure>,
    ) -> Result<Option<T>, CollectionError> {
        if !self.path.is_file() {
            if !self.former_path.is_file() {
                return Ok(None);
            }
            // Migrates the documents from the older format.
            self.write_here(&mut locked(&self.writer), &CollectionDefinition::default(), |_| Ok(()))?;
        }
        if self.is_in_doubt.load(Ordering::Acquire) {
            self.clear_failed_commit(&mut locked(&self.writer))?;
        }
        // The file may have been removed, and a reader must not create it again.
        let existing = OpenFlags::default().difference(OpenFlags::SQLITE_OPEN_CREATE);
        let idle = locked(&self.idle).pop();
        let connection = match idle.map_or_else(|| self.connect(READER_KIB, existing, ""), Ok) {
            Err(_) if locked(&self.writer).is_removed => return Ok(None),
            connection => connection?,
        };
        let run = || -> Result<Option<T>, Failure> {
            let Some(transaction) = self.begin_reading(&connection)? else { return Ok(None) };
            let kept = stored_accelerations(&transaction)?;
            let done = work(&DocumentView { connection: &transaction, users, accelerations: &kept })?;
            transaction.finish()?;
            Ok(Some(done))
        };
        let done = match run() {
            // The file was removed during the read.
            Err(Failure::Sqlite(_)) if locked(&self.writer).is_removed => return Ok(None),
            done => done.map_err(|failure| failure.at(&self.path))?,
        };
        let mut idle = locked(&self.idle);
        if idle.len() < IDLE_READERS_MAX {
            idle.push(connection);
        }
        Ok(done)
    }

    /// Begins a transaction of a reader; `None` if the file has no tables yet.
    ///
    /// A file exists for a moment before its first transaction, which creates the tables, sets the version and migrates
    /// the older documents. A reader that arrives in between waits for that transaction, so that older documents never
    /// seem to be missing. If the file still has no tables after the wait, its writer failed or is another process that
    /// has written nothing yet.
    fn begin_reading<'c>(&self, connection: &'c Connection) -> Result<Option<Transaction<'c>>, Failure> {
        let begin = || -> Result<Option<Transaction<'c>>, rusqlite::Error> {
            let transaction = connection.unchecked_transaction()?;
            let version: i64 = transaction
                .prepare_cached("SELECT user_version FROM pragma_user_version()")?
                .query_row([], |row| row.get(0))?;
            Ok((version > 0).then_some(transaction))
        };
        if let Some(transaction) = begin()? {
            return Ok(Some(transaction));
        }
        if !self.former_path.is_file() {
            drop(locked(&self.writer));
            return Ok(begin()?);
        }
        match self.write_here(&mut locked(&self.writer), &CollectionDefinition::default(), |_| Ok(())) {
            Err(CollectionError::Unknown) => Ok(None),
            done => Ok(done.and(Ok(begin()?))?),
        }
    }

    fn connect(&self, cache_kib: i64, flags: OpenFlags, setup: &str) -> Result<Connection, CollectionError> {
        let open = || -> Result<Connection, rusqlite::Error> {
            let connection = Connection::open_with_flags(&self.path, flags)?;
            connection.busy_timeout(BUSY_WAIT)?;
            connection.execute_batch(setup)?;
            connection.pragma_update(None, "cache_size", -cache_kib)?;
            connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
            Ok(connection)
        };
        open().map_err(|error| CollectionError::at(&self.path, &error))
    }

    /// Opens the file for writing, creating it if missing.
    fn prepare_file(&self) -> Result<Connection, CollectionError> {
        let failed = |error: &dyn std::fmt::Display| CollectionError::Failed {
            path: self.path.clone(),
            reason: error.to_string(),
        };
        let is_new = !self.path.is_file();
        if let Some(folder) = self.path.parent().filter(|_| is_new) {
            std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
            sync_folder(folder.parent()).map_err(|error| failed(&error))?;
        }
        let mut connection = self.connect(WRITER_KIB, OpenFlags::default(), WRITER_PRAGMAS)?;
        let is_imported = self.set_up(&mut connection).map_err(|failure| failure.at(&self.path))?;
        sync_folder(self.path.parent().filter(|_| is_new)).map_err(|error| failed(&error))?;
        if is_imported {
            migration::remove_documents(&self.former_path, &self.name)
                .map_err(|failure| failure.at(&self.former_path))?;
        }
        Ok(connection)
    }

    /// Creates the tables of a new file and migrates older documents; returns whether documents were migrated.
    fn set_up(&self, connection: &mut Connection) -> Result<bool, Failure> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version > VERSION {
            let text =
                format!("it has version {version}, but this quarry supports only up to {VERSION}; use a newer quarry");
            return Err(CollectionError::Failed { path: self.path.clone(), reason: text }.into());
        }
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        let mut file = FileWriter::new(&transaction, Vec::new());
        // The version is tested, not the existence of the file, because a process that dies before the commit leaves a
        // file without tables.
        let takes_over = version == 0 && self.former_path.is_file();
        let documents = if takes_over { migration::documents(&self.former_path, &self.name)? } else { Vec::new() };
        for (key, body) in &documents {
            let members: Object = serde_json::from_str(body)
                .map_err(|error| Failure::Damage(format!("the document {key} is not JSON: {error}")))?;
            let prepared = PreparedDocument { key: Some(key.clone()), members, body: body.clone() };
            file.put(crate::NOBODY, key, &prepared)?;
        }
        transaction.commit()?;
        Ok(!documents.is_empty())
    }

    /// Writes documents in one transaction, for all nodes if nodes share the documents.
    fn write<T>(
        &self,
        definition: &CollectionDefinition,
        work: impl FnOnce(&mut FileWriter<'_>) -> Result<T, Failure>,
    ) -> Result<T, CollectionError> {
        let mut writer = locked(&self.writer);
        match &self.shared {
            Some(shared) => self.write_shared(&mut writer, shared, definition, work),
            None => self.write_here(&mut writer, definition, work),
        }
    }

    /// Writes in one transaction, after bringing the accelerations in line with the definition. The changes are not
    /// shared, so the file no longer counts as a replica of a cluster's database.
    fn write_here<T>(
        &self,
        writer: &mut Writer,
        definition: &CollectionDefinition,
        work: impl FnOnce(&mut FileWriter<'_>) -> Result<T, Failure>,
    ) -> Result<T, CollectionError> {
        self.in_transaction(writer, Some(definition), |file| {
            let done = work(file)?;
            if file.is_changed {
                file.forget_database()?;
            }
            Ok(done)
        })
    }

    /// Runs `work` in a transaction that writes.
    fn in_transaction<T>(
        &self,
        writer: &mut Writer,
        definition: Option<&CollectionDefinition>,
        work: impl FnOnce(&mut FileWriter<'_>) -> Result<T, Failure>,
    ) -> Result<T, CollectionError> {
        if writer.is_removed {
            return Err(CollectionError::Unknown);
        }
        self.clear_failed_commit(writer)?;
        let connection = match &mut writer.connection {
            Some(connection) => connection,
            none => none.insert(self.prepare_file()?),
        };
        let run = || -> Result<T, Failure> {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut file = FileWriter::new(&transaction, stored_accelerations(&transaction)?);
            if let Some(definition) = definition.filter(|definition| !self.is_up_to_date(definition)) {
                file.update_accelerations(&definition.accelerations)?;
            }
            let done = work(&mut file)?;
            transaction.commit().inspect_err(|_| self.is_in_doubt.store(true, Ordering::Release))?;
            Ok(done)
        };
        let done = run().map_err(|failure| failure.at(&self.path))?;
        if let Some(definition) = definition {
            *locked(&self.adopted) = Some(definition.accelerations.clone());
        }
        Ok(done)
    }

    /// Whether the last commit failed, so that its transaction may reappear after a crash.
    pub(crate) fn is_last_commit_in_doubt(&self) -> bool {
        self.is_in_doubt.load(Ordering::Acquire)
    }

    /// If a commit has failed, overwrites its transaction in SQLite's log.
    fn clear_failed_commit(&self, writer: &mut Writer) -> Result<(), CollectionError> {
        if !self.is_in_doubt.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(connection) = &mut writer.connection {
            let mut run = || -> Result<(), rusqlite::Error> {
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                // Setting the same value still writes a page.
                transaction.pragma_update(None, "user_version", VERSION)?;
                transaction.commit()
            };
            run().map_err(|error| CollectionError::at(&self.path, &error))?;
        }
        self.is_in_doubt.store(false, Ordering::Release);
        Ok(())
    }

    /// Removes the file; later writes through this value fail.
    pub(crate) fn remove_file(&self) -> Result<(), CollectionError> {
        let mut writer = locked(&self.writer);
        self.clear_shared()?;
        // Removes documents in the older format, which would otherwise be migrated into the next collection of this
        // name.
        if writer.connection.is_none() && self.former_path.is_file() {
            migration::remove_documents(&self.former_path, &self.name)
                .map_err(|failure| failure.at(&self.former_path))?;
        }
        *writer = Writer { connection: None, is_removed: true };
        locked(&self.idle).clear();
        let failed =
            |error: std::io::Error| CollectionError::Failed { path: self.path.clone(), reason: error.to_string() };
        for ending in ["", "-wal", "-shm"] {
            let mut path = self.path.clone().into_os_string();
            path.push(ending);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        sync_folder(self.path.parent().filter(|folder| folder.is_dir())).map_err(failed)
    }
}

/// Makes a folder's entries durable.
fn sync_folder(folder: Option<&Path>) -> std::io::Result<()> {
    folder.map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
}

/// The accelerations of a file.
fn stored_accelerations(connection: &Connection) -> Result<Vec<StoredAcceleration>, Failure> {
    let mut statement = connection.prepare_cached("SELECT id, name, fields, exact FROM accelerations ORDER BY name")?;
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get::<_, bool>(3)?))
    })?;
    let mut all = Vec::new();
    for row in rows {
        let (id, name, fields, is_exact) = row?;
        let names: Option<Vec<String>> = serde_json::from_str(&fields).ok();
        let fields = names.and_then(|names| names.iter().map(|name| FieldPath::new(name)).collect());
        let fields = fields.ok_or_else(|| Failure::Damage(format!("the acceleration {name} cannot be read")))?;
        all.push(StoredAcceleration { id, acceleration: Acceleration { name, fields }, is_exact });
    }
    Ok(all)
}

/// A file being written.
struct FileWriter<'t> {
    transaction: &'t Transaction<'t>,
    kept: Vec<StoredAcceleration>,
    /// Whether a document was written or removed.
    is_changed: bool,
    /// The documents written and removed, if other nodes need them.
    touched: Option<TouchedDocuments>,
}

impl<'t> FileWriter<'t> {
    fn new(transaction: &'t Transaction<'t>, kept: Vec<StoredAcceleration>) -> FileWriter<'t> {
        FileWriter { transaction, kept, is_changed: false, touched: None }
    }

    fn touch(&mut self, user: &str, key: &str, bytes: usize) {
        self.is_changed = true;
        if let Some(touched) = &mut self.touched {
            touched.add(user, key, bytes);
        }
    }

    /// Row id and JSON of the existing document with this key.
    fn existing(&self, user: &str, key: &str) -> Result<Option<(i64, String)>, Failure> {
        let text = "SELECT place, body FROM documents WHERE user = ?1 AND key = ?2";
        let mut statement = self.transaction.prepare_cached(text)?;
        Ok(statement.query_row(params![user, key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }

    /// Writes a document, replacing an existing document of the same key.
    fn put(&mut self, user: &str, key: &str, prepared: &PreparedDocument) -> Result<(), Failure> {
        check_key(key)?;
        self.touch(user, key, prepared.body.len());
        let row_id = match self.existing(user, key)? {
            Some((row_id, body)) => {
                self.remove_entries(row_id, user, key, &body)?;
                let text = "UPDATE documents SET body = ?2 WHERE place = ?1";
                self.transaction.prepare_cached(text)?.execute(params![row_id, prepared.body])?;
                row_id
            }
            None => {
                let text = "INSERT INTO documents (user, key, body) VALUES (?1, ?2, ?3)";
                self.transaction.prepare_cached(text)?.execute(params![user, key, prepared.body])?;
                self.transaction.last_insert_rowid()
            }
        };
        let described = IndexedDocument { user, key, members: &prepared.members };
        for at in 0..self.kept.len() {
            self.add_entries(at, row_id, described)?;
        }
        Ok(())
    }

    fn add_entries(&mut self, at: usize, row_id: i64, document: IndexedDocument<'_>) -> Result<(), Failure> {
        let Some(kept) = self.kept.get_mut(at) else { return Ok(()) };
        let entries = entries(&kept.acceleration, document)?;
        let text = "INSERT OR IGNORE INTO entries (acceleration, value, place) VALUES (?1, ?2, ?3)";
        let mut insert = self.transaction.prepare_cached(text)?;
        for value in &entries.values {
            insert.execute(params![kept.id, value, row_id])?;
        }
        if kept.is_exact && !entries.is_exact {
            kept.is_exact = false;
            self.transaction.execute("UPDATE accelerations SET exact = 0 WHERE id = ?1", params![kept.id])?;
        }
        Ok(())
    }

    fn remove_entries(&self, row_id: i64, user: &str, key: &str, body: &str) -> Result<(), Failure> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let found = StoredDocument { row_id, user, key, body };
        let document = IndexedDocument { user, key, members: &found.own_members()? };
        let text = "DELETE FROM entries WHERE acceleration = ?1 AND value = ?2 AND place = ?3";
        let mut remove = self.transaction.prepare_cached(text)?;
        for kept in &self.kept {
            for value in entries(&kept.acceleration, document)?.values {
                remove.execute(params![kept.id, value, row_id])?;
            }
        }
        Ok(())
    }

    fn remove_at(&mut self, row_id: i64, user: &str, key: &str, body: &str) -> Result<(), Failure> {
        self.touch(user, key, 0);
        self.remove_entries(row_id, user, key, body)?;
        self.transaction.prepare_cached("DELETE FROM documents WHERE place = ?1")?.execute(params![row_id])?;
        Ok(())
    }

    /// Removes a user's documents that match `query` and satisfy `is_removed`; returns their number.
    fn remove_matching(
        &mut self,
        user: &str,
        query: &Query,
        is_removed: &dyn Fn(&Object) -> bool,
    ) -> Result<usize, Failure> {
        let reading = DocumentView { connection: self.transaction, users: &[user], accelerations: &self.kept };
        let mut row_ids = Vec::new();
        reading.for_each_match(query, &mut |found: &StoredDocument<'_>, members| {
            let members = members.map_or_else(|| found.members(), Ok)?;
            if is_removed(&members) {
                row_ids.push(found.row_id);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let text = "SELECT key, body FROM documents WHERE place = ?1";
        for row_id in &row_ids {
            let (key, body): (String, String) = {
                let mut statement = self.transaction.prepare_cached(text)?;
                statement.query_row(params![row_id], |row| Ok((row.get(0)?, row.get(1)?)))?
            };
            self.remove_at(*row_id, user, &key, &body)?;
        }
        Ok(row_ids.len())
    }

    /// Creates and drops accelerations as wanted.
    fn update_accelerations(&mut self, wanted: &[Acceleration]) -> Result<(), Failure> {
        let gone: Vec<i64> =
            self.kept.iter().filter(|kept| !wanted.contains(&kept.acceleration)).map(|kept| kept.id).collect();
        for id in &gone {
            self.transaction.execute("DELETE FROM entries WHERE acceleration = ?1", params![id])?;
            self.transaction.execute("DELETE FROM accelerations WHERE id = ?1", params![id])?;
        }
        self.kept.retain(|kept| !gone.contains(&kept.id));
        for acceleration in wanted {
            if self.kept.iter().any(|kept| kept.acceleration == *acceleration) {
                continue;
            }
            let names: Vec<&str> = acceleration.fields.iter().map(FieldPath::name).collect();
            self.transaction.execute(
                "INSERT INTO accelerations (name, fields, exact) VALUES (?1, ?2, 1)",
                params![acceleration.name, Value::from(names).to_string()],
            )?;
            let id = self.transaction.last_insert_rowid();
            self.kept.push(StoredAcceleration { id, acceleration: acceleration.clone(), is_exact: true });
            self.fill_acceleration(self.kept.len() - 1)?;
        }
        Ok(())
    }

    /// Creates the entries of an acceleration for existing documents.
    fn fill_acceleration(&mut self, at: usize) -> Result<(), Failure> {
        let mut statement = self.transaction.prepare(ALL)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let found = StoredDocument::of(row)?;
            let members = found.own_members()?;
            self.add_entries(
                at,
                found.row_id,
                IndexedDocument { user: found.user, key: found.key, members: &members },
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
