//! server.conf: the name of this server.

use crate::layers::Layers;
use crate::table::{ConfTable, Kind, Row, Section, StanzaName, row};
use crate::values::Values;

/// Stanza read.
const GENERAL: &str = "general";

/// Settings of server.conf; the rest of Splunk's is about parts that do not exist here.
pub static SERVER: ConfTable = ConfTable {
    conf: "server",
    sections: &[Section { stanza: StanzaName::Named(GENERAL), rows: ROWS }],
    unsupported: &[],
    unused: &["pass4SymmKey", "sessionTimeout", "guid", "site", "trustedIP"],
};

const ROWS: &[Row] = &[row("serverName", Kind::Text, "", "", "name in splunk_server; empty: the machine's")];

/// What server.conf says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// `[general] serverName`; `None` is the machine's name.
    pub server_name: Option<String>,
}

impl ServerSettings {
    /// Reads server.conf.
    pub fn new(layers: &Layers) -> ServerSettings {
        let values = Values::of_stanza(ROWS, layers.conf("server"), GENERAL);
        ServerSettings { server_name: values.optional("serverName") }
    }
}

#[cfg(test)]
mod tests {
    use super::ServerSettings;
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn the_name_if_one_is_set() {
        assert_eq!(ServerSettings::new(&Layers::new([])).server_name, None);
        let named = Layers::new([local("server", "[general]\nserverName = log1\n[sslConfig]\nx = y\n")]);
        assert_eq!(ServerSettings::new(&named).server_name.as_deref(), Some("log1"));
        assert!(named.warnings().is_empty());
    }
}
