//! The searches of a server's namespaces: a service each, made when it is first asked for and kept.
//!
//! All share the store, the clock, the kept results, the memory and the threads of the service without a namespace. What
//! apps and the user have is read when the service is made; of too many services the one that was not used for
//! longest goes, and is made anew when it is asked for again.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use quarry_apps::folders::user_folder;
use quarry_conf::Namespace;
use quarry_engine::{EngineError, SnapshotSource};
use quarry_stdx::Fault;

use crate::dispatch::KeptJobs;
use crate::jobs::Jobs;
use crate::service::SearchService;
use crate::setup::SearchSettings;

/// Services kept at most.
pub(crate) const NAMESPACES_MAX: usize = 16;

/// Reads the settings of a namespace; says why there is no such app.
pub type ReadSettings = Box<dyn Fn(Namespace) -> Result<SearchSettings, Fault> + Send + Sync>;

/// The search services of a server.
pub struct Namespaces {
    data_dir: PathBuf,
    read: ReadSettings,
    source: Arc<dyn SnapshotSource>,
    jobs: Arc<KeptJobs>,
    /// The service without a namespace.
    pub whole: Arc<SearchService>,
    /// Searches of all namespaces that live on after their requests.
    pub lasting: Arc<Jobs>,
    /// Services of namespaces, the one used last in front.
    kept: Mutex<Vec<(Namespace, Arc<SearchService>)>>,
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
        let whole = Arc::new(settings.service_of_server(Arc::clone(&source), &jobs, None)?);
        let lasting = Arc::new(Jobs::new(Arc::clone(&jobs), settings.clock.clone()));
        Ok(Namespaces { data_dir, read, source, jobs, whole, lasting, kept: Mutex::default() })
    }

    /// The service of a namespace.
    pub fn service(&self, namespace: Namespace) -> Result<Arc<SearchService>, Fault> {
        // Users without files of their own see what the app has: they share its service.
        let namespace = match user_folder(&self.data_dir, &namespace) {
            Some(_) => namespace,
            None => namespace.without_user(),
        };
        if let Some(kept) = self.take(&namespace, None) {
            return Ok(kept);
        }
        // Others go on meanwhile.
        let settings = (self.read)(namespace.clone())?;
        let source = Arc::clone(&self.source);
        let made = settings.service_of_server(source, &self.jobs, Some(&self.whole))?;
        let made = Arc::new(made);
        Ok(self.take(&namespace, Some(Arc::clone(&made))).unwrap_or(made))
    }

    /// The kept service, which is now the one used last; where there is none `made` is kept.
    fn take(&self, namespace: &Namespace, made: Option<Arc<SearchService>>) -> Option<Arc<SearchService>> {
        let mut gone = Vec::new();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(other, _)| other == namespace).map(|at| kept.remove(at).1);
        let service = found.or(made)?;
        kept.insert(0, (namespace.clone(), Arc::clone(&service)));
        if kept.len() > NAMESPACES_MAX {
            gone = kept.split_off(NAMESPACES_MAX);
        }
        drop(kept);
        drop(gone);
        Some(service)
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
        let settings = settings_of(folder.path(), None).unwrap();
        let dir = folder.path().to_owned();
        let read = Box::new(move |namespace| settings_of(&dir, Some(namespace)));
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
}
