//! Records of the Linux audit daemon: system calls, paths and logins of different keys, mixed in one file.
//!
//! Random: the mix of record types, programs, users and paths, which values of a key are quoted and which are a word in
//! parentheses, rule keys, terminals, how often a path is hexadecimal because it contains a blank.

use super::draw::{Pool, address, between, happens, hex, magnitude, noun, service, share, user};
use super::queries::{Field, Query, QuestionList, Roles, word_in_raw};
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;

/// Generator of this shape.
pub(super) struct Audit {
    programs: Pool,
    paths: Pool,
    users: Pool,
    addresses: Pool,
    keys: Pool,
    terminals: Pool,
    calls: Pool,
    paths_share: f64,
    logins_share: f64,
    hexadecimal: f64,
    serial: u64,
}

impl Audit {
    pub(super) fn draw(rng: &mut Rng) -> Audit {
        let paths = Pool::distinct(magnitude(100, 20_000, rng), rng, |rng| {
            let depth = 1 + rng.below(4);
            (0..depth).map(|_| format!("/{}", noun(rng))).collect::<String>() + &format!("/{}", service(rng))
        });
        let keys = (0..magnitude(1, 12, rng)).map(|_| format!("\"{}\"", noun(rng)));
        let keys = keys.chain(["(null)".to_owned()]).collect();
        Audit {
            programs: Pool::distinct(magnitude(10, 400, rng), rng, |rng| service(rng).replace('-', "_")),
            paths,
            users: Pool::distinct(magnitude(20, 900, rng), rng, user),
            addresses: Pool::distinct(magnitude(60, 9_000, rng), rng, |rng| address(false, rng)),
            keys: Pool::new(keys, rng),
            terminals: Pool::of(&["pts0", "pts1", "(none)", "tty1"], rng),
            calls: Pool::of(&["2", "42", "59", "87", "257", "322"], rng),
            paths_share: share(0.1, 0.4, rng),
            logins_share: share(0.05, 0.3, rng),
            hexadecimal: share(0.0, 0.03, rng),
            serial: between(1_000, 900_000, rng),
        }
    }
}

impl Shape for Audit {
    fn name(&self) -> &'static str {
        "audit"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "audit.log", sourcetype: "linux_audit" }]
    }

    fn conf(&self) -> Vec<(&'static str, String)> {
        vec![("props.conf", "[linux_audit]\nEXTRACT-serial = audit\\([\\d.]+:(?<serial>\\d+)\\)\n".to_owned())]
    }

    fn columns(&self) -> Vec<Column> {
        let by = |name, pattern| Column::by_pattern(name, Kind::Text, pattern);
        vec![
            by("type", r"^type=(\S+)"),
            by("success", r" success=(\S+)"),
            by("comm", r#" comm="([^"]*)""#),
            by("exe", r#"[ ']exe="([^"]*)""#),
            Column::by_pattern("code", Kind::Integer, r" exit=(-?\d+)"),
            by("ppid", r" ppid=(\d+)"),
            by("addr", r" addr=(\S+)"),
            by("serial", r"audit\([\d.]+:(\d+)\)"),
            by("acct", r#" acct="([^"]*)""#),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        self.serial += 1 + rng.below(3);
        let head = format!("msg=audit({}.{:03}:{}): ", millis / 1_000, millis % 1_000, self.serial);
        let mut values = vec![Value::Absent; 9];
        values[7] = Value::text(self.serial.to_string());
        let drawn = rng.unit();
        let text = if drawn < self.paths_share {
            values[0] = Value::text("PATH");
            let name = match happens(self.hexadecimal, rng) {
                true => hex(24, rng).to_uppercase(),
                false => format!("\"{}\"", self.paths.pick(rng)),
            };
            format!(
                "type=PATH {head}item={} name={name} inode={} dev=fd:00 mode=0100{} ouid=0 ogid=0 rdev=00:00 nametype={}",
                rng.below(4),
                between(1_000, 9_000_000, rng),
                rng.pick(&["644", "755", "600"]),
                rng.pick(&["NORMAL", "PARENT", "CREATE", "DELETE"]),
            )
        } else if drawn < self.paths_share + self.logins_share {
            let (account, address) = (self.users.pick(rng).to_owned(), self.addresses.pick(rng).to_owned());
            let result = if rng.one_in(3) { "failed" } else { "success" };
            let text = format!(
                "type=USER_AUTH {head}pid={} uid=0 auid=4294967295 ses={} msg='op=PAM:authentication grantors={} acct=\"{account}\" exe=\"/usr/sbin/sshd\" hostname={address} addr={address} terminal=ssh res={result}'",
                between(300, 32_000, rng),
                rng.below(500),
                if result == "failed" { "?" } else { "pam_unix" },
            );
            (values[0], values[3]) = (Value::text("USER_AUTH"), Value::text("/usr/sbin/sshd"));
            (values[6], values[8]) = (Value::Text(address), Value::Text(account));
            text
        } else {
            let (program, success) = (self.programs.pick(rng).to_owned(), !rng.one_in(6));
            let code = if success { rng.below(4) as i64 } else { -13 };
            let parent = between(1, 3_000, rng);
            let text = format!(
                "type=SYSCALL {head}arch=c000003e syscall={} success={} exit={code} a0={} a1={} a2={} a3=0 items={} ppid={parent} pid={} auid={} uid={} gid=0 tty={} ses={} comm=\"{program}\" exe=\"/usr/bin/{program}\" key={}",
                self.calls.pick(rng),
                if success { "yes" } else { "no" },
                hex(8, rng),
                hex(12, rng),
                hex(4, rng),
                rng.below(3),
                between(300, 32_000, rng),
                rng.pick(&["0", "1000", "1001", "4294967295"]),
                rng.pick(&["0", "33", "1000"]),
                self.terminals.pick(rng),
                rng.below(500),
                self.keys.pick(rng),
            );
            (values[0], values[1]) = (Value::text("SYSCALL"), Value::text(if success { "yes" } else { "no" }));
            (values[2], values[3]) = (Value::text(&program), Value::text(format!("/usr/bin/{program}")));
            (values[4], values[5]) = (Value::Integer(code), Value::text(parent.to_string()));
            text
        };
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: "index=main".to_owned(),
            only: "",
            few: Field::same("type"),
            other: Field::same("success"),
            many: Field::same("comm"),
            most: Field::same("ppid"),
            number: Field::new("exit", "code"),
            id: Field::same("serial"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.ask(
            "count by program",
            "stats count by exe success",
            "select exe, success, count(*) from parsed where exe is not null and success is not null group by exe, success",
        );
        questions.find(
            "failed logins",
            "res=failed",
            "stats count by acct",
            "select acct, count(*) from parsed where matches(raw, 'res=failed') group by acct",
        );
        questions.find(
            "keys in quotes",
            "type=SYSCALL key=*",
            "stats dc(key) by success",
            "select success, count(distinct coalesce(part(raw, ' key=\"([^\"]*)\"'), part(raw, ' key=([^\" ]+)'))) from parsed where success is not null group by success",
        );
        let phrase = format!("comm=\"{}\"", samples.value("comm", 11));
        questions.text(
            "phrase",
            &format!("\"comm=\\\"{}\\\"\"", samples.value("comm", 11)),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(&phrase)),
        );
        questions.ask(
            "regex of text",
            "regex _raw=\"exit=-\\d+\" | stats count by comm",
            "select comm, count(*) from parsed where matches(raw, 'exit=-\\d+') group by comm",
        );
        questions.queries()
    }
}
