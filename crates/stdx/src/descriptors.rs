//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as a server asks for; more would only make tables larger.
const ASKED: u64 = 65_536;
/// Where the system names no number.
const UNKNOWN: usize = 1_024;

/// Raises the number as far as the system lets everybody: shells start programs with 1,024, which is a limit for programs
/// of another age. Programs that this one starts have limits of their own.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(ASKED).min(ASKED);
    if limit.current.is_some_and(|current| current < most) {
        // What stays is enough to work.
        let _refused = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
}

/// The number.
pub fn allowed() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    current.and_then(|current| usize::try_from(current).ok()).unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_never_less_afterwards() {
        let before = super::allowed();
        super::raise();
        assert!(super::allowed() >= before && before > 0);
    }
}
