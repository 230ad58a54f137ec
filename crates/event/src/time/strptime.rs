//! strptime: parses times in text with a precompiled format.
//!
//! [`Format::parse_prefix`] reads the fields of a format, which may lack parts of a time; [`DateTimeParts::resolve`]
//! fills in year, date and time zone from a [`ResolveContext`]. The pipeline calls both for every event, so the usual
//! sequences (`%Y-%m-%d`, `%H:%M:%S`) are fused into single steps that read fixed positions.
//!
//! Leading zeros are optional, names are case-insensitive, and a blank in the format matches any run of blanks. Not
//! here: recognition without a format (pipeline).

mod parts;
mod read;

use jiff::tz::TimeZone;

pub(crate) use read::read_offset;

pub use parts::{DateTimeParts, ResolveContext, YEARLESS_FUTURE_NS_MAX, infer_year};

use crate::TimeError;

use super::strftime::{MICROSECOND_DIGITS, MILLISECOND_DIGITS, NANOSECOND_DIGITS, composite_format, directive_len};
use super::{NS_PER_SEC, TimeNs};

/// A compiled time format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    items: Vec<Item>,
}

/// One step of a compiled format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Byte(u8),
    /// Any run of blanks, including none.
    Blanks,
    /// `%Y-%m-%d`, or with another separator.
    YearMonthDay(u8),
    /// `%H:%M:%S`.
    Clock,
    /// `%b` or `%B`.
    MonthName,
    /// `%a` or `%A`.
    WeekdayName,
    /// `%p`.
    Half,
    /// `%z` and variants.
    Offset,
    /// `%Z`.
    ZoneName,
    /// `%Ez`.
    OffsetMinutes,
    /// `%s`.
    Epoch,
    /// `%N`, `%Q`, `%f`, with at most this many digits.
    Subsecond(u8),
    /// A number of at most `digits` digits.
    Number {
        field: Field,
        digits: u8,
    },
}

/// Meaning of a number in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Year,
    YearOfCentury,
    Month,
    Day,
    DayOfYear,
    Hour,
    Hour12,
    Minute,
    Second,
    IsoYear,
    IsoWeek,
    IsoWeekday,
    Weekday,
    /// Read but ignored, because other fields determine the date.
    WeekOfYear,
}

impl Format {
    /// Compiles a format.
    pub fn new(format: &str) -> Result<Format, TimeError> {
        let mut items = Vec::new();
        compile(format, format, &mut items)?;
        if items.iter().all(|item| matches!(item, Item::Byte(_) | Item::Blanks)) {
            return Err(TimeError::NoDirective { format: format.to_owned() });
        }
        Ok(Format { items: fuse_items(items) })
    }

    /// Parses the start of `text`; returns the parts found and the number of bytes read. The rest of the text is
    /// ignored.
    #[inline]
    pub fn parse_prefix(&self, text: &[u8]) -> Option<(DateTimeParts, usize)> {
        let mut parts = DateTimeParts::default();
        let mut at = 0;
        for item in &self.items {
            at = item.read(text, at, &mut parts)?;
        }
        Some((parts, at))
    }

    /// Parses the start of `text` and fills in missing parts.
    pub fn parse(&self, text: &[u8], context: &ResolveContext<'_>) -> Option<TimeNs> {
        self.parse_prefix(text)?.0.resolve(context)
    }

    /// Whether the format names a zone, an offset or an epoch.
    pub fn has_zone(&self) -> bool {
        let is_zone = |item: &Item| matches!(item, Item::Offset | Item::ZoneName | Item::OffsetMinutes | Item::Epoch);
        self.items.iter().any(is_zone)
    }
}

/// Parses the start of `text` by `format`; `None` if the text does not match, if its date is incomplete, or if the
/// format is invalid.
pub fn strptime(text: &str, format: &str, tz: &TimeZone) -> Option<TimeNs> {
    let (parts, _) = Format::new(format).ok()?.parse_prefix(text.as_bytes())?;
    if parts.has_full_date() { parts.resolve(&ResolveContext { now: 0, tz, last: None }) } else { None }
}

fn compile(format: &str, whole: &str, items: &mut Vec<Item>) -> Result<(), TimeError> {
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        if first != '%' {
            if !first.is_whitespace() {
                items.extend(first.encode_utf8(&mut [0; 4]).bytes().map(Item::Byte));
            } else if items.last() != Some(&Item::Blanks) {
                items.push(Item::Blanks);
            }
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (directive, after) = rest.split_at(directive_len(rest));
        rest = after;
        let name = &directive[1..];
        let letter = name.chars().next().unwrap_or('%');
        if let (Some(composite), 1) = (composite_format(letter), name.len()) {
            compile(composite, whole, items)?;
            continue;
        }
        let item = parse_directive(name)
            .ok_or_else(|| TimeError::Directive { directive: directive.to_owned(), format: whole.to_owned() })?;
        items.push(item);
    }
    Ok(())
}

fn parse_directive(name: &str) -> Option<Item> {
    let number = |field, digits| Some(Item::Number { field, digits });
    match name {
        "Y" => number(Field::Year, 4),
        "y" => number(Field::YearOfCentury, 2),
        "m" => number(Field::Month, 2),
        "d" | "e" => number(Field::Day, 2),
        "j" => number(Field::DayOfYear, 3),
        "H" | "k" => number(Field::Hour, 2),
        "I" | "l" => number(Field::Hour12, 2),
        "M" => number(Field::Minute, 2),
        "S" => number(Field::Second, 2),
        "G" => number(Field::IsoYear, 4),
        "V" => number(Field::IsoWeek, 2),
        "u" => number(Field::IsoWeekday, 1),
        "w" => number(Field::Weekday, 1),
        "U" | "W" | "C" | "g" => number(Field::WeekOfYear, 2),
        "b" | "B" | "h" => Some(Item::MonthName),
        "a" | "A" => Some(Item::WeekdayName),
        "p" | "P" => Some(Item::Half),
        "z" | ":z" | "::z" | ":::z" => Some(Item::Offset),
        "Z" | ":Z" => Some(Item::ZoneName),
        "Ez" => Some(Item::OffsetMinutes),
        "s" => Some(Item::Epoch),
        "f" => Some(Item::Subsecond(MICROSECOND_DIGITS)),
        "N" => Some(Item::Subsecond(NANOSECOND_DIGITS)),
        "Q" => Some(Item::Subsecond(MILLISECOND_DIGITS)),
        "n" | "t" => Some(Item::Blanks),
        "%" => Some(Item::Byte(b'%')),
        _ => match name.as_bytes() {
            [digit @ b'1'..=b'9', b'N' | b'Q'] => Some(Item::Subsecond(digit - b'0')),
            _ => None,
        },
    }
}

/// Fuses the usual sequences of steps into single steps.
fn fuse_items(items: Vec<Item>) -> Vec<Item> {
    let field = |item: Option<&Item>| match item {
        Some(Item::Number { field, .. }) => Some(*field),
        _ => None,
    };
    let mut fused = Vec::with_capacity(items.len());
    let mut at = 0;
    while at < items.len() {
        let fields = [field(items.get(at)), field(items.get(at + 2)), field(items.get(at + 4))];
        let separators = (items.get(at + 1), items.get(at + 3));
        let item = match (fields, separators) {
            ([Some(Field::Year), Some(Field::Month), Some(Field::Day)], (Some(Item::Byte(a)), Some(Item::Byte(b))))
                if a == b =>
            {
                Item::YearMonthDay(*a)
            }
            (
                [Some(Field::Hour), Some(Field::Minute), Some(Field::Second)],
                (Some(Item::Byte(b':')), Some(Item::Byte(b':'))),
            ) => Item::Clock,
            _ => {
                fused.push(items[at].clone());
                at += 1;
                continue;
            }
        };
        fused.push(item);
        at += 5;
    }
    fused
}

/// Largest epoch in seconds that fits into [`TimeNs`] with any fraction.
const EPOCH_SECS_MAX: i64 = i64::MAX / NS_PER_SEC - 1;

#[cfg(test)]
mod tests;
