//! Bundled data models: the names of Splunk's Common Information Model, and of its model of the audit trail, defined
//! in our own words, so that searches written for these models run without an app.
//!
//! Fields that searches group by are `unknown` if an event lacks them, so that no event is lost.

/// Name and JSON text of each model.
pub(crate) static MODELS: &[(&str, &str)] = &[
    ("Alerts", include_str!("../../models/Alerts.json")),
    ("Application_State", include_str!("../../models/Application_State.json")),
    ("Authentication", include_str!("../../models/Authentication.json")),
    ("Certificates", include_str!("../../models/Certificates.json")),
    ("Change", include_str!("../../models/Change.json")),
    ("Change_Analysis", include_str!("../../models/Change_Analysis.json")),
    ("Compute_Inventory", include_str!("../../models/Compute_Inventory.json")),
    ("DLP", include_str!("../../models/DLP.json")),
    ("Data_Access", include_str!("../../models/Data_Access.json")),
    ("Databases", include_str!("../../models/Databases.json")),
    ("Email", include_str!("../../models/Email.json")),
    ("Endpoint", include_str!("../../models/Endpoint.json")),
    ("Event_Signatures", include_str!("../../models/Event_Signatures.json")),
    ("Identity_Management", include_str!("../../models/Identity_Management.json")),
    ("Incident_Management", include_str!("../../models/Incident_Management.json")),
    ("Interprocess_Messaging", include_str!("../../models/Interprocess_Messaging.json")),
    ("Intrusion_Detection", include_str!("../../models/Intrusion_Detection.json")),
    ("JVM", include_str!("../../models/JVM.json")),
    ("Malware", include_str!("../../models/Malware.json")),
    ("Network_Resolution", include_str!("../../models/Network_Resolution.json")),
    ("Network_Sessions", include_str!("../../models/Network_Sessions.json")),
    ("Network_Traffic", include_str!("../../models/Network_Traffic.json")),
    ("Performance", include_str!("../../models/Performance.json")),
    ("Risk", include_str!("../../models/Risk.json")),
    ("Splunk_Audit", include_str!("../../models/Splunk_Audit.json")),
    ("Ticket_Management", include_str!("../../models/Ticket_Management.json")),
    ("Updates", include_str!("../../models/Updates.json")),
    ("Vulnerabilities", include_str!("../../models/Vulnerabilities.json")),
    ("Web", include_str!("../../models/Web.json")),
    ("internal_audit_logs", include_str!("../../models/internal_audit_logs.json")),
];

/// JSON text of the model of this name.
pub(crate) fn json_of(name: &str) -> Option<&'static str> {
    MODELS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::knowledge::model::DataModel;
    use crate::knowledge::object::{FieldReferent, ModelObject};

    #[test]
    fn every_object_can_be_searched() {
        for (name, text) in MODELS {
            let model = DataModel::of_json(name, text).unwrap();
            assert_eq!(model.name, *name);
            for object in &model.objects {
                let object =
                    ModelObject::new(&model, Some(&object.name), &BTreeSet::new(), &|text| Ok(text.to_owned()));
                assert!(object.is_ok(), "{name}: {:?}", object.err());
            }
        }
    }

    #[test]
    fn fields_are_found_by_path_and_below() {
        let model = DataModel::of_json("Change", json_of("Change").unwrap()).unwrap();
        let object =
            ModelObject::new(&model, Some("All_Changes"), &BTreeSet::new(), &|text| Ok(text.to_owned())).unwrap();
        assert!(matches!(object.resolve("All_Changes.user"), FieldReferent::Field(name) if name == "user"));
        let below = object.resolve("All_Changes.Account_Management.src_user");
        assert!(
            matches!(below, FieldReferent::Guarded(name, guard) if name == "src_user" && guard.text == "((tag=account))")
        );
        assert!(matches!(object.resolve("All_Changes.nonsense"), FieldReferent::Unknown));
        assert!(matches!(object.resolve("user"), FieldReferent::Unknown));
    }
}
