//! collectd's JSON, as its plugin write_http sends it to `/services/collector/raw` with the sourcetype `collectd_http`.
//!
//! A list of values is one metric event, a measurement for each of its data sources. The name of a measurement is
//! `PLUGIN.TYPE.TYPE_INSTANCE.SOURCE`, without what is empty; the plugin's instance is a dimension.
//!
//! Not here: collectd's notifications and its command form.

use serde_json::Value;

use super::metric::Metric;
use crate::hec::envelope::{Envelope, seconds};

/// Sourcetype of such bodies.
pub(in crate::hec) const SOURCETYPE: &str = "collectd_http";

/// Events of a body; `None` when any of it is something else.
pub(in crate::hec) fn read(body: &str) -> Option<Vec<Envelope>> {
    let mut events = Vec::new();
    for part in serde_json::Deserializer::from_str(body).into_iter::<Value>() {
        match part.ok()? {
            Value::Array(lists) => lists.iter().try_for_each(|list| add(list, &mut events))?,
            list => add(&list, &mut events)?,
        }
    }
    Some(events)
}

fn add(list: &Value, events: &mut Vec<Envelope>) -> Option<()> {
    let text = |key: &str| list[key].as_str().unwrap_or_default();
    let (values, sources) = (list["values"].as_array()?, list["dsnames"].as_array()?);
    if values.len() != sources.len() || text("plugin").is_empty() {
        return None;
    }
    let mut metric = Metric::default();
    for (value, source) in values.iter().zip(sources) {
        let parts = [text("plugin"), text("type"), text("type_instance"), source.as_str()?];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        match value {
            Value::Number(number) => metric.values.push((parts.join("."), number.to_string())),
            // What could not be measured.
            Value::Null => {}
            _ => return None,
        }
    }
    let mut event = Envelope {
        time: seconds(&list["time"].as_number()?.to_string()),
        host: list["host"].as_str().filter(|host| !host.is_empty()).map(str::to_owned),
        ..Envelope::default()
    };
    let kind = list["dstypes"][0].as_str().unwrap_or_default();
    let dimensions = [("metric_type", kind), ("plugin_instance", text("plugin_instance"))];
    let dimensions = dimensions.into_iter().filter(|(_, value)| !value.is_empty());
    event.fields.extend(dimensions.map(|(name, value)| (name.to_owned(), value.to_owned())));
    if !metric.values.is_empty() {
        events.push(metric.into_event(event));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_list_of_values_is_one_event() {
        let body = r#"[{"values":[1901474177,25.5],"dstypes":["derive","derive"],"dsnames":["rx","tx"],
            "time":1795225000.250,"interval":10.000,"host":"web4","plugin":"interface","plugin_instance":"eth0",
            "type":"if_octets","type_instance":""}]
            [{"values":[null],"dstypes":["gauge"],"dsnames":["value"],"time":1,"host":"h","plugin":"p"}]"#;
        let events = read(body).unwrap();
        assert_eq!(events.len(), 1, "nothing was measured in the second list");
        let event = &events[0];
        assert_eq!(
            event.raw,
            r#"{"metric_name:interface.if_octets.rx":1901474177,"metric_name:interface.if_octets.tx":25.5,"metric_type":"derive","plugin_instance":"eth0"}"#
        );
        assert_eq!((event.time, event.host.as_deref()), (Some(1_795_225_000_250_000_000), Some("web4")));
    }

    #[test]
    fn other_bodies_are_none_of_collectds() {
        for body in [
            "text",
            r#"{"event":"x"}"#,
            r#"[{"values":[1],"dsnames":[],"time":1,"plugin":"p"}]"#,
            r#"[{"values":["x"],"dsnames":["v"],"time":1,"plugin":"p"}]"#,
            r#"[{"values":[1],"dsnames":["v"],"time":1,"plugin":"p"}] and more"#,
        ] {
            assert_eq!(read(body), None, "{body}");
        }
        assert_eq!(read(""), Some(Vec::new()));
    }
}
