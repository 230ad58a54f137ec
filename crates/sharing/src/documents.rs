//! The database of a cluster as collections see it: documents that nodes share.
//!
//! Not here: its rows (catalog), the replicas of documents on this node (collections).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quarry_catalog::{CatalogError, DocumentPutResult, PostgreSqlLocation, SharedDocument, SharedDocumentTable};
use quarry_collections::{ChangeParts, CollectionError, DocumentChange, SharedDocuments, SharedState};
use quarry_stdx::{ErrorKind, Fault, SharedClock};

use crate::to_fault;

/// The documents that the nodes of a cluster share.
#[derive(Debug)]
pub struct DocumentDatabase {
    table: SharedDocumentTable,
    clock: SharedClock,
    id: i64,
    /// Serialises changes of this process, which share one session.
    changing: Mutex<()>,
    /// Whether a change is running; only changes wait for a lost connection.
    is_changing: AtomicBool,
}

impl DocumentDatabase {
    /// Opens the documents in the database at `place`, whose id is `id`. The caller must have opened the database's
    /// shared files with [`SharedFolder::open`](crate::SharedFolder::open).
    pub fn open(place: &PostgreSqlLocation, id: i64, clock: &SharedClock) -> Result<Arc<DocumentDatabase>, Fault> {
        let table = SharedDocumentTable::open(place, clock).map_err(to_fault)?;
        let (changing, is_changing) = (Mutex::default(), AtomicBool::new(false));
        Ok(Arc::new(DocumentDatabase { table, clock: clock.clone(), id, changing, is_changing }))
    }

    /// Time from which a change's wait for a lost connection counts; `None` for polls for changes of other nodes, which
    /// do not wait.
    fn since(&self) -> Option<i64> {
        self.is_changing.load(Ordering::Acquire).then(|| self.clock.elapsed_ns())
    }
}

/// The exclusion of other nodes. It also ends if the work panics, for example in a search that writes documents;
/// otherwise no other node could change documents until this process ends.
struct Exclusion<'a>(&'a DocumentDatabase);

impl Drop for Exclusion<'_> {
    fn drop(&mut self) {
        self.0.is_changing.store(false, Ordering::Release);
        self.0.table.unlock();
    }
}

impl SharedDocuments for DocumentDatabase {
    fn id(&self) -> i64 {
        self.id
    }

    fn exclusively(&self, work: &mut dyn FnMut() -> Result<(), CollectionError>) -> Result<(), CollectionError> {
        // The time spent waiting for other threads of this process counts towards the maximum wait.
        let since = self.clock.elapsed_ns();
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.table.lock(since).map_err(to_fault)?;
        self.is_changing.store(true, Ordering::Release);
        let _turn = Exclusion(self);
        work()
    }

    fn changed_since(&self, version: i64) -> Result<(i64, Vec<(String, String)>), Fault> {
        self.table.collections_changed_since(version, self.since()).map_err(to_fault)
    }

    fn state(&self, (app, name): (&str, &str)) -> Result<SharedState, Fault> {
        let state = self.table.state(app, name, self.since()).map_err(to_fault)?;
        Ok(SharedState { last: state.last, purged: state.purged })
    }

    fn page(&self, collection: (&str, &str), after: i64, last: i64) -> Result<Vec<(i64, DocumentChange)>, Fault> {
        let page = self.table.page(collection, (after, last), self.since()).map_err(to_fault)?;
        let change = |SharedDocument { user, key, body }| DocumentChange { user, key, body };
        Ok(page.into_iter().map(|(version, document)| (version, change(document))).collect())
    }

    fn put(&self, collection: (&str, &str), known: i64, parts: ChangeParts<'_>) -> Result<i64, Fault> {
        let document = |DocumentChange { user, key, body }| SharedDocument { user, key, body };
        let part = |at: usize| -> Result<Vec<SharedDocument>, CatalogError> {
            let part = parts(at).map_err(|fault| CatalogError::Failed {
                place: format!("collection {}", collection.1),
                reason: fault.to_string(),
            })?;
            Ok(part.into_iter().map(document).collect())
        };
        match self.table.put(collection, known, &part).map_err(to_fault)? {
            DocumentPutResult::Done(last) => Ok(last),
            DocumentPutResult::Conflict => {
                let text =
                    "another node has changed the same collection at this moment; nothing was changed: try again";
                Err(Fault::new(ErrorKind::Busy, text))
            }
        }
    }

    fn clear(&self, collection: (&str, &str)) -> Result<(), Fault> {
        self.table.clear(collection).map_err(to_fault)
    }
}
