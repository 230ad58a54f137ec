//! The process's limit on open files and sockets (`RLIMIT_NOFILE`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum limit requested; a higher one would only enlarge the kernel's tables.
const REQUESTED_LIMIT_MAX: u64 = 65_536;
/// Limit that is assumed if the system reports none.
const DEFAULT_LIMIT: usize = 1_024;

/// Raises the soft limit to [`REQUESTED_LIMIT_MAX`], or to the hard limit if that is lower. Shells start programs with
/// a soft limit of 1,024, too low for a server. Child processes get limits of their own.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(REQUESTED_LIMIT_MAX).min(REQUESTED_LIMIT_MAX);
    if limit.current.is_some_and(|current| current < most) {
        // A lower limit is still enough to work.
        let _refused = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
}

/// The current soft limit.
pub fn soft_limit() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    current.and_then(|current| usize::try_from(current).ok()).unwrap_or(DEFAULT_LIMIT)
}

#[cfg(test)]
mod tests {
    #[test]
    fn raising_never_lowers_the_limit() {
        let before = super::soft_limit();
        super::raise_limit();
        assert!(super::soft_limit() >= before && before > 0);
    }
}
