//! The store against a real server and against one that fails.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::Duration;

use object_store::client::{HttpRequest, HttpRequestBody};
use quarry_bucket::ReadError;
use quarry_s3world::{CONTAINER, FaultProxy, Faults, Gateway, KEY_ID, SECRET, ServerCertificate};
use quarry_stdx::SystemClock;

use super::*;
use crate::tests::conformance;

fn settings(urls: &[&str]) -> S3Settings {
    let key = S3Credentials::Key { id: KEY_ID.to_owned(), secret: SECRET.to_owned(), token: None };
    S3Settings { prefix: "some/where".to_owned(), ..S3Settings::new(CONTAINER, urls, key) }
}

fn open(settings: S3Settings) -> S3Store {
    S3Store::open(settings, SystemClock::shared()).unwrap()
}

fn noise(size: usize) -> Vec<u8> {
    (0..size as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8).collect()
}

#[test]
fn s3_store_conforms() {
    let Some(gateway) = Gateway::start() else { return };
    conformance(&open(settings(&[&gateway.url()])));
    let Some(gateway) = Gateway::start() else { return };
    conformance(&open(S3Settings { prefix: String::new(), ..settings(&[&gateway.url()]) }));
}

#[test]
fn s3_store_conforms_over_an_unreliable_network() {
    let Some(gateway) = Gateway::start() else { return };
    for seed in 0..3 {
        let faults = Faults {
            seed,
            refused: 60,
            failed: 60,
            reset_before: 60,
            reset_after: 60,
            truncated: 60,
            slow: 60,
            ..Faults::default()
        };
        let proxy = FaultProxy::start(gateway.address(), faults);
        let store = open(S3Settings { prefix: format!("seed/{seed}"), ..settings(&[&proxy.url()]) });
        conformance(&store);
        let faulty = proxy.requests().iter().filter(|seen| seen.faulty).count();
        assert!(faulty > 50 && store.traffic().retries > 30, "{faulty} {:?}", store.traffic());
    }
}

#[test]
fn reads_corrupted_by_a_proxy_are_retried() {
    let Some(gateway) = Gateway::start() else { return };
    let bytes = noise(3_000_000);
    let proxy = FaultProxy::start(gateway.address(), Faults::default());
    let store = open(settings(&[&proxy.url()]));
    store.put("main/1.bucket", &bytes).unwrap();
    proxy.set(Faults { seed: 5, corrupted: 120, ..Faults::default() });
    for at in 0..60 {
        let object = store.open("main/1.bucket").unwrap();
        let offset = at * 47_777;
        let read = object.read_at(offset as u64, 100_000.min(bytes.len() - offset)).unwrap();
        assert_eq!(read, bytes[offset..offset + read.len()]);
    }
    assert!(store.traffic().refetches > 3, "{:?}", store.traffic());
}

#[test]
fn damage_of_stored_objects_is_reported() {
    let Some(gateway) = Gateway::start().filter(Gateway::keeps_objects_as_files) else { return };
    let store = open(settings(&[&gateway.url()]));
    let bytes = noise(200_000);
    store.put("main/1.bucket", &bytes).unwrap();
    let file = gateway.file("some/where/main/1.bucket");
    let kept = std::fs::read(&file).unwrap();
    let damage = |at: usize| {
        let mut kept = kept.clone();
        kept[at] ^= 1;
        std::fs::write(&file, kept).unwrap();
    };
    damage(10);
    let object = store.open("main/1.bucket").unwrap();
    assert!(matches!(object.read_at(0, 100), Err(ReadError::Failed { reason, .. }) if reason.contains("checksum")));
    assert_eq!(object.read_at(50_000, 100).unwrap(), bytes[50_000..50_100]);
    for at in [190_000, 200_004, kept.len() - 20, kept.len() - 1] {
        damage(at);
        assert!(matches!(store.open("main/1.bucket"), Err(BlobError::Damaged { .. })), "byte {at}");
    }
    std::fs::write(&file, &kept).unwrap();
    let object = store.open("main/1.bucket").unwrap();
    std::fs::write(&file, &kept[..32 << 10]).unwrap();
    assert!(matches!(object.read_at(0, 64 << 10), Err(ReadError::Failed { .. })), "a copy that is too short");
    std::fs::write(&file, b"not ours").unwrap();
    assert!(matches!(store.open("main/1.bucket"), Err(BlobError::Damaged { .. })));
}

#[test]
fn large_objects_are_uploaded_in_parts_and_read_in_ranges() {
    let Some(gateway) = Gateway::start() else { return };
    let proxy =
        FaultProxy::start(gateway.address(), Faults { seed: 11, reset_after: 150, failed: 100, ..Faults::default() });
    let store = open(S3Settings { part_bytes: 5 << 20, ..settings(&[&proxy.url()]) });
    let bytes = noise(23_000_001);
    store.put("main/1.bucket", &bytes).unwrap();
    assert!(proxy.requests().iter().any(|seen| seen.head.contains("partNumber=5")));
    let object = store.open("main/1.bucket").unwrap();
    assert_eq!(object.len(), bytes.len() as u64);
    assert_eq!(object.read_at(0, bytes.len()).unwrap(), bytes);
    assert_eq!(object.read_at(12_345_678, 5).unwrap(), bytes[12_345_678..12_345_683]);
}

#[test]
fn one_request_opens_an_object_and_reads_its_tail() {
    let Some(gateway) = Gateway::start() else { return };
    let store = open(settings(&[&gateway.url()]));
    let bytes = noise(1_000_000);
    store.put("main/1.bucket", &bytes).unwrap();
    let before = store.traffic();
    let object = store.open("main/1.bucket").unwrap();
    assert_eq!(object.read_at(990_000, 10_000).unwrap(), bytes[990_000..]);
    assert_eq!(store.traffic().requests, before.requests + 1);
    object.read_at(0, 100).unwrap();
    let after = store.traffic();
    assert_eq!(after.requests, before.requests + 2);
    assert_eq!(after.bytes_received - before.bytes_received, TAIL_BYTES + BLOCK_BYTES);
}

#[test]
fn an_object_is_opened_and_read_in_one_round_trip() {
    let Some(gateway) = Gateway::start() else { return };
    let proxy = FaultProxy::start(gateway.address(), Faults::default());
    let store = open(settings(&[&proxy.url()]));
    let bytes = noise(1_000_000);
    store.put("main/1.bucket", &bytes).unwrap();
    let before = proxy.requests().len();
    proxy.set(Faults { latency: Duration::from_millis(500), ..Faults::default() });
    let ranges = [0..BLOCK_BYTES, 5 * BLOCK_BYTES..7 * BLOCK_BYTES];
    let opened = store.open_and_read("main/1.bucket", TAIL_BYTES, &ranges).unwrap();
    let expected = ranges.map(|range| Bytes::copy_from_slice(&bytes[range.start as usize..range.end as usize]));
    assert_eq!((opened.object.len(), opened.read.unwrap()), (1_000_000, expected.to_vec()));
    let sent = proxy.requests().split_off(before);
    let mut answers = sent.iter().filter_map(|request| request.answered);
    assert!(sent.len() >= 3 && answers.all(|answered| sent[..3].iter().all(|request| request.arrived < answered)));
    // Ranges that are empty, or not of whole blocks, are read after opening.
    proxy.set(Faults::default());
    let opened = store.open_and_read("main/1.bucket", TAIL_BYTES, &[1..10, 20..20]).unwrap();
    assert_eq!(opened.read.unwrap(), [Bytes::copy_from_slice(&bytes[1..10]), Bytes::new()]);
}

#[test]
fn hanging_servers_are_avoided() {
    let Some(gateway) = Gateway::start() else { return };
    let hung = FaultProxy::start(gateway.address(), Faults { stalled: 1000, ..Faults::default() });
    let gone = "http://127.0.0.1:1";
    let store = open(S3Settings {
        request_timeout: Duration::from_secs(600),
        ..settings(&[&hung.url(), gone, &gateway.url()])
    });
    // Put directly on the server that answers: puts are never hedged and would hang.
    open(settings(&[&gateway.url()])).put("main/1.bucket", b"here").unwrap();
    for _ in 0..20 {
        assert_eq!(store.open("main/1.bucket").unwrap().read_at(0, 4).unwrap(), &b"here"[..]);
    }
    let traffic = store.traffic();
    assert!(traffic.hedges > 0 && traffic.retries > 0, "{traffic:?}");
}

#[test]
fn a_request_that_cannot_succeed_is_sent_once() {
    let Some(gateway) = Gateway::start() else { return };
    let wrong = S3Credentials::Key { id: KEY_ID.to_owned(), secret: "wrong".to_owned(), token: None };
    let store = open(S3Settings { credentials: wrong, ..settings(&[&gateway.url()]) });
    let error = store.put("a", b"").unwrap_err();
    assert!(matches!(error, BlobError::Denied { .. }), "{error}");
    let store = open(S3Settings { container: "nowhere".to_owned(), ..settings(&[&gateway.url()]) });
    let error = store.put("a", b"").unwrap_err();
    assert!(matches!(&error, BlobError::Settings { reason } if reason.contains("nowhere")), "{error}");
    assert_eq!(store.traffic().requests, 1);
}

#[test]
fn a_missing_access_key_is_reported() {
    let reported = requests::add_advice("Error performing PUT http://169.254.169.254/latest/api/token".to_owned());
    assert!(reported.starts_with("no access key is set") && reported.ends_with("/token"), "{reported}");
    assert_eq!(requests::add_advice("a reset".to_owned()), "a reset");
}

#[test]
fn unavailable_stores_are_reported_by_name() {
    let store = open(S3Settings { attempts_max: 2, ..settings(&["http://127.0.0.1:1"]) });
    let error = store.put("main/1.bucket", b"x").unwrap_err().to_string();
    assert!(error.contains("write main/1.bucket in quarry at http://127.0.0.1:1"), "{error}");
    assert_eq!(store.traffic().requests, 2);
    assert!(store.list().is_err());
    assert_eq!(store.traffic().requests, 4);
}

#[test]
fn retries_of_writes_leave_a_reserve_to_all_requests_that_only_read() {
    let store = open(S3Settings { attempts_max: 2, ..settings(&["http://127.0.0.1:1"]) });
    while store.core.requests.budget.spend(retry::READ_RESERVE) {}
    let sent = |request: &dyn Fn() -> bool| {
        let before = store.traffic().requests;
        assert!(!request(), "nothing answers");
        store.traffic().requests - before
    };
    assert_eq!(sent(&|| store.put("main/1.bucket", b"x").is_ok()), 1);
    assert_eq!(sent(&|| store.delete("main/1.bucket").is_ok()), 1);
    assert_eq!(sent(&|| store.exists("main/1.bucket").is_ok()), 2);
    assert_eq!(sent(&|| store.list().is_ok()), 2);
}

#[test]
fn requests_have_added_headers_and_are_signed_with_them() {
    let Some(gateway) = Gateway::start() else { return };
    let proxy = FaultProxy::start(gateway.address(), Faults::default());
    let header = |method: Option<&str>, name: &str, value: &str| S3Header {
        method: method.map(str::to_owned),
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let headers = vec![header(None, "X-Amz-Meta-Team", "logs"), header(Some("PUT"), "x-amz-storage-class", "STANDARD")];
    let store = open(S3Settings { headers, part_bytes: 5 << 20, ..settings(&[&proxy.url()]) });
    for bytes in [noise(1_000), noise(6 << 20)] {
        store.put("main/1.bucket", &bytes).unwrap();
        let object = store.open("main/1.bucket").unwrap();
        assert_eq!(object.read_at(0, bytes.len()).unwrap(), bytes);
    }
    assert_eq!(store.list().unwrap(), ["main/1.bucket"]);
    store.delete_unfinished(0, &|_| true).unwrap();
    let seen = proxy.requests();
    for request in &seen {
        // The request that begins an upload in parts has the headers of the object; those with the parts do not.
        let has_part = request.head.contains("partNumber=");
        let is_put = request.head.starts_with("PUT ") && !has_part;
        assert_eq!(request.header("x-amz-meta-team"), (!has_part).then_some("logs"), "{}", request.head);
        assert_eq!(request.header("x-amz-storage-class").is_some(), is_put, "{}", request.head);
        let signed = request.header("authorization").unwrap();
        let names = ["x-amz-meta-team", "storage-class"].map(|name| signed.contains(name));
        assert_eq!(names, [!has_part, is_put], "{signed}");
    }
    assert!(seen.iter().any(|request| request.head.contains("partNumber=1")));
    assert!(["PUT ", "GET ", "POST "].iter().all(|method| seen.iter().any(|seen| seen.head.starts_with(method))));
    let own = ["Range", "If-Match", "Transfer-Encoding", "x-amz-copy-source", "x-amz-checksum-crc32"];
    let own = own.map(|name| ("GET", name, "x"));
    for (method, name, value) in [("G T", "a", "x"), ("GET", "a b", "x"), ("GET", "a", "\n")].into_iter().chain(own) {
        let settings = S3Settings { headers: vec![header(Some(method), name, value)], ..settings(&[&proxy.url()]) };
        let error = S3Store::open(settings, SystemClock::shared()).err().unwrap();
        assert!(error.to_string().contains(&format!("header {name} of requests")), "{error}");
    }
}

#[test]
fn requests_for_credentials_are_not_signed() {
    for (value, is_signed) in [("AWS4-HMAC-SHA256 Credential=a", true), ("Bearer token", false), ("", false)] {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        request.headers_mut().insert("authorization", http::HeaderValue::from_static(value));
        assert_eq!(added_headers::is_signed(&request), is_signed, "{value}");
    }
}

#[test]
fn puts_send_checksum_and_configured_encryption() {
    let Some(gateway) = Gateway::start() else { return };
    let proxy = FaultProxy::start(gateway.address(), Faults { failed: 1000, ..Faults::default() });
    let of = |encryption| {
        let store = open(S3Settings { encryption, attempts_max: 1, ..settings(&[&proxy.url()]) });
        assert!(matches!(store.put("a", b"x"), Err(BlobError::Remote { attempts: 1, .. })));
        proxy.requests().pop().unwrap()
    };
    let plain = of(S3Encryption::Container);
    assert!(plain.header("x-amz-checksum-sha256").is_some(), "{}", plain.head);
    assert_eq!(plain.header("x-amz-server-side-encryption"), None);
    assert_eq!(of(S3Encryption::Server).header("x-amz-server-side-encryption"), Some("AES256"));
    let keyed = of(S3Encryption::KeyService("a-key".to_owned()));
    assert_eq!(keyed.header("x-amz-server-side-encryption"), Some("aws:kms"));
    assert_eq!(keyed.header("x-amz-server-side-encryption-aws-kms-key-id"), Some("a-key"));
}

#[test]
fn configured_certificate_authority_is_trusted() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let Some(gateway) = Gateway::start_tls(&ServerCertificate { certificate: certificate.clone(), key }) else {
        return;
    };
    let trusting = S3Settings { authorities: certificate.into_bytes(), ..settings(&[&gateway.url()]) };
    conformance(&open(trusting));
    let error = open(S3Settings { attempts_max: 1, ..settings(&[&gateway.url()]) }).put("a", b"").unwrap_err();
    assert!(matches!(error, BlobError::Remote { .. }), "{error}");
}

#[test]
fn invalid_settings_are_refused() {
    for wrong in [
        S3Settings { requests_max: 0, ..settings(&[]) },
        S3Settings { prefix: "../up".to_owned(), ..settings(&[]) },
        S3Settings { authorities: b"-----BEGIN CERTIFICATE-----\nno\n".to_vec(), ..settings(&["https://h"]) },
    ] {
        let opened = S3Store::open(wrong.clone(), SystemClock::shared());
        assert!(matches!(opened, Err(BlobError::Settings { .. })), "{wrong:?}");
    }
}

#[test]
fn store_is_usable_inside_an_async_runtime() {
    let Some(gateway) = Gateway::start() else { return };
    let url = gateway.url();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = open(settings(&[&url]));
        store.put("a", b"x").unwrap();
        assert!(store.exists("a").unwrap());
    });
}

/// The answer to the n-th request, from 0, with this first line.
type ScriptedAnswer = dyn Fn(usize, &str) -> String + Send + Sync;

/// Starts a server whose answers are given by a function; returns its URL and the first lines of the requests.
fn scripted_server(answer: Box<ScriptedAnswer>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = Arc::clone(&seen);
    // The thread ends with the process.
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut head = String::new();
            let mut reader = BufReader::new(client.try_clone().unwrap());
            while reader.read_line(&mut head).is_ok_and(|bytes| bytes > 2) {}
            let first = head.lines().next().unwrap_or_default().to_owned();
            let number = lines.lock().unwrap().len();
            lines.lock().unwrap().push(first.clone());
            client.write_all(answer(number, &first).as_bytes()).unwrap();
        }
    });
    (url, seen)
}

fn http(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn listing_of(numbers: Range<usize>, next: &str) -> String {
    let object = |number| {
        format!(
            "<Contents><Key>some/where/{number:05}</Key><LastModified>1994-11-06T08:00:00.000Z</LastModified>\
             <ETag>\"e\"</ETag><Size>7</Size></Contents>"
        )
    };
    let objects: String = numbers.map(object).collect();
    let next =
        if next.is_empty() { String::new() } else { format!("<NextContinuationToken>{next}</NextContinuationToken>") };
    http("200 OK", &format!("<ListBucketResult>{objects}{next}</ListBucketResult>"))
}

#[test]
fn interrupted_listings_continue_after_the_last_object() {
    const LIST_PAGE: usize = 1_000;
    let answer = |number: usize, _: &str| match number {
        0 => listing_of(0..LIST_PAGE, "second"),
        1 | 2 => http("503 Slow Down", ""),
        // A server that does not know where the listing is to begin.
        3 => listing_of(LIST_PAGE - 5..2 * LIST_PAGE - 5, "third"),
        4 => listing_of(2 * LIST_PAGE - 5..2 * LIST_PAGE + 3, ""),
        _ => http("500 Oh", ""),
    };
    let (url, seen) = scripted_server(Box::new(answer));
    let store = open(settings(&[&url]));
    assert_eq!(store.now_ns(), None);
    let mut names = Vec::new();
    store.list_each(&mut |listed| names.push(listed.name)).unwrap();
    let expected: Vec<String> = (0..2 * LIST_PAGE + 3).map(|number| format!("{number:05}")).collect();
    assert_eq!(names, expected, "each object once");
    let seen = seen.lock().unwrap();
    assert!(seen[2].contains("start-after=some%2Fwhere%2F00999"), "{}", seen[2]);
    let age_ns = store.now_ns().unwrap() - 784_111_777_000_000_000;
    assert!(age_ns >= 0, "the clock is that of the server");
}

#[test]
fn uploads_that_never_ended_are_aborted() {
    let answer = |_: usize, first: &str| {
        let upload = |name: &str, id: &str, time: &str| {
            format!(
                "<Upload><Key>some/where/{name}</Key><UploadId>{id}</UploadId><Initiated>{time}</Initiated></Upload>"
            )
        };
        if first.starts_with("DELETE ") {
            return http("204 No Content", "");
        }
        let more = "<IsTruncated>true</IsTruncated><NextKeyMarker>k/1</NextKeyMarker>\
                    <NextUploadIdMarker>i1</NextUploadIdMarker>";
        let (head, uploads) = match first.contains("key-marker=k%2F1") && first.contains("upload-id-marker=i1") {
            false => (more, upload("a/5ee/1.bucket", "old", "1994-11-06T08:00:00.000Z")),
            true => (
                "<IsTruncated>false</IsTruncated>",
                upload("a/5ee/2.bucket", "young", "1994-11-06T08:30:00.000Z")
                    + &upload("a/5ef/1.bucket", "other", "1994-11-06T08:00:00.000Z"),
            ),
        };
        http("200 OK", &format!("<ListMultipartUploadsResult>{head}{uploads}</ListMultipartUploadsResult>"))
    };
    let (url, seen) = scripted_server(Box::new(answer));
    let store = open(settings(&[&url]));
    let before_ns = 784_111_777_000_000_000 - 30 * 60 * 1_000_000_000;
    assert_eq!(store.delete_unfinished(before_ns, &|name| name.starts_with("a/5ee/")).unwrap(), 1);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen[2].starts_with("DELETE /quarry/some/where/a/5ee/1.bucket?uploadId=old "), "{}", seen[2]);
}

#[test]
fn a_server_lists_and_aborts_unfinished_uploads() {
    let Some(gateway) = Gateway::start() else { return };
    let store = open(S3Settings { part_bytes: 5 << 20, ..settings(&[&gateway.url()]) });
    let begun = Arc::clone(&store.core.requests);
    for name in ["a/5ee/1.bucket", "a/5ef/1.bucket"] {
        let begun = Arc::clone(&begun);
        store.core.wait(async move { begun.begin_upload(name).await }).unwrap();
    }
    let count = || {
        let requests = Arc::clone(&store.core.requests);
        store.core.wait(async move { requests.unfinished_uploads().await }).unwrap().len()
    };
    if !gateway.lists_unfinished_uploads() {
        assert_eq!(count(), 0);
        return;
    }
    assert_eq!(count(), 2);
    let is_own = |name: &str| name.starts_with("a/5ee/");
    let now_ns = store.now_ns().unwrap();
    assert_eq!(store.delete_unfinished(now_ns - 3_600_000_000_000, &is_own).unwrap(), 0);
    assert_eq!(store.delete_unfinished(now_ns + 3_600_000_000_000, &is_own).unwrap(), 1);
    assert_eq!(count(), 1);
}
