//! Clients that create, change, read and remove the same objects at the same time (`spec/rest/conflicts.txt`): none is
//! answered with a server error.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::server::{Server, send};
use crate::support::Place;

/// Number of concurrent clients.
const CLIENTS: u64 = 8;
/// Number of requests of each client.
const REQUESTS: usize = 500;

/// A request of the specification page.
struct Conflicting {
    method: String,
    path: String,
    form: String,
}

fn requests() -> Vec<Conflicting> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/rest/conflicts.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let request = |line: &str| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let path = if path.starts_with('/') { path } else { format!("/services/{path}") };
        Conflicting { method, path, form: words.next().unwrap_or_default() }
    };
    lines.map(request).collect()
}

/// Sends requests in an order that depends on `number`. Returns the requests that failed with a server error or were
/// not answered, with their answers.
fn client(place: &Place, token: &str, number: u64, requests: &[Conflicting]) -> BTreeMap<String, String> {
    let (mut state, mut at, mut errors) = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, 0, BTreeMap::new());
    for _ in 0..REQUESTS {
        // The next request is usually a neighbour in the list, in which requests about the same object are adjacent.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        at = if state.is_multiple_of(8) { state as usize } else { at + (state >> 8) as usize % 3 } % requests.len();
        let Conflicting { method, path, form } = &requests[at];
        let is_query = method == "GET" && !form.is_empty();
        let target = if is_query { format!("{path}?{form}") } else { path.clone() };
        let mut stream = send(place, method, &target, token, if is_query { "" } else { form });
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).unwrap_or_default();
        if status.is_empty() || status.starts_with('5') {
            errors.insert(format!("{method} {target} {form}"), answer);
        }
    }
    errors
}

#[test]
fn conflicting_requests_never_cause_server_errors() {
    let (place, requests) = (Place::new(), requests());
    assert!(requests.len() > 80);
    let _server = Server::start(&place);
    let run_file = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&run_file).unwrap();
    let token = format!("Splunk {}", run["token"].as_str().unwrap());
    let errors: BTreeMap<String, String> = std::thread::scope(|scope| {
        let start = |number| {
            scope.spawn({
                let (place, token, requests) = (&place, &token, &requests);
                move || client(place, token, number, requests)
            })
        };
        let clients: Vec<_> = (1..=CLIENTS).map(start).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert!(errors.is_empty(), "{errors:#?}");
}
