//! server.conf: the server's name, TLS of its management port, the lifetime of sessions, the number of pipeline sets,
//! and the free space to keep.

use crate::layers::Layers;
use crate::settings::catalog::{CATALOG, CATALOG_ROWS};
use crate::settings::index_rules::parse_age;
use crate::settings::network_input::SslSettings;
use crate::settings::volumes::CACHE_ROWS;
use crate::table::{ConfTable, Kind, Row, Section, StanzaName, boolean, count, row, text};
use crate::values::Values;

/// Stanzas read.
const GENERAL: &str = "general";
const DISK_USAGE: &str = "diskUsage";
const SSL: &str = "sslConfig";
const CACHE: &str = "cachemanager";

/// Settings of server.conf; Splunk's other settings concern features that do not exist here.
pub static SERVER: ConfTable = ConfTable {
    conf: "server",
    sections: &[
        Section { stanza: StanzaName::Named(GENERAL), rows: ROWS },
        Section { stanza: StanzaName::Named(DISK_USAGE), rows: DISK_ROWS },
        Section { stanza: StanzaName::Named(SSL), rows: SSL_ROWS },
        Section { stanza: StanzaName::Named(CACHE), rows: CACHE_ROWS },
        Section { stanza: StanzaName::Named(CATALOG), rows: CATALOG_ROWS },
    ],
    unsupported: &["sslPassword", "[cachemanager] evict_on_stable"],
    // Settings of downloads and of the age of term filters are unused: searches read ranges of remote buckets, never
    // whole buckets, and term filters are evicted last, whatever their age.
    unused: &[
        "pass4SymmKey",
        "guid",
        "site",
        "trustedIP",
        "sslVersions",
        "cipherSuite",
        "ecdhCurves",
        "[cachemanager] hotlist_bloom_filter_recency_hours",
        "[cachemanager] max_concurrent_downloads",
    ],
};

const ROWS: &[Row] = &[
    text("serverName", "name in splunk_server; empty: the machine's name"),
    row(PIPELINES, Kind::Integer { min: 1, max: PIPELINES_MAX }, "1", "", "pipeline sets that read files in parallel"),
    row(SESSION_TIMEOUT, Kind::Age, "1h", "", "time without a request after which a session ends; at least 1m"),
];

const DISK_ROWS: &[Row] = &[count(
    "minFreeSpace",
    "256",
    "MB",
    "free space that the file system of the data directory must keep; below it, data is refused with an error",
)];

const SSL_ROWS: &[Row] = &[
    boolean("enableSplunkdSSL", "true", "whether the management port uses TLS; required for other machines"),
    text("serverCert", "PEM file with the certificate, its CA certificates, and its key; empty: self-signed"),
    boolean("requireClientCert", "false", "whether TLS clients must present a certificate"),
    text("sslRootCAPath", "PEM file with the CA certificates for clients"),
];

/// Name of the setting for the number of pipeline sets.
const PIPELINES: &str = "parallelIngestionPipelines";
/// Maximum number of pipeline sets: each has a reader, queues and hot slabs.
const PIPELINES_MAX: i64 = 16;
/// Name of the setting for the lifetime of unused sessions.
const SESSION_TIMEOUT: &str = "sessionTimeout";
/// Shortest lifetime of unused sessions in seconds. With a shorter lifetime, nobody could log in to change the setting.
const SESSION_TIMEOUT_S_MIN: u64 = 60;

/// The settings of server.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// `[general] serverName`; `None` for the machine's name.
    pub server_name: Option<String>,
    /// `[general] parallelIngestionPipelines`.
    pub parallel_ingestion_pipelines: usize,
    /// `[diskUsage] minFreeSpace`, in bytes.
    pub free_bytes_min: u64,
    /// `[general] sessionTimeout` as written.
    pub session_timeout: String,
    /// `sessionTimeout` in seconds.
    pub session_timeout_s: u64,
    /// `[sslConfig]`; `None` if the management port does not use TLS.
    pub tls: Option<SslSettings>,
}

impl ServerSettings {
    /// Reads server.conf.
    pub fn new(layers: &Layers) -> ServerSettings {
        let values = Values::for_stanza(ROWS, layers.conf("server"), GENERAL);
        let disk = Values::for_stanza(DISK_ROWS, layers.conf("server"), DISK_USAGE);
        let ssl = Values::for_stanza(SSL_ROWS, layers.conf("server"), SSL);
        let tls = ssl.bool("enableSplunkdSSL").then(|| SslSettings {
            certificate: ssl.optional("serverCert"),
            requires_client: ssl.bool("requireClientCert"),
            roots: ssl.optional("sslRootCAPath"),
        });
        ServerSettings {
            server_name: values.optional("serverName"),
            parallel_ingestion_pipelines: values.size(PIPELINES),
            free_bytes_min: disk.count("minFreeSpace").saturating_mul(1 << 20),
            session_timeout: values.owned(SESSION_TIMEOUT),
            session_timeout_s: values.read(SESSION_TIMEOUT, parse_age).unwrap_or(0).max(SESSION_TIMEOUT_S_MIN),
            tls,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ServerSettings, SslSettings};
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn server_names_are_read() {
        assert_eq!(ServerSettings::new(&Layers::new([])).server_name, None);
        let named = Layers::new([local("server", "[general]\nserverName = log1\n[kvstore]\nx = y\n")]);
        assert_eq!(ServerSettings::new(&named).server_name.as_deref(), Some("log1"));
        assert!(named.warnings().is_empty());
    }

    #[test]
    fn the_management_port_speaks_tls_unless_it_is_switched_off() {
        let tls = |text: &str| ServerSettings::new(&Layers::new([local("server", text)])).tls;
        assert_eq!(tls(""), Some(SslSettings::default()));
        assert_eq!(tls("[sslConfig]\nenableSplunkdSSL = false\n"), None);
        let text = "[sslConfig]\nserverCert = a.pem\nrequireClientCert = 1\nsslRootCAPath = b.pem\n";
        let (certificate, roots) = (Some("a.pem".to_owned()), Some("b.pem".to_owned()));
        assert_eq!(tls(text), Some(SslSettings { certificate, requires_client: true, roots }));
    }

    #[test]
    fn minimum_free_space_is_read() {
        let free = |text: &str| ServerSettings::new(&Layers::new([local("server", text)])).free_bytes_min;
        assert_eq!((free(""), free("[diskUsage]\nminFreeSpace = 5000\n")), (256 << 20, 5_000 << 20));
    }

    #[test]
    fn sessions_last_as_long_as_configured() {
        let seconds = |text: &str| {
            let layers = Layers::new([local("server", &format!("[general]\nsessionTimeout = {text}\n"))]);
            ServerSettings::new(&layers).session_timeout_s
        };
        assert_eq!([seconds(""), seconds("42h"), seconds("90"), seconds("never")], [3_600, 151_200, 90, 3_600]);
        assert_eq!(seconds("0"), 60);
    }

    #[test]
    fn one_pipeline_set_is_the_default() {
        let pipelines = |text: &str| {
            let layers = Layers::new([local("server", text)]);
            let warnings: Vec<String> = layers.warnings().iter().map(ToString::to_string).collect();
            (ServerSettings::new(&layers).parallel_ingestion_pipelines, warnings)
        };
        assert_eq!(pipelines(""), (1, vec![]));
        assert_eq!(pipelines("[general]\nparallelIngestionPipelines = 2\n"), (2, vec![]));
        for bad in ["0", "17", "-1", "two", "1.5"] {
            let (sets, warnings) = pipelines(&format!("[general]\n\nparallelIngestionPipelines = {bad}\n"));
            assert_eq!((sets, warnings.len()), (1, 1), "{warnings:?}");
            assert!(warnings[0].contains("server.conf:3: [general] parallelIngestionPipelines = "), "{warnings:?}");
            assert!(warnings[0].contains("a whole number from 1 to 16"), "{warnings:?}");
        }
    }

    #[test]
    fn built_in_file_and_table_agree() {
        assert_eq!(ServerSettings::new(&Layers::new([])), ServerSettings::new(&Layers::without_builtin([])));
    }
}
