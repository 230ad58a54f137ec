//! Capabilities that single stanzas and settings of conf files require, in addition to the capability of the endpoint.
//!
//! A stanza can be changed in its collection, at `configs/conf-NAME` and at `properties`. All three check the change
//! here, so that no path permits what another path refuses.

use quarry_conf::Permissions;

use super::entity_kinds::{BANNER_CONF, BOOKMARK, METRIC_ALERTS_CONF, METRIC_SCHEMA, STATSD_DIMENSIONS};
use super::row::{EDIT_BANNER, EDIT_BOOKMARKS, EDIT_METRIC_SCHEMA, EDIT_STATSD, METRIC_ALERTS};
use super::{datamodels, saved_searches};
use crate::message::ApiError;
use crate::parameter_types::parse_flag;

/// Running searches on a schedule.
const SCHEDULE_SEARCH: &str = "schedule_search";
/// Giving a scheduled search a higher priority.
const SCHEDULE_PRIORITY: &str = "edit_search_schedule_priority";
/// Accelerating data models.
const ACCELERATE_MODEL: &str = "accelerate_datamodel";
/// Beginning of the names of settings that accelerate a data model.
const ACCELERATION: &str = "acceleration";
/// The priority of scheduled searches that every user may set.
const DEFAULT_PRIORITY: &str = "default";

/// Fails if a change of a stanza requires a capability that the user does not have.
pub(super) fn check_change(
    viewer: &Permissions,
    conf: &str,
    stanza: &str,
    settings: &[(String, String)],
) -> Result<(), ApiError> {
    match required(conf, stanza, settings).filter(|capability| !viewer.has_capability(capability)) {
        Some(missing) => Err(ApiError::missing_capability(&viewer.user, missing)),
        None => Ok(()),
    }
}

/// The capability that a change of a stanza requires. `settings` are the new values; they are empty if the stanza is
/// removed or moved.
fn required(conf: &str, stanza: &str, settings: &[(String, String)]) -> Option<&'static str> {
    match conf {
        saved_searches::CONF => settings.iter().find_map(|(key, value)| of_saved_search(key, value.trim())),
        TRANSFORMS_CONF if stanza.starts_with(STATSD_DIMENSIONS) => Some(EDIT_STATSD),
        TRANSFORMS_CONF if stanza.starts_with(METRIC_SCHEMA) => Some(EDIT_METRIC_SCHEMA),
        BOOKMARKS_CONF if stanza.starts_with(BOOKMARK) => Some(EDIT_BOOKMARKS),
        BANNER_CONF => Some(EDIT_BANNER),
        METRIC_ALERTS_CONF => Some(METRIC_ALERTS),
        datamodels::CONF if settings.iter().any(|(key, _)| key.starts_with(ACCELERATION)) => Some(ACCELERATE_MODEL),
        _ => None,
    }
}

const TRANSFORMS_CONF: &str = "transforms";
const BOOKMARKS_CONF: &str = "bookmarks";

/// The capability that a setting of a saved search requires. A value that every user may set requires none, because
/// clients send all settings of a search with every change.
fn of_saved_search(key: &str, value: &str) -> Option<&'static str> {
    match key {
        "is_scheduled" | "enableSched" if parse_flag(value) == Some(true) => Some(SCHEDULE_SEARCH),
        "schedule_priority" if !value.is_empty() && value != DEFAULT_PRIORITY => Some(SCHEDULE_PRIORITY),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_require_the_capability_of_their_collection() {
        let of = |conf: &str, stanza: &str, key: &str, value: &str| {
            required(conf, stanza, &[(key.to_owned(), value.to_owned())])
        };
        assert_eq!(of("savedsearches", "x", "is_scheduled", "1"), Some("schedule_search"));
        assert_eq!(of("savedsearches", "x", "enableSched", "true"), Some("schedule_search"));
        assert_eq!(of("savedsearches", "x", "is_scheduled", "0"), None);
        assert_eq!(of("savedsearches", "x", "schedule_priority", "highest"), Some("edit_search_schedule_priority"));
        assert_eq!(of("savedsearches", "x", "schedule_priority", "default"), None);
        assert_eq!(of("transforms", "statsd-dims:x", "REGEX", "a"), Some("edit_statsd_transforms"));
        assert_eq!(of("transforms", "metric-schema:x", "METRIC-SCHEMA-MEASURES", "a"), Some("edit_metric_schema"));
        assert_eq!(of("transforms", "x", "REGEX", "a"), None);
        assert_eq!(of("datamodels", "x", "acceleration.earliest_time", "-1d"), Some("accelerate_datamodel"));
        assert_eq!(of("datamodels", "x", "description", "a"), None);
        assert_eq!(required("transforms", "statsd-dims:x", &[]), Some("edit_statsd_transforms"));
    }
}
