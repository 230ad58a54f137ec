//! Database sessions for tables that only one node of a cluster changes at a time.
//!
//! A node that changes rows holds an advisory lock from before it reads them until it has written them. If the lock is
//! lost with its connection, the next session takes it again before it repeats a step; from the numbers of the changes
//! in the tables, the caller sees what other nodes have written in between.
//!
//! Not here: the tables ([`super::shared_files`], [`super::shared_documents`]).

use std::sync::Mutex;
use std::time::Duration;

use quarry_stdx::SharedClock;

use super::{PostgreSql, PostgreSqlLocation, Remedy, RetryWait, Session, lock, lock_key, remedy};
use crate::CatalogError;
use crate::transaction::{CatalogTransaction, Failure, StepResult, Transaction, values};

/// Maximum wait of one statement for the lock; a shorter configured wait takes precedence.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(60);
/// Keepalive settings with which the server detects a vanished client and frees its lock after about 15 s.
const KEEPALIVE_SETTINGS: &str =
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 2";

/// One session that writes and one that reads.
#[derive(Debug)]
pub(super) struct LockedSessions {
    pub(super) database: PostgreSql,
    /// Key of the advisory lock.
    key: i64,
    writer: Mutex<WriterSession>,
}

/// The session that writes.
#[derive(Debug, Default)]
struct WriterSession {
    session: Option<Session>,
    /// Whether the caller holds the lock, which a new session must then take first.
    is_held: bool,
}

impl LockedSessions {
    /// Sessions with the database at `place`; `lock_name` names the lock.
    pub(super) fn new(
        place: &PostgreSqlLocation,
        clock: &SharedClock,
        lock_name: &str,
    ) -> Result<LockedSessions, CatalogError> {
        let database = PostgreSql::new(place, clock)?;
        Ok(LockedSessions { database, key: lock_key(lock_name), writer: Mutex::default() })
    }

    /// Takes the lock until [`LockedSessions::unlock`]. Waits for at most the configured time, counted from `since` on
    /// the monotonic clock.
    pub(super) fn lock(&self, since: i64) -> Result<(), CatalogError> {
        lock(&self.writer).is_held = true;
        let taken = self.write(since, |session| {
            // An open session may still hold the lock, and PostgreSQL counts repeated locks, so the session releases it
            // first.
            session.unlock()?;
            self.take_lock(session)
        });
        if taken.is_err() {
            self.unlock();
        }
        taken
    }

    /// Releases the lock.
    pub(super) fn unlock(&self) {
        let mut writer = lock(&self.writer);
        writer.is_held = false;
        // A session that does not answer is dropped, which releases the lock.
        if writer.session.as_ref().is_some_and(|session| session.unlock().is_err()) {
            writer.session = None;
        }
    }

    fn connect(&self) -> StepResult<Session> {
        let session = self.database.connect()?;
        let longest = LOCK_WAIT_MAX.min(self.database.place.wait).as_millis().max(1);
        session.run_script(&format!("{KEEPALIVE_SETTINGS}; SET lock_timeout = '{longest}ms'"))?;
        Ok(session)
    }

    fn take_lock(&self, session: &Session) -> StepResult<()> {
        let (act, key) = (CatalogTransaction::on(session), self.key);
        if act.number("SELECT pg_try_advisory_lock(?1)", values![key])? == Some(1) {
            return Ok(());
        }
        self.database.end_stale_sessions(session)?;
        session.execute("SELECT pg_advisory_lock(?1)", values![key]).map(drop).map_err(|failure| match failure {
            Failure::PostgreSql(error) if error.code().is_some_and(|code| code.code() == "55P03") => Failure::Locked,
            other => other,
        })
    }

    /// Runs `work` in the session that writes; retries it after a lost connection or another transient failure.
    pub(super) fn write<T>(
        &self,
        since: i64,
        mut work: impl FnMut(&Session) -> StepResult<T>,
    ) -> Result<T, CatalogError> {
        let mut writer = lock(&self.writer);
        let mut patience = RetryWait { since, ..self.database.retry_wait(self.database.place.wait) };
        loop {
            let done = self.in_session(&mut writer, &mut work);
            match done {
                Ok(value) => return Ok(value),
                Err(failure) => patience.wait_or_fail(&self.database, failure)?,
            }
        }
    }

    /// Runs `work` in the session, which is put back unless its state is unknown, as after a panic.
    fn in_session<T>(
        &self,
        writer: &mut WriterSession,
        work: &mut impl FnMut(&Session) -> StepResult<T>,
    ) -> StepResult<T> {
        let session = match writer.session.take().filter(|session| !session.is_lost()) {
            Some(session) => session,
            None => {
                let session = self.connect()?;
                if writer.is_held {
                    // With the lock taken, no transaction of a lost session is still running.
                    self.take_lock(&session)?;
                }
                session
            }
        };
        let done = work(&session);
        if !matches!(&done, Err(failure) if remedy(failure) == Remedy::Reconnect) {
            writer.session = Some(session);
        }
        done
    }

    /// Runs `work` in a transaction that only reads.
    pub(super) fn read<T>(
        &self,
        since: Option<i64>,
        mut work: impl FnMut(&dyn Transaction) -> StepResult<T>,
    ) -> Result<T, CatalogError> {
        let mut reader = lock(&self.database.reader);
        let mut patience = match since {
            Some(since) => RetryWait { since, ..self.database.retry_wait(self.database.place.wait) },
            None => self.database.retry_wait(Duration::ZERO),
        };
        loop {
            let mut value = None;
            let done = self.database.try_read(&mut reader, &mut |transaction| {
                value = Some(work(transaction)?);
                Ok(())
            });
            match (done, value) {
                (Ok(()), Some(value)) => return Ok(value),
                (Ok(()), None) => {
                    return Err(self.database.error(Failure::Damaged("nothing was read".to_owned()), Duration::ZERO));
                }
                (Err(failure), _) => patience.wait_or_fail(&self.database, failure)?,
            }
        }
    }
}

/// Runs `work` in a transaction and commits it. Returns the number that `work` returned, or `None` if `work` found a
/// conflict, which rolls the transaction back.
///
/// If the commit has no answer, `open` is the number of the change that may have been committed; the next attempt must
/// look for it first.
pub(super) fn commit_change(
    session: &Session,
    open: &mut Option<i64>,
    work: impl FnOnce() -> StepResult<Option<i64>>,
) -> StepResult<Option<i64>> {
    session.run_script("BEGIN ISOLATION LEVEL READ COMMITTED")?;
    let last = match work() {
        Ok(Some(last)) => last,
        conflict_or_failure => {
            session.run_script("ROLLBACK")?;
            return conflict_or_failure;
        }
    };
    *open = Some(last);
    let committed = session.run_script("COMMIT");
    // An answer of the server, even an error, shows whether the commit was executed.
    if !matches!(&committed, Err(failure) if remedy(failure) == Remedy::Reconnect) {
        *open = None;
    }
    committed.map(|()| Some(last))
}
