//! Fields whose values are mostly numbers, with exceptions, at different positions in different events: all functions,
//! comparisons and orders have the same results on columns as on texts.

use std::fmt::Write;

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::MemoryStore;

use super::{compare_in, engine_with};

const PROPS: &str =
    "[json]\nKV_MODE = json\n[access]\nEXTRACT-access = ^(?<verb>[A-Z]+) \\S+ (?<bytes>\\S+) (?<took>\\S+)\n";

/// Number of events; more than two pages.
const EVENTS: usize = 600;

/// Events whose `bytes` are integers and `took` decimals, apart from missing values, dashes, and numbers in other
/// notations.
/// If `shortest`, most decimals have no redundant zeros, and therefore different numbers of places.
fn store(shortest: bool) -> MemoryStore {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
    let metas: Vec<u32> = [("web1", "kv"), ("web2", "json"), ("web3", "access")]
        .into_iter()
        .map(|(host, sourcetype)| {
            batch.intern(&Metadata {
                index: "main".into(),
                host: host.into(),
                source: "/var/log/x.log".into(),
                sourcetype: sourcetype.into(),
            })
        })
        .collect();
    for at in 0..EVENTS {
        let number = at * 7_919 % 5_000;
        let bytes = match at % 23 {
            3 | 11 => Some("-".to_owned()),
            5 => None,
            7 if at % 2 == 0 => Some(format!("{number}.5")),
            8 if at % 3 == 0 => Some(format!("0{number}")),
            9 if at % 5 == 0 => Some(format!("{number}kB")),
            10 if at % 4 == 0 => Some(format!("90071992547409{:02}", at % 100)),
            12 if at % 2 == 0 => Some("1e3".to_owned()),
            _ => Some(number.to_string()),
        };
        let took = match at % 19 {
            2 => Some("-".to_owned()),
            6 => None,
            9 => Some(format!("{}.{}", number % 7, at % 10)),
            4 if shortest => Some(format!("{}.123456789", number % 7)),
            _ if shortest => Some((number as f64 / 250.0).to_string()),
            _ => Some(format!("{}.{:03}", number % 7, at % 1_000)),
        };
        let verb = ["GET", "POST", "PUT"][at % 3];
        let text = match at / 3 % 3 {
            0 => {
                let mut text = format!("verb={verb}");
                bytes.iter().for_each(|bytes| write!(text, " bytes={bytes}").unwrap());
                if at % 4 == 0 {
                    write!(text, " user=u{}", at % 5).unwrap();
                }
                took.iter().for_each(|took| write!(text, " took={took}").unwrap());
                text
            }
            1 => {
                let mut text = format!("{{\"verb\":\"{verb}\"");
                bytes.iter().for_each(|bytes| match bytes.parse::<u64>() {
                    Ok(_) if !bytes.starts_with('0') => write!(text, ",\"bytes\":{bytes}").unwrap(),
                    _ => write!(text, ",\"bytes\":\"{bytes}\"").unwrap(),
                });
                if at % 4 == 0 {
                    write!(text, ",\"user\":\"u{}\"", at % 5).unwrap();
                }
                took.iter().for_each(|took| write!(text, ",\"took\":\"{took}\"").unwrap());
                text + "}"
            }
            _ => format!("{verb} /a/{at} {} {}", bytes.unwrap_or_default(), took.unwrap_or_default()),
        };
        batch.push(text.as_bytes(), at as i64 * 1_000_000_000, metas[at / 3 % 3]);
    }
    store.append(batch).unwrap();
    store
}

const SEARCHES: &[&str] = &[
    "search * | stats count(bytes) sum(bytes) avg(bytes) min(bytes) max(bytes) dc(bytes) mode(bytes) median(bytes)",
    "search * | stats count(took) sum(took) avg(took) min(took) max(took) dc(took) range(took) stdev(took) by verb",
    "search * | stats values(bytes) list(took) first(bytes) last(took) earliest(bytes) latest(took) by host",
    "search * | stats count by bytes",
    "search * | stats count by took, bytes",
    "search * | top limit=0 bytes",
    "search * | stats perc90(bytes) sumsq(bytes) by user",
    "search * | timechart span=1m avg(bytes) max(took) count(bytes)",
    "search * | chart sum(bytes) over verb by user",
    "search * | sort 7 - bytes | table _time bytes took",
    "search * | sort 7 bytes | table _time bytes took",
    "search * | sort 7 - num(took) | table _time bytes took",
    "search * | sort 7 str(bytes) | table _time bytes",
    "search * | sort 0 bytes, - took | table _time bytes took",
    "search * | dedup bytes | table _time bytes",
    "search bytes>2000 | stats count by bytes",
    "search bytes=- | stats count by host",
    "search bytes=1e3 OR bytes=1000 OR bytes=7 | stats count by bytes",
    "search bytes!=- took<3 | stats count sum(took) by host",
    "search bytes=* | stats count",
    "search NOT bytes=* | stats count",
    "search bytes IN (-, 7919, 1*) | stats count by bytes",
    "search * | where bytes>2000 | stats count by bytes",
    "search * | where bytes<=\"-\" | stats count by bytes",
    "search * | where took!=\"-\" AND took>=2.5 | stats count by took",
    "search * | where isnum(bytes) | stats count sum(bytes)",
    "search * | where isnull(bytes) OR isnotnull(took) | stats count",
    "search * | where isstr(bytes) | stats count by bytes",
    "search * | eval x=bytes+1 | stats count by x",
    "search * | eval x=bytes-1, y=bytes*2, z=bytes%7 | stats sum(x) sum(y) sum(z) count(x) count(y) count(z)",
    "search * | eval x=bytes/4, y=took*10, z=took+bytes | stats sum(x) sum(y) count by z",
    "search * | eval x=bytes.\"/\".took | stats count by x",
    "search * | eval x=if(bytes>2500,\"large\",\"small\") | stats count by x",
    "search * | eval x=case(bytes=\"-\",\"none\",bytes<100,\"few\",isnum(bytes),\"many\") | stats count by x",
    "search * | eval x=coalesce(bytes,took,0) | stats count by x",
    "search * | eval x=round(took,1), y=tonumber(bytes), z=tostring(bytes), l=len(bytes) | stats count by x y z l",
    "search * | eval x=typeof(bytes) | stats count by x, bytes",
    "search * | eval t=strftime(took,\"%s.%9N\") | stats count by t",
    "search * | fillnull value=9007199254740993 took | stats count by took",
    "search took>-0.0 | stats count sum(took)",
    "search * | where took=\"-0.0\" OR bytes>-0.0 | stats count by took",
    "search * | bin bytes span=500 | stats count by bytes",
    "search * | fillnull value=0 bytes | stats count sum(bytes) by bytes",
    "search * | streamstats sum(bytes) as s avg(took) as a count(bytes) as c | stats max(s) max(a) max(c)",
    "search * | eventstats avg(bytes) as mean | eval d=bytes-mean | stats sum(d)",
    "search * | transaction verb maxspan=9s | stats sum(bytes) count by took",
    "search * | rex field=bytes \"(?<digit>\\d)$\" | stats count by digit",
    "search * | stats sum(eval(bytes*2)) as s count(eval(took>3)) as c by verb",
    "search * | table _time bytes took",
    "search * | makemv delim=\".\" took | stats count by took",
    "search * | rangemap field=bytes a=0-99 b=100-9999 default=none | stats count by range",
    "search * | delta bytes as d | stats sum(d) count(d)",
    "search * | regex bytes=\"^\\d+$\" | stats count",
    "search * | eval m=max(bytes,took), n=min(bytes,100) | stats count by m n",
];

#[test]
fn numbers_with_exceptions_do_not_depend_on_their_storage() {
    for shortest in [false, true] {
        let searches = SEARCHES.iter().map(|search| ((*search).to_owned(), TimeRange::ALL));
        compare_in(&store(shortest), &engine_with(PROPS), searches);
    }
}
