//! The searches of a server's namespaces: a service each, made when it is first asked for and kept.
//!
//! All share the store, the clock, the kept results, the memory and the threads of the service without a namespace. What
//! apps and the user have is read when the service is made; after [`Namespaces::reread`] each is made anew when it is next
//! asked for, and searches that run go on with what they began with. Of too many services the one that was not used for
//! longest goes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quarry_apps::folders::user_folder;
use quarry_apps::objects::{APP_DEFAULT, concerns_searches};
use quarry_conf::Namespace;
use quarry_engine::{EngineError, SnapshotSource};
use quarry_stdx::{Fault, log};

use crate::dispatch::KeptJobs;
use crate::jobs::Jobs;
use crate::service::SearchService;
use crate::setup::SearchSettings;

/// Services kept at most.
pub(crate) const NAMESPACES_MAX: usize = 16;

/// The conf that says which indexes there are, which `rest` tells of.
const INDEXES: &str = "indexes";

/// What of the configuration searches see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// What all apps have.
    Apps,
    /// What all apps have, and the user's own in the app that nobody has to name.
    AppsAndOwn(String),
    /// What a namespace sees.
    Namespace(Namespace),
}

/// Reads the settings of what is seen; says why there is no such app.
pub type ReadSettings = Box<dyn Fn(&Sight) -> Result<SearchSettings, Fault> + Send + Sync>;

/// A service, and which reading of the configuration it is of.
struct Kept {
    sight: Sight,
    reading: u64,
    service: Arc<SearchService>,
}

/// The search services of a server.
pub struct Namespaces {
    data_dir: PathBuf,
    read: ReadSettings,
    source: Arc<dyn SnapshotSource>,
    jobs: Arc<KeptJobs>,
    /// Whose memory and threads all others use.
    first: Arc<SearchService>,
    /// Searches of all namespaces that live on after their requests.
    pub lasting: Arc<Jobs>,
    /// Services, the one used last in front.
    kept: Mutex<Vec<Kept>>,
    /// Counts the changes of the configuration.
    reading: AtomicU64,
}

impl Namespaces {
    /// Services over `source`, the store of the data folder of `settings`; that without a namespace is made now.
    pub fn new(
        settings: &SearchSettings,
        source: Arc<dyn SnapshotSource>,
        read: ReadSettings,
    ) -> Result<Namespaces, EngineError> {
        let data_dir = settings.data_dir.clone().unwrap_or_default();
        let jobs = Arc::new(KeptJobs::of_server(&data_dir, &settings.layers, settings.clock.clone()));
        let first = Arc::new(settings.service_of_server(Arc::clone(&source), &jobs, None)?);
        let lasting = Arc::new(Jobs::new(Arc::clone(&jobs), settings.clock.clone()));
        let kept = Kept { sight: Sight::Apps, reading: 0, service: Arc::clone(&first) };
        let (kept, reading) = (Mutex::new(vec![kept]), AtomicU64::new(0));
        Ok(Namespaces { data_dir, read, source, jobs, first, lasting, kept, reading })
    }

    /// Takes note that a conf has changed: what searches know of it is read again when they next begin.
    pub fn reread(&self, conf: &str) {
        if concerns_searches(conf) || conf == INDEXES {
            self.reading.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// What a user sees without a namespace.
    fn sight_of(&self, user: &str) -> Sight {
        let own = Namespace::new(user, APP_DEFAULT).ok().flatten();
        let own = own.filter(|own| own.user().is_some() && user_folder(&self.data_dir, own).is_some());
        own.map_or(Sight::Apps, |_| Sight::AppsAndOwn(user.to_owned()))
    }

    /// As [`Namespaces::service_of_user`], where nothing has to be read for it.
    pub fn kept_service_of_user(&self, user: &str) -> Option<Arc<SearchService>> {
        self.take(&self.sight_of(user), self.reading.load(Ordering::SeqCst))
    }

    /// The service without a namespace, for a user who may have something of their own.
    pub fn service_of_user(&self, user: &str) -> Arc<SearchService> {
        self.of_sight(self.sight_of(user)).unwrap_or_else(|fault| {
            log::warning(format!("searches go on with the configuration that was read before: {fault}"));
            Arc::clone(&self.first)
        })
    }

    /// The service of a namespace.
    pub fn service(&self, namespace: Namespace) -> Result<Arc<SearchService>, Fault> {
        // Users without files of their own see what the app has: they share its service.
        let namespace = match user_folder(&self.data_dir, &namespace) {
            Some(_) => namespace,
            None => namespace.without_user(),
        };
        self.of_sight(Sight::Namespace(namespace))
    }

    fn of_sight(&self, sight: Sight) -> Result<Arc<SearchService>, Fault> {
        // Before the files: a change meanwhile makes what is read here old.
        let reading = self.reading.load(Ordering::SeqCst);
        if let Some(kept) = self.take(&sight, reading) {
            return Ok(kept);
        }
        // Others go on meanwhile.
        let settings = (self.read)(&sight)?;
        let made = settings.service_of_server(Arc::clone(&self.source), &self.jobs, Some(&self.first))?;
        Ok(self.keep(Kept { sight, reading, service: Arc::new(made) }))
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kept service of this reading, which is now the one used last.
    fn take(&self, sight: &Sight, reading: u64) -> Option<Arc<SearchService>> {
        let mut kept = self.locked();
        let at = kept.iter().position(|other| other.sight == *sight && other.reading == reading)?;
        let found = kept.remove(at);
        let service = Arc::clone(&found.service);
        kept.insert(0, found);
        Some(service)
    }

    /// Keeps a service in the place of older ones of its sight; gives the one that others made of the same reading meanwhile.
    fn keep(&self, made: Kept) -> Arc<SearchService> {
        let mut kept = self.locked();
        let newer = kept.iter().find(|other| other.sight == made.sight && other.reading >= made.reading);
        if let Some(newer) = newer {
            return Arc::clone(&newer.service);
        }
        let service = Arc::clone(&made.service);
        let (mut gone, mut stays): (Vec<Kept>, Vec<Kept>) = kept.drain(..).partition(|other| other.sight == made.sight);
        stays.insert(0, made);
        // That of all apps stays.
        let of_namespaces = |kept: &Kept| kept.sight != Sight::Apps;
        while stays.iter().filter(|kept| of_namespaces(kept)).count() > NAMESPACES_MAX {
            gone.extend(stays.iter().rposition(of_namespaces).map(|at| stays.remove(at)));
        }
        *kept = stays;
        drop(kept);
        // Outside of the lock: an engine ends its threads.
        drop(gone);
        service
    }
}

#[cfg(test)]
mod tests {
    use quarry_stdx::ErrorKind;

    use super::*;
    use crate::service::SearchParams;
    use crate::setup::tests::settings_of;
    use quarry_store::MemoryStore;

    fn answer(service: &SearchService, text: &str) -> Result<String, String> {
        let params = SearchParams { text: text.to_owned(), ..SearchParams::of_owner() };
        let outcome = service.start(params).and_then(|running| running.finish()).map_err(|error| error.to_string())?;
        let row = outcome.table.rows().next().unwrap();
        Ok(row.cell(0).joined(" ").into_owned())
    }

    fn namespace(user: &str, app: &str) -> Namespace {
        Namespace::new(user, app).unwrap().unwrap()
    }

    #[test]
    fn services_are_kept_and_the_one_unused_for_longest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: String, text: String| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let definition = |text: &str| format!("[who]\ndefinition = {text}\n");
        for app in 0..=NAMESPACES_MAX {
            write(format!("etc/apps/app{app}/default/macros.conf"), definition(&app.to_string()));
        }
        write("etc/users/eva/app0/local/macros.conf".to_owned(), definition("100"));
        let settings = settings_of(folder.path(), &Sight::Apps).unwrap();
        let dir = folder.path().to_owned();
        let read = Box::new(move |sight: &Sight| settings_of(&dir, sight));
        let namespaces = Namespaces::new(&settings, Arc::new(MemoryStore::new("main")), read).unwrap();
        let text = "| makeresults | eval who=`who` | table who";
        let first = namespaces.service(namespace("tom", "app0")).unwrap();
        assert_eq!(answer(&first, text).unwrap(), "0");
        assert!(Arc::ptr_eq(&first, &namespaces.service(namespace("nobody", "app0")).unwrap()));
        let own = namespaces.service(namespace("eva", "app0")).unwrap();
        assert_eq!(answer(&own, text).unwrap(), "100");
        for app in 1..NAMESPACES_MAX - 1 {
            assert_eq!(
                answer(&namespaces.service(namespace("eva", &format!("app{app}"))).unwrap(), text).unwrap(),
                app.to_string()
            );
        }
        assert!(Arc::ptr_eq(&first, &namespaces.service(namespace("tom", "app0")).unwrap()), "all places are taken");
        namespaces.service(namespace("tom", &format!("app{NAMESPACES_MAX}"))).unwrap();
        assert!(Arc::ptr_eq(&first, &namespaces.service(namespace("tom", "app0")).unwrap()));
        assert!(
            !Arc::ptr_eq(&own, &namespaces.service(namespace("eva", "app0")).unwrap()),
            "it was unused for longest"
        );
        let fault = namespaces.service(namespace("eva", "gone")).map(drop).unwrap_err();
        assert_eq!(fault.kind(), ErrorKind::NotFound);
        assert!(namespaces.service(namespace("eva", "search")).is_ok(), "it is always there");
    }

    #[test]
    fn what_changes_is_read_again_and_ones_own_is_seen_without_a_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("[who]\ndefinition = {text}\n")).unwrap();
        };
        write("etc/apps/a/local/macros.conf", "1");
        let settings = settings_of(folder.path(), &Sight::Apps).unwrap();
        let dir = folder.path().to_owned();
        let read = Box::new(move |sight: &Sight| settings_of(&dir, sight));
        let namespaces = Namespaces::new(&settings, Arc::new(MemoryStore::new("main")), read).unwrap();
        let asked = |user: &str| {
            answer(&namespaces.service_of_user(user), "| makeresults | eval who=`who` | table who").unwrap()
        };
        let in_app = || {
            let service = namespaces.service(namespace("tom", "a")).unwrap();
            answer(&service, "| makeresults | eval who=`who` | table who").unwrap()
        };
        assert_eq!((asked("eva"), asked("tom"), in_app()), ("1".to_owned(), "1".to_owned(), "1".to_owned()));
        write("etc/apps/a/local/macros.conf", "2");
        write("etc/users/eva/search/local/macros.conf", "3");
        namespaces.reread("inputs");
        assert_eq!(asked("tom"), "1", "nothing that searches know has changed");
        namespaces.reread("macros");
        assert_eq!((asked("eva"), asked("tom"), in_app()), ("3".to_owned(), "2".to_owned(), "2".to_owned()));
        let before = namespaces.service_of_user("tom");
        assert!(Arc::ptr_eq(&before, &namespaces.service_of_user("nobody")), "it is kept");
    }
}
