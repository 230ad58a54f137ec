//! Access log of a caching proxy, whose fields one hand-written pattern extracts from the whole line.
//!
//! Random: the width to which times are padded, whether clients have ports, domains and paths, users and how many are
//! anonymous, which results there are, how often a line names a second proxy. The pattern has optional, nested and
//! adjacent groups, as administrators write them; its fields have no names in the text.

use super::draw::{Pool, address, between, happens, magnitude, noun, service, share, user};
use super::queries::{Field, Query, QuestionList, Roles};
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;

const PATTERN: &str = r"^\S+\s+(?<elapsed>\d+) (?<client>[\d.]+)(?::(?<port>\d+))? (?<result>[A-Z_]+)/(?<status>\d+) (?<bytes>\d+) (?<method>[A-Z]+) (?<url>(?:\w+://)?(?<domain>[^/: ]+)\S*) (?<user>\S+) (?<route>[A-Z_]+)/(?<peer>\S+) (?<mime>\S+)(?: via (?<via>\w+):)? conn 0x(?<conn>[0-9a-f]+)$";

/// Generator of this shape.
pub(super) struct Proxy {
    clients: Pool,
    domains: Pool,
    paths: Pool,
    users: Pool,
    results: Pool,
    statuses: Pool,
    methods: Pool,
    peers: Pool,
    mimes: Pool,
    others: Pool,
    width: usize,
    has_port: bool,
    anonymous: f64,
    has_query: f64,
    has_via: f64,
    typical_bytes: f64,
    typical_millis: f64,
}

impl Proxy {
    pub(super) fn draw(rng: &mut Rng) -> Proxy {
        let domain = |rng: &mut Rng| match rng.below(3) {
            0 => format!("{}.{}.net", noun(rng), service(rng)),
            1 => format!("www.{}{}.example", noun(rng), noun(rng)),
            _ => format!("{}.org", service(rng)),
        };
        let path = |rng: &mut Rng| match rng.below(3) {
            0 => format!("/{}/{}", noun(rng), rng.below(9_000)),
            1 => format!("/{}.{}", noun(rng), ["js", "png", "html"][rng.below(3) as usize]),
            _ => format!("/{}/{}/", noun(rng), noun(rng)),
        };
        Proxy {
            clients: Pool::distinct(magnitude(100, 20_000, rng), rng, |rng| address(true, rng)),
            domains: Pool::distinct(magnitude(40, 2_000, rng), rng, domain),
            paths: Pool::distinct(magnitude(100, 5_000, rng), rng, path),
            users: Pool::distinct(magnitude(10, 800, rng), rng, user),
            results: Pool::of(&["TCP_MISS", "TCP_HIT", "TCP_TUNNEL", "TCP_DENIED", "TCP_REFRESH_MODIFIED"], rng),
            statuses: Pool::of(&["200", "304", "404", "503", "403", "206"], rng),
            methods: Pool::of(&["GET", "CONNECT", "POST", "HEAD"], rng),
            peers: Pool::distinct(magnitude(50, 4_000, rng), rng, |rng| address(false, rng)),
            mimes: Pool::of(&["text/html", "image/png", "application/javascript", "-", "text/css"], rng),
            others: Pool::distinct(between(2, 9, rng), rng, |rng| noun(rng).to_owned()),
            width: between(1, 7, rng) as usize,
            has_port: happens(0.5, rng),
            anonymous: share(0.1, 0.95, rng),
            has_query: share(0.0, 0.6, rng),
            has_via: share(0.0, 0.6, rng),
            typical_bytes: magnitude(500, 40_000, rng) as f64,
            typical_millis: magnitude(20, 800, rng) as f64,
        }
    }
}

impl Shape for Proxy {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "proxy.log", sourcetype: "bench:proxy" }]
    }

    fn conf(&self) -> Vec<(&'static str, String)> {
        let settings = "SHOULD_LINEMERGE = false\nTIME_FORMAT = %s.%3N\nKV_MODE = none\n";
        vec![("props.conf", format!("[bench:proxy]\n{settings}EXTRACT-line = {PATTERN}\n"))]
    }

    fn columns(&self) -> Vec<Column> {
        let text = |name: &str, pattern: &str| Column::by_pattern(name, Kind::Text, pattern);
        vec![
            text("method", r" ([A-Z]+) \S+ \S+ [A-Z_]+/"),
            text("status", r" [A-Z_]+/(\d+) "),
            text("domain", r" [A-Z]+ (?:\w+://)?([^/: ]+)\S* \S+ [A-Z_]+/"),
            text("client", r"^\S+ +\d+ ([\d.]+)"),
            text("peer", r" [A-Z_]+/(\d+\.\S+) "),
            text("mime", r"/\d+\.\S+ (\S+) "),
            text("via", r" via (\w+): conn"),
            text("conn", r" conn 0x([0-9a-f]+)$"),
            Column::by_pattern("elapsed", Kind::Integer, r"^\S+ +(\d+) "),
            Column::by_pattern("bytes", Kind::Integer, r" [A-Z_]+/\d+ (\d+) "),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let [client, domain, peer, status, method, mime] =
            [&self.clients, &self.domains, &self.peers, &self.statuses, &self.methods, &self.mimes]
                .map(|pool| pool.pick(rng).to_owned());
        let (elapsed, bytes) = (rng.tail(self.typical_millis) as i64, rng.tail(self.typical_bytes) as i64);
        let port = if self.has_port { format!(":{}", 1_024 + rng.below(60_000)) } else { String::new() };
        let url = match &*method {
            "CONNECT" => format!("{domain}:443"),
            _ => {
                let query = match happens(self.has_query, rng) {
                    true => format!("?t={}", rng.below(1_000_000)),
                    false => String::new(),
                };
                format!("http://{domain}{}{query}", self.paths.pick(rng))
            }
        };
        let user = if happens(self.anonymous, rng) { "-" } else { self.users.pick(rng) };
        let result = self.results.pick(rng);
        let via = happens(self.has_via, rng).then(|| self.others.pick(rng).to_owned());
        let behind = via.as_ref().map_or(String::new(), |via| format!(" via {via}:"));
        let conn = format!("{:012x}", rng.next() >> 16);
        let text = format!(
            "{}.{:03} {elapsed:>width$} {client}{port} {result}/{status} {bytes} {method} {url} {user} HIER_DIRECT/{peer} {mime}{behind} conn 0x{conn}",
            millis.div_euclid(1_000),
            millis.rem_euclid(1_000),
            width = self.width,
        );
        let texts = [method, status, domain, client, peer, mime].map(Value::Text);
        let others = [Value::maybe(via), Value::Text(conn), Value::Integer(elapsed), Value::Integer(bytes)];
        Event { file: 0, text, values: texts.into_iter().chain(others).collect() }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: "index=main".to_owned(),
            only: "",
            few: Field::same("method"),
            other: Field::same("status"),
            many: Field::same("domain"),
            most: Field::same("client"),
            number: Field::same("elapsed"),
            id: Field::same("conn"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.ask(
            "sums by optional group",
            "fillnull value=none via | stats sum(bytes) count by via",
            "select coalesce(via, 'none') as v, sum(bytes), count(*) from parsed group by v",
        );
        questions.ask(
            "dc by group",
            "stats dc(peer) dc(client) by mime",
            "select mime, count(distinct peer), count(distinct client) from parsed group by mime",
        );
        questions.queries()
    }
}
