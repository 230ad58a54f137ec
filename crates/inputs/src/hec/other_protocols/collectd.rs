//! collectd's JSON, as sent by its plugin write_http to `/services/collector/raw` with the sourcetype `collectd_http`.
//!
//! A value list becomes one metric event, with a measurement per data source. A measurement is named
//! `PLUGIN.TYPE.TYPE_INSTANCE.SOURCE`, without empty parts; the plugin instance is a dimension.
//!
//! Not here: collectd's notifications and its command format.

use serde_json::Value;
use sonic_rs::{Deserializer, JsonType, JsonValueTrait, LazyValue, to_array_iter};

use super::metric::Metric;
use crate::hec::envelope::{Envelope, first_too_deep, seconds};

/// Sourcetype of collectd's bodies.
pub(in crate::hec) const SOURCETYPE: &str = "collectd_http";
/// Maximum bytes of a value list; a body with a larger list is not read as collectd's.
const LIST_BYTES_MAX: usize = 64 << 10;

/// Passes the events of a body to `take` one by one, to bound memory; `None` if the body contains anything else or
/// `take` refuses an event.
pub(in crate::hec) fn read(body: &str, take: &mut dyn FnMut(Envelope) -> Option<()>) -> Option<()> {
    if first_too_deep(body).is_some() {
        return None;
    }
    let mut values = Deserializer::from_str(body).into_stream::<LazyValue<'_>>();
    let mut rest = body;
    // At the end of the text, the parser would return an error without a position.
    while !rest.trim_start().is_empty() {
        let value = values.next()?.ok()?;
        let raw = value.as_raw_str();
        rest = body.get(raw.as_ptr().addr().checked_sub(body.as_ptr().addr())? + raw.len()..)?;
        if value.get_type() == JsonType::Array {
            for list in to_array_iter(raw) {
                add(list.ok()?.as_raw_str(), take)?;
            }
        } else {
            add(raw, take)?;
        }
    }
    Some(())
}

fn add(list: &str, take: &mut dyn FnMut(Envelope) -> Option<()>) -> Option<()> {
    if list.len() > LIST_BYTES_MAX {
        return None;
    }
    let list: Value = serde_json::from_str(list).ok()?;
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
            // collectd sends null for a value that could not be measured.
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
    if metric.values.is_empty() { Some(()) } else { take(metric.into_event(event)) }
}

#[cfg(test)]
mod tests {
    use super::LIST_BYTES_MAX;
    use crate::hec::envelope::Envelope;

    fn read(body: &str) -> Option<Vec<Envelope>> {
        let mut events = Vec::new();
        let whole = super::read(body, &mut |event| {
            events.push(event);
            Some(())
        });
        whole.map(|()| events)
    }

    #[test]
    fn value_lists_become_one_event() {
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
    fn other_bodies_are_not_recognised_as_collectd() {
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
        let long = " ".repeat(LIST_BYTES_MAX);
        assert_eq!(read(&format!(r#"[{{"values":[1],"dsnames":["v"],"time":1,"plugin":"p"{long}}}]"#)), None);
        assert_eq!(read(&"[".repeat(100_000)), None);
    }
}
