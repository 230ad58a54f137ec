//! `quarry catalog migrate`: moves the catalog of a data directory to PostgreSQL, or back to a file.
//!
//! If nodes share users, knowledge objects and documents of collections, the data directory and the database exchange
//! their latest changes: before a move to a file, and after a move to PostgreSQL.
//!
//! The verb runs in this process, and needs the server to be stopped, because a running server has the catalog open.

use std::io::Write;
use std::path::Path;

use quarry_collections::Collections;
use quarry_stdx::{Fault, log};
use quarry_store::CatalogLocation;

use crate::cli::CatalogTo;
use crate::data_directory::{self, Settings, environment_variables};
use crate::failure::Failure;

/// Copies the catalog, and prints its new location and the location of the former catalog.
pub(crate) fn migrate(data_dir: &Path, to: CatalogTo) -> Result<u8, Failure> {
    let Settings { layers, clock, .. } = Settings::of_data_dir(data_dir);
    let to = match to {
        CatalogTo::Postgresql => CatalogLocation::PostgreSql,
        CatalogTo::Sqlite => CatalogLocation::Sqlite,
    };
    let share = || -> Result<(), Failure> {
        let settings = Settings::of_data_dir_quietly(data_dir);
        // While the store is open, no other process can change the data directory.
        let store = data_directory::open_existing(data_dir, &settings)?;
        let shared =
            quarry_ingest::open_shared_files(data_dir, &settings.layers, &settings.clock, &environment_variables());
        let shared_documents = || -> Result<(), Fault> {
            let Some(shared) = shared? else { return Ok(()) };
            Ok(Collections::of_data_dir(data_dir).share_through(shared.documents())?)
        };
        let shared = shared_documents();
        store.close();
        Ok(shared?)
    };
    if to == CatalogLocation::Sqlite {
        // Applies the latest changes of other nodes to the data directory, which is used without the database
        // afterwards.
        share()?;
    }
    let migrated = quarry_ingest::migrate_catalog_of(data_dir, &layers, &clock, &environment_variables(), to)?;
    if to == CatalogLocation::PostgreSql {
        share()?;
    }
    writeln!(std::io::stdout(), "{} rows copied; the catalog is in {}", migrated.rows, migrated.place)?;
    log::info(format!("the previous catalog is kept but no longer used: {}", migrated.former));
    if to == CatalogLocation::Sqlite {
        log::info("remove [catalog] url from server.conf before the next start");
    }
    Ok(0)
}
