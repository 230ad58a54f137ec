//! Endpoints that apps declare in restmap.conf. The programs of these endpoints are not run.
//!
//! `[script:NAME]` declares the path `match`; `[admin:NAME]` declares `match/MEMBER` for each of its `members`, and
//! `[admin_external:MEMBER]` declares the program of a member. These declarations are read so that requests,
//! installations and the server's log can name the app instead of an unknown path.

use std::path::Path;

use quarry_conf::Conf;

use crate::configuration::read_text;
use crate::folders::{app_name, enabled_apps};

/// The conf file that declares these endpoints.
const CONF: &str = "restmap.conf";
/// Prefixes of stanzas that declare paths.
const SCRIPT: &str = "script:";
const ADMIN: &str = "admin:";

/// An endpoint that an app declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredEndpoint {
    /// The app.
    pub app: String,
    /// The stanza of restmap.conf.
    pub stanza: String,
    /// The path below the root of the REST interface, with a slash at its beginning.
    pub path: String,
}

impl DeclaredEndpoint {
    /// The message about a request for the endpoint.
    pub fn message(&self) -> String {
        let DeclaredEndpoint { app, stanza, path } = self;
        format!(
            "{path} is an endpoint of the app {app} ([{stanza}] in restmap.conf), but Quarry does not run the programs of such endpoints"
        )
    }
}

/// The endpoints that an app in this folder declares.
pub(crate) fn declared_in(folder: &Path) -> Vec<DeclaredEndpoint> {
    let mut found: Vec<DeclaredEndpoint> = Vec::new();
    for layer in ["local", "default"] {
        let (conf, _) = Conf::parse(CONF, &read_text(&folder.join(layer).join(CONF)).unwrap_or_default());
        for stanza in &conf.stanzas {
            let setting = |key: &str| stanza.get(key).map(str::trim).unwrap_or_default();
            let root = format!("/{}", setting("match").trim_matches('/'));
            let paths: Vec<String> = if stanza.name.starts_with(SCRIPT) {
                vec![root]
            } else if stanza.name.starts_with(ADMIN) {
                let members = setting("members").split(',').map(str::trim).filter(|member| !member.is_empty());
                let under = if root == "/" { "" } else { root.as_str() };
                members.map(|member| format!("{under}/{member}")).collect()
            } else {
                continue;
            };
            for path in paths.into_iter().filter(|path| path != "/") {
                if !found.iter().any(|known| known.path == path) {
                    found.push(DeclaredEndpoint { app: app_name(folder), stanza: stanza.name.clone(), path });
                }
            }
        }
    }
    found
}

/// The endpoints that the enabled apps declare, by app.
pub fn declared_endpoints(data_dir: &Path) -> Vec<DeclaredEndpoint> {
    enabled_apps(data_dir).iter().flat_map(|folder| declared_in(folder)).collect()
}

/// The endpoint that an enabled app declares for `path`, which is relative to the root, or for a parent of `path`.
pub fn declared_endpoint(data_dir: &Path, path: &str) -> Option<DeclaredEndpoint> {
    let path = format!("/{}", path.trim_matches('/'));
    let covers = |endpoint: &DeclaredEndpoint| {
        path.strip_prefix(&endpoint.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    declared_endpoints(data_dir).into_iter().find(covers)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn declared_paths_are_those_of_scripts_and_members() {
        let folder = tempfile::tempdir().unwrap();
        let app = folder.path().join("etc/apps/shop/default");
        std::fs::create_dir_all(&app).unwrap();
        let text = "[script:hook]\nmatch = /shop/hook\nscripttype = persist\n[admin:shop]\nmatch = /\nmembers = shop_account, shop_settings\n\
                    [admin_external:shop_account]\nhandlertype = python\n[admin:deep]\nmatch=/shop/more\nmembers=a\n[global]\n";
        std::fs::write(app.join(CONF), text).unwrap();
        let paths: Vec<String> = declared_endpoints(folder.path()).into_iter().map(|endpoint| endpoint.path).collect();
        assert_eq!(paths, ["/shop/hook", "/shop_account", "/shop_settings", "/shop/more/a"]);
        let stanza = |path: &str| declared_endpoint(folder.path(), path).map(|endpoint| endpoint.stanza);
        assert_eq!(stanza("shop/hook/below").as_deref(), Some("script:hook"));
        assert_eq!(stanza("shop_account/main").as_deref(), Some("admin:shop"));
        assert_eq!(stanza("shop/hooks"), None);
        assert_eq!(stanza("nothing"), None);
    }
}
