use quarry_conf::layers::Layer;
use quarry_conf::{ConfSource, Layers};

use super::*;

/// Guesses the sourcetype by stanza, name and first bytes of a source.
fn guess_sourcetype(sample: &[u8], source: &str, props: &PropsResolver) -> Guess {
    match props.sourcetype_for_source(source) {
        Some(sourcetype) => Guess { sourcetype, reason: "a [source::] stanza names it" },
        None => GuessRules::new(props)
            .map_or_else(|_| guess_data(sample, source, false), |rules| rules.guess(sample, source, false)),
    }
}

fn guessed(sample: &str) -> String {
    guess_data(sample.as_bytes(), "/var/lib/shop/orders-2026.log", false).sourcetype
}

#[test]
fn stanzas_take_precedence_over_the_format() {
    let props = PropsResolver::new(&Layers::new([]));
    let guess = guess_sourcetype(b"{\"a\":1}\n", "/var/log/messages", &props);
    assert_eq!(guess.sourcetype, "syslog");
    assert_eq!(guess_sourcetype(b"{\"a\":1}\n", "/tmp/x", &props).sourcetype, "_json");
}

#[test]
fn sourcetype_is_derived_from_the_file_name() {
    assert_eq!(file_stem("/var/log/shop-2026-11-20.log.1").as_deref(), Some("shop"));
    assert_eq!(file_stem(r"C:\logs\My App.txt").as_deref(), Some("My_App"));
    assert_eq!(file_stem("/x/.hidden").as_deref(), Some("hidden"));
    assert_eq!(file_stem("/x/2026.log"), None);
    assert_eq!(file_stem(""), None);
}

#[test]
fn continuation_lines_indicate_a_merging_sourcetype() {
    let event = "2026-11-20 13:42:07 order placed\n  item 1\n  item 2\n";
    assert_eq!(guessed(&event.repeat(5)), "orders");
}

#[test]
fn lines_with_dates_indicate_single_line_events() {
    assert_eq!(guessed(&"2026-11-20 13:42:07 order placed\n".repeat(5)), PLAIN_SOURCETYPE);
}

#[test]
fn unrelated_lines_are_not_merged() {
    let text = "2026-11-20 13:42:07 start\nthis\nand that\n";
    assert_eq!(guessed(&text.repeat(5)), PLAIN_SOURCETYPE);
    assert_eq!(guessed("no time anywhere\n"), PLAIN_SOURCETYPE);
    assert_eq!(guessed(""), PLAIN_SOURCETYPE);
}

#[test]
fn long_stack_traces_are_log4j() {
    let frames = "\tat shop.Orders.place(Orders.java:41)\n".repeat(30);
    let text = format!("2026-11-20 13:42:07,123 ERROR failed\njava.lang.Error: x\n{frames}");
    assert_eq!(guessed(&text.repeat(3)), "log4j");
}

#[test]
fn lines_with_any_known_level_are_log4j() {
    for level in [
        "TRACE", "DEBUG", "FINEST", "FINER", "FINE", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "SEVERE",
        "CRITICAL", "FATAL",
    ] {
        let line = format!("2026-11-20 13:42:07.123 2931 {level} nova.compute [-] took 3 s\n");
        assert_eq!(guessed(&line.repeat(5)), "log4j", "{level}");
    }
}

#[test]
fn syslog_variants_are_recognised() {
    assert_eq!(guessed(&"<13>1 2026-11-20T13:42:07.123Z web-1 shop 7 - - x\n".repeat(3)), "syslog");
    assert_eq!(guessed(&"2026-11-20T13:42:07.123+01:00 web-1 cron[7]: x\n".repeat(3)), "syslog");
}

#[test]
fn incomplete_last_lines_are_ignored() {
    assert_eq!(guessed("{\"a\":1}\n{\"b\":"), "_json");
}

#[test]
fn delimited_text_requires_a_matching_file_name() {
    let text = b"id,name\n1,eva\n";
    assert_eq!(guess_data(text, "/tmp/people.csv", false).sourcetype, "csv");
    assert_eq!(guess_data(text, "/tmp/people.txt", false).sourcetype, PLAIN_SOURCETYPE);
}

#[test]
fn content_takes_precedence_over_a_less_specific_name() {
    let props = PropsResolver::new(&Layers::new([]));
    let of = |source: &str, line: &str| guess_sourcetype(line.repeat(5).as_bytes(), source, &props).sourcetype;
    let trail = "{\"eventVersion\":\"1.08\",\"eventTime\":\"2026-11-20T13:42:07Z\",\"eventSource\":\"s3.amazonaws.com\",\"eventName\":\"GetObject\"}\n";
    let access = "10.0.0.1 - eva [20/Nov/2026:13:42:07 +0000] \"GET / HTTP/1.1\" 200 12 \"-\" \"curl\"\n";
    let error = "2026/11/20 13:42:07 [error] 31#31: *1 open() \"/x\" failed (2: No such file or directory)\n";
    for (source, line, sourcetype) in [
        ("/d/trail.jsonl", trail, "aws:cloudtrail"),
        ("/d/trail.json", trail, "aws:cloudtrail"),
        ("/d/x.jsonl", "{\"a\":1}\n", "json_lines"),
        ("/d/x.ndjson", "no object\n", "json_lines"),
        ("/d/x.json", "{\"a\":1}\n", "_json"),
        ("/var/log/nginx/access.log", access, "access_combined"),
        ("/var/log/nginx/access.log", "{\"status\":200}\n", "_json"),
        ("/var/log/nginx/access.log", "GET /a 200\n", "access_combined"),
        ("/var/log/httpd/error_log", error, "nginx:error"),
        ("/var/log/httpd/error_log", "AH00558: no name\n", "apache_error"),
    ] {
        assert_eq!(of(source, line), sourcetype, "{source}: {line}");
    }
    assert_eq!(guess_sourcetype(b"", "/d/x.jsonl", &props).sourcetype, "json_lines");
    // The stanza determines the sourcetype, whatever the file contains.
    let text = "[source::....jsonl]\nsourcetype = mine\n".to_owned();
    let source = ConfSource { layer: Layer::SystemLocal, app: None, file: "props.conf".to_owned(), text };
    let props = PropsResolver::new(&Layers::new([source]));
    assert_eq!(guess_sourcetype(trail.as_bytes(), "/d/trail.jsonl", &props).sourcetype, "mine");
}

#[test]
fn short_growing_files_may_get_lines_without_times() {
    let lines = |count: usize| "2026-11-20 10:00:00 order taken\n".repeat(count);
    let guess = |count: usize, source: &str, may_continue: bool| {
        guess_data(lines(count).as_bytes(), source, may_continue).sourcetype
    };
    assert_eq!(guess(3, "/var/log/orders.log", true), "orders");
    assert_eq!(guess(3, "/var/log/orders.log", false), PLAIN_SOURCETYPE);
    assert_eq!(guess(FEW_LINES_MAX, "/var/log/orders.log", true), PLAIN_SOURCETYPE);
    assert_eq!(guess(3, "tcp:514", true), PLAIN_SOURCETYPE, "a stream has no name of its own");
}
