//! inputs.conf stanzas of listening inputs: `[tcp://PORT]`, `[tcp-ssl://PORT]`, `[udp://PORT]`, `[splunktcp://PORT]`,
//! `[splunktcp-ssl:PORT]`, `[splunktcptoken://NAME]`, and `[SSL]`. `[splunktcp]` has the defaults of all forwarder
//! ports.
//!
//! Not here: binding ports, resolving addresses, loading certificates.

use std::net::SocketAddr;

use crate::layers::{Layers, MergedConf};
use crate::table::{Kind, Row, Section, StanzaName, boolean, count, row, text};
use crate::values::Values;

/// Stanza with the defaults of all forwarder ports.
const SPLUNKTCP: &str = "splunktcp";
/// Prefix of stanzas for forwarder tokens.
const TOKEN_PREFIX: &str = "splunktcptoken://";
/// Stanza of certificates.
const SSL: &str = "SSL";
/// Unit suffixes of a size.
const SIZE_UNITS: [(&str, u64); 4] = [("KB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("B", 1)];

/// Sections of inputs.conf that this module describes.
pub(crate) const SECTIONS: &[Section] = &[
    Section { stanza: StanzaName::Prefix("tcp://"), rows: RAW_ROWS },
    Section { stanza: StanzaName::Prefix("tcp-ssl:"), rows: RAW_ROWS },
    Section { stanza: StanzaName::Prefix("udp://"), rows: RAW_ROWS },
    Section { stanza: StanzaName::Named(SPLUNKTCP), rows: FORWARDER_ROWS },
    Section { stanza: StanzaName::Prefix("splunktcp://"), rows: FORWARDER_ROWS },
    Section { stanza: StanzaName::Prefix(TOKEN_PREFIX), rows: TOKEN_ROWS },
    Section { stanza: StanzaName::Prefix("splunktcp-ssl:"), rows: FORWARDER_ROWS },
    Section { stanza: StanzaName::Named(SSL), rows: SSL_ROWS },
];

const RAW_ROWS: &[Row] = &[
    boolean("disabled", "false", "whether the port is disabled"),
    row("index", Kind::Text, "main", "", "index of the events"),
    text("host", "host of the events"),
    text("source", "source of the events; default: tcp:PORT or udp:PORT"),
    text("sourcetype", "sourcetype of the events; default: tcp-raw or udp:PORT"),
    row("connection_host", HOST_FROM, "", "", "source of host: the sender's address, its name, or the setting host"),
    text("acceptFrom", "addresses and networks that may send, separated by commas; ! excludes one"),
    text("restrictToHost", "the only host that may send, like HOST in a stanza named HOST:PORT"),
    row("bindAddress", Kind::Text, "0.0.0.0", "", "address to listen on"),
    row("queueSize", Kind::Text, "500KB", "", "bytes read from one sender before the next sender's turn"),
    count("rawTcpDoneTimeout", "10", "seconds", "idle time after which the last event of a connection is complete"),
    boolean("no_priority_stripping", "false", "whether <N> at the start of datagrams is kept"),
    boolean(
        "no_appending_timestamp",
        "false",
        "whether datagrams are kept as they are, without prepending time and host",
    ),
    text("_TCP_ROUTING", "groups of outputs.conf that a forwarder sends to, separated by commas"),
    count("_rcvbuf", "16777216", "bytes", "receive buffer requested from the system"),
];

const FORWARDER_ROWS: &[Row] = &[
    boolean("disabled", "false", "whether the port is disabled"),
    row("index", Kind::Text, "main", "", "default index of events"),
    text("host", "default host of events"),
    text("source", "default source of events"),
    text("sourcetype", "default sourcetype of events"),
    row("connection_host", HOST_FROM, "", "", "source of host for events that name none"),
    text("acceptFrom", "addresses and networks that may send, separated by commas; ! excludes one"),
    text("restrictToHost", "the only host that may send, like HOST in a stanza named HOST:PORT"),
    row("bindAddress", Kind::Text, "0.0.0.0", "", "address to listen on"),
    boolean("enableS2SHeartbeat", "true", "whether connections of silent forwarders are closed"),
    count("s2sHeartbeatTimeout", "600", "seconds", "idle time after which a forwarder's connection is closed"),
    text("_TCP_ROUTING", "groups of outputs.conf that a forwarder sends to, separated by commas"),
    boolean(
        "acceptInternalIndexes",
        "false",
        "whether forwarders may write to internal indexes, whose names begin with _",
    ),
    count("negotiateProtocolLevel", "", "", "highest protocol level offered; below 1: no v4 packets"),
];

const TOKEN_ROWS: &[Row] = &[
    boolean("disabled", "false", "whether the token is disabled"),
    text("token", "token that forwarders must present; if any such stanza exists, a token is required"),
];

const SSL_ROWS: &[Row] = &[
    text("serverCert", "PEM file with the certificate, its CA certificates, and its key"),
    boolean("requireClientCert", "false", "whether senders must present a certificate"),
    text("sslRootCAPath", "PEM file with the CA certificates for senders"),
];

const HOST_FROM: Kind = Kind::Choice(&["ip", "dns", "none"]);

/// Source of `host` for events that name no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderHost {
    /// The sender's address.
    Address,
    /// The sender's host name, or the sender's address if it has no name.
    Name,
    /// The `host` setting, or this machine's name.
    Fixed,
}

/// Protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkKind {
    /// Text over TCP.
    Tcp,
    /// Text in datagrams.
    Udp,
    /// Forwarders.
    Forwarders,
}

/// Settings of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkInput {
    /// Stanza name.
    pub stanza: String,
    /// Protocol.
    pub kind: NetworkKind,
    /// Whether senders speak TLS.
    pub tls: bool,
    /// The only host that may send, if the stanza's name or `restrictToHost` gives one.
    pub remote: Option<String>,
    /// Port; 0 lets the system choose one.
    pub port: u16,
    /// Address to bind.
    pub bind: String,
    /// Default index of events.
    pub index: String,
    /// `host` of events, if set.
    pub host: Option<String>,
    /// `source` of events.
    pub source: Option<String>,
    /// `sourcetype` of events.
    pub sourcetype: Option<String>,
    /// Groups of outputs.conf that a forwarder sends the events to.
    pub routing: Option<String>,
    /// Source of `host`.
    pub sender_host: SenderHost,
    /// Addresses and networks that may send or, with `!` before them, may not; empty for any.
    pub accept_from: Vec<String>,
    /// Bytes read from one sender before another sender is served.
    pub queue_bytes: usize,
    /// Idle seconds after which a connection's last event is complete.
    pub done_seconds: u64,
    /// Whether `<N>` at the start of datagrams is kept.
    pub keeps_priority: bool,
    /// Whether datagrams are kept as they are, without prepending time and host.
    pub keeps_text: bool,
    /// Size of the receive buffer requested from the system.
    pub receive_bytes: usize,
    /// Idle seconds after which a forwarder's connection is closed; `None` means never.
    pub heartbeat_seconds: Option<u64>,
    /// Highest protocol level offered to forwarders.
    pub protocol_level: Option<u64>,
    /// Whether forwarders may write to internal indexes, whose names begin with `_`.
    pub accepts_internal: bool,
}

/// Certificates of TLS ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SslSettings {
    /// PEM file with the certificate and key.
    pub certificate: Option<String>,
    /// Whether senders must present a certificate.
    pub requires_client: bool,
    /// PEM file with the CA certificates for senders.
    pub roots: Option<String>,
}

/// All ports except the HTTP Event Collector's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkInputSettings {
    /// Enabled ports, in the order of inputs.conf.
    pub inputs: Vec<NetworkInput>,
    /// Stanzas whose name contains no valid port.
    pub bad_names: Vec<String>,
    /// `[SSL]`.
    pub ssl: SslSettings,
    /// Tokens, one of which a forwarder must present; `None` if there is no token stanza. A stanza that is disabled or
    /// has no token adds no valid token, but forwarders still need a token.
    pub forwarder_tokens: Option<Vec<String>>,
}

impl NetworkInputSettings {
    /// Reads inputs.conf.
    pub fn new(layers: &Layers) -> NetworkInputSettings {
        let conf = layers.conf("inputs");
        let (mut inputs, mut bad_names) = (Vec::new(), Vec::new());
        for stanza in conf.stanzas() {
            let Some((kind, tls, place)) = parse_kind(&stanza.name) else { continue };
            let Some((remote, port)) = parse_address(place) else {
                bad_names.push(stanza.name.clone());
                continue;
            };
            let own = match kind {
                NetworkKind::Forwarders => forwarder_values(conf, &stanza.name),
                NetworkKind::Tcp | NetworkKind::Udp => Values::for_stanza(RAW_ROWS, conf, &stanza.name),
            };
            let remote = remote.or_else(|| own.optional("restrictToHost"));
            if !own.bool("disabled") {
                let made = NetworkInput { stanza: stanza.name.clone(), kind, tls, remote, port, ..input(kind, &own) };
                inputs.push(made);
            }
        }
        let ssl = Values::for_stanza(SSL_ROWS, conf, SSL);
        let ssl = SslSettings {
            certificate: ssl.optional("serverCert"),
            requires_client: ssl.bool("requireClientCert"),
            roots: ssl.optional("sslRootCAPath"),
        };
        let of_tokens: Vec<&str> = conf.stanzas().iter().map(|stanza| stanza.name.as_str()).collect();
        let of_tokens = of_tokens.into_iter().filter(|name| name.starts_with(TOKEN_PREFIX));
        let tokens: Vec<Option<String>> = of_tokens
            .map(|name| Values::for_stanza(TOKEN_ROWS, conf, name))
            .map(|own| own.optional("token").filter(|_| !own.bool("disabled")))
            .collect();
        let forwarder_tokens = (!tokens.is_empty()).then(|| tokens.into_iter().flatten().collect());
        NetworkInputSettings { inputs, bad_names, ssl, forwarder_tokens }
    }

    /// Faults of stanzas whose port is not opened.
    pub fn faults(&self) -> Vec<String> {
        let names = self.bad_names.iter().map(|name| {
            format!("inputs.conf [{name}]: its name does not end in a port up to {}, so no port is opened", u16::MAX)
        });
        names.collect()
    }
}

impl NetworkInput {
    /// A forwarder port on the given address, with the settings of the stanza `[splunktcp://PORT]` over the settings of
    /// `[splunktcp]`.
    pub fn for_forwarders(layers: &Layers, address: SocketAddr) -> NetworkInput {
        let (kind, port) = (NetworkKind::Forwarders, address.port());
        let stanza = format!("splunktcp://{port}");
        let own = forwarder_values(layers.conf("inputs"), &stanza);
        NetworkInput { stanza, port, bind: address.ip().to_string(), ..input(kind, &own) }
    }
}

/// The settings of a forwarder port, highest precedence first: from its own stanza, `[splunktcp]` and `[default]`.
fn forwarder_values<'a>(conf: &'a MergedConf, stanza: &str) -> Values<'a> {
    let own = conf.stanza(stanza).into_iter().flat_map(|stanza| &stanza.settings);
    let shared = conf.effective(SPLUNKTCP).into_iter();
    let shared = shared.map(|(key, setting)| (key, setting.value.as_str()));
    Values::new(
        FORWARDER_ROWS,
        shared.chain(own.map(|(key, setting)| (key.as_str(), setting.value.as_str()))).collect(),
    )
}

/// Parses a stanza name: protocol, TLS, and the rest of the name.
fn parse_kind(name: &str) -> Option<(NetworkKind, bool, &str)> {
    let kinds = [
        ("splunktcp-ssl:", NetworkKind::Forwarders, true),
        ("splunktcp://", NetworkKind::Forwarders, false),
        ("tcp-ssl:", NetworkKind::Tcp, true),
        ("tcp://", NetworkKind::Tcp, false),
        ("udp://", NetworkKind::Udp, false),
    ];
    kinds.iter().find_map(|(prefix, kind, tls)| {
        let rest = name.strip_prefix(prefix)?;
        Some((*kind, *tls, rest.strip_prefix("//").unwrap_or(rest)))
    })
}

/// `PORT`, `:PORT` or `HOST:PORT`.
fn parse_address(place: &str) -> Option<(Option<String>, u16)> {
    let (remote, port) = place.rsplit_once(':').unwrap_or(("", place));
    let remote = remote.trim_matches(['[', ']']);
    Some(((!remote.is_empty()).then(|| remote.to_owned()), port.parse().ok()?))
}

/// Settings of a stanza, except the settings in its name, which the caller adds.
fn input(kind: NetworkKind, own: &Values<'_>) -> NetworkInput {
    let is_raw = kind != NetworkKind::Forwarders;
    let host = own.optional("host").filter(|host| host != "$decideOnStartup");
    let word = own.optional("connection_host").map(|word| word.to_ascii_lowercase());
    let sender_host = match (word.as_deref(), kind) {
        (Some("ip"), _) => SenderHost::Address,
        (Some("dns"), _) => SenderHost::Name,
        (Some(_), _) => SenderHost::Fixed,
        // A configured host takes precedence unless `connection_host` is configured, too.
        (None, _) if host.is_some() => SenderHost::Fixed,
        (None, NetworkKind::Tcp) => SenderHost::Name,
        (None, _) => SenderHost::Address,
    };
    let addresses = own.owned("acceptFrom");
    NetworkInput {
        stanza: String::new(),
        kind,
        tls: false,
        remote: None,
        port: 0,
        bind: own.owned("bindAddress"),
        index: own.index(),
        host,
        source: own.optional("source"),
        sourcetype: own.optional("sourcetype"),
        routing: own.optional("_TCP_ROUTING"),
        sender_host,
        accept_from: addresses.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect(),
        queue_bytes: if is_raw { own.read("queueSize", parse_size).unwrap_or_default() } else { 0 },
        done_seconds: if is_raw { own.count("rawTcpDoneTimeout") } else { 0 },
        keeps_priority: is_raw && own.bool("no_priority_stripping"),
        keeps_text: is_raw && own.bool("no_appending_timestamp"),
        receive_bytes: if is_raw { own.size("_rcvbuf") } else { 0 },
        heartbeat_seconds: (!is_raw && own.bool("enableS2SHeartbeat")).then(|| own.count("s2sHeartbeatTimeout")),
        protocol_level: if is_raw { None } else { own.read("negotiateProtocolLevel", |text| text.parse().ok()) },
        accepts_internal: !is_raw && own.bool("acceptInternalIndexes"),
    }
}

/// A size such as `500KB`; a number without a unit is in bytes.
pub(crate) fn parse_size(text: &str) -> Option<usize> {
    let upper = text.trim().to_ascii_uppercase();
    let (digits, factor) = SIZE_UNITS
        .iter()
        .find_map(|(unit, factor)| Some((upper.strip_suffix(unit)?.trim_end(), *factor)))
        .unwrap_or((upper.as_str(), 1));
    usize::try_from(digits.parse::<u64>().ok()?.checked_mul(factor)?).ok()
}

#[cfg(test)]
mod tests {
    use super::{NetworkInputSettings, NetworkKind, SenderHost, parse_size};
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn forwarder_tokens_are_read() {
        let tokens = |text: &str| NetworkInputSettings::new(&Layers::new([local("inputs", text)])).forwarder_tokens;
        assert_eq!(tokens("[splunktcp://9997]\n"), None);
        let two = "[splunktcptoken://a]\ntoken = A-1\n[splunktcptoken://b]\ntoken = B-2\n";
        assert_eq!(tokens(two), Some(vec!["A-1".to_owned(), "B-2".to_owned()]));
        assert_eq!(tokens("[splunktcptoken://a]\ntoken = A-1\ndisabled = 1\n[splunktcptoken://b]\n"), Some(Vec::new()));
    }

    #[test]
    fn the_index_default_is_the_default_index() {
        let text = "[tcp://514]\nindex = default\n[udp://514]\n[splunktcp]\nindex = default\n[splunktcp://9997]\n";
        let settings = NetworkInputSettings::new(&Layers::new([local("inputs", text)]));
        let indexes: Vec<&str> = settings.inputs.iter().map(|input| input.index.as_str()).collect();
        assert_eq!(indexes, ["main"; 3]);
    }

    #[test]
    fn a_port_has_the_settings_of_its_stanza() {
        let text = "[tcp://:514]\nsourcetype = syslog\nindex = net\nrawTcpDoneTimeout = 3\nqueueSize = 2MB\n\
                    [tcp://10.1.2.3:9000]\nhost = here\n[tcp-ssl:6514]\nconnection_host = ip\n[tcp-ssl://6515]\n\
                    [udp://514]\nno_priority_stripping = 1\n_rcvbuf = 9\nacceptFrom = 10.0.0.0/8, !10.1.1.1\n\
                    [splunktcp]\nindex = edge\ns2sHeartbeatTimeout = 70\n[splunktcp://9997]\n\
                    [splunktcp-ssl:9998]\ndisabled = 1\n[splunktcp://9999]\nindex = own\n\
                    [udp://515]\nrestrictToHost = 10.1.2.3\n[SSL]\nserverCert = a.pem\n[tcp://web]\n";
        let layers = Layers::new([local("inputs", text)]);
        let settings = NetworkInputSettings::new(&layers);
        let ports: Vec<String> = settings
            .inputs
            .iter()
            .map(|input| {
                format!("{:?} {} {:?} {} {:?}", input.kind, input.tls, input.remote, input.port, input.sender_host)
            })
            .collect();
        let expected = [
            "Tcp false None 514 Name",
            "Tcp false Some(\"10.1.2.3\") 9000 Fixed",
            "Tcp true None 6514 Address",
            "Tcp true None 6515 Name",
            "Udp false None 514 Address",
            "Forwarders false None 9997 Address",
            "Forwarders false None 9999 Address",
            "Udp false Some(\"10.1.2.3\") 515 Address",
        ];
        assert_eq!(ports, expected);
        let tcp = &settings.inputs[0];
        assert_eq!((tcp.done_seconds, tcp.queue_bytes, tcp.index.as_str()), (3, 2 << 20, "net"));
        let udp = &settings.inputs[4];
        assert_eq!((udp.keeps_priority, udp.keeps_text, udp.receive_bytes), (true, false, 9));
        assert_eq!(udp.accept_from, ["10.0.0.0/8", "!10.1.1.1"]);
        assert_eq!(
            (settings.ssl.certificate.as_deref(), settings.bad_names.as_slice()),
            (Some("a.pem"), &["tcp://web".to_owned()][..])
        );
        let forwarders = settings.inputs[5..7].iter().map(|input| (input.index.as_str(), input.heartbeat_seconds));
        assert_eq!(forwarders.collect::<Vec<_>>(), [("edge", Some(70)), ("own", Some(70))]);
        assert!(layers.warnings().is_empty(), "{:?}", layers.warnings());
        assert_eq!((NetworkKind::Tcp < NetworkKind::Udp, SenderHost::Fixed), (true, SenderHost::Fixed));
    }

    #[test]
    fn requested_ports_have_the_configured_settings() {
        let layers = Layers::new([local("inputs", "[splunktcp://9997]\nindex = edge\nbindAddress = 10.0.0.1\n")]);
        let port = |address: &str| {
            let input = super::NetworkInput::for_forwarders(&layers, address.parse().unwrap());
            (input.stanza, input.bind, input.port, input.index, input.tls, input.remote)
        };
        let of = |port: u16, index: &str| {
            (format!("splunktcp://{port}"), "127.0.0.1".to_owned(), port, index.to_owned(), false, None)
        };
        assert_eq!(port("127.0.0.1:9997"), of(9997, "edge"));
        assert_eq!(port("127.0.0.1:9998"), of(9998, "main"));
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in
            [("500KB", Some(512_000)), ("7", Some(7)), ("1 mb", Some(1 << 20)), ("x", None), ("-1", None)]
        {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }
}
