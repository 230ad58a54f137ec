use regex::Regex;

use super::{DatetimeConfig, KvMode, PropsResolver, split_extract};
use crate::layers::tests::local;
use crate::{Layers, PropsSettings};

fn resolver(text: &str) -> PropsResolver {
    PropsResolver::new(&Layers::new([local("props", text)]))
}

fn builtin(sourcetype: &str) -> PropsSettings {
    resolver("").resolve("any", "any", sourcetype)
}

/// Names and values that the rules of a sourcetype extract from an event.
fn extract(sourcetype: &str, event: &str) -> Vec<(String, String)> {
    let mut fields = vec![("_raw".to_owned(), event.to_owned())];
    for rule in builtin(sourcetype).extracts {
        let text = fields.iter().find(|(name, _)| *name == rule.field).map(|(_, text)| text.clone());
        let regex = Regex::new(&format!("(?ms){}", rule.pattern)).unwrap();
        let Some(text) = text else { continue };
        let Some(found) = regex.captures(&text) else { continue };
        let named = regex.capture_names().flatten();
        fields.extend(named.filter_map(|name| Some((name.to_owned(), found.name(name)?.as_str().to_owned()))));
    }
    fields.remove(0);
    fields
}

fn field(fields: &[(String, String)], name: &str) -> String {
    fields.iter().find(|(key, _)| key == name).map_or_else(|| "(none)".to_owned(), |(_, value)| value.clone())
}

#[test]
fn precedence_is_source_host_sourcetype_default() {
    let props = resolver(
        "[default]\nTRUNCATE = 1\nMAX_EVENTS = 1\nMAX_DAYS_AGO = 1\nMAX_DAYS_HENCE = 1\n\
         [app]\nTRUNCATE = 2\nMAX_EVENTS = 2\nMAX_DAYS_AGO = 2\n\
         [host::web*]\nTRUNCATE = 3\nMAX_EVENTS = 3\n\
         [source::.../a.log]\nTRUNCATE = 4\n",
    );
    let both = props.resolve("/x/a.log", "WEB1", "app");
    assert_eq!((both.truncate, both.max_events, both.max_days_ago, both.max_days_hence), (4, 3, 2, 1));
    let other = props.resolve("/x/b.log", "db1", "app");
    assert_eq!((other.truncate, other.max_events), (2, 2));
    assert_eq!(props.resolve("/x/b.log", "db1", "unheard").truncate, 1);
}

#[test]
fn stanzas_of_a_kind_are_ordered_by_priority_then_name() {
    let props = resolver(
        "[source::/x/b*]\nTRUNCATE = 1\n[source::/x/*]\nTRUNCATE = 2\n[source::/x/bb]\nTRUNCATE = 3\n\
         [source::/x/*c]\nTRUNCATE = 4\npriority = 7\n[host::h]\nTRUNCATE = 9\npriority = 1000\n",
    );
    let truncate = |source| props.resolve(source, "h", "s").truncate;
    assert_eq!(truncate("/x/ba"), 2, "`/x/*` sorts before `/x/b*`");
    assert_eq!(truncate("/x/bb"), 3, "a plain name has priority 100");
    assert_eq!(truncate("/x/bc"), 4, "its own priority");
    assert_eq!(truncate("/y"), 9);
}

#[test]
fn a_higher_stanza_can_empty_a_setting() {
    let props = resolver("[app]\nTIME_FORMAT = %Y\nEXTRACT-a = (?<a>.)\n[source::s]\nTIME_FORMAT =\nEXTRACT-a =\n");
    assert_eq!(props.resolve("t", "h", "app").time_format.as_deref(), Some("%Y"));
    let emptied = props.resolve("s", "h", "app");
    assert_eq!((emptied.time_format, emptied.extracts.len()), (None, 0));
}

#[test]
fn sources_assign_their_sourcetype() {
    let props = resolver("[source::.../b*]\nsourcetype = x\n[source::.../bb]\nsourcetype = y\npriority = 1\n");
    assert_eq!(props.sourcetype_for_source("/q/ba").as_deref(), Some("x"));
    assert_eq!(props.sourcetype_for_source("/q/bb").as_deref(), Some("y"));
    assert_eq!(props.sourcetype_for_source("/q/c"), None);
}

#[test]
fn well_known_files_have_their_sourcetype() {
    let props = resolver("");
    let of = |source| props.sourcetype_for_source(source).unwrap_or_default();
    assert_eq!(of("/var/log/messages"), "syslog");
    assert_eq!(of("/var/log/syslog.1"), "syslog");
    assert_eq!(of("/var/log/auth.log"), "linux_secure");
    // For these sources, the content may determine a more specific sourcetype than the name.
    for source in
        ["/data/people.csv", "/data/people.tsv", "/data/x.jsonl", "/var/log/nginx/access.log", "/data/access.txt"]
    {
        assert_eq!(of(source), "", "{source}");
    }
    for (stanza, is_sourcetype) in
        [("syslog", true), ("default", false), ("source::.../var/log/(secure|auth.log)(.\\d+)?", false)]
    {
        assert_eq!(props.sourcetypes.contains_key(stanza), is_sourcetype, "{stanza}");
    }
}

#[test]
fn built_in_file_and_table_agree_on_defaults() {
    let bare = PropsResolver::new(&Layers::without_builtin([])).resolve("s", "h", "t");
    assert_eq!(resolver("").resolve("s", "h", "t"), bare);
    assert_eq!((bare.truncate, bare.max_events, bare.max_timestamp_lookahead), (10_000, 256, 128));
    assert_eq!((bare.kv_mode, bare.datetime, bare.auto_kv_json), (KvMode::Auto, DatetimeConfig::Auto, true));
    assert!(bare.should_line_merge && bare.break_only_before_date);
}

#[test]
fn every_pattern_built_in_compiles() {
    let props = resolver("");
    for sourcetype in props.sourcetypes() {
        let settings = props.resolve("s", "h", sourcetype);
        let single = [settings.time_prefix, settings.must_not_break_before, Some(settings.line_breaker)];
        let extracts = settings.extracts.into_iter().map(|rule| rule.pattern);
        for pattern in single.into_iter().flatten().chain(extracts) {
            assert!(Regex::new(&pattern).is_ok(), "{sourcetype}: {pattern}");
        }
    }
}

#[test]
fn values_are_typed() {
    let props = resolver(
        "[a]\nKV_MODE = NONE\nDATETIME_CONFIG = current\nMAX_TIMESTAMP_LOOKAHEAD = -1\nTZ = Europe/Berlin\n\
         FIELD_DELIMITER = tab\n[b]\nINDEXED_EXTRACTIONS = json\nKV_MODE = none\n[c]\nINDEXED_EXTRACTIONS = PSV\n\
         [d]\nINDEXED_EXTRACTIONS = csv\nHEADER_FIELD_DELIMITER = ;\n",
    );
    let of = |sourcetype| props.resolve("s", "h", sourcetype);
    let a = of("a");
    assert_eq!((a.kv_mode, a.datetime, a.max_timestamp_lookahead), (KvMode::None, DatetimeConfig::Current, usize::MAX));
    let delimiter = |settings: &PropsSettings| settings.header.as_ref().map(|header| header.delimiter);
    assert_eq!((a.tz.as_deref(), delimiter(&a)), (Some("Europe/Berlin"), Some('\t')));
    assert_eq!(of("b").kv_mode, KvMode::Json);
    assert_eq!((delimiter(&of("c")), delimiter(&of("d"))), (Some('|'), Some(';')));
}

#[test]
fn extract_rules_name_the_field_they_read() {
    assert_eq!(split_extract("(?<a>.)"), ("(?<a>.)", "_raw"));
    assert_eq!(split_extract("(?<a>.) in uri"), ("(?<a>.)", "uri"));
    assert_eq!(split_extract("x (?<a>logged in .*)"), ("x (?<a>logged in .*)", "_raw"));
    let rules = resolver("[a]\nEXTRACT-z = (?<z>.) in y\nEXTRACT-b = (?<y>.)\n").resolve("s", "h", "a").extracts;
    let read: Vec<_> = rules.iter().map(|rule| (rule.class.as_str(), rule.field.as_str())).collect();
    assert_eq!(read, [("b", "_raw"), ("z", "y")]);
}

#[test]
fn web_access_fields_are_extracted() {
    let event = "10.1.2.3 - ada [03/Mar/2026:14:07:55 +0100] \"GET /shop/cart.do?id=7&n=2 HTTP/1.1\" 200 512 \
                 \"https://shop.example/\" \"Curl/8 (\\\"x\\\")\"";
    let fields = extract("access_combined", event);
    let expected = [
        ("clientip", "10.1.2.3"),
        ("ident", "-"),
        ("user", "ada"),
        ("req_time", "03/Mar/2026:14:07:55 +0100"),
        ("method", "GET"),
        ("uri", "/shop/cart.do?id=7&n=2"),
        ("uri_path", "/shop/cart.do"),
        ("uri_query", "id=7&n=2"),
        ("version", "1.1"),
        ("status", "200"),
        ("bytes", "512"),
        ("referer", "https://shop.example/"),
        ("useragent", "Curl/8 (\\\"x\\\")"),
        ("file", "cart.do"),
    ];
    for (name, value) in expected {
        assert_eq!(field(&fields, name), value, "{name}");
    }
    assert_eq!(field(&extract("access_combined_wcookie", &format!("{event} \"s=1; t=2\"")), "cookie"), "s=1; t=2");
}

#[test]
fn parts_of_a_uri_are_those_of_splunk_in_every_form() {
    // A request line sent to a proxy has an absolute URL, whose domain is a separate field and not part of the path.
    let table = [
        (
            "GET http://shop.example:81/a/b.html?x=http://y/z HTTP/1.1",
            [
                "http://shop.example:81/a/b.html?x=http://y/z",
                "http://shop.example:81",
                "/a/b.html",
                "x=http://y/z",
                "b.html",
            ],
        ),
        (
            "GET http://shop.example HTTP/1.1",
            ["http://shop.example", "http://shop.example", "(none)", "(none)", "(none)"],
        ),
        ("GET http://shop.example/ HTTP/1.1", ["http://shop.example/", "http://shop.example", "/", "(none)", "(none)"]),
        ("GET /a/b?x=1 HTTP/1.1", ["/a/b?x=1", "(none)", "/a/b", "x=1", "b"]),
        ("GET /go?to=http://y/z HTTP/1.1", ["/go?to=http://y/z", "(none)", "/go", "to=http://y/z", "go"]),
        ("CONNECT shop.example:443 HTTP/1.1", ["shop.example:443", "(none)", "shop.example:443", "(none)", "(none)"]),
        ("OPTIONS * HTTP/1.0", ["*", "(none)", "*", "(none)", "(none)"]),
    ];
    for sourcetype in ["access_combined", "access_combined_wcookie", "nginx"] {
        for (request, want) in table {
            let event =
                format!("10.1.2.3 - - [03/Mar/2026:14:07:55 +0100] \"{request}\" 200 5 \"http://r.example/x\" \"-\"");
            let fields = extract(sourcetype, &event);
            let got = ["uri", "uri_domain", "uri_path", "uri_query", "file"].map(|name| field(&fields, name));
            assert_eq!(got, want, "{sourcetype} {request}");
            assert_eq!(field(&fields, "referer_domain"), "http://r.example", "{sourcetype}");
        }
    }
}

#[test]
fn odd_web_requests_keep_their_status() {
    let garbage = extract("access_combined", "10.1.2.3 - - [03/Mar/2026:14:07:55 +0100] \"\\x16\\x03\" 400 -");
    assert_eq!((field(&garbage, "status"), field(&garbage, "bytes")), ("400".to_owned(), "-".to_owned()));
    assert_eq!(field(&garbage, "method"), "(none)");
    let empty = extract("access_combined", "10.1.2.3 - - [03/Mar/2026:14:07:55 +0100] \"\" 408 0 \"-\" \"-\"");
    assert_eq!(field(&empty, "status"), "408");
}

#[test]
fn syslog_process_and_pid_are_extracted() {
    let classic = extract("syslog", "Mar  3 14:07:55 gate sshd[811]: Failed password for root from 10.0.0.1");
    assert_eq!((field(&classic, "process"), field(&classic, "pid")), ("sshd".to_owned(), "811".to_owned()));
    let iso = extract("linux_secure", "2026-03-03T14:07:55.1+01:00 gate sudo: ada : TTY=pts/0 ; COMMAND=/bin/ls");
    assert_eq!((field(&iso, "process"), field(&iso, "pid")), ("sudo".to_owned(), "(none)".to_owned()));
}

#[test]
fn error_and_firewall_fields_are_extracted() {
    let new = "[Tue Mar 03 14:07:55.120 2026] [core:error] [pid 7:tid 9] [client 10.0.0.9:4711] File not found: /x";
    let new = extract("apache_error", new);
    let read = ["module", "severity", "pid", "tid", "clientip", "clientport", "message"].map(|name| field(&new, name));
    assert_eq!(read, ["core", "error", "7", "9", "10.0.0.9", "4711", "File not found: /x"]);
    let old = extract("apache_error", "[Tue Mar 03 14:07:55 2026] [warn] child is slow");
    assert_eq!((field(&old, "severity"), field(&old, "message")), ("warn".to_owned(), "child is slow".to_owned()));
    let asa = "Mar 03 2026 14:07:55 fw1 : %ASA-4-106023: Deny tcp src outside:198.51.100.7/4242 dst dmz:10.0.0.8/22";
    let asa = extract("cisco:asa", asa);
    let read =
        ["message_id", "severity_id", "src_ip", "src_port", "dest_interface", "dest_ip", "dest_port", "transport"];
    let read = read.map(|name| field(&asa, name));
    assert_eq!(read, ["106023", "4", "198.51.100.7", "4242", "dmz", "10.0.0.8", "22", "tcp"]);
}

#[test]
fn fields_of_windows_events_and_java_levels_are_extracted() {
    let event = "03/03/2026 02:07:55 PM\nLogName=Security\nSourceName=Own Service\nEventCode=7\nMessage=Two\nlines";
    let fields = extract("WinEventLog", event);
    assert_eq!(
        (field(&fields, "SourceName"), field(&fields, "Message")),
        ("Own Service".to_owned(), "Two\nlines".to_owned())
    );
    let java = extract("log4j", "2026-03-03 14:07:55,120 [main] WARN a.B - slow\n\tat a.B.c(ERROR)");
    assert_eq!(field(&java, "level"), "WARN");
    // All log levels by which the pipeline recognises this sourcetype are extracted.
    for level in [
        "TRACE", "DEBUG", "FINEST", "FINER", "FINE", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "SEVERE",
        "CRITICAL", "FATAL",
    ] {
        let line = extract("log4j", &format!("2026-03-03 14:07:55.120 2931 {level} nova.compute [-] took 3 s"));
        assert_eq!(field(&line, "level"), level);
    }
}
