//! Lookup tables as files: in `etc/apps/*/lookups` and `etc/system/lookups` of the data directory. Searches that read
//! files without indexing them, or that have no data directory, look in the working directory first. A namespace sees
//! the files of its view, private files first. Collections (KV store) are tables, too. Names must be bare file names;
//! paths are refused, so that a search cannot read other folders.
//!
//! Users can change files of an app if the app's metadata permits such changes ([`ObjectAccess`]). New files of users
//! without this permission are private.

use std::cell::OnceCell;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quarry_collections::{Collections, KEY};
use quarry_conf::file_name::check_file_name;
use quarry_conf::{LookupDefinition, ObjectAccess, Permissions, Transforms, View};
use quarry_engine::{AddressLocations, FillTable, LookupSource, LookupTable, ModelFile, TableContext, TableTime};
use quarry_stdx::{Fault, NodeFiles};

use crate::address_database::AddressDatabase;
use crate::collection_tables::Rewrite;
use crate::configuration::access_of;
use crate::folders::{app_folders, app_name};

/// Kind of lookup files in metadata.
pub(crate) const KIND: &str = "lookups";
/// App for new files of searches without a namespace.
const DEFAULT_WRITE_APP: &str = "search";

/// Maximum size of a lookup file in bytes.
pub(crate) const LOOKUP_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Name of the folders with lookup files.
const FOLDER: &str = "lookups";
/// Extension of lookup files.
pub(crate) const CSV: &str = ".csv";
/// Maximum size of a model in bytes.
const MODEL_BYTES_MAX: u64 = 15 * 1024 * 1024;
/// Prefix of model files, as in Splunk.
const MODEL_PREFIX: &str = "__mlspl_";
/// Extension of model files.
const MODEL_SUFFIX: &str = ".mlmodel";

/// Finds and reads lookup files.
#[derive(Clone, Debug)]
pub struct LookupFiles {
    pub(crate) place: TableFolders,
    /// The acting user; `None` for the node itself, which may do everything.
    user: Option<Arc<Permissions>>,
    /// The node's files, through which writes reach other nodes; `None` if no other node shares them.
    shared: Option<NodeFiles>,
}

#[derive(Clone, Debug)]
pub(crate) enum TableFolders {
    /// A data directory.
    DataFolder(PathBuf),
    /// A data directory restricted to a namespace.
    Namespace(PathBuf, Arc<View>),
    /// The working directory and, with lower precedence, a read-only data directory.
    WorkingFolder(Option<PathBuf>),
}

/// A folder with lookup files.
struct Folder {
    path: PathBuf,
    /// The app whose metadata decides which files are visible.
    app: Option<String>,
    /// Read permissions from the app's metadata, loaded on demand.
    access: OnceCell<ObjectAccess>,
}

impl Folder {
    fn open(path: PathBuf) -> Folder {
        Folder { path, app: None, access: OnceCell::new() }
    }

    /// Whether a user may read a file of this folder.
    fn may_read(&self, name: &str, user: &Permissions) -> bool {
        let (Some(_), Some(app)) = (&self.app, self.path.parent()) else { return true };
        self.access.get_or_init(|| access_of(app)).may_read(KIND, name, user)
    }
}

/// The folder of a user's private files in an app.
struct PrivateFolder {
    user: String,
    app: String,
    path: PathBuf,
    /// Whether the namespace names the user explicitly.
    is_named: bool,
}

impl LookupFiles {
    /// Lookups of a data directory: apps before the system, apps in ASCII order.
    pub fn for_data_dir(data_dir: &Path) -> LookupFiles {
        LookupFiles { place: TableFolders::DataFolder(data_dir.to_owned()), user: None, shared: None }
    }

    /// Lookups visible to a view: lookups of the user and the app, lookups that other apps share, and lookups of the
    /// system.
    pub fn for_view(data_dir: &Path, view: &Arc<View>) -> LookupFiles {
        let place = TableFolders::Namespace(data_dir.to_owned(), Arc::clone(view));
        LookupFiles { place, user: None, shared: None }
    }

    /// Lookups of the working directory and, with lower precedence, read-only lookups of a data directory.
    pub fn for_working_folder(data_dir: Option<&Path>) -> LookupFiles {
        LookupFiles { place: TableFolders::WorkingFolder(data_dir.map(Path::to_owned)), user: None, shared: None }
    }

    /// These lookup files, with writes that reach all nodes that share `files`.
    #[must_use]
    pub fn with_shared_files(self, files: Option<&NodeFiles>) -> LookupFiles {
        LookupFiles { shared: files.filter(|files| files.are_shared()).cloned(), ..self }
    }

    /// These lookup files, read with a user's permissions.
    pub(crate) fn with_user(&self, user: &Arc<Permissions>) -> LookupFiles {
        LookupFiles { user: Some(Arc::clone(user)), ..self.clone() }
    }

    /// The acting user, if not the node itself.
    pub(crate) fn user(&self) -> Option<&Permissions> {
        self.user.as_deref()
    }

    /// Folders with lookup files, listed anew for each call, because a search may have created a folder.
    fn folders(&self) -> Vec<Folder> {
        let here = matches!(self.place, TableFolders::WorkingFolder(_)).then(|| Folder::open(PathBuf::from(".")));
        let mut folders: Vec<Folder> = here.into_iter().collect();
        let (data_dir, view) = match &self.place {
            TableFolders::WorkingFolder(None) => return folders,
            TableFolders::WorkingFolder(Some(data_dir)) | TableFolders::DataFolder(data_dir) => (data_dir, None),
            TableFolders::Namespace(data_dir, view) => (data_dir, Some(view.as_ref())),
        };
        folders.extend(self.private_folder().into_iter().map(|own| Folder::open(own.path)));
        let apps = app_folders(data_dir, view).into_iter();
        folders.extend(apps.map(|app| Folder { app: Some(app_name(&app)), ..Folder::open(app.join("lookups")) }));
        folders.retain(|folder| folder.path.is_dir());
        folders.push(Folder::open(data_dir.join("etc/system/lookups")));
        folders
    }

    /// A folder as messages show it: relative to the data directory, because ordinary users of a server need not know
    /// the location of the data directory.
    fn shown_path(&self, folder: &Path) -> String {
        let data_dir = match &self.place {
            TableFolders::WorkingFolder(data_dir) => data_dir.as_ref(),
            TableFolders::DataFolder(data_dir) | TableFolders::Namespace(data_dir, _) => Some(data_dir),
        };
        let below = data_dir.and_then(|data_dir| folder.strip_prefix(data_dir).ok());
        below.unwrap_or(folder).display().to_string()
    }

    fn is_visible(&self, folder: &Folder, name: &str) -> bool {
        let is_near = match (&self.place, &folder.app) {
            (TableFolders::Namespace(_, view), Some(app)) => view.is_visible(app, KIND, name),
            _ => true,
        };
        is_near && self.user.as_ref().is_none_or(|user| folder.may_read(name, user))
    }

    /// The folder that contains the file `name`.
    fn folder_of(&self, name: &str) -> Option<PathBuf> {
        let holds = |folder: &Folder| folder.path.join(name).is_file() && self.is_visible(folder, name);
        self.folders().into_iter().find(holds).map(|folder| folder.path)
    }

    /// The path of the file `name`.
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.folder_of(name).map(|folder| folder.join(name))
    }

    /// The folder for new files.
    fn write_folder(&self) -> PathBuf {
        let (data_dir, app) = match &self.place {
            TableFolders::WorkingFolder(_) => return PathBuf::from("."),
            TableFolders::DataFolder(data_dir) => (data_dir, DEFAULT_WRITE_APP),
            TableFolders::Namespace(_, view) if view.namespace().app() == "system" => {
                return self.system_folder();
            }
            TableFolders::Namespace(data_dir, view) => (data_dir, view.namespace().app()),
        };
        data_dir.join("etc/apps").join(app).join("lookups")
    }

    /// These lookup files, limited to what a viewer may see.
    pub fn visible_to(&self, viewer: &Permissions) -> LookupFiles {
        self.with_user(&Arc::new(viewer.clone()))
    }

    /// Names of the visible CSV files.
    pub fn names(&self) -> Vec<String> {
        let names_in = |folder: &Folder| {
            let entries = std::fs::read_dir(&folder.path).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.filter(|name| name.ends_with(CSV) && self.is_visible(folder, name)).collect::<Vec<_>>()
        };
        self.folders().iter().flat_map(names_in).collect()
    }

    /// Writes the file `name` atomically: in its current folder if it exists, else in the folder that `context`
    /// selects.
    pub fn write(&self, name: &str, context: Option<TableContext>, fill: FillTable<'_>) -> Result<(), Fault> {
        self.write_atomically(&self.target(name, context)?, name, fill)
    }

    /// The folder in which the file `name` is written: its current folder, else the folder that `context` selects.
    /// Without a context, this is the folder of the namespace's app (without a namespace, of `search`), or the user's
    /// private folder if the user may not write to the app's folder. An error names the roles that may write.
    fn target(&self, name: &str, context: Option<TableContext>) -> Result<PathBuf, Fault> {
        check_writable_name(name)?;
        let is_here = matches!(self.place, TableFolders::WorkingFolder(_));
        if let Some(folder) = self.folder_of(name).filter(|_| !is_here) {
            self.check_access(&folder, KIND, name)?;
            return Ok(folder);
        }
        let shared = match context {
            Some(TableContext::System) => self.system_folder(),
            _ => self.write_folder(),
        };
        match (self.check_access(&shared, KIND, name), self.private_folder(), context) {
            (_, Some(own), Some(TableContext::User)) => Ok(own.path),
            (_, None, Some(TableContext::User)) => Err(Fault::invalid(format!(
                "{name} cannot be private, because no user runs this search: leave out create_context=user"
            ))),
            (Ok(()), ..) => Ok(shared),
            (Err(_), Some(own), None) => Ok(own.path),
            (Err(reason), ..) => Err(reason),
        }
    }

    /// The lookup folder of `etc/system`, for files that belong to no app.
    fn system_folder(&self) -> PathBuf {
        match &self.place {
            TableFolders::WorkingFolder(_) => PathBuf::from("."),
            TableFolders::DataFolder(data_dir) | TableFolders::Namespace(data_dir, _) => {
                data_dir.join("etc/system/lookups")
            }
        }
    }

    /// Fails if the user may not change an object of the app that has this lookup folder.
    pub(crate) fn check_access(&self, lookups: &Path, kind: &str, name: &str) -> Result<(), Fault> {
        let is_own = || self.private_folder().is_some_and(|own| own.path == lookups);
        let (Some(user), Some(app)) = (&self.user, lookups.parent()) else { return Ok(()) };
        if matches!(self.place, TableFolders::WorkingFolder(_)) || is_own() {
            return Ok(());
        }
        let access = access_of(app);
        if access.may_write(kind, name, user) {
            return Ok(());
        }
        let who = match access.writers(kind, name) {
            roles if roles.is_empty() => "an administrator".to_owned(),
            roles => format!("one of the roles {}", roles.join(", ")),
        };
        Err(Fault::denied(format!(
            "{name} is shared by {}: user {} may not change it, because changes require {who}",
            app_name(app),
            user.user
        )))
    }

    /// The folder of private files of the namespace's user, else of the acting user; `None` without a user. The folder
    /// may not exist.
    fn private_folder(&self) -> Option<PrivateFolder> {
        let (data_dir, named, app) = match &self.place {
            TableFolders::WorkingFolder(_) => return None,
            TableFolders::DataFolder(data_dir) => (data_dir, None, DEFAULT_WRITE_APP),
            TableFolders::Namespace(data_dir, view) => (data_dir, view.namespace().user(), view.namespace().app()),
        };
        let user = named.or(self.user.as_ref().map(|user| user.user.as_str()))?;
        check_file_name(user).ok()?;
        let path = data_dir.join("etc/users").join(user).join(app).join("lookups");
        Some(PrivateFolder { user: user.to_owned(), app: app.to_owned(), path, is_named: named.is_some() })
    }

    /// Folders of models in order of lookup, with app and owner.
    fn model_folders(&self, shared: bool) -> Vec<(PathBuf, ModelFile)> {
        let own = self.private_folder();
        let own_of = |folder: &Folder| own.as_ref().filter(|own| own.path == folder.path);
        let named = |folder: Folder| {
            let app = match (&folder.app, own_of(&folder)) {
                (Some(app), _) => app.clone(),
                (None, Some(own)) => own.app.clone(),
                (None, None) => "system".to_owned(),
            };
            let owner = own_of(&folder).map(|own| own.user.clone());
            (folder.path, ModelFile { name: String::new(), app, owner })
        };
        let folders = self.folders().into_iter().filter(|folder| !shared || own_of(folder).is_none());
        folders.map(named).collect()
    }

    fn model_path(&self, name: &str, shared: bool) -> Option<(PathBuf, ModelFile)> {
        let file = model_file(name);
        let sees = |path: &Path, folder: &ModelFile| match folder.owner.is_none() && folder.app != "system" {
            true => self.is_visible(&Folder { app: Some(folder.app.clone()), ..Folder::open(path.to_owned()) }, &file),
            false => true,
        };
        let found = |(path, folder): &(PathBuf, ModelFile)| path.join(&file).is_file() && sees(path, folder);
        let (path, folder) = self.model_folders(shared).into_iter().find(found)?;
        Some((path.join(&file), ModelFile { name: name.to_owned(), ..folder }))
    }

    /// Content of a model; `None` if no model of this name is visible.
    pub(crate) fn model(&self, name: &str, shared: bool) -> Result<Option<Vec<u8>>, Fault> {
        let Some((path, _)) = self.model_path(name, shared) else { return Ok(None) };
        read_bounded("model file", &path, MODEL_BYTES_MAX).map(Some)
    }

    /// Writes a model into the private folder of the namespace's user, or, with `shared` or without a user, into the
    /// app's folder. For a user who may not write to the app, the model becomes private, except with `shared`.
    pub(crate) fn write_model(&self, name: &str, shared: bool, bytes: &[u8]) -> Result<(), Fault> {
        let (file, app) = (model_file(name), self.write_folder());
        let may = self.check_access(&app, KIND, &file);
        let folder = match (may, self.private_folder().filter(|_| !shared)) {
            (_, Some(own)) if own.is_named => own.path,
            (Err(_), Some(own)) => own.path,
            (may, _) => may.map(|()| app)?,
        };
        self.write_atomically(&folder, &file, &mut |out| {
            out.write_all(bytes).map_err(|error| Fault::io(shown_file(&folder.join(&file)), error))
        })
    }

    /// Removes a model of the user or the app; `false` if no model of this name is visible.
    pub(crate) fn remove_model(&self, name: &str, shared: bool) -> Result<bool, Fault> {
        let Some((path, found)) = self.model_path(name, shared) else { return Ok(false) };
        let is_ours = found.owner.is_some() || path.parent() == Some(&self.write_folder());
        if !is_ours {
            return Err(Fault::denied(format!("model {name} belongs to the app {}: remove it there", found.app)));
        }
        if let Some(folder) = path.parent() {
            self.check_access(folder, KIND, &model_file(name))?;
        }
        match &self.shared {
            Some(files) => {
                let _change = files.change()?;
                files.remove(&path)?;
            }
            None => std::fs::remove_file(&path).map_err(|error| Fault::io(shown_file(&path), error))?,
        }
        Ok(true)
    }

    /// The visible models by name; of several models with one name, the first in order of lookup.
    pub(crate) fn models(&self) -> Vec<ModelFile> {
        let mut names = std::collections::BTreeSet::new();
        for (folder, _) in self.model_folders(false) {
            let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let files = files.map(|file| file.file_name().to_string_lossy().into_owned());
            names.extend(
                files.filter_map(|file| Some(file.strip_prefix(MODEL_PREFIX)?.strip_suffix(MODEL_SUFFIX)?.to_owned())),
            );
        }
        names.iter().filter_map(|name| Some(self.model_path(name, false)?.1)).collect()
    }

    /// Writes a file atomically.
    fn write_atomically(&self, folder: &Path, name: &str, fill: FillTable<'_>) -> Result<(), Fault> {
        let failed = |error: std::io::Error| Fault::io(shown_file(&folder.join(name)), error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        // The temporary file's name is unique, because several searches may write one table at the same time.
        let unfinished = folder.join(format!(".{name}.{}.new", WRITE_COUNTER.fetch_add(1, Ordering::Relaxed)));
        let file = std::fs::File::create(&unfinished).map_err(failed)?;
        let mut out = LimitedWriter { out: BufWriter::new(file), left: LOOKUP_BYTES_MAX };
        let filled = fill(&mut out).and_then(|()| out.flush().map_err(failed));
        let moved = filled.and_then(|()| match &self.shared {
            Some(files) => {
                let _change = files.change()?;
                files.move_into_place(&unfinished, &folder.join(name))
            }
            None => std::fs::rename(&unfinished, folder.join(name)).map_err(failed),
        });
        if moved.is_err() {
            // A leftover file is not a table, so a failure to remove it is ignored.
            drop(std::fs::remove_file(&unfinished));
        }
        moved
    }

    /// A version text that changes with the file `name`; `None` if it does not exist.
    pub fn version(&self, name: &str) -> Result<Option<String>, Fault> {
        use std::os::unix::fs::MetadataExt;
        check_name(name)?;
        let Some(path) = self.path(name) else {
            return Ok(None);
        };
        let facts = path.metadata().map_err(|error| Fault::io(shown_file(&path), error))?;
        let changed = (facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec());
        Ok(Some(format!("{} {} {} {changed:?}", path.display(), facts.ino(), facts.len())))
    }

    /// Content of the file `name`; `None` if it does not exist.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        check_name(name)?;
        let Some(path) = self.path(name) else {
            return Ok(None);
        };
        read_bounded("lookup file", &path, LOOKUP_BYTES_MAX).map(Some)
    }
}

fn check_name(name: &str) -> Result<(), Fault> {
    check_file_name(name).map_err(|fault| fault.map_text(|reason| format!("lookup {reason}")))
}

pub(crate) fn no_data_dir(what: &str) -> Fault {
    Fault::unavailable(format!("{what} need a data directory: name one with --data-dir"))
}

/// Refuses a name that is not a plain CSV file name.
fn check_writable_name(name: &str) -> Result<(), Fault> {
    check_name(name)?;
    match name.ends_with(CSV) {
        true => Ok(()),
        false => Err(Fault::invalid(format!(
            "there is no lookup {name} in transforms.conf, and the name of a lookup file ends in {CSV}"
        ))),
    }
}

/// File name of a model.
fn model_file(name: &str) -> String {
    format!("{MODEL_PREFIX}{name}{MODEL_SUFFIX}")
}

/// Number of tables that this process has begun to write; makes temporary names unique.
static WRITE_COUNTER: AtomicU64 = AtomicU64::new(0);

/// A file of a lookup folder as messages show it: its name and its app. Users of a server need not know where the
/// server keeps its files.
fn shown_file(path: &Path) -> String {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let app =
        path.parent().filter(|folder| name(folder).as_deref() == Some(FOLDER)).and_then(Path::parent).and_then(name);
    let file = name(path).unwrap_or_default();
    app.map_or_else(|| file.clone(), |app| format!("{file} of the app {app}"))
}

/// Content of a file up to a maximum size; `what` names the file in messages.
fn read_bounded(what: &str, path: &Path, bytes_max: u64) -> Result<Vec<u8>, Fault> {
    let failed = |error: std::io::Error| Fault::io(format_args!("{what} {}", shown_file(path)), error);
    let length = path.metadata().map_err(failed)?.len();
    if length > bytes_max {
        return Err(Fault::invalid(format!(
            "{what} {}: {length} bytes; the limit for a {what} is {bytes_max}",
            shown_file(path)
        )));
    }
    std::fs::read(path).map_err(failed)
}

/// Limits output to the maximum size of a lookup, so that every written table can be read again.
pub(crate) struct LimitedWriter<W> {
    pub(crate) out: W,
    pub(crate) left: u64,
}

impl<W: Write> Write for LimitedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(std::io::Error::other(format!("the limit for a lookup is {LOOKUP_BYTES_MAX} bytes")));
        }
        let count = self.out.write(bytes)?;
        self.left -= count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Lookup tables: stanzas of transforms.conf, and CSV files by name.
#[derive(Clone)]
pub struct Lookups {
    /// Lookup tables that are files.
    pub files: LookupFiles,
    /// The definitions of transforms.conf.
    pub transforms: Arc<Transforms>,
    /// Collections; `None` without a data directory.
    pub collections: Option<Arc<Collections>>,
    /// The geolocation database; `None` without a data directory.
    pub addresses: Option<Arc<AddressDatabase>>,
    /// Folder that contains a folder for the files of each search; `None` without a data directory.
    pub dispatch: Option<PathBuf>,
}

/// Subfolder for files of `dump` in the folder of a search.
pub const DUMP_FOLDER: &str = "dump";

impl LookupSource for Lookups {
    fn for_user(&self, user: &Arc<Permissions>) -> Option<Arc<dyn LookupSource>> {
        Some(Arc::new(Lookups { files: self.files.with_user(user), ..self.clone() }))
    }

    fn table(&self, name: &str) -> Result<Option<LookupTable>, Fault> {
        let definition = self.transforms.lookup(name);
        if let Some((definition, collection)) = definition.and_then(|found| Some((found, found.collection.as_ref()?))) {
            let csv = self.collection(name, collection, &definition.fields)?;
            return Ok(Some(table_of(csv, definition)));
        }
        let filename = definition.map_or(name, |definition| &definition.filename);
        let Some(bytes) = self.files.read(filename)? else {
            return match definition {
                Some(_) => Err(Fault::invalid(format!("lookup {name}: its file {filename} is in no lookups folder"))),
                None => Ok(None),
            };
        };
        let csv =
            String::from_utf8(bytes).map_err(|_| Fault::invalid(format!("lookup file {filename}: is not UTF-8")))?;
        Ok(Some(match definition {
            None => LookupTable::of_csv(csv),
            Some(definition) => table_of(csv, definition),
        }))
    }

    fn search_locations(&self) -> Option<String> {
        let folders: Vec<String> =
            self.files.folders().iter().map(|folder| self.files.shown_path(&folder.path)).collect();
        Some(format!("transforms.conf, {}", folders.join(", ")))
    }

    fn names(&self) -> Vec<String> {
        let stanzas = self.transforms.lookups().map(|(name, _)| name.to_owned());
        stanzas.chain(self.files.names()).collect()
    }

    fn check_writable(&self, name: &str, context: Option<TableContext>) -> Result<(), Fault> {
        match self.transforms.lookup(name) {
            Some(LookupDefinition { collection: Some(collection), .. }) => self.check_collection(name, collection),
            definition => {
                self.files.target(definition.map_or(name, |definition| &definition.filename), context).map(drop)
            }
        }
    }

    fn write(&self, name: &str, context: Option<TableContext>, fill: FillTable<'_>) -> Result<(), Fault> {
        let definition = self.transforms.lookup(name);
        if let Some((definition, collection)) = definition.and_then(|found| Some((found, found.collection.as_ref()?))) {
            return self.write_collection(name, (collection, &definition.fields), &Rewrite::All, fill);
        }
        self.files.write(definition.map_or(name, |definition| &definition.filename), context, fill)
    }

    fn has_keys(&self, name: &str) -> bool {
        self.transforms.lookup(name).is_some_and(|definition| definition.collection.is_some())
    }

    fn add_rows(&self, name: &str, key_field: Option<&str>, fill: FillTable<'_>) -> Result<bool, Fault> {
        let definition = self.transforms.lookup(name);
        let Some((definition, collection)) = definition.and_then(|found| Some((found, found.collection.as_ref()?)))
        else {
            return Ok(false);
        };
        let rewrite = key_field.filter(|field| *field != KEY).map_or(Rewrite::SameKeys, Rewrite::SameField);
        self.write_collection(name, (collection, &definition.fields), &rewrite, fill)?;
        Ok(true)
    }

    fn dump_file(&self, sid: &str, path: &str) -> Result<Box<dyn Write + Send>, Fault> {
        let dispatch = self.dispatch.as_ref().ok_or_else(|| no_data_dir("dump: files"))?;
        let (shown, path) = (path, dispatch.join(sid).join(DUMP_FOLDER).join(path));
        let failed = |error: std::io::Error| Fault::io(format_args!("dump: {shown}"), error);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = std::fs::File::create_new(&path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Fault::invalid("dump: each dump of a search needs a basefilename= of its own"),
            _ => failed(error),
        })?;
        Ok(Box::new(BufWriter::new(file)))
    }

    fn model(&self, name: &str, shared: bool) -> Result<Option<Vec<u8>>, Fault> {
        self.files.model(name, shared)
    }

    fn write_model(&self, name: &str, shared: bool, bytes: &[u8]) -> Result<(), Fault> {
        self.files.write_model(name, shared, bytes)
    }

    fn remove_model(&self, name: &str, shared: bool) -> Result<bool, Fault> {
        self.files.remove_model(name, shared)
    }

    fn models(&self) -> Result<Vec<ModelFile>, Fault> {
        Ok(self.files.models())
    }

    fn address_locations(&self) -> Result<Option<Arc<dyn AddressLocations>>, Fault> {
        self.addresses.as_ref().map_or(Ok(None), |addresses| addresses.open())
    }
}

/// A table as defined by its stanza.
fn table_of(csv: String, definition: &LookupDefinition) -> LookupTable {
    LookupTable {
        case_sensitive: definition.case_sensitive_match,
        max_matches: definition.max_matches,
        default_match: definition.default_match.clone(),
        min_matches: definition.min_matches,
        wildcard_columns: definition.wildcard_columns.clone(),
        network_columns: definition.network_columns.clone(),
        time: definition.time.as_ref().map(|time| TableTime {
            column: time.field.clone(),
            format: time.format.clone(),
            offsets: (time.max_offset_seconds, time.min_offset_seconds),
        }),
        ..LookupTable::of_csv(csv)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_file_and_its_app_only() {
        for (path, shown) in [
            ("/srv/quarry/etc/apps/shop/lookups/prices.csv", "prices.csv of the app shop"),
            ("/srv/quarry/etc/users/eva/search/lookups/own.csv", "own.csv of the app search"),
            ("./here.csv", "here.csv"),
            ("/tmp/data/here.csv", "here.csv"),
        ] {
            assert_eq!(shown_file(Path::new(path)), shown);
        }
        let data_dir = tempfile::tempdir().unwrap();
        let lookups = data_dir.path().join("etc/apps/shop/lookups");
        std::fs::create_dir_all(lookups.join("prices.csv")).unwrap();
        let files = LookupFiles::for_data_dir(data_dir.path());
        let failed =
            files.write_atomically(&lookups, "prices.csv", &mut |_: &mut dyn Write| Ok(())).unwrap_err().to_string();
        assert!(failed.starts_with("prices.csv of the app shop: "), "{failed}");
    }
}
