//! Reverse DNS of senders' addresses, with a cache.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

/// Maximum cached names; beyond it the cache is cleared.
const NAMES_MAX: usize = 4_096;
/// Timeout of a lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum concurrent lookups; limited because they occupy threads that HTTP requests use as well.
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

    /// Like [`Names::resolve`], but blocks the thread and has no timeout.
    pub(crate) fn resolve_blocking(&self, address: IpAddr) -> String {
        let address = address.to_canonical();
        self.cached(address).unwrap_or_else(|| {
            let found = dns_lookup::lookup_addr(&address).ok().filter(|name| !name.is_empty());
            let name = found.unwrap_or_else(|| address.to_string());
            self.cache_name(address, &name);
            name
        })
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
