use proptest::prelude::*;
use quarry_conf::layers::Layer;
use quarry_conf::{ConfSource, Layers};
use quarry_event::time::{NS_PER_SEC, strftime};

use super::*;

/// 2026-11-21T07:00:00Z.
pub(crate) const NOW: TimeNs = 1_795_244_400 * NS_PER_SEC;

/// The built-in settings together with these.
fn props(text: &str) -> PropsResolver {
    let file = "etc/system/local/props.conf".to_owned();
    PropsResolver::new(&Layers::new([ConfSource { layer: Layer::SystemLocal, app: None, file, text: text.to_owned() }]))
}

#[test]
fn begin_uses_the_buffered_bytes() {
    for (sourcetype, settings) in [(None, ""), (Some("x"), "[x]\nCHARSET = AUTO\nSHOULD_LINEMERGE = false\n")] {
        let context = PipelineContext { now: NOW, zone: Some(TimeZone::UTC), modified: None, orders: None };
        let info = SourceInfo {
            index: "main".to_owned(),
            host: "h".to_owned(),
            host_is_fixed: false,
            source: "/a.log".to_owned(),
            sourcetype: sourcetype.map(str::to_owned),
        };
        let mut pipeline = Pipeline::new(info, &props(settings), context).unwrap();
        let mut out = EventBatch::default();
        assert!(pipeline.is_beginning() && !pipeline.can_begin());
        pipeline.push(b"one of", &mut out);
        assert!(!pipeline.can_begin(), "no whole line");
        pipeline.push(b" many\ntwo", &mut out);
        assert!(pipeline.can_begin() && out.is_empty());
        pipeline.begin(&mut out);
        assert!(!pipeline.is_beginning() && out.len() == 1 && out.raw(0) == b"one of many");
        pipeline.push(b" of many\n", &mut out);
        assert_eq!((out.len(), out.raw(1)), (2, b"two of many".as_slice()));
    }
}

/// Events do not depend on the division of the input into chunks, even if the input is longer than the sample.
#[test]
fn guesses_are_independent_of_chunking() {
    let mut bytes = "2026-11-20 13:42:07 order placed\n".repeat(SAMPLE_BYTES / 33).into_bytes();
    bytes.extend_from_slice("2026-11-20 13:42:07 order\n  item\n".repeat(9_000).as_bytes());
    let (whole, pipeline) = run_in_chunks("", None, &[&bytes]);
    assert_eq!(pipeline.sourcetype(), Some("generic_single_line"));
    for size in [1_000, SAMPLE_BYTES - 1, SAMPLE_BYTES, SAMPLE_BYTES + 1] {
        let (parts, pipeline) = run_in_chunks("", None, &bytes.chunks(size).collect::<Vec<_>>());
        assert!(parts == whole, "{size}");
        assert_eq!(pipeline.counters().bytes, bytes.len() as u64);
    }
}

/// Bytes known to be ASCII are not validated again; others are, regardless of the ends of chunks.
#[test]
fn invalid_bytes_are_counted_for_any_chunking() {
    let bytes = b"plain\na\xFFb\nplain again\ngr\xC3\xBCn\nlast \xC3\n";
    let (whole, _) = run_in_chunks("", Some("generic_single_line"), &[bytes]);
    let texts: Vec<String> = events(&whole).into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["plain", "a\\xFFb", "plain again", "grün", "last \\xC3"]);
    for size in 1..bytes.len() {
        let (parts, pipeline) = run_in_chunks("", Some("generic_single_line"), &bytes.chunks(size).collect::<Vec<_>>());
        assert!(parts == whole, "{size}");
        assert_eq!(pipeline.counters().undecodable_bytes, 2);
    }
}

fn info(sourcetype: Option<&str>) -> SourceInfo {
    SourceInfo {
        index: "main".to_owned(),
        host: "web-1".to_owned(),
        host_is_fixed: false,
        source: "/srv/shop/orders.log".to_owned(),
        sourcetype: sourcetype.map(str::to_owned),
    }
}

fn context() -> PipelineContext {
    PipelineContext { now: NOW, zone: Some(TimeZone::UTC), modified: None, orders: None }
}

/// Text and time of each event.
fn events(batch: &EventBatch) -> Vec<(String, String)> {
    (0..batch.len())
        .map(|row| {
            let text = std::str::from_utf8(batch.raw(row)).unwrap().to_owned();
            (text, strftime(batch.time[row], "%F %T.%3N", &TimeZone::UTC))
        })
        .collect()
}

fn run_in_chunks(settings: &str, sourcetype: Option<&str>, chunks: &[&[u8]]) -> (EventBatch, Pipeline) {
    run_with(&props(settings), sourcetype, chunks)
}

fn run_with(props: &PropsResolver, sourcetype: Option<&str>, chunks: &[&[u8]]) -> (EventBatch, Pipeline) {
    let mut pipeline = Pipeline::new(info(sourcetype), props, context()).unwrap();
    let mut out = EventBatch::default();
    for chunk in chunks {
        pipeline.push(chunk, &mut out);
    }
    pipeline.finish(&mut out);
    (out, pipeline)
}

fn run(settings: &str, sourcetype: Option<&str>, text: &str) -> (Vec<(String, String)>, Pipeline) {
    let (out, pipeline) = run_in_chunks(settings, sourcetype, &[text.as_bytes()]);
    (events(&out), pipeline)
}

fn texts(settings: &str, text: &str) -> Vec<String> {
    run(settings, Some("app"), text).0.into_iter().map(|(text, _)| text).collect()
}

const TRACE: &str = "2026-11-20 13:42:07,123 ERROR shop.Orders - order 7 failed\n\
    java.lang.IllegalStateException: closed\n\
    \tat shop.Orders.place(Orders.java:41)\n\
    Caused by: java.io.IOException: gone since 2026-11-19 10:00:00\n\
    \t... 12 more\n\
    2026-11-20 13:42:08,500 INFO shop.Orders - order 8 placed\n";

#[test]
fn a_stack_trace_stays_with_its_line() {
    let (found, pipeline) = run("", None, TRACE);
    assert_eq!(pipeline.sourcetype(), Some("log4j"));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].0.ends_with("... 12 more"));
    assert_eq!(found[0].1, "2026-11-20 13:42:07.123");
    assert_eq!(found[1].1, "2026-11-20 13:42:08.500");
    assert_eq!(pipeline.counters().merged_lines, 4);
}

#[test]
fn lines_without_times_are_not_merged() {
    let text: String = (0..40).map(|number| format!("step {number} done\n")).collect();
    let (found, pipeline) = run("", None, &format!("started 2026-11-20 13:00:00\n{text}"));
    assert_eq!(pipeline.sourcetype(), Some("generic_single_line"));
    assert_eq!(found.len(), 41);
    assert!(found.iter().all(|(_, time)| time == "2026-11-20 13:00:00.000"));
}

#[test]
fn built_in_sourcetypes_parse_their_samples() {
    let cases = [
        ("syslog", "Mar  3 14:07:55 gate named[811]: ready\n", "2026-03-03 14:07:55.000"),
        ("linux_secure", "Mar  3 14:07:55 gate sshd[811]: Accepted key\n", "2026-03-03 14:07:55.000"),
        (
            "access_combined",
            "10.0.0.9 - eva [03/Mar/2026:14:07:55 +0100] \"GET /a?b=1 HTTP/1.1\" 200 17 \"-\" \"curl/8\"\n",
            "2026-03-03 13:07:55.000",
        ),
        (
            "access_combined_wcookie",
            "10.0.0.9 - - [03/Mar/2026:14:07:55 +0000] \"GET / HTTP/1.1\" 200 - \"-\" \"curl/8\" \"id=1\"\n",
            "2026-03-03 14:07:55.000",
        ),
        ("apache_error", "[Tue Mar 03 14:07:55.120 2026] [core:error] [pid 7] no file\n", "2026-03-03 14:07:55.120"),
        ("cisco:asa", "Mar 03 2026 14:07:55 fw1 : %ASA-6-302013: Built\n", "2026-03-03 14:07:55.000"),
        ("_json", "{\"msg\":\"x\",\"time\":\"2026-03-03T14:07:55.25Z\"}\n", "2026-03-03 14:07:55.250"),
        ("log4j", "2026-03-03 14:07:55,125 WARN [main] shop - slow\n", "2026-03-03 14:07:55.125"),
        ("generic_single_line", "2026-03-03T14:07:55.125Z slow\n", "2026-03-03 14:07:55.125"),
    ];
    for (sourcetype, line, time) in cases {
        let lines = line.repeat(3);
        for named in [None, Some(sourcetype)] {
            let (found, pipeline) = run("", named, &lines);
            assert_eq!(pipeline.sourcetype(), Some(sourcetype), "{line}");
            let expected = (line.trim_end().to_owned(), time.to_owned());
            assert_eq!(found, vec![expected; 3], "{sourcetype}");
            assert_eq!(pipeline.counters().bad_timestamps, 0, "{sourcetype}");
        }
    }
}

#[test]
fn windows_events_are_split_before_their_times() {
    let event = "03/03/2026 02:07:55 PM\nLogName=Security\nMessage=An account was logged on.\n\n\tSubject: eva\n";
    let (found, pipeline) = run("", None, &event.repeat(2));
    assert_eq!(pipeline.sourcetype(), Some("WinEventLog"));
    let expected = (event.trim_end().to_owned(), "2026-03-03 14:07:55.000".to_owned());
    assert_eq!(found, [expected.clone(), expected]);
}

#[test]
fn header_lines_name_fields_and_are_not_events() {
    let text = "time,user name,note\n2026-11-20 13:42:07,eva,\"a, b\"\n2026-11-20 13:42:08,,\n";
    let (out, _) = run_in_chunks("", Some("csv"), &[text.as_bytes()]);
    assert_eq!(out.len(), 2);
    let fields: Vec<_> = out.fields.iter().map(|field| (field.row, &**field.name, field.value)).collect();
    let expected = [
        (0, "time", "2026-11-20 13:42:07"),
        (0, "user_name", "eva"),
        (0, "note", "a, b"),
        (1, "time", "2026-11-20 13:42:08"),
    ];
    assert_eq!(fields, expected);
}

#[test]
fn merge_rules_split_and_join_lines() {
    let dated = "2026-11-20 13:00:00 a\n b\n2026-11-20 13:00:01 c\n";
    assert_eq!(texts("", dated), ["2026-11-20 13:00:00 a\n b", "2026-11-20 13:00:01 c"]);
    let before = "[app]\nBREAK_ONLY_BEFORE = ^#\n";
    assert_eq!(texts(before, "#1\nx\n\n2026-11-20 y\n#2\n"), ["#1\nx\n2026-11-20 y", "#2"]);
    let after = "[app]\nBREAK_ONLY_BEFORE_DATE = false\nMUST_BREAK_AFTER = ;$\n";
    assert_eq!(texts(after, "a\nb;\nc;\nd\n"), ["a\nb;", "c;", "d"]);
    let held = "[app]\nMUST_NOT_BREAK_AFTER = BEGIN\nMUST_BREAK_AFTER = END\n";
    let text = "2026-11-20 1:00:00 BEGIN\n2026-11-20 1:00:01 x\n2026-11-20 1:00:02 END\n2026-11-20 1:00:03 y\n";
    assert_eq!(texts(held, text).len(), 2);
    let never = "[app]\nMUST_NOT_BREAK_BEFORE = skip\n";
    assert_eq!(texts(never, "2026-11-20 1:00:00 a\n2026-11-20 1:00:01 skip\n").len(), 1);
    let most = "[app]\nMAX_EVENTS = 2\n";
    assert_eq!(texts(most, "2026-11-20 1:00:00 a\nb\nc\nd\ne\n"), ["2026-11-20 1:00:00 a\nb", "c\nd", "e"]);
    let current = "[app]\nDATETIME_CONFIG = CURRENT\n";
    assert_eq!(texts(current, "a\nb\n"), ["a", "b"]);
}

#[test]
fn byte_order_marks_and_invalid_bytes_are_handled() {
    let (out, pipeline) =
        run_in_chunks("", Some("generic_single_line"), &[b"\xEF", b"\xBB\xBFa\xFFb\0\r\n", b"\n\xC3\xBC"]);
    assert_eq!((out.raw(0), out.raw(1)), (&b"a\\xFFb\0"[..], "ü".as_bytes()));
    assert_eq!(out.len(), 2);
    assert_eq!(pipeline.counters().undecodable_bytes, 1);
    assert_eq!(pipeline.safe_offset(), 12);
}

#[test]
fn pipeline_is_send() {
    fn is_send<T: Send>() {}
    is_send::<Pipeline>();
}

#[test]
fn json_and_delimited_variants_are_parsed() {
    let (found, _) = run("", Some("json_no_timestamp"), "{\"at\":\"2020-01-01 00:00:00\"}\n");
    assert_eq!(found[0].1, "2026-11-21 07:00:00.000");
    for (sourcetype, text) in [("tsv", "a\tb c\n1\t2\n"), ("psv", "a|b c\n1|2\n")] {
        let (out, _) = run_in_chunks("", Some(sourcetype), &[text.as_bytes()]);
        let fields: Vec<_> = out.fields.iter().map(|field| (&**field.name, field.value)).collect();
        assert_eq!(fields, [("a", "1"), ("b_c", "2")], "{sourcetype}");
    }
}

#[test]
fn metadata_and_index_time_are_set() {
    let (out, _) = run_in_chunks("", Some("app"), &[b"x\n"]);
    assert_eq!(out.index_time, NOW);
    assert_eq!(out.metas.len(), 1);
    assert_eq!((&*out.metas[0].index, &*out.metas[0].host), ("main", "web-1"));
    assert_eq!((&*out.metas[0].source, &*out.metas[0].sourcetype), ("/srv/shop/orders.log", "app"));
}

#[test]
fn a_huge_line_costs_little_memory() {
    let mut pipeline = Pipeline::new(info(Some("app")), &props(""), context()).unwrap();
    let mut out = EventBatch::default();
    let chunk = vec![b'x'; 64 << 10];
    let mut most = 0;
    for _ in 0..1_600 {
        pipeline.push(&chunk, &mut out);
        most = most.max(pipeline.buffered_capacity());
    }
    pipeline.finish(&mut out);
    assert_eq!((out.len(), out.raw(0).len()), (1, 10_000));
    assert_eq!(pipeline.counters().truncated_lines, 1);
    assert!(pipeline.counters().remark().is_some_and(|remark| remark.starts_with("lines longer than TRUNCATE")));
    assert_eq!(pipeline.safe_offset(), 1_600 << 16);
    assert!(most <= 64 << 10, "{most}");
}

#[test]
fn events_that_rules_make_too_long_are_not_reported_as_lines_cut_to_truncate() {
    let settings = format!("[app]\nTRUNCATE = 0\nSEDCMD-a = s/x/{}/g\n", "y".repeat(1_000));
    let mut pipeline = Pipeline::new(info(Some("app")), &props(&settings), context()).unwrap();
    let mut out = EventBatch::default();
    pipeline.push("x".repeat(20_000).as_bytes(), &mut out);
    pipeline.finish(&mut out);
    assert_eq!((out.len(), out.raw(0).len()), (1, crate::merge::EVENT_BYTES_MAX));
    let counters = pipeline.counters();
    assert_eq!((counters.truncated_lines, counters.events_cut_by_rules), (0, 1));
    assert!(counters.remark().is_some_and(|remark| remark.starts_with("rules make the text of events longer")));
}

#[test]
fn pauses_emit_the_open_event_and_keep_incomplete_lines() {
    let mut pipeline = Pipeline::new(info(Some("app")), &props(""), context()).unwrap();
    let mut out = EventBatch::default();
    pipeline.push(b"2026-11-20 1:00:00 a\n b\n c", &mut out);
    assert_eq!((out.len(), pipeline.safe_offset()), (0, 0));
    pipeline.pause(&mut out);
    assert_eq!((out.len(), pipeline.safe_offset()), (1, 24));
    pipeline.push(b"d\n", &mut out);
    pipeline.finish(&mut out);
    assert_eq!(out.raw(1), b" cd");
}

#[test]
fn invalid_settings_are_reported() {
    let build = |settings: PropsSettings| {
        let rules = RulePlan::new(&info(None), &settings, &props(""))?;
        LineStages::new(&info(None), "app".to_owned(), &settings, rules, &context()).map(|_| ())
    };
    let good = || props("").resolve("", "", "app");
    let error = build(PropsSettings { line_breaker: "(".to_owned(), ..good() }).unwrap_err();
    assert!(error.to_string().contains("LINE_BREAKER of [app]"), "{error}");
    let error = build(PropsSettings { tz: Some("Middle/Earth".to_owned()), ..good() }).unwrap_err();
    assert!(error.to_string().starts_with("TZ of [app]: unknown time zone \"Middle/Earth\""), "{error}");
    let zone_aliases = vec![("EST".to_owned(), "Middle/Earth".to_owned())];
    let error = build(PropsSettings { zone_aliases, ..good() }).unwrap_err();
    assert!(error.to_string().starts_with("TZ_ALIAS of [app]: unknown time zone \"Middle/Earth\""), "{error}");
    let error = build(PropsSettings { time_format: Some("%q".to_owned()), ..good() }).unwrap_err();
    assert!(error.to_string().contains("%q"), "{error}");
}

#[test]
fn lenient_pipelines_skip_unusable_settings() {
    let wrong = [
        "LINE_BREAKER = (",
        "TIME_PREFIX = [",
        "TIME_FORMAT = %q",
        "TZ = Middle/Earth",
        "TZ_ALIAS = EST=Middle/Earth",
        "CHARSET = KLINGON",
        "BREAK_ONLY_BEFORE = (",
        "MUST_BREAK_AFTER = (",
        "MUST_NOT_BREAK_AFTER = (",
        "MUST_NOT_BREAK_BEFORE = (",
        "SEDCMD-a = s/(/x/",
        "TRANSFORMS-a = broken",
        "TRANSFORMS-a = evaluated",
        "TRANSFORMS-a = copy",
        "TRANSFORMS-h = host",
        "RULESET-a = broken, copy, host",
        "INDEXED_EXTRACTIONS = csv\nFIELD_NAMES = a\nPREAMBLE_REGEX = (",
        "INDEXED_EXTRACTIONS = csv\nFIELD_NAMES = a\nMISSING_VALUE_REGEX = (",
        "INDEXED_EXTRACTIONS = csv\nFIELD_NAMES = a\nFIELD_HEADER_REGEX = (",
    ];
    let all = wrong.map(|setting| setting.replace("-a", "-b").replace("-h", "-i")).join("\n");
    let transforms = "[broken]\nREGEX = (\nDEST_KEY = queue\nFORMAT = nullQueue\n[evaluated]\nINGEST_EVAL = x=(\n\
                      [copy]\nREGEX = .\nCLONE_SOURCETYPE = other\n\
                      [host]\nREGEX = (\nDEST_KEY = MetaData:Host\nFORMAT = host::$1\n";
    let mut refused = 0;
    for setting in wrong.into_iter().chain([all.as_str()]) {
        let text = format!("[app]\n{setting}\nSEDCMD-z = s/hidden/xxx/\n[other]\nSEDCMD-a = s/(/x/\n");
        let file = |file: &str, text: &str| ConfSource {
            layer: Layer::SystemLocal,
            app: None,
            file: file.to_owned(),
            text: text.to_owned(),
        };
        let props = PropsResolver::new(&Layers::new([file("props.conf", &text), file("transforms.conf", transforms)]));
        let strict = Pipeline::new(info(Some("app")), &props, context()).err();
        let mut pipeline = Pipeline::new_lenient(info(Some("app")), &props, context()).unwrap();
        // Reading the conf files already skips some invalid rules; a strict pipeline does not refuse those.
        refused += usize::from(strict.is_some());
        assert_eq!(pipeline.settings_error(), strict.as_ref(), "{setting}");
        let mut out = EventBatch::default();
        pipeline.push(b"2026-11-20 1:00:00 hidden\n", &mut out);
        pipeline.finish(&mut out);
        assert_eq!((out.len(), out.raw(0)), (1, &b"2026-11-20 1:00:00 xxx"[..]), "{setting}");
    }
    assert!(refused >= 8, "{refused}");
}

#[test]
fn resume_hint_is_derived_from_the_head() {
    let head = b"id,who\n1,eva\n";
    let source = SourceInfo { source: "/x/people.csv".to_owned(), ..info(None) };
    let hint = Pipeline::resume_hint_from_head(source.clone(), &props(""), context(), head, false).unwrap();
    let mut rest = Pipeline::resume(source, &props(""), context(), hint).unwrap();
    let mut out = EventBatch::default();
    rest.push(b"2,ada\n", &mut out);
    assert_eq!((out.len(), out.fields.get(1).value), (1, "ada"));
}

/// Settings that together use every way of breaking and merging.
const SETTINGS: [(&str, &str); 10] = [
    ("generic_single_line", ""),
    ("app", ""),
    ("log4j", ""),
    ("csv", ""),
    ("held", "[held]\nMUST_NOT_BREAK_AFTER = a\nMUST_BREAK_AFTER = e\nMUST_NOT_BREAK_BEFORE = u\nMAX_EVENTS = 4\n"),
    ("before", "[before]\nBREAK_ONLY_BEFORE = [b-d]\nTRUNCATE = 30\nTZ = America/New_York\n"),
    ("short", "[short]\nTRUNCATE = 9\nSHOULD_LINEMERGE = false\nLINE_BREAKER = (\\r?\\n)\n"),
    ("latin", "[latin]\nCHARSET = ISO-8859-1\nSHOULD_LINEMERGE = false\n"),
    ("wide", "[wide]\nCHARSET = UTF-16LE\nBREAK_ONLY_BEFORE = [b-d]\n"),
    ("objects", "[objects]\nSHOULD_LINEMERGE = false\nLINE_BREAKER = ([\\r\\n]+)(?=\\{|20)\n"),
];

fn any_log() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        (0u32..60, "[a-z ü]{0,12}")
            .prop_map(|(second, text)| format!("2026-11-20 13:42:{second:02} {text}").into_bytes()),
        (0u32..60).prop_map(|minute| format!("11/20/2026 01:{minute:02}:07 PM x").into_bytes()),
        "[ {},a-zäöü;\"]{0,20}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..20),
        Just(b"12:00:00 only a time".to_vec()),
    ];
    let ending = prop_oneof![4 => Just(&b"\n"[..]), 1 => Just(&b"\r\n"[..]), 1 => Just(&b"\n\n"[..])];
    proptest::collection::vec((line, ending), 0..30)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, ending)| [&line[..], ending].concat()).collect())
}

proptest! {
    #[test]
    fn events_are_independent_of_chunking_and_restarts(
        bytes in any_log(),
        cuts in proptest::collection::vec(0usize..600, 0..6),
        setting in 0usize..SETTINGS.len(),
        guessed in any::<bool>(),
    ) {
        let (sourcetype, settings) = SETTINGS[setting];
        let sourcetype = (!guessed).then_some(sourcetype);
        let props = props(settings);
        let (whole, _) = run_with(&props, sourcetype, &[&bytes]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let mut pipeline = Pipeline::new(info(sourcetype), &props, context()).unwrap();
        let mut out = EventBatch::default();
        let mut from = 0;
        for to in cuts.into_iter().chain([bytes.len()]) {
            pipeline.push(&bytes[from..to], &mut out);
            from = to;
            let safe = pipeline.safe_offset();
            prop_assert!(safe <= from as u64);
            let hint = pipeline.resume_hint();
            let mut rest = Pipeline::resume(info(sourcetype), &props, context(), hint).unwrap();
            let mut joined = out.clone();
            rest.push(&bytes[safe as usize..], &mut joined);
            rest.finish(&mut joined);
            prop_assert_eq!(events(&joined), events(&whole));
            prop_assert_eq!(&joined.fields, &whole.fields);
        }
        pipeline.finish(&mut out);
        prop_assert_eq!(&out, &whole);
        prop_assert_eq!(pipeline.safe_offset(), bytes.len() as u64);
    }
}

#[test]
fn syslog_host_is_extracted_unless_set_by_the_user() {
    let text = "Nov 20 13:42:07 gate-1 sshd[811]: accepted\n<34>Nov 20 13:42:08 10.0.0.9 kernel: up\nno header here\n\
                2026-11-20T13:42:09.021Z host02 payments[11]: paid\n";
    let hosts = |fixed: bool| {
        let mut pipeline =
            Pipeline::new(SourceInfo { host_is_fixed: fixed, ..info(Some("syslog")) }, &props(""), context()).unwrap();
        let mut batch = EventBatch::default();
        pipeline.push(text.as_bytes(), &mut batch);
        pipeline.finish(&mut batch);
        batch.meta.iter().map(|meta| batch.metas[*meta as usize].host.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(hosts(false), ["gate-1", "10.0.0.9", "web-1", "host02"]);
    assert_eq!(hosts(true), ["web-1"; 4]);
}
