//! Users, knowledge objects and documents of collections that nodes share through a database.
//!
//! All code still reads the files of the data directory. A request's change is written to the database and then to the
//! file, before the request is answered ([`SharedFiles`]); a node that dies between the two writes takes the file from
//! the database at its next start. Each node polls for changes by other nodes ([`SharedFolder::poll`]), and a node that
//! starts with an empty folder receives all files.
//!
//! A file edited by hand on a node is shared at the node's next poll. If another node has changed the same file, the
//! version of that other node wins, and the edited version is kept beside the file. A file deleted by hand is restored
//! at the next start.
//!
//! Documents of collections are shared one by one ([`DocumentDatabase`]).
//!
//! Not here: rows and transactions (catalog), who changes files and when, the meaning of a file, the replicas of
//! documents on this node (collections).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod documents;
mod manifest;
mod scan;
mod scope;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind as IoKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quarry_catalog::{CatalogError, PostgreSqlLocation, SharedFileChange, SharedFileTable, SharedPutResult};
use quarry_stdx::{ErrorKind, Fault, SharedClock, SharedFiles, log, node_files, private_file};

pub use crate::documents::DocumentDatabase;
use crate::manifest::Manifest;
use crate::scan::EditedFiles;

/// Prefix of the schema that the nodes of a cluster share; the cluster's name follows the prefix.
const SCHEMA_PREFIX: &str = "quarry_shared_";
/// Maximum size of a shared file. A request to write a larger file fails; a larger file written by hand is not shared.
pub const SHARED_BYTES_MAX: usize = 64 << 20;

/// The schema of a cluster's shared files.
pub fn schema_of(cluster: &str) -> String {
    format!("{SCHEMA_PREFIX}{cluster}")
}

/// The shared files of a data directory, which only this process has open for writing.
#[derive(Debug)]
pub struct SharedFolder {
    data_dir: PathBuf,
    table: SharedFileTable,
    documents: Arc<DocumentDatabase>,
    clock: SharedClock,
    state: Mutex<FolderState>,
}

#[derive(Debug)]
struct FolderState {
    manifest: Manifest,
    edits: EditedFiles,
    /// Files of this node that were changed, by hand or by applying other nodes' changes, since the last call of
    /// [`SharedFolder::take_changed`].
    changed: BTreeSet<String>,
    /// Whether the last poll failed.
    is_unreachable: bool,
}

impl SharedFolder {
    /// Opens the shared files at `place`, and brings the files in `data_dir` up to date.
    pub fn open(data_dir: &Path, place: &PostgreSqlLocation, clock: &SharedClock) -> Result<Arc<SharedFolder>, Fault> {
        let table = SharedFileTable::open(place, clock).map_err(to_fault)?;
        let id = table.id().map_err(to_fault)?;
        let documents = DocumentDatabase::open(place, id, clock)?;
        let manifest = Manifest::read(data_dir, id);
        let state =
            FolderState { manifest, edits: EditedFiles::default(), changed: BTreeSet::new(), is_unreachable: false };
        let (data_dir, clock) = (data_dir.to_owned(), clock.clone());
        let folder = SharedFolder { data_dir, table, documents, clock, state: Mutex::new(state) };
        let _alone = node_files::lock_files();
        folder.begin(folder.now())?;
        let joined = folder.restore_missing().and_then(|()| folder.share_edits());
        folder.end();
        joined.map(|()| Arc::new(folder))
    }

    /// Applies the changes of other nodes, and shares files edited here by hand. While the database does not answer,
    /// nothing changes; the failure is logged once.
    pub fn poll(&self) {
        let done = self.poll_database();
        let mut state = self.lock();
        match done {
            Ok(()) if state.is_unreachable => {
                state.is_unreachable = false;
                log::info("the database with the shared files answers again");
            }
            Err(fault) if !state.is_unreachable => {
                state.is_unreachable = true;
                log::warning(format!("shared files: {fault}"));
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// The documents of collections in the same database.
    pub fn documents(&self) -> Arc<DocumentDatabase> {
        Arc::clone(&self.documents)
    }

    /// Paths, relative to the data directory, of files that were changed since the last call, except by requests to
    /// this node.
    pub fn take_changed(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.lock().changed)
    }

    fn poll_database(&self) -> Result<(), Fault> {
        let seen = self.lock().manifest.seen;
        let (last, _) = self.table.changes_since(seen, None).map_err(to_fault)?;
        let is_edited = !self.edited_files().is_empty();
        if last == seen && !is_edited {
            return Ok(());
        }
        let _alone = node_files::lock_files();
        if !is_edited {
            return self.refresh(None);
        }
        self.begin(self.now())?;
        let adopted = self.share_edits();
        self.end();
        adopted
    }

    fn lock(&self) -> MutexGuard<'_, FolderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the changes of other nodes to the files here.
    fn refresh(&self, since: Option<i64>) -> Result<(), Fault> {
        let seen = self.lock().manifest.seen;
        let (last, rows) = self.table.changes_since(seen, since).map_err(to_fault)?;
        if last < seen {
            return Err(Fault::corrupt(format!(
                "the database with the shared files knows {last} changes, and this node has seen {seen}: it is an older \
                 copy, or a standby that had not received them. Return to the previous server, or remove {} to compare \
                 all files anew",
                self.data_dir.join("etc/shared_files.json").display()
            )));
        }
        for row in rows {
            if row.version > self.lock().manifest.version_of(&row.path) {
                self.apply(&row.path, since)?;
            }
        }
        if last > seen {
            self.lock().manifest.seen = last;
            self.write_manifest();
        }
        Ok(())
    }

    /// Replaces the file on this node with the database's version. If the file was edited here, the edited version is
    /// kept beside it.
    fn apply(&self, path: &str, since: Option<i64>) -> Result<(), Fault> {
        if !scope::is_shared(path) {
            log::warning(format!("the database has a shared file {path}, which nodes do not share: it is ignored"));
            return Ok(());
        }
        let Some(file) = self.table.file(path, since).map_err(to_fault)? else { return Ok(()) };
        let here = self.data_dir.join(path);
        let old = read(&here)?;
        let mut state = self.lock();
        if old != file.content {
            if let Some(edited) = old.filter(|old| !state.manifest.matches_digest(path, old)) {
                let aside = here.with_added_extension(scope::REPLACED);
                private_file::write_bytes(&aside, &edited)?;
                log::warning(format!(
                    "{path} was changed here and by another node: the other node's version is used, yours is kept in {}",
                    aside.display()
                ));
            }
            match &file.content {
                Some(content) => private_file::write_bytes(&here, content)?,
                None => self.remove(&here)?,
            }
            state.changed.insert(path.to_owned());
        }
        state.manifest.set(path, file.version, file.content.as_deref());
        Ok(())
    }

    /// Removes a file, and the folders above the file that become empty.
    fn remove(&self, path: &Path) -> Result<(), Fault> {
        let cannot = |error: io::Error| Fault::io(format_args!("cannot remove {}", path.display()), error);
        match fs::remove_file(path).and_then(|()| node_files::sync_folder_of(path)) {
            Err(error) if error.kind() != IoKind::NotFound => return Err(cannot(error)),
            _ => {}
        }
        let roots = scope::ROOTS.map(|(root, _)| self.data_dir.join(root));
        let above = path
            .ancestors()
            .skip(1)
            .take_while(|folder| roots.iter().any(|root| folder.starts_with(root) && *folder != root.as_path()));
        for folder in above {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Restores files that the manifest lists but that are missing here.
    fn restore_missing(&self) -> Result<(), Fault> {
        let known: Vec<String> = self.lock().manifest.existing_paths().map(str::to_owned).collect();
        for path in known.iter().filter(|path| !self.data_dir.join(path).exists()) {
            self.apply(path, Some(self.now()))?;
        }
        Ok(())
    }

    /// Files that were edited here by hand, so that their content differs from the manifest.
    fn edited_files(&self) -> Vec<String> {
        let mut state = self.lock();
        let FolderState { manifest, edits, .. } = &mut *state;
        edits.list(&self.data_dir, manifest)
    }

    /// Shares files that were edited here. The caller has begun a change and holds its lock.
    fn share_edits(&self) -> Result<(), Fault> {
        for path in self.edited_files() {
            let Some(content) = read(&self.data_dir.join(&path))? else { continue };
            let known = self.lock().manifest.version_of(&path);
            let change = SharedFileChange { path: &path, known, content: Some(&content) };
            // If two nodes share an edited file at once, the second node finds the first node's version at its next
            // poll.
            if let SharedPutResult::Done(version) = self.table.put(&[change]).map_err(to_fault)? {
                let mut state = self.lock();
                state.manifest.set(&path, version, Some(&content));
                state.changed.insert(path);
            }
        }
        self.write_manifest();
        Ok(())
    }

    /// Writes the manifest. A failure is harmless, because the manifest may be older than the files.
    fn write_manifest(&self) {
        if let Err(fault) = self.lock().manifest.write() {
            log::warning(fault);
        }
    }

    /// The path relative to the data directory, if nodes share the file.
    fn shared_path<'a>(&self, path: &'a Path) -> Option<&'a str> {
        path.strip_prefix(&self.data_dir).ok()?.to_str().filter(|path| scope::is_shared(path))
    }

    fn write_local(&self, path: &Path, content: Option<&[u8]>) -> Result<(), Fault> {
        match content {
            Some(content) => private_file::write_bytes(path, content),
            None => fs::remove_file(path)
                .and_then(|()| node_files::sync_folder_of(path))
                .map_err(|error| Fault::io(format_args!("cannot remove {}", path.display()), error)),
        }
    }
}

impl SharedFiles for SharedFolder {
    fn now(&self) -> i64 {
        self.clock.elapsed_ns()
    }

    fn begin(&self, since: i64) -> Result<(), Fault> {
        self.table.lock(since).map_err(to_fault)?;
        self.refresh(Some(since)).inspect_err(|_| self.end())
    }

    fn write(&self, changes: &[(&Path, Option<&[u8]>)]) -> Result<(), Fault> {
        let mut shared: Vec<(&Path, SharedFileChange<'_>)> = Vec::new();
        for (path, content) in changes {
            let bytes = content.map_or(0, <[u8]>::len);
            match self.shared_path(path) {
                Some(name) if bytes > SHARED_BYTES_MAX => {
                    return Err(Fault::invalid(format!(
                        "{name} has {bytes} bytes; a file that nodes share may have at most {SHARED_BYTES_MAX}"
                    )));
                }
                Some(name) => {
                    let known = self.lock().manifest.version_of(name);
                    if content.is_some() || known > 0 {
                        shared.push((path, SharedFileChange { path: name, known, content: *content }));
                    }
                }
                None => {}
            }
        }
        let rows: Vec<SharedFileChange<'_>> = shared.iter().map(|(_, change)| *change).collect();
        let first = match self.table.put(&rows).map_err(to_fault)? {
            SharedPutResult::Done(first) => first,
            SharedPutResult::Conflict => {
                self.refresh(Some(self.now()))?;
                let text = "another node has changed the same file at this moment; nothing was changed: try again";
                return Err(Fault::new(ErrorKind::Busy, text));
            }
        };
        for (path, content) in changes {
            self.write_local(path, *content)?;
        }
        let mut state = self.lock();
        for ((_, change), version) in shared.iter().zip(first..) {
            state.manifest.set(change.path, version, change.content);
        }
        drop(state);
        self.write_manifest();
        Ok(())
    }

    fn is_shared(&self, path: &Path) -> bool {
        self.shared_path(path).is_some()
    }

    fn end(&self) {
        self.table.unlock();
    }
}

/// Converts an error; an unreachable or locked database counts as busy, so that the request is retried.
fn to_fault(error: CatalogError) -> Fault {
    match error {
        CatalogError::Unreachable { .. } => Fault::new(ErrorKind::Busy, error.to_string()),
        CatalogError::Busy { place } => {
            let text =
                format!("{place}: another node is changing shared files and has not finished in time: try again");
            Fault::new(ErrorKind::Busy, text)
        }
        error => error.into(),
    }
}

/// Content of a file; `None` if the file does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Fault> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == IoKind::NotFound => Ok(None),
        Err(error) => Err(Fault::io(format_args!("cannot read {}", path.display()), error)),
    }
}
