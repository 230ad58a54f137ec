//! The catalog in SQLite: one file in the data directory.
//!
//! The database runs in WAL mode with `synchronous=FULL`. There is one connection: transactions are short and run one
//! after the other.

mod read_only_open;
pub(crate) mod schema;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params_from_iter};

use crate::checkpoint::KnownHeads;
use crate::connection::{Database, Steps};
use crate::digest::{BucketCheck, check_at_opening};
use crate::transaction::{CatalogTransaction, Cell, Failure, Row, StepResult, Transaction, Value};
use crate::{Catalog, CatalogError};

/// Timeout of a statement when another process holds the database.
const BUSY_WAIT: Duration = Duration::from_secs(10);
/// Maximum number of attempts to run a transaction that fails because another process holds the database. SQLite waits
/// `BUSY_WAIT` for most locks, but reports others at once.
const BUSY_ATTEMPTS_MAX: u32 = 3;
/// Pause between these attempts.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// Maximum cached prepared statements, more than a catalog uses.
const STATEMENTS_MAX: usize = 64;

impl Catalog {
    /// Opens the database at `path`, creating or migrating it if necessary.
    pub fn open(path: &Path) -> Result<Catalog, CatalogError> {
        let connection = Connection::open(path).map_err(|error| CatalogError::at(path, error))?;
        prepare(connection, path, BucketCheck::AtOpening)
    }

    /// Like [`Catalog::open`], but a catalog must exist: an empty file counts as damage, not as a new catalog.
    pub fn open_existing(path: &Path, buckets: BucketCheck) -> Result<Catalog, CatalogError> {
        // Rows are verified once, below.
        drop(open_complete(path)?);
        let connection = Connection::open(path).map_err(|error| CatalogError::at(path, error))?;
        prepare(connection, path, buckets)
    }

    /// Opens an existing database without writing to it, even in a read-only folder.
    pub fn open_read_only(path: &Path, buckets: BucketCheck) -> Result<Catalog, CatalogError> {
        let (opened, version) = open_complete(path)?;
        schema::create_compatibility_views(&opened, path, version)?;
        check_at_opening(&CatalogTransaction::on(&opened), version, buckets)
            .map_err(|failure| CatalogError::at(path, failure))?;
        Ok(catalog(opened, path, KnownHeads::for_reader(), version))
    }

    /// A catalog in memory, for tests and temporary stores.
    pub fn open_in_memory() -> Result<Catalog, CatalogError> {
        let path = Path::new(":memory:");
        let connection = Connection::open_in_memory().map_err(|error| CatalogError::at(path, error))?;
        prepare(connection, path, BucketCheck::AtOpening)
    }
}

/// Opens for reading a database that has all tables of its version.
fn open_complete(path: &Path) -> Result<(Connection, usize), CatalogError> {
    let opened = read_only_open::open(path)?;
    opened.busy_timeout(BUSY_WAIT).map_err(|error| CatalogError::at(path, error))?;
    let version = schema::check_complete(&opened, path)?;
    Ok((opened, version))
}

fn prepare(mut connection: Connection, path: &Path, buckets: BucketCheck) -> Result<Catalog, CatalogError> {
    schema::prepare(&mut connection, path, BUSY_WAIT, buckets)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(catalog(connection, path, KnownHeads::for_writer(), schema::VERSION))
}

fn catalog(connection: Connection, path: &Path, heads: KnownHeads, version: usize) -> Catalog {
    let place = path.display().to_string();
    let file = CatalogFile { connection: Mutex::new(connection), path: path.to_owned(), place };
    Catalog { database: Box::new(file), heads, version, failed: AtomicBool::new(false) }
}

/// An open database file.
#[derive(Debug)]
struct CatalogFile {
    connection: Mutex<Connection>,
    path: PathBuf,
    place: String,
}

impl CatalogFile {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CatalogFile {
    fn run(&self, behavior: TransactionBehavior, steps: &mut Steps<'_>) -> Result<(), CatalogError> {
        let mut connection = self.connection();
        let mut run = || -> StepResult<()> {
            let transaction = connection.transaction_with_behavior(behavior)?;
            steps(&*transaction)?;
            Ok(transaction.commit()?)
        };
        let mut done = run();
        for _ in 1..BUSY_ATTEMPTS_MAX {
            if !done.as_ref().is_err_and(is_busy) {
                break;
            }
            std::thread::park_timeout(BUSY_PAUSE);
            done = run();
        }
        done.map_err(|failure| CatalogError::at(&self.path, failure))
    }
}

/// Whether a transaction failed, and was rolled back, because another process holds the database.
fn is_busy(failure: &Failure) -> bool {
    let code = match failure {
        Failure::Sqlite(error) => error.sqlite_error_code(),
        _ => None,
    };
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

impl Database for CatalogFile {
    /// Takes the lock for writing before the first statement. A transaction that begins with reading and then writes
    /// fails at once, without waiting, if another process has written in between.
    fn write(&self, steps: &mut Steps<'_>) -> Result<(), CatalogError> {
        self.run(TransactionBehavior::Immediate, steps)
    }

    fn read(&self, steps: &mut Steps<'_>) -> Result<(), CatalogError> {
        self.run(TransactionBehavior::Deferred, steps)
    }

    fn check_indexes(&self) -> Result<(), CatalogError> {
        schema::check_indexes(&self.connection(), &self.path)
    }

    fn place(&self) -> &str {
        &self.place
    }

    fn close(self: Box<Self>) -> Result<(), CatalogError> {
        let CatalogFile { connection, path, .. } = *self;
        let connection = connection.into_inner().unwrap_or_else(PoisonError::into_inner);
        let closed = connection.pragma_update(None, "journal_mode", "DELETE");
        closed
            .and_then(|()| connection.close().map_err(|(_, error)| error))
            .map_err(|error| CatalogError::at(&path, error))
    }

    #[cfg(test)]
    fn run_script(&self, sql: &str) {
        self.connection().execute_batch(sql).unwrap();
    }
}

impl Transaction for Connection {
    fn execute(&self, sql: &str, values: &[Value<'_>]) -> StepResult<u64> {
        Ok(self.prepare_cached(sql)?.execute(params_from_iter(values))? as u64)
    }

    fn query(&self, sql: &str, values: &[Value<'_>], each: &mut dyn FnMut(Row) -> StepResult<()>) -> StepResult<()> {
        let mut statement = self.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            let cells = (0..columns).map(|at| cell(row.get_ref(at)?)).collect::<StepResult<_>>()?;
            each(Row(cells))?;
        }
        Ok(())
    }
}

fn cell(value: ValueRef<'_>) -> StepResult<Cell> {
    let damaged = |what: &str| Failure::Damaged(format!("a row has {what}"));
    Ok(match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Number(number),
        ValueRef::Text(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|_| damaged("a text that is not UTF-8"))?;
            Cell::Text(text.to_owned())
        }
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
        ValueRef::Real(_) => return Err(damaged("a fraction, but no column has fractions")),
    })
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Number(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
