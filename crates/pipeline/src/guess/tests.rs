use quarry_conf::Layers;

use super::*;

fn guessed(sample: &str) -> String {
    guess_data(sample.as_bytes(), "/var/lib/shop/orders-2026.log").sourcetype
}

#[test]
fn a_stanza_beats_the_look() {
    let props = PropsResolver::new(&Layers::new([]));
    let guess = guess_sourcetype(b"{\"a\":1}\n", "/var/log/messages", &props);
    assert_eq!(guess.sourcetype, "syslog");
    assert_eq!(guess_sourcetype(b"{\"a\":1}\n", "/tmp/x", &props).sourcetype, "_json");
}

#[test]
fn a_name_is_made_of_the_file() {
    assert_eq!(stem("/var/log/shop-2026-11-20.log.1").as_deref(), Some("shop"));
    assert_eq!(stem(r"C:\logs\My App.txt").as_deref(), Some("My_App"));
    assert_eq!(stem("/x/.hidden").as_deref(), Some("hidden"));
    assert_eq!(stem("/x/2026.log"), None);
    assert_eq!(stem(""), None);
}

#[test]
fn continuation_lines_make_a_merging_sourcetype() {
    let event = "2026-11-20 13:42:07 order placed\n  item 1\n  item 2\n";
    assert_eq!(guessed(&event.repeat(5)), "orders");
}

#[test]
fn only_dated_lines_are_single_lines() {
    assert_eq!(guessed(&"2026-11-20 13:42:07 order placed\n".repeat(5)), PLAIN_SOURCETYPE);
}

#[test]
fn strangers_are_not_glued() {
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
fn syslog_of_other_daemons_and_newer_forms() {
    assert_eq!(guessed(&"<13>1 2026-11-20T13:42:07.123Z web-1 shop 7 - - x\n".repeat(3)), "syslog");
    assert_eq!(guessed(&"2026-11-20T13:42:07.123+01:00 web-1 cron[7]: x\n".repeat(3)), "syslog");
}

#[test]
fn half_a_last_line_is_not_looked_at() {
    assert_eq!(guessed("{\"a\":1}\n{\"b\":"), "_json");
}

#[test]
fn columns_need_the_name_of_the_file() {
    let text = b"id,name\n1,eva\n";
    assert_eq!(guess_data(text, "/tmp/people.csv").sourcetype, "csv");
    assert_eq!(guess_data(text, "/tmp/people.txt").sourcetype, PLAIN_SOURCETYPE);
}
