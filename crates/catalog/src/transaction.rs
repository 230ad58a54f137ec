//! A transaction as the methods of [`crate::Catalog`] (buckets, settings, positions …) see it, whichever database runs
//! it.
//!
//! The SQL of these methods is the common subset of SQLite and PostgreSQL: all numbers are 64-bit integers, rows are
//! replaced by [`upsert`], and a word that one of the databases reserves is quoted. Only parameters are in SQLite's
//! notation, `?1`, `?2`, …; for PostgreSQL, every `?` is replaced by `$`, so a statement must not contain any other
//! `?`. A backend implements [`Transaction`]; [`CatalogTransaction`] adds typed rows and collects the changes of the
//! tables' digests ([`crate::checksum`]).
//!
//! Not here: how a transaction begins, ends and is repeated (`crate::sqlite`, `crate::postgresql`).

use std::cell::Cell as Shared;
use std::fmt;

use crate::CatalogError;
use crate::checksum::{TABLES, Table};

/// Statements of a running transaction, for the methods of the catalog.
pub(crate) trait Transaction {
    /// Runs a statement without result rows; returns the number of changed rows.
    fn execute(&self, sql: &str, values: &[Value<'_>]) -> StepResult<u64>;

    /// Runs a statement and passes each result row to `each`, which must not run another statement.
    fn query(&self, sql: &str, values: &[Value<'_>], each: &mut dyn FnMut(Row) -> StepResult<()>) -> StepResult<()>;
}

/// Reason why a transaction failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A row or a table does not match its checksum or its type.
    Damaged(String),
    /// SQLite failed.
    Sqlite(rusqlite::Error),
    /// PostgreSQL failed, or the connection to it.
    PostgreSql(tokio_postgres::Error),
    /// The session with PostgreSQL is unusable.
    Lost(String),
    /// Another session holds the lock of the schema.
    Locked,
    /// The destination of a copy already has a catalog.
    NotEmpty,
    /// An error that a retry cannot resolve.
    Permanent(CatalogError),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        Failure::PostgreSql(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sqlite(error)
    }
}

/// Result of a step of a transaction.
pub(crate) type StepResult<T> = Result<T, Failure>;

/// The value of a parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Number(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Number(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Value::Number(number.into())
    }
}

impl From<bool> for Value<'_> {
    fn from(yes: bool) -> Self {
        Value::Number(yes.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Value::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Value::Bytes(bytes)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// The parameters of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::transaction::Value::from($value)),*] };
}
pub(crate) use values;

/// One column of a result row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Cell {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Cell::Null => Value::Null,
            Cell::Number(number) => Value::Number(*number),
            Cell::Text(text) => Value::Text(text),
            Cell::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

/// A result row. Each column is taken out once, so that texts are not copied.
#[derive(Debug)]
pub(crate) struct Row(pub(crate) Vec<Cell>);

impl Row {
    /// Takes column `at`; a value of another type is damage.
    pub(crate) fn take<T: FromCell>(&mut self, at: usize) -> StepResult<T> {
        let cell = self.0.get_mut(at).map_or(Cell::Null, |cell| std::mem::replace(cell, Cell::Null));
        let found = T::from_cell(cell);
        found.ok_or_else(|| Failure::Damaged(format!("column {at} of a row has a value of another type")))
    }

    /// Takes column `at`, an unsigned number, which is stored as the signed number with the same bits.
    pub(crate) fn unsigned(&mut self, at: usize) -> StepResult<u64> {
        self.take::<i64>(at).map(i64::cast_unsigned)
    }
}

/// A type to which columns can be converted.
pub(crate) trait FromCell: Sized {
    fn from_cell(cell: Cell) -> Option<Self>;
}

impl FromCell for i64 {
    fn from_cell(cell: Cell) -> Option<i64> {
        if let Cell::Number(number) = cell { Some(number) } else { None }
    }
}

impl FromCell for u32 {
    fn from_cell(cell: Cell) -> Option<u32> {
        i64::from_cell(cell)?.try_into().ok()
    }
}

impl FromCell for bool {
    fn from_cell(cell: Cell) -> Option<bool> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl FromCell for String {
    fn from_cell(cell: Cell) -> Option<String> {
        if let Cell::Text(text) = cell { Some(text) } else { None }
    }
}

impl FromCell for Vec<u8> {
    fn from_cell(cell: Cell) -> Option<Vec<u8>> {
        if let Cell::Bytes(bytes) = cell { Some(bytes) } else { None }
    }
}

impl FromCell for [u8; 16] {
    fn from_cell(cell: Cell) -> Option<[u8; 16]> {
        Vec::from_cell(cell)?.try_into().ok()
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: Cell) -> Option<Option<T>> {
        if cell == Cell::Null { Some(None) } else { T::from_cell(cell).map(Some) }
    }
}

/// A running transaction, and the changes of digests that it has yet to write.
pub(crate) struct CatalogTransaction<'a> {
    transaction: &'a dyn Transaction,
    /// For each table, the XOR of the checksums of added and removed rows. It is applied to the digest once, at the end
    /// of the transaction, so that a commit of many rows changes each digest with one statement.
    changed: [Shared<i64>; TABLES.len()],
}

impl fmt::Debug for CatalogTransaction<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Act").field("changed", &self.changed).finish_non_exhaustive()
    }
}

impl<'a> CatalogTransaction<'a> {
    pub(crate) fn on(transaction: &'a dyn Transaction) -> CatalogTransaction<'a> {
        CatalogTransaction { transaction, changed: Default::default() }
    }

    /// Runs a statement without result rows; returns the number of changed rows.
    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> StepResult<u64> {
        self.transaction.execute(sql, values)
    }

    /// All result rows, converted by `read`, which must not run another statement.
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut read: impl FnMut(&mut Row) -> StepResult<T>,
    ) -> StepResult<Vec<T>> {
        let mut all = Vec::new();
        self.transaction.query(sql, values, &mut |mut row| {
            all.push(read(&mut row)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Passes each result row to `each`, which must not run another statement.
    pub(crate) fn for_each(
        &self,
        sql: &str,
        values: &[Value<'_>],
        each: &mut dyn FnMut(Row) -> StepResult<()>,
    ) -> StepResult<()> {
        self.transaction.query(sql, values, each)
    }

    /// The only result row, if there is one.
    pub(crate) fn row<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnMut(&mut Row) -> StepResult<T>,
    ) -> StepResult<Option<T>> {
        Ok(self.rows(sql, values, read)?.pop())
    }

    /// The number that a query returns; `None` without a row.
    pub(crate) fn number(&self, sql: &str, values: &[Value<'_>]) -> StepResult<Option<i64>> {
        self.row(sql, values, |row| row.take(0))
    }

    /// Whether a query returns a row.
    pub(crate) fn exists(&self, sql: &str, values: &[Value<'_>]) -> StepResult<bool> {
        Ok(self.row(sql, values, |_| Ok(()))?.is_some())
    }

    /// Records that a row's checksum changes from `old` to `new`; 0 stands for no row.
    pub(crate) fn note_change(&self, table: Table, old: i64, new: i64) {
        let changed = &self.changed[table as usize];
        changed.set(changed.get() ^ old ^ new);
    }

    /// Discards the collected changes of digests, because the digests are computed anew.
    pub(crate) fn forget_changes(&self) {
        self.changed.iter().for_each(|changed| changed.set(0));
    }

    /// Writes the changed digests; must be the last statements of every transaction that changes rows.
    pub(crate) fn write_digests(&self) -> StepResult<()> {
        for table in TABLES {
            let changed = self.changed[table as usize].replace(0);
            if changed == 0 {
                continue;
            }
            // SQLite has no XOR operator; this expression has the same result and cannot overflow.
            let update = "UPDATE digest SET sum = (sum | ?2) - (sum & ?2) WHERE name = ?1";
            if self.execute(update, values![table.name(), changed])? != 1 {
                return Err(Failure::Damaged(format!("table digest has no row {}", table.name())));
            }
        }
        Ok(())
    }
}

/// A statement that inserts a row; if a row has the same `key` columns, it is replaced.
pub(crate) fn upsert(table: &str, columns: &str, key: &str) -> String {
    let names: Vec<&str> = columns.split(", ").collect();
    let places: Vec<String> = (1..=names.len()).map(|number| format!("?{number}")).collect();
    let is_key = |name: &&&str| key.split(", ").any(|column| column == **name);
    let changes: Vec<String> =
        names.iter().filter(|name| !is_key(name)).map(|name| format!("{name} = excluded.{name}")).collect();
    format!(
        "INSERT INTO {table} ({columns}) VALUES ({}) ON CONFLICT ({key}) DO UPDATE SET {}",
        places.join(", "),
        changes.join(", ")
    )
}
