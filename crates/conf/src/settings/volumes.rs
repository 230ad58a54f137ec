//! `[volume:NAME]` and `remotePath` of indexes.conf: remote storage for buckets, in addition to the data directory.
//!
//! The setting names are the names of Splunk's SmartStore. A local volume (`storageType = local`) has no effect: the
//! store lays out its own folder.

use std::collections::BTreeMap;
use std::fmt;

use quarry_stdx::Fault;
use quarry_stdx::number::usize_of;

use super::indexes::is_index;
use crate::layers::{Layers, MergedConf};
use crate::table::{Kind, Row, at_least, boolean, count, row, text};
use crate::text::DEFAULT_STANZA;
use crate::values::Values;

/// Prefix of a volume's stanza, and of a path on a volume.
pub(super) const VOLUME_PREFIX: &str = "volume:";
/// Setting that places an index on a volume.
pub(super) const REMOTE_PATH: &str = "remotePath";

const STORAGE_TYPE: &str = "storageType";
const PART_SIZE: &str = "remote.s3.multipart_upload.part_size";
const ENCRYPTION: &str = "remote.s3.encryption";
const KEY_ID: &str = "remote.s3.kms.key_id";
const KEY_FILE: &str = "remote.s3.encryption.cse.key_file";
const PARTS: &str = "remote.s3.multipart_max_connections";
/// Prefix of a setting for a request header; the request method or `ALL`, a dot, and the name of the header follow.
const HEADER: &str = "remote.s3.header.";
const ALL_METHODS: &str = "ALL";
const VERIFY: &str = "remote.s3.sslVerifyServerCert";
/// Setting of single indexes in indexes.conf, and of all indexes in `[cachemanager]`.
pub(super) const HOTLIST: &str = "hotlist_recency_secs";

/// Settings of a volume.
pub(super) const VOLUME_ROWS: &[Row] = &[
    row(STORAGE_TYPE, Kind::Choice(&["local", "remote"]), "local", "", "remote: buckets are uploaded to its path"),
    text("path", "s3://CONTAINER/PREFIX, or file:///FOLDER, of a remote volume"),
    text("remote.s3.endpoint", "URLs of its servers, separated by commas; empty: those of AWS"),
    row("remote.s3.auth_region", Kind::Text, "us-east-1", "", "region for which requests are signed"),
    text("remote.s3.access_key", "id of the access key; empty: found as the AWS tools find it"),
    text("remote.s3.secret_key", "secret of the access key"),
    row(
        "remote.s3.url_version",
        Kind::Choice(&["v1", "v2"]),
        "v1",
        "",
        "v1: the bucket is in the path; v2: in the host name",
    ),
    text("remote.s3.sslRootCAPath", "PEM file with CA certificates to trust besides those of the system"),
    boolean(VERIFY, "true", "whether the certificates of its servers must be valid"),
    row("remote.s3.signature_version", Kind::Choice(&["v4"]), "v4", "", "version of the signatures of requests"),
    row(
        ENCRYPTION,
        Kind::Choice(&["none", "sse-s3", "sse-kms", "cse"]),
        "none",
        "",
        "sse-…: by the server; cse: before the upload, with the keys of a file; none: the bucket's default",
    ),
    text(KEY_FILE, "file with the keys for cse; a line each: ID, space, 64 hexadecimal digits"),
    row(KEY_ID, Kind::Text, "", "", "id of the key for sse-kms"),
    row(HEADER, Kind::Text, "", "", "METHOD.NAME: value of header NAME of requests with METHOD (GET, PUT, …, or ALL)"),
    row(PART_SIZE, at_least(5 << 20), "16777216", "bytes", "size of the parts of an object that is uploaded in parts"),
    row(PARTS, at_least(1), "4", "parts", "maximum parts of an object that are uploaded at once"),
    row("remote.s3.timeout.connect", at_least(1), "5000", "milliseconds", "time limit for opening a connection"),
    row("remote.s3.timeout.read", at_least(1), "60000", "milliseconds", "time limit for a request, including its body"),
];

/// Settings of `[cachemanager]` in server.conf.
pub(super) const CACHE_ROWS: &[Row] = &[
    count(
        "max_cache_size",
        "0",
        "MB",
        "maximum size of local copies of uploaded buckets and of cached blocks; 0: unlimited",
    ),
    count(
        "eviction_padding",
        "5120",
        "MB",
        "free space beyond minFreeSpace below which local copies and cached blocks are removed",
    ),
    count(
        HOTLIST,
        "86400",
        "seconds",
        "local copies of buckets with events younger than this are evicted last; indexes.conf may set it for an index",
    ),
    row(
        "eviction_policy",
        Kind::Choice(&["lru"]),
        "lru",
        "",
        "order of evictions: only lru, least recently used first",
    ),
    row("max_concurrent_uploads", at_least(1), "8", "buckets", "maximum buckets uploaded at once"),
    count(
        "orphan_grace_secs",
        "86400",
        "seconds",
        "age after which an object that belongs to no bucket is deleted from a volume",
    ),
];

/// A volume that buckets are uploaded to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSettings {
    /// Location of the volume's objects.
    pub location: VolumeLocation,
}

/// Location of a volume's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a node has a handful of volumes, read once")]
pub enum VolumeLocation {
    /// A folder of this machine, possibly on a network file system.
    Folder(String),
    /// An S3-compatible object store.
    S3(S3VolumeSettings),
}

/// A volume in an S3-compatible object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3VolumeSettings {
    /// The S3 bucket.
    pub container: String,
    /// Prefix of the volume's object keys.
    pub prefix: String,
    /// `remote.s3.endpoint`: URLs of servers.
    pub endpoints: Vec<String>,
    /// `remote.s3.auth_region`.
    pub region: String,
    /// `remote.s3.access_key` and `remote.s3.secret_key`.
    pub key: Option<VolumeKey>,
    /// Whether `remote.s3.url_version` is v1.
    pub path_style: bool,
    /// `remote.s3.sslRootCAPath`.
    pub authorities: Option<String>,
    /// `remote.s3.sslVerifyServerCert`.
    pub verifies_certificates: bool,
    /// `remote.s3.encryption`.
    pub encryption: VolumeEncryption,
    /// `remote.s3.header.…`.
    pub headers: Vec<VolumeHeader>,
    /// `remote.s3.multipart_upload.part_size`.
    pub part_bytes: usize,
    /// `remote.s3.multipart_max_connections`.
    pub parts_max: usize,
    /// `remote.s3.timeout.connect`, in milliseconds.
    pub connect_timeout_ms: u64,
    /// `remote.s3.timeout.read`, in milliseconds.
    pub request_timeout_ms: u64,
}

/// Credentials for a volume's server.
#[derive(Clone, PartialEq, Eq)]
pub struct VolumeKey {
    /// The access key's id.
    pub id: String,
    /// The secret key, which no message shows.
    pub secret: String,
}

impl fmt::Debug for VolumeKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("VolumeKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A header that is added to requests to a volume's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeHeader {
    /// The method of the requests; `None` for all requests.
    pub method: Option<String>,
    /// Name of the header.
    pub name: String,
    /// Value of the header.
    pub value: String,
}

/// Encryption of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeEncryption {
    /// The default of the S3 bucket.
    Container,
    /// Keys that the server manages.
    Server,
    /// A key of the key management service.
    KeyService(String),
    /// Encryption before the upload, with the keys in this file.
    Client(String),
}

/// `remotePath` of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePathSetting {
    /// Name of the volume.
    pub volume: String,
    /// Path after the volume's name.
    pub path: String,
}

/// Remote storage of all indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteStorage {
    /// Remote volumes by name.
    pub volumes: BTreeMap<String, VolumeSettings>,
    /// `remotePath` of `[default]`.
    pub default: Option<RemotePathSetting>,
    /// `remotePath` of indexes with a stanza, own or inherited from `[default]`.
    pub of_index: BTreeMap<String, Option<RemotePathSetting>>,
    /// `hotlist_recency_secs` of indexes with a stanza, own or inherited from `[default]`, if set.
    pub hotlist_of_index: BTreeMap<String, u64>,
    /// `[cachemanager]`, with the `hotlist_recency_secs` of `[default]` in indexes.conf if that is set.
    pub cache: CacheManagerSettings,
}

/// `[cachemanager]` of server.conf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheManagerSettings {
    /// `max_cache_size` in bytes; `None` is unlimited.
    pub bytes_max: Option<u64>,
    /// `eviction_padding` in bytes.
    pub eviction_padding: u64,
    /// `hotlist_recency_secs`.
    pub hotlist_recency_secs: u64,
    /// `max_concurrent_uploads`.
    pub uploads_max: usize,
    /// `orphan_grace_secs`.
    pub orphan_grace_secs: u64,
}

impl RemoteStorage {
    /// Reads indexes.conf and server.conf. Settings that cannot be applied are an error, because otherwise buckets
    /// would silently stay local.
    pub fn new(layers: &Layers) -> Result<RemoteStorage, Fault> {
        let (indexes, server) = (layers.conf("indexes"), layers.conf("server"));
        let mut storage = RemoteStorage { cache: cache_of(server), ..RemoteStorage::default() };
        for stanza in indexes.stanzas() {
            if let Some(name) = stanza.name.strip_prefix(VOLUME_PREFIX) {
                let read = volume(indexes, &stanza.name)
                    .map_err(|fault| fault.with_context(format!("indexes.conf: [{}]", stanza.name)))?;
                storage.volumes.extend(read.map(|volume| (name.to_owned(), volume)));
            }
        }
        storage.default = storage.path_of(indexes, DEFAULT_STANZA)?;
        let hotlist = |stanza: &str| indexes.get(stanza, HOTLIST).and_then(|secs| secs.parse().ok());
        storage.cache.hotlist_recency_secs = hotlist(DEFAULT_STANZA).unwrap_or(storage.cache.hotlist_recency_secs);
        for stanza in indexes.stanzas().iter().filter(|stanza| is_index(&stanza.name)) {
            let path = storage.path_of(indexes, &stanza.name)?;
            storage.hotlist_of_index.extend(hotlist(&stanza.name).map(|secs| (stanza.name.clone(), secs)));
            storage.of_index.insert(stanza.name.clone(), path);
        }
        Ok(storage)
    }

    /// Whether any bucket is or may be on a volume.
    pub fn is_used(&self) -> bool {
        !self.volumes.is_empty()
    }

    fn path_of(&self, indexes: &MergedConf, stanza: &str) -> Result<Option<RemotePathSetting>, Fault> {
        let Some(value) = indexes.get(stanza, REMOTE_PATH).filter(|value| !value.is_empty()) else { return Ok(None) };
        let wrong = |why: String| {
            Fault::invalid(format!("{REMOTE_PATH} = {value}: {why}")).with_context(format!("indexes.conf: [{stanza}]"))
        };
        let on = value.strip_prefix(VOLUME_PREFIX);
        let on =
            on.ok_or_else(|| wrong("write volume:NAME/PATH, as in volume:remote_store/$_index_name".to_owned()))?;
        let (volume, path) = on.split_once('/').unwrap_or((on, "$_index_name"));
        if !self.volumes.contains_key(volume) {
            return Err(wrong(format!("there is no [volume:{volume}] with storageType = remote")));
        }
        let is_plain = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
            part != "." && part != ".." && part.bytes().all(plain)
        };
        if !path.replace("$_index_name", "").split('/').all(is_plain) {
            return Err(wrong("its parts may have letters, digits, '.', '_' and '-', and $_index_name".to_owned()));
        }
        Ok(Some(RemotePathSetting { volume: volume.to_owned(), path: path.to_owned() }))
    }
}

fn cache_of(server: &MergedConf) -> CacheManagerSettings {
    let values = Values::for_stanza(CACHE_ROWS, server, "cachemanager");
    let bytes = |name: &str| values.count(name).saturating_mul(1 << 20);
    CacheManagerSettings {
        bytes_max: Some(bytes("max_cache_size")).filter(|bytes| *bytes > 0),
        eviction_padding: bytes("eviction_padding"),
        hotlist_recency_secs: values.count(HOTLIST),
        uploads_max: values.size("max_concurrent_uploads"),
        orphan_grace_secs: values.count("orphan_grace_secs"),
    }
}

/// A volume; `None` if it is local.
fn volume(indexes: &MergedConf, stanza: &str) -> Result<Option<VolumeSettings>, Fault> {
    let values = Values::for_stanza(VOLUME_ROWS, indexes, stanza);
    if !values.text(STORAGE_TYPE).eq_ignore_ascii_case("remote") {
        return Ok(None);
    }
    let path = values.text("path");
    if let Some(folder) = path.strip_prefix("file://") {
        if !folder.starts_with('/') {
            return Err(Fault::invalid(format!("path = {path}: write file:///FOLDER, with three slashes")));
        }
        return Ok(Some(VolumeSettings { location: VolumeLocation::Folder(folder.to_owned()) }));
    }
    let on = path.strip_prefix("s3://").map(|on| on.trim_matches('/')).filter(|on| !on.is_empty());
    let on = on.ok_or_else(|| {
        Fault::invalid(format!("path = {path}: the path of a remote volume must be s3://CONTAINER/PREFIX"))
    })?;
    let (container, prefix) = on.split_once('/').unwrap_or((on, ""));
    let key = match (values.optional("remote.s3.access_key"), values.optional("remote.s3.secret_key")) {
        (Some(id), Some(secret)) => Some(VolumeKey { id, secret }),
        (None, None) => None,
        _ => return Err(Fault::invalid("remote.s3.access_key and remote.s3.secret_key go together; set both or none")),
    };
    let encryption = match values.text(ENCRYPTION).to_ascii_lowercase().as_str() {
        "sse-s3" => VolumeEncryption::Server,
        "sse-kms" => match values.optional(KEY_ID) {
            Some(id) => VolumeEncryption::KeyService(id),
            None => return Err(Fault::invalid(format!("{ENCRYPTION} = sse-kms needs {KEY_ID}"))),
        },
        "cse" => match values.optional(KEY_FILE) {
            Some(path) => VolumeEncryption::Client(path),
            None => return Err(Fault::invalid(format!("{ENCRYPTION} = cse needs {KEY_FILE}"))),
        },
        _ => VolumeEncryption::Container,
    };
    let endpoints = values.text("remote.s3.endpoint");
    let endpoints = endpoints.split(',').map(|url| url.trim().trim_end_matches('/')).filter(|url| !url.is_empty());
    Ok(Some(VolumeSettings {
        location: VolumeLocation::S3(S3VolumeSettings {
            container: container.to_owned(),
            prefix: prefix.to_owned(),
            endpoints: endpoints.map(str::to_owned).collect(),
            region: values.text("remote.s3.auth_region").to_owned(),
            key,
            path_style: !values.text("remote.s3.url_version").eq_ignore_ascii_case("v2"),
            authorities: values.optional("remote.s3.sslRootCAPath"),
            verifies_certificates: values.bool(VERIFY),
            encryption,
            headers: values.classes(HEADER).map(|(class, value)| header(class, value)).collect::<Result<_, _>>()?,
            part_bytes: usize_of(values.count(PART_SIZE)),
            parts_max: values.size(PARTS),
            connect_timeout_ms: values.count("remote.s3.timeout.connect"),
            request_timeout_ms: values.count("remote.s3.timeout.read"),
        }),
    }))
}

/// The header of setting `remote.s3.header.METHOD.NAME`.
fn header(class: &str, value: &str) -> Result<VolumeHeader, Fault> {
    let is_method = |method: &&str| !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic());
    let (method, name) = class.split_once('.').filter(|(method, _)| is_method(method)).ok_or_else(|| {
        let example = "remote.s3.header.PUT.x-amz-storage-class";
        Fault::invalid(format!("{HEADER}{class}: a method, or ALL, and a name must follow, as in {example}"))
    })?;
    let method = method.to_ascii_uppercase();
    let method = (method != ALL_METHODS).then_some(method);
    Ok(VolumeHeader { method, name: name.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::tests::local;

    fn read(indexes: &str) -> Result<RemoteStorage, String> {
        let layers = Layers::new([local("indexes", indexes)]);
        assert_eq!(layers.warnings().iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0], "{indexes}");
        RemoteStorage::new(&layers).map_err(|fault| fault.to_string())
    }

    #[test]
    fn volumes_and_remote_paths_are_read() {
        let storage = read(
            "[default]\nremotePath = volume:cold/$_index_name\n\
             [volume:cold]\nstorageType = remote\npath = s3://logs/prod/quarry/\nremote.s3.endpoint = http://a:1/, http://b:1\n\
             remote.s3.access_key = id\nremote.s3.secret_key = secret\nremote.s3.encryption = sse-s3\n\
             remote.s3.header.put.x-amz-storage-class = STANDARD_IA\nremote.s3.header.ALL.x-team = logs\n\
             [volume:nas]\nstorageType = remote\npath = file:///mnt/nas\n\
             [volume:hot]\npath = /fast\n\
             [web]\nremotePath = volume:nas/x/$_index_name\n[here]\nremotePath =\n",
        )
        .unwrap();
        assert_eq!(storage.volumes.keys().collect::<Vec<_>>(), ["cold", "nas"]);
        let VolumeLocation::S3(cold) = &storage.volumes["cold"].location else { panic!("{storage:?}") };
        assert_eq!((cold.container.as_str(), cold.prefix.as_str()), ("logs", "prod/quarry"));
        assert_eq!(
            (&cold.endpoints[..], cold.path_style),
            (&["http://a:1".to_owned(), "http://b:1".to_owned()][..], true)
        );
        assert_eq!(
            (&cold.key, &cold.encryption),
            (&Some(VolumeKey { id: "id".into(), secret: "secret".into() }), &VolumeEncryption::Server)
        );
        let header = |method: Option<&str>, name: &str, value: &str| VolumeHeader {
            method: method.map(str::to_owned),
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let headers = [header(None, "x-team", "logs"), header(Some("PUT"), "x-amz-storage-class", "STANDARD_IA")];
        assert_eq!(cold.headers, headers);
        assert!(!format!("{storage:?}").contains("\"secret\""), "{storage:?}");
        assert_eq!(storage.volumes["nas"].location, VolumeLocation::Folder("/mnt/nas".into()));
        let path = |volume: &str, path: &str| Some(RemotePathSetting { volume: volume.into(), path: path.into() });
        assert_eq!(storage.default, path("cold", "$_index_name"));
        assert_eq!(
            (&storage.of_index["web"], &storage.of_index["main"]),
            (&path("nas", "x/$_index_name"), &storage.default)
        );
        assert_eq!(storage.of_index["here"], None);
        assert!(!read("[main]\n").unwrap().is_used());
    }

    #[test]
    fn unsupported_settings_are_reported_with_their_position() {
        let remote = "[volume:cold]\nstorageType = remote\npath = s3://c\n";
        for (text, fault) in [
            (
                "[volume:x]\nstorageType = remote\npath = /x\n",
                "[volume:x]: path = /x: the path of a remote volume must be s3://",
            ),
            ("[volume:x]\nstorageType = remote\npath = file://x\n", "with three slashes"),
            (&*format!("{remote}remote.s3.access_key = id\n"), "go together"),
            (&*format!("{remote}remote.s3.encryption = sse-kms\n"), "needs remote.s3.kms.key_id"),
            (
                &*format!("{remote}remote.s3.header.x-team = a\n"),
                "remote.s3.header.x-team: a method, or ALL, and a name",
            ),
            (
                &*format!("{remote}[web]\nremotePath = volume:warm/web\n"),
                "[web]: remotePath = volume:warm/web: there is no [volume:warm]",
            ),
            (&*format!("{remote}[web]\nremotePath = s3://c/web\n"), "write volume:NAME/PATH"),
            (&*format!("{remote}[web]\nremotePath = volume:cold/../web\n"), "its parts may have letters"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(fault) && error.contains("indexes.conf"), "{error}");
        }
    }

    #[test]
    fn cache_settings_are_read() {
        let cache = |text: &str| RemoteStorage::new(&Layers::new([local("server", text)])).unwrap().cache;
        let default = cache("");
        assert_eq!((default.bytes_max, default.eviction_padding, default.uploads_max), (None, 5_120 << 20, 8));
        let set = cache("[cachemanager]\nmax_cache_size = 2\neviction_padding = 0\nhotlist_recency_secs = 1\n");
        assert_eq!((set.bytes_max, set.eviction_padding, set.hotlist_recency_secs), (Some(2 << 20), 0, 1));
    }

    #[test]
    fn recent_events_are_set_per_index() {
        let read = |indexes: &str| {
            let server = local("server", "[cachemanager]\nhotlist_recency_secs = 9\n");
            RemoteStorage::new(&Layers::new([local("indexes", indexes), server])).unwrap()
        };
        let own = read("[web]\nhotlist_recency_secs = 5\n[other]\n");
        assert_eq!((own.cache.hotlist_recency_secs, own.hotlist_of_index), (9, [("web".to_owned(), 5)].into()));
        let of_all = read("[default]\nhotlist_recency_secs = 7\n[web]\nhotlist_recency_secs = 0\n");
        assert_eq!((of_all.cache.hotlist_recency_secs, of_all.hotlist_of_index["web"]), (7, 0));
        assert_eq!(of_all.hotlist_of_index["main"], 7);
    }

    /// Settings of SmartStore in indexes.conf and server.conf are known. Only settings and values without support cause
    /// warnings.
    #[test]
    fn settings_of_smartstore_are_known() {
        let indexes = "[default]\nremotePath = volume:s3/$_index_name\nrepFactor = auto\nmaxDataSize = auto\n\
             hotlist_recency_secs = 86400\nhotlist_bloom_filter_recency_hours = 360\n\
             [volume:s3]\nstorageType = remote\npath = s3://smartstore/prod\nremote.s3.endpoint = https://s3.example\n\
             remote.s3.access_key = id\nremote.s3.secret_key = secret\nremote.s3.auth_region = eu-central-1\n\
             remote.s3.supports_versioning = false\nremote.s3.signature_version = v4\n\
             remote.s3.list_objects_version = v2\nremote.s3.url_version = v1\nremote.s3.sslVerifyServerCert = true\n\
             remote.s3.sslRootCAPath = /etc/ca.pem\nremote.s3.encryption = sse-s3\nremote.s3.use_delimiter = true\n\
             remote.s3.multipart_max_connections = 8\nremote.s3.multipart_upload.part_size = 8388608\n\
             remote.s3.multipart_download.part_size = 134217728\nremote.s3.enable_data_integrity_checks = true\n\
             remote.s3.retry_policy = max_count\nremote.s3.max_count.max_retries_per_part = 9\n\
             remote.s3.timeout.connect = 5000\nremote.s3.timeout.read = 60000\nremote.s3.timeout.write = 60000\n\
             [web]\nmaxGlobalDataSizeMB = 500\nmaxGlobalRawDataSizeMB = 2000\nfrozenTimePeriodInSecs = 7776000\n\
             hotlist_recency_secs = 3600\nhotlist_bloom_filter_recency_hours = 48\n";
        let server = "[cachemanager]\nmax_cache_size = 1000\neviction_padding = 5120\neviction_policy = lru\n\
             hotlist_recency_secs = 86400\nhotlist_bloom_filter_recency_hours = 360\nmax_concurrent_downloads = 8\n\
             max_concurrent_uploads = 8\n";
        let warnings = |indexes: &str, server: &str| {
            let layers = Layers::new([local("indexes", indexes), local("server", server)]);
            layers.warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(warnings(indexes, server), [""; 0]);
        let storage = RemoteStorage::new(&Layers::new([local("indexes", indexes), local("server", server)])).unwrap();
        let VolumeLocation::S3(s3) = &storage.volumes["s3"].location else { panic!("{storage:?}") };
        assert_eq!((s3.parts_max, s3.verifies_certificates, s3.part_bytes), (8, true, 8 << 20));
        for (indexes, server, told) in [
            ("", "[cachemanager]\neviction_policy = clock\n", "[cachemanager] eviction_policy = clock: expected lru"),
            ("", "[cachemanager]\nevict_on_stable = true\n", "[cachemanager] evict_on_stable is not supported"),
            ("[volume:x]\nremote.s3.signature_version = v2\n", "", "remote.s3.signature_version = v2: expected v4"),
            ("[volume:x]\nremote.s3.kms.auth_region = x\n", "", "remote.s3.kms.auth_region is not supported"),
            ("[volume:x]\nremote.gs.credential_file = x\n", "", "remote.gs.credential_file is not supported"),
        ] {
            let found = warnings(indexes, server);
            assert!(found.len() == 1 && found[0].contains(told), "{told}: {found:?}");
        }
    }
}
