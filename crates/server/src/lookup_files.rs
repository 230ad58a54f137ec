//! Lookup tables as files: `D/etc/apps/*/lookups`, `D/etc/system/lookups`, and the working folder for searches
//! that run without a data folder. A name is a bare file name; paths are refused, so a search cannot read elsewhere.

use std::path::{Path, PathBuf};

use quarry_conf::Transforms;
use quarry_engine::{LookupSource, LookupTable};

/// Largest lookup file read, in bytes.
const LOOKUP_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Finds and reads lookup files.
#[derive(Clone, Debug)]
pub(crate) struct LookupFiles {
    folders: Vec<PathBuf>,
    /// Where new files go.
    written: PathBuf,
}

impl LookupFiles {
    /// Lookups of a data folder: an app's before the system's, apps in ASCII order.
    pub(crate) fn of_data_dir(data_dir: &Path) -> LookupFiles {
        let mut folders: Vec<PathBuf> = std::fs::read_dir(data_dir.join("etc/apps"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().join("lookups"))
            .filter(|folder| folder.is_dir())
            .collect();
        folders.sort();
        folders.push(data_dir.join("etc/system/lookups"));
        LookupFiles { folders, written: data_dir.join("etc/apps/search/lookups") }
    }

    /// Lookups of the working folder.
    pub(crate) fn of_working_folder() -> LookupFiles {
        LookupFiles { folders: vec![PathBuf::from(".")], written: PathBuf::from(".") }
    }

    /// Names of the files there are.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = self.folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".csv")).collect()
    }

    /// Writes the file called `name`, whole or not at all: where it is, else into the app `search`.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        if name.contains(['/', '\\']) || name.starts_with('.') || !name.ends_with(".csv") {
            return Err(format!("lookup {name}: give the name of a lookup or of a .csv file, without a path"));
        }
        let existing = self.folders.iter().find(|folder| folder.join(name).is_file());
        let folder = existing.unwrap_or(&self.written);
        let failed = |error: std::io::Error| format!("{}: {error}", folder.join(name).display());
        std::fs::create_dir_all(folder).map_err(failed)?;
        let unfinished = folder.join(format!(".{name}.new"));
        std::fs::write(&unfinished, text).map_err(failed)?;
        std::fs::rename(&unfinished, folder.join(name)).map_err(failed)
    }

    /// Bytes of the file called `name`; `None` when no folder has it.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        if name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(format!("lookup {name}: give a file name without a path"));
        }
        let Some(path) = self.folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()) else {
            return Ok(None);
        };
        let length = path.metadata().map_err(|error| format!("{}: {error}", path.display()))?.len();
        if length > LOOKUP_BYTES_MAX {
            return Err(format!(
                "{}: {length} bytes, the limit for a lookup file is {LOOKUP_BYTES_MAX}",
                path.display()
            ));
        }
        std::fs::read(&path).map(Some).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Lookup tables: stanzas of transforms.conf, and CSV files by their name.
pub(crate) struct Lookups {
    pub(crate) files: LookupFiles,
    pub(crate) transforms: Transforms,
}

impl LookupSource for Lookups {
    fn table(&self, name: &str) -> Result<Option<LookupTable>, String> {
        let definition = self.transforms.lookup(name);
        let filename = definition.map_or(name, |definition| &definition.filename);
        let Some(bytes) = self.files.read(filename)? else {
            return match definition {
                Some(_) => Err(format!("lookup {name}: its file {filename} is in no lookups folder")),
                None => Ok(None),
            };
        };
        let csv = String::from_utf8(bytes).map_err(|_| format!("lookup file {filename}: is not UTF-8"))?;
        let table = LookupTable::of_csv(csv);
        Ok(Some(match definition {
            None => table,
            Some(definition) => LookupTable {
                case_sensitive: definition.case_sensitive_match,
                max_matches: definition.max_matches,
                default_match: definition.default_match.clone(),
                min_matches: definition.min_matches,
                wildcard_columns: definition.wildcard_columns.clone(),
                network_columns: definition.network_columns.clone(),
                ..table
            },
        }))
    }

    fn names(&self) -> Vec<String> {
        let stanzas = self.transforms.lookups().map(|(name, _)| name.to_owned());
        stanzas.chain(self.files.names()).collect()
    }

    fn write(&self, name: &str, csv: &str) -> Result<(), String> {
        let definition = self.transforms.lookup(name);
        self.files.write(definition.map_or(name, |definition| &definition.filename), csv)
    }
}
