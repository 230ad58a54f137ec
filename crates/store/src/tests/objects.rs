//! Blob stores of tests that fail or change requests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use quarry_blob::{BlobError, BlobStore, ListedObject, MemoryBlobStore};
use quarry_bucket::ReadAt;

/// Number of operations until the machine is dead.
pub(super) type OperationsLeft = Arc<AtomicU64>;

/// A request to a blob store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request<'a> {
    Put(&'a str, &'a [u8]),
    Open(&'a str),
    Delete(&'a str),
}

impl<'a> Request<'a> {
    fn name(self) -> &'a str {
        match self {
            Request::Put(name, _) | Request::Open(name) | Request::Delete(name) => name,
        }
    }

    /// The error that the store cannot be reached.
    pub(super) fn unreachable(self, reason: &str) -> BlobError {
        BlobError::Io { action: "reach", path: self.name().into(), reason: reason.to_owned() }
    }
}

/// A function that is called before a request is executed; if it fails, so does the request.
type Watch = Box<dyn Fn(Request<'_>) -> Result<(), BlobError> + Send + Sync>;

/// Blob store that fails when the machine is dead or the store is unreachable.
pub(super) struct Objects {
    store: Arc<dyn BlobStore>,
    acts: OperationsLeft,
    pub(super) is_down: AtomicBool,
    /// Whether deletes fail.
    pub(super) keeps: AtomicBool,
    /// Whether a failed put writes its object.
    writes_late: bool,
    watch: Watch,
}

impl fmt::Debug for Objects {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Objects").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Objects {
    pub(super) fn new(store: Arc<dyn BlobStore>, acts: &OperationsLeft, writes_late: bool) -> Arc<Objects> {
        let (is_down, keeps) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Objects { store, acts: acts.clone(), is_down, keeps, writes_late, watch: Box::new(|_| Ok(())) })
    }

    /// A store that works until its switches are changed.
    pub(super) fn around(store: Arc<dyn BlobStore>) -> Arc<Objects> {
        Objects::new(store, &OperationsLeft::new(u64::MAX.into()), false)
    }

    /// A store in memory that executes the requests that `watch` allows.
    pub(super) fn watched(
        watch: impl Fn(Request<'_>) -> Result<(), BlobError> + Send + Sync + 'static,
    ) -> Arc<Objects> {
        Objects::watched_around(Arc::new(MemoryBlobStore::default()), watch)
    }

    /// Executes the requests that `watch` allows on `store`.
    pub(super) fn watched_around(
        store: Arc<dyn BlobStore>,
        watch: impl Fn(Request<'_>) -> Result<(), BlobError> + Send + Sync + 'static,
    ) -> Arc<Objects> {
        let (is_down, keeps) = (AtomicBool::new(false), AtomicBool::new(false));
        let acts = OperationsLeft::new(u64::MAX.into());
        Arc::new(Objects { store, acts, is_down, keeps, writes_late: false, watch: Box::new(watch) })
    }

    fn check_reachable(&self, request: Request<'_>) -> Result<(), BlobError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(request.unreachable("it is out of reach"));
        }
        (self.watch)(request)
    }

    fn act(&self, request: Request<'_>) -> Result<(), BlobError> {
        self.check_reachable(request)?;
        let left = self.acts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| request.unreachable("the machine is off"))
    }
}

impl BlobStore for Objects {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        let acted = self.act(Request::Put(name, bytes));
        if acted.is_ok() || self.writes_late {
            self.store.put(name, bytes)?;
        }
        acted
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>, BlobError> {
        self.check_reachable(Request::Open(name))?;
        self.store.open(name)
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        let request = Request::Delete(name);
        self.act(request)?;
        if self.keeps.load(Ordering::SeqCst) {
            return Err(request.unreachable("it keeps all"));
        }
        self.store.delete(name)
    }

    fn exists(&self, name: &str) -> Result<bool, BlobError> {
        self.store.exists(name)
    }

    fn list(&self) -> Result<Vec<String>, BlobError> {
        self.store.list()
    }
}

/// Objects in memory with their sizes and times of writing. A listing is taken at one moment, while other threads put and
/// delete objects.
#[derive(Debug, Default)]
pub(super) struct TimedObjects {
    pub(super) store: MemoryBlobStore,
    listed: Mutex<BTreeMap<String, ListedObject>>,
}

impl TimedObjects {
    pub(super) fn put(&self, name: &str, bytes: &[u8], modified_ns: i64) {
        let mut listed = self.listed.lock().unwrap();
        self.store.put(name, bytes).unwrap();
        let object = ListedObject { name: name.to_owned(), bytes: bytes.len() as u64, modified_ns };
        listed.insert(name.to_owned(), object);
    }

    pub(super) fn delete(&self, name: &str) -> Result<(), BlobError> {
        let mut listed = self.listed.lock().unwrap();
        listed.remove(name);
        self.store.delete(name)
    }

    pub(super) fn list(&self) -> Vec<ListedObject> {
        self.listed.lock().unwrap().values().cloned().collect()
    }
}
