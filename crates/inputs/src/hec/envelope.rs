//! The JSON of `/services/collector/event`: objects in sequence or in an array, each wrapping one event.
//!
//! A string event is unescaped; an object, array, number or literal is taken byte for byte from the request. Events
//! before the first bad event are valid and are returned before the error.
//!
//! Not here: defaults from the token and the request, and storing.

use quarry_event::TimeNs;
use quarry_stdx::number::{f64_of, integer_part};
use sonic_rs::{Deserializer, JsonType, JsonValueTrait, LazyValue, to_array_iter, to_object_iter};

use super::answer::{Answer, Code};

/// Maximum bytes of an indexed field's name.
const FIELD_NAME_BYTES_MAX: usize = 1_024;
/// Maximum number of indexed fields of an event, where every value of a multivalue field counts.
const FIELDS_MAX: usize = 65_536;
/// Maximum bytes of `host`, `source` and `sourcetype` each.
const METADATA_BYTES_MAX: usize = 65_536;
/// Maximum bytes of an event's text plus indexed fields, far below the store's own limit.
const EVENT_BYTES_MAX: usize = 64 << 20;
/// Number of decimals of a second in nanoseconds.
const NANO_DIGITS: usize = 9;
const NANOS_PER_SEC: i128 = 1_000_000_000;

/// Maximum nesting; limited because the parser is recursive.
const DEPTH_MAX: usize = 500;

/// One event of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) raw: String,
    pub(crate) time: Option<TimeNs>,
    pub(crate) host: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) sourcetype: Option<String>,
    pub(crate) index: Option<String>,
    /// Indexed fields in order; a field with several values occurs once for each.
    pub(crate) fields: Vec<(String, String)>,
}

/// Memory overhead of a string, and of an event.
const TEXT_BYTES: usize = 48;
const EVENT_BYTES: usize = 256;

impl Envelope {
    /// Memory of the envelope and of its copy in a batch.
    pub(crate) fn held_bytes(&self) -> usize {
        let named = [&self.host, &self.source, &self.sourcetype, &self.index];
        let named: usize = named.into_iter().flatten().map(String::len).sum();
        let fields = self.fields.iter().map(|(name, value)| 2 * TEXT_BYTES + name.len() + value.len());
        EVENT_BYTES + self.raw.len() + named + fields.sum::<usize>()
    }
}

/// Passes every event of a body to `take`, which may refuse an event; returns the error of the first bad event.
pub(crate) fn read_body(body: &str, take: &mut dyn FnMut(Envelope, u64) -> Result<(), Answer>) -> Result<u64, Answer> {
    let mut at = 0;
    let too_deep = first_too_deep(body);
    // The parser must not see nesting beyond its recursion limit.
    let body = &body[..too_deep.unwrap_or(body.len())];
    let mut values = Deserializer::from_str(body).into_stream::<LazyValue<'_>>();
    let mut end = 0;
    // At the end of the text, the parser would return an error without a position.
    while !body.get(end..).unwrap_or_default().trim_start().is_empty() {
        let Some(Ok(value)) = values.next() else { return Err(Answer::for_event(Code::InvalidFormat, at)) };
        let raw = value.as_raw_str();
        end = raw.as_ptr().addr().saturating_sub(body.as_ptr().addr()) + raw.len();
        match value.get_type() {
            JsonType::Array => {
                for part in to_array_iter(value.as_raw_str()) {
                    let part = part.map_err(|_| Answer::for_event(Code::InvalidFormat, at))?;
                    take(envelope(&part, at)?, at)?;
                    at += 1;
                }
            }
            _ => {
                take(envelope(&value, at)?, at)?;
                at += 1;
            }
        }
    }
    if too_deep.is_some() { Err(Answer::for_event(Code::TooDeep, at)) } else { Ok(at) }
}

/// Offset of the first top-level value that nests deeper than [`DEPTH_MAX`].
pub(super) fn first_too_deep(body: &str) -> Option<usize> {
    let bytes = body.as_bytes();
    let (mut depth, mut start, mut at) = (0usize, 0, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at),
            b'[' | b'{' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
                if depth > DEPTH_MAX {
                    return Some(start);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Offset of the closing quote of the string that opens at `at`, or the length of the text if there is none.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    while let Some(found) = bytes.get(from..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        if bytes[from + found] == b'"' {
            return from + found;
        }
        from += found + 2;
    }
    bytes.len()
}

fn envelope(value: &LazyValue<'_>, at: u64) -> Result<Envelope, Answer> {
    let bad = |code| Answer::for_event(code, at);
    if value.get_type() != JsonType::Object {
        return Err(bad(Code::InvalidFormat));
    }
    let mut made = Envelope::default();
    let (mut event, mut has_fields) = (None, false);
    for pair in to_object_iter(value.as_raw_str()) {
        let (key, value) = pair.map_err(|_| bad(Code::InvalidFormat))?;
        let word = |value: &LazyValue<'_>| match value.get_type() {
            JsonType::Null => Ok(None),
            JsonType::String => Ok(Some(text(value).map_err(bad)?.to_owned()).filter(|text| !text.is_empty())),
            JsonType::Object | JsonType::Array => Err(bad(Code::InvalidFormat)),
            _ => Ok(Some(value.as_raw_str().to_owned())),
        };
        match key.as_ref() {
            "event" => event = Some(value),
            "time" => made.time = time(&value).map_err(|()| bad(Code::InvalidTime))?,
            "host" => made.host = word(&value)?,
            "source" => made.source = word(&value)?,
            "sourcetype" => made.sourcetype = word(&value)?,
            "index" => made.index = word(&value)?,
            "fields" => {
                made.fields = fields(&value).map_err(bad)?;
                has_fields = !made.fields.is_empty();
                // A metric has no text of its own, so its fields become the text, for readability.
                if has_fields && is_metric(&made.fields) {
                    made.raw = value.as_raw_str().to_owned();
                }
            }
            _ => {}
        }
    }
    match event {
        Some(event) if made.raw.is_empty() || event.as_str() != Some("metric") => {
            made.raw = event_text(&event).map_err(bad)?.ok_or(bad(Code::EventBlank))?;
        }
        None if !has_fields => return Err(bad(Code::EventRequired)),
        None if made.raw.is_empty() => return Err(bad(Code::EventRequired)),
        _ => {}
    }
    let words = [&made.host, &made.source, &made.sourcetype];
    if words.into_iter().flatten().any(|word| word.len() > METADATA_BYTES_MAX) {
        return Err(bad(Code::MetadataTooLong));
    }
    let fields: usize = made.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    if made.raw.len() + fields > EVENT_BYTES_MAX {
        return Err(bad(Code::EventTooLong));
    }
    Ok(made)
}

/// Decodes a JSON string. An invalid string, such as half a surrogate pair, is an error.
fn text<'v>(value: &'v LazyValue<'_>) -> Result<&'v str, Code> {
    value.as_str().ok_or(Code::InvalidFormat)
}

/// Text of an event; `None` if it is empty.
fn event_text(event: &LazyValue<'_>) -> Result<Option<String>, Code> {
    let text = match event.get_type() {
        JsonType::Null => return Ok(None),
        JsonType::String => text(event)?.to_owned(),
        JsonType::Object | JsonType::Array => {
            let raw = event.as_raw_str();
            let inside = raw.get(1..raw.len() - 1).unwrap_or_default();
            if inside.trim().is_empty() {
                return Ok(None);
            }
            raw.to_owned()
        }
        _ => event.as_raw_str().to_owned(),
    };
    Ok((!text.is_empty()).then_some(text))
}

fn is_metric(fields: &[(String, String)]) -> bool {
    fields.iter().any(|(name, _)| name == "metric_name" || name.starts_with("metric_name:"))
}

/// Indexed fields: scalars, or arrays of scalars.
fn fields(value: &LazyValue<'_>) -> Result<Vec<(String, String)>, Code> {
    match value.get_type() {
        JsonType::Null => return Ok(Vec::new()),
        JsonType::Object => {}
        _ => return Err(Code::InvalidFormat),
    }
    let mut fields = Vec::new();
    for pair in to_object_iter(value.as_raw_str()) {
        let (name, value) = pair.map_err(|_| Code::InvalidFormat)?;
        if name.is_empty() || name.len() > FIELD_NAME_BYTES_MAX {
            return Err(Code::InvalidFieldName);
        }
        let mut add = |value: &LazyValue<'_>| match value.get_type() {
            _ if fields.len() >= FIELDS_MAX => Err(Code::TooManyFields),
            JsonType::Null => Ok(()),
            JsonType::Object | JsonType::Array => Err(Code::InvalidFields),
            JsonType::String => {
                fields.push((name.to_string(), text(value)?.to_owned()));
                Ok(())
            }
            _ => {
                fields.push((name.to_string(), value.as_raw_str().to_owned()));
                Ok(())
            }
        };
        if value.get_type() == JsonType::Array {
            for part in to_array_iter(value.as_raw_str()) {
                add(&part.map_err(|_| Code::InvalidFormat)?)?;
            }
        } else {
            add(&value)?;
        }
    }
    Ok(fields)
}

/// Time from the seconds since the epoch, given as a number or a string.
fn time(value: &LazyValue<'_>) -> Result<Option<TimeNs>, ()> {
    let text = match value.get_type() {
        JsonType::Null => return Ok(None),
        JsonType::String => value.as_str().ok_or(())?,
        JsonType::Number => value.as_raw_str(),
        _ => return Err(()),
    };
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    seconds(text).map(Some).ok_or(())
}

/// Parses a decimal number of seconds to nanoseconds.
pub(crate) fn seconds(text: &str) -> Option<TimeNs> {
    if text.contains(['e', 'E']) {
        let value: f64 = text.parse().ok()?;
        let nanos = value * f64_of(NANOS_PER_SEC);
        return (nanos.abs() < f64_of(TimeNs::MAX)).then(|| integer_part(nanos));
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let kept = &fraction[..fraction.len().min(NANO_DIGITS)];
    let nanos: i128 = format!("{kept:0<NANO_DIGITS$}").parse().ok()?;
    let nanos = whole.checked_mul(NANOS_PER_SEC)?.checked_add(nanos)?;
    TimeNs::try_from(if negative { -nanos } else { nanos }).ok()
}

#[cfg(test)]
mod tests {
    use super::super::answer::{EVENT_TOO_LONG, INVALID_FIELD_NAME, METADATA_TOO_LONG, TOO_DEEP, TOO_MANY_FIELDS};
    use super::{
        Answer, Code, DEPTH_MAX, EVENT_BYTES_MAX, Envelope, FIELD_NAME_BYTES_MAX, FIELDS_MAX, METADATA_BYTES_MAX,
        read_body, seconds,
    };

    fn read(body: &str) -> (Vec<Envelope>, Result<u64, Answer>) {
        let mut events = Vec::new();
        let outcome = read_body(body, &mut |event, _| {
            events.push(event);
            Ok(())
        });
        (events, outcome)
    }

    #[test]
    fn bodies_are_concatenated_objects_or_an_array() {
        for body in [
            r#"{"event":"a"}{"event":"b"}{"event":"c"}"#,
            "{\"event\":\"a\"}\n\n {\"event\":\"b\"}\t{\"event\":\"c\"}\n",
            r#"[{"event":"a"}, {"event":"b"},{"event":"c"}]"#,
            r#"[{"event":"a"}][{"event":"b"}]{"event":"c"}"#,
        ] {
            let (events, outcome) = read(body);
            let texts: Vec<&str> = events.iter().map(|event| event.raw.as_str()).collect();
            assert_eq!((texts.join(""), outcome), ("abc".to_owned(), Ok(3)), "{body}");
        }
    }

    #[test]
    fn events_keep_their_original_bytes() {
        for (sent, raw) in [
            (r#""line \"q\" \u00e4\n""#, "line \"q\" ä\n"),
            (r#"{"b": 1,  "a":[1.0, 2e3]}"#, r#"{"b": 1,  "a":[1.0, 2e3]}"#),
            ("42.50", "42.50"),
            ("true", "true"),
            ("[ 1 ]", "[ 1 ]"),
        ] {
            let (events, outcome) = read(&format!(r#"{{"event":{sent},"host":"h"}}"#));
            assert_eq!((events.len(), outcome), (1, Ok(1)), "{sent}");
            assert_eq!((events[0].raw.as_str(), events[0].host.as_deref()), (raw, Some("h")));
        }
    }

    #[test]
    fn the_first_bad_event_is_reported_by_its_number_and_those_before_it_are_stored() {
        for (body, code, number) in [
            (r#"{"event":"a"}{"event":""}{"event":"#, Code::EventBlank, 1),
            (r#"{"event":null}"#, Code::EventBlank, 0),
            (r#"{"event":{}}"#, Code::EventBlank, 0),
            (r#"{"event":[ ]}"#, Code::EventBlank, 0),
            (r#"{"event":"a"}{"host":"b"}"#, Code::EventRequired, 1),
            (r#"{"event":"a"} nonsense"#, Code::InvalidFormat, 1),
            (r#"{"event":"a""#, Code::InvalidFormat, 0),
            (r#""text""#, Code::InvalidFormat, 0),
            (r#"{"event":"a","fields":{"x":{"y":1}}}"#, Code::InvalidFields, 0),
            (r#"{"event":"a","fields":[1]}"#, Code::InvalidFormat, 0),
            (r#"{"event":"a","time":"soon"}"#, Code::InvalidTime, 0),
            (r#"{"event":"a","time":true}"#, Code::InvalidTime, 0),
            // Half a surrogate pair is not a character.
            (r#"{"event":"a"}{"event":"\ud800"}"#, Code::InvalidFormat, 1),
            (r#"{"event":"x \udc00 y"}"#, Code::InvalidFormat, 0),
            (r#"{"event":"\ud800\u0041"}"#, Code::InvalidFormat, 0),
            (r#"{"event":"a","host":"\ud800"}"#, Code::InvalidFormat, 0),
            (r#"{"event":"a","time":"\ud800"}"#, Code::InvalidTime, 0),
            (r#"{"event":"a","fields":{"k":"\ud800"}}"#, Code::InvalidFormat, 0),
            (r#"{"event":"a","fields":{"\ud800":"v"}}"#, Code::InvalidFormat, 0),
            (r#"{"event":"a","\ud800":1}"#, Code::InvalidFormat, 0),
            (r#"{"event":"a","fields":{"k":["v","\ud800"]}}"#, Code::InvalidFormat, 0),
        ] {
            let (events, outcome) = read(body);
            assert_eq!((outcome, events.len() as u64), (Err(Answer::for_event(code, number)), number), "{body}");
        }
    }

    #[test]
    fn multivalue_fields_and_metrics_are_parsed() {
        let (events, _) = read(r#"{"event":"a","fields":{"k":"v","n":1.50,"m":["x",2,null],"z":null}}"#);
        let pairs: Vec<String> = events[0].fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(pairs, ["k=v", "n=1.50", "m=x", "m=2"]);
        let metric = r#"{"metric_name":"cpu","_value":1,"core":"0"}"#;
        for body in [format!(r#"{{"fields":{metric}}}"#), format!(r#"{{"event":"metric","fields":{metric}}}"#)] {
            let (events, outcome) = read(&body);
            assert_eq!((outcome, events[0].raw.as_str(), events[0].fields.len()), (Ok(1), metric, 3), "{body}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_earlier_events_are_stored() {
        let nested = |depth: usize| format!("{{\"event\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
        let objects = |depth: usize| format!("{{\"event\":{}1{}}}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let read = |body: &str| {
            let mut count = 0;
            let outcome = read_body(body, &mut |_, _| {
                count += 1;
                Ok(())
            });
            (count, outcome.err())
        };
        let brackets = format!("{{\"event\":\"\\\"{}\"}}", "[".repeat(2 * DEPTH_MAX));
        // Without optimisation, the parser needs far more stack than a server thread has.
        let good = move || {
            for good in [nested(DEPTH_MAX - 1), objects(DEPTH_MAX - 1), brackets] {
                assert_eq!(read(&good), (1, None), "{}", &good[..30]);
            }
        };
        std::thread::Builder::new().stack_size(256 << 20).spawn(good).unwrap().join().unwrap();
        let refused = |at| Some(Answer::for_event(Code::TooDeep, at));
        for depth in [DEPTH_MAX, 100_000, 3_000_000] {
            for bad in
                [nested(depth), objects(depth), format!("{{\"event\":{}", "[".repeat(depth)), "[".repeat(depth + 1)]
            {
                assert_eq!(read(&bad), (0, refused(0)), "{depth}");
                assert_eq!(read(&format!("{{\"event\":\"a\"}} {bad}")), (1, refused(1)), "{depth}");
            }
        }
    }

    #[test]
    fn number_of_fields_per_event_is_limited() {
        let with = |count: usize| format!(r#"{{"event":"a","fields":{{"a":[{}]}}}}"#, vec!["1"; count].join(","));
        assert_eq!(read(&with(FIELDS_MAX)).1, Ok(1));
        assert_eq!(read(&with(FIELDS_MAX + 1)).1, Err(Answer::for_event(Code::TooManyFields, 0)));
    }

    #[test]
    fn messages_name_the_actual_limits() {
        for (text, limit) in [
            (TOO_MANY_FIELDS, FIELDS_MAX),
            (INVALID_FIELD_NAME, FIELD_NAME_BYTES_MAX),
            (TOO_DEEP, DEPTH_MAX),
            (METADATA_TOO_LONG, METADATA_BYTES_MAX),
            (EVENT_TOO_LONG, EVENT_BYTES_MAX),
        ] {
            assert!(text.contains(&format!(" {limit}")), "{text}: {limit}");
        }
    }

    #[test]
    fn seconds_are_exact_to_the_nanosecond() {
        for (text, nanos) in [
            ("1433188255.500", Some(1_433_188_255_500_000_000)),
            ("1795225298.916342", Some(1_795_225_298_916_342_000)),
            ("1795225298.1234567891", Some(1_795_225_298_123_456_789)),
            ("0", Some(0)),
            ("-1.5", Some(-1_500_000_000)),
            (".5", Some(500_000_000)),
            ("1.433188255e9", Some(1_433_188_255_000_000_000)),
            ("1e400", None),
            ("1e300", None),
            ("-1e30", None),
            ("99999999999999999999", None),
            ("1,5", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), nanos, "{text}");
        }
    }
}
