//! Capabilities that single stanzas and settings of conf files require, in addition to the capability of the endpoint.
//!
//! A stanza can be changed in its collection, at `configs/conf-NAME` and at `properties`. All three check the change
//! here, so that no path permits what another path refuses.

use quarry_apps::objects::ConfObject;
use quarry_conf::Permissions;

use super::row::{EDIT_BANNER, EDIT_BOOKMARKS, EDIT_METRIC_SCHEMA, EDIT_STATSD, METRIC_ALERTS};
use crate::message::ApiError;
use crate::parameter_types::parse_flag;

/// The conf of the global banner.
pub(super) const BANNER_CONF: &str = "global-banner";
pub(super) const METRIC_ALERTS_CONF: &str = "metric_alerts";
/// Prefix of stanzas with the dimensions in the names of statsd metrics.
pub(super) const STATSD_DIMENSIONS: &str = "statsd-dims:";
/// Prefix of stanzas with the fields that become metrics.
pub(super) const METRIC_SCHEMA: &str = "metric-schema:";
/// Prefix of stanzas with bookmarks of the Monitoring Console.
pub(super) const BOOKMARK: &str = "bookmarks_mc:";
const BOOKMARKS_CONF: &str = "bookmarks";
const MODELS_CONF: &str = "datamodels";
const SAVED_SEARCHES_CONF: &str = "savedsearches";
const TRANSFORMS_CONF: &str = "transforms";

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

/// Fails if a change of a stanza requires a capability that the user does not have. `settings` are the new values; they
/// are empty if the stanza is moved.
pub(super) fn check_change(
    viewer: &Permissions,
    conf: &str,
    stanza: &str,
    settings: &[(String, String)],
) -> Result<(), ApiError> {
    let of_settings = settings.iter().filter_map(|(key, value)| of_setting(conf, key, value.trim()));
    let mut required = of_stanza(conf, stanza).into_iter().chain(of_settings);
    match required.find(|capability| !viewer.has_capability(capability)) {
        Some(missing) => Err(ApiError::missing_capability(&viewer.user, missing)),
        None => Ok(()),
    }
}

/// Fails if the removal of a stanza requires a capability that the user does not have. Removing a stanza that
/// accelerates a data model removes the acceleration, too.
pub(super) fn check_removal(viewer: &Permissions, object: &ConfObject) -> Result<(), ApiError> {
    let is_acceleration = |key: &str| object.conf == MODELS_CONF && key.starts_with(ACCELERATION);
    let removed = object.settings.iter().filter(|(key, _)| is_acceleration(key));
    let removed: Vec<_> = removed.map(|(key, value)| (key.clone(), value.clone())).collect();
    check_change(viewer, &object.conf, &object.name, &removed)
}

/// The capability that every change of a stanza requires.
fn of_stanza(conf: &str, stanza: &str) -> Option<&'static str> {
    match conf {
        TRANSFORMS_CONF if stanza.starts_with(STATSD_DIMENSIONS) => Some(EDIT_STATSD),
        TRANSFORMS_CONF if stanza.starts_with(METRIC_SCHEMA) => Some(EDIT_METRIC_SCHEMA),
        BOOKMARKS_CONF if stanza.starts_with(BOOKMARK) => Some(EDIT_BOOKMARKS),
        BANNER_CONF => Some(EDIT_BANNER),
        METRIC_ALERTS_CONF => Some(METRIC_ALERTS),
        _ => None,
    }
}

/// The capability that a value of a setting requires. A value that every user may set requires none, because clients
/// send all settings of a saved search with every change.
fn of_setting(conf: &str, key: &str, value: &str) -> Option<&'static str> {
    match (conf, key) {
        (SAVED_SEARCHES_CONF, "is_scheduled" | "enableSched") if parse_flag(value) == Some(true) => {
            Some(SCHEDULE_SEARCH)
        }
        (SAVED_SEARCHES_CONF, "schedule_priority") if !value.is_empty() && value != DEFAULT_PRIORITY => {
            Some(SCHEDULE_PRIORITY)
        }
        (MODELS_CONF, key) if key.starts_with(ACCELERATION) => Some(ACCELERATE_MODEL),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Whether a user with these capabilities may make the change.
    fn may(capabilities: &[&str], (conf, stanza): (&str, &str), settings: &[(&str, &str)]) -> bool {
        let capabilities: BTreeSet<String> = capabilities.iter().map(|name| (*name).to_owned()).collect();
        let viewer = Permissions::for_user("tom", capabilities, Vec::new(), Vec::new());
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        check_change(&viewer, conf, stanza, &settings.collect::<Vec<_>>()).is_ok()
    }

    #[test]
    fn changes_require_the_capability_of_their_collection() {
        for (stanza, setting, capability) in [
            (("savedsearches", "x"), ("is_scheduled", "1"), "schedule_search"),
            (("savedsearches", "x"), ("enableSched", "true"), "schedule_search"),
            (("savedsearches", "x"), ("schedule_priority", "highest"), "edit_search_schedule_priority"),
            (("transforms", "statsd-dims:x"), ("REGEX", "a"), "edit_statsd_transforms"),
            (("transforms", "metric-schema:x"), ("METRIC-SCHEMA-MEASURES", "a"), "edit_metric_schema"),
            (("bookmarks", "bookmarks_mc:x"), ("url", "a"), "edit_bookmarks_mc"),
            (("global-banner", "x"), ("global_banner.visible", "1"), "edit_global_banner"),
            (("metric_alerts", "x"), ("condition", "a"), "metric_alerts"),
            (("datamodels", "x"), ("acceleration.earliest_time", "-1d"), "accelerate_datamodel"),
        ] {
            assert!(!may(&[], stanza, &[setting]) && may(&[capability], stanza, &[setting]), "{stanza:?} {setting:?}");
        }
        for (stanza, setting) in [
            (("savedsearches", "x"), ("is_scheduled", "0")),
            (("savedsearches", "x"), ("schedule_priority", "default")),
            (("transforms", "x"), ("REGEX", "a")),
            (("datamodels", "x"), ("description", "a")),
        ] {
            assert!(may(&[], stanza, &[setting]), "{stanza:?} {setting:?}");
        }
    }

    #[test]
    fn each_setting_and_each_removal_is_checked() {
        let both = [("is_scheduled", "1"), ("schedule_priority", "highest")];
        assert!(!may(&["schedule_search"], ("savedsearches", "x"), &both));
        assert!(may(&["schedule_search", "edit_search_schedule_priority"], ("savedsearches", "x"), &both));
        assert!(!may(&[], ("transforms", "statsd-dims:x"), &[]));
    }
}
