//! Changes that requests make to a job, apart from its search and its lifetime: the fields that clients store with it,
//! and who else may see and control it ([`crate::job_sharing`]).

use std::collections::BTreeMap;

use quarry_conf::Permissions;
use quarry_stdx::{Fault, log};
use serde_json::json;

use super::job::{MutableState, SearchJob};
use super::record::JobRecord;
use crate::job_sharing::JobSharing;

/// Maximum number of fields that clients store with a job; a request with more is refused.
pub const CUSTOM_FIELDS_MAX: usize = 200;
/// Maximum total bytes of the names and values of these fields; a request with more is refused.
pub const CUSTOM_BYTES_MAX: usize = 64 << 10;

/// Refuses more fields than a job stores.
pub fn check_custom_fields(fields: &BTreeMap<String, String>) -> Result<(), Fault> {
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    if fields.len() <= CUSTOM_FIELDS_MAX && bytes <= CUSTOM_BYTES_MAX {
        return Ok(());
    }
    Err(Fault::invalid(format!(
        "a job would store {} custom fields of {bytes} bytes; it stores at most {CUSTOM_FIELDS_MAX} of {CUSTOM_BYTES_MAX} bytes",
        fields.len()
    )))
}

impl SearchJob {
    /// Whether a viewer may read the job and its rows.
    pub fn is_readable_by(&self, viewer: &Permissions) -> bool {
        viewer.may_see(Some(self.user())) || self.lock().sharing.permits_reading(viewer)
    }

    /// Whether a viewer may control and remove the job.
    pub fn is_writable_by(&self, viewer: &Permissions) -> bool {
        viewer.may_see(Some(self.user())) || self.lock().sharing.permits_changes(viewer)
    }

    /// Stores fields of a client with the job. A field replaces an existing field of the same name; an empty value
    /// removes the field.
    pub fn store_custom_fields(&self, fields: BTreeMap<String, String>) -> Result<(), Fault> {
        let mut changing = self.lock();
        let mut all = changing.custom.clone();
        all.extend(fields);
        all.retain(|_, value| !value.is_empty());
        check_custom_fields(&all)?;
        changing.custom = all;
        self.store_record(&changing);
        Ok(())
    }

    /// Sets who else may see and control the job.
    pub fn share(&self, sharing: JobSharing) {
        let mut changing = self.lock();
        changing.sharing = sharing;
        self.store_record(&changing);
    }

    /// The record of the job, including changes since its creation.
    pub(super) fn current_record(&self, changing: &MutableState) -> JobRecord {
        JobRecord {
            priority: changing.priority(),
            custom: changing.custom.clone(),
            sharing: changing.sharing.clone(),
            ..self.record.clone()
        }
    }

    fn store_record(&self, changing: &MutableState) {
        if changing.is_removed {
            return;
        }
        let record = json!(self.current_record(changing));
        if let Err(error) = self.job_store.update_record(self.sid(), &record) {
            log::warning(format!("job {}: a change will not survive a restart of the server: {error}", self.sid()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_fields_are_limited() {
        let of = |count: usize, bytes: usize| (0..count).map(|at| (at.to_string(), "x".repeat(bytes))).collect();
        assert!(check_custom_fields(&of(CUSTOM_FIELDS_MAX, 9)).is_ok());
        assert!(check_custom_fields(&of(CUSTOM_FIELDS_MAX + 1, 1)).is_err());
        assert!(check_custom_fields(&of(1, CUSTOM_BYTES_MAX)).is_err());
    }
}
