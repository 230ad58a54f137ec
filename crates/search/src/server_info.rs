//! The entry of `server/info`: version, identity and machine of the node.
//!
//! The entry has the members that Splunk's clients read; some clients fail if a member is absent. Not here: the state
//! of the node (health, disk), which only a running server knows.

use quarry_engine::NodeEntry;
use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;

use crate::node_facts::field;

/// Splunk release whose REST API this node follows. Clients choose their requests by this version: clients do not use
/// `search/v2` below 9.0.2, and refuse to delete an index below 5.
pub const API_VERSION: &str = "9.4.0";
/// Splunk's number of users for a licence without a limit.
const USERS_UNLIMITED: u32 = u32::MAX;
/// Kilobytes per megabyte.
const KILOBYTE: u64 = 1 << 10;

/// Identity of a node, which distinguishes the node from other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeIdentity {
    /// GUID of the data directory; empty if the directory has no GUID yet.
    pub guid: String,
    /// Start time of the process.
    pub started: TimeNs,
}

/// The entry; `host` is the machine's name, `name` the node's.
pub(crate) fn server_info(host: &str, name: String, identity: &NodeIdentity) -> NodeEntry {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let NodeIdentity { guid, started } = identity;
    vec![
        field("title", "server-info"),
        field("host", host),
        field("host_fqdn", host),
        field("serverName", name),
        field("guid", guid.as_str()),
        field("master_guid", guid.as_str()),
        field("manager_guid", guid.as_str()),
        field("startup_time", started.div_euclid(NS_PER_SEC).to_string()),
        field("version", API_VERSION),
        field("quarry_version", env!("CARGO_PKG_VERSION")),
        field("build", env!("CARGO_PKG_VERSION")),
        field("product_type", "quarry"),
        field("os_name", os_name()),
        field("os_name_extended", os_name()),
        field("os_version", os_version()),
        field("os_build", os_version()),
        field("cpu_arch", std::env::consts::ARCH),
        field("numberOfCores", cores.as_str()),
        field("numberOfVirtualCores", cores),
        field("physicalMemoryMB", memory_megabytes().to_string()),
        field("server_roles", "indexer"),
        field("mode", "normal"),
        field("rtsearch_enabled", "1"),
        field("isForwarding", "0"),
        field("kvStoreStatus", "ready"),
        field("fips_mode", "0"),
        field("shutting_down", "0"),
        field("isFree", "0"),
        field("isTrial", "0"),
        field("max_users", USERS_UNLIMITED.to_string()),
        field("activeLicenseGroup", "Free"),
        field("activeLicenseSubgroup", "Free"),
        field("licenseState", "OK"),
        field("licenseSignature", ""),
        ("licenseKeys".to_owned(), Vec::new()),
        ("licenseLabels".to_owned(), Vec::new()),
        field("addOns", ""),
    ]
}

/// Name of the operating system as Splunk writes it.
pub fn os_name() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        "freebsd" => "FreeBSD",
        other => other,
    }
}

/// Kernel release, if available.
fn os_version() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if release.trim().is_empty() { "unknown".to_owned() } else { release.trim().to_owned() }
}

/// Memory of the machine; 0 if unknown.
fn memory_megabytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
    kilobytes / KILOBYTE
}
