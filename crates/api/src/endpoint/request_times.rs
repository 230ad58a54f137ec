//! Times in requests for searches: bounds in a format of the client (`time_format`), and bounds of the times at which
//! events arrived (`index_earliest`, `index_latest`).
//!
//! Not here: time modifiers ([`quarry_event::time`]), real-time bounds ([`super::real_time`]).

use jiff::tz::TimeZone;
use quarry_event::time::{modifier_text, strptime};
use quarry_event::{TimeError, TimeNs, TimeRange};

use crate::message::ApiError;

/// A bound in seconds since 1970, if its text has the format of the request. Any other text is returned unchanged,
/// because it is a time modifier.
pub(super) fn in_format(text: String, format: Option<&str>, zone: &TimeZone) -> String {
    let time = format.and_then(|format| strptime(text.trim(), format, zone));
    time.map_or(text, modifier_text)
}

/// The limits of the arrival time that a request sets, by the names of their parameters.
pub(super) fn arrival_range(
    [earliest, latest]: [(&str, Option<&str>); 2],
    resolve: impl Fn(&str) -> Result<TimeNs, TimeError>,
) -> Result<TimeRange, ApiError> {
    let bound = |(name, text): (&str, Option<&str>)| {
        let text = text.map(str::trim).filter(|text| !text.is_empty());
        let resolved = text.map(|text| resolve(text).map_err(|reason| (text, reason))).transpose();
        resolved.map_err(|(text, reason)| ApiError::bad_request(format!("{name}={text}: {reason}")))
    };
    let range = TimeRange { earliest: bound(earliest)?, latest: bound(latest)? };
    match (range.earliest, range.latest) {
        (Some(from), Some(to)) if from > to => Err(ApiError::bad_request(format!(
            "Invalid time bounds in search: {} is later than {}; exchange them",
            earliest.0, latest.0
        ))),
        _ => Ok(range),
    }
}

#[cfg(test)]
mod tests {
    use quarry_event::time::{NS_PER_SEC, parse_time};

    use super::*;

    #[test]
    fn bounds_may_have_a_format_of_the_client() {
        let of = |text: &str, format: &str| in_format(text.to_owned(), Some(format), &TimeZone::UTC);
        assert_eq!(of("29/11/2026", "%d/%m/%Y"), "1795910400");
        assert_eq!(of("29/11/2026 01:00", "%d/%m/%Y %H:%M"), "1795914000");
        // A number with a minus would be an offset from now.
        assert_eq!(of("31/12/1969 23:59", "%d/%m/%Y %H:%M"), "1969-12-31T23:59:00.000000000+0000");
        assert_eq!(of("-1d@d", "%d/%m/%Y"), "-1d@d");
        assert_eq!(in_format("now".to_owned(), None, &TimeZone::UTC), "now");
    }

    #[test]
    fn arrival_is_limited_by_time_modifiers() {
        let now = 100 * NS_PER_SEC;
        let of = |earliest, latest| {
            let bounds = [("index_earliest", Some(earliest)), ("index_latest", Some(latest))];
            arrival_range(bounds, |text| parse_time(text, now, &TimeZone::UTC))
        };
        let range = TimeRange { earliest: Some(90 * NS_PER_SEC), latest: Some(now) };
        assert_eq!(of("-10s", "now").unwrap(), range);
        assert_eq!(of("", " ").unwrap(), TimeRange::ALL);
        assert!(of("now", "-10s").unwrap_err().text().contains("index_earliest is later"));
        assert!(of("soon", "").unwrap_err().text().starts_with("index_earliest=soon: "));
    }
}
