//! Opens the volumes of indexes.conf as object stores.
//!
//! Not here: the settings ([`RemoteStorage`]), uploads and evictions (the store).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quarry_blob::{
    BlobStore, DirectoryStore, EncryptedStore, EncryptionKeys, S3Credentials, S3Encryption, S3Header, S3Settings,
    S3Store,
};
use quarry_conf::{
    Layers, RemotePathSetting, RemoteStorage, S3VolumeSettings, VolumeEncryption, VolumeHeader, VolumeLocation,
    VolumeSettings,
};
use quarry_stdx::{Fault, HasKind, SharedClock, random};
use quarry_store::{RemoteOptions, RemotePath};

/// Size of the id that separates the objects of different data directories.
const STORE_ID_BYTES: usize = 8;

/// The remote stores of a data directory; `None` if indexes.conf has no remote volume. `variables` are environment
/// variables that may contain access keys.
pub(crate) fn remote_options(
    layers: &Layers,
    clock: &SharedClock,
    variables: &[(String, String)],
) -> Result<Option<Arc<RemoteOptions>>, Fault> {
    let storage = RemoteStorage::new(layers)?;
    if !storage.is_used() {
        return Ok(None);
    }
    let mut volumes: BTreeMap<String, Arc<dyn BlobStore>> = BTreeMap::new();
    for (name, settings) in &storage.volumes {
        let opened = open(settings, clock, variables);
        let opened = opened.map_err(|fault| fault.with_context(format!("indexes.conf: [volume:{name}]")))?;
        volumes.insert(name.clone(), opened);
    }
    let path = |setting: RemotePathSetting| RemotePath { volume: setting.volume, path: setting.path };
    let mut id = [0; STORE_ID_BYTES];
    random::fill(&mut id);
    let cache = storage.cache;
    Ok(Some(Arc::new(RemoteOptions {
        volumes,
        default: storage.default.map(path),
        of_index: storage.of_index.into_iter().map(|(index, setting)| (index, setting.map(path))).collect(),
        cache_bytes_max: cache.bytes_max.unwrap_or(u64::MAX),
        eviction_padding: cache.eviction_padding,
        hotlist_recency_secs: cache.hotlist_recency_secs,
        hotlist_of_index: storage.hotlist_of_index,
        uploads_max: cache.uploads_max,
        orphan_grace_secs: cache.orphan_grace_secs,
        new_store_id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
    })))
}

fn open(
    settings: &VolumeSettings,
    clock: &SharedClock,
    variables: &[(String, String)],
) -> Result<Arc<dyn BlobStore>, Fault> {
    let failed = |error: quarry_blob::BlobError| Fault::new(error.kind(), error.to_string());
    Ok(match &settings.location {
        VolumeLocation::Folder(folder) => Arc::new(DirectoryStore::open(Path::new(folder)).map_err(failed)?),
        VolumeLocation::S3(settings) => {
            let store: Arc<dyn BlobStore> =
                Arc::new(S3Store::open(s3_settings(settings, variables)?, clock.clone()).map_err(failed)?);
            match &settings.encryption {
                VolumeEncryption::Client(path) => Arc::new(EncryptedStore::new(store, read_keys(path)?)),
                _ => store,
            }
        }
    })
}

/// Reads the encryption keys in a file.
fn read_keys(path: &str) -> Result<EncryptionKeys, Fault> {
    let at = |fault: Fault| fault.with_context("remote.s3.encryption.cse.key_file");
    let text = std::fs::read_to_string(path).map_err(|error| at(Fault::io(path, error)))?;
    EncryptionKeys::parse(&text).map_err(|error| at(Fault::new(error.kind(), format!("{path}: {error}"))))
}

fn header(setting: &VolumeHeader) -> S3Header {
    S3Header { method: setting.method.clone(), name: setting.name.clone(), value: setting.value.clone() }
}

fn s3_settings(settings: &S3VolumeSettings, variables: &[(String, String)]) -> Result<S3Settings, Fault> {
    let credentials = match &settings.key {
        Some(key) => S3Credentials::Key { id: key.id.clone(), secret: key.secret.clone(), token: None },
        None => S3Credentials::Machine(variables.to_vec()),
    };
    let authorities = match &settings.authorities {
        None => Vec::new(),
        Some(path) => {
            std::fs::read(path).map_err(|error| Fault::io(path, error).with_context("remote.s3.sslRootCAPath"))?
        }
    };
    let endpoints: Vec<&str> = settings.endpoints.iter().map(String::as_str).collect();
    Ok(S3Settings {
        prefix: settings.prefix.clone(),
        region: settings.region.clone(),
        path_style: settings.path_style,
        authorities,
        verifies_certificates: settings.verifies_certificates,
        encryption: match &settings.encryption {
            // Data encrypted by the client needs no further encryption by the server.
            VolumeEncryption::Container | VolumeEncryption::Client(_) => S3Encryption::Container,
            VolumeEncryption::Server => S3Encryption::Server,
            VolumeEncryption::KeyService(id) => S3Encryption::KeyService(id.clone()),
        },
        headers: settings.headers.iter().map(header).collect(),
        part_bytes: settings.part_bytes,
        parts_max: settings.parts_max,
        connect_timeout: Duration::from_millis(settings.connect_timeout_ms),
        request_timeout: Duration::from_millis(settings.request_timeout_ms),
        ..S3Settings::new(&settings.container, &endpoints, credentials)
    })
}
