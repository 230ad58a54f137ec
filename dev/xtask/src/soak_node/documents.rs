//! Writes documents of a collection of the KV store, and checks that every answered write is present exactly once after
//! a kill.
//!
//! One writer makes all changes, so that the state of the collection is known. A write without an answer must be
//! present as a whole or not at all, so two states are possible until the collection is read before the next write.
//! Each document has a unique number, so that duplicates are detected, and a group, by which the collection is indexed.
//!
//! Not here: documents of several writers (the tests of `collections`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::Rng;
use super::management::Connection;

/// REST path of the collection.
const COLLECTION: &str = "storage/collections/data/soak";
/// Definition of the collection.
pub(super) const COLLECTIONS_CONF: &str =
    "[soak]\nfield.number = number\naccelerated_fields.by_group = {\"group\": 1}\n";
/// Number of keys that the writer chooses itself.
const KEYS: u64 = 40;
/// Number of groups.
const GROUPS: u64 = 5;
/// Maximum number of documents of a batch.
const BATCH_MAX: u64 = 12;

/// A document: its key, unless the answer with the key was lost, and its group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Document {
    key: Option<String>,
    group: u64,
}

/// Documents by their numbers.
type State = BTreeMap<u64, Document>;

/// Writes documents and tracks the state of the collection.
#[derive(Default)]
pub(super) struct DocumentWriter {
    state: State,
    /// State that a write without an answer would have caused.
    pending: Option<State>,
    numbers: u64,
    /// Number of answered writes.
    pub(super) answered: u64,
    fault: Option<String>,
}

impl DocumentWriter {
    /// Returns the first unexpected state as an error.
    pub(super) fn fault(&mut self) -> Result<(), String> {
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Reads the collection, then writes until the round or the node ends.
    pub(super) fn write(&mut self, (address, token): (&str, &str), mut rng: Rng, over: &AtomicBool) {
        let Some(mut connection) = Connection::open(address, token) else { return };
        let mut is_known = false;
        while !over.load(Ordering::SeqCst) && self.fault.is_none() {
            let done = match is_known {
                false => self.check_state(&mut connection).map(|is_read| is_known = is_read),
                true => self.change(&mut connection, &mut rng).map(|is_answered| is_known = is_answered),
            };
            if done.is_none() {
                return;
            }
        }
    }

    /// Checks all documents, then reads them again by group with the index of the groups.
    pub(super) fn check(&mut self, (address, token): (&str, &str)) -> Result<(), String> {
        let gone = || "the node did not answer when documents were read".to_owned();
        let mut connection = Connection::open(address, token).ok_or_else(gone)?;
        let is_read = self.check_state(&mut connection).ok_or_else(gone)?;
        self.fault()?;
        if !is_read {
            return Err("the documents cannot be read".to_owned());
        }
        let mut by_index = State::new();
        for group in 0..GROUPS {
            let found = read(&mut connection, &format!("&query=%7B%22group%22%3A{group}%7D")).ok_or_else(gone)?;
            by_index.extend(found.unwrap_or_default());
        }
        match by_index == self.state {
            true => Ok(()),
            false => Err(format!("the index of groups finds {by_index:?}, and the collection has {:?}", self.state)),
        }
    }

    /// Reads the collection, which must be in a possible state; returns false if it cannot be read now, and `None` if
    /// the node is gone.
    fn check_state(&mut self, connection: &mut Connection<'_>) -> Option<bool> {
        let Some(found) = read(connection, "")? else { return Some(false) };
        let is_possible =
            [Some(&self.state), self.pending.as_ref()].into_iter().flatten().any(|state| matches_state(&found, state));
        if !is_possible {
            let (state, pending) = (&self.state, &self.pending);
            self.fault = Some(format!("documents are {found:?}, and should be {state:?} or {pending:?}"));
        }
        (self.state, self.pending) = (found, None);
        Some(true)
    }

    fn new_document(&mut self, key: Option<String>, rng: &mut Rng) -> (u64, Document) {
        self.numbers += 1;
        (self.numbers, Document { key, group: rng.below(GROUPS) })
    }

    /// Makes a write; returns true if it succeeded, and `None` if the node is gone.
    fn change(&mut self, connection: &mut Connection<'_>, rng: &mut Rng) -> Option<bool> {
        let (mut after, key) = (self.state.clone(), format!("k{}", rng.below(KEYS)));
        // Number of the new document if the node chooses its key.
        let mut keyless = None;
        let request = match rng.below(6) {
            0 => {
                let (number, document) = self.new_document(None, rng);
                let body = shown(number, &document);
                after.insert(number, document);
                keyless = Some(number);
                Request::Post(COLLECTION.to_owned(), body)
            }
            1 => {
                let group = rng.below(GROUPS);
                after.retain(|_, document| document.group != group);
                Request::Delete(format!("{COLLECTION}?query=%7B%22group%22%3A{group}%7D"))
            }
            2 if contains_key(&after, &key) => {
                after.retain(|_, document| document.key.as_deref() != Some(&key));
                Request::Delete(format!("{COLLECTION}/{key}"))
            }
            3 if contains_key(&after, &key) => {
                after.retain(|_, document| document.key.as_deref() != Some(&key));
                let (number, document) = self.new_document(Some(key.clone()), rng);
                let body = shown(number, &document);
                after.insert(number, document);
                Request::Post(format!("{COLLECTION}/{key}"), body)
            }
            _ => {
                let count = 1 + rng.below(BATCH_MAX);
                let first = rng.below(KEYS);
                let mut batch = Vec::new();
                for at in 0..count {
                    let key = format!("k{}", (first + at) % KEYS);
                    after.retain(|_, document| document.key.as_deref() != Some(&key));
                    let (number, document) = self.new_document(Some(key), rng);
                    batch.push(shown(number, &document));
                    after.insert(number, document);
                }
                Request::Post(format!("{COLLECTION}/batch_save"), batch.into())
            }
        };
        self.pending = Some(after);
        let (status, body) = match request {
            Request::Post(path, body) => connection.post_json(&path, &body)?,
            Request::Delete(path) => connection.ask("DELETE", &path, "")?,
        };
        if !(200..300).contains(&status) {
            return Some(false);
        }
        let mut after = self.pending.take()?;
        if let Some(document) = keyless.and_then(|number| after.get_mut(&number)) {
            document.key = body["_key"].as_str().map(str::to_owned);
        }
        self.state = after;
        self.answered += 1;
        Some(true)
    }
}

enum Request {
    Post(String, Value),
    Delete(String),
}

fn contains_key(state: &State, key: &str) -> bool {
    state.values().any(|document| document.key.as_deref() == Some(key))
}

/// Formats a document as JSON.
fn shown(number: u64, document: &Document) -> Value {
    let mut shown = json!({ "number": number, "group": document.group });
    if let Some(key) = &document.key {
        shown["_key"] = key.as_str().into();
    }
    shown
}

/// Reads documents of the collection; returns `Some(None)` if they cannot be read now, and `None` if the node is gone.
fn read(connection: &mut Connection<'_>, query: &str) -> Option<Option<State>> {
    let (status, body) = connection.ask("GET", &format!("{COLLECTION}?limit=0{query}"), "")?;
    let documents = body.as_array().filter(|_| status == 200);
    Some(documents.map(|documents| state_of(documents)))
}

/// Converts documents to a state. A duplicate number is replaced, so that the state differs from every valid one.
fn state_of(documents: &[Value]) -> State {
    let mut state = State::new();
    for (document, surplus) in documents.iter().zip((0..u64::MAX).rev()) {
        let number = document["number"].as_u64().unwrap_or(surplus);
        let key = document["_key"].as_str().map(str::to_owned);
        let document = Document { key, group: document["group"].as_u64().unwrap_or(GROUPS) };
        if let Some(twice) = state.insert(number, document) {
            state.insert(surplus, twice);
        }
    }
    state
}

/// True if the found state equals `state`; a document whose key is unknown may have any key.
fn matches_state(found: &State, state: &State) -> bool {
    let is_same = |(found, wanted): (&Document, &Document)| {
        found.group == wanted.group && (wanted.key.is_none() || found.key == wanted.key)
    };
    found.keys().eq(state.keys()) && found.values().zip(state.values()).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_duplicate_and_partial_documents_are_reported() {
        let of = |number: u64, key: &str| json!({ "number": number, "_key": key, "group": 1 });
        let document = |key: Option<&str>| Document { key: key.map(str::to_owned), group: 1 };
        let state = State::from([(1, document(Some("a"))), (2, document(None))]);
        let is_good = |found: &[Value]| matches_state(&state_of(found), &state);
        assert!(is_good(&[of(1, "a"), of(2, "made by the node")]));
        for bad in [
            &[of(1, "a")][..],
            &[of(1, "b"), of(2, "c")],
            &[of(1, "a"), of(2, "c"), of(2, "d")],
            &[of(1, "a"), of(2, "c"), of(3, "d")],
        ] {
            assert!(!is_good(bad), "{bad:?}");
        }
    }
}
