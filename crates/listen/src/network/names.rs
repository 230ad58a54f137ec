//! Reverse DNS of senders' addresses, with a cache.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

/// Maximum number of cached names; beyond it the cache is cleared.
const NAMES_MAX: usize = 4_096;
/// Timeout of a lookup; then the address stands for the name.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Name of the threads that look up names for UDP ports.
const LOOKUP_THREAD: &str = "udp-names";
/// Maximum number of concurrent lookups; further ones wait or are omitted, because lookups occupy threads that HTTP
/// requests use as well.
const LOOKUPS_MAX: usize = 32;

/// The cache.
#[derive(Debug)]
pub(crate) struct Names {
    known: Mutex<BTreeMap<IpAddr, String>>,
    lookups: Arc<Semaphore>,
}

impl Default for Names {
    fn default() -> Names {
        Names { known: Mutex::default(), lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Names {
    /// Name of an address, or the address itself if none is found in time.
    pub(crate) async fn resolve(&self, address: IpAddr) -> String {
        let address = address.to_canonical();
        if let Some(name) = self.cached(address) {
            return name;
        }
        let asked = async {
            // The semaphore is never closed.
            let place = Arc::clone(&self.lookups).acquire_owned().await.ok();
            tokio::task::spawn_blocking(move || {
                let found = dns_lookup::lookup_addr(&address);
                drop(place);
                found
            })
            .await
        };
        let name = match tokio::time::timeout(LOOKUP_TIMEOUT, asked).await {
            Ok(Ok(Ok(name))) if !name.is_empty() => name,
            _ => address.to_string(),
        };
        self.cache_name(address, &name);
        name
    }

    /// Like [`Names::resolve`], but blocks the thread. The lookup runs on a thread of its own, so that a slow name
    /// server does not make a port lose datagrams.
    pub(crate) fn resolve_blocking(&self, address: IpAddr) -> String {
        self.resolve_blocking_with(address, LOOKUP_TIMEOUT, |address| dns_lookup::lookup_addr(&address).ok())
    }

    fn resolve_blocking_with(
        &self,
        address: IpAddr,
        timeout: Duration,
        lookup: impl FnOnce(IpAddr) -> Option<String> + Send + 'static,
    ) -> String {
        let address = address.to_canonical();
        if let Some(name) = self.cached(address) {
            return name;
        }
        // While too many lookups are running, the address is not cached, so that its name is looked up later.
        let Ok(place) = Arc::clone(&self.lookups).try_acquire_owned() else { return address.to_string() };
        let (sender, found) = sync_channel(1);
        let work = move || {
            let found = lookup(address);
            drop(place);
            // The receiver is gone after the timeout.
            sender.send(found).ok();
        };
        let started = std::thread::Builder::new().name(LOOKUP_THREAD.to_owned()).spawn(work);
        let found = started.ok().and_then(|_| found.recv_timeout(timeout).ok()?);
        let name = found.filter(|name| !name.is_empty()).unwrap_or_else(|| address.to_string());
        self.cache_name(address, &name);
        name
    }

    fn cached(&self, address: IpAddr) -> Option<String> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&address).cloned()
    }

    fn cache_name(&self, address: IpAddr, name: &str) {
        let mut names = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert(address, name.to_owned());
    }
}

/// Addresses of a host name.
pub(crate) fn resolve_addresses(name: &str) -> std::io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_slow_name_server_does_not_hold_up_datagrams() {
        let names = Names::default();
        let slow: IpAddr = "192.0.2.1".parse().unwrap();
        let (release, released) = channel::<()>();
        let wait = move |_| {
            released.recv().ok();
            Some("late".to_owned())
        };
        assert_eq!(names.resolve_blocking_with(slow, Duration::ZERO, wait), "192.0.2.1");
        assert_eq!(names.resolve_blocking_with(slow, Duration::MAX, |_| Some("other".to_owned())), "192.0.2.1");
        let quick: IpAddr = "192.0.2.2".parse().unwrap();
        assert_eq!(names.resolve_blocking_with(quick, Duration::from_secs(600), |_| Some("quick".to_owned())), "quick");
        drop(release);
    }
}
