//! A plan that is serialized and deserialized equals the original and yields the same rows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_conf::{Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions, Job, LookupSource, LookupTable, Plan, ResultKind, SearchRequest};
use quarry_event::{EventBatch, Metadata};
use quarry_store::MemoryStore;
use quarry_testworld::rows_of;

const START: i64 = 1_790_000_000_000_000_000;

struct Tables;

impl LookupSource for Tables {
    fn table(&self, _: &str) -> Result<Option<LookupTable>, quarry_stdx::Fault> {
        Ok(Some(LookupTable::of_csv("user,team\nu1,red\nu2,blue\n")))
    }

    fn names(&self) -> Vec<String> {
        vec!["teams".to_owned()]
    }
}

fn engine() -> Engine {
    let props = Arc::new(PropsResolver::new(&Layers::new([])));
    Engine::new(&EngineOptions::default(), props, Arc::new(Tables)).unwrap()
}

fn source() -> Arc<MemoryStore> {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: START, ..EventBatch::default() };
    let meta = batch.intern(&Metadata {
        index: "main".into(),
        host: "web".into(),
        source: "/var/log/x.log".into(),
        sourcetype: "lines".into(),
    });
    for at in 0..500_i64 {
        let text = format!("status={} user=u{} took={}.5 say \"hello {at}\"", 200 + at % 3, at % 7, at % 11);
        batch.push(text.as_bytes(), START + at * 1_000_000_000, meta);
    }
    store.append(batch).unwrap();
    Arc::new(store)
}

fn request(text: &str) -> SearchRequest {
    SearchRequest { now: START + 8_000_000_000_000, sid: Some("one".to_owned()), ..quarry_testworld::request(text) }
}

fn rows(mut job: Job) -> (ResultKind, Vec<RecordBatch>) {
    let batches = rows_of(&mut job).unwrap();
    (job.kind(), batches)
}

#[test]
fn a_plan_read_from_bytes_gives_the_rows_of_its_search() {
    let (engine, source) = (engine(), source());
    for text in [
        "user=u1",
        "user=u1 | head 3",
        "* | rex \"say \\\"(?<word>\\w+) (?<n>\\d+)\" | where n%2=0 | stats count avg(took) by word, user",
        "* | sort 5 -took, user | table user took",
        "status=200 | timechart span=1m count by user limit=3",
        "* | lookup teams user | chart count over team by status",
        "* | eventstats avg(took) as mean by user | where took>mean | dedup user",
        "[ | makeresults | eval user=\"u3\" | fields user ] | stats count by user",
        "* | stats count by user | append [ search status=201 | stats count ] | sort user",
        "| tstats count where index=main by host",
        "| metadata type=sourcetypes",
        "| makeresults count=3 | streamstats count",
        "* | foreach status took [ eval <<FIELD>>=<<FIELD>>*2 ] | stats sum(status) sum(took)",
        "* | fieldformat took=took.\"ms\" | head 1 | table took",
        "* | transaction user maxevents=3 | stats count max(duration)",
        "| inputlookup teams | search team=red",
        "| stats count",
    ] {
        let expected = rows(engine.start(request(text), source.clone()).unwrap());
        let plan = engine.plan(request(text), source.clone()).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let read = Plan::from_bytes(&plan.to_bytes().unwrap()).unwrap();
        assert_eq!(read, plan, "{text}");
        assert_eq!(read.to_string(), plan.to_string(), "{text}");
        assert_eq!(rows(engine.start_plan(read, request(text), source.clone())), expected, "{text}");
    }
}

#[test]
fn plans_of_manual_examples_round_trip() {
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/spl");
    let (engine, source) = (engine(), Arc::new(MemoryStore::new("main")));
    let mut count = 0;
    for page in std::fs::read_dir(pages).unwrap() {
        let text = std::fs::read_to_string(page.unwrap().path()).unwrap();
        for line in text.lines().filter(|line| line.contains('|') && !line.starts_with(['#', '-', '|', ' '])) {
            let Ok(plan) = engine.plan(request(line), source.clone()) else { continue };
            assert_eq!(Plan::from_bytes(&plan.to_bytes().unwrap()).unwrap(), plan, "{line}");
            count += 1;
        }
        for line in text.lines().filter(|line| line.starts_with("| ") && !line.trim_end().ends_with('|')) {
            let Ok(plan) = engine.plan(request(line), source.clone()) else { continue };
            assert_eq!(Plan::from_bytes(&plan.to_bytes().unwrap()).unwrap(), plan, "{line}");
            count += 1;
        }
    }
    assert!(count > 300, "{count} searches were found");
}

#[test]
fn invalid_plan_bytes_are_refused() {
    let (engine, source) = (engine(), source());
    let text = "* | rex \"(?<word>\\w+)\" | stats count by word | sort word";
    let bytes = engine.plan(request(text), source.clone()).unwrap().to_bytes().unwrap();
    for end in 0..bytes.len() {
        assert!(Plan::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
    }
    assert!(Plan::from_bytes(&[bytes.as_slice(), b"x"].concat()).is_err());
    let mut older = bytes.clone();
    older["quarry plan ".len() + 1] ^= 1;
    let fault = Plan::from_bytes(&older).unwrap_err().to_string();
    assert!(fault.contains("run the same version"), "{fault}");
}
