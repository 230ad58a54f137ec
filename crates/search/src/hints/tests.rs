//! Hints for searches over a node that answers probes from a table.

use std::collections::BTreeSet;

use super::indexes::DEFAULT_INDEXES_COUNT;
use super::*;

fn row(cells: &[(&str, &str)]) -> HintRow {
    cells.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Hints for a search over a node with two indexes, a sourcetype, a host and some fields.
fn hint_texts(text: &str, rows: usize, empty: &[&str]) -> Vec<String> {
    let empty: Vec<String> = empty.iter().map(|name| (*name).to_owned()).collect();
    let mut ask = |search: &str| {
        let rows = if search.starts_with("| eventcount") {
            vec![row(&[("index", "main"), ("count", "5")]), row(&[("index", "web"), ("count", "9")])]
        } else if search.starts_with("| metadata type=hosts") {
            vec![row(&[("host", "web-1"), ("totalCount", "9")])]
        } else if search.starts_with("| metadata") {
            vec![row(&[("sourcetype", "access"), ("totalCount", "9")])]
        } else if search.contains("lower('user')=\"eva\"") {
            vec![row(&[("user", "EVA")])]
        } else if search.contains("lower(")
            || search.contains("TERM(")
            || search.contains("(host=web1)")
            || (search.contains("nosuch") && !search.contains("*nosuch*") && !search.contains("OR error"))
        {
            Vec::new()
        } else {
            ["status", "user", "host", "sourcetype", "date_hour"].iter().map(|name| row(&[("field", name)])).collect()
        };
        Some(rows)
    };
    let filled = BTreeSet::from(["host".to_owned(), "count".to_owned()]);
    hints(
        &SearchOutcome {
            text,
            rows,
            empty: &empty,
            filled: &filled,
            zeros: &BTreeSet::new(),
            now: 0,
            offset_s: 0,
            has_range: false,
            is_watched: true,
            is_filtered: false,
        },
        &mut ask,
    )
    .iter()
    .map(|remark| remark.to_one_line(text))
    .collect()
}

#[test]
fn values_that_no_event_has_are_explained() {
    for (text, says) in [
        ("host=wbe-1 error", "no event has the host `wbe-1` (character 6); did you mean `web-1`?"),
        (
            "error | where user=\"Eva\"",
            "no value of `user` is written `Eva` (character 20: `\"Eva\"`); `where` compares case-sensitively: write user=\"EVA\", \
             or `| search user=\"Eva\"`",
        ),
        (
            "error | where user=anna",
            "no event that was looked at has a field `anna` (character 20); a name without quotes is a field here: \
             write \"anna\" for the text",
        ),
    ] {
        assert_eq!(hint_texts(text, 0, &[]), [says], "{text}");
    }
    assert_eq!(hint_texts("host=web-1 error | where user=\"tom\"", 0, &[]), Vec::<String>::new());
}

#[test]
fn absent_words_are_reported_before_fields() {
    for text in ["error nosuch | table statu", "error nosuch"] {
        let says = "no event contains the word `nosuch` (character 7); words are matched whole: write *nosuch* for a part of a word";
        assert_eq!(hint_texts(text, 0, &[]), [says], "{text}");
    }
    assert_eq!(hint_texts("\"nosuch\" error", 0, &[]), ["no event contains `nosuch`"]);
    let either = "no event contains the word `nosuch` or `nosuch2` (character 8: `nosuch OR nosuch2`); words are matched whole: write *nosuch* OR *nosuch2* for a part of a word";
    assert_eq!(hint_texts("error (nosuch OR nosuch2)", 0, &[]), [either]);
    assert_eq!(hint_texts("nosuch OR error", 0, &[]), Vec::<String>::new());
    assert_eq!(hint_texts("bnosuch*", 0, &[]), ["no event contains `bnosuch*`"]);
    for word in ["1.2.3.4", "host=web1"] {
        let part = hint_texts(&format!("TERM({word}) error"), 0, &[]);
        let says = format!("events contain `{word}` only as a part of a term");
        assert!(part.len() == 1 && part[0].starts_with(&says), "{part:?}");
    }
}

#[test]
fn unknown_names_are_reported_with_similar_ones() {
    let table: [(&str, usize, &[&str], &[&str]); 13] = [
        ("index=maim error", 0, &[], &["there is no index `maim` (character 7); did you mean `main`?"]),
        ("index=foo error", 3, &[], &["there is no index `foo` (character 7); existing indexes: main, web"]),
        ("index=we* error", 0, &[], &[]),
        ("sourcetype=acess x", 0, &[], &["no event has the sourcetype `acess` (character 12); did you mean `access`?"]),
        (
            "* | stats count by statu",
            0,
            &[],
            &["no event that was looked at has a field `statu` (character 20); did you mean `status`?"],
        ),
        (
            "* | stats avg(Status) by host",
            2,
            &["avg(Status)"],
            &[
                "no event that was looked at has a field `Status` (character 15); names of fields are case-sensitive: did you mean `status`?",
            ],
        ),
        ("usr=anna", 0, &[], &["no event that was looked at has a field `usr` (character 1); did you mean `user`?"]),
        (
            "* | stats count by nothing",
            0,
            &[],
            &["no event that was looked at has a field `nothing` (character 20); existing fields: host, status, user"],
        ),
        (
            "* | stats count by sourcetyp",
            0,
            &[],
            &["no event that was looked at has a field `sourcetyp` (character 20); did you mean `sourcetype`?"],
        ),
        ("* | rex \"(?<statu>\\d+)\" | stats count by statu", 0, &[], &[]),
        ("* | eval statu=1 | where statu=2", 0, &[], &[]),
        ("* | lookup t host | where statu=2", 0, &[], &[]),
        ("status=500 | stats count by user", 4, &[], &[]),
    ];
    for (text, rows, empty, want) in table {
        assert_eq!(hint_texts(text, rows, empty), want, "{text}");
    }
}

#[test]
fn misspelt_fields_are_reported_for_every_command() {
    // Events have the fields `status`, `user`, `host`, `sourcetype` and `date_hour`.
    for (text, rows) in [
        ("* | sort -statu", 2),
        ("* | sort -statu | table _time user", 2),
        ("* | timechart count by statu", 2),
        ("* | chart count over host by statu", 2),
        ("* | chart sum(statu) over host", 2),
        ("* | eventstats count by statu", 2),
        ("* | streamstats count by statu", 2),
        ("* | transaction statu", 0),
        ("* | transaction statu | table user", 0),
        ("* | rex field=statu \"(?<a>.)\"", 2),
        ("* | rex field=statu \"(?<a>.)\" | table a", 2),
        ("* | stats count by statu", 0),
        ("* | stats sum(statu) AS s by host", 2),
        ("* | dedup statu", 0),
        ("* | top statu", 0),
        ("* | rare statu by host", 0),
        ("* | where statu=200", 0),
        ("* | where statu>200 | stats count by user", 0),
        ("* | search statu=200", 0),
        ("statu=200", 0),
        ("* | regex statu=\"2..\"", 0),
        ("* | eval x=statu*2", 2),
        ("* | eval x=if(statu=\"a\", 1, 2) | stats count by x", 1),
        ("* | bin statu span=10", 2),
        ("* | mvexpand statu", 2),
        ("* | makemv statu", 2),
        ("* | lookup t code AS statu OUTPUT word", 2),
        ("* | table statu", 2),
        ("* | rename statu AS s | table s", 2),
        ("* | rex \"(?<a>.)\" | eval b=a | sort statu", 2),
        ("* | fieldformat statu=statu.\"%\"", 2),
    ] {
        let said = hint_texts(text, rows, &[]);
        let place = text.find("statu").map(|at| at + 1).unwrap_or_default();
        let says =
            format!("no event that was looked at has a field `statu` (character {place}); did you mean `status`?");
        assert_eq!(said, [says], "{text}");
    }
}

#[test]
fn fields_removed_by_a_report_are_reported() {
    for (text, said_of) in [
        ("* | stats count by user | where status=200", ("stats", "status", "existing fields: count, user")),
        ("* | stats count by user | table user cuont", ("stats", "cuont", "did you mean `count`?")),
        ("* | stats count by user | sort -cuont", ("stats", "cuont", "did you mean `count`?")),
        ("* | stats count by user | eval x=cuont*2", ("stats", "cuont", "did you mean `count`?")),
        ("* | stats sum(a) AS total by user | eval b=1 | where totl>1", ("stats", "totl", "did you mean `total`?")),
        ("* | top user | where cnt>5", ("top", "cnt", "existing fields: user, count, percent")),
        ("* | table user host | stats count by status", ("table", "status", "existing fields: user, host")),
        ("* | fields user host | dedup status", ("fields", "status", "existing fields: user, host")),
        ("* | timechart count | where status=1", ("timechart", "status", "existing fields: count, _time")),
        ("* | chart count over host | sort user", ("chart", "user", "existing fields: count, host")),
        ("* | rare user | rename counts AS n", ("rare", "counts", "did you mean `count`?")),
        ("| makeresults | stats count AS n | table m", ("stats", "m", "did you mean `n`?")),
        ("* | rename user AS u | stats count by user", ("rename", "user", "it is called `u` there")),
        ("* | fields - user, host | stats count by user", ("fields", "user", "`fields -` removes it")),
        ("* | rename user AS u | where isnotnull(u) | table host user", ("rename", "user", "it is called `u` there")),
    ] {
        let (command, name, hint) = said_of;
        let at = text.rfind(name).unwrap_or_default() + 1;
        let want = format!("after `{command}` there is no field `{name}` (character {at}); {hint}");
        assert_eq!(hint_texts(text, 2, &[]), [want], "{text}");
    }
}

#[test]
fn possible_fields_are_not_reported() {
    for (text, rows) in [
        ("* | rex \"(?<statu>.)\" | sort statu", 2),
        ("* | eval statu=1 | timechart count by statu", 2),
        ("* | lookup t host | sort statu", 2),
        ("* | lookup t host OUTPUT statu | sort statu", 2),
        ("* | spath | sort statu", 2),
        ("* | extract | stats count by statu", 0),
        ("* | eval x_{host}=1 | sort statu", 2),
        ("* | fillnull value=0 statu | stats sum(statu)", 1),
        ("* | eval u=coalesce(usr, user) | stats count by u", 2),
        ("* | where isnull(statu)", 2),
        ("* | search NOT statu=5", 2),
        ("* | search statu=5 OR status=5", 2),
        ("* | search statu=5", 2),
        ("usr=eva OR user=eva", 2),
        ("* | foreach a b [eval statu=1] | sort statu", 2),
        ("* | stats count by host | appendcols [search a] | sort status", 2),
        ("* | stats count by host | append [search a] | sort status", 2),
        ("* | stats count by host | join host [search a] | table statu", 2),
        ("* | stats values(*) AS * by host | table statu", 2),
        ("* | chart count over host by user | table host statu", 2),
        ("* | timechart count by user | fields - statu", 2),
        ("* | rename status AS code | sort code", 2),
        ("* | rename status AS user, user AS status | sort user", 2),
        ("* | rename user AS u | eval user=1 | sort user", 2),
        ("* | fields - user | rex \"(?<user>.)\" | sort user", 2),
        ("* | stats count by host | rename count AS n | sort n", 2),
        ("* | stats count by host | eventstats sum(count) AS all | eval share=count/all | sort share", 2),
        ("* | transaction user | where duration>5 AND eventcount>2", 2),
        ("* | fields - statu", 2),
        ("* | table stat*", 2),
        ("* | sort -date_hour punct", 2),
        ("* | mine statu", 2),
    ] {
        assert_eq!(hint_texts(text, rows, &[]), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn empty_ranges_and_fields_of_other_sourcetypes_are_reported() {
    let mut ask = |search: &str| {
        let rows = match search {
            _ if search.starts_with("| eventcount") => vec![row(&[("index", "main"), ("count", "9")])],
            _ if search.starts_with("| metadata") => vec![row(&[("sourcetype", "access"), ("totalCount", "9")])],
            _ if search.starts_with("| tstats count WHERE") && search.contains("earliest=\"-") => {
                vec![row(&[("count", if search.contains("-7d") { "0" } else { "9" })])]
            }
            _ if search.starts_with("| tstats") => vec![row(&[("count", "9"), ("first", "A"), ("last", "Z")])],
            _ if search.starts_with("failed") => vec![row(&[("field", "host")])],
            _ if search.starts_with("nothing") => Vec::new(),
            _ => vec![row(&[("field", "user")])],
        };
        Some(rows)
    };
    let table = [
        (
            "error earliest=-7d",
            false,
            "no event lies in the time range of the search (character 16: `-7d`); events go from A to Z: change earliest= or latest=",
        ),
        ("error earliest=-8d", true, ""),
        (
            "error earliest=-1h latest=-2h",
            false,
            "earliest=-1h is after latest=-2h: no event lies between them (character 16); swap them",
        ),
        (
            "failed | stats count by user",
            false,
            "none of the newest events that are found has the field `user` (character 25); other events have it; to extract it from the events found, use `rex`",
        ),
        ("nothing | stats count by user", false, ""),
    ];
    for (text, has_range, said) in table {
        let filled = BTreeSet::new();
        let found = hints(
            &SearchOutcome {
                text,
                rows: 0,
                empty: &[],
                filled: &filled,
                zeros: &BTreeSet::new(),
                now: 0,
                offset_s: 0,
                has_range,
                is_watched: true,
                is_filtered: false,
            },
            &mut ask,
        );
        assert_eq!(found.first().map(|remark| remark.to_one_line(text)).unwrap_or_default(), said, "{text}");
    }
}

#[test]
fn events_in_another_index_are_pointed_at() {
    let by_default = std::cell::Cell::new("0");
    let mut ask = |search: &str| match search {
        DEFAULT_INDEXES_COUNT => Some(vec![row(&[("count", by_default.get())])]),
        _ => search.starts_with("| eventcount").then(|| vec![row(&[("index", "web"), ("count", "9")])]),
    };
    let text = "error";
    let filled = BTreeSet::new();
    let found = hints(
        &SearchOutcome {
            text,
            rows: 0,
            empty: &[],
            filled: &filled,
            zeros: &BTreeSet::new(),
            now: 0,
            offset_s: 0,
            has_range: false,
            is_watched: true,
            is_filtered: false,
        },
        &mut ask,
    );
    assert_eq!(found[0].hint.as_deref(), Some("events are in web: write index=web"));
    let all = SearchOutcome {
        text: "index=* error",
        rows: 0,
        empty: &[],
        filled: &filled,
        zeros: &BTreeSet::new(),
        now: 0,
        offset_s: 0,
        has_range: true,
        is_watched: true,
        is_filtered: false,
    };
    assert!(hints(&all, &mut ask).is_empty());
    by_default.set("9");
    let of_role = SearchOutcome { text, has_range: false, ..all };
    assert!(hints(&of_role, &mut ask).iter().all(|note| !note.message.contains("names no index")));
    let of_filter = SearchOutcome { text: "index=web error", is_filtered: true, ..all };
    let notes = hints(&of_filter, &mut ask);
    assert_eq!(notes.iter().map(|note| note.message.as_str()).collect::<Vec<_>>(), [FILTERED]);
}

#[test]
fn complete_answers_need_no_probes() {
    let filled = BTreeSet::from(["count".to_owned()]);
    let found = SearchOutcome {
        text: "* | stats count by statu",
        rows: 3,
        empty: &[],
        filled: &filled,
        zeros: &BTreeSet::new(),
        now: 0,
        offset_s: 0,
        has_range: false,
        is_watched: false,
        is_filtered: false,
    };
    let mut asked = Vec::new();
    hints(&found, &mut |search: &str| {
        asked.push(search.to_owned());
        None
    });
    assert!(asked.is_empty(), "{asked:?}");
}

#[test]
fn a_list_of_thousands_of_values_costs_few_searches_and_few_notes() {
    let values: Vec<String> = (0..5_000).map(|at| format!("x{at}")).collect();
    let values = values.join(",");
    for text in [
        format!("status IN ({values})"),
        format!("host IN ({values})"),
        format!("sourcetype IN ({values})"),
        format!("index IN ({values})"),
        values.replace("x", "host=y").replace(',', " OR "),
        values.replace(',', " OR "),
        format!("error | search user IN ({values})"),
    ] {
        let mut asked = 0;
        let mut ask = |search: &str| {
            asked += 1;
            Some(match search.starts_with("| eventcount") {
                true => vec![row(&[("index", "main"), ("count", "5")])],
                false if search.starts_with("| metadata type=hosts") => {
                    vec![row(&[("host", "a"), ("totalCount", "9")])]
                }
                false if search.starts_with("| metadata") => vec![row(&[("sourcetype", "a"), ("totalCount", "9")])],
                false if search.contains("top limit") => vec![row(&[("status", "404"), ("user", "eva")])],
                false => Vec::new(),
            })
        };
        let found = SearchOutcome {
            text: &text,
            rows: 0,
            empty: &[],
            filled: &BTreeSet::new(),
            zeros: &BTreeSet::new(),
            now: 0,
            offset_s: 0,
            has_range: false,
            is_watched: true,
            is_filtered: false,
        };
        let notes = hints(&found, &mut ask);
        assert!(notes.len() <= NOTES_MAX, "{} notes on {}", notes.len(), &text[..40]);
        assert!(asked <= PROBES_MAX, "{asked} searches for {}", &text[..40]);
    }
}

#[test]
fn fields_of_negations_and_subsearches_are_checked() {
    for (text, says) in [
        ("* NOT usre=eva", Some("no event that was looked at has a field `usre` (character 7); did you mean `user`?")),
        ("* NOT user=eva", None),
        ("* NOT nosuch=1", None),
        ("* user=eva NOT user=tom", None),
        (
            "* | append [search * | stats count by usre]",
            Some("no event that was looked at has a field `usre` (character 39); did you mean `user`?"),
        ),
        (
            "* | join user [search usre=1 | fields user]",
            Some("no event that was looked at has a field `usre` (character 23); did you mean `user`?"),
        ),
        (
            "* | append [search * | stats count by user | where usr=1]",
            Some("after `stats` there is no field `usr` (character 52); did you mean `user`?"),
        ),
        ("* | append [search * | stats count by user]", None),
        ("* | append [search * | stats count by something]", None),
    ] {
        assert_eq!(hint_texts(text, 5, &[]), Vec::from_iter(says.map(str::to_owned)), "{text}");
    }
}

#[test]
fn fields_removed_or_renamed_by_wildcards_are_missing() {
    for (text, says) in [
        (
            "* | fields - st* | stats count by status",
            "after `fields` there is no field `status` (character 35); `fields -` removes it",
        ),
        (
            "* | rename st* AS x_* | stats count by status",
            "after `rename` there is no field `status` (character 40); it is called `x_atus` there",
        ),
    ] {
        assert_eq!(hint_texts(text, 0, &[]), [says], "{text}");
    }
    for text in ["* | rename sta* AS *s | stats count by tus", "* | fields - s*t | stats count by status"] {
        assert!(!hint_texts(text, 0, &[]).iter().any(|note| note.starts_with("after `")), "{text}");
    }
}
