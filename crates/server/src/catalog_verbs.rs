//! `quarry catalog migrate`: moves the catalog of a data directory to PostgreSQL, or back to a file.
//!
//! Users and knowledge objects that nodes share are brought up to date there and here.
//!
//! It runs in this process: a server has its catalog open for as long as it runs.

use std::io::Write;
use std::path::Path;

use quarry_stdx::log;
use quarry_store::CatalogPlace;

use crate::cli::CatalogTo;
use crate::data_directory::{self, Settings, variables};
use crate::failure::Failure;

/// Copies the catalog, and says where it is now and where the former one is kept.
pub(crate) fn migrate(data_dir: &Path, to: CatalogTo) -> Result<u8, Failure> {
    let Settings { layers, clock, .. } = Settings::of_data_dir(data_dir);
    let to = match to {
        CatalogTo::Postgresql => CatalogPlace::PostgreSql,
        CatalogTo::Sqlite => CatalogPlace::Sqlite,
    };
    let share = || -> Result<(), Failure> {
        let settings = Settings::of_data_dir_quietly(data_dir);
        // No other process changes the data directory during this.
        let store = data_directory::open_existing(data_dir, &settings)?;
        let shared = quarry_ingest::open_shared_files(data_dir, &settings.layers, &settings.clock, &variables());
        store.close();
        Ok(shared.map(drop)?)
    };
    if to == CatalogPlace::Sqlite {
        // What other nodes have changed last stays here.
        share()?;
    }
    let migrated = quarry_ingest::migrate_catalog_of(data_dir, &layers, &clock, &variables(), to)?;
    if to == CatalogPlace::PostgreSql {
        share()?;
    }
    writeln!(std::io::stdout(), "{} rows copied; the catalog is in {}", migrated.rows, migrated.place)?;
    log::info(format!("the previous catalog is kept but no longer used: {}", migrated.former));
    if to == CatalogPlace::Sqlite {
        log::info("remove [catalog] url from server.conf before the next start");
    }
    Ok(0)
}
