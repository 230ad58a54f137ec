//! Clock and calendar fields of an instant, for displaying them separately.

use quarry_stdx::number::low_u8;

use super::TimeNs;
use super::civil::{Civil, date_from_days, weekday};
use super::names::{MONTHS, WEEKDAYS};

/// Clock and calendar fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockFields {
    /// Year in the Gregorian calendar.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 for Sunday.
    pub weekday: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl ClockFields {
    /// The fields of an instant on a clock `offset` seconds east of UTC.
    pub fn at(time: TimeNs, offset: i64) -> ClockFields {
        let local = Civil::with_offset(time, offset);
        let (year, month, day) = date_from_days(local.days);
        let second = local.second_of_day;
        ClockFields {
            year,
            month: low_u8(month),
            day: low_u8(day),
            weekday: low_u8(weekday(local.days)),
            hour: low_u8(second / 3600),
            minute: low_u8(second / 60 % 60),
            second: low_u8(second % 60),
        }
    }

    /// English name of the month.
    pub fn month_name(&self) -> &'static str {
        MONTHS.get(usize::from(self.month).wrapping_sub(1)).copied().unwrap_or_default()
    }

    /// English name of the day of the week.
    pub fn weekday_name(&self) -> &'static str {
        WEEKDAYS.get(usize::from(self.weekday)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::ClockFields;
    use crate::time::NS_PER_SEC;

    #[test]
    fn local_date_east_of_utc_may_be_the_next_day() {
        let midnight = 1_795_132_800 * NS_PER_SEC;
        let utc = ClockFields::at(midnight, 0);
        assert_eq!((utc.year, utc.month_name(), utc.day, utc.weekday_name()), (2026, "November", 20, "Friday"));
        let west = ClockFields::at(midnight, -1800);
        assert_eq!((west.day, west.weekday_name(), west.hour, west.minute, west.second), (19, "Thursday", 23, 30, 0));
    }
}
