//! `quarry index migrate` and `quarry bucket rebuild-catalog`: buckets on remote volumes.
//!
//! A migration runs in the server if a server is running. A catalog is rebuilt in this process, because no server can
//! run without a catalog.

use std::io::Write;
use std::path::Path;

use quarry_search::cell::format_iso_time;
use quarry_stdx::log;
use quarry_store::MigrationResult;
use serde_json::{Value, json};

use crate::bucket::print;
use crate::cli::{MigrateArgs, RebuildCatalogArgs};
use crate::data_directory::{Settings, environment_variables, open_existing};
use crate::failure::{self, Failure};
use crate::server_client::Remote;
use crate::zone;

/// Value of `--to` for the data directory.
pub(crate) const LOCAL: &str = "local";

const STORE_COLUMNS: &[&str] = &["store", "buckets", "newest", "places"];

/// Moves the buckets of an index to the configured location; fails if some buckets could not be moved.
pub(crate) fn migrate(data_dir: &Path, arguments: &MigrateArgs) -> Result<u8, Failure> {
    let MigrateArgs { index, to } = arguments;
    let report = match Remote::find(data_dir) {
        Some(remote) => remote.migrate(index, to)?,
        None => migration(&open_existing(data_dir, &Settings::of_data_dir(data_dir))?.migrate(index, volume_of(to))?),
    };
    let [moved, bytes, there, waiting] =
        ["moved", "bytes", "there", "waiting"].map(|key| report[key].as_u64().unwrap_or(0));
    let place = if volume_of(to).is_some() { "on the volume" } else { "in the data directory" };
    writeln!(std::io::stdout(), "{moved} buckets of {bytes} bytes moved, {there} were already {place}")?;
    if waiting > 0 {
        log::info(format!("the old objects of {waiting} buckets are deleted when searches that read them have ended"));
    }
    let left = report["left"].as_array().map(Vec::as_slice).unwrap_or_default();
    for bucket in left {
        let text = |key: &str| bucket[key].as_str().unwrap_or_default();
        log::warning(format!("bucket {} was not moved: {}", text("bucket"), text("reason")));
    }
    Ok(if left.is_empty() { 0 } else { failure::PARTIAL })
}

/// The volume that `--to` names; `None` for the data directory.
pub(crate) fn volume_of(to: &str) -> Option<&str> {
    (to != LOCAL).then_some(to)
}

/// The report of a migration as an object.
pub(crate) fn migration(report: &MigrationResult) -> Value {
    let left = |left: &quarry_store::Damage| json!({ "bucket": left.bucket, "reason": left.reason });
    json!({
        "moved": report.moved,
        "bytes": report.bytes,
        "there": report.already_there,
        "waiting": report.waiting,
        "left": report.not_moved.iter().map(left).collect::<Vec<_>>(),
    })
}

/// Rebuilds the catalog from the objects of a data directory on volumes; without an id, lists the ids of the data
/// directories found.
pub(crate) fn rebuild_catalog(data_dir: &Path, arguments: &RebuildCatalogArgs) -> Result<u8, Failure> {
    let Settings { layers, clock, .. } = Settings::of_data_dir(data_dir);
    let Some(id) = &arguments.store else {
        let found = quarry_ingest::data_directories_on_volumes(&layers, &clock, &environment_variables())?;
        let zone = zone::machine();
        let row = |store: quarry_store::StoreOnVolumes| {
            let places: Vec<String> = store.places.into_iter().collect();
            json!({
                "store": store.id,
                "buckets": store.buckets,
                "newest": format_iso_time(store.newest_ns, &zone),
                "places": places.join(" "),
            })
        };
        print(&found.into_iter().map(row).collect(), STORE_COLUMNS, arguments.output)?;
        log::info(
            "these data directories have buckets on the volumes of indexes.conf; use --store ID to select the one \
             that lost its catalog. Make sure that no other machine uses it",
        );
        return Ok(failure::USAGE);
    };
    let rebuilt = quarry_ingest::rebuild_catalog_of(data_dir, &layers, &clock, &environment_variables(), id)?;
    writeln!(std::io::stdout(), "{} buckets with {} events", rebuilt.buckets, rebuilt.events)?;
    if rebuilt.replaced > 0 {
        log::info(format!("{} others were merged into these, and will be deleted by the server", rebuilt.replaced));
    }
    for (key, reason) in &rebuilt.refused {
        log::warning(format!("{key} is skipped and stays on its volume: {reason}"));
    }
    Ok(if rebuilt.refused.is_empty() { 0 } else { failure::PARTIAL })
}
