//! The files that nodes share: users, and the objects that users create in apps. Files that configure a single node are
//! not shared. Nor are keys, which must not be stored in the same database as the data they protect.

use std::path::{Component, Path};

/// Files of users and their tokens.
const USER_FILES: [&str; 2] = ["etc/passwd", "etc/auth/tokens.jsonl"];
/// Conf files that configure a single node and are never shared, whatever their folder.
const NODE_CONFS: [&str; 7] = ["deploymentclient", "indexes", "inputs", "limits", "outputs", "server", "web"];
/// Folder of an app's local changes, and the file with the permissions of changed objects.
const LOCAL_FOLDER: &str = "local";
const PERMISSIONS_FILE: [&str; 2] = ["metadata", "local.meta"];
/// Folder of lookup files and models.
const LOOKUPS: &str = "lookups";
/// Extension of the kept version of an edited file that another node's version has replaced.
pub(crate) const REPLACED: &str = "replaced";
/// Extensions of unfinished and of replaced files, which are not shared.
const EXCLUDED_EXTENSIONS: [&str; 2] = ["new", REPLACED];
/// Maximum length of a path in bytes, and maximum number of parts of a path.
const PATH_BYTES_MAX: usize = 1_000;
const DEPTH_MAX: usize = 12;

/// Folders with the locations that hold shared files (the system, an app, an app of a user), and the number of folder
/// levels from each folder to its locations.
pub(crate) const ROOTS: [(&str, usize); 3] = [("etc/system", 0), ("etc/apps", 1), ("etc/users", 2)];

/// Paths of single shared files, which need no folder scan.
pub(crate) fn single_files() -> impl Iterator<Item = &'static str> {
    USER_FILES.into_iter()
}

/// Folders of a location that contain shared files.
pub(crate) fn place_folders() -> [&'static str; 3] {
    [LOCAL_FOLDER, PERMISSIONS_FILE[0], LOOKUPS]
}

/// Whether nodes share the file of this path, relative to the data directory.
pub(crate) fn is_shared(path: &str) -> bool {
    USER_FILES.contains(&path) || is_plain(path) && is_in_shared_folder(path)
}

/// Whether every part is an ordinary name, so that a path from the database cannot lead outside the data directory.
fn is_plain(path: &str) -> bool {
    let is_name = |part: Component<'_>| match part {
        Component::Normal(name) => name.to_str().is_some_and(|name| !name.starts_with('.') && !name.contains('\\')),
        _ => false,
    };
    let whole = Path::new(path);
    let is_left_out =
        whole.extension().is_some_and(|kind| EXCLUDED_EXTENSIONS.iter().any(|left_out| kind == *left_out));
    path.len() <= PATH_BYTES_MAX
        && !path.chars().any(char::is_control)
        && !path.split('/').any(str::is_empty)
        && whole.components().count() <= DEPTH_MAX
        && whole.components().all(is_name)
        && !is_left_out
}

fn is_in_shared_folder(path: &str) -> bool {
    let below = ROOTS.iter().find_map(|(root, depth)| {
        let rest = path.strip_prefix(root)?.strip_prefix('/')?;
        rest.splitn(depth + 1, '/').nth(*depth)
    });
    match below.and_then(|below| below.split_once('/')) {
        Some((LOCAL_FOLDER, file)) => file.strip_suffix(".conf").is_none_or(|conf| !NODE_CONFS.contains(&conf)),
        Some((folder, file)) => [folder, file] == PERMISSIONS_FILE || folder == LOOKUPS && !file.contains('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_shared;

    #[test]
    fn user_files_are_shared_and_node_files_are_not() {
        for shared in [
            "etc/passwd",
            "etc/auth/tokens.jsonl",
            "etc/system/local/authorize.conf",
            "etc/system/lookups/people.csv",
            "etc/apps/shop/local/savedsearches.conf",
            "etc/apps/shop/local/data/ui/views/sales.xml",
            "etc/apps/shop/metadata/local.meta",
            "etc/apps/shop/lookups/people.csv",
            "etc/users/eva/search/local/macros.conf",
            "etc/users/eva/search/lookups/__mlspl_a.mlmodel",
        ] {
            assert!(is_shared(shared), "{shared}");
        }
        for own in [
            "etc/auth/quarry.secret",
            "etc/auth/tokens.key",
            "etc/system/local/server.conf",
            "etc/apps/shop/local/inputs.conf",
            "etc/apps/shop/default/savedsearches.conf",
            "etc/apps/shop/metadata/default.meta",
            "etc/apps/shop/local",
            "etc/apps/shop/bin/run.sh",
            "etc/apps/shop/lookups/.people.csv.new",
            "etc/apps/shop/lookups/deep/people.csv",
            "etc/users/eva/local/macros.conf/x",
            "etc/users/eva/search/local/macros.new",
            "etc/users/eva/search/local/macros.conf.replaced",
            "etc/apps/../../x/local/a.conf",
            "etc/apps/a/local/../../../../x.conf",
            "etc/apps//local/x.conf",
            "/etc/passwd",
            "wal/1",
            "",
        ] {
            assert!(!is_shared(own), "{own}");
        }
    }
}
