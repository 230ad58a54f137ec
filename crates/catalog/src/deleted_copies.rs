//! Copies that were deleted from volumes. A PUT request whose response was lost may take effect after the deletion and
//! restore an object of such a copy. If all objects of a copy are restored in this way, only the record of the deletion
//! shows that they are not a bucket of a newer catalog.
//!
//! The store decides how long a record is kept. Each record is a row of the table of settings.

use crate::checksum::{Table, delete_rows};
use crate::setting::{read_named, write_setting};
use crate::transaction::{CatalogTransaction, StepResult, values};
use crate::{Catalog, CatalogError};

/// Name prefix of the settings that record deleted copies; the values are the times of the deletions.
const PREFIX: &str = "deleted ";
/// Maximum number of records that are removed in one transaction.
const REMOVED_MAX: usize = 1_000;

/// Copies of a bucket whose objects were deleted.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeletedCopies<'a> {
    /// A name for each copy: volume, slash, and the common prefix of the keys of its objects.
    pub names: &'a [String],
    /// Time of the deletion, in nanoseconds since 1970.
    pub time_ns: i64,
}

impl Catalog {
    /// Whether the deletion of the copy of this name is on record.
    pub fn is_deleted_copy(&self, name: &str) -> Result<bool, CatalogError> {
        Ok(self.setting(&format!("{PREFIX}{name}"))?.is_some())
    }

    /// Removes the records of copies that were deleted from a volume, or with `None` from any volume, before
    /// `before_ns`, except copies for which `is_kept` returns `true`.
    pub fn forget_deleted_copies(
        &self,
        volume: Option<&str>,
        before_ns: i64,
        is_kept: &dyn Fn(&str) -> bool,
    ) -> Result<(), CatalogError> {
        // In the order of bytes, '0' follows '/', and '!' follows the space of the prefix.
        let (first, end) = match volume {
            Some(volume) => (format!("{PREFIX}{volume}/"), format!("{PREFIX}{volume}0")),
            None => (PREFIX.to_owned(), PREFIX.replace(' ', "!")),
        };
        let recorded = self.read(|act| read_named(act, &first, &end))?;
        let is_old = |time: &str| time.parse::<i64>().is_ok_and(|time_ns| time_ns < before_ns);
        let is_over = |(name, time): &(String, String)| is_old(time) && !name.strip_prefix(PREFIX).is_some_and(is_kept);
        let over: Vec<(String, String)> = recorded.into_iter().filter(is_over).collect();
        let delete = "DELETE FROM setting WHERE name = ?1 AND value = ?2 RETURNING checksum";
        over.chunks(REMOVED_MAX).try_for_each(|some| {
            self.write(|act| {
                some.iter().try_for_each(|(name, time)| delete_rows(act, Table::Setting, delete, values![name, time]))
            })
        })
    }
}

pub(crate) fn write_deleted_copies(act: &CatalogTransaction<'_>, deleted: &DeletedCopies<'_>) -> StepResult<()> {
    let time = deleted.time_ns.to_string();
    deleted.names.iter().try_for_each(|name| write_setting(act, &format!("{PREFIX}{name}"), &time))
}
