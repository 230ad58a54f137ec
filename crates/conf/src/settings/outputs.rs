//! outputs.conf: the indexers that a forwarder sends to, in stanzas `[tcpout]`, `[tcpout:GROUP]` and
//! `[tcpout-server://HOST:PORT]`.
//!
//! Settings of a group override settings of `[tcpout]`. The stanza of a server overrides its group's TLS settings and
//! token. Patterns of indexes stay text here; the forwarder compiles them.
//!
//! Not here: sockets, certificates, name resolution.

use quarry_stdx::Fault;

use crate::layers::Layers;
use crate::settings::network_input::parse_size;
use crate::table::{ConfTable, Kind, Row, Section, StanzaName, at_least, boolean, concat, count, row, text};
use crate::values::Values;

/// Stanza of all groups.
const TCPOUT: &str = "tcpout";
/// Prefix of a group's stanza.
const GROUP_PREFIX: &str = "tcpout:";
/// Prefix of a server's stanza.
const SERVER_PREFIX: &str = "tcpout-server://";
/// Prefix of the index filter settings.
const INDEX_FILTER: &str = "forwardedindex.";
/// Splunk's default filters: all indexes without a leading underscore, and the internal indexes listed here.
pub const INDEX_FILTERS: [(&str, &str); 3] = [
    ("forwardedindex.0.whitelist", ".*"),
    ("forwardedindex.1.blacklist", "_.*"),
    ("forwardedindex.2.whitelist", "(_audit|_internal|_introspection|_telemetry)"),
];
const QUEUE_BYTES_DEFAULT: usize = 1 << 30;
/// Minimum bytes of the queue.
const QUEUE_BYTES_MIN: usize = 1 << 20;

/// Settings of outputs.conf.
pub static OUTPUTS: ConfTable = ConfTable {
    conf: "outputs",
    sections: &[
        Section { stanza: StanzaName::Named(TCPOUT), rows: GLOBAL_ROWS },
        Section { stanza: StanzaName::Prefix(GROUP_PREFIX), rows: GROUP_ROWS },
        Section { stanza: StanzaName::Prefix(SERVER_PREFIX), rows: GROUP_ROWS },
    ],
    unsupported: &[
        "indexerDiscovery",
        "socksServer",
        "sslPassword",
        "sslAltNameToCheck",
        "sslCipher",
        "sslVersions",
        "cipherSuite",
        "compressed",
        "dropClonedEventsOnQueueFull",
        "tcpSendBufSz",
        "negotiateProtocolLevel",
        "sslQuietShutdown",
        "useClientSSLCompression",
    ],
    unused: &[
        "autoLB",
        "forceTimebasedAutoLB",
        "[tcpout:*] maxQueueSize",
        "heartbeatFrequency",
        "maxConnectionsPerIndexer",
        "channelReapInterval",
        "channelReapLowater",
        "channelTTL",
        "ackTimeoutOnShutdown",
        "polling_interval",
        "maxFailuresPerInterval",
        "secsInFailureInterval",
        "backoffOnFailure",
        "dnsResolutionInterval",
    ],
};

const GLOBAL_ROWS: &[Row] =
    &concat::<_, { OWN_GLOBAL_ROWS.len() + SHARED_ROWS.len() }>(&[OWN_GLOBAL_ROWS, SHARED_ROWS]);
const GROUP_ROWS: &[Row] = &concat::<_, { OWN_GROUP_ROWS.len() + SHARED_ROWS.len() }>(&[OWN_GROUP_ROWS, SHARED_ROWS]);

const OWN_GLOBAL_ROWS: &[Row] = &[
    boolean("disabled", "false", "whether forwarding is disabled"),
    text("defaultGroup", "groups for events that name none, separated by commas"),
    boolean("indexAndForward", "false", "whether events are also stored here; ignored by forwarders"),
    row("maxQueueSize", Kind::Text, "auto", "", "maximum bytes of the queue on disk, as in 500MB; auto: 1GB"),
    text("persistentQueueSize", "maximum bytes of the queue on disk; overrides maxQueueSize"),
    boolean("forwardedindex.filter.disable", "false", "whether the index filters are ignored"),
    text(INDEX_FILTER, "N.whitelist, N.blacklist: patterns of indexes to forward; the last that matches applies"),
    text("server", "servers of groups that name none"),
];

const OWN_GROUP_ROWS: &[Row] = &[
    boolean("disabled", "false", "whether the group is disabled"),
    text("server", "host:port of the group's servers, separated by commas"),
];

/// Rows of `[tcpout]` and of groups.
const SHARED_ROWS: &[Row] = &[
    boolean("useACK", "false", "whether servers are asked to acknowledge events; Quarry servers always do"),
    boolean("sendCookedData", "true", "whether the Splunk-to-Splunk protocol is used rather than plain lines"),
    row("autoLBFrequency", at_least(1), "30", "seconds", "time after which the next server of the group is used"),
    count("autoLBVolume", "0", "bytes", "bytes after which the next server is used; 0: unlimited"),
    row(
        "dropEventsOnQueueFull",
        Kind::Integer { min: -1, max: 1 << 31 },
        "-1",
        "seconds",
        "wait for room in the queue after which new events are dropped; below 1: unlimited",
    ),
    boolean(
        "blockOnCloning",
        "true",
        "whether all groups wait for a blocked group; otherwise that group loses the events that do not fit",
    ),
    row("connectionTimeout", at_least(1), "20", "seconds", "connection timeout"),
    row("readTimeout", at_least(1), "300", "seconds", "timeout for a response"),
    row("writeTimeout", at_least(1), "300", "seconds", "timeout for writing"),
    row("useSSL", Kind::Text, "legacy", "", "true, false, or legacy: TLS if certificates are configured"),
    text("sslRootCAPath", "PEM file with the CA certificates for servers"),
    text("clientCert", "PEM file with this machine's certificate and key"),
    text("sslCertPath", "older name of clientCert"),
    boolean("sslVerifyServerCert", "false", "whether servers' certificates are checked"),
    text("sslCommonNameToCheck", "name that a server's certificate must be issued for, if not the server's own"),
    text("token", "token for the servers, as in their [splunktcptoken://NAME]"),
];

/// TLS settings of connections to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputTls {
    /// PEM file with the CA certificates for servers.
    pub roots: Option<String>,
    /// PEM file with this machine's certificate and key.
    pub certificate: Option<String>,
    /// Whether servers' certificates are checked.
    pub verifies: bool,
    /// Name that server certificates must be issued for.
    pub name: Option<String>,
}

/// An indexer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputServer {
    /// `host:port`.
    pub address: String,
    /// TLS settings, if TLS is used.
    pub tls: Option<OutputTls>,
    /// Token presented to the server.
    pub token: Option<String>,
}

/// A group of indexers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputGroup {
    /// Name of the group.
    pub name: String,
    /// Servers of the group in order; never empty.
    pub servers: Vec<OutputServer>,
    /// Whether servers are asked to acknowledge events; Quarry servers always acknowledge.
    pub use_ack: bool,
    /// Whether the Splunk-to-Splunk protocol is used, rather than raw text.
    pub is_cooked: bool,
    /// Seconds after which the next server is used.
    pub balance_seconds: u64,
    /// Bytes after which the next server is used; 0 is unlimited.
    pub balance_bytes: u64,
    /// Whether all groups wait for this group while it is blocked.
    pub blocks: bool,
    /// Connection timeout in seconds.
    pub connect_seconds: u64,
    /// Timeout for a response in seconds.
    pub read_seconds: u64,
    /// Timeout for writing in seconds.
    pub write_seconds: u64,
}

/// The settings of outputs.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSettings {
    /// Enabled groups, in the order of outputs.conf.
    pub groups: Vec<OutputGroup>,
    /// Whether there is no enabled group because `[tcpout]` is disabled.
    pub is_disabled: bool,
    /// Names of the groups for events without routing.
    pub default_groups: Vec<String>,
    /// Maximum bytes of the queue on disk.
    pub queue_bytes: usize,
    /// Index patterns in order; the flag is true if matching indexes are sent.
    pub index_filters: Vec<(String, bool)>,
    /// Seconds to wait for room in the queue before events are dropped; `None` waits without limit.
    pub drop_after_seconds: Option<u64>,
    /// Errors, as messages.
    pub faults: Vec<String>,
}

impl OutputSettings {
    /// Reads outputs.conf.
    pub fn new(layers: &Layers) -> OutputSettings {
        let conf = layers.conf("outputs");
        let all = Values::for_stanza(GLOBAL_ROWS, conf, TCPOUT);
        let mut faults = Vec::new();
        if all.bool("indexAndForward") {
            faults.push(
                "outputs.conf [tcpout]: indexAndForward = true: a forwarder keeps no events; they are only sent"
                    .to_owned(),
            );
        }
        let mut groups = Vec::new();
        for stanza in conf.stanzas() {
            let Some(name) = stanza.name.strip_prefix(GROUP_PREFIX) else { continue };
            match group(layers, name) {
                Ok(found) => groups.extend(found),
                Err(fault) => faults.push(format!("outputs.conf [{}]: {fault}; the stanza is ignored", stanza.name)),
            }
        }
        let default_groups = words(all.text("defaultGroup"));
        let is_disabled = groups.is_empty() && all.bool("disabled");
        let is_known = |name: &str| is_disabled || groups.iter().any(|group| group.name == name);
        for name in default_groups.iter().filter(|name| !is_known(name)) {
            faults.push(format!("outputs.conf [tcpout]: defaultGroup = {name}: no group of this name has a server"));
        }
        let size = |key: &str| parse_size(all.text(key)).filter(|_| all.text(key).ends_with(['B', 'b']));
        let asked = size("persistentQueueSize").or_else(|| size("maxQueueSize"));
        if asked.is_none() && !all.text("maxQueueSize").eq_ignore_ascii_case("auto") {
            let text = all.text("maxQueueSize");
            faults.push(format!("outputs.conf [tcpout]: maxQueueSize = {text}: give KB, MB or GB; auto applies"));
        }
        let drop_after = all.integer("dropEventsOnQueueFull");
        OutputSettings {
            default_groups,
            groups,
            is_disabled,
            queue_bytes: asked.unwrap_or(QUEUE_BYTES_DEFAULT).max(QUEUE_BYTES_MIN),
            index_filters: index_filters(layers),
            drop_after_seconds: u64::try_from(drop_after).ok().filter(|seconds| *seconds > 0),
            faults,
        }
    }
}

/// A group; `None` if it is disabled.
fn group(layers: &Layers, name: &str) -> Result<Option<OutputGroup>, Fault> {
    let set = settings_of(layers, &[TCPOUT, &format!("{GROUP_PREFIX}{name}")]);
    let own = Values::new(GROUP_ROWS, set);
    if own.bool("disabled") {
        return Ok(None);
    }
    let addresses = words(own.text("server"));
    if addresses.is_empty() {
        return Err(Fault::invalid("it names no server"));
    }
    let mut servers = Vec::new();
    for address in addresses {
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() {
            return Err(Fault::invalid(format!("server = {address}: give host:port")));
        }
        let stanzas = [TCPOUT, &format!("{GROUP_PREFIX}{name}"), &format!("{SERVER_PREFIX}{address}")];
        let set = settings_of(layers, &stanzas);
        let values = Values::new(GROUP_ROWS, set);
        let token = values.optional("token");
        if token.as_ref().is_some_and(|token| token.contains(';') || token.chars().any(char::is_control)) {
            return Err(Fault::invalid("token: it must not contain ; or control characters"));
        }
        servers.push(OutputServer { tls: tls(&values), token, address });
    }
    Ok(Some(OutputGroup {
        name: name.to_owned(),
        servers,
        use_ack: own.bool("useACK"),
        is_cooked: own.bool("sendCookedData"),
        balance_seconds: own.count("autoLBFrequency"),
        balance_bytes: own.count("autoLBVolume"),
        blocks: own.bool("blockOnCloning"),
        connect_seconds: own.count("connectionTimeout"),
        read_seconds: own.count("readTimeout"),
        write_seconds: own.count("writeTimeout"),
    }))
}

/// The settings of several stanzas; later stanzas override earlier stanzas.
fn settings_of<'a>(layers: &'a Layers, stanzas: &[&str]) -> std::collections::BTreeMap<&'a str, &'a str> {
    let conf = layers.conf("outputs");
    let own = stanzas.iter().filter_map(|stanza| conf.stanza(stanza));
    let defaults = conf.stanza(crate::text::DEFAULT_STANZA).into_iter();
    let rows = defaults.chain(own).flat_map(|stanza| &stanza.settings);
    rows.map(|(key, setting)| (key.as_str(), setting.value.as_str())).collect()
}

fn tls(own: &Values<'_>) -> Option<OutputTls> {
    let certificate = own.optional("clientCert").or_else(|| own.optional("sslCertPath"));
    let roots = own.optional("sslRootCAPath");
    let is_spoken = match crate::values::parse_bool(own.text("useSSL")) {
        Some(answer) => answer,
        None => certificate.is_some() || roots.is_some(),
    };
    let (verifies, name) = (own.bool("sslVerifyServerCert"), own.optional("sslCommonNameToCheck"));
    is_spoken.then_some(OutputTls { roots, certificate, verifies, name })
}

/// Index patterns in the order of their numbers. A setting replaces the default of the same number and list (whitelist
/// or blacklist); the other defaults remain.
fn index_filters(layers: &Layers) -> Vec<(String, bool)> {
    let set = settings_of(layers, &[TCPOUT]);
    if set.get("forwardedindex.filter.disable").and_then(|text| crate::values::parse_bool(text)) == Some(true) {
        return Vec::new();
    }
    let mut filters: std::collections::BTreeMap<(u64, &str), &str> = std::collections::BTreeMap::new();
    let own = set.iter().map(|(key, value)| (*key, *value));
    for (key, value) in INDEX_FILTERS.into_iter().chain(own) {
        if let Some((number, word)) = key.strip_prefix(INDEX_FILTER).and_then(|key| key.split_once('.'))
            && let Ok(number) = number.parse()
            && matches!(word, "whitelist" | "blacklist")
        {
            filters.insert((number, word), value);
        }
    }
    let set = filters.into_iter().filter(|(_, value)| !value.is_empty());
    set.map(|((_, word), value)| (value.to_owned(), word == "whitelist")).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::OutputSettings;
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn groups_inherit_global_settings() {
        let text = "[tcpout]\ndefaultGroup = one, two\nuseACK = true\nmaxQueueSize = 64MB\nautoLBFrequency = 5\n\
                    forwardedindex.3.blacklist = secret.*\n\
                    [tcpout:one]\nserver = a:9997, b:9998\nautoLBVolume = 1000\n\
                    [tcpout:two]\nserver=c:1\nuseACK = 0\nsslRootCAPath = ca.pem\nblockOnCloning = false\n\
                    [tcpout-server://b:9998]\nuseSSL = true\nclientCert = me.pem\nsslVerifyServerCert = 1\n\
                    [tcpout:off]\nserver = d:1\ndisabled = 1\n";
        let layers = Layers::new([local("outputs", text)]);
        let settings = OutputSettings::new(&layers);
        assert!(layers.warnings().is_empty() && settings.faults.is_empty(), "{:?}", layers.warnings());
        let [one, two] = &settings.groups[..] else { panic!("{settings:?}") };
        assert_eq!((one.use_ack, two.use_ack, one.balance_seconds, one.balance_bytes), (true, false, 5, 1000));
        assert_eq!((one.blocks, two.blocks, settings.queue_bytes), (true, false, 64 << 20));
        let addresses: Vec<&str> = one.servers.iter().map(|server| server.address.as_str()).collect();
        assert_eq!(addresses, ["a:9997", "b:9998"]);
        assert_eq!(one.servers[0].tls, None);
        let tls = one.servers[1].tls.as_ref().unwrap();
        assert_eq!((tls.certificate.as_deref(), tls.verifies, tls.roots.as_deref()), (Some("me.pem"), true, None));
        assert_eq!(two.servers[0].tls.as_ref().unwrap().roots.as_deref(), Some("ca.pem"));
        let filters: Vec<(&str, bool)> = settings.index_filters.iter().map(|(text, is)| (text.as_str(), *is)).collect();
        assert_eq!((filters.len(), filters[1], filters[3]), (4, ("_.*", false), ("secret.*", false)));
    }

    #[test]
    fn groups_can_be_disabled_together() {
        let text = "[tcpout]\ndisabled = 1\ndefaultGroup = a\n[tcpout:a]\nserver = a:9997\n";
        let read = |own: &str| OutputSettings::new(&Layers::new([local("outputs", &format!("{text}{own}"))]));
        let off = read("");
        assert_eq!((off.is_disabled, off.groups.len(), off.faults.len()), (true, 0, 0), "{:?}", off.faults);
        let on = read("disabled = 0\n");
        assert_eq!((on.is_disabled, on.groups.len(), on.faults.len()), (false, 1, 0), "{:?}", on.faults);
    }

    #[test]
    fn unusable_settings_are_reported() {
        let text = "[tcpout]\ndefaultGroup = none\nindexAndForward = true\nmaxQueueSize = 100\nuseAck = 1\n\
                    [tcpout:a]\nserver = nowhere\n[tcpout:b]\n";
        let layers = Layers::new([local("outputs", text)]);
        let settings = OutputSettings::new(&layers);
        assert_eq!(settings.faults.len(), 5, "{:?}", settings.faults);
        assert!(settings.groups.is_empty());
        assert_eq!(layers.warnings().len(), 1, "{:?}", layers.warnings());
    }
}
