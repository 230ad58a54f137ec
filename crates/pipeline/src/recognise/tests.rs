use jiff::tz::TimeZone;
use quarry_event::time::strftime;

use super::*;

/// 2026-11-21T07:00:00Z.
const NOW: TimeNs = 1_795_244_400 * NS_PER_SEC;

fn found(text: &str) -> Option<Stamp> {
    Recogniser::new(NOW, [].into()).find(text.as_bytes())
}

/// The recognised instant in UTC, for a source whose last event was at [`NOW`].
fn read(text: &str) -> String {
    let Some(stamp) = found(text) else { return "none".to_owned() };
    let context = ResolveContext { now: NOW, tz: &TimeZone::UTC, last: Some(NOW) };
    match stamp.parts.resolve(&context) {
        Some(time) => strftime(time, "%Y-%m-%dT%H:%M:%S.%N", &TimeZone::UTC).trim_end_matches('0').to_owned(),
        None => "impossible".to_owned(),
    }
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (text, time) in cases {
        let time = if time.contains('.') || !time.contains('T') { (*time).to_owned() } else { format!("{time}.") };
        assert_eq!(read(text), time, "{text}");
    }
}

#[test]
fn times_with_the_year_first_are_recognised() {
    check(&[
        ("2015-10-18 18:01:47,978 INFO [main] x", "2015-10-18T18:01:47.978"),
        ("2026-11-20T13:42:07.123456789Z x", "2026-11-20T13:42:07.123456789"),
        ("2026-11-20T13:42:07.5+02:00 x", "2026-11-20T11:42:07.5"),
        ("2026-11-20T13:42:07-0730 x", "2026-11-20T21:12:07"),
        ("2026-11-20T134207Z x", "2026-11-20T13:42:07"),
        ("2026-11-20 13:42:07 +0100 x", "2026-11-20T12:42:07"),
        ("2026-11-20 13:42:07.25 CEST x", "2026-11-20T11:42:07.25"),
        ("2026-11-20 13:42:07 INFO x", "2026-11-20T13:42:07"),
        ("2026-11-20 13:42:07 -123 x", "2026-11-20T13:42:07"),
        ("2026-11-20 13:42 x", "2026-11-20T13:42:00"),
        ("2016-09-28 04:30:30, Info  CBS", "2016-09-28T04:30:30"),
        ("a@2016/9/27:20:30:31.455 x", "2016-09-27T20:30:31.455"),
        ("[2017.05.16-13.53.08:123][ 0]x", "2017-05-16T13:53:08.123"),
        ("{\"time\":\"2026-11-20T13:42:07.000Z\"}", "2026-11-20T13:42:07"),
        ("--2017-05-16 10:00:00--  http", "2017-05-16T10:00:00"),
        ("2026 Nov 20 13:42:07.5 x", "2026-11-20T13:42:07.5"),
        ("2016-09-28;x", "2016-09-28T00:00:00"),
        ("2016-12-31 23:59:60 x", "2017-01-01T00:00:00"),
    ]);
}

#[test]
fn compact_times_are_recognised() {
    check(&[
        ("20171223-22:15:29:606|Step_LSC|30002312|x", "2017-12-23T22:15:29.606"),
        ("20171224-0:4:30:12|x", "2017-12-24T00:04:30.012"),
        ("20171223T221529Z x", "2017-12-23T22:15:29"),
        ("20171223221529 x", "2017-12-23T22:15:29"),
        ("20171223221529.250 x", "2017-12-23T22:15:29.25"),
        ("081109 203615 148 INFO dfs x", "2008-11-09T20:36:15"),
        ("081109  9:36:15 x", "2008-11-09T09:36:15"),
    ]);
}

#[test]
fn times_with_named_months_are_recognised() {
    check(&[
        ("10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET", "2000-10-10T20:55:36"),
        ("[Sun Dec 04 04:47:44 2005] [notice]", "2005-12-04T04:47:44"),
        ("[Sun Dec  4 04:47:44.250 2005] [x]", "2005-12-04T04:47:44.25"),
        ("Sun Dec  4 04:47:44 UTC 2005 x", "2005-12-04T04:47:44"),
        ("Sun, 04 Dec 2005 04:47:44 GMT", "2005-12-04T04:47:44"),
        ("Sunday, 04-Dec-05 04:47:44 GMT", "2005-12-04T04:47:44"),
        ("Jun 14 15:16:01 combo sshd[1]: x", "2026-06-14T15:16:01"),
        ("Jun  9 06:06:20 combo syslogd", "2026-06-09T06:06:20"),
        ("Dec 10 06:55:46 LabSZ sshd", "2025-12-10T06:55:46"),
        ("Nov 23 06:55:46 ahead", "2026-11-23T06:55:46"),
        ("Nov 20 2026 13:42:07: %ASA-6-302013: x", "2026-11-20T13:42:07"),
        ("Nov 20 13:42:07 2025 host x", "2025-11-20T13:42:07"),
        ("<34>Oct 11 22:14:15 mymachine su: x", "2026-10-11T22:14:15"),
        ("*Mar  1 00:00:01.123: %SYS", "2026-03-01T00:00:01.123"),
        ("Nov 20, 2026 1:42:07 PM org.x", "2026-11-20T13:42:07"),
        ("20 Nov 2026 13:42:07,5 x", "2026-11-20T13:42:07"),
        ("20-Nov-2026 13:42:07.500 x", "2026-11-20T13:42:07.5"),
        ("November 20, 2026 13:42 x", "2026-11-20T13:42:00"),
        ("20 Nov 13:42:07.500 * Ready", "2026-11-20T13:42:07.5"),
    ]);
}

#[test]
fn numbers_in_other_orders() {
    check(&[
        ("17/06/09 20:10:40 INFO executor", "2017-06-09T20:10:40"),
        ("11/20/2026 01:42:07 PM", "2026-11-20T13:42:07"),
        ("11/20/2026 12:42:07.250 am x", "2026-11-20T00:42:07.25"),
        ("20/11/2026 13:42:07 x", "2026-11-20T13:42:07"),
        ("20.11.2026 13:42:07 x", "2026-11-20T13:42:07"),
        ("03-17 16:13:38.811  1702  2395 D", "2026-03-17T16:13:38.811"),
        ("[10.30 16:49:06] chrome.exe - x", "2026-10-30T16:49:06"),
        ("10:41:22 Oct 9 2005 x", "2005-10-09T10:41:22"),
        ("10:41:22 Oct 9 x", "2026-10-09T10:41:22"),
        ("10:41:22.125 x", "2026-11-21T10:41:22.125"),
    ]);
}

#[test]
fn epochs_are_recognised() {
    check(&[
        ("- 1131566461 2005.11.09 dn228 Nov 9 12:01:01 x", "2005-11-09T20:01:01"),
        ("- 1117838570 2005.06.03 R02-M1 2005-06-03-15.42.50.675872 R02-M1 RAS", "2005-06-03T22:42:50.675872"),
        ("- 1117838570 2005.06.03 R02 2005-06-03-15.42.51.675872 x", "2005-06-03T22:42:50"),
        ("1795244400.125    12 10.0.0.1 TCP_HIT", "2026-11-21T07:00:00.125"),
        ("{\"level\":3,\"ts\":1795244400125,\"x\":1}", "2026-11-21T07:00:00.125"),
        ("{\"level\":3,\"timestamp\":1795244400.5}", "2026-11-21T07:00:00.5"),
        ("134681 node-246 unix.hw state 1077804742 1 x", "2004-02-26T14:12:22"),
        ("user 4912345678 called", "none"),
        ("APPREAD 1117869872 2005.06.04 R23-M0 2005-06-04-00.24.32.432192 x", "2005-06-04T07:24:32.432192"),
        ("APPREAD 1117869872 2005.06.04 R23-M0-NE-C:J05-U01 x", "2005-06-04T07:24:32"),
        ("KERN 1117869872 Sat Jun 4 00:24:32 2005 x", "2005-06-04T07:24:32"),
        // A number that contradicts the time is not a timestamp.
        ("order 1117869872 2026-11-20 13:42:07 x", "2026-11-20T13:42:07"),
        ("type=CWD msg=audit(1795244400.125:42): cwd=\"/\"", "2026-11-21T07:00:00.125"),
        ("order 1795160000 2026-11-20 13:42:07 UTC x", "2026-11-20T13:42:07"),
        ("events=1131566461 x", "none"),
    ]);
}

#[test]
fn offsets_after_a_zone_name_are_read() {
    check(&[
        ("2026-11-20 13:42:07 GMT+2 x", "2026-11-20T11:42:07"),
        ("2026-11-20 13:42:07 UTC-3 x", "2026-11-20T16:42:07"),
        ("2026-11-20 13:42:07 UT+5:30 x", "2026-11-20T08:12:07"),
        ("2026-11-20 13:42:07 GMT+02:00 x", "2026-11-20T11:42:07"),
        ("Fri Nov 20 2026 13:42:07 GMT+0100 (Central European Standard Time) x", "2026-11-20T12:42:07"),
        // These are not valid offsets: only the name before them counts, or nothing.
        ("2026-11-20 13:42:07 GMT+130 x", "2026-11-20T13:42:07"),
        ("2026-11-20 13:42:07 -5 items", "2026-11-20T13:42:07"),
    ]);
}

#[test]
fn small_letters_of_a_standard_time() {
    check(&[
        ("2026-11-20t13:42:07z x", "2026-11-20T13:42:07"),
        ("2026-11-20T13:42:07.25z", "2026-11-20T13:42:07.25"),
        ("20261120T134207z x", "2026-11-20T13:42:07"),
        ("2026-11-20T13:42:07zone x", "none"),
    ]);
}

#[test]
fn columns_after_a_time_are_not_a_fraction() {
    check(&[
        ("Nov 20 15:37:06,192.168.1.10 x", "2026-11-20T15:37:06"),
        ("2026/11/20 15:37:06,192168110,TRAFFIC", "2026-11-20T15:37:06"),
        ("2026/11/20 15:37:06,001122334455,TRAFFIC,end,1", "2026-11-20T15:37:06"),
        ("2026/11/20 15:37:06,0011C102000,TRAFFIC,end,1", "2026-11-20T15:37:06"),
        ("2026/11/20 15:37:06,001C102000,TRAFFIC,end,1", "2026-11-20T15:37:06"),
        ("2026-11-20 15:37:06.192.168 x", "2026-11-20T15:37:06"),
        ("2026-11-20 15:37:06:192.168.1.10 x", "2026-11-20T15:37:06"),
        ("2026-11-20 12:00:00,1,2", "2026-11-20T12:00:00"),
        ("2026-11-20 12:00:00,200,17,GET", "2026-11-20T12:00:00"),
        ("2026-11-20 12:00:00,4711 x", "2026-11-20T12:00:00"),
        ("2026-11-20 12:00:00,250,INFO,x", "2026-11-20T12:00:00.25"),
        ("2026-11-20 12:00:00,250Z x", "2026-11-20T12:00:00.25"),
        ("2026-11-20 12:00:00,250+0100 x", "2026-11-20T11:00:00.25"),
        ("2026-11-20 12:00:00,250. x", "2026-11-20T12:00:00.25"),
        ("2026-11-20 12:00:00,250125 [x]", "2026-11-20T12:00:00.250125"),
        ("2026-11-20 12:00:00.1234567 x", "2026-11-20T12:00:00.1234567"),
    ]);
}

#[test]
fn dates_inside_names_and_numbers_are_ignored() {
    check(&[
        ("nova-api.log.1.2017-05-16_13:53:08 2017-05-16 00:00:00.008 25746 INFO", "2017-05-16T00:00:00.008"),
        ("GET /2017/05/16/index.html", "none"),
        ("version 1.2.3 of 10.20.30.40", "none"),
        ("mac 00:11:22:33:44:55 seen", "none"),
        ("x2026-11-20 x", "none"),
        ("2026-13-20 13:42:07", "2026-11-21T13:42:07"),
        ("2026-02-30 13:42:07", "2026-11-21T13:42:07"),
        ("may 5 things", "none"),
        ("maybe 5 10:00:61", "none"),
        ("", "none"),
    ]);
}

#[test]
fn only_a_time_at_the_start_begins_an_event() {
    assert!(found("[10:41:22] x").unwrap().begins_event());
    assert!(!found("it is 10:41:22 now").unwrap().begins_event());
    assert!(found("it is 2026-11-20 10:41:22 now").unwrap().begins_event());
    assert!(!found("bare 1077804742 x").unwrap().begins_event());
}

proptest::proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in "[ -~]{0,60}|([0-9]{1,4}[-/.: TJanSu]{1,2}){1,8}|(ts=)?[12][0-9]{9,19}[.,][0-9]{0,12}[a-z]?") {
        let _stamp = found(&text);
    }

    #[test]
    fn times_written_by_format_are_read_back(seconds in 1_000_000_000i64..1_795_244_400, nanos in 0i64..1_000_000) {
        let time = seconds * NS_PER_SEC + nanos * 1_000;
        for format in ["%Y-%m-%d %H:%M:%S.%6N", "%Y-%m-%dT%H:%M:%S.%6NZ", "%a %b %d %H:%M:%S.%6N %Y", "%Y%m%d-%H:%M:%S.%6N",
            "%d/%b/%Y:%H:%M:%S.%6N +0000", "%m/%d/%Y %I:%M:%S.%6N %p", "%s.%6N"] {
            let text = format!("[{}] x", strftime(time, format, &TimeZone::UTC));
            let context = ResolveContext { now: NOW, tz: &TimeZone::UTC, last: None };
            let read = found(&text).and_then(|stamp| stamp.parts.resolve(&context));
            proptest::prop_assert_eq!(read, Some(time), "{}", text);
        }
    }
}

/// The tested texts are all sequences of one to five of these pieces.
const PIECES: [&str; 12] = ["1", "23", "2026", ":", "-", "/", ".", " ", "T", "Oct", "Z", "x"];

#[test]
fn texts_with_too_few_digits_have_no_time() {
    let recogniser = Recogniser::new(NOW, [].into());
    let (mut left_out, mut times) = (0, 0);
    for count in 1..=5 {
        for mut number in 0..PIECES.len().pow(count) {
            let mut text = String::new();
            for _ in 0..count {
                text.push_str(PIECES[number % PIECES.len()]);
                number /= PIECES.len();
            }
            let found = recogniser.scan(text.as_bytes());
            times += usize::from(found.is_some());
            if !has_digits_of_a_time(text.as_bytes()) {
                left_out += 1;
                assert!(found.is_none(), "{text:?} holds a time, and too few digits for one");
            }
        }
    }
    assert!(left_out > 10_000 && times > 50, "{left_out} texts skipped, {times} times");
}

#[test]
fn next_digit_is_found_at_any_position() {
    for len in 0..20 {
        for place in 0..len {
            for byte in [b'0', b'9'] {
                // Bytes next to the digits in ASCII, and bytes that differ from a digit only in their top bit.
                let mut text: Vec<u8> = b"/:\xb0\xb9a".iter().copied().cycle().take(len).collect();
                assert_eq!(next_digit(&text, 0), None);
                text[place] = byte;
                for from in 0..=len {
                    assert_eq!(next_digit(&text, from), (from <= place).then_some(place));
                }
            }
        }
    }
}
