//! Preview: the events that the pipeline would make of a file, the reasons for their times, and the settings in
//! effect.
//!
//! The events come from the pipeline itself. The reasons come from a second pass over their texts with the same
//! settings and in the same order, so that timestamps depend on earlier ones in the same way.
//!
//! Not here: reading the file, display.

use quarry_conf::{PropsResolver, PropsSettings};
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
    /// Remark about dates that can be read in two ways, if there are any.
    pub about_dates: Option<&'static str>,
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
        about_dates: counters.date_remark(),
    })
}

impl Preview {
    /// A props.conf stanza with the main settings for events and times that this preview used.
    pub fn props_conf(&self) -> String {
        let settings = &self.settings;
        let mut text = format!("[{}]\n", self.sourcetype);
        let mut line = |name: &str, value: &str| text.push_str(&format!("{name} = {value}\n"));
        match &settings.json_records {
            Some(name) => line("JSON_RECORDS", name),
            None => line("LINE_BREAKER", &settings.line_breaker),
        }
        line("SHOULD_LINEMERGE", if settings.should_line_merge { "true" } else { "false" });
        if settings.should_line_merge {
            if let Some(pattern) = &settings.break_only_before {
                line("BREAK_ONLY_BEFORE", pattern);
            }
            line("BREAK_ONLY_BEFORE_DATE", if settings.break_only_before_date { "true" } else { "false" });
        }
        for (name, value) in
            [("TIME_PREFIX", &settings.time_prefix), ("TIME_FORMAT", &settings.time_format), ("TZ", &settings.tz)]
        {
            if let Some(value) = value {
                line(name, value);
            }
        }
        line("MAX_TIMESTAMP_LOOKAHEAD", &settings.max_timestamp_lookahead.to_string());
        line("TRUNCATE", &settings.truncate.to_string());
        text
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
        let file = "props.conf".to_owned();
        let source = ConfSource { layer: Layer::SystemLocal, app: None, file, text: props.to_owned() };
        let info = SourceInfo {
            index: "main".into(),
            host: "h".into(),
            host_is_fixed: false,
            source: "/var/log/app.log".into(),
            sourcetype: sourcetype.map(str::to_owned),
        };
        let context = PipelineContext { now: NOW, zone: Some(TimeZone::UTC), modified: None, orders: None };
        let text = PreviewText { head: text.as_bytes().to_vec(), is_whole: true, samples: Vec::new() };
        preview(&info, &PropsResolver::new(&Layers::new([source])), &context, &text, 100).unwrap()
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
    fn a_guess_is_explained() {
        let preview = of("", None, "Nov 20 10:00:00 web1 sshd[3]: a\nNov 20 10:00:01 web1 sshd[3]: b\n");
        assert_eq!(preview.guess.as_ref().map(|guess| guess.sourcetype.as_str()), Some(preview.sourcetype.as_str()));
        assert!(preview.guess.is_some_and(|guess| !guess.reason.is_empty()));
        assert_eq!(preview.events.len(), 2);
    }

    #[test]
    fn times_set_by_rules_have_no_reason() {
        let props = "[lines]\nSHOULD_LINEMERGE = false\nTRANSFORMS-t = t\n";
        let preview = of(props, Some("lines"), "2026-11-20 10:00:00 one\n");
        assert_eq!(preview.events[0].reason, Some(TimeReason::Text("year, month, day, time")));
    }
}
