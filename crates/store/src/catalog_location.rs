//! Copies the catalog of a data directory from its file to PostgreSQL, and back.
//!
//! The rows are copied in one transaction and verified. Afterwards, the file that names the schema is created or
//! removed. Until that moment the previous catalog is valid, and from then on the new one. After an interruption, the
//! copy can be started again; it then uses another schema, or replaces the unfinished file. A previous catalog file is
//! kept under another name, and a previous schema is left unchanged.
//!
//! Not here: the content of the catalog (catalog), and locating the catalog at start (`data_dir`).

use std::fs::{self, File};
use std::path::Path;

use quarry_catalog::{BucketCheck, Catalog};
use quarry_stdx::SharedClock;

use crate::data_dir::{self, DirLock};
use crate::{StoreError, StoreOptions};

/// File extensions of the former catalog, and of a catalog that is being written.
const FORMER_EXTENSION: &str = "before-migration";
const UNFINISHED_EXTENSION: &str = "migrating";

/// Destination of a copy of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogLocation {
    /// In the file `catalog.sqlite` of the data directory.
    Sqlite,
    /// In a schema of the configured database.
    PostgreSql,
}

/// Result of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogMigrationResult {
    /// Number of copied catalog rows.
    pub rows: u64,
    /// Location of the catalog now.
    pub place: String,
    /// Location of the former catalog, which is kept.
    pub former: String,
}

/// Copies the catalog of a data directory, and makes the copy the catalog of that directory. No other process may have
/// the directory open.
pub fn migrate_catalog(
    options: &StoreOptions,
    to: CatalogLocation,
    clock: &SharedClock,
) -> Result<CatalogMigrationResult, StoreError> {
    let Some(settings) = &options.catalog else { return Err(StoreError::NoDatabase) };
    let dir = &*options.dir;
    if !dir.is_dir() {
        return Err(StoreError::NoData { dir: dir.to_owned() });
    }
    let _lock = DirLock::exclusive(dir)?;
    let (path, schema) = (data_dir::catalog(dir), data_dir::schema(dir)?);
    match (to, schema) {
        (CatalogLocation::PostgreSql, Some(schema)) => {
            // An earlier call that was interrupted after the copy may have left the former catalog under its original
            // name.
            rename_to_former(&path)?;
            Err(StoreError::CatalogAlreadyThere { place: data_dir::place_of(settings, &schema)?.to_string() })
        }
        (CatalogLocation::Sqlite, None) => Err(StoreError::CatalogAlreadyThere { place: path.display().to_string() }),
        (CatalogLocation::PostgreSql, None) => {
            if !path.exists() {
                return Err(StoreError::NoData { dir: dir.to_owned() });
            }
            let from = Catalog::open_existing(&path, BucketCheck::AtOpening)?;
            let schema = data_dir::new_schema();
            let place = data_dir::place_of(settings, &schema)?;
            let target = Catalog::open_postgresql(&place, clock)?;
            let rows = from.copy_to(&target)?;
            drop(target);
            from.close()?;
            data_dir::set_schema(dir, &schema)?;
            let former = rename_to_former(&path)?;
            Ok(CatalogMigrationResult { rows, place: place.to_string(), former })
        }
        (CatalogLocation::Sqlite, Some(schema)) => {
            let place = data_dir::place_of(settings, &schema)?;
            let from = Catalog::open_existing_postgresql(&place, clock, BucketCheck::AtOpening)?;
            rename_to_former(&path)?;
            let unfinished = path.with_added_extension(UNFINISHED_EXTENSION);
            remove_database(&unfinished);
            let target = Catalog::open(&unfinished)?;
            let rows = from.copy_to(&target)?;
            target.close()?;
            drop(from);
            rename(&unfinished, &path)?;
            let marker = data_dir::schema_file(dir);
            let gone = fs::remove_file(&marker).and_then(|()| File::open(dir)?.sync_all());
            gone.map_err(|error| StoreError::from_io("remove", &marker, &error))?;
            Ok(CatalogMigrationResult { rows, place: path.display().to_string(), former: place.to_string() })
        }
    }
}

/// Renames the catalog file, if it exists, to the name of a former catalog. Returns that name.
fn rename_to_former(path: &Path) -> Result<String, StoreError> {
    let former = path.with_added_extension(FORMER_EXTENSION);
    if path.exists() {
        remove_database(&former);
        rename(path, &former)?;
        remove_database(path);
    }
    Ok(former.display().to_string())
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    let folder = to.parent().unwrap_or_else(|| Path::new("."));
    let renamed = fs::rename(from, to).and_then(|()| File::open(folder)?.sync_all());
    renamed.map_err(|error| StoreError::from_io("rename", from, &error))
}

/// Removes an obsolete SQLite database file with its `-wal` and `-shm` files.
fn remove_database(path: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        drop(fs::remove_file(name));
    }
}
