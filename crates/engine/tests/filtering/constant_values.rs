//! Fields whose values, or parts of them, are the same for each number of a column of numbers: the same in each state
//! of the storage.

use super::check_matches;

const PROPS: &str = r"
[clock]
KV_MODE = none
EXTRACT-seconds = (?<seconds>\d+\.\d+)
EXTRACT-fraction = \.(?<fraction>\d+)
[steps]
KV_MODE = none
EXTRACT-step = k=(?<step>\d+ t=\d)
";

#[test]
fn a_number_that_is_the_same_in_all_events_is_found() {
    let events: Vec<_> = (0..3).map(|_| ("clock", "2026-11-01T10:00:00.123Z".to_owned())).collect();
    let expected = [
        ("seconds=00.123", 3),
        ("seconds=*.123", 3),
        ("seconds=00.123*", 3),
        ("seconds=00.12", 0),
        ("fraction=123", 3),
        ("fraction=23", 0),
    ];
    check_matches(PROPS, &events, &expected);
}

#[test]
fn a_number_that_is_the_beginning_of_a_value_is_found() {
    let event = |row: u32| ("steps", format!("k={} t=7.2{}z n={row}", 17 + row % 3, row % 2));
    let expected = [
        ("step=\"17 t=7\"", 100),
        ("step=\"19 t=7\"", 100),
        ("step=\"*8 t=7\"", 100),
        ("step=\"17 t=2\"", 0),
        ("step=*", 300),
    ];
    check_matches(PROPS, &(0..300).map(event).collect::<Vec<_>>(), &expected);
}
