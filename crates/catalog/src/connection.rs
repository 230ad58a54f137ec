//! An open catalog, and the database behind it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::CatalogError;
use crate::checkpoint::KnownHeads;
use crate::transaction::{CatalogTransaction, StepResult, Transaction};

/// An open catalog.
#[derive(Debug)]
pub struct Catalog {
    pub(crate) database: Box<dyn Database>,
    pub(crate) heads: KnownHeads,
    /// Schema version of the database.
    pub(crate) version: usize,
    /// Whether a transaction that changes rows has failed.
    pub(crate) failed: AtomicBool,
}

/// The steps of one transaction.
pub(crate) type Steps<'a> = dyn FnMut(&dyn Transaction) -> StepResult<()> + 'a;

/// A database that runs transactions: completely or not at all, as if one after the other.
pub(crate) trait Database: fmt::Debug + Send + Sync {
    /// Runs a transaction that changes rows; when this returns, its changes are durable. `steps` may be run again, so
    /// it must not depend on an earlier run.
    fn write(&self, steps: &mut Steps<'_>) -> Result<(), CatalogError>;

    /// Runs a transaction that only reads, with the same view of all rows from its first statement to its last.
    fn read(&self, steps: &mut Steps<'_>) -> Result<(), CatalogError>;

    /// Verifies that the indexes of tables have all of their rows and no others, unless the database does that itself.
    fn check_indexes(&self) -> Result<(), CatalogError> {
        Ok(())
    }

    /// Database file, or server and schema, for messages.
    fn place(&self) -> &str;

    /// Closes the database. If it is a file, that single file is then complete.
    fn close(self: Box<Self>) -> Result<(), CatalogError>;

    /// Runs any statements, to simulate damage or another program.
    #[cfg(test)]
    fn run_script(&self, sql: &str);
}

impl Catalog {
    /// Runs one transaction, which is committed completely or not at all.
    pub(crate) fn write<T>(
        &self,
        mut act: impl FnMut(&CatalogTransaction<'_>) -> StepResult<T>,
    ) -> Result<T, CatalogError> {
        let mut value = None;
        let written = self.database.write(&mut |transaction| {
            let running = CatalogTransaction::on(transaction);
            value = Some(act(&running)?);
            running.write_digests()
        });
        self.failed.fetch_or(written.is_err(), Ordering::SeqCst);
        written?;
        value.ok_or_else(|| self.not_run_error())
    }

    /// Whether a transaction that changes rows has failed since the catalog was opened. It is then unknown whether that
    /// transaction was committed, so rows may differ from what the caller has in memory.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Runs one transaction that only reads.
    pub(crate) fn read<T>(
        &self,
        mut act: impl FnMut(&CatalogTransaction<'_>) -> StepResult<T>,
    ) -> Result<T, CatalogError> {
        let mut value = None;
        self.database.read(&mut |transaction| {
            value = Some(act(&CatalogTransaction::on(transaction))?);
            Ok(())
        })?;
        value.ok_or_else(|| self.not_run_error())
    }

    /// Error for a database that reports success without having run the steps.
    fn not_run_error(&self) -> CatalogError {
        self.bug_error("a transaction ended without having run")
    }

    /// Error for a case that an invariant makes impossible.
    pub(crate) fn bug_error(&self, what: &str) -> CatalogError {
        let reason = format!("{what}; this is a bug, please report it");
        CatalogError::Failed { place: self.database.place().to_owned(), reason }
    }
}
