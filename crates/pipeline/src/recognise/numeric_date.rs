//! Timestamps that begin with a number.

use quarry_event::time::DateTimeParts;

use super::names::month_name;
use super::{
    DateOrder, Form, OrderRead, Rank, Recogniser, Stamp, blanks, day_of_month, digits, full_year, has_right_boundary,
    number, short_year,
};

/// A date from year, month and day.
fn date(year: i16, month: u32, day: u32) -> Option<DateTimeParts> {
    let (month, day) = day_of_month(month, day)?;
    Some(DateTimeParts { year: Some(year), month: Some(month), day: Some(day), ..DateTimeParts::default() })
}

impl Recogniser {
    /// Reads `2015-10-18 18:01:47,978`, `2016/9/27:20:30:31.455`, `2026 Nov 20 13:42:07`.
    pub(super) fn year_first(&self, text: &[u8], at: usize) -> Option<Stamp> {
        let (year, end) = number(text, at, 4, 4)?;
        let year = full_year(year)?;
        let separator = *text.get(end).filter(|byte| matches!(byte, b'-' | b'/' | b'.' | b' '))?;
        let (month, end) = match month_name(text, end + 1) {
            Some(month) => month,
            None if separator == b' ' => return None,
            None => number(text, end + 1, 1, 2)?,
        };
        if text.get(end) != Some(&separator) {
            return None;
        }
        let (day, end) = number(text, end + 1, 1, 2)?;
        let mut parts = date(year, month, day)?;
        if let Some(end) = self.clock_after_date(text, end, &mut parts) {
            return Some(Stamp::new(parts, Form::YearFirst, Rank::Full, end));
        }
        has_right_boundary(text, end).then(|| Stamp::new(parts, Form::YearFirst, Rank::Date, end))
    }

    /// Reads `20171223-22:15:29:606`, `20171223T221529Z`, `20171223221529`.
    pub(super) fn compact(&self, text: &[u8], at: usize, run: usize) -> Option<Stamp> {
        let (year, end) = number(text, at, 4, 4)?;
        let (month, end) = number(text, end, 2, 2)?;
        let (day, end) = number(text, end, 2, 2)?;
        let mut parts = date(full_year(year)?, month, day)?;
        let end = if run == 14 {
            self.compact_clock(text, end, &mut parts)
        } else {
            let clock = self.clock_after_date(text, end, &mut parts);
            clock.or_else(|| match text.get(end) {
                Some(b' ' | b'-' | b'_') => self.compact_clock(text, end + 1, &mut parts),
                _ => None,
            })
        };
        Some(Stamp::new(parts, Form::Compact, Rank::Full, end?))
    }

    /// Reads `081109 203615`, `081109 20:36:15`.
    pub(super) fn compact_short_year(&self, text: &[u8], at: usize) -> Option<Stamp> {
        let (year, end) = number(text, at, 2, 2)?;
        let (month, end) = number(text, end, 2, 2)?;
        let (day, end) = number(text, end, 2, 2)?;
        let mut parts = date(short_year(year), month, day)?;
        let gap = blanks(text, end);
        if !(1..=2).contains(&gap) {
            return None;
        }
        let compact = self.compact_clock(text, end + gap, &mut parts);
        let end = compact.or_else(|| self.clock(text, end + gap, &mut parts).filter(|_| parts.second.is_some()))?;
        Some(Stamp::new(parts, Form::CompactShortYear, Rank::Full, end))
    }

    /// Reads dates and times that begin with one or two digits.
    pub(super) fn short_number(&self, text: &[u8], at: usize, run: usize) -> Option<Stamp> {
        let (first, end) = number(text, at, run, run)?;
        match *text.get(end)? {
            b':' => self.clock_first(text, at),
            separator @ (b'/' | b'-' | b'.' | b' ') => {
                if text.get(end + 1).is_some_and(u8::is_ascii_alphabetic) {
                    return self.day_and_name(text, first, end, separator);
                }
                if separator == b' ' { None } else { self.numbers(text, first, end, separator) }
            }
            _ => None,
        }
    }

    /// Reads `10/Oct/2000:13:55:36 -0700`, `10 Oct 2000 13:55:36`, `10-Oct-00 13:55:36`, `10 Oct 13:55:36`.
    fn day_and_name(&self, text: &[u8], day: u32, end: usize, separator: u8) -> Option<Stamp> {
        let (month, end) = month_name(text, end + 1)?;
        let (month, day) = day_of_month(month, day)?;
        let mut parts = DateTimeParts { month: Some(month), day: Some(day), ..DateTimeParts::default() };
        let comma = usize::from(separator == b' ' && text.get(end) == Some(&b','));
        if text.get(end + comma) != Some(&separator) {
            return None;
        }
        let start = end + comma + 1;
        let run = digits(text, start);
        let end = match (run, number(text, start, 2, 4)?) {
            (4, (year, end)) => {
                parts.year = Some(full_year(year)?);
                end
            }
            // Two digits after a blank are more likely to be the hour than the year.
            (2, (year, end)) if separator != b' ' => {
                parts.year = Some(short_year(year));
                end
            }
            (2, _) => {
                let end = self.clock(text, start, &mut parts)?;
                let end = self.year_after(text, end, &mut parts);
                return Some(Stamp::new(parts, Form::DayMonthName, Rank::Full, end));
            }
            _ => return None,
        };
        if let Some(end) = self.clock_after_date(text, end, &mut parts) {
            return Some(Stamp::new(parts, Form::DayMonthName, Rank::Full, end));
        }
        let is_date = run == 4 && has_right_boundary(text, end);
        is_date.then(|| Stamp::new(parts, Form::DayMonthName, Rank::Date, end))
    }

    /// Reads two or three numbers: `11/20/2026 01:42:07 PM`, `17/06/09 20:10:40`, `03-17 16:13:38.811`, `10.30
    /// 16:49:06`.
    fn numbers(&self, text: &[u8], first: u32, end: usize, separator: u8) -> Option<Stamp> {
        let (second, end) = number(text, end + 1, 1, 2)?;
        if text.get(end) != Some(&separator) {
            return self.without_year(text, first, second, end);
        }
        let run = digits(text, end + 1);
        if run != 4 && run != 2 {
            return None;
        }
        let (third, end) = number(text, end + 1, run, run)?;
        let (mut parts, order) = if run == 4 {
            let year = full_year(third)?;
            let day_first = (DateOrder::DayMonthYear, date(year, second, first));
            let month_first = (DateOrder::MonthDayYear, date(year, first, second));
            // With dots, the day comes first; otherwise the month (American order). The other order is used if only
            // it is valid, or if the source's dates have it.
            let orders = if separator == b'.' { [day_first, month_first] } else { [month_first, day_first] };
            self.in_order(&orders)?
        } else {
            self.short_triple(first, second, third, separator)?
        };
        if let Some(end) = self.clock_after_date(text, end, &mut parts) {
            return Some(Stamp { order: Some(order), ..Stamp::new(parts, Form::Triple, Rank::Full, end) });
        }
        let is_date = run == 4 && has_right_boundary(text, end);
        is_date.then(|| Stamp { order: Some(order), ..Stamp::new(parts, Form::Triple, Rank::Date, end) })
    }

    /// A date of three two-digit numbers.
    fn short_triple(&self, first: u32, second: u32, third: u32, separator: u8) -> Option<(DateTimeParts, OrderRead)> {
        let is_past = |parts: &DateTimeParts| parts.year.is_some_and(|year| year <= self.year_now_max);
        let year_first = (DateOrder::YearMonthDay, date(short_year(first), second, third).filter(is_past));
        let month_first = (DateOrder::MonthDayYear, date(short_year(third), first, second));
        let day_first = (DateOrder::DayMonthYear, date(short_year(third), second, first));
        match separator {
            b'.' => self.in_order(&[day_first, year_first]),
            _ if first > 12 => self.in_order(&[year_first, day_first]),
            _ => self.in_order(&[month_first, year_first, day_first]),
        }
    }

    /// The date in the preferred order if that is valid, otherwise in the first valid order; and the order used.
    fn in_order(&self, orders: &[(DateOrder, Option<DateTimeParts>)]) -> Option<(DateTimeParts, OrderRead)> {
        let mut valid = orders.iter().filter_map(|(order, parts)| Some((*order, (*parts)?)));
        let (mut order, mut chosen) = valid.next()?;
        let mut is_only = true;
        let is_preferred = |order| Some(order) == self.order;
        for (other, parts) in valid {
            is_only = false;
            if is_preferred(other) && !is_preferred(order) {
                (order, chosen) = (other, parts);
            }
        }
        Some((chosen, OrderRead { order, is_only }))
    }

    fn without_year(&self, text: &[u8], first: u32, second: u32, end: usize) -> Option<Stamp> {
        let date = |month, day| {
            let (month, day) = day_of_month(month, day)?;
            Some(DateTimeParts { month: Some(month), day: Some(day), ..DateTimeParts::default() })
        };
        let month_first = (DateOrder::MonthDayYear, date(first, second));
        let (mut parts, order) = self.in_order(&[month_first, (DateOrder::DayMonthYear, date(second, first))])?;
        if text.get(end) != Some(&b' ') {
            return None;
        }
        let end = self.clock_after_date(text, end, &mut parts)?;
        parts.second?;
        Some(Stamp { order: Some(order), ..Stamp::new(parts, Form::NoYear, Rank::Full, end) })
    }

    /// Reads `10:41:22 Oct 9 2005`, `10:41:22 09/10/2005`, `10:41:22`.
    fn clock_first(&self, text: &[u8], at: usize) -> Option<Stamp> {
        let mut parts = DateTimeParts::default();
        let end = self.clock(text, at, &mut parts)?;
        parts.second?;
        let gap = blanks(text, end);
        if gap > 0
            && let Some(Stamp { parts: date, end, order, .. }) = self.date_after(text, end + gap)
        {
            let DateTimeParts { year, month, day, .. } = date;
            let parts = DateTimeParts { year, month, day, ..parts };
            return Some(Stamp { order, ..Stamp::new(parts, Form::ClockFirst, Rank::Full, end) });
        }
        has_right_boundary(text, end).then(|| Stamp::new(parts, Form::ClockFirst, Rank::Clock, end))
    }

    /// Reads a date after its time.
    fn date_after(&self, text: &[u8], at: usize) -> Option<Stamp> {
        if let Some((month, end)) = month_name(text, at) {
            let (day, end) = number(text, end + Some(blanks(text, end)).filter(|gap| *gap > 0)?, 1, 2)?;
            let (month, day) = day_of_month(month, day)?;
            let mut parts = DateTimeParts { month: Some(month), day: Some(day), ..DateTimeParts::default() };
            let comma = usize::from(text.get(end) == Some(&b','));
            let year_end = self.year_after(text, end + comma, &mut parts);
            let is_date = has_right_boundary(text, year_end);
            return is_date.then(|| Stamp::new(parts, Form::MonthName, Rank::Date, year_end));
        }
        let stamp = match digits(text, at) {
            4 => self.year_first(text, at)?,
            run @ 1..=2 if text.get(at + run) != Some(&b':') => self.short_number(text, at, run)?,
            _ => return None,
        };
        (stamp.rank == Rank::Date).then_some(stamp)
    }
}
