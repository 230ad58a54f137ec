//! Programs of an app that use protocol version 1 and read all rows from standard input, and programs of `script`.

use crate::support::{Place, RunOutput};

/// Common start of each program: reads the header lines, the empty line and the rows.
const READ: &str = r#"
import csv, sys

def rows_of(stream, with_header=True):
    header = {}
    while with_header:
        line = stream.readline().strip()
        if not line:
            break
        name, _, value = line.partition(":")
        header[name] = value
    return header, list(csv.DictReader(stream))

def write(rows):
    writer = csv.DictWriter(sys.stdout, list(rows[0]) if rows else ["nothing"])
    writer.writeheader()
    writer.writerows(rows)
"#;

/// Name, settings and program of each command.
const COMMANDS: &[(&str, &str, &str)] = &[
    (
        "counts",
        "maxinputs = 3",
        r#"
header, rows = rows_of(sys.stdin)
print("WARN=the search is " + ("known" if header["sid"] else "unknown"))
print()
write([{"rows": len(rows), "arguments": " ".join(sys.argv[1:]), "sum": sum(int(row["n"]) for row in rows)}])
"#,
    ),
    (
        "portion",
        "streaming = true\nenableheader = false",
        r#"
_, rows = rows_of(sys.stdin, False)
for row in rows:
    row["twice"] = int(row["n"]) * 2
write(rows)
"#,
    ),
    (
        "makes",
        "generating = true",
        r#"
rows_of(sys.stdin)
write([{"n": at, "name": "a,\"b\"" } for at in range(int(sys.argv[1]))])
"#,
    ),
    (
        "asked",
        "supports_getinfo = true",
        r#"
if sys.argv[1] == "__GETINFO__":
    print("generating,streaming\n1,0")
    sys.exit(0)
assert sys.argv[1] == "__EXECUTE__"
write([{"argument": sys.argv[2]}])
"#,
    ),
    (
        "fails",
        "",
        r#"
print("cannot do that", file=sys.stderr)
sys.exit(3)
"#,
    ),
    (
        "refuses",
        "",
        r#"
rows_of(sys.stdin)
print("ERROR=no such field\n")
"#,
    ),
];

const ROWS: &str = "| makeresults count=5 | streamstats count AS n | table n";

fn place() -> Place {
    let place = Place::new();
    let app = place.data().join("etc/apps/older");
    std::fs::create_dir_all(app.join("default")).unwrap();
    std::fs::create_dir_all(app.join("bin")).unwrap();
    let mut conf = String::new();
    for (name, settings, program) in COMMANDS {
        conf.push_str(&format!("[{name}]\nfilename = {name}.py\n{settings}\n"));
        std::fs::write(app.join(format!("bin/{name}.py")), format!("{READ}{program}")).unwrap();
    }
    std::fs::write(app.join("default/commands.conf"), conf).unwrap();
    place
}

fn ask(place: &Place, search: &str) -> RunOutput {
    place.run(&["search", search, "-o", "csv"])
}

#[test]
fn rows_pass_through_older_programs() {
    let place = place();
    for (search, expected) in [
        (format!("{ROWS} | counts a=1 \"b c\""), "rows,arguments,sum\n3,a=1 b c,6\n"),
        (format!("{ROWS} | portion | stats sum(twice) AS twice"), "twice\n30\n"),
        ("| makes 2".to_owned(), "n,name\n0,\"a,\"\"b\"\"\"\n1,\"a,\"\"b\"\"\"\n"),
        ("| asked yes".to_owned(), "argument\nyes\n"),
        (format!("{ROWS} | script python counts x"), "rows,arguments,sum\n5,x,15\n"),
        (format!("{ROWS} | where n>9 | run counts"), "rows,arguments,sum\n0,,0\n"),
        ("| script makes 1".to_owned(), "n,name\n0,\"a,\"\"b\"\"\"\n"),
    ] {
        let ran = ask(&place, &search);
        assert_eq!((ran.out.as_str(), ran.code), (expected, 0), "{search}: {}", ran.err);
        let says = search.contains("| counts");
        assert_eq!(ran.err.contains("the search is known") && ran.err.contains("first 3 rows only"), says);
    }
}

#[test]
fn faults_of_older_programs_are_reported() {
    let place = place();
    for (search, expected) in [
        (format!("{ROWS} | fails"), "cannot do that"),
        (format!("{ROWS} | fails"), "exit status: 3"),
        (format!("{ROWS} | refuses"), "no such field"),
        (format!("{ROWS} | script python nowhere"), "no app has a program nowhere"),
        (format!("{ROWS} | script ../counts"), "give the name of a file"),
        (format!("{ROWS} | script perl"), "name a program"),
        (format!("{ROWS} | makes 1"), "must be the first command"),
    ] {
        let ran = ask(&place, &search);
        assert_ne!(ran.code, 0, "{search}: {}", ran.out);
        assert!(ran.err.contains(expected), "{search}: {}", ran.err);
    }
}
