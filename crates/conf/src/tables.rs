//! All settings tables.

use crate::props;
use crate::settings::{authorize, datamodels, http_input, indexes, limits, outputs, server, transforms};
use crate::table::ConfTable;

/// Every table.
pub static TABLES: &[&ConfTable] = &[
    &props::table::PROPS,
    &transforms::TRANSFORMS,
    &limits::LIMITS,
    &indexes::INDEXES,
    &server::SERVER,
    &outputs::OUTPUTS,
    &http_input::INPUTS,
    &datamodels::DATAMODELS,
    &authorize::AUTHORIZE,
];

/// Confs without a table, and the settings read from them.
pub const CONFS_WITHOUT_TABLE: &[(&str, &str)] = &[
    ("alert_actions", "the programs of `sendalert`, with their parameters"),
    ("collections", "types of fields, whether they are enforced, accelerated fields; replication has no effect"),
    ("commands", "search commands that come with apps"),
    ("eventtypes", "event types: a search, its tags, whether it is disabled"),
    ("macros", "macros with their arguments and validation"),
    ("multikv", "how `multikv` finds tables"),
    ("savedsearches", "saved searches with their text and time range; schedules have no effect"),
    ("tags", "tags of field values"),
    ("transactiontypes", "transaction types, as named options of `transaction`"),
];

impl ConfTable {
    /// Table of a conf.
    pub fn find_table(conf: &str) -> Option<&'static ConfTable> {
        TABLES.iter().find(|table| table.conf == conf).copied()
    }
}
