//! Nodes with a folder each and one shared database: changes, crashes halfway, manual edits, an unreachable database.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quarry_catalog::PostgreSqlSettings;
use quarry_collections::SharedDocuments;
use quarry_pgworld::PostgreSql as Server;
use quarry_stdx::{NodeFiles, SystemClock};
use tempfile::TempDir;

use super::*;

const PASSWD: &str = "etc/passwd";
const MACROS: &str = "etc/users/eva/search/local/macros.conf";
const MANIFEST: &str = "etc/shared_files.json";

fn place(server: &Server, wait: Duration) -> PostgreSqlLocation {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let settings = PostgreSqlSettings { url: server.url(), wait, ..PostgreSqlSettings::default() };
    let cluster = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
    PostgreSqlLocation::new(&settings, &schema_of(&cluster)).unwrap()
}

/// A node: its folder, and its shared files while it runs.
struct Node {
    folder: TempDir,
    place: PostgreSqlLocation,
    shared: Option<Arc<SharedFolder>>,
}

impl Node {
    fn new(place: &PostgreSqlLocation) -> Node {
        let folder = tempfile::tempdir().unwrap();
        Node { folder, place: place.clone(), shared: None }
    }

    fn started(place: &PostgreSqlLocation) -> Node {
        let mut node = Node::new(place);
        node.start().unwrap();
        node
    }

    fn start(&mut self) -> Result<(), Fault> {
        self.shared = None;
        self.shared = Some(SharedFolder::open(self.folder.path(), &self.place, &SystemClock::shared())?);
        Ok(())
    }

    fn shared(&self) -> &Arc<SharedFolder> {
        self.shared.as_ref().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn files(&self) -> NodeFiles {
        let shared: Arc<dyn SharedFiles> = self.shared().clone();
        NodeFiles::shared_by(self.folder.path(), Some(shared))
    }

    /// Changes a file as a request does.
    fn write(&self, name: &str, text: &str) -> Result<(), Fault> {
        let files = self.files();
        let _change = files.change()?;
        files.write(&self.path(name), text)
    }

    /// Changes a file as an editor does.
    fn edit(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    /// Polls for changes; returns the files that have changed.
    fn poll(&self) -> Vec<String> {
        self.shared().poll();
        self.shared().take_changed().into_iter().collect()
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn new_nodes_get_all_files_and_changes_propagate() {
    let place = place(Server::shared(), Duration::from_secs(60));
    let a = Node::started(&place);
    a.write(PASSWD, "eva:power:hash\n").unwrap();
    a.write(MACROS, "[m]\ndefinition = 1\n").unwrap();
    a.write("etc/system/local/server.conf", "[general]\nserverName = a\n").unwrap();
    let b = Node::started(&place);
    assert_eq!((b.text(PASSWD), b.text(MACROS)), (a.text(PASSWD), a.text(MACROS)));
    assert_eq!(b.text("etc/system/local/server.conf"), None, "server.conf is the node's own");
    b.shared().take_changed();
    b.write(MACROS, "[m]\ndefinition = 2\n").unwrap();
    assert_eq!(a.text(MACROS), some("[m]\ndefinition = 1\n"));
    assert_eq!(a.poll(), [MACROS]);
    assert_eq!(a.text(MACROS), b.text(MACROS));
    assert_eq!((a.poll(), b.poll()), (Vec::new(), Vec::new()), "a poll does not return the node's own changes");
    // Beginning a change first applies the changes of other nodes.
    b.write(PASSWD, "eva:user:hash\n").unwrap();
    let files = a.files();
    let change = files.change().unwrap();
    assert_eq!(a.text(PASSWD), some("eva:user:hash\n"));
    files.remove(&a.path(MACROS)).unwrap();
    drop(change);
    assert_eq!(b.poll(), [MACROS]);
    assert!(!b.path("etc/users/eva").exists(), "empty folders go, too");
    assert_eq!(a.poll(), [PASSWD]);
    let large = vec![b'x'; SHARED_BYTES_MAX + 1];
    let refused = a.shared().write(&[(&a.path(PASSWD), Some(&large))]).unwrap_err();
    assert!(refused.to_string().contains("at most 67108864"), "{refused}");
}

#[test]
fn changes_interrupted_by_a_crash_are_applied_at_the_next_start() {
    let place = place(Server::shared(), Duration::from_secs(60));
    let mut a = Node::started(&place);
    a.write(PASSWD, "one").unwrap();
    let manifest = a.text(MANIFEST).unwrap();
    a.write(PASSWD, "two").unwrap();
    // The node was killed before the file was written.
    a.edit(PASSWD, "one");
    a.edit(MANIFEST, &manifest);
    a.start().unwrap();
    assert_eq!(a.text(PASSWD), some("two"));
    // The node was killed before the manifest was written.
    a.edit(MANIFEST, &manifest);
    a.start().unwrap();
    assert_eq!(a.text(PASSWD), some("two"));
    assert_eq!(a.text("etc/passwd.replaced"), None, "nobody has edited anything");
    assert_eq!(Node::started(&place).text(PASSWD), some("two"));
}

#[test]
fn edited_files_are_shared_and_conflicts_keep_both() {
    let place = place(Server::shared(), Duration::from_secs(60));
    let (mut a, b) = (Node::started(&place), Node::started(&place));
    a.edit(MACROS, "[by hand]\n");
    assert_eq!(a.poll(), [MACROS]);
    assert_eq!(b.poll(), [MACROS]);
    assert_eq!(b.text(MACROS), some("[by hand]\n"));
    a.edit(MACROS, "[by hand again]\n");
    b.write(MACROS, "[by request]\n").unwrap();
    assert_eq!(a.poll(), [MACROS]);
    assert_eq!(a.text(MACROS), some("[by request]\n"));
    assert_eq!(a.text(&format!("{MACROS}.replaced")), some("[by hand again]\n"));
    assert_eq!((a.poll(), b.poll()), (Vec::new(), Vec::new()), "replaced files are not shared");
    // Edited while the node was stopped.
    a.edit(MACROS, "[while stopped]\n");
    a.start().unwrap();
    assert_eq!(b.poll(), [MACROS]);
    assert_eq!(b.text(MACROS), some("[while stopped]\n"));
    assert_eq!(a.poll(), [MACROS]);
    // A missing file is restored.
    fs::remove_file(a.path(MACROS)).unwrap();
    assert_eq!(a.poll(), Vec::<String>::new());
    a.start().unwrap();
    assert_eq!(a.text(MACROS), some("[while stopped]\n"));
    // A node that already has users of its own joins the cluster.
    b.write(PASSWD, "eva").unwrap();
    let mut c = Node::new(&place);
    c.edit(PASSWD, "tom");
    c.edit("etc/apps/shop/lookups/people.csv", "name\ntom\n");
    c.start().unwrap();
    assert_eq!((c.text(PASSWD), c.text("etc/passwd.replaced")), (some("eva"), some("tom")));
    b.poll();
    assert_eq!(b.text("etc/apps/shop/lookups/people.csv"), some("name\ntom\n"));
}

#[test]
fn nodes_without_the_lock_overwrite_nothing() {
    let server = Server::start();
    let place = place(&server, Duration::from_secs(60));
    let (a, b) = (Node::started(&place), Node::started(&place));
    a.write(MACROS, "[first]\n").unwrap();
    // In production, each node is a separate process. In this test both share one process, whose lock would keep them
    // apart, so `begin` is called directly.
    a.shared().begin(a.shared().now()).unwrap();
    server.end_sessions();
    b.shared().begin(b.shared().now()).unwrap();
    b.shared().write(&[(&b.path(MACROS), Some(b"[of b]\n"))]).unwrap();
    b.shared().end();
    let refused = a.shared().write(&[(&a.path(MACROS), Some(b"[of a]\n"))]).unwrap_err();
    a.shared().end();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    assert_eq!((a.text(MACROS), b.text(MACROS)), (some("[of b]\n"), some("[of b]\n")));
    a.write(MACROS, "[of a]\n").unwrap();
    b.poll();
    assert_eq!(b.text(MACROS), some("[of a]\n"));
}

#[test]
fn nodes_are_read_only_without_their_database() {
    let mut server = Server::start();
    let place = place(&server, Duration::from_millis(300));
    let mut a = Node::started(&place);
    a.write(PASSWD, "one").unwrap();
    server.kill();
    let refused = a.write(PASSWD, "two").unwrap_err();
    assert!(refused.kind() == ErrorKind::Busy && refused.to_string().contains("unreachable"), "{refused}");
    assert_eq!(a.poll(), Vec::<String>::new());
    assert_eq!(a.text(PASSWD), some("one"));
    server.restart();
    assert!((0..100).any(|_| a.write(PASSWD, "three").is_ok()));
    let b = Node::started(&place);
    assert_eq!(b.text(PASSWD), some("three"));
    // The database is replaced by an older copy.
    server.run("quarry", &format!("UPDATE {}.clock SET last = 0", place.schema()));
    let refused = a.start().unwrap_err();
    assert!(refused.to_string().contains("is an older copy"), "{refused}");
}

#[test]
fn waits_for_other_nodes_are_bounded() {
    let place = place(Server::shared(), Duration::from_millis(300));
    let (a, b) = (Node::started(&place), Node::started(&place));
    a.shared().begin(a.shared().now()).unwrap();
    let refused = b.write(PASSWD, "x").unwrap_err();
    assert!(refused.kind() == ErrorKind::Busy && refused.to_string().contains("not finished in time"), "{refused}");
    a.shared().end();
    b.write(PASSWD, "x").unwrap();
}

#[test]
fn paths_outside_the_folder_are_ignored() {
    let server = Server::shared();
    let place = place(server, Duration::from_secs(60));
    let a = Node::started(&place);
    a.write(MACROS, "x").unwrap();
    let move_to = |to: &str| server.run("quarry", &format!("UPDATE {}.file SET path = '{to}'", place.schema()));
    move_to("etc/apps/../../outside.conf");
    let b = Node::started(&place);
    assert!(!b.path("outside.conf").exists() && b.text(MACROS).is_none());
}

#[test]
fn a_panic_of_a_node_does_not_exclude_the_others() {
    let place = place(Server::shared(), Duration::from_secs(1));
    let (a, b) = (Node::started(&place), Node::started(&place));
    let [a, b] = [a.shared().documents(), b.shared().documents()];
    let panicked = catch_unwind(AssertUnwindSafe(|| a.exclusively(&mut || panic!("on purpose"))));
    assert!(panicked.is_err());
    b.exclusively(&mut || Ok(())).unwrap();
    a.exclusively(&mut || Ok(())).unwrap();
}
