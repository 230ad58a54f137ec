//! A collection whose documents other nodes share: the file here is a replica of the cluster's database.
//!
//! The table `shared` has the database's id and the number up to which changes of all nodes were applied to this file.
//! A write excludes other nodes, applies their changes, runs here without a commit, writes the changed documents to the
//! database, and is then committed here with the number of the change. The write takes effect with the commit of the
//! database: if the process dies before the commit here, or that commit fails, the file later applies its own change
//! from the database.
//!
//! A file that does not come from this database joins it: documents that only the file has are given to the other
//! nodes. Of documents in both, the database's version wins; if versions differ, a copy of the file is kept.
//!
//! Not here: when changes are applied ([`crate::Collections::apply_shared_changes`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_stdx::{ErrorKind, Fault, log};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Collection, FileWriter, Writer, locked};
use crate::definition::CollectionDefinition;
use crate::document::{Object, PreparedDocument};
use crate::error::Failure;
use crate::sharing::{DocumentChange, SharedState};
use crate::{CollectionError, SharedDocuments};

/// Maximum numbers of documents and of bytes in a part that is sent to the database at once; a larger document is a
/// part of its own.
const PART_DOCUMENTS_MAX: usize = 1_000;
const PART_BYTES_MAX: usize = 4 << 20;
/// Extension of the copy that is kept of a file if its documents differ from the database's when the file joins it.
const REPLACED: &str = "replaced";

/// The documents that a transaction has written or removed, and the size of their bodies.
#[derive(Debug, Default)]
pub(super) struct TouchedDocuments(BTreeMap<(String, String), Touched>);

#[derive(Clone, Copy, Debug)]
struct Touched {
    /// Position in the order of first changes; new documents are written in this order.
    at: usize,
    bytes: usize,
}

impl TouchedDocuments {
    pub(super) fn add(&mut self, user: &str, key: &str, bytes: usize) {
        let at = self.0.len();
        let touched = self.0.entry((user.to_owned(), key.to_owned())).or_insert(Touched { at, bytes });
        touched.bytes = bytes;
    }

    fn remove(&mut self, user: &str, key: &str) {
        self.0.remove(&(user.to_owned(), key.to_owned()));
    }

    /// Splits users and keys into parts.
    pub(super) fn parts(self) -> Vec<Vec<(String, String)>> {
        let mut ordered: Vec<((String, String), Touched)> = self.0.into_iter().collect();
        ordered.sort_unstable_by_key(|(_, touched)| touched.at);
        let (mut parts, mut bytes): (Vec<Vec<(String, String)>>, usize) = (Vec::new(), 0);
        for (document, touched) in ordered {
            bytes += touched.bytes;
            match parts.last_mut().filter(|part| part.len() < PART_DOCUMENTS_MAX && bytes <= PART_BYTES_MAX) {
                Some(part) => part.push(document),
                None => {
                    bytes = touched.bytes;
                    parts.push(vec![document]);
                }
            }
        }
        parts
    }
}

/// Relation of a file to the database.
enum Standing {
    /// The file has applied the changes up to this number.
    Known(i64),
    /// The documents of the file do not come from this database.
    Foreign,
}

impl Collection {
    fn identity(&self) -> (&str, &str) {
        (&self.app, &self.name)
    }

    /// Applies the changes of other nodes; does nothing if documents are not shared.
    pub(crate) fn apply_shared_changes(&self) -> Result<(), CollectionError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut writer = locked(&self.writer);
        if writer.is_removed {
            return Ok(());
        }
        match self.standing(&mut writer, shared.id())? {
            Standing::Known(_) => self.pull(&mut writer, shared.as_ref()),
            Standing::Foreign => shared.exclusively(&mut || self.pull(&mut writer, shared.as_ref())),
        }
    }

    /// Removes the documents from the database.
    pub(super) fn clear_shared(&self) -> Result<(), CollectionError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        shared.exclusively(&mut || Ok(shared.clear(self.identity())?))
    }

    /// Writes documents for all nodes.
    pub(super) fn write_shared<T>(
        &self,
        writer: &mut Writer,
        shared: &Arc<dyn SharedDocuments>,
        definition: &CollectionDefinition,
        work: impl FnOnce(&mut FileWriter<'_>) -> Result<T, Failure>,
    ) -> Result<T, CollectionError> {
        let (mut work, mut done) = (Some(work), None);
        shared.exclusively(&mut || {
            self.pull(writer, shared.as_ref())?;
            let Some(work) = work.take() else { return Ok(()) };
            let mut last = None;
            let committed = self.in_transaction(writer, Some(definition), |file| {
                file.touched = Some(TouchedDocuments::default());
                done = Some(work(file)?);
                last = file.share(shared.as_ref(), self.identity())?;
                last.map_or(Ok(()), |last| file.set_standing(shared.id(), last))
            });
            match committed {
                Err(error) if last.is_some() => self.apply_own_change(writer, shared.as_ref(), &error),
                committed => committed?,
            }
            Ok(())
        })?;
        done.ok_or(CollectionError::Unknown)
    }

    /// Applies a write from the database, because its commit to the file failed with `error`. If that fails as well,
    /// [`crate::Collections::apply_shared_changes`] tries again.
    fn apply_own_change(&self, writer: &mut Writer, shared: &dyn SharedDocuments, error: &CollectionError) {
        if self.pull(writer, shared).is_err() {
            log::warning(format!(
                "collection {}: documents were changed for all nodes, but searches of this node do not find the changes \
                 yet, because the file of the collection cannot be written: {error}",
                self.name
            ));
        }
    }

    fn standing(&self, writer: &mut Writer, database: i64) -> Result<Standing, CollectionError> {
        self.in_transaction(writer, None, |file| file.standing(database))
    }

    /// Applies the changes of other nodes. A foreign file joins the database; for this, the caller must exclude other
    /// nodes.
    fn pull(&self, writer: &mut Writer, shared: &dyn SharedDocuments) -> Result<(), CollectionError> {
        let state = shared.state(self.identity())?;
        match self.standing(writer, shared.id())? {
            Standing::Known(version) if version > state.last => Err(self.older_database(version, state)),
            Standing::Known(version) => self.apply(writer, shared, version, state),
            Standing::Foreign => self.join(writer, shared, state),
        }
    }

    fn older_database(&self, version: i64, state: SharedState) -> CollectionError {
        let reason = format!(
            "the last change in the database with the shared documents is number {}, but collection {} has already \
             applied number {version}: the database is an older copy, or a standby that had not received all changes. \
             Return to the previous server, or remove {} to take all documents from the database",
            state.last,
            self.name,
            self.path.display()
        );
        CollectionError::Refused { kind: ErrorKind::Corrupt, reason }
    }

    fn apply(
        &self,
        writer: &mut Writer,
        shared: &dyn SharedDocuments,
        version: i64,
        state: SharedState,
    ) -> Result<(), CollectionError> {
        let is_reload = state.purged > version;
        let page = if is_reload { Vec::new() } else { shared.page(self.identity(), version, state.last)? };
        // The rows of removed documents may have been deleted after the state was read. An empty page then does not
        // mean that nothing has changed.
        if page.is_empty() && !is_reload && shared.state(self.identity())?.purged <= version {
            return Ok(());
        }
        self.in_transaction(writer, None, |file| {
            if !is_reload {
                file.apply_pages(shared, self.identity(), page, state.last)?;
            }
            let newer = shared.state(self.identity()).map_err(CollectionError::from)?;
            if newer.purged <= version {
                return file.set_standing(shared.id(), state.last);
            }
            file.remove_all()?;
            let page = shared.page(self.identity(), 0, newer.last).map_err(CollectionError::from)?;
            file.apply_pages(shared, self.identity(), page, newer.last)?;
            file.set_standing(shared.id(), newer.last)
        })
    }

    fn join(
        &self,
        writer: &mut Writer,
        shared: &dyn SharedDocuments,
        state: SharedState,
    ) -> Result<(), CollectionError> {
        let of_database = |each: &mut dyn FnMut(&DocumentChange) -> Result<(), Failure>| -> Result<(), Failure> {
            let mut after = 0;
            loop {
                let page = shared.page(self.identity(), after, state.last).map_err(CollectionError::from)?;
                let Some((newest, _)) = page.last() else { return Ok(()) };
                after = *newest;
                page.iter().try_for_each(|(_, change)| each(change))?;
            }
        };
        let differs = self.in_transaction(writer, None, |file| {
            let mut differs = false;
            of_database(&mut |change| {
                let here = file.existing(&change.user, &change.key)?.map(|(_, body)| body);
                differs |= here.is_some_and(|body| Some(body) != change.body);
                Ok(())
            })?;
            Ok(differs)
        })?;
        if differs {
            self.keep_copy(writer)?;
        }
        self.in_transaction(writer, None, |file| {
            let mut own = file.all_documents()?;
            of_database(&mut |change| {
                own.remove(&change.user, &change.key);
                file.apply(change)
            })?;
            file.set_standing(shared.id(), state.last)?;
            file.touched = Some(own);
            let last = file.share(shared, self.identity())?;
            last.map_or(Ok(()), |last| file.set_standing(shared.id(), last))
        })
    }

    /// Keeps a copy of the file in the same folder.
    fn keep_copy(&self, writer: &mut Writer) -> Result<(), CollectionError> {
        let copy = self.path.with_added_extension(REPLACED);
        let Some(connection) = &writer.connection else { return Ok(()) };
        copy_file(connection, &copy).map_err(|failure| failure.at(&self.path))?;
        log::warning(format!(
            "collection {}: documents here and in the database of the cluster differ: those of the database are used, \
             and the original file is kept as {}",
            self.name,
            copy.display()
        ));
        Ok(())
    }
}

/// Copies a database into a new file, which replaces an earlier copy.
fn copy_file(connection: &Connection, copy: &Path) -> Result<(), Failure> {
    let unfinished: PathBuf = copy.with_added_extension("tmp");
    let failed = |error: std::io::Error| {
        Failure::Collection(CollectionError::Failed { path: copy.to_owned(), reason: error.to_string() })
    };
    if unfinished.exists() {
        std::fs::remove_file(&unfinished).map_err(failed)?;
    }
    connection.execute("VACUUM INTO ?1", params![unfinished.to_string_lossy()])?;
    std::fs::rename(&unfinished, copy).map_err(failed)
}

impl FileWriter<'_> {
    fn standing(&self, database: i64) -> Result<Standing, Failure> {
        let select = "SELECT version FROM shared WHERE id = ?1";
        let version =
            self.transaction.prepare_cached(select)?.query_row(params![database], |row| row.get(0)).optional()?;
        Ok(version.map_or(Standing::Foreign, Standing::Known))
    }

    fn set_standing(&self, database: i64, version: i64) -> Result<(), Failure> {
        self.forget_database()?;
        let insert = "INSERT INTO shared (id, version) VALUES (?1, ?2)";
        self.transaction.prepare_cached(insert)?.execute(params![database, version])?;
        Ok(())
    }

    /// Records that the file is not a replica of a cluster's database.
    pub(super) fn forget_database(&self) -> Result<(), Failure> {
        self.transaction.prepare_cached("DELETE FROM shared")?.execute([])?;
        Ok(())
    }

    /// Applies the changes of a page and of all later pages up to number `last`.
    fn apply_pages(
        &mut self,
        shared: &dyn SharedDocuments,
        collection: (&str, &str),
        mut page: Vec<(i64, DocumentChange)>,
        last: i64,
    ) -> Result<(), Failure> {
        while let Some((newest, _)) = page.last() {
            let newest = *newest;
            page.iter().try_for_each(|(_, change)| self.apply(change))?;
            page = shared.page(collection, newest, last).map_err(CollectionError::from)?;
        }
        Ok(())
    }

    /// Writes or removes a document as another node did.
    fn apply(&mut self, change: &DocumentChange) -> Result<(), Failure> {
        let DocumentChange { user, key, body } = change;
        match (body, self.existing(user, key)?) {
            (Some(body), Some((_, here))) if here == *body => Ok(()),
            (Some(body), _) => {
                let members: Object = serde_json::from_str(body)
                    .map_err(|error| Failure::Damage(format!("the shared document {key:.80} is not JSON: {error}")))?;
                self.put(user, key, &PreparedDocument { key: Some(key.clone()), members, body: body.clone() })
            }
            (None, Some((row_id, here))) => self.remove_at(row_id, user, key, &here),
            (None, None) => Ok(()),
        }
    }

    fn remove_all(&self) -> Result<(), Failure> {
        Ok(self.transaction.execute_batch("DELETE FROM entries; DELETE FROM documents;")?)
    }

    fn all_documents(&self) -> Result<TouchedDocuments, Failure> {
        let mut all = TouchedDocuments::default();
        let mut statement = self.transaction.prepare("SELECT user, key, length(body) FROM documents ORDER BY place")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            all.add(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?, row.get::<_, u32>(2)? as usize);
        }
        Ok(all)
    }

    /// Writes the touched documents to the database; returns the number of their change, `None` if there are none.
    fn share(&mut self, shared: &dyn SharedDocuments, collection: (&str, &str)) -> Result<Option<i64>, Failure> {
        let parts = self.touched.take().unwrap_or_default().parts();
        if parts.is_empty() {
            return Ok(None);
        }
        let Standing::Known(known) = self.standing(shared.id())? else {
            return Err(Failure::Damage("a shared file has no number of its last change".to_owned()));
        };
        let part = |at: usize| -> Result<Vec<DocumentChange>, Fault> {
            let documents = parts.get(at).map(Vec::as_slice).unwrap_or_default();
            let read = |(user, key): &(String, String)| -> Result<DocumentChange, Failure> {
                let body = self.existing(user, key)?.map(|(_, body)| body);
                Ok(DocumentChange { user: user.clone(), key: key.clone(), body })
            };
            let read = |document| read(document).map_err(|failure| Fault::from(failure.at(Path::new(collection.1))));
            documents.iter().map(read).collect()
        };
        Ok(Some(shared.put(collection, known, &part).map_err(CollectionError::from)?))
    }
}
