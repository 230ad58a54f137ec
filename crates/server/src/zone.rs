//! The time zone of the machine, and zones named by the command line and requests.
//!
//! The machine's zone applies to times without a zone, and to times typed and shown. This zone is read once, from the
//! environment variable `TZ` or from `/etc/localtime`, so that it does not change while the program runs. If neither
//! has a valid zone, the zone is UTC.

use std::sync::OnceLock;

use jiff::tz::TimeZone;
use quarry_event::time::parse_zone;
pub(crate) use quarry_event::time::zone_name as name;
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
                // `TZ` may also be a zone that `--zone` accepts, such as CEST or +02:00.
                if let Some(zone) = parse_zone(&name) {
                    return zone;
                }
                log::warning(format!("TZ={name} names no time zone: UTC is used; use a name such as Europe/Berlin"));
            }
            TimeZone::UTC
        }
    }
}

/// The zone of `--zone`, if given.
pub(crate) fn parse_option(name: Option<&str>) -> Result<Option<TimeZone>, Failure> {
    resolve_zone(name)
        .map_err(|name| Failure::Usage(format!("--zone {name}: no such time zone; use a name such as Europe/Berlin")))
}

/// The zone of a request, if given.
pub(crate) fn parse_request(name: Option<&str>) -> Result<Option<TimeZone>, Fault> {
    let name = name.filter(|name| !name.is_empty());
    resolve_zone(name)
        .map_err(|name| Fault::invalid(format!("zone={name}: no such time zone; use a name such as Europe/Berlin")))
}

fn resolve_zone(name: Option<&str>) -> Result<Option<TimeZone>, &str> {
    name.map(|name| parse_zone(name).ok_or(name)).transpose()
}

/// Display name of a zone.
pub(crate) fn display_name(zone: &TimeZone) -> String {
    name(zone).unwrap_or_else(|| "a zone without a name".to_owned())
}
