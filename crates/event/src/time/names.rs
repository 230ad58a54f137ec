//! English names of months and weekdays, and time zone abbreviations.

/// Months, January first. The first three letters are the short name.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Weekdays, Sunday first. The first three letters are the short name.
pub(crate) const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// Number of letters of a short name.
pub(crate) const SHORT_NAME_LEN: usize = 3;

/// Abbreviation and minutes east of UTC; for an ambiguous abbreviation, the zone most common in logs.
const ZONES: &[(&str, i32)] = &[
    ("UTC", 0),
    ("GMT", 0),
    ("Z", 0),
    ("UT", 0),
    ("UCT", 0),
    ("WET", 0),
    ("EST", -300),
    ("EDT", -240),
    ("CST", -360),
    ("CDT", -300),
    ("MST", -420),
    ("MDT", -360),
    ("PST", -480),
    ("PDT", -420),
    ("AKST", -540),
    ("AKDT", -480),
    ("HST", -600),
    ("AST", -240),
    ("ADT", -180),
    ("NST", -210),
    ("NDT", -150),
    ("BRT", -180),
    ("ART", -180),
    ("CLT", -240),
    ("BST", 60),
    ("WEST", 60),
    ("CET", 60),
    ("MET", 60),
    ("WAT", 60),
    ("CEST", 120),
    ("MEST", 120),
    ("EET", 120),
    ("SAST", 120),
    ("CAT", 120),
    ("IDT", 180),
    ("EEST", 180),
    ("MSK", 180),
    ("EAT", 180),
    ("GST", 240),
    ("PKT", 300),
    ("IST", 330),
    ("NPT", 345),
    ("WIB", 420),
    ("ICT", 420),
    ("SGT", 480),
    ("HKT", 480),
    ("AWST", 480),
    ("PHT", 480),
    ("JST", 540),
    ("KST", 540),
    ("ACST", 570),
    ("ACDT", 630),
    ("AEST", 600),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
];

/// Offset of a time zone abbreviation in seconds east of UTC; case-insensitive.
pub(crate) fn zone_offset(name: &[u8]) -> Option<i32> {
    let zone = ZONES.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
    zone.map(|(_, minutes)| minutes * 60)
}
