//! Fields that a rule extracts from another field: the same in each state of the storage.

use super::check_matches;

const PROPS: &str = r"
[app]
EXTRACT-first = ^(?<first>..) in user
[members]
EXTRACT-level = (?<level>[a-z]+)$ in id
";

/// JSON events in which most members are optional. The one without `level` has an `id` that ends with a letter.
const MEMBERS: &str = r#"
{"ts":"2026-11-28 00:00:07.000","path":"/p","ip":"i","msg":"m","id":"ba50888a","level":"warn","code":"404"}
{"ts":"2026-11-28 00:00:03.000","level":"warn","path":"/p","code":404.0,"ip":"i","msg":"m","id":"4cce00cc"}
{"ts":"2026-11-28 00:00:06.000","msg":"m","ip":"i","path":"/p","user":"u","level":"ERROR","code":500.0,"id":"10e2cb21"}
{"ts":"2026-11-28 00:00:02.000","level":"INFO","path":"/p","code":200.0,"id":"33ac1a99"}
{"ts":"2026-11-28 00:00:06.000","user":"u","msg":"m","id":"3228a624","level":"warn","code":500.0,"path":"/p","ip":"i"}
{"ts":"2026-11-28 00:00:07.000","code":"","level":"INFO","ip":"i","path":"/p","id":"663a1717","msg":"m"}
{"ts":"2026-11-28 00:00:01.000","level":"warn","path":"/p","code":"007","ip":"i","msg":"m","id":"cb074d4e"}
{"ts":"2026-11-28 00:00:08.000","ip":"i","id":"531cace9","code":"007","user":"u","level":"ERROR","msg":"m","path":"/p"}
{"ts":"2026-11-28 00:00:09.000","level":"ERROR","user":"u","path":"/p","code":12.5,"ip":"i","msg":"m"}
{"ts":"2026-11-28 00:00:07.000","level":"INFO","user":"u","path":"/p","code":"200","msg":"m","id":"7e6778e3"}
{"ts":"2026-11-28 00:00:05.000","level":"INFO","code":"500","id":"d4036ee3"}
{"ts":"2026-11-28 00:00:02.000","level":"warn","ip":"i","code":"500","user":"u","path":"/p","msg":"m","id":"296b2932"}
{"ts":"2026-11-28 00:00:00.000","level":"ERROR","user":"u","code":"007","ip":"i","id":"be7e616d"}
{"ts":"2026-11-28 00:00:08.000","code":500.0,"ip":"i","path":"/p","msg":"m","user":"u","level":"warn","id":"3f34dd55"}
{"ts":"2026-11-28 00:00:00.000","path":"/p","code":"404","ip":"i","msg":"m","id":"f06c8c7f"}
{"ts":"2026-11-28 00:00:01.000","level":"warn","code":"","ip":"i","id":"526a889c"}
{"ts":"2026-11-28 00:00:02.000","level":"warn","user":"u","path":"/p","code":"12.5","ip":"i","msg":"m","id":"b6923352"}
{"ts":"2026-11-28 00:00:03.000","msg":"m","path":"/p","ip":"i","code":404.0,"id":"751de330","level":"ERROR","user":"u"}
{"ts":"2026-11-28 00:00:05.000","level":"INFO","path":"/p","id":"564a14a7","msg":"m","code":"200","ip":"i","user":"u"}
{"ts":"2026-11-28 00:00:00.000","level":"ERROR","user":"u","path":"/p","code":"12.5","ip":"i","id":"f0e19ec9"}
{"ts":"2026-11-28 00:00:05.000","user":"u","id":"ddc535a2","ip":"i","level":"warn","code":12.5,"msg":"m","path":"/p"}
{"ts":"2026-11-28 00:00:02.000","user":"u","path":"/p","id":"f733687b","msg":"m","ip":"i","code":"404","level":"INFO"}
{"ts":"2026-11-28 00:00:01.000","code":200.0,"msg":"m","user":"u","level":"INFO","id":"3b2c4f87","ip":"i","path":"/p"}
{"ts":"2026-11-28 00:00:05.000","level":"warn","user":"u","path":"/p","code":500.0,"ip":"i","msg":"m","id":"736ff731"}
{"ts":"2026-11-28 00:00:03.000","level":"ERROR","code":"","msg":"m","id":"8acf5051"}
"#;

#[test]
fn a_rule_applies_to_the_events_of_its_sourcetype() {
    let event = |row: usize| {
        let user = ["alice", "bob", "carol"][row % 3];
        (["app", "other"][row % 2], format!("id={row} user={user} path=/p{row}"))
    };
    let expected = [("* | where first=\"al\"", 34), ("first=al", 34), ("* | where isnotnull(first)", 100)];
    check_matches(PROPS, &(0..200).map(event).collect::<Vec<_>>(), &expected);
}

#[test]
fn a_rule_applies_where_an_optional_member_is_missing() {
    let events: Vec<_> =
        MEMBERS.lines().filter(|text| !text.is_empty()).map(|text| ("members", text.to_owned())).collect();
    let expected =
        [("* | where level=\"f\"", 1), ("level=f", 1), ("* | where isnotnull(level)", 25), ("level=warn", 10)];
    check_matches(PROPS, &events, &expected);
}
