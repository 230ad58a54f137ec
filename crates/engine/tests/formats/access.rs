//! Access logs with unusual requests, user agents and names, mixed with lines of other formats.

use super::World;
use super::rng::Rng;

const METHODS: [&str; 6] = ["GET", "GET", "POST", "HEAD", "M-SEARCH", "PROPFIND"];
const PATHS: [&str; 12] = [
    "/",
    "/a/b.html",
    "/api/v1/users/4056",
    "/a%20b/c.png",
    "/x//y/",
    "/status=500",
    "/é",
    "/a\\b.php",
    "/method=POST/z",
    "//h/p",
    "/~u/f.tar.gz",
    "/a;jsessionid=7F",
];
const QUERIES: [&str; 10] = [
    "?",
    "?q=1",
    "?a=b&c=d%20e",
    "?x?y=z",
    "?method=PUT&status=9",
    "?uri_query=own",
    "?file=f1&bytes=77",
    "?q=\\x22",
    "?referer=r",
    "?==&=",
];
const ODD_REQUESTS: [&str; 14] = [
    "-",
    "",
    "GET /",
    "GET  /a HTTP/1.1",
    "GET /a b HTTP/1.1",
    "GET /a HTTP/x",
    "get /low HTTP/1.1",
    "GET http://h.example:80/p?q HTTP/1.1",
    "OPTIONS * HTTP/1.0",
    "CONNECT h.example:443 HTTP/1.1",
    "GET /\\\"q\\\" HTTP/1.1",
    "\\x16\\x03\\x01",
    "GET /t\u{a0}u HTTP/1.1",
    "PRI * HTTP/2.0",
];
const NOTES: [&str; 12] = [
    "-",
    "",
    "https://www.example.com/a",
    "https://www.google.com/search?q=alpha",
    "http://h",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    "say \\\"hi\\\" method=DELETE",
    "ends in \\\\",
    "curl/8.9.1",
    "ümlaut/1 \u{a0}",
    "k=\\\"file=open.txt",
    "a=\\\"b c",
];
const USERS: [&str; 8] = ["-", "-", "bob", "alice", "zoë", "u7", "a@b", "x\\y"];
const CLIENTS: [&str; 6] = ["10.0.0.1", "10.0.0.2", "2001:db8::1", "gate.example", "unix:", "ö.example"];

/// A line; about one in `odd` values is unusual.
fn line(rng: &mut Rng, at: u64, odd: u64) -> String {
    let is_odd = |rng: &mut Rng| odd > 0 && rng.one_in(odd);
    if is_odd(rng) && rng.one_in(3) {
        return rng
            .pick(&["", "cut 10.0.0.1 - - [", "status=7 file=x uri_query=\"q\"", "\"GET / HTTP/1.1\" 200 5"])
            .to_owned();
    }
    let request = if is_odd(rng) {
        rng.pick(&ODD_REQUESTS).to_owned()
    } else {
        let path = if is_odd(rng) {
            rng.pick(&PATHS).to_owned()
        } else {
            format!("/p{}/{}.html", rng.below(3), rng.below(40))
        };
        let query = match rng.below(3) {
            0 if is_odd(rng) => rng.pick(&QUERIES).to_owned(),
            0 => format!("?page={}&sort=asc", rng.below(90)),
            _ => String::new(),
        };
        format!("{} {path}{query} HTTP/{}", rng.pick(&METHODS), rng.pick(&["1.1", "1.1", "2.0"]))
    };
    let client = if is_odd(rng) { rng.pick(&CLIENTS) } else { "10.0.0.9" };
    let user = if is_odd(rng) { rng.pick(&USERS) } else { rng.pick(&USERS[..4]) };
    let status = if is_odd(rng) { rng.pick(&["-", "2000", "99", "4xx"]) } else { rng.pick(&["200", "404", "500"]) };
    let bytes = match rng.below(12) {
        0 => "-".to_owned(),
        1 if is_odd(rng) => rng.pick(&["", "12x", "007", "-1"]).to_owned(),
        _ => rng.below(90_000).to_string(),
    };
    let mut line = format!(
        "{client} - {user} [20/Nov/2026:00:{:02}:{:02} +0000] \"{request}\" {status} {bytes}",
        at / 60 % 60,
        at % 60
    );
    if !is_odd(rng) {
        for _ in 0..2 {
            let note = if is_odd(rng) { rng.pick(&NOTES) } else { rng.pick(&[NOTES[0], NOTES[2], NOTES[3], NOTES[5]]) };
            line.push_str(&format!(" \"{note}\""));
        }
        if rng.one_in(20) {
            line.push_str(&format!(" \"{}\"", rng.pick(&NOTES)));
        }
    }
    line
}

fn world(seed: u64, odd: u64, sourcetypes: &[&'static str]) -> World {
    let mut rng = Rng::new(seed);
    let lines = (0..600).map(|at| (rng.pick(sourcetypes), line(&mut rng, at, odd)));
    World::new(
        &lines.collect::<Vec<_>>(),
        "[common]\nEXTRACT-m = \"(?<method>\\w+) (?<uri_path>[^ ?\"]*)\nEXTRACT-l = (?<tail>[^/]*)$ in uri_path\n",
    )
}

const FIELDS: [&str; 20] = [
    "clientip",
    "ident",
    "user",
    "req_time",
    "method",
    "uri",
    "uri_path",
    "uri_query",
    "uri_domain",
    "version",
    "status",
    "bytes",
    "referer",
    "useragent",
    "x_forwarded_for",
    "file",
    "referer_domain",
    "page",
    "tail",
    "q",
];

const CONDITIONS: [&str; 22] = [
    "*",
    "method=GET",
    "method!=GET",
    "NOT method=GET",
    "status=404 bytes>1000",
    "uri_path=\"/p1/*\"",
    "uri_query=*",
    "NOT uri_query=*",
    "uri_query=own OR method=PUT",
    "uri=\"/p0/1.html*\"",
    "file=*.html",
    "NOT file=*",
    "referer_domain=\"https://www.google.com\"",
    "useragent=\"*hi*\"",
    "user=bob OR user=zoë",
    "version=1.1",
    "page=5",
    "\"GET /p1\"",
    "HTTP",
    "TERM(HTTP/1.1)",
    "bytes=\"-\"",
    "clientip=10.0.0.0/30",
];

fn searches() -> impl Iterator<Item = String> {
    let reports = FIELDS.iter().flat_map(|field| {
        [format!("search * | stats count by {field}"), format!("search method=GET | top limit=0 {field}")]
    });
    let conditions = CONDITIONS.iter().flat_map(|condition| {
        [
            format!("search {condition} | stats count, avg(bytes), dc(uri_path) by method"),
            format!("search {condition} | table _time _raw"),
            format!("search {condition} | stats values(file) values(uri_query) count by status, referer_domain"),
        ]
    });
    let more = [
        "search * | table _time method uri_path uri_query file status",
        "search * | sort 20 - bytes | table bytes method file",
        "search * | eval x=file.\"|\".method | stats count by x",
        "search * | rex \"HTTP/(?<v>\\S+)\\\"\" | stats count by v, version",
        "search * | rex field=uri_query \"page=(?<p>\\d+)\" | stats count by p",
        "search * | fields *",
    ];
    reports.chain(conditions).chain(more.into_iter().map(str::to_owned))
}

#[test]
fn well_formed_lines_give_the_same_results() {
    world(1, 0, &["nginx"]).compare(searches());
}

#[test]
fn rare_malformed_lines_give_the_same_results() {
    world(2, 200, &["nginx"]).compare(searches());
    world(3, 60, &["access_combined", "nginx"]).compare(searches());
}

#[test]
fn many_malformed_lines_give_the_same_results() {
    world(4, 6, &["access_combined_wcookie"]).compare(searches());
    world(5, 4, &["nginx", "common"]).compare(searches());
}
