//! The machine's current boot.

use std::fs;

/// Id of the machine's current boot; `None` if unknown. As long as the id stays the same, everything written is
/// preserved, even without a sync.
pub fn boot_id() -> Option<u128> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}
