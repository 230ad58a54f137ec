//! Rules of tables from multikv.conf.
//!
//! Not here: reading tables (`quarry_eval::extract::multikv`).

use quarry_conf::TableStanza;
use quarry_eval::extract::multikv::rules::TableRule;
use quarry_eval::messages::Messages;
use quarry_stdx::Fault;

/// Table rules of a multikv.conf stanza; if the rules cannot be read, the user gets a message.
pub(super) fn table_rule(stanza: &TableStanza, messages: &Messages) -> Option<TableRule> {
    let Some(settings) = &stanza.settings else {
        messages.push(format!(
            "KV_MODE = multi:{0}: multikv.conf has no stanza {0}; tables are read without it",
            stanza.name
        ));
        return None;
    };
    let told =
        |fault: Fault| messages.push(format!("multikv.conf [{}]: {fault}; tables are read without it", stanza.name));
    TableRule::new(settings).map_err(told).ok()
}
