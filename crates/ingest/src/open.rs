//! Opens the store of a data directory as configured.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quarry_catalog::{PostgreSqlLocation, PostgreSqlSettings};
use quarry_conf::{CatalogSettings, IndexSettings, IndexesConf, Layers, ServerSettings};
use quarry_inputs::InputSettings;
use quarry_sharing::SharedFolder;
use quarry_stdx::{Fault, SharedClock, private_folder};
use quarry_store::{
    CatalogLocation, CatalogMigrationResult, MergeOptions, RebuildResult, RetentionRule, Store, StoreError,
    StoreOnVolumes, StoreOptions, migrate_catalog, rebuild_catalog, stores_on_volumes,
};

use crate::error::IngestError;
use crate::volumes::remote_options;

/// Time in seconds between the expiry of an index's last events and their removal.
const EMPTYING_DELAY_SECS: u64 = 24 * 60 * 60;
/// Age limit in seconds with which Splunk's SDKs empty an index (`clean`). Nobody sets it by mistake, so nothing is
/// delayed.
const CLEANING_AGE_SECS: u64 = 1;
/// A merged bucket holds at most this fraction (1/n) of an index's retained size and time span.
const RETENTION_DIVISOR: u64 = 8;
/// Maximum length of a cluster's name.
const CLUSTER_BYTES_MAX: usize = 40;
/// Attempts to open a data directory that another process has open, and the pause between them.
const LOCK_ATTEMPTS_MAX: usize = 50;
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The settings of an index in indexes.conf.
pub fn index_settings(layers: &Layers, name: &str) -> IndexSettings {
    let conf = IndexesConf::new(layers);
    conf.get(name).unwrap_or_else(|| conf.defaults())
}

/// Retention settings of the given indexes.
pub fn retention(layers: &Layers, indexes: impl IntoIterator<Item = String>) -> Vec<RetentionRule> {
    let rule = |index: String| {
        let settings = index_settings(layers, &index);
        let limit = |megabytes: u64| Some(megabytes.saturating_mul(1 << 20)).filter(|most| *most > 0);
        // An index that is cleaned also loses the events of the last second.
        let (max_age_secs, empties_after_secs) = match settings.frozen_time_period_seconds {
            CLEANING_AGE_SECS => (0, 0),
            seconds => (seconds, EMPTYING_DELAY_SECS),
        };
        RetentionRule {
            index,
            max_age_secs,
            max_stored_bytes: limit(settings.max_data_size_mb),
            max_raw_bytes: limit(settings.max_raw_data_size_mb),
            empties_after_secs,
            archives: settings.cold_to_frozen_dir.is_some() || settings.cold_to_frozen_script.is_some(),
        }
    };
    indexes.into_iter().map(rule).collect()
}

/// Environment variables that may contain keys of remote stores and passwords of databases, with their values.
pub type Variables = [(String, String)];

/// Opens the store of `data_dir` for adding; creates the folder if missing.
pub fn open_to_add(
    data_dir: &Path,
    settings: &InputSettings,
    variables: &Variables,
) -> Result<Arc<Store>, IngestError> {
    make_private(data_dir)?;
    let options = store_options(data_dir, settings, variables)?;
    let store = open_with_retries(|| Store::open(options.clone(), settings.clock.clone()))?;
    Ok(store)
}

/// Like [`open_to_add`], for a server: merges buckets in the background.
pub fn open_to_serve(
    data_dir: &Path,
    settings: &InputSettings,
    variables: &Variables,
) -> Result<Arc<Store>, IngestError> {
    make_private(data_dir)?;
    let mut options = store_options(data_dir, settings, variables)?;
    options.compaction.bucket_merging = true;
    let store = open_with_retries(|| Store::open(options.clone(), settings.clock.clone()))?;
    Ok(store)
}

/// Makes an existing data directory private; refuses a folder that is not a data directory.
fn make_private(data_dir: &Path) -> Result<(), IngestError> {
    if let Some(entry) = private_folder::foreign_entry(data_dir) {
        let entry = entry.to_string_lossy().into_owned();
        return Err(IngestError::ForeignFolder { folder: data_dir.to_owned(), entry });
    }
    private_folder::make_private(data_dir);
    Ok(())
}

/// Opens an existing store for writing.
pub fn open_existing(
    data_dir: &Path,
    settings: &InputSettings,
    variables: &Variables,
) -> Result<Arc<Store>, IngestError> {
    check_exists(data_dir)?;
    open_to_add(data_dir, settings, variables)
}

/// Fails if the data directory does not exist.
pub fn check_exists(data_dir: &Path) -> Result<(), IngestError> {
    if data_dir.is_dir() {
        return Ok(());
    }
    Err(IngestError::NoDataFolder(data_dir.to_owned()))
}

/// Opens the store for reading, by a process that ends after a search or two, so that caching decoded columns would not
/// pay.
pub fn open_read_only(
    data_dir: &Path,
    layers: &Layers,
    clock: &SharedClock,
    variables: &Variables,
) -> Result<Arc<Store>, IngestError> {
    check_exists(data_dir)?;
    let remote = remote_options(layers, clock, variables)?;
    let catalog = catalog_settings(data_dir, layers, variables)?;
    let options = StoreOptions { remote, catalog, column_cache_bytes: 0, ..StoreOptions::at(data_dir) };
    Ok(open_with_retries(|| Store::open_read_only(options.clone(), clock.clone()))?)
}

/// Lists the data directories that have buckets on the volumes of indexes.conf.
pub fn data_directories_on_volumes(
    layers: &Layers,
    clock: &SharedClock,
    variables: &Variables,
) -> Result<Vec<StoreOnVolumes>, IngestError> {
    let remote = remote_options(layers, clock, variables)?.ok_or(StoreError::NoVolumes)?;
    Ok(stores_on_volumes(&remote)?)
}

/// Rebuilds the catalog of an empty data directory from the objects that data directory `id` has on the volumes.
pub fn rebuild_catalog_of(
    data_dir: &Path,
    layers: &Layers,
    clock: &SharedClock,
    variables: &Variables,
    id: &str,
) -> Result<RebuildResult, IngestError> {
    let remote = remote_options(layers, clock, variables)?;
    make_private(data_dir)?;
    let catalog = catalog_settings(data_dir, layers, variables)?;
    let options = StoreOptions { remote, catalog, ..StoreOptions::at(data_dir) };
    let rebuilt = rebuild_catalog(&options, id, clock.now_ns())?;
    if options.catalog.is_some() {
        migrate_catalog(&options, CatalogLocation::PostgreSql, clock)?;
    }
    Ok(rebuilt)
}

/// Copies the catalog of a data directory to the configured database, or back to a file.
pub fn migrate_catalog_of(
    data_dir: &Path,
    layers: &Layers,
    clock: &SharedClock,
    variables: &Variables,
    to: CatalogLocation,
) -> Result<CatalogMigrationResult, IngestError> {
    check_exists(data_dir)?;
    let catalog = catalog_settings(data_dir, layers, variables)?;
    Ok(migrate_catalog(&StoreOptions { catalog, ..StoreOptions::at(data_dir) }, to, clock)?)
}

/// Opens the files that a data directory shares with other nodes, and updates them; `None` if it shares none. The
/// caller must have the store of the data directory open for writing.
pub fn open_shared_files(
    data_dir: &Path,
    layers: &Layers,
    clock: &SharedClock,
    variables: &Variables,
) -> Result<Option<Arc<SharedFolder>>, Fault> {
    let Some(cluster) = CatalogSettings::new(layers).and_then(|conf| conf.cluster) else { return Ok(None) };
    let Some(settings) = catalog_settings(data_dir, layers, variables)? else { return Ok(None) };
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if cluster.len() > CLUSTER_BYTES_MAX || !cluster.bytes().all(is_name) {
        let most = CLUSTER_BYTES_MAX;
        let text = format!("server.conf: [catalog] cluster = {cluster}: use 1 to {most} of a-z, 0-9 and _");
        return Err(Fault::invalid(text));
    }
    let place = PostgreSqlLocation::new(&settings, &quarry_sharing::schema_of(&cluster))?;
    SharedFolder::open(data_dir, &place, clock).map(Some)
}

/// Address of the catalog's database and its credentials; `None` if the catalog is a file.
fn catalog_settings(
    data_dir: &Path,
    layers: &Layers,
    variables: &Variables,
) -> Result<Option<PostgreSqlSettings>, Fault> {
    let Some(conf) = CatalogSettings::new(layers) else { return Ok(None) };
    let variable = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let password = match conf.password.as_deref().map(|text| (text, text.strip_prefix('$'))) {
        Some((_, Some(name))) => Some(variable(name).ok_or_else(|| {
            Fault::invalid(format!("server.conf: [catalog] password = ${name}: the environment has no variable {name}"))
        })?),
        Some((text, None)) => Some(text.to_owned()),
        None => variable("PGPASSWORD"),
    };
    let read = |path: &str, setting: &str| {
        let path = data_dir.join(path);
        std::fs::read_to_string(&path)
            .map_err(|error| Fault::io(path.display(), error).with_context(format!("server.conf: [catalog] {setting}")))
    };
    let passfile = match conf.passfile.or_else(|| variable("PGPASSFILE")) {
        None => None,
        Some(path) => Some(read(&path, "passfile")?),
    };
    let authorities = conf.roots.map(|path| read(&path, "sslRootCAPath")).transpose()?.map(String::into_bytes);
    let wait = Duration::from_secs(conf.wait_secs);
    Ok(Some(PostgreSqlSettings { url: conf.url, password, passfile, authorities, wait }))
}

/// Opens a store, retrying for a moment while another command has it open.
fn open_with_retries(open: impl Fn() -> Result<Arc<Store>, StoreError>) -> Result<Arc<Store>, StoreError> {
    for _ in 0..LOCK_ATTEMPTS_MAX {
        match open() {
            Err(StoreError::Locked { .. }) => std::thread::park_timeout(LOCK_RETRY_PAUSE),
            opened => return opened,
        }
    }
    open()
}

/// Options of a writable store.
fn store_options(
    data_dir: &Path,
    settings: &InputSettings,
    variables: &Variables,
) -> Result<StoreOptions, IngestError> {
    let free_bytes_min = ServerSettings::new(&settings.layers).free_bytes_min;
    let mut options =
        StoreOptions { pipeline_sets: settings.pipeline_sets(), free_bytes_min, ..StoreOptions::at(data_dir) };
    set_merges(&mut options, &settings.layers);
    options.configured_indexes = IndexesConf::new(&settings.layers).names().map(str::to_owned).collect();
    options.remote = remote_options(&settings.layers, &settings.clock, variables)?;
    options.catalog = catalog_settings(data_dir, &settings.layers, variables)?;
    Ok(options)
}

/// Applies the merge settings of indexes.conf.
fn set_merges(options: &mut StoreOptions, layers: &Layers) {
    let conf = IndexesConf::new(layers);
    options.compaction.merge = merge_options(&conf.defaults());
    let own = conf.own_merges().map(|(index, settings)| (index.to_owned(), merge_options(&settings)));
    options.compaction.merge_of = own.collect();
}

/// Merge limits of an index. Retention removes whole buckets, so a bucket with most of the data of its index would be
/// removed too late, or too much would be removed with it.
fn merge_options(settings: &IndexSettings) -> MergeOptions {
    let bytes = |megabytes: u64| megabytes.saturating_mul(1 << 20);
    let conf = &settings.merge;
    let kept = Some(bytes(settings.max_data_size_mb)).filter(|most| *most > 0).unwrap_or(u64::MAX);
    MergeOptions {
        max_merge_stored_bytes: kept / RETENTION_DIVISOR,
        background: conf.bucket_merging,
        min_merge_count: conf.min_merge_count,
        max_merge_count: conf.max_merge_count,
        min_merge_raw_bytes: bytes(conf.min_merge_size_mb),
        max_merge_raw_bytes: bytes(conf.max_merge_size_mb),
        max_merge_time_span_secs: conf
            .max_merge_time_span_seconds
            .min(settings.frozen_time_period_seconds / RETENTION_DIVISOR),
    }
}

#[cfg(test)]
mod tests {
    use quarry_conf::{ConfSource, Layer};

    use super::*;

    #[test]
    fn only_cleaned_indexes_are_emptied_at_once() {
        let text = "[cleaned]\nfrozenTimePeriodInSecs = 1\n[short]\nfrozenTimePeriodInSecs = 60\n".to_owned();
        let (layer, file) = (Layer::SystemLocal, "indexes.conf".to_owned());
        let layers = Layers::new([ConfSource { layer, app: None, file, text }]);
        let rules = retention(&layers, ["cleaned", "short", "main"].map(str::to_owned));
        let delays: Vec<u64> = rules.iter().map(|rule| rule.empties_after_secs).collect();
        assert_eq!(delays, [0, EMPTYING_DELAY_SECS, EMPTYING_DELAY_SECS]);
        assert_eq!([rules[0].max_age_secs, rules[1].max_age_secs], [0, 60]);
    }

    #[test]
    fn merged_buckets_are_small_relative_to_the_retained_size() {
        let text = "[small]\nmaxTotalDataSizeMB = 80\n[short]\nfrozenTimePeriodInSecs = 800\n\
                    [any]\nmaxTotalDataSizeMB = 0\n[own]\nmaxTotalDataSizeMB = 80\nbucketMerge.maxMergeTimeSpanSecs = 9\n\
                    [far]\nremotePath = volume:far/far\n[near]\nremotePath = volume:far/near\nmaxGlobalDataSizeMB = 160\n";
        let (layer, file) = (Layer::SystemLocal, "indexes.conf".to_owned());
        let layers = Layers::new([ConfSource { layer, app: None, file, text: text.to_owned() }]);
        let mut options = StoreOptions::at("unused");
        set_merges(&mut options, &layers);
        let of = |index: &str| {
            let merge = options.compaction.merge_options(index);
            (merge.max_merge_stored_bytes, merge.max_merge_time_span_secs)
        };
        let (megabyte, span) = (1 << 20, 7_776_000);
        assert_eq!(of("main"), (500_000 / 8 * megabyte, span));
        assert_eq!((of("small"), of("short")), ((10 * megabyte, span), (500_000 / 8 * megabyte, 100)));
        assert_eq!((of("any"), of("own")), ((u64::MAX / 8, span), (10 * megabyte, 9)));
        assert_eq!((of("far"), of("near")), ((u64::MAX / 8, span), (20 * megabyte, span)));
    }
}
