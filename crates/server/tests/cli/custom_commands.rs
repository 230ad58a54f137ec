//! Custom search commands of an app: their input and output, and their restrictions.

use crate::support::{Place, RunOutput};

/// The protocol, as an app would implement it.
const WIRE: &str = r#"
import csv, io, json, re, sys

def read():
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    meta, body = map(int, re.match(rb"chunked 1\.0,(\d+),(\d+)\n", line).groups())
    meta = json.loads(sys.stdin.buffer.read(meta))
    return meta, list(csv.DictReader(io.StringIO(sys.stdin.buffer.read(body).decode(), newline="")))

def write(meta, rows=()):
    out = io.StringIO(newline="")
    if rows:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    meta, body = json.dumps(meta).encode(), out.getvalue().encode()
    sys.stdout.buffer.write(b"chunked 1.0,%d,%d\n" % (len(meta), len(body)) + meta + body)
    sys.stdout.buffer.flush()
"#;

/// Name, settings and program of each command.
const COMMANDS: &[(&str, &str, &str)] = &[
    (
        "double",
        "",
        r#"
info, _ = read()
field = info["searchinfo"]["args"][0].split("=", 1)[1]
write({"type": "streaming"})
finished = False
while not finished:
    meta, rows = read()
    finished = meta["finished"]
    for row in rows:
        row["doubled"] = float(row[field]) * 2 if row[field] else ""
    write({"finished": finished, "inspector": {"messages": [["INFO", "doubled " + field]]}}, rows)
"#,
    ),
    (
        "count_up",
        "",
        r#"
info, _ = read()
last = int(info["searchinfo"]["args"][0])
write({"type": "streaming", "generating": True})
for first in range(0, last, 2):
    read()
    rows = [{"_time": 1795132800 + at, "n": at, "__mv_tags": "$a$;$b$$%d$" % at, "tags": "x"} for at in range(first, min(first + 2, last))]
    write({"finished": first + 2 >= last}, rows)
"#,
    ),
    (
        "total",
        "",
        r#"
info, _ = read()
write({"type": "reporting", "required_fields": ["n"], "streaming_preop": "double field=n"})
total, seen, finished = 0, set(), False
while not finished:
    meta, rows = read()
    finished = meta["finished"]
    for row in rows:
        total += float(row["n"])
        seen |= set(row)
    write({"finished": finished}, [{"total": total, "seen": " ".join(sorted(seen))}] if finished else [])
"#,
    ),
    (
        "chunks",
        "",
        r#"
read()
write({"type": "events"})
meta, rows = read()
write({"finished": True}, [{"rows": len(rows), "finished": meta["finished"]}])
"#,
    ),
    (
        "first_row",
        "",
        "read()\nwrite({\"type\": \"stateful\"})\n_, rows = read()\nwrite({\"finished\": True}, rows[:1])\n",
    ),
    ("refuse", "", "read()\nwrite({\"type\": \"streaming\", \"error\": \"give me a field\"})\nread()\n"),
    ("silent", "maxwait = 1\n", "read()\nread()\n"),
    ("stubborn", "maxwait = 1\n", "import subprocess\nsubprocess.run([\"sleep\", \"600\"])\n"),
    ("broken", "", "read()\nraise ValueError(\"no such thing\")\n"),
    ("babble", "", "print(\"hello there\")\n"),
    ("greedy", "", "read()\nblock = bytearray(5 << 30)\nwrite({\"type\": \"streaming\"})\n"),
    ("verbose", "maxchunksize = 1000\n", "read()\nwrite({\"type\": \"streaming\", \"text\": \"x\" * 2000})\n"),
];

fn place() -> Place {
    let place = Place::new();
    let app = place.data().join("etc/apps/shop");
    std::fs::create_dir_all(app.join("bin")).unwrap();
    std::fs::create_dir_all(app.join("default")).unwrap();
    let mut conf = String::new();
    for (name, settings, program) in COMMANDS {
        conf.push_str(&format!(
            "[{name}]\nchunked = true\nfilename = {name}.py\npython.version = python3\n{settings}\n"
        ));
        std::fs::write(app.join(format!("bin/{name}.py")), format!("{WIRE}{program}")).unwrap();
    }
    conf.push_str("[old]\nfilename = old.py\n[gone]\nchunked = true\n");
    std::fs::write(app.join("default/commands.conf"), conf).unwrap();
    place
}

fn ask(place: &Place, search: &str) -> RunOutput {
    place.run(&["search", search, "-o", "csv"])
}

const ROWS: &str = "| makeresults count=3 | streamstats count AS n | table n";

#[test]
fn rows_pass_through_commands_of_an_app() {
    let place = place();
    let ran = ask(&place, &format!("{ROWS} | double field=n | where doubled>2"));
    assert_eq!((ran.code, ran.out.as_str()), (0, "n,doubled\n2,4.0\n3,6.0\n"), "{ran:?}");
    assert!(ran.err.contains("note: double: doubled n"), "{ran:?}");
    let ran = ask(&place, "| count_up 5 | eval t=strftime(_time, \"%S\"), last=mvindex(tags, -1) | table n t last");
    assert_eq!(ran.out, "n,t,last\n0,00,b$0\n1,01,b$1\n2,02,b$2\n3,03,b$3\n4,04,b$4\n", "{ran:?}");
    let rows = "| makeresults count=20000 | streamstats count AS n | table n";
    let ran = ask(&place, &format!("{rows} | chunks"));
    assert_eq!(ran.out, "rows,finished\n20000,True\n", "{ran:?}");
    let ran = ask(&place, &format!("{ROWS} | total | eval more=total+1"));
    assert_eq!(ran.out, "total,seen,more\n6.0,n,7\n", "{ran:?}");
    assert_eq!(ask(&place, &format!("{ROWS} | first_row")).expect_success(), "n\n1\n");
    let ran = ask(&place, &format!("{ROWS} | append [| count_up 2 | double field=n] | stats sum(n) sum(doubled)"));
    assert_eq!(ran.out, "sum(n),sum(doubled)\n7,2\n", "{ran:?}");
    let ran = ask(&place, &format!("{ROWS} | appendpipe [double field=n] | stats count sum(doubled)"));
    assert_eq!(ran.out, "count,sum(doubled)\n6,12\n", "{ran:?}");
    assert_eq!(ask(&place, "| count_up 100000 | head 3 | stats count").expect_success(), "count\n3\n");
}

#[test]
fn commands_of_an_app_run_inside_map_and_foreach() {
    let place = place();
    let ran =
        ask(&place, &format!("{ROWS} | map search=\"| count_up $n$ | double field=n\" | stats count sum(doubled)"));
    assert_eq!(ran.out, "count,sum(doubled)\n6,8\n", "{ran:?}");
    let ran = ask(&place, &format!("{ROWS} | foreach n [double field=<<FIELD>> | eval more=doubled+1]"));
    assert_eq!(ran.out, "n,doubled,more\n1,2.0,3\n2,4.0,5\n3,6.0,7\n", "{ran:?}");
    let ran = ask(&place, "| makeresults | eval n=1 | search [| count_up 2 | table n] | stats count");
    assert_eq!(ran.out, "count\n1\n", "{ran:?}");
}

#[test]
fn errors_of_programs_fail_the_search() {
    let place = place();
    for (search, words) in [
        (format!("{ROWS} | refuse"), "refuse: give me a field"),
        (format!("{ROWS} | broken"), "ValueError: no such thing"),
        (format!("{ROWS} | babble"), "answered with \"hello there\" instead of a chunk"),
        (format!("{ROWS} | silent"), "did not answer within the limit of 1 seconds (maxwait)"),
        (format!("{ROWS} | stubborn"), "did not answer within the limit of 1 seconds (maxwait)"),
        (format!("{ROWS} | greedy"), "MemoryError"),
        (format!("{ROWS} | verbose"), "the limit is 1000 (maxchunksize)"),
        (format!("{ROWS} | count_up 3"), "it generates rows and must be the first command"),
        ("| double field=n".to_owned(), "it processes rows and cannot be the first command"),
        (format!("{ROWS} | old"), "old.py: there is no such file"),
        (format!("{ROWS} | gone"), "there is no such file"),
        (format!("{ROWS} | dooble field=n"), "unknown command"),
    ] {
        let ran = ask(&place, &search);
        assert_eq!(ran.code, 3, "{search}: {ran:?}");
        assert!(ran.err.contains(words), "{search}: {words} is not in {ran:?}");
    }
}
