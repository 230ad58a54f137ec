//! Preview: the events that the pipeline would make of a file, the reasons for their times, and the settings in
//! effect.
//!
//! The events come from the pipeline itself. The reasons come from a second pass over their texts with the same
//! settings and in the same order, so that timestamps depend on earlier ones in the same way.
//!
//! Not here: reading the file, display.

use quarry_conf::props::{ExtraTimeFields, HeaderMode};
use quarry_conf::{DatetimeConfig, HeaderSettings, PropsResolver, PropsSettings};
use quarry_event::{EventBatch, Metadata, TimeNs};

use crate::error::PipelineError;
use crate::guess::Guess;
use crate::pipeline::{Pipeline, PipelineContext, SourceInfo};
use crate::timestamp::{ExplainedTime, READ_AHEAD_BYTES_MAX, TimeReason, Timestamper, WrittenZone};

/// Preview of the start of a file.
#[derive(Clone, Debug)]
pub struct Preview {
    /// Sourcetype of the events.
    pub sourcetype: String,
    /// Guess of the sourcetype, if none was set.
    pub guess: Option<Guess>,
    /// The fault in the settings of the guessed sourcetype; if present, the data was read as plain lines.
    pub problem: Option<PipelineError>,
    /// The settings in effect.
    pub settings: PropsSettings,
    /// The first events.
    pub events: Vec<PreviewEvent>,
    /// Number of events in all bytes of the preview.
    pub events_seen: u64,
    /// Number of events whose text yielded no acceptable timestamp.
    pub bad_timestamps: u64,
    /// Remarks about ambiguous dates and truncated lines, if there are any.
    pub remark: Option<String>,
}

/// An event with the reason for its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewEvent {
    /// Text of the event.
    pub raw: Vec<u8>,
    /// Number of lines of the text.
    pub lines: usize,
    /// `_time`.
    pub time: TimeNs,
    /// Origin of the time; `None` if index-time rules (`INGEST_EVAL` etc.) set it.
    pub reason: Option<TimeReason>,
    /// The zone named in the text, if the time comes from it; otherwise the source's zone applies.
    pub zone: Option<WrittenZone>,
    /// Index, host, source and sourcetype.
    pub metadata: Metadata,
}

/// The part of a source from which a preview is made.
#[derive(Clone, Debug, Default)]
pub struct PreviewText {
    /// First bytes of the source.
    pub head: Vec<u8>,
    /// Whether `head` is the whole source.
    pub is_whole: bool,
    /// Whole lines from later in the source (see [`Pipeline::set_samples`]).
    pub samples: Vec<u8>,
}

/// Previews a source. Returns at most `events_max` events, but counts all of them.
pub fn preview(
    info: &SourceInfo,
    props: &PropsResolver,
    context: &PipelineContext,
    text: &PreviewText,
    events_max: usize,
) -> Result<Preview, PipelineError> {
    let mut pipeline = Pipeline::new(info.clone(), props, context.clone())?;
    let mut batch = EventBatch::default();
    pipeline.set_samples(text.samples.clone());
    pipeline.push(&text.head, &mut batch);
    if text.is_whole {
        pipeline.finish(&mut batch);
    } else {
        // The last line may be incomplete.
        pipeline.pause(&mut batch);
    }
    let sourcetype = pipeline.sourcetype().unwrap_or_default().to_owned();
    let settings = props.resolve(&info.source, &info.host, &sourcetype);
    let mut times = Timestamper::new(&settings, context)?;
    times.look_ahead(&text.head);
    text.samples.chunks(READ_AHEAD_BYTES_MAX).for_each(|part| times.look_ahead(part));
    let events = (0..batch.len().min(events_max)).map(|row| {
        let (raw, time) = (batch.raw(row), batch.time[row]);
        let ExplainedTime { time: explained, reason, zone } = times.explain(raw);
        PreviewEvent {
            raw: raw.to_vec(),
            lines: raw.split(|byte| *byte == b'\n').count(),
            time,
            reason: (explained == time).then_some(reason),
            zone: zone.filter(|_| explained == time),
            metadata: batch.metas[batch.meta[row] as usize].clone(),
        }
    });
    let counters = pipeline.counters();
    Ok(Preview {
        events: events.collect(),
        guess: pipeline.guess().cloned(),
        problem: pipeline.settings_error().cloned(),
        sourcetype,
        settings,
        events_seen: counters.events,
        bad_timestamps: counters.bad_timestamps,
        remark: counters.remark(),
    })
}

impl Preview {
    /// A props.conf stanza with the settings for characters, lines, columns, events and times that this preview used.
    /// Settings without a value are omitted.
    ///
    /// Not here: `TRANSFORMS-` and the like, which refer to other stanzas, and search-time settings.
    pub fn props_conf(&self) -> String {
        let mut stanza = Stanza(format!("[{}]\n", self.sourcetype));
        stanza.add_lines(&self.settings);
        if let Some(header) = &self.settings.header {
            stanza.add_columns(header);
        } else if self.settings.indexed_json {
            stanza.add("INDEXED_EXTRACTIONS", "json");
            stanza.add_if_set("TIMESTAMP_FIELDS", Some(&self.settings.json_time_paths.join(",")));
        }
        stanza.add_times(&self.settings);
        stanza.0
    }
}

/// Text of a props.conf stanza.
struct Stanza(String);

impl Stanza {
    fn add(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("{name} = {value}\n"));
    }

    fn add_truth(&mut self, name: &str, is_set: bool) {
        self.add(name, if is_set { "true" } else { "false" });
    }

    /// Adds a setting that has a value.
    fn add_if_set(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.add(name, value);
        }
    }

    /// Settings of characters, lines and events.
    fn add_lines(&mut self, settings: &PropsSettings) {
        self.add_if_set("CHARSET", Some(&settings.charset));
        if settings.reads_binary {
            self.add_truth("NO_BINARY_CHECK", true);
        }
        match settings.header_mode {
            HeaderMode::Never => {}
            HeaderMode::FirstLine => self.add("HEADER_MODE", "firstline"),
            HeaderMode::Always => self.add("HEADER_MODE", "always"),
        }
        match &settings.json_records {
            Some(name) => self.add("JSON_RECORDS", name),
            None => self.add("LINE_BREAKER", &settings.line_breaker),
        }
        self.add_truth("SHOULD_LINEMERGE", settings.should_line_merge);
        if settings.should_line_merge {
            self.add_if_set("BREAK_ONLY_BEFORE", settings.break_only_before.as_deref());
            self.add_truth("BREAK_ONLY_BEFORE_DATE", settings.break_only_before_date);
            self.add_if_set("MUST_BREAK_AFTER", settings.must_break_after.as_deref());
            self.add_if_set("MUST_NOT_BREAK_AFTER", settings.must_not_break_after.as_deref());
            self.add_if_set("MUST_NOT_BREAK_BEFORE", settings.must_not_break_before.as_deref());
            self.add("MAX_EVENTS", &settings.max_events.to_string());
        }
        self.add("TRUNCATE", &settings.truncate.to_string());
    }

    /// Settings of delimited text.
    fn add_columns(&mut self, header: &HeaderSettings) {
        // The other formats differ from csv only in settings that are written below.
        self.add("INDEXED_EXTRACTIONS", if header.repeats { "w3c" } else { "csv" });
        let delimiter = |letter: char| match letter {
            ' ' if header.merges_delimiters => "whitespace".to_owned(),
            ' ' => "space".to_owned(),
            '\t' => "tab".to_owned(),
            other if other.is_control() => format!("\\x{:02x}", u32::from(other)),
            other => other.to_string(),
        };
        self.add("FIELD_DELIMITER", &delimiter(header.delimiter));
        self.add("HEADER_FIELD_DELIMITER", &delimiter(header.header_delimiter));
        let quote = |quote: Option<char>| quote.map_or_else(|| "none".to_owned(), String::from);
        self.add("FIELD_QUOTE", &quote(header.quote));
        self.add("HEADER_FIELD_QUOTE", &quote(header.header_quote));
        if header.line_number > 0 {
            self.add("HEADER_FIELD_LINE_NUMBER", &header.line_number.to_string());
        }
        self.add_if_set("PREAMBLE_REGEX", header.preamble.as_deref());
        self.add_if_set("FIELD_NAMES", Some(&header.names.join(",")));
        self.add_if_set("FIELD_HEADER_REGEX", header.header_pattern.as_deref());
        self.add_if_set("TIMESTAMP_FIELDS", Some(&header.timestamp_fields.join(",")));
        self.add_if_set("MISSING_VALUE_REGEX", header.missing.as_deref());
        self.add_if_set("HEADER_FIELD_ACCEPTABLE_SPECIAL_CHARACTERS", Some(&header.kept_letters));
    }

    /// Settings of timestamps.
    fn add_times(&mut self, settings: &PropsSettings) {
        match settings.datetime {
            DatetimeConfig::Auto => {}
            DatetimeConfig::Current => self.add("DATETIME_CONFIG", "CURRENT"),
            DatetimeConfig::None => self.add("DATETIME_CONFIG", "NONE"),
        }
        self.add_if_set("TIME_PREFIX", settings.time_prefix.as_deref());
        self.add_if_set("TIME_FORMAT", settings.time_format.as_deref());
        self.add_if_set("TZ", settings.tz.as_deref());
        let aliases: Vec<String> = settings.zone_aliases.iter().map(|(name, zone)| format!("{name}={zone}")).collect();
        self.add_if_set("TZ_ALIAS", Some(&aliases.join(",")));
        // 0 is unlimited.
        let lookahead = Some(settings.max_timestamp_lookahead).filter(|bytes| *bytes < usize::MAX).unwrap_or(0);
        self.add("MAX_TIMESTAMP_LOOKAHEAD", &lookahead.to_string());
        self.add("MAX_DAYS_AGO", &settings.max_days_ago.to_string());
        self.add("MAX_DAYS_HENCE", &settings.max_days_hence.to_string());
        self.add("MAX_DIFF_SECS_AGO", &settings.max_diff_secs_ago.to_string());
        self.add("MAX_DIFF_SECS_HENCE", &settings.max_diff_secs_hence.to_string());
        match settings.extra_time_fields {
            ExtraTimeFields::All => {}
            ExtraTimeFields::SubSeconds => self.add("ADD_EXTRA_TIME_FIELDS", "subseconds"),
            ExtraTimeFields::None => self.add("ADD_EXTRA_TIME_FIELDS", "none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use quarry_conf::{ConfSource, Layer, Layers};

    use super::*;
    use crate::timestamp::NoTimeReason;

    const NOW: TimeNs = 1_795_244_400_000_000_000;

    fn of(props: &str, sourcetype: Option<&str>, text: &str) -> Preview {
        of_files(&[("props.conf", props)], sourcetype, text)
    }

    fn of_files(files: &[(&str, &str)], sourcetype: Option<&str>, text: &str) -> Preview {
        let source = |(file, text): &(&str, &str)| ConfSource {
            layer: Layer::SystemLocal,
            app: None,
            file: (*file).to_owned(),
            text: (*text).to_owned(),
        };
        let info = SourceInfo {
            index: "main".into(),
            host: "h".into(),
            host_is_fixed: false,
            source: "/var/log/app.log".into(),
            sourcetype: sourcetype.map(str::to_owned),
        };
        let context = PipelineContext { now: NOW, zone: Some(TimeZone::UTC), modified: None, orders: None };
        let text = PreviewText { head: text.as_bytes().to_vec(), is_whole: true, samples: Vec::new() };
        preview(&info, &PropsResolver::new(&Layers::new(files.iter().map(source))), &context, &text, 100).unwrap()
    }

    fn reasons(preview: &Preview) -> Vec<TimeReason> {
        preview.events.iter().map(|event| event.reason.unwrap()).collect()
    }

    #[test]
    fn every_event_states_the_origin_of_its_time() {
        let text = "no time yet\n2026-11-20 10:00:00 one\nno time\n1975-01-01 00:00:00 old\n";
        let preview = of("[lines]\nSHOULD_LINEMERGE = false\nMAX_DAYS_AGO = 100\n", Some("lines"), text);
        let full = TimeReason::Text("year, month, day, time");
        let reasons = reasons(&preview);
        assert_eq!(
            reasons[..4],
            [
                TimeReason::Now(NoTimeReason::NoStamp),
                full,
                TimeReason::Previous(NoTimeReason::NoStamp),
                TimeReason::Previous(NoTimeReason::TooOld)
            ]
        );
        assert_eq!((preview.events_seen, preview.bad_timestamps), (4, 3));
        assert!(reasons[3].text().contains("MAX_DAYS_AGO") && reasons[3].is_fallback() && !full.is_fallback());
    }

    #[test]
    fn the_order_of_later_dates_needs_no_other_reason() {
        let preview =
            of("", Some("x"), "05/11/2025 10:00:00 one\n06/11/2025 10:00:00 two\n28/11/2025 10:00:00 three\n");
        assert_eq!(reasons(&preview).iter().filter(|reason| matches!(reason, TimeReason::Text(_))).count(), 3);
        assert_eq!(preview.events[1].time - preview.events[0].time, 86_400_000_000_000);
    }

    #[test]
    fn preview_names_settings_and_counts_lines() {
        let props = "[fmt]\nTIME_PREFIX = at=\nTIME_FORMAT = %d/%m/%Y %H:%M\nBREAK_ONLY_BEFORE = ^#\n[now]\nDATETIME_CONFIG = CURRENT\n";
        let preview = of(props, Some("fmt"), "# at=20/11/2026 10:00 x\n more\n# none\n");
        assert_eq!(
            reasons(&preview),
            [TimeReason::Text("by TIME_FORMAT"), TimeReason::Previous(NoTimeReason::NoPrefix)]
        );
        assert_eq!(preview.events.iter().map(|event| event.lines).collect::<Vec<_>>(), [2, 1]);
        for line in ["[fmt]", "TIME_PREFIX = at=", "TIME_FORMAT = %d/%m/%Y %H:%M", "BREAK_ONLY_BEFORE = ^#"] {
            assert!(preview.props_conf().lines().any(|found| found == line), "{}", preview.props_conf());
        }
        assert_eq!(reasons(&of(props, Some("now"), "a\n")), [TimeReason::Arrival]);
    }

    #[test]
    fn the_stanza_reproduces_the_settings() {
        let own = [
            "",
            "CHARSET = ISO-8859-1\nNO_BINARY_CHECK = true\nTRUNCATE = 0\nMAX_TIMESTAMP_LOOKAHEAD = 0\nTZ = Asia/Tokyo\n",
            "SHOULD_LINEMERGE = true\nMAX_EVENTS = 9\nMUST_BREAK_AFTER = ;$\nMUST_NOT_BREAK_AFTER = ,$\n\
             MUST_NOT_BREAK_BEFORE = ^ \nBREAK_ONLY_BEFORE = ^#\nBREAK_ONLY_BEFORE_DATE = false\n",
            "DATETIME_CONFIG = NONE\nMAX_DAYS_AGO = 7\nMAX_DAYS_HENCE = 8\nMAX_DIFF_SECS_AGO = 9\nMAX_DIFF_SECS_HENCE = 10\n\
             TZ_ALIAS = EST=GMT+10:00,XYZ=UTC\nADD_EXTRA_TIME_FIELDS = subseconds\nHEADER_MODE = always\n",
            "SHOULD_LINEMERGE = false\nTIME_PREFIX = at=\nTIME_FORMAT = %s\nJSON_RECORDS = items\nADD_EXTRA_TIME_FIELDS = none\n",
            "INDEXED_EXTRACTIONS = json\n",
            "INDEXED_EXTRACTIONS = tsv\nFIELD_NAMES = a,b\nTIMESTAMP_FIELDS = a\nMISSING_VALUE_REGEX = ^-$\nFIELD_QUOTE = none\n",
            "INDEXED_EXTRACTIONS = w3c\nHEADER_FIELD_ACCEPTABLE_SPECIAL_CHARACTERS = -\n",
            "INDEXED_EXTRACTIONS = csv\nFIELD_DELIMITER = whitespace\nHEADER_FIELD_LINE_NUMBER = 2\nPREAMBLE_REGEX = ^#\n",
            "INDEXED_EXTRACTIONS = csv\nFIELD_DELIMITER = ;\nHEADER_FIELD_DELIMITER = tab\nFIELD_QUOTE = '\n",
        ];
        for own in own {
            let made = of(&format!("[own]\n{own}"), Some("own"), "");
            let again = of(&made.props_conf(), Some("own"), "").settings;
            // Search-time settings are not in the stanza.
            let expected = PropsSettings { kv_mode: again.kv_mode, ..made.settings.clone() };
            assert_eq!(format!("{again:?}"), format!("{expected:?}"), "{}", made.props_conf());
        }
    }

    #[test]
    fn a_guess_is_explained() {
        let preview = of("", None, "Nov 20 10:00:00 web1 sshd[3]: a\nNov 20 10:00:01 web1 sshd[3]: b\n");
        assert_eq!(preview.guess.as_ref().map(|guess| guess.sourcetype.as_str()), Some(preview.sourcetype.as_str()));
        assert!(preview.guess.is_some_and(|guess| !guess.reason.is_empty()));
        assert_eq!(preview.events.len(), 2);
    }

    #[test]
    fn times_set_by_rules_have_no_reason() {
        let props = "[lines]\nSHOULD_LINEMERGE = false\nTRANSFORMS-t = t\n";
        let transforms = "[t]\nREGEX = at=(\\d+)\nDEST_KEY = _time\nFORMAT = $1\n";
        let text = "2026-11-20 10:00:00 one\n2026-11-20T10:00:00Z at=1795100000 two\n";
        let preview = of_files(&[("props.conf", props), ("transforms.conf", transforms)], Some("lines"), text);
        assert_eq!(preview.events[0].reason, Some(TimeReason::Text("year, month, day, time")));
        assert_eq!(preview.events[1].time, 1_795_100_000_000_000_000);
        assert_eq!((preview.events[1].reason, preview.events[1].zone), (None, None));
    }
}
