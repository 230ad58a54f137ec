//! Time zones by the names used in settings and events.

use jiff::tz::{Offset, TimeZone};

use super::names::zone_offset;
use super::strptime::read_offset;

/// A time zone with a constant offset; UTC if the offset is 26 hours or more.
pub fn fixed_zone(offset_secs: i32) -> TimeZone {
    Offset::from_seconds(offset_secs).map_or(TimeZone::UTC, TimeZone::fixed)
}

/// Parses an IANA name (`Europe/Berlin`), an abbreviation (`CEST`) or an offset (`+02:00`, `GMT+10:00`, `UTC-3`; a
/// plus sign means east). `None` if the name is unknown.
pub fn parse_zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() {
        return None;
    }
    if let Some((offset, end)) = read_offset(name.as_bytes(), 0)
        && end == name.len()
    {
        return Some(fixed_zone(offset));
    }
    let known = TimeZone::get(name).ok();
    known.or_else(|| zone_offset(name.as_bytes()).map(fixed_zone))
}

/// The name of a zone, which [`parse_zone`] reads: `Europe/Berlin`, `+02:00`. A zone that is defined only by rules in
/// `TZ` or `/etc/localtime` has no name.
pub fn zone_name(zone: &TimeZone) -> Option<String> {
    let offset = || {
        let seconds = zone.to_fixed_offset().ok()?.seconds();
        let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs() / 60);
        Some(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
    };
    zone.iana_name().map(str::to_owned).or_else(offset)
}

#[cfg(test)]
mod tests {
    use super::{parse_zone, zone_name};
    use crate::time::strftime;

    #[test]
    fn zone_names_abbreviations_and_offsets_are_parsed() {
        let offset = |name: &str| parse_zone(name).map(|tz| strftime(0, "%z", &tz));
        assert_eq!(offset("Europe/Berlin").as_deref(), Some("+0100"));
        assert_eq!(offset("europe/berlin").as_deref(), Some("+0100"));
        assert_eq!(offset("UTC").as_deref(), Some("+0000"));
        assert_eq!(offset("CEST").as_deref(), Some("+0200"));
        assert_eq!(offset("GMT+10:00").as_deref(), Some("+1000"));
        assert_eq!(offset("UTC-3").as_deref(), Some("-0300"));
        assert_eq!(offset("-0530").as_deref(), Some("-0530"));
        for (name, shown) in [("Europe/Berlin", "Europe/Berlin"), ("-0530", "-05:30"), ("CEST", "+02:00")] {
            assert_eq!(parse_zone(name).and_then(|zone| zone_name(&zone)).as_deref(), Some(shown));
        }
        assert_eq!(offset("Middle/Earth"), None);
        assert_eq!(offset(""), None);
    }
}
