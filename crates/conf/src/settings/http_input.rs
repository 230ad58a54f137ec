//! inputs.conf `[http]` and `[http://NAME]`: the HTTP Event Collector and its tokens; `[otlp]`: the collector's port
//! for OTLP over gRPC.
//!
//! Other stanzas of inputs.conf belong to other inputs and are ignored here.

use std::collections::BTreeMap;

use super::{monitor, network_input as network, program_input as program};
use crate::layers::Layers;
use crate::table::{ConfTable, Kind, Row, Section, StanzaName, boolean, concat, count, row, text};
use crate::values::{DEFAULT_INDEX_WORD, Values};

/// Stanza of the collector itself.
const GLOBAL: &str = "http";
/// Stanza of the port for OTLP over gRPC, a port that Splunk does not have.
const GRPC: &str = "otlp";
/// Prefix of a token's stanza.
const TOKEN_PREFIX: &str = "http://";

/// Sections of file-change filters, the collector, and files.
const HTTP_AND_FILES: &[Section] = &[
    program::FILTER,
    Section { stanza: StanzaName::Named(GLOBAL), rows: GLOBAL_ROWS },
    Section { stanza: StanzaName::Named(GRPC), rows: GRPC_ROWS },
    Section { stanza: StanzaName::Prefix(TOKEN_PREFIX), rows: TOKEN_ROWS },
    Section { stanza: StanzaName::Prefix(monitor::MONITOR_PREFIX), rows: monitor::MONITOR_ROWS },
    Section { stanza: StanzaName::Prefix(monitor::BATCH_PREFIX), rows: monitor::MONITOR_ROWS },
];

/// Settings of inputs.conf.
pub static INPUTS: ConfTable = ConfTable {
    conf: "inputs",
    sections: &concat::<_, { HTTP_AND_FILES.len() + network::SECTIONS.len() + program::SECTIONS.len() }>(&[
        HTTP_AND_FILES,
        network::SECTIONS,
        program::SECTIONS,
    ]),
    unsupported: &["outputgroup", "persistentQueueSize"],
    unused: &[
        "alwaysOpenFile",
        "busyKeepAliveIdleTimeout",
        "caCertFile",
        "caPath",
        "cipherSuite",
        "crossOriginSharingHeaders",
        "crossOriginSharingPolicy",
        "dedicatedIoThreads",
        "[http] description",
        "evt_resolve_ad_obj",
        "forceHttp10",
        "listenOnIPv6",
        "log_on_completion",
        "maxEventSize",
        "maxSockets",
        "maxThreads",
        "queue",
        "replyHeader",
        "s2s_indexes_validation",
        "sslKeysfile",
        "sslKeysfilePassword",
        "sslVersions",
        "useDeploymentServer",
    ],
};

const GLOBAL_ROWS: &[Row] = &[
    boolean("disabled", "false", "whether every request is refused"),
    row("port", Kind::Integer { min: 0, max: 65_535 }, "8088", "", "port the collector listens on"),
    boolean("enableSSL", "false", "whether the port uses TLS"),
    text("serverCert", "PEM file with the certificate and its key; default: that of [SSL]"),
    boolean("ackIdleCleanup", "true", "whether idle channels are removed"),
    count("maxIdleTime", "600", "seconds", "idle time after which a channel is removed"),
    text("index", "default index of tokens' events"),
    text("host", "default host of tokens' events"),
    text("source", "default source of tokens' events"),
    text("sourcetype", "default sourcetype of tokens' events"),
    row("connection_host", CONNECTION_HOST, "", "", "source of host if nothing sets it"),
    boolean("allowQueryStringAuth", "false", "whether tokens may be passed in the URL by default"),
];

const GRPC_ROWS: &[Row] = &[
    boolean("disabled", "true", "whether the port for OTLP over gRPC is disabled"),
    row(
        "port",
        Kind::Integer { min: 0, max: 65_535 },
        "4317",
        "",
        "port for OTLP over gRPC, at the collector's address",
    ),
];

const TOKEN_ROWS: &[Row] = &[
    text("token", "secret that senders present"),
    text("description", "text for users"),
    boolean("disabled", "false", "whether the token is refused"),
    text("index", "default index of events"),
    text("indexes", "indexes that events may name, separated by commas; empty: all but _*"),
    text("host", "default host of events"),
    text("source", "default source of events"),
    text("sourcetype", "default sourcetype of events"),
    boolean("useACK", "false", "whether answers contain an id for asking later whether the events are stored"),
    boolean("allowQueryStringAuth", "", "whether the token may be passed in the URL"),
    row("connection_host", CONNECTION_HOST, "", "", "source of host if nothing sets it"),
];

const CONNECTION_HOST: Kind = Kind::Choice(&["ip", "dns", "proxied_ip", "none"]);

/// Source of `host` for events that name no host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionHost {
    /// The host name by which the sender addressed this server.
    #[default]
    Server,
    /// The sender's address.
    Address,
    /// The sender's address as reported by a proxy, or else the peer address of the connection.
    ProxiedAddress,
}

/// A token of the collector, with the defaults of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpToken {
    /// Stanza name after `http://`.
    pub name: String,
    /// The secret that senders present.
    pub token: String,
    /// Text for users.
    pub description: Option<String>,
    /// Whether the token is refused.
    pub disabled: bool,
    /// Default index of events.
    pub index: Option<String>,
    /// Indexes that events may name; empty for all indexes whose names do not begin with `_`.
    pub indexes: Vec<String>,
    /// Default `host` of events.
    pub host: Option<String>,
    /// Default `source` of events.
    pub source: Option<String>,
    /// Default `sourcetype` of events.
    pub sourcetype: Option<String>,
    /// Whether responses contain an acknowledgement id.
    pub use_ack: bool,
    /// Whether the token may be passed in the URL.
    pub in_query: bool,
    /// Source of `host` if neither the event nor `host` sets it.
    pub connection_host: ConnectionHost,
}

/// Settings of the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpInputSettings {
    /// Whether every request is refused.
    pub disabled: bool,
    /// Port that the collector listens on.
    pub port: u16,
    /// Whether senders speak TLS.
    pub tls: bool,
    /// PEM file with the certificate and key.
    pub certificate: Option<String>,
    /// Idle seconds after which a channel is removed; `None` means never.
    pub channel_idle_seconds: Option<u64>,
    /// Port for OTLP over gRPC, if enabled.
    pub grpc_port: Option<u16>,
    /// Tokens, sorted by name.
    pub tokens: Vec<HttpToken>,
}

impl HttpInputSettings {
    /// Reads inputs.conf.
    pub fn new(layers: &Layers) -> HttpInputSettings {
        let conf = layers.conf("inputs");
        let global = Values::for_stanza(GLOBAL_ROWS, conf, GLOBAL);
        let mut tokens = BTreeMap::new();
        for stanza in conf.stanzas() {
            let Some(name) = stanza.name.strip_prefix(TOKEN_PREFIX) else { continue };
            let own = Values::for_stanza(TOKEN_ROWS, conf, &stanza.name);
            let Some(token) = own.optional("token") else { continue };
            let either = |key: &str| own.optional(key).or_else(|| global.optional(key));
            let in_query = if own.optional("allowQueryStringAuth").is_some() { &own } else { &global };
            let indexes = own.optional("indexes").unwrap_or_default();
            let made = HttpToken {
                name: name.to_owned(),
                token,
                description: own.optional("description"),
                disabled: own.bool("disabled"),
                index: either("index").filter(|index| index != DEFAULT_INDEX_WORD),
                indexes: indexes.split(',').map(str::trim).filter(|name| !name.is_empty()).map(String::from).collect(),
                host: either("host"),
                source: either("source"),
                sourcetype: either("sourcetype"),
                use_ack: own.bool("useACK"),
                in_query: in_query.bool("allowQueryStringAuth"),
                connection_host: match either("connection_host").map(|word| word.to_ascii_lowercase()).as_deref() {
                    Some("ip" | "dns") => ConnectionHost::Address,
                    Some("proxied_ip") => ConnectionHost::ProxiedAddress,
                    _ => ConnectionHost::Server,
                },
            };
            tokens.insert(name.to_owned(), made);
        }
        let calls = Values::for_stanza(GRPC_ROWS, conf, GRPC);
        let port_of = |values: &Values| u16::try_from(values.count("port")).unwrap_or_default();
        HttpInputSettings {
            disabled: global.bool("disabled"),
            port: port_of(&global),
            grpc_port: (!calls.bool("disabled")).then(|| port_of(&calls)),
            tls: global.bool("enableSSL"),
            certificate: global.optional("serverCert"),
            channel_idle_seconds: global.bool("ackIdleCleanup").then(|| global.count("maxIdleTime")),
            tokens: tokens.into_values().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionHost, HttpInputSettings};
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn tokens_inherit_collector_settings() {
        let text = "[http]\nindex = web\nallowQueryStringAuth = true\nmaxIdleTime = 7\n\
                    [http://apps]\ntoken = 11-22\nindexes = web, apps\nuseACK = 1\nallowQueryStringAuth = 0\n\
                    [http://edge]\ntoken = 33\nindex = edge\ndisabled = 1\nconnection_host = proxied_ip\n\
                    [http://none]\nindex = x\n[monitor:///var/log]\nindex = os\n";
        let layers = Layers::new([local("inputs", text)]);
        let settings = HttpInputSettings::new(&layers);
        assert_eq!((settings.channel_idle_seconds, settings.port), (Some(7), 8088));
        assert_eq!(settings.grpc_port, None, "disabled by default");
        let names: Vec<&str> = settings.tokens.iter().map(|token| token.name.as_str()).collect();
        assert_eq!(names, ["apps", "edge"], "a stanza without a token is ignored");
        let apps = &settings.tokens[0];
        assert_eq!((apps.token.as_str(), apps.index.as_deref(), apps.use_ack), ("11-22", Some("web"), true));
        assert_eq!((apps.indexes.len(), apps.in_query, apps.disabled), (2, false, false));
        let edge = &settings.tokens[1];
        assert_eq!((edge.index.as_deref(), edge.in_query, edge.disabled), (Some("edge"), true, true));
        assert_eq!(edge.connection_host, ConnectionHost::ProxiedAddress);
        let warnings: Vec<String> = layers.warnings().iter().map(ToString::to_string).collect();
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn the_index_default_is_the_default_index() {
        let text = "[http]\nindex = web\n[http://a]\ntoken = 1\nindex = default\n";
        let settings = HttpInputSettings::new(&Layers::new([local("inputs", text)]));
        assert_eq!(settings.tokens[0].index, None);
    }

    #[test]
    fn grpc_has_a_port_if_configured() {
        let port = |text: &str| HttpInputSettings::new(&Layers::new([local("inputs", text)])).grpc_port;
        assert_eq!(port("[otlp]\ndisabled = 0\n"), Some(4317));
        assert_eq!(port("[otlp]\nport = 5000\ndisabled = false\n"), Some(5000));
        assert_eq!(port("[otlp]\nport = 5000\n"), None);
    }

    #[test]
    fn an_invalid_value_is_reported_and_ignored() {
        let layers = Layers::new([local("inputs", "[http://a]\ntoken = 1\nuseACK = perhaps\n")]);
        assert!(!HttpInputSettings::new(&layers).tokens[0].use_ack);
        assert_eq!(layers.warnings().len(), 1);
    }

    #[test]
    fn built_in_file_and_table_agree() {
        assert_eq!(HttpInputSettings::new(&Layers::new([])), HttpInputSettings::new(&Layers::without_builtin([])));
    }
}
