//! Lookup tables as files: `D/etc/apps/*/lookups`, `D/etc/system/lookups`, and the working folder for searches
//! that run without a data folder; in a namespace those that its view sees, and the user's own before all others; and collections (KV store), which are tables too. A name is a bare file name; paths are refused, so a search cannot read elsewhere.
//!
//! What an app has is changed by those whom its metadata let ([`ObjectAccess`]). Others have files of their own, which
//! they alone see: a new file of theirs goes there.

use std::cell::OnceCell;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_collections::{Collections, KEY};
use quarry_conf::file_name::check_file_name;
use quarry_conf::{LookupDefinition, ObjectAccess, Permissions, Transforms, View};
use quarry_engine::{AddressLocations, FillTable, LookupSource, LookupTable, ModelFile, TableContext, TableTime};
use quarry_stdx::Fault;

use crate::address_database::AddressDatabase;
use crate::collection_tables::Rewrite;
use crate::configuration::access_of;
use crate::folders::{app_folders, app_name};

/// Kind of these files where apps say what they share.
pub(crate) const KIND: &str = "lookups";
/// Where a search without a namespace writes new files.
const APP_WRITTEN: &str = "search";

/// Largest lookup file read, in bytes.
pub(crate) const LOOKUP_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What names of these files end in.
pub(crate) const CSV: &str = ".csv";
/// Largest model read, in bytes.
const MODEL_BYTES_MAX: u64 = 15 * 1024 * 1024;
/// What names of files of models begin with, as in Splunk.
const MODEL_PREFIX: &str = "__mlspl_";
/// What they end with.
const MODEL_SUFFIX: &str = ".mlmodel";

/// Finds and reads lookup files.
#[derive(Clone, Debug)]
pub struct LookupFiles {
    pub(crate) place: TableFolders,
    /// Who reads and writes; without anyone, the node itself, which may.
    user: Option<Arc<Permissions>>,
}

#[derive(Clone, Debug)]
pub(crate) enum TableFolders {
    /// A data folder.
    DataFolder(PathBuf),
    /// A data folder as a namespace sees it.
    Namespace(PathBuf, Arc<View>),
    WorkingFolder,
}

/// A folder with files.
struct Folder {
    path: PathBuf,
    /// The app that says which of them are seen.
    app: Option<String>,
    /// Who may read them, as the app says, from when it is asked.
    access: OnceCell<ObjectAccess>,
}

impl Folder {
    fn open(path: PathBuf) -> Folder {
        Folder { path, app: None, access: OnceCell::new() }
    }

    /// Whether a user may read a file of it.
    fn may_read(&self, name: &str, user: &Permissions) -> bool {
        let (Some(_), Some(app)) = (&self.app, self.path.parent()) else { return true };
        self.access.get_or_init(|| access_of(app)).may_read(KIND, name, user)
    }
}

/// The folder of somebody's own files in an app.
struct OwnFolder {
    user: String,
    app: String,
    path: PathBuf,
    /// Whether the namespace names the user.
    is_named: bool,
}

impl LookupFiles {
    /// Lookups of a data folder: an app's before the system's, apps in ASCII order.
    pub fn of_data_dir(data_dir: &Path) -> LookupFiles {
        LookupFiles { place: TableFolders::DataFolder(data_dir.to_owned()), user: None }
    }

    /// Lookups of a data folder that a view sees: the user's, the app's, those that other apps share, the system's.
    pub fn of_view(data_dir: &Path, view: &Arc<View>) -> LookupFiles {
        LookupFiles { place: TableFolders::Namespace(data_dir.to_owned(), Arc::clone(view)), user: None }
    }

    /// Lookups of the working folder.
    pub fn of_working_folder() -> LookupFiles {
        LookupFiles { place: TableFolders::WorkingFolder, user: None }
    }

    /// The same files as a user sees and may change them.
    pub(crate) fn of_user(&self, user: &Arc<Permissions>) -> LookupFiles {
        LookupFiles { place: self.place.clone(), user: Some(Arc::clone(user)) }
    }

    /// Who reads and writes, if anybody but the node itself.
    pub(crate) fn user(&self) -> Option<&Permissions> {
        self.user.as_deref()
    }

    /// Folders with files, as they are at this moment: a search may have made one.
    fn folders(&self) -> Vec<Folder> {
        let (data_dir, view) = match &self.place {
            TableFolders::WorkingFolder => return vec![Folder::open(PathBuf::from("."))],
            TableFolders::DataFolder(data_dir) => (data_dir, None),
            TableFolders::Namespace(data_dir, view) => (data_dir, Some(view.as_ref())),
        };
        let mut folders: Vec<Folder> = self.own().into_iter().map(|own| Folder::open(own.path)).collect();
        let apps = app_folders(data_dir, view).into_iter();
        folders.extend(apps.map(|app| Folder { app: Some(app_name(&app)), ..Folder::open(app.join("lookups")) }));
        folders.retain(|folder| folder.path.is_dir());
        folders.push(Folder::open(data_dir.join("etc/system/lookups")));
        folders
    }

    fn sees(&self, folder: &Folder, name: &str) -> bool {
        let is_near = match (&self.place, &folder.app) {
            (TableFolders::Namespace(_, view), Some(app)) => view.sees(app, KIND, name),
            _ => true,
        };
        is_near && self.user.as_ref().is_none_or(|user| folder.may_read(name, user))
    }

    /// The folder that has the file called `name`.
    fn folder_of(&self, name: &str) -> Option<PathBuf> {
        let holds = |folder: &Folder| folder.path.join(name).is_file() && self.sees(folder, name);
        self.folders().into_iter().find(holds).map(|folder| folder.path)
    }

    /// Where the file called `name` is.
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.folder_of(name).map(|folder| folder.join(name))
    }

    /// Where new files go.
    fn written(&self) -> PathBuf {
        let (data_dir, app) = match &self.place {
            TableFolders::WorkingFolder => return PathBuf::from("."),
            TableFolders::DataFolder(data_dir) => (data_dir, APP_WRITTEN),
            TableFolders::Namespace(_, view) if view.namespace().app() == "system" => {
                return self.of_system();
            }
            TableFolders::Namespace(data_dir, view) => (data_dir, view.namespace().app()),
        };
        data_dir.join("etc/apps").join(app).join("lookups")
    }

    /// The same files as a viewer sees them.
    pub fn seen_by(&self, viewer: &Permissions) -> LookupFiles {
        self.of_user(&Arc::new(viewer.clone()))
    }

    /// Names of the files there are.
    pub fn names(&self) -> Vec<String> {
        let names_in = |folder: &Folder| {
            let entries = std::fs::read_dir(&folder.path).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.filter(|name| name.ends_with(CSV) && self.sees(folder, name)).collect::<Vec<_>>()
        };
        self.folders().iter().flat_map(names_in).collect()
    }

    /// Writes the file called `name`, whole or not at all: where it is, else where `context` says.
    pub fn write(&self, name: &str, context: Option<TableContext>, fill: FillTable<'_>) -> Result<(), Fault> {
        write_whole(&self.target(name, context)?, name, fill)
    }

    /// The folder that the file called `name` is written into: where it is, else where `context` says. Without one that is the
    /// app's, of the namespace or `search`, or, where the user may not write there, the user's own. An error says who may.
    fn target(&self, name: &str, context: Option<TableContext>) -> Result<PathBuf, Fault> {
        check_written(name)?;
        if let Some(folder) = self.folder_of(name) {
            self.check_access(&folder, KIND, name)?;
            return Ok(folder);
        }
        let shared = match context {
            Some(TableContext::System) => self.of_system(),
            _ => self.written(),
        };
        match (self.check_access(&shared, KIND, name), self.own(), context) {
            (_, Some(own), Some(TableContext::User)) => Ok(own.path),
            (_, None, Some(TableContext::User)) => {
                Err(Fault::invalid(format!("{name} has no user whose own it would be: leave out create_context=user")))
            }
            (Ok(()), ..) => Ok(shared),
            (Err(_), Some(own), None) => Ok(own.path),
            (Err(reason), ..) => Err(reason),
        }
    }

    /// Where files are that belong to no app.
    fn of_system(&self) -> PathBuf {
        match &self.place {
            TableFolders::WorkingFolder => PathBuf::from("."),
            TableFolders::DataFolder(data_dir) | TableFolders::Namespace(data_dir, _) => {
                data_dir.join("etc/system/lookups")
            }
        }
    }

    /// Refuses a change of an object of the app whose folder of lookups this is, if the user may not change it.
    pub(crate) fn check_access(&self, lookups: &Path, kind: &str, name: &str) -> Result<(), Fault> {
        let is_own = || self.own().is_some_and(|own| own.path == lookups);
        let (Some(user), Some(app)) = (&self.user, lookups.parent()) else { return Ok(()) };
        if matches!(self.place, TableFolders::WorkingFolder) || is_own() {
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
            "{name} is shared by {}: user {} may not change it, which takes {who}",
            app_name(app),
            user.user
        )))
    }

    /// Where the user's own files are, there or not: those of the user of the namespace, else of whoever searches; `None`
    /// where there is no user.
    fn own(&self) -> Option<OwnFolder> {
        let (data_dir, named, app) = match &self.place {
            TableFolders::WorkingFolder => return None,
            TableFolders::DataFolder(data_dir) => (data_dir, None, APP_WRITTEN),
            TableFolders::Namespace(data_dir, view) => (data_dir, view.namespace().user(), view.namespace().app()),
        };
        let user = named.or(self.user.as_ref().map(|user| user.user.as_str()))?;
        check_file_name(user).ok()?;
        let path = data_dir.join("etc/users").join(user).join(app).join("lookups");
        Some(OwnFolder { user: user.to_owned(), app: app.to_owned(), path, is_named: named.is_some() })
    }

    /// Where models are looked for, those that are found first in front, with their app and whose they are.
    fn model_folders(&self, shared: bool) -> Vec<(PathBuf, ModelFile)> {
        let own = self.own();
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

    /// Where the model is.
    fn model_path(&self, name: &str, shared: bool) -> Option<(PathBuf, ModelFile)> {
        let file = model_file(name);
        let sees = |path: &Path, folder: &ModelFile| match folder.owner.is_none() && folder.app != "system" {
            true => self.sees(&Folder { app: Some(folder.app.clone()), ..Folder::open(path.to_owned()) }, &file),
            false => true,
        };
        let found = |(path, folder): &(PathBuf, ModelFile)| path.join(&file).is_file() && sees(path, folder);
        let (path, folder) = self.model_folders(shared).into_iter().find(found)?;
        Some((path.join(&file), ModelFile { name: name.to_owned(), ..folder }))
    }

    /// Bytes of a model; `None` when none of this name is seen.
    pub(crate) fn model(&self, name: &str, shared: bool) -> Result<Option<Vec<u8>>, Fault> {
        let Some((path, _)) = self.model_path(name, shared) else { return Ok(None) };
        read_bounded("model file", &path, MODEL_BYTES_MAX).map(Some)
    }

    /// Keeps a model in the own folder of the namespace's user, or with `shared` and without a user in that of the app; who
    /// may not write there has it for themselves, but not with `shared`.
    pub(crate) fn write_model(&self, name: &str, shared: bool, bytes: &[u8]) -> Result<(), Fault> {
        let (file, app) = (model_file(name), self.written());
        let may = self.check_access(&app, KIND, &file);
        let folder = match (may, self.own().filter(|_| !shared)) {
            (_, Some(own)) if own.is_named => own.path,
            (Err(_), Some(own)) => own.path,
            (may, _) => may.map(|()| app)?,
        };
        write_whole(&folder, &file, &mut |out| {
            out.write_all(bytes).map_err(|error| Fault::io(folder.join(&file).display(), error))
        })
    }

    /// Removes a model of the user or of the app; `false` when none of this name is seen.
    pub(crate) fn remove_model(&self, name: &str, shared: bool) -> Result<bool, Fault> {
        let Some((path, found)) = self.model_path(name, shared) else { return Ok(false) };
        let is_ours = found.owner.is_some() || path.parent() == Some(&self.written());
        if !is_ours {
            return Err(Fault::denied(format!("model {name} is one of the app {}: remove it there", found.app)));
        }
        if let Some(folder) = path.parent() {
            self.check_access(folder, KIND, &model_file(name))?;
        }
        std::fs::remove_file(&path).map_err(|error| Fault::io(path.display(), error))?;
        Ok(true)
    }

    /// The models that are seen, by name; of several of a name the one that is found first.
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

    /// A text that changes with the file called `name`; `None` when no folder has it.
    pub fn state(&self, name: &str) -> Result<Option<String>, Fault> {
        use std::os::unix::fs::MetadataExt;
        check_name(name)?;
        let Some(path) = self.path(name) else {
            return Ok(None);
        };
        let facts = path.metadata().map_err(|error| Fault::io(path.display(), error))?;
        let changed = (facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec());
        Ok(Some(format!("{} {} {} {changed:?}", path.display(), facts.ino(), facts.len())))
    }

    /// Bytes of the file called `name`; `None` when no folder has it.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        check_name(name)?;
        let Some(path) = self.path(name) else {
            return Ok(None);
        };
        read_bounded("lookup file", &path, LOOKUP_BYTES_MAX).map(Some)
    }
}

fn check_name(name: &str) -> Result<(), Fault> {
    check_file_name(name).map_err(|fault| fault.reworded(|reason| format!("lookup {reason}")))
}

pub(crate) fn no_data_dir(what: &str) -> Fault {
    Fault::unavailable(format!("{what} need a data folder: name one with --data-dir"))
}

/// Refuses a name that is not one of a CSV file in a folder of lookups.
fn check_written(name: &str) -> Result<(), Fault> {
    check_name(name)?;
    match name.ends_with(CSV) {
        true => Ok(()),
        false => Err(Fault::invalid(format!(
            "lookup {name}: it is no lookup of transforms.conf, and the name of a file ends in {CSV}"
        ))),
    }
}

/// Name of the file of a model.
fn model_file(name: &str) -> String {
    format!("{MODEL_PREFIX}{name}{MODEL_SUFFIX}")
}

/// Bytes of a file that has not more than so many; `what` it is, for messages.
fn read_bounded(what: &str, path: &Path, bytes_max: u64) -> Result<Vec<u8>, Fault> {
    let failed = |error: std::io::Error| Fault::io(format_args!("{what} {}", path.display()), error);
    let length = path.metadata().map_err(failed)?.len();
    if length > bytes_max {
        return Err(Fault::invalid(format!(
            "{what} {}: {length} bytes, the limit for a {what} is {bytes_max}",
            path.display()
        )));
    }
    std::fs::read(path).map_err(failed)
}

/// Writes a file, whole or not at all.
fn write_whole(folder: &Path, name: &str, fill: FillTable<'_>) -> Result<(), Fault> {
    let failed = |error: std::io::Error| Fault::io(folder.join(name).display(), error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let unfinished = folder.join(format!(".{name}.new"));
    let file = std::fs::File::create(&unfinished).map_err(failed)?;
    let mut out = Limited { out: BufWriter::new(file), left: LOOKUP_BYTES_MAX };
    let filled = fill(&mut out).and_then(|()| out.flush().map_err(failed));
    let moved = filled.and_then(|()| std::fs::rename(&unfinished, folder.join(name)).map_err(failed));
    if moved.is_err() {
        // What stays behind is no table, and the reason is told already.
        drop(std::fs::remove_file(&unfinished));
    }
    moved
}

/// Takes no more bytes than a lookup may have: a table that nobody can read again is not written.
pub(crate) struct Limited<W> {
    pub(crate) out: W,
    pub(crate) left: u64,
}

impl<W: Write> Write for Limited<W> {
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

/// Lookup tables: stanzas of transforms.conf, and CSV files by their name.
#[derive(Clone)]
pub struct Lookups {
    /// The files.
    pub files: LookupFiles,
    /// The definitions of transforms.conf.
    pub transforms: Arc<Transforms>,
    /// The collections; `None` where there is no data folder.
    pub collections: Option<Arc<Collections>>,
    /// The database of addresses; `None` where there is no data folder.
    pub addresses: Option<Arc<AddressDatabase>>,
    /// Folder of the searches' own files; `None` where there is no data folder.
    pub dispatch: Option<PathBuf>,
}

/// Folder of the files of `dump`, in the folder of a search.
pub const DUMP_FOLDER: &str = "dump";

impl LookupSource for Lookups {
    fn of_user(&self, user: &Arc<Permissions>) -> Option<Arc<dyn LookupSource>> {
        Some(Arc::new(Lookups { files: self.files.of_user(user), ..self.clone() }))
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

    fn searched(&self) -> Option<String> {
        let folders: Vec<String> =
            self.files.folders().iter().map(|folder| folder.path.display().to_string()).collect();
        Some(format!("transforms.conf, {}", folders.join(", ")))
    }

    fn names(&self) -> Vec<String> {
        let stanzas = self.transforms.lookups().map(|(name, _)| name.to_owned());
        stanzas.chain(self.files.names()).collect()
    }

    fn check_written(&self, name: &str, context: Option<TableContext>) -> Result<(), Fault> {
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
        let path = dispatch.join(sid).join(DUMP_FOLDER).join(path);
        let failed = |error: std::io::Error| Fault::io(format_args!("dump: {}", path.display()), error);
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

    fn places(&self) -> Result<Option<Arc<dyn AddressLocations>>, Fault> {
        self.addresses.as_ref().map_or(Ok(None), |addresses| addresses.open())
    }
}

/// A table as its stanza says.
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
