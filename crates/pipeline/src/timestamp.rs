//! `_time` of an event.
//!
//! Origins of the time, in order of precedence: the event's text, read with `TIME_FORMAT`; the text, read by
//! recognition; the previous time of the source; the file's modification time; now. A time outside `MAX_DAYS_*` is
//! rejected. A time that differs from the previous time by more than `MAX_DIFF_SECS_*` is also rejected, if its format
//! differs from the format of most times of the source.
//!
//! `05/11/2026` is 5 November or 11 May. All dates of a source have one order of day and month. Evidence for the order,
//! by precedence: a date in the event, or in the text read ahead ([`Timestamper::look_ahead`]), that is valid in one
//! order only; a time that is near now or the file's modification time, or within `MAX_DAYS_*`, in one order only;
//! other files and requests of the source ([`DateOrders`]). Without evidence, the month comes first, as in Splunk; in
//! dates with dots, the day comes first.
//!
//! Not here: dates in file names.

use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_conf::PropsSettings;
use quarry_conf::props::{DatetimeConfig, ExtraTimeFields};
use quarry_event::time::{DateTimeParts, Format, NS_PER_SEC, ResolveContext, TimeNs, parse_zone, utc_offset_secs};

use crate::date_orders::{DateOrders, SourceKey};
use crate::error::PipelineError;
use crate::pattern::Pattern;
use crate::pipeline::PipelineContext;
use crate::recognise::{DateOrder, Form, OrderRead, Recogniser, Stamp, ZoneAliases, swap_day_and_month};

const NS_PER_DAY: i64 = 86_400 * NS_PER_SEC;
/// Default of `MAX_TIMESTAMP_LOOKAHEAD`. If the setting is not smaller and `TIME_PREFIX` is unset, a time under a
/// well-known key of a JSON object is found beyond it, too.
const DEFAULT_LOOKAHEAD: usize = 128;
/// Minimum lead, in lines, of the most frequent form over the others. With this lead, a time in that form is searched
/// for if a time in another form is not acceptable.
const MAJORITY_VOTES_MIN: u32 = 3;

/// Maximum bytes that are read ahead at a time to find the order of dates.
pub(crate) const READ_AHEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum number of lines of a source that are read ahead to find the order of dates.
const READ_AHEAD_LINES_MAX: usize = 10_000;
/// Reading ahead in a text stops after more than this many lines if none of them has a date made of numbers.
const READ_AHEAD_OTHERS_MAX: usize = 3;
/// Maximum distance of a time from now, or from the file's modification time, at which it counts as near.
const NEAR_MAX_NS: i64 = 3_600 * NS_PER_SEC;

/// Settings for the times of a source, and the history of its times.
#[derive(Debug)]
pub(crate) struct Timestamper {
    datetime: DatetimeConfig,
    prefix: Option<Pattern>,
    format: Option<Format>,
    lookahead: usize,
    zone: TimeZone,
    now: TimeNs,
    modified: Option<TimeNs>,
    earliest: TimeNs,
    latest: TimeNs,
    back_max: i64,
    ahead_max: i64,
    recogniser: Recogniser,
    aliases: Arc<ZoneAliases>,
    /// Whether fractions of seconds are dropped.
    whole_seconds: bool,
    history: TimeHistory,
    /// Number of lines that may still be read ahead to find the order of dates.
    ahead_left: usize,
    minute: Option<(DateTimeParts, TimeNs)>,
    /// The last minute of log time whose date could be read in both orders, even in view of now and the file's
    /// modification time.
    ambiguous: Option<DateTimeParts>,
    /// Registry through which pipelines of the source share its order of dates.
    shared: Option<(Arc<DateOrders>, SourceKey)>,
    /// The order learned by other pipelines; evidence in the source itself takes precedence.
    order_of_others: Option<DateOrder>,
}

/// State on which later times of a source depend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeHistory {
    /// Last accepted time.
    pub(crate) last: Option<TimeNs>,
    /// Form of most times, by majority vote.
    usual: Option<Form>,
    votes: u32,
    /// Order of the numbers in dates, according to the last date that showed it.
    order: Option<DateOrder>,
}

impl TimeHistory {
    /// The part of the history that still applies to text far from the last timestamp.
    pub(crate) fn for_distant_text(self) -> TimeHistory {
        TimeHistory { order: self.order, ..TimeHistory::default() }
    }

    /// The majority form, if its lead over other forms is at least [`MAJORITY_VOTES_MIN`].
    fn majority_form(&self) -> Option<Form> {
        self.usual.filter(|_| self.votes >= MAJORITY_VOTES_MIN)
    }

    /// Counts a form, even if its time is rejected as a jump: otherwise the first line's form would remain the usual
    /// form forever.
    fn count_form(&mut self, form: Form) {
        if self.usual == Some(form) {
            self.votes = self.votes.saturating_add(1);
        } else if self.votes == 0 {
            (self.usual, self.votes) = (Some(form), 1);
        } else {
            self.votes -= 1;
        }
    }
}

/// Origin of an event's `_time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeReason {
    /// The time of arrival (`DATETIME_CONFIG = CURRENT`).
    Arrival,
    /// The file's modification time, or the time of arrival if there is no file (`DATETIME_CONFIG = NONE`).
    FileTime,
    /// The event's text; with a description of the timestamp's form.
    Text(&'static str),
    /// The previous event, because the text yields no time.
    Previous(NoTimeReason),
    /// The file's modification time, because the text yields no time and there is no previous event.
    Modified(NoTimeReason),
    /// The time of arrival, because nothing else yields a time.
    Now(NoTimeReason),
}

/// The time zone named by a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenZone {
    /// Seconds east of UTC.
    Offset(i32),
    /// Seconds since 1970 in UTC, which need no zone.
    Epoch,
}

/// The time of a text, with its explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExplainedTime {
    pub(crate) time: TimeNs,
    pub(crate) reason: TimeReason,
    /// The zone named in the text, if the time comes from it.
    pub(crate) zone: Option<WrittenZone>,
}

/// Reason why a text yields no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTimeReason {
    /// `TIME_PREFIX` was not found.
    NoPrefix,
    /// There is no timestamp within `MAX_TIMESTAMP_LOOKAHEAD`.
    NoStamp,
    /// The day or hour does not exist.
    NoSuchDay,
    /// The time is older than `MAX_DAYS_AGO`.
    TooOld,
    /// The time is later than `MAX_DAYS_HENCE`.
    TooNew,
    /// The time is in an unusual form and far from that of the previous event (`MAX_DIFF_SECS_*`).
    Jump,
}

impl NoTimeReason {
    /// Description for users.
    pub fn text(self) -> &'static str {
        match self {
            NoTimeReason::NoPrefix => "TIME_PREFIX does not match",
            NoTimeReason::NoStamp => "no timestamp within MAX_TIMESTAMP_LOOKAHEAD",
            NoTimeReason::NoSuchDay => "the timestamp has a day or hour that does not exist",
            NoTimeReason::TooOld => "the timestamp is older than MAX_DAYS_AGO",
            NoTimeReason::TooNew => "the timestamp is later than MAX_DAYS_HENCE",
            NoTimeReason::Jump => {
                "the timestamp has another format than most others, and its time is far from the previous one \
                 (MAX_DIFF_SECS_AGO, _HENCE)"
            }
        }
    }
}

impl TimeReason {
    /// Description for users.
    pub fn text(self) -> String {
        match self {
            TimeReason::Arrival => "time of arrival, as DATETIME_CONFIG says".to_owned(),
            TimeReason::FileTime => "modification time of the file, as DATETIME_CONFIG says".to_owned(),
            TimeReason::Text(form) => format!("read from the text: {form}"),
            TimeReason::Previous(why) => format!("time of the previous event: {}", why.text()),
            TimeReason::Modified(why) => format!("modification time of the file: {}", why.text()),
            TimeReason::Now(why) => format!("time of arrival: {}", why.text()),
        }
    }

    /// Whether the time does not come from the text, because the text has none.
    pub fn is_fallback(self) -> bool {
        matches!(self, TimeReason::Previous(_) | TimeReason::Modified(_) | TimeReason::Now(_))
    }
}

/// A timestamp in a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundTimestamp {
    pub(crate) parts: DateTimeParts,
    form: Form,
    /// The order in which the numbers of the date were read.
    pub(crate) read: Option<DateOrder>,
    /// The order of dates for which the timestamp is evidence.
    order: Option<DateOrder>,
    /// Whether the date would be another day in the other order, and nothing shows the order.
    pub(crate) is_ambiguous: bool,
    /// Start and end in the text.
    pub(crate) place: (usize, usize),
    /// Whether a line with this timestamp begins an event.
    pub(crate) begins_event: bool,
}

impl FoundTimestamp {
    /// Description of the form, for users.
    fn name(self) -> &'static str {
        let name = match (self.form, self.read) {
            (Form::Triple, Some(DateOrder::DayMonthYear)) => "day, month, year, time",
            (Form::Triple, Some(DateOrder::MonthDayYear)) if self.is_ambiguous => match self.parts.hour {
                Some(_) => "month, day, year, time (the order of day and month is ambiguous)",
                None => "month, day, year (the order of day and month is ambiguous)",
            },
            (Form::Triple, Some(DateOrder::MonthDayYear)) => "month, day, year, time",
            (Form::NoYear, Some(DateOrder::DayMonthYear)) => "day and month without a year, time",
            (form, _) => form.name(),
        };
        // A lone date is described without a time of day.
        let is_lone_date = self.parts.hour.is_none() && self.form != Form::Configured;
        if is_lone_date { name.strip_suffix(", time").unwrap_or(name) } else { name }
    }
}

impl Timestamper {
    pub(crate) fn new(settings: &PropsSettings, context: &PipelineContext) -> Result<Timestamper, PipelineError> {
        let sourcetype = || settings.sourcetype.clone();
        let zone_of = |setting: &'static str, zone: &String| {
            parse_zone(zone).ok_or_else(|| PipelineError::Zone {
                setting,
                sourcetype: sourcetype(),
                zone: zone.clone(),
            })
        };
        let zone = match &settings.tz {
            None => context.zone.clone().unwrap_or_else(|| settings.node_zone.clone()),
            Some(name) => zone_of("TZ", name)?,
        };
        let format = settings.time_format.as_deref().map(Format::new).transpose();
        let format = format.map_err(|reason| PipelineError::TimeFormat { sourcetype: sourcetype(), reason })?;
        let alias = |(name, zone): &(String, String)| {
            Ok((Box::from(name.as_bytes()), utc_offset_secs(context.now, &zone_of("TZ_ALIAS", zone)?)))
        };
        let aliases: Arc<ZoneAliases> =
            settings.zone_aliases.iter().map(alias).collect::<Result<Vec<_>, PipelineError>>()?.into();
        let days = |days: i64| days.saturating_mul(NS_PER_DAY);
        Ok(Timestamper {
            datetime: settings.datetime,
            prefix: PipelineError::pattern(settings, "TIME_PREFIX", settings.time_prefix.as_deref())?,
            format,
            lookahead: settings.max_timestamp_lookahead,
            zone,
            now: context.now,
            modified: context.modified,
            earliest: context.now.saturating_sub(days(settings.max_days_ago)),
            latest: context.now.saturating_add(days(settings.max_days_hence)),
            back_max: settings.max_diff_secs_ago.saturating_mul(NS_PER_SEC),
            ahead_max: settings.max_diff_secs_hence.saturating_mul(NS_PER_SEC),
            recogniser: Recogniser::new(context.now, Arc::clone(&aliases)),
            aliases,
            whole_seconds: settings.extra_time_fields == ExtraTimeFields::None,
            history: TimeHistory::default(),
            ahead_left: READ_AHEAD_LINES_MAX,
            minute: None,
            ambiguous: None,
            shared: None,
            order_of_others: None,
        })
    }

    /// Uses the order of dates that other pipelines of the source have learned, and shares the order that this pipeline
    /// learns.
    pub(crate) fn share_order(&mut self, orders: Arc<DateOrders>, source: &str) {
        let key = orders.key(source);
        self.order_of_others = orders.get(key);
        self.recogniser.set_preferred_order(self.known_order());
        self.shared = Some((orders, key));
    }

    fn known_order(&self) -> Option<DateOrder> {
        self.history.order.or(self.order_of_others)
    }

    /// Sets the current time and the file's modification time.
    pub(crate) fn set_now(&mut self, now: TimeNs, modified: Option<TimeNs>) {
        let later = now.saturating_sub(self.now);
        self.earliest = self.earliest.saturating_add(later);
        self.latest = self.latest.saturating_add(later);
        self.recogniser = Recogniser::new(now, Arc::clone(&self.aliases));
        self.recogniser.set_preferred_order(self.known_order());
        (self.now, self.modified) = (now, modified);
        self.ambiguous = None;
        // The same text without a year may by now mean a later year.
        self.minute = self.minute.filter(|(minute, _)| minute.has_full_date());
    }

    /// Whether times come from the text.
    pub(crate) fn reads_text(&self) -> bool {
        self.datetime == DatetimeConfig::Auto
    }

    /// State on which later times depend.
    pub(crate) fn history(&self) -> TimeHistory {
        self.history
    }

    /// Continues where another pipeline of the same source stopped.
    pub(crate) fn set_history(&mut self, history: TimeHistory) {
        self.history = history;
        self.recogniser.set_preferred_order(self.known_order());
    }

    /// Whether text read ahead could show the order of dates.
    pub(crate) fn needs_order(&self) -> bool {
        let is_settled = self.history.order.is_some() || self.format.is_some() || !self.reads_text();
        !is_settled && self.ahead_left > 0 && self.history.usual.is_none_or(may_be_ambiguous)
    }

    /// Reads ahead for a date that shows the order of its numbers, for example by a day above 12, so that ambiguous
    /// dates before it are read in the same order.
    pub(crate) fn look_ahead(&mut self, text: &[u8]) {
        if !self.needs_order() {
            return;
        }
        let text = &text[..text.len().min(READ_AHEAD_BYTES_MAX)];
        // The first line may be the rest of a line that was read before.
        let begun = usize::from(self.history.usual.is_some());
        let (mut dates, mut others) = (0, 0);
        for line in text.split(|byte| *byte == b'\n').skip(begun) {
            let found = self.find(line);
            let has_date = found.is_some_and(|found| may_be_ambiguous(found.form));
            self.note_order(found);
            dates += usize::from(has_date);
            others += usize::from(!has_date);
            self.ahead_left = self.ahead_left.saturating_sub(1);
            if self.history.order.is_some() || self.ahead_left == 0 || dates == 0 && others > READ_AHEAD_OTHERS_MAX {
                return;
            }
        }
    }

    /// Records the order of dates for which a timestamp is evidence, or that its date is ambiguous.
    fn note_order(&mut self, found: Option<FoundTimestamp>) {
        let Some(found) = found.filter(|found| may_be_ambiguous(found.form)) else { return };
        if found.order.is_none() {
            self.ambiguous = Some(minute_of(&found.parts));
        } else if found.order != self.history.order {
            self.history.order = found.order;
            self.recogniser.set_preferred_order(found.order);
            if let (Some((orders, source)), Some(order)) = (&self.shared, found.order) {
                orders.record(*source, order);
            }
        }
    }

    /// The timestamp in `text`, if there is one.
    pub(crate) fn find(&self, text: &[u8]) -> Option<FoundTimestamp> {
        if !self.reads_text() {
            return None;
        }
        let start = match &self.prefix {
            None => 0,
            Some(prefix) => prefix.find_end(text)?,
        };
        let rest = &text[start..];
        let window = if self.lookahead == 0 { rest } else { &rest[..rest.len().min(self.lookahead)] };
        if let Some(format) = &self.format
            && let Some((mut parts, end)) = format.parse_prefix(window)
        {
            self.apply_alias(&mut parts, window);
            return Some(FoundTimestamp {
                parts,
                form: Form::Configured,
                read: None,
                order: None,
                is_ambiguous: false,
                place: (start, start + end),
                begins_event: true,
            });
        }
        let stamp = self.recognise(text, window)?;
        let (parts, read, order) = self.apply_known_order(&stamp);
        let is_unsure = order.is_none() && self.known_order().is_none();
        let exchanged = read.filter(|_| is_unsure).and_then(|read| swap_day_and_month(&parts, read));
        Some(FoundTimestamp {
            parts,
            form: stamp.form,
            read,
            order,
            is_ambiguous: exchanged.is_some_and(|(other, _)| other != parts),
            place: (start + stamp.start, start + stamp.end),
            begins_event: stamp.begins_event(),
        })
    }

    /// The timestamp recognised in a text for which no format is set, or in which the format fails.
    fn recognise(&self, text: &[u8], window: &[u8]) -> Option<Stamp> {
        let is_free = self.prefix.is_none() && self.lookahead >= DEFAULT_LOOKAHEAD;
        let named = if is_free { self.recogniser.find_in_json(text) } else { None };
        // A key of the object itself is preferred at any position; a nested key is used only if nothing else is found.
        if let Some((named, true)) = named {
            return Some(named);
        }
        let stamp = self.recogniser.find(window).or(named.map(|(named, _)| named))?;
        // A jump in time suggests that another time in the line was mistaken for the time of the event.
        match self.history.majority_form() {
            Some(usual) if usual != stamp.form && usual != Form::Configured => {
                let context = ResolveContext { now: self.now, tz: &self.zone, last: self.history.last };
                let is_fine = stamp.parts.resolve(&context).is_some_and(|time| self.is_plausible(time, stamp.form));
                let other = if is_fine { None } else { self.recogniser.find_form(window, usual, stamp.end) };
                Some(other.unwrap_or(stamp))
            }
            _ => Some(stamp),
        }
    }

    /// The parts of a timestamp, the order in which its date is read, and the order for which it is evidence. If the
    /// source has shown no order yet, an ambiguous date is read in the order in which the time is near now or the
    /// file's modification time, or within `MAX_DAYS_*`.
    fn apply_known_order(&self, stamp: &Stamp) -> (DateTimeParts, Option<DateOrder>, Option<DateOrder>) {
        let parts = stamp.parts;
        let Some(OrderRead { order, is_only }) = stamp.order else { return (parts, None, None) };
        if is_only {
            return (parts, Some(order), Some(order));
        }
        if self.history.order.is_some() || self.ambiguous == Some(minute_of(&parts)) {
            return (parts, Some(order), None);
        }
        if let Some((other, other_order)) = swap_day_and_month(&parts, order) {
            let context = ResolveContext { now: self.now, tz: &self.zone, last: None };
            let (read, exchanged) = (parts.resolve(&context), other.resolve(&context));
            let is_about = |time: TimeNs| {
                let known = [Some(self.now), self.modified];
                known.into_iter().flatten().any(|known| time.abs_diff(known) <= NEAR_MAX_NS.unsigned_abs())
            };
            let is_possible = |time: TimeNs| (self.earliest..=self.latest).contains(&time);
            let shows = |one: Option<TimeNs>, than: Option<TimeNs>| {
                let test = |is: &dyn Fn(TimeNs) -> bool| one.is_some_and(is) && !than.is_some_and(is);
                test(&is_about) || test(&is_possible) && !than.is_some_and(is_about)
            };
            if shows(exchanged, read) {
                return (other, Some(other_order), Some(other_order));
            }
            if shows(read, exchanged) {
                return (parts, Some(order), Some(order));
            }
        }
        (parts, Some(order), None)
    }

    /// Applies `TZ_ALIAS` to a named zone.
    fn apply_alias(&self, parts: &mut DateTimeParts, text: &[u8]) {
        let Some((start, end)) = parts.zone_name else { return };
        let Some(name) = text.get(start as usize..end as usize) else { return };
        if let Some((_, seconds)) = self.aliases.iter().find(|(alias, _)| **alias == *name) {
            parts.offset = Some(*seconds);
        }
    }

    /// `_time` of an event whose text has the timestamp `found`, with false if the time is a substitute because the
    /// text yields none.
    pub(crate) fn time(&mut self, found: Option<FoundTimestamp>) -> (TimeNs, bool) {
        match self.datetime {
            DatetimeConfig::Current => return (self.now, true),
            DatetimeConfig::None => return (self.modified.unwrap_or(self.now), true),
            DatetimeConfig::Auto => {}
        }
        if let Some(found) = found
            && let Some(time) = self.resolve(&found.parts)
            && self.accept_time(time, found.form)
        {
            let time = if self.whole_seconds { time - time.rem_euclid(NS_PER_SEC) } else { time };
            self.history.last = Some(time);
            self.note_order(Some(found));
            return (time, true);
        }
        (self.history.last.or(self.modified).unwrap_or(self.now), false)
    }

    /// `_time` of an event whose first line, or whole text, is `text`, with an explanation.
    pub(crate) fn explain(&mut self, text: &[u8]) -> ExplainedTime {
        let found = self.find(text);
        let refused = self.no_time_reason(text, found);
        let (last, modified) = (self.history.last, self.modified);
        let (time, _) = self.time(found);
        let reason = match (self.datetime, refused) {
            (DatetimeConfig::Current, _) => TimeReason::Arrival,
            (DatetimeConfig::None, _) => TimeReason::FileTime,
            (DatetimeConfig::Auto, None) => TimeReason::Text(found.map_or("", FoundTimestamp::name)),
            (DatetimeConfig::Auto, Some(why)) if last.is_some() => TimeReason::Previous(why),
            (DatetimeConfig::Auto, Some(why)) if modified.is_some() => TimeReason::Modified(why),
            (DatetimeConfig::Auto, Some(why)) => TimeReason::Now(why),
        };
        let zone = found.filter(|_| matches!(reason, TimeReason::Text(_))).and_then(|found| match found.parts.epoch {
            Some(_) => Some(WrittenZone::Epoch),
            None => found.parts.offset.map(WrittenZone::Offset),
        });
        ExplainedTime { time, reason, zone }
    }

    /// Reason why the text yields no time; `None` if it yields one.
    fn no_time_reason(&mut self, text: &[u8], found: Option<FoundTimestamp>) -> Option<NoTimeReason> {
        let Some(found) = found else {
            let has_prefix = self.prefix.as_ref().is_none_or(|prefix| prefix.find_end(text).is_some());
            return Some(if has_prefix { NoTimeReason::NoStamp } else { NoTimeReason::NoPrefix });
        };
        let Some(time) = self.resolve(&found.parts) else { return Some(NoTimeReason::NoSuchDay) };
        match () {
            () if time < self.earliest => Some(NoTimeReason::TooOld),
            () if time > self.latest => Some(NoTimeReason::TooNew),
            () if !self.is_plausible(time, found.form) => Some(NoTimeReason::Jump),
            () => None,
        }
    }

    /// Whether a time is accepted; also counts its form.
    fn accept_time(&mut self, time: TimeNs, form: Form) -> bool {
        if time < self.earliest || time > self.latest {
            return false;
        }
        self.history.count_form(form);
        self.is_plausible(time, form)
    }

    fn is_plausible(&self, time: TimeNs, form: Form) -> bool {
        if time < self.earliest || time > self.latest {
            return false;
        }
        match self.history {
            TimeHistory { last: Some(last), usual: Some(usual), .. } if usual != form => {
                last.saturating_sub(time) <= self.back_max && time.saturating_sub(last) <= self.ahead_max
            }
            _ => true,
        }
    }

    /// Converts to an instant; the zone and calendar are evaluated once per minute of log time, not for every event.
    fn resolve(&mut self, parts: &DateTimeParts) -> Option<TimeNs> {
        let context = ResolveContext { now: self.now, tz: &self.zone, last: self.history.last };
        if parts.epoch.is_some() || !parts.has_full_date() && parts.month.is_none() {
            return parts.resolve(&context);
        }
        let minute = minute_of(parts);
        let start = match self.minute {
            Some((known, start)) if known == minute => start,
            _ => {
                let start = minute.resolve(&context)?;
                self.minute = Some((minute, start));
                start
            }
        };
        start.checked_add(i64::from(parts.second.unwrap_or(0)) * NS_PER_SEC + i64::from(parts.nanos))
    }
}

/// Whether the date in a timestamp of this form may consist of numbers whose order is not evident.
fn may_be_ambiguous(form: Form) -> bool {
    matches!(form, Form::Triple | Form::NoYear | Form::ClockFirst)
}

/// A timestamp without its seconds.
fn minute_of(parts: &DateTimeParts) -> DateTimeParts {
    DateTimeParts { second: None, nanos: 0, zone_name: None, ..*parts }
}

#[cfg(test)]
mod tests;
