//! `admin/NAME`: paths with the names of Splunk's handlers, as aliases of the paths of collections;
//! `data/indexes-extended`, which Splunk serves with further members; and `search/v1`, the first version of the
//! endpoints that have a second version.
//!
//! Older clients and many searches with `| rest` use the paths below `admin`. Each endpoint at or below the path of a
//! collection is also served at or below its alias. Links in answers contain the path of the collection. Not here:
//! endpoints that exist only below `admin` ([`super::constant_answers`], [`super::node_entries`]).

use axum::Extension;

use super::path_parts::FixedPart;
use super::row::{Endpoint, SERVICES};

/// The path of an alias and the path of its collection, both relative to the root.
type Alias = (&'static str, &'static str);

/// Folder of the aliases.
const ADMIN: &str = "admin";
/// Folder of views and other files of the user interface; an alias fixes its variable segment.
const UI_FILES: &str = "data/ui/{file}";
/// The name of this variable segment.
const FILE: &str = "file";

const ALIASES: &[Alias] = &[
    ("admin/alert_actions", "alerts/alert_actions"),
    ("admin/auth-services", "authentication/providers/services"),
    ("admin/capabilities", "authorization/capabilities"),
    ("admin/collections-conf", "storage/collections/config"),
    ("admin/commandsconf", "data/commands"),
    ("admin/cooked", "data/inputs/tcp/cooked"),
    ("admin/datamodel-files", "datamodel/model"),
    ("admin/directory", "directory"),
    ("admin/eventtypes", "saved/eventtypes"),
    ("admin/fields", "search/fields"),
    ("admin/fired_alerts", "alerts/fired_alerts"),
    ("admin/http", "data/inputs/http"),
    ("admin/indexes", "data/indexes"),
    ("admin/localapps", "apps/local"),
    ("admin/lookup-table-files", "data/lookup-table-files"),
    ("admin/messages", "messages"),
    ("admin/metric-schema-reg", "data/transforms/metric-schema"),
    ("admin/modular-inputs", "data/modular-inputs"),
    ("admin/monitor", "data/inputs/monitor"),
    ("admin/props-eval", "data/props/calcfields"),
    ("admin/props-extract", "data/props/extractions"),
    ("admin/props-fieldalias", "data/props/fieldaliases"),
    ("admin/props-lookup", "data/props/lookups"),
    ("admin/raw", "data/inputs/tcp/raw"),
    ("admin/roles", "authorization/roles"),
    ("admin/savedsearch", "saved/searches"),
    ("admin/script", "data/inputs/script"),
    ("admin/server-info", "server/info"),
    ("admin/sourcetype-rename", "data/props/sourcetype-rename"),
    ("admin/sourcetypes", "saved/sourcetypes"),
    ("admin/splunktcptoken", "data/inputs/tcp/splunktcptoken"),
    ("admin/tags", "search/tags"),
    ("admin/tcpout-default", "data/outputs/tcp/default"),
    ("admin/tcpout-group", "data/outputs/tcp/group"),
    ("admin/tcpout-server", "data/outputs/tcp/server"),
    ("admin/transforms-extract", "data/transforms/extractions"),
    ("admin/transforms-lookup", "data/transforms/lookups"),
    ("admin/udp", "data/inputs/udp"),
    ("admin/users", "authentication/users"),
    ("admin/workflow-actions", "data/ui/workflow-actions"),
    // A conf file by its name: `admin/conf-times` is an alias of `configs/conf-times`.
    ("admin/{file}", "configs/{file}"),
    ("data/indexes-extended", "data/indexes"),
    ("search/v1/jobs", "search/jobs"),
    ("search/v1/parser", "search/parser"),
];

/// Files of the user interface with an alias.
const UI_ALIASES: &[&str] = &["nav", "panels", "views"];

/// The rows of `served` that have an alias, at the path of the alias.
pub(crate) fn endpoints(served: &[Endpoint]) -> Vec<Endpoint> {
    let of_services = || served.iter().filter(|row| row.root == SERVICES);
    let of = |(alias, collection): &Alias| {
        let rows = of_services().filter_map(|row| row.at_alias(alias, collection));
        rows.collect::<Vec<_>>()
    };
    let of_file = |file: &&'static str| {
        let alias = format!("{ADMIN}/{file}");
        let fixed = Extension(FixedPart { name: FILE, value: file });
        let rows = of_services().filter_map(|row| row.at_alias(&alias, UI_FILES));
        rows.map(|row| Endpoint { serve: row.serve.layer(fixed), ..row }).collect::<Vec<_>>()
    };
    ALIASES.iter().flat_map(of).chain(UI_ALIASES.iter().flat_map(of_file)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::endpoint::table::ENDPOINTS;

    #[test]
    fn each_alias_has_the_rows_of_its_collection() {
        assert!(ALIASES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let below = |path: &str| -> BTreeSet<(String, String)> {
            let path = format!("{SERVICES}/{path}");
            let rows = ENDPOINTS.iter().filter_map(|row| {
                let rest = row.path.strip_prefix(&path).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
                Some((row.method.to_string(), rest.to_owned()))
            });
            rows.collect()
        };
        for (alias, collection) in ALIASES {
            assert!(!below(collection).is_empty() && below(alias) == below(collection), "{alias}");
        }
        let views =
            ENDPOINTS.iter().find(|row| row.path == "/services/admin/views").and_then(|row| row.alias_of.clone());
        assert_eq!(views.as_deref(), Some("/services/data/ui/{file}"));
    }
}
