//! The time zone of the machine, and zones that the command line and requests name.
//!
//! The machine's zone is that of times that name none, of times typed, and of times shown. It is read once, from the
//! environment variable `TZ` or from `/etc/localtime`, so that nothing changes its mind while the program runs. A machine
//! that says nothing, or nothing that can be read, is in UTC.

use std::sync::OnceLock;

use jiff::tz::TimeZone;
use quarry_event::time::parse_zone;
use quarry_stdx::{Fault, log};

use crate::failure::Failure;

/// The zone of this machine.
pub(crate) fn machine() -> TimeZone {
    static MACHINE: OnceLock<TimeZone> = OnceLock::new();
    MACHINE.get_or_init(read).clone()
}

fn read() -> TimeZone {
    match TimeZone::try_system() {
        Ok(zone) if !zone.is_unknown() => zone,
        _ => {
            if let Some(name) = std::env::var_os("TZ").filter(|name| !name.is_empty()) {
                let name = name.to_string_lossy();
                log::warning(format!("TZ={name} names no time zone: UTC is used; give one as Europe/Berlin"));
            }
            TimeZone::UTC
        }
    }
}

/// The zone that `--zone` names, if it names one.
pub(crate) fn of_option(name: Option<&str>) -> Result<Option<TimeZone>, Failure> {
    named(name).map_err(|name| Failure::Usage(format!("--zone {name}: no such time zone; give one as Europe/Berlin")))
}

/// The zone that a request names, if it names one.
pub(crate) fn of_request(name: Option<&str>) -> Result<Option<TimeZone>, Fault> {
    let name = name.filter(|name| !name.is_empty());
    named(name).map_err(|name| Fault::invalid(format!("zone={name}: no such time zone; give one as Europe/Berlin")))
}

fn named(name: Option<&str>) -> Result<Option<TimeZone>, &str> {
    name.map(|name| parse_zone(name).ok_or(name)).transpose()
}

/// The name under which others find a zone: `Europe/Berlin`, `+02:00`. One that `TZ` or `/etc/localtime` spells out by its
/// rules has none.
pub(crate) fn name(zone: &TimeZone) -> Option<String> {
    let offset = || {
        let seconds = zone.to_fixed_offset().ok()?.seconds();
        let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs() / 60);
        Some(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
    };
    zone.iana_name().map(str::to_owned).or_else(offset)
}

/// A zone for people.
pub(crate) fn shown(zone: &TimeZone) -> String {
    name(zone).unwrap_or_else(|| "a zone without a name".to_owned())
}
