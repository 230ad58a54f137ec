//! `[catalog]` of server.conf: the database that holds the catalog. The stanza is Quarry's own.
//!
//! Not here: environment variables and files that the settings name (ingest), and the connection (catalog).

use std::fmt;

use crate::layers::Layers;
use crate::table::{Kind, Row, row, text};
use crate::values::Values;

pub(super) const CATALOG: &str = "catalog";
/// Maximum of `waitSeconds`: a day.
const WAIT_MAX: i64 = 86_400;

pub(super) const CATALOG_ROWS: &[Row] = &[
    text("url", "postgresql://USER@HOST:PORT/DATABASE; empty: the file catalog.sqlite of the data directory"),
    text(
        "password",
        "password of the user; $NAME is the value of an environment variable; empty: PGPASSWORD, passfile",
    ),
    text("passfile", "file with passwords as libpq reads it; empty: PGPASSFILE"),
    text("sslRootCAPath", "PEM file with the CA certificates of the server; empty: the system's"),
    row(
        "waitSeconds",
        Kind::Integer { min: 1, max: WAIT_MAX },
        "120",
        "s",
        "time that reads and writes wait for a lost connection to be restored before they fail",
    ),
    text(
        "cluster",
        "name of the group of nodes that share users and knowledge objects in this database, 1 to 40 of a-z, 0-9, _; empty: \
         they are not shared",
    ),
];

/// A catalog in PostgreSQL, as server.conf describes it.
#[derive(Clone, PartialEq, Eq)]
pub struct CatalogSettings {
    /// `url`.
    pub url: String,
    /// `password`, unexpanded.
    pub password: Option<String>,
    /// `passfile`.
    pub passfile: Option<String>,
    /// `sslRootCAPath`.
    pub roots: Option<String>,
    /// `waitSeconds`.
    pub wait_secs: u64,
    /// `cluster`.
    pub cluster: Option<String>,
}

impl fmt::Debug for CatalogSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain the password, too.
        out.debug_struct("CatalogSettings").field("wait_secs", &self.wait_secs).finish_non_exhaustive()
    }
}

impl CatalogSettings {
    /// Reads server.conf; `None` if the catalog is in the data directory.
    pub fn new(layers: &Layers) -> Option<CatalogSettings> {
        let values = Values::for_stanza(CATALOG_ROWS, layers.conf("server"), CATALOG);
        Some(CatalogSettings {
            url: values.optional("url")?,
            password: values.optional("password"),
            passfile: values.optional("passfile"),
            roots: values.optional("sslRootCAPath"),
            wait_secs: values.count("waitSeconds"),
            cluster: values.optional("cluster"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::CatalogSettings;
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn the_catalog_is_in_the_data_folder_unless_it_has_a_url() {
        let read = |text: &str| CatalogSettings::new(&Layers::new([local("server", text)]));
        assert_eq!(read("[catalog]\npassword = x\n"), None);
        let found = read("[catalog]\nurl = postgresql://me:secret@db/logs\npassword = $DB\n").unwrap();
        assert_eq!((&*found.url, found.password.as_deref()), ("postgresql://me:secret@db/logs", Some("$DB")));
        assert_eq!((found.passfile.as_deref(), found.roots.as_deref(), found.wait_secs), (None, None, 120));
        assert!(!format!("{found:?}").contains("secret"));
        assert_eq!(found.cluster, None);
        let whole = "[catalog]\nurl = u\npassfile = /p\nsslRootCAPath = /c.pem\nwaitSeconds = 5\ncluster = east\n";
        let found = read(whole).unwrap();
        assert_eq!(
            (found.passfile.as_deref(), found.roots.as_deref(), found.wait_secs),
            (Some("/p"), Some("/c.pem"), 5)
        );
        assert_eq!(found.cluster.as_deref(), Some("east"));
        assert!(Layers::new([local("server", whole)]).warnings().is_empty());
    }
}
