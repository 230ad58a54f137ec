//! The catalog in PostgreSQL (13 or newer): a schema of its own in a database that many stores may share.
//!
//! One process writes at a time. It holds an advisory lock in its session. Every writing transaction first stores its
//! number in the row of `writer`, which must name this process's run. Therefore:
//! - A second process on the same schema is refused, and a process that was replaced as the writer cannot write any
//!   more.
//! - After reconnecting, that row shows whether a transaction whose `COMMIT` had no answer was committed. The lock is
//!   taken before the row is read, so that no transaction of the lost session is still running.
//!
//! When the connection is lost, a transaction is retried after growing pauses, unless it turns out to be committed. It
//! fails as unavailable once the configured wait is over.
//!
//! Two sessions are enough: one writes, one reads, and transactions are short.
//!
//! Not here: the methods of the catalog and their SQL, which are the same for SQLite.

mod locked_sessions;
mod nul;
mod schema;
mod session;
mod settings;
mod shared_documents;
mod shared_files;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quarry_stdx::{SharedClock, random};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::error::SqlState;
use xxhash_rust::xxh3::xxh3_64;

use self::schema::SchemaContents;
use self::session::Session;
pub use self::settings::{PostgreSqlLocation, PostgreSqlSettings};
pub use self::shared_documents::{
    DocumentParts, DocumentPutResult, SharedCollectionState, SharedDocument, SharedDocumentTable,
};
pub use self::shared_files::{SharedFile, SharedFileChange, SharedFileRow, SharedFileTable, SharedPutResult};
use crate::checkpoint::KnownHeads;
use crate::connection::{Database, Steps};
use crate::digest::BucketCheck;
use crate::transaction::{CatalogTransaction, Failure, StepResult, Transaction, values};
use crate::{Catalog, CatalogError};

/// Maximum wait for a server or a lock when a catalog is opened; a shorter configured wait takes precedence.
const OPEN_WAIT_MAX: Duration = Duration::from_secs(15);
/// First and longest pause between attempts; the actual pause is a random share of it, at least half.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The session's settings. The server aborts a transaction whose client is silent, because otherwise its locks would
/// block others. Parallel workers are off, because starting them takes longer than any of these queries. Commits are
/// durable even if the server's default is asynchronous; a stronger default is kept.
const SESSION_SETTINGS: &str = "SET idle_in_transaction_session_timeout = '5min'; SET lock_timeout = '60s'; \
    SET max_parallel_workers_per_gather = 0; \
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

impl Catalog {
    /// Opens the catalog at `place` for writing, creating it if there is none.
    pub fn open_postgresql(place: &PostgreSqlLocation, clock: &SharedClock) -> Result<Catalog, CatalogError> {
        open(place, clock, Opening::Create, BucketCheck::AtOpening)
    }

    /// Like [`Catalog::open_postgresql`], but fails if there is no catalog.
    pub fn open_existing_postgresql(
        place: &PostgreSqlLocation,
        clock: &SharedClock,
        buckets: BucketCheck,
    ) -> Result<Catalog, CatalogError> {
        open(place, clock, Opening::Existing, buckets)
    }

    /// Opens an existing catalog at `place` for reading.
    pub fn open_read_only_postgresql(
        place: &PostgreSqlLocation,
        clock: &SharedClock,
        buckets: BucketCheck,
    ) -> Result<Catalog, CatalogError> {
        open(place, clock, Opening::ReadOnly, buckets)
    }
}

/// Mode of opening a catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    Create,
    Existing,
    ReadOnly,
}

fn open(
    place: &PostgreSqlLocation,
    clock: &SharedClock,
    opening: Opening,
    buckets: BucketCheck,
) -> Result<Catalog, CatalogError> {
    let mut database = PostgreSql::new(place, clock)?;
    let mut patience = database.retry_wait(OPEN_WAIT_MAX.min(place.wait));
    let session = loop {
        match database.begin(opening, buckets) {
            Ok(session) => break session,
            Err(failure) => patience.wait_or_fail(&database, failure)?,
        }
    };
    let heads = if opening == Opening::ReadOnly {
        database.reader = Mutex::new(Some(session));
        KnownHeads::for_reader()
    } else {
        let writer = Writer { session: Some(session), last: 0, is_open: false, confirmed: 0 };
        database.writer = Some(Mutex::new(writer));
        KnownHeads::for_writer()
    };
    let failed = AtomicBool::new(false);
    Ok(Catalog { database: Box::new(database), heads, version: schema::VERSION, failed })
}

/// An open database.
#[derive(Debug)]
struct PostgreSql {
    place: PostgreSqlLocation,
    clock: SharedClock,
    /// Drives the connections; `None` only while it is dropped.
    runtime: Option<Runtime>,
    /// Random number that identifies this opened catalog.
    run: i64,
    /// `None` in a catalog opened for reading.
    writer: Option<Mutex<Writer>>,
    reader: Mutex<Option<Session>>,
}

/// The session that writes.
#[derive(Debug)]
struct Writer {
    session: Option<Session>,
    /// Number of the last transaction.
    last: i64,
    /// Whether the outcome of that transaction's commit is unknown.
    is_open: bool,
    /// Number of the last transaction that the server has confirmed.
    confirmed: i64,
}

impl PostgreSql {
    /// A database that is not connected yet.
    fn new(place: &PostgreSqlLocation, clock: &SharedClock) -> Result<PostgreSql, CatalogError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("quarry-catalog").enable_all().build();
        let runtime = runtime.map_err(|error| CatalogError::Failed {
            place: place.shown.clone(),
            reason: format!("cannot start its thread: {error}"),
        })?;
        let mut run = [0; 8];
        random::fill(&mut run);
        Ok(PostgreSql {
            place: place.clone(),
            clock: clock.clone(),
            runtime: Some(runtime),
            run: i64::from_le_bytes(run),
            writer: None,
            reader: Mutex::new(None),
        })
    }

    /// Opens a session whose search path starts with the catalog's schema.
    fn connect(&self) -> StepResult<Session> {
        let runtime = self.runtime.as_ref().ok_or_else(|| Failure::Lost("the catalog is closed".to_owned()))?;
        let mut config = self.place.config.clone();
        config.application_name(self.session_name());
        let session = Session::connect(runtime.handle(), &config, self.place.tls.clone())?;
        session.run_script(&format!("{SESSION_SETTINGS}; SET search_path = {}", self.place.schema))?;
        Ok(session)
    }

    /// The name of this catalog's sessions in `pg_stat_activity`.
    fn session_name(&self) -> String {
        format!("quarry {:016x}", self.run)
    }

    /// Connects, and creates, migrates or verifies the catalog as `opening` requires.
    fn begin(&self, opening: Opening, buckets: BucketCheck) -> StepResult<Session> {
        let session = self.connect()?;
        if opening != Opening::ReadOnly {
            self.lock_schema(&session)?;
        }
        match (schema::inspect_schema(&session, &self.place.schema, &self.place.shown)?, opening) {
            (SchemaContents::Version(version), _) => {
                schema::check(&session, version, buckets)?;
                if version < schema::VERSION && opening != Opening::ReadOnly {
                    in_transaction(&session, "BEGIN", || schema::migrate(&session, version))?;
                }
            }
            (SchemaContents::Nothing, Opening::Create) => {
                in_transaction(&session, "BEGIN", || schema::create(&session, &self.place.schema))?;
            }
            (SchemaContents::Nothing, _) => {
                return Err(Failure::Damaged(format!("there is no schema {}", self.place.schema)));
            }
        }
        if opening != Opening::ReadOnly {
            session.execute("UPDATE writer SET run = ?1, transaction = 0", values![self.run])?;
        }
        Ok(session)
    }

    /// Takes the lock of the schema for as long as the session lasts.
    fn lock_schema(&self, session: &Session) -> StepResult<()> {
        let key = lock_key(&self.place.schema);
        if CatalogTransaction::on(session).number("SELECT pg_try_advisory_lock(?1)", values![key])? == Some(1) {
            return Ok(());
        }
        self.end_stale_sessions(session)?;
        Err(Failure::Locked)
    }

    /// Ends earlier sessions of this process that may hold the lock because the server has not noticed their loss.
    fn end_stale_sessions(&self, session: &Session) -> StepResult<()> {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = ?1 AND usename = current_user AND pid <> pg_backend_pid()
              AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')";
        CatalogTransaction::on(session).rows(end, values![&*self.session_name()], |_| Ok(())).map(drop)
    }

    /// Reconnects as the writer; fails if another process has become the writer or the server has lost commits.
    fn reconnect(&self, confirmed: i64) -> StepResult<Session> {
        let session = self.connect()?;
        self.lock_schema(&session)?;
        let select = "SELECT transaction FROM writer WHERE run = ?1";
        match CatalogTransaction::on(&session).number(select, values![self.run])? {
            None => Err(self.replaced_error()),
            Some(found) if found < confirmed => {
                let reason = format!(
                    "the server has lost transactions that it had confirmed, from number {} to {confirmed}: it may \
                     be a standby that had not received them; return to the previous server, or restore it from a copy",
                    found + 1
                );
                Err(Failure::Damaged(reason))
            }
            Some(_) => Ok(session),
        }
    }

    fn replaced_error(&self) -> Failure {
        let reason = "another process has become its writer; restart this process".to_owned();
        Failure::Permanent(CatalogError::Failed { place: self.place.shown.clone(), reason })
    }

    /// One attempt to run a transaction that writes. The session is put back only between two transactions: if a
    /// failure or a panic left one open, the statements of the next transaction would become a part of it.
    fn try_write(&self, writer: &mut Writer, steps: &mut Steps<'_>) -> StepResult<()> {
        let session = match writer.session.take().filter(|session| !session.is_lost()) {
            Some(session) => session,
            None => self.reconnect(writer.confirmed)?,
        };
        if writer.is_open {
            let committed = CatalogTransaction::on(&session).number("SELECT transaction FROM writer", values![])?;
            writer.is_open = false;
            if committed == Some(writer.last) {
                (writer.confirmed, writer.session) = (writer.last, Some(session));
                return Ok(());
            }
        }
        let begun = session.run_script("BEGIN ISOLATION LEVEL READ COMMITTED").and_then(|()| {
            let fence = "UPDATE writer SET transaction = ?1 WHERE run = ?2";
            match session.execute(fence, values![writer.last, self.run])? {
                1 => steps(&session),
                _ => Err(self.replaced_error()),
            }
        });
        if let Err(failure) = begun {
            let is_usable = remedy(&failure) != Remedy::Reconnect;
            writer.session = Some(session).filter(|session| is_usable && session.run_script("ROLLBACK").is_ok());
            return Err(failure);
        }
        writer.is_open = true;
        let committed = session.run_script("COMMIT");
        // Any answer of the server, even an error, settles whether the commit took effect, and ends the transaction.
        if !matches!(&committed, Err(failure) if remedy(failure) == Remedy::Reconnect) {
            (writer.is_open, writer.session) = (false, Some(session));
        }
        if committed.is_ok() {
            writer.confirmed = writer.last;
        }
        committed
    }

    /// One attempt to run a transaction that reads. As in [`PostgreSql::try_write`], the session is put back only after
    /// the transaction has ended: the next transaction would otherwise see the rows of this one.
    fn try_read(&self, reader: &mut Option<Session>, steps: &mut Steps<'_>) -> StepResult<()> {
        let session = match reader.take().filter(|session| !session.is_lost()) {
            Some(session) => session,
            None => self.connect()?,
        };
        session.run_script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        let done = steps(&session);
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        // The rows that were read are valid however the transaction ends, so the steps are not repeated: they may
        // already have had an effect elsewhere, such as copying the catalog.
        let is_usable = !matches!(&done, Err(failure) if remedy(failure) == Remedy::Reconnect);
        *reader = Some(session).filter(|session| is_usable && session.run_script(end).is_ok());
        done
    }

    fn retry_wait(&self, longest: Duration) -> RetryWait {
        RetryWait { since: self.clock.elapsed_ns(), longest, pause: PAUSE_MIN }
    }

    /// Error for the caller after a failure.
    fn error(&self, failure: Failure, waited: Duration) -> CatalogError {
        let place = self.place.shown.clone();
        let unreachable = |reason: String| {
            let waited = waited.as_secs();
            CatalogError::Unreachable { place: self.place.shown.clone(), waited, reason }
        };
        let error = match failure {
            Failure::Permanent(error) => return error,
            Failure::Damaged(reason) => return CatalogError::Corrupt { place, reason },
            Failure::Locked => return CatalogError::Busy { place },
            Failure::NotEmpty => return CatalogError::NotEmpty { place },
            Failure::Lost(reason) => return unreachable(reason),
            Failure::Sqlite(error) => return CatalogError::Failed { place, reason: error.to_string() },
            Failure::PostgreSql(error) => error,
        };
        let reason = reason_of(&error);
        match error.code() {
            Some(code) if *code == SqlState::DISK_FULL => CatalogError::Full { place },
            Some(code) if matches!(code.code(), "XX001" | "XX002") => CatalogError::Corrupt { place, reason },
            Some(code) if code.code().starts_with("28") => CatalogError::Failed {
                place,
                reason: format!("{reason}; check the user of url, its password, and pg_hba.conf of the server"),
            },
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => CatalogError::Failed {
                place,
                reason: format!("{reason}; grant the role CREATE on the database, or make it the owner of the schema"),
            },
            _ if remedy_of(&error) == Remedy::Reconnect => unreachable(reason),
            _ => CatalogError::Failed { place, reason },
        }
    }
}

/// Runs `steps` between `begin` and a commit.
fn in_transaction(session: &Session, begin: &str, steps: impl FnOnce() -> StepResult<()>) -> StepResult<()> {
    let done = session.run_script(begin).and_then(|()| steps());
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = session.run_script(end);
    done.and(ended)
}

impl Database for PostgreSql {
    fn write(&self, steps: &mut Steps<'_>) -> Result<(), CatalogError> {
        let Some(writer) = &self.writer else {
            let reason = "it is open for reading only".to_owned();
            return Err(CatalogError::Failed { place: self.place.shown.clone(), reason });
        };
        let mut writer = lock(writer);
        // The outcome of the last transaction no longer matters: if it was unknown, its caller received an error.
        writer.is_open = false;
        writer.last += 1;
        let mut patience = self.retry_wait(self.place.wait);
        loop {
            match self.try_write(&mut writer, steps) {
                Ok(()) => return Ok(()),
                Err(failure) => patience.wait_or_fail(self, failure)?,
            }
        }
    }

    fn read(&self, steps: &mut Steps<'_>) -> Result<(), CatalogError> {
        let mut reader = lock(&self.reader);
        let mut patience = self.retry_wait(self.place.wait);
        loop {
            match self.try_read(&mut reader, steps) {
                Ok(()) => return Ok(()),
                Err(failure) => patience.wait_or_fail(self, failure)?,
            }
        }
    }

    fn place(&self) -> &str {
        &self.place.shown
    }

    fn close(self: Box<Self>) -> Result<(), CatalogError> {
        Ok(())
    }

    #[cfg(test)]
    fn run_script(&self, sql: &str) {
        self.connect().unwrap().run_script(sql).unwrap();
    }
}

impl Drop for PostgreSql {
    fn drop(&mut self) {
        // Releases the lock and waits for the answer, so that the next process can open the catalog at once.
        let writer =
            self.writer.take().and_then(|writer| writer.into_inner().unwrap_or_else(PoisonError::into_inner).session);
        if let Some(session) = writer.filter(|session| !session.is_lost()) {
            drop(session.unlock());
        }
        self.reader = Mutex::default();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The key of a schema's advisory lock, unique in the database.
fn lock_key(schema: &str) -> i64 {
    xxh3_64(format!("quarry catalog {schema}").as_bytes()).cast_signed()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Growing waits between attempts, up to a total limit.
struct RetryWait {
    since: i64,
    longest: Duration,
    pause: Duration,
}

impl RetryWait {
    /// Waits before the next attempt; an error if another attempt is useless or the time is up.
    fn wait_or_fail(&mut self, database: &PostgreSql, failure: Failure) -> Result<(), CatalogError> {
        let waited =
            Duration::from_nanos(database.clock.elapsed_ns().saturating_sub(self.since).max(0).cast_unsigned());
        if remedy(&failure) == Remedy::None || waited >= self.longest {
            return Err(database.error(failure, waited));
        }
        let mut chance = [0; 4];
        random::fill(&mut chance);
        // Random, so that nodes that lost the same server do not all reconnect at once.
        let share = 0.5 + f64::from(u32::from_le_bytes(chance)) / f64::from(u32::MAX) / 2.0;
        std::thread::park_timeout(self.pause.mul_f64(share));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}

/// Remedy that may help after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// The program cannot recover.
    None,
    /// Repeat the transaction.
    Repeat,
    /// Open a new session and repeat the transaction.
    Reconnect,
}

fn remedy(failure: &Failure) -> Remedy {
    match failure {
        Failure::Permanent(_) | Failure::NotEmpty | Failure::Damaged(_) | Failure::Sqlite(_) => Remedy::None,
        Failure::Lost(_) | Failure::Locked => Remedy::Reconnect,
        Failure::PostgreSql(error) => remedy_of(error),
    }
}

fn remedy_of(error: &tokio_postgres::Error) -> Remedy {
    // An error without a code is not an answer of the server: the connection failed.
    let Some(code) = error.code().map(SqlState::code) else { return Remedy::Reconnect };
    match code {
        // A serialisation conflict, a deadlock, a lock timeout.
        "40001" | "40P01" | "55P03" => Remedy::Repeat,
        // The server stops, starts, has no free session or memory, has become a standby, has cancelled the statement,
        // or ended the session.
        "53300" | "53200" | "25006" | "25P03" | "57014" => Remedy::Reconnect,
        code if code.starts_with("08") || code.starts_with("57P") => Remedy::Reconnect,
        _ => Remedy::None,
    }
}

/// The server's message, or the cause of a failed connection.
fn reason_of(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(told) => format!("{} ({})", told.message(), told.code().code()),
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}
