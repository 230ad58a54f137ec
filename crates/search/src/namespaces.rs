//! Search services of a server's namespaces, each created on first use and cached.
//!
//! All services share the store, clock, stored results, memory and threads of the service without a namespace. The
//! knowledge objects of the apps and of the user are read when a service is created. After
//! [`Namespaces::mark_conf_changed`], a service is created anew at its next use; running searches keep the old service.
//! Beyond the limits of number and size, the least recently used services are dropped.
//!
//! Because of read permissions in metadata, a namespace may need several services: one for each group of users with the
//! same permissions ([`Reader`]). Usually one service is enough. A user never gets a service with objects that the user
//! may not read.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quarry_apps::folders::user_folder;
use quarry_apps::objects::{APP_DEFAULT, affects_searches};
use quarry_apps::read_readership;
use quarry_conf::{Namespace, Permissions, Reader, Readership};
use quarry_engine::{EngineError, SnapshotSource};
use quarry_stdx::Fault;

use crate::dispatch::JobStore;
use crate::jobs::Jobs;
use crate::service::SearchService;
use crate::setup::SearchSettings;

/// Maximum number of cached services; beyond it, the least recently used is dropped.
const NAMESPACES_MAX: usize = 512;
/// Maximum size in bytes of the configuration files of all cached services; beyond it, the least recently used are
/// dropped. In memory, a configuration takes about fifteen times its size.
const NAMESPACE_BYTES_MAX: usize = 16 << 20;
/// Number of services that may be cached regardless of their size.
const NAMESPACES_MIN: usize = 16;

/// Conf files that affect searches, in addition to the conf files of [`affects_searches`]: `indexes`, which `rest`
/// shows; `server`, for the name of the node; `collections`, `datamodels` and `lookups`, because metadata restrict who
/// may read these objects.
const OTHER_CONFS: [&str; 5] = ["collections", "datamodels", "indexes", "lookups", "server"];

/// The part of the configuration that searches see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// All apps.
    Apps,
    /// All apps, and the user's private objects in the default app.
    AppsAndOwn(String),
    /// The objects visible in a namespace.
    Namespace(Namespace),
}

impl Visibility {
    /// Namespace of the private objects that are visible in addition to the objects of all apps.
    pub fn private_namespace(&self) -> Option<Namespace> {
        match self {
            Visibility::AppsAndOwn(user) => Namespace::new(user, APP_DEFAULT).ok().flatten(),
            Visibility::Apps | Visibility::Namespace(_) => None,
        }
    }
}

/// Reads the settings visible to a reader; fails if the app does not exist.
pub type ReadSettings = Box<dyn Fn(&Visibility, &Reader) -> Result<SearchSettings, Fault> + Send + Sync>;

/// A service, and the generation of the configuration from which it was created.
struct CachedService {
    visibility: Visibility,
    reader: Reader,
    reading: u64,
    /// Size of the configuration in bytes.
    bytes: usize,
    service: Arc<SearchService>,
}

/// The search services of a server.
pub struct Namespaces {
    data_dir: PathBuf,
    read: ReadSettings,
    source: Arc<dyn SnapshotSource>,
    jobs: Arc<JobStore>,
    /// The service whose memory and threads all other services use.
    first: Arc<SearchService>,
    /// Jobs of all namespaces.
    pub lasting: Arc<Jobs>,
    /// Services, most recently used first.
    cached: Mutex<Vec<CachedService>>,
    /// Generation of the configuration, incremented by each change.
    reading: AtomicU64,
    /// Read permissions from metadata, and their generation.
    readership: Mutex<(u64, Arc<Readership>)>,
    /// Maximum number of services kept.
    services_max: usize,
}

impl Namespaces {
    /// Services over `source`, the store of the data directory of `settings`. Creates the service without a namespace.
    pub fn new(
        settings: &SearchSettings,
        source: Arc<dyn SnapshotSource>,
        read: ReadSettings,
    ) -> Result<Namespaces, EngineError> {
        let data_dir = settings.data_dir.clone().unwrap_or_default();
        let jobs = Arc::new(JobStore::for_server(&data_dir, &settings.layers, settings.clock.clone()));
        let first = Arc::new(settings.service_of_server(Arc::clone(&source), &jobs, None)?);
        let lasting = Arc::new(Jobs::new(Arc::clone(&jobs), settings.clock.clone()));
        let (reader, bytes) = (Reader::unrestricted(), settings.layers.text_bytes());
        let kept =
            CachedService { visibility: Visibility::Apps, reader, reading: 0, bytes, service: Arc::clone(&first) };
        let (kept, reading) = (Mutex::new(vec![kept]), AtomicU64::new(0));
        let readership = Mutex::new((0, Arc::new(read_readership(&data_dir))));
        Ok(Namespaces {
            data_dir,
            read,
            source,
            jobs,
            first,
            lasting,
            cached: kept,
            reading,
            readership,
            services_max: NAMESPACES_MAX,
        })
    }

    /// Notes that a conf file has changed: searches that begin later use services with the new content. Returns whether
    /// the file affects searches.
    pub fn mark_conf_changed(&self, conf: &str) -> bool {
        let is_seen = affects_searches(conf) || OTHER_CONFS.contains(&conf);
        if is_seen {
            self.reading.fetch_add(1, Ordering::SeqCst);
        }
        is_seen
    }

    /// Notes that any configuration files may have changed.
    pub fn mark_all_changed(&self) {
        self.reading.fetch_add(1, Ordering::SeqCst);
    }

    /// Objects that a user sees outside any namespace.
    fn user_visibility(&self, user: &str) -> Visibility {
        let own = Namespace::new(user, APP_DEFAULT).ok().flatten();
        let own = own.filter(|own| own.user().is_some() && user_folder(&self.data_dir, own).is_some());
        own.map_or(Visibility::Apps, |_| Visibility::AppsAndOwn(user.to_owned()))
    }

    /// Read permissions, of generation `reading` or a later one.
    fn readership(&self, reading: u64) -> Arc<Readership> {
        let mut known = self.readership.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 < reading {
            *known = (reading, Arc::new(read_readership(&self.data_dir)));
        }
        Arc::clone(&known.1)
    }

    /// Like [`Namespaces::service_of_user`], but returns `None` if files must be read or another thread is reading the
    /// permissions.
    pub fn cached_service_of_user(&self, viewer: &Permissions) -> Option<Arc<SearchService>> {
        let reading = self.reading.load(Ordering::SeqCst);
        let known = self.readership.try_lock().ok().filter(|known| known.0 >= reading)?.1.reader(viewer);
        self.find_cached(&self.user_visibility(&viewer.user), &known, reading)
    }

    /// The service without a namespace, including a user's private objects.
    pub fn service_of_user(&self, viewer: &Permissions) -> Result<Arc<SearchService>, Fault> {
        self.service_for_visibility(self.user_visibility(&viewer.user), viewer)
    }

    /// The service of all apps, without private objects.
    pub fn service_of_apps(&self, viewer: &Permissions) -> Result<Arc<SearchService>, Fault> {
        self.service_for_visibility(Visibility::Apps, viewer)
    }

    /// The service of a namespace; `viewer` need not be the user of the namespace.
    pub fn service(&self, namespace: Namespace, viewer: &Permissions) -> Result<Arc<SearchService>, Fault> {
        // Users without private files share the service of the app.
        let namespace = match user_folder(&self.data_dir, &namespace) {
            Some(_) => namespace,
            None => namespace.without_user(),
        };
        self.service_for_visibility(Visibility::Namespace(namespace), viewer)
    }

    fn service_for_visibility(
        &self,
        visibility: Visibility,
        viewer: &Permissions,
    ) -> Result<Arc<SearchService>, Fault> {
        // The generation is loaded before the files are read, so that a concurrent change makes the service outdated.
        let reading = self.reading.load(Ordering::SeqCst);
        let reader = self.readership(reading).reader(viewer);
        if let Some(kept) = self.find_cached(&visibility, &reader, reading) {
            return Ok(kept);
        }
        // The files are read without the lock, so that other searches are not blocked.
        let settings = (self.read)(&visibility, &reader)?;
        let bytes = settings.layers.text_bytes();
        let made = settings.service_of_server(Arc::clone(&self.source), &self.jobs, Some(&self.first))?;
        Ok(self.cache_service(CachedService { visibility, reader, reading, bytes, service: Arc::new(made) }))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CachedService>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached service of this generation, marked as most recently used.
    fn find_cached(&self, visibility: &Visibility, reader: &Reader, reading: u64) -> Option<Arc<SearchService>> {
        let mut kept = self.lock();
        let is_asked = |other: &CachedService| {
            other.reading == reading && other.visibility == *visibility && other.reader == *reader
        };
        let at = kept.iter().position(is_asked)?;
        let found = kept.remove(at);
        let service = Arc::clone(&found.service);
        kept.insert(0, found);
        Some(service)
    }

    /// Caches a service in place of outdated services. Returns the cached service, which another thread may have
    /// created concurrently.
    fn cache_service(&self, made: CachedService) -> Arc<SearchService> {
        let mut kept = self.lock();
        let is_same = |other: &CachedService| other.visibility == made.visibility && other.reader == made.reader;
        let newer = kept.iter().find(|other| is_same(other) && other.reading >= made.reading);
        if let Some(newer) = newer {
            return Arc::clone(&newer.service);
        }
        let service = Arc::clone(&made.service);
        let (mut gone, mut stays): (Vec<CachedService>, Vec<CachedService>) = kept.drain(..).partition(is_same);
        stays.insert(0, made);
        // The unrestricted service of all apps and the requested service are never dropped.
        let may_go =
            |kept: &CachedService| kept.visibility != Visibility::Apps || kept.reader != Reader::unrestricted();
        let is_over = |stays: &[CachedService]| {
            stays.len() > self.services_max
                || stays.len() > NAMESPACES_MIN
                    && stays.iter().map(|kept| kept.bytes).sum::<usize>() > NAMESPACE_BYTES_MAX
        };
        while is_over(&stays) {
            let Some(at) = stays.iter().rposition(may_go).filter(|at| *at > 0) else { break };
            gone.push(stays.remove(at));
        }
        *kept = stays;
        drop(kept);
        // The services are freed outside the lock, because freeing a configuration takes time.
        drop(gone);
        service
    }
}

#[cfg(test)]
mod tests {
    use quarry_stdx::ErrorKind;

    use super::*;
    use crate::service::SearchParams;
    use crate::setup::tests::load_settings;
    use quarry_store::MemoryStore;

    fn answer(service: &SearchService, text: &str) -> Result<String, String> {
        let params = SearchParams { text: text.to_owned(), ..SearchParams::for_owner() };
        let outcome = service.start(params).and_then(|running| running.finish()).map_err(|error| error.to_string())?;
        let row = outcome.table.rows().next().unwrap();
        Ok(row.cell(0).join_values(" ").into_owned())
    }

    fn namespace(user: &str, app: &str) -> Namespace {
        Namespace::new(user, app).unwrap().unwrap()
    }

    fn viewer(user: &str, roles: &[&str]) -> Permissions {
        let (capabilities, main) = (["search".to_owned()].into(), vec!["main".to_owned()]);
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        Permissions::for_user(user, capabilities, main.clone(), main).with_roles(roles)
    }

    /// A data directory and its services.
    struct World {
        folder: tempfile::TempDir,
        namespaces: Namespaces,
    }

    impl World {
        fn new(files: &[(&str, &str)]) -> World {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), files);
            let everything = Reader::unrestricted();
            let settings = load_settings(folder.path(), &Visibility::Apps, &everything).unwrap();
            let dir = folder.path().to_owned();
            let read =
                Box::new(move |visibility: &Visibility, reader: &Reader| load_settings(&dir, visibility, reader));
            let namespaces = Namespaces::new(&settings, Arc::new(MemoryStore::new("main")), read).unwrap();
            World { folder, namespaces }
        }

        fn service(&self, user: &str, app: &str) -> Arc<SearchService> {
            self.namespaces.service(namespace(user, app), &viewer(user, &["user"])).unwrap()
        }

        fn of_user(&self, user: &str, roles: &[&str]) -> Arc<SearchService> {
            self.namespaces.service_of_user(&viewer(user, roles)).unwrap()
        }
    }

    fn write(folder: &std::path::Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    fn who(text: &str) -> String {
        format!("[who]\ndefinition = {text}\n")
    }

    /// Search that returns the value of the macro `who`.
    const WHO: &str = "| makeresults | eval who=`who` | table who";

    #[test]
    fn services_are_cached_and_the_least_recently_used_is_evicted() {
        let apps: Vec<(String, String)> =
            (0..4).map(|app| (format!("etc/apps/app{app}/default/macros.conf"), who(&app.to_string()))).collect();
        let own = ("etc/users/eva/app0/local/macros.conf", who("100"));
        let files = apps.iter().map(|(path, text)| (path.as_str(), text.as_str())).chain([(own.0, own.1.as_str())]);
        let mut world = World::new(&files.collect::<Vec<_>>());
        world.namespaces.services_max = 4;
        let first = world.service("tom", "app0");
        assert_eq!(answer(&first, WHO).unwrap(), "0");
        assert!(Arc::ptr_eq(&first, &world.service("nobody", "app0")));
        let own = world.service("eva", "app0");
        assert_eq!(answer(&own, WHO).unwrap(), "100");
        assert_eq!(answer(&world.service("eva", "app1"), WHO).unwrap(), "1");
        assert!(Arc::ptr_eq(&first, &world.service("tom", "app0")), "all places are taken");
        world.service("tom", "app2");
        assert!(Arc::ptr_eq(&first, &world.service("tom", "app0")));
        assert!(!Arc::ptr_eq(&own, &world.service("eva", "app0")), "it was the least recently used");
        let nobody = viewer("eva", &["user"]);
        let fault = world.namespaces.service(namespace("eva", "gone"), &nobody).map(drop).unwrap_err();
        assert_eq!(fault.kind(), ErrorKind::NotFound);
        assert!(world.namespaces.service(namespace("eva", "search"), &nobody).is_ok(), "it is always there");
    }

    #[test]
    fn services_of_many_users_with_private_objects_stay_cached() {
        let users: Vec<String> = (0..60).map(|at| format!("user{at}")).collect();
        let files: Vec<(String, String)> = users
            .iter()
            .map(|user| (format!("etc/users/{user}/search/local/macros.conf"), who(&format!("\"{user}\""))))
            .collect();
        let world = World::new(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>());
        let of_all = || users.iter().map(|user| world.of_user(user, &["user"])).collect::<Vec<_>>();
        let first = of_all();
        for (user, service) in users.iter().zip(&first) {
            assert_eq!(answer(service, WHO).unwrap(), *user);
        }
        assert!(first.iter().zip(of_all()).all(|(before, now)| Arc::ptr_eq(before, &now)), "none was created twice");
    }

    #[test]
    fn changes_are_reread_and_private_objects_need_no_namespace() {
        let world = World::new(&[("etc/apps/a/local/macros.conf", &who("1"))]);
        let asked = |user: &str| answer(&world.of_user(user, &["user"]), WHO).unwrap();
        let in_app = || answer(&world.service("tom", "a"), WHO).unwrap();
        assert_eq!((asked("eva"), asked("tom"), in_app()), ("1".to_owned(), "1".to_owned(), "1".to_owned()));
        let own = "etc/users/eva/search/local/macros.conf";
        write(world.folder.path(), &[("etc/apps/a/local/macros.conf", &who("2")), (own, &who("3"))]);
        world.namespaces.mark_conf_changed("inputs");
        assert_eq!(asked("tom"), "1", "nothing that searches know has changed");
        world.namespaces.mark_conf_changed("macros");
        assert_eq!((asked("eva"), asked("tom"), in_app()), ("3".to_owned(), "2".to_owned(), "2".to_owned()));
        let before = world.of_user("tom", &["user"]);
        assert!(Arc::ptr_eq(&before, &world.of_user("nobody", &["power"])), "it is kept");
    }

    #[test]
    fn searches_do_not_see_unreadable_objects() {
        let kept = "[macros/who]\naccess = read : [ team ], write : [ admin ]\nowner = ann\n";
        let world = World::new(&[
            ("etc/apps/a/local/macros.conf", &who("\"of the team\"")),
            ("etc/apps/a/metadata/local.meta", &format!("{kept}export = system\n")),
            ("etc/apps/z/local/macros.conf", &format!("{}[open]\ndefinition = 1\n", who("\"of z\""))),
            ("etc/users/eva/search/local/macros.conf", "[own]\ndefinition = 2\n"),
        ]);
        let asked = |user: &str, roles: &[&str]| answer(&world.of_user(user, roles), WHO).unwrap();
        let admin = {
            let all = ["search".to_owned(), "admin_all_objects".to_owned()].into();
            Permissions::for_user("root", all, vec!["main".to_owned()], vec!["main".to_owned()])
        };
        for _ in 0..2 {
            assert_eq!(asked("tom", &["user"]), "of z", "the next readable object");
            assert_eq!(asked("eva", &["user"]), "of z");
            assert_eq!(
                (asked("bob", &["team"]), asked("ann", &["user"])),
                ("of the team".to_owned(), "of the team".to_owned())
            );
            assert_eq!(answer(&world.namespaces.service_of_user(&admin).unwrap(), WHO).unwrap(), "of the team");
        }
        let in_app = |user: &str, roles: &[&str]| {
            answer(&world.namespaces.service(namespace("nobody", "a"), &viewer(user, roles)).unwrap(), WHO)
        };
        assert_eq!(in_app("bob", &["team"]).unwrap(), "of the team");
        assert!(in_app("tom", &["user"]).unwrap_err().contains("who"), "the app has no other object");
        let (tom, bob) = (world.of_user("tom", &["user"]), world.of_user("bob", &["team", "user"]));
        assert!(Arc::ptr_eq(&tom, &world.of_user("joe", &["power", "user"])), "there is no message about them");
        assert!(Arc::ptr_eq(&bob, &world.of_user("kim", &["team"])) && !Arc::ptr_eq(&tom, &bob));
        // A change of read permissions takes effect at once.
        write(world.folder.path(), &[("etc/apps/a/metadata/local.meta", "[macros/who]\naccess = read : [ * ]\n")]);
        world.namespaces.mark_conf_changed("macros");
        assert_eq!(
            (asked("tom", &["user"]), in_app("tom", &["user"]).unwrap()),
            ("of the team".to_owned(), "of the team".to_owned())
        );
    }
}
