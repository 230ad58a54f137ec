//! Executes a find: matching documents in the requested order and range, as a JSON list.

use std::ops::ControlFlow;

use memchr::memmem::Finder;
use rusqlite::{Connection, Row, params};
use serde_json::Value;

use crate::access::{Probe, Range, StoredAcceleration, probes, required_texts, sorted_range};
use crate::document::{Object, write_answer};
use crate::error::Failure;
use crate::sort::TopK;
use crate::{CollectionError, KEY, Projection, Query, Sort, USER};

/// Maximum number of row ids collected; beyond this number, all documents are read.
const ROW_IDS_MAX: usize = 4_000_000;

/// A find request. The default matches all documents, but returns none until `limit` and `bytes_max` are set.
#[derive(Clone, Debug, Default)]
pub struct Find {
    /// Condition.
    pub query: Query,
    /// Order.
    pub sort: Sort,
    /// Documents to skip.
    pub skip: usize,
    /// Maximum number of documents returned; the caller enforces an upper bound.
    pub limit: usize,
    /// Members returned.
    pub projection: Projection,
    /// Maximum bytes of the answer.
    pub bytes_max: usize,
}

pub(crate) struct StoredDocument<'r> {
    pub(crate) row_id: i64,
    pub(crate) user: &'r str,
    pub(crate) key: &'r str,
    pub(crate) body: &'r str,
}

impl<'r> StoredDocument<'r> {
    pub(crate) fn of(row: &'r Row<'_>) -> Result<StoredDocument<'r>, Failure> {
        let text = |at| {
            let text = row.get_ref(at)?.as_str();
            text.map_err(|error| Failure::Damage(format!("a document is not text: {error}")))
        };
        Ok(StoredDocument { row_id: row.get(0)?, user: text(1)?, key: text(2)?, body: text(3)? })
    }

    /// Members of the document, including key and user.
    pub(crate) fn members(&self) -> Result<Object, Failure> {
        let mut members = self.own_members()?;
        members.insert(KEY.to_owned(), self.key.into());
        members.insert(USER.to_owned(), self.user.into());
        Ok(members)
    }

    /// Members of the document, without key and user.
    pub(crate) fn own_members(&self) -> Result<Object, Failure> {
        let members = serde_json::from_str(self.body);
        members.map_err(|error| Failure::Damage(format!("the document {} is not JSON: {error}", self.key)))
    }
}

/// Consumer of documents; returns whether to continue.
type DocumentConsumer<'t> = &'t mut dyn FnMut(&StoredDocument<'_>) -> Result<ControlFlow<()>, Failure>;

/// Consumer of matching documents, with their members if they were parsed; returns whether to continue.
pub(crate) type MatchConsumer<'t> =
    &'t mut dyn FnMut(&StoredDocument<'_>, Option<Object>) -> Result<ControlFlow<()>, Failure>;

/// View of the documents of some users in a file.
pub(crate) struct DocumentView<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) users: &'c [&'c str],
    pub(crate) accelerations: &'c [StoredAcceleration],
}

pub(crate) const ALL: &str = "SELECT place, user, key, body FROM documents ORDER BY place";
const ONE: &str = "SELECT place, user, key, body FROM documents WHERE place = ?1";
const BY_KEY: &str = "SELECT place, user, key, body FROM documents WHERE user = ?1 AND key = ?2";
const PLACES: &str = "SELECT place FROM entries WHERE acceleration = ?1 AND value >= ?2 AND value < ?3";

impl DocumentView<'_> {
    /// Appends the matching documents to `out` as a JSON list.
    pub(crate) fn find(&self, find: &Find, out: &mut String) -> Result<(), Failure> {
        out.push('[');
        let mut answer = Answer { find, skipped: 0, written: 0, out };
        if find.limit > 0 {
            if find.sort.is_unsorted() {
                self.for_each_match(&find.query, &mut |found, members| answer.take(found, members))?;
            } else if let Some((range, is_descending)) = sorted_range(&find.query, &find.sort, self.accelerations) {
                self.in_sorted_order(&range, is_descending, &find.query, &mut answer)?;
            } else {
                let most = find.skip.saturating_add(find.limit);
                let mut few = TopK::new(&find.sort, most);
                self.for_each_match(&find.query, &mut |found, members| {
                    let members = members.map_or_else(|| found.members(), Ok)?;
                    few.add(found.row_id, &members)?;
                    Ok(ControlFlow::Continue(()))
                })?;
                for row_id in few.into_row_ids() {
                    if self.read_row(row_id, &mut |found| answer.take(found, None))?.is_break() {
                        break;
                    }
                }
            }
        }
        out.push(']');
        Ok(())
    }

    /// Passes each matching document to `take` in row order, with its members if they were parsed.
    pub(crate) fn for_each_match(&self, query: &Query, take: MatchConsumer<'_>) -> Result<(), Failure> {
        if query.is_all() {
            return self.for_each(&mut |found| take(found, None));
        }
        if let Some(row_ids) = self.candidate_rows(query)? {
            for row_id in row_ids {
                let fitting = &mut |found: &StoredDocument<'_>| {
                    let members = found.members()?;
                    if query.matches(&members) { take(found, Some(members)) } else { Ok(ControlFlow::Continue(())) }
                };
                if self.read_row(row_id, fitting)?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let texts = required_texts(query);
        let finders: Vec<Finder<'_>> = texts.iter().map(Finder::new).collect();
        self.for_each(&mut |found| {
            if finders.iter().any(|finder| finder.find(found.body.as_bytes()).is_none()) {
                return Ok(ControlFlow::Continue(()));
            }
            let members = found.members()?;
            if query.matches(&members) { take(found, Some(members)) } else { Ok(ControlFlow::Continue(())) }
        })
    }

    fn is_visible(&self, user: &str) -> bool {
        self.users.contains(&user)
    }

    /// Scans all documents of the users.
    fn for_each(&self, take: DocumentConsumer<'_>) -> Result<(), Failure> {
        let mut statement = self.connection.prepare_cached(ALL)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let found = StoredDocument::of(row)?;
            if self.is_visible(found.user) && take(&found)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Passes the document with a row id to `take` if it belongs to one of the users.
    fn read_row(&self, row_id: i64, take: DocumentConsumer<'_>) -> Result<ControlFlow<()>, Failure> {
        let mut statement = self.connection.prepare_cached(ONE)?;
        let mut rows = statement.query(params![row_id])?;
        match rows.next()? {
            Some(row) => {
                let found = StoredDocument::of(row)?;
                if self.is_visible(found.user) { take(&found) } else { Ok(ControlFlow::Continue(())) }
            }
            None => Ok(ControlFlow::Continue(())),
        }
    }

    /// Passes the document with a key to `take`, from the first of the users with such a document; `false` if no user
    /// has one.
    pub(crate) fn by_key(
        &self,
        key: &str,
        take: &mut dyn FnMut(&StoredDocument<'_>) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        let mut statement = self.connection.prepare_cached(BY_KEY)?;
        for user in self.users {
            let mut rows = statement.query(params![user, key])?;
            if let Some(row) = rows.next()? {
                take(&StoredDocument::of(row)?)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Row ids of candidate documents in ascending order; `None` if a full scan is necessary.
    fn candidate_rows(&self, query: &Query) -> Result<Option<Vec<i64>>, Failure> {
        let Some(probes) = probes(query, self.accelerations) else { return Ok(None) };
        let mut row_ids = Vec::new();
        for probe in &probes {
            match probe {
                Probe::Key(key) => {
                    let mut statement = self.connection.prepare_cached(BY_KEY)?;
                    for user in self.users {
                        let mut rows = statement.query(params![user, key])?;
                        while let Some(row) = rows.next()? {
                            row_ids.push(row.get(0)?);
                        }
                    }
                }
                Probe::Range(range) => {
                    let mut statement = self.connection.prepare_cached(PLACES)?;
                    let mut rows = statement.query(params![range.acceleration, range.from, range.to])?;
                    while let Some(row) = rows.next()? {
                        row_ids.push(row.get(0)?);
                        if row_ids.len() > ROW_IDS_MAX {
                            return Ok(None);
                        }
                    }
                }
            }
        }
        row_ids.sort_unstable();
        row_ids.dedup();
        Ok(Some(row_ids))
    }

    fn in_sorted_order(
        &self,
        range: &Range,
        is_descending: bool,
        query: &Query,
        answer: &mut Answer<'_>,
    ) -> Result<(), Failure> {
        let direction = if is_descending { "DESC" } else { "ASC" };
        let mut statement =
            self.connection.prepare_cached(&format!("{PLACES} ORDER BY value {direction}, place ASC"))?;
        let mut rows = statement.query(params![range.acceleration, range.from, range.to])?;
        while let Some(row) = rows.next()? {
            let taken = self.read_row(row.get(0)?, &mut |found| {
                if query.is_all() {
                    return answer.take(found, None);
                }
                let members = found.members()?;
                if query.matches(&members) { answer.take(found, Some(members)) } else { Ok(ControlFlow::Continue(())) }
            })?;
            if taken.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The answer being written.
struct Answer<'a> {
    find: &'a Find,
    skipped: usize,
    written: usize,
    out: &'a mut String,
}

impl Answer<'_> {
    fn take(&mut self, found: &StoredDocument<'_>, members: Option<Object>) -> Result<ControlFlow<()>, Failure> {
        if self.skipped < self.find.skip {
            self.skipped += 1;
            return Ok(ControlFlow::Continue(()));
        }
        if self.written > 0 {
            self.out.push_str(",\n");
        }
        if self.find.projection.is_all() {
            write_answer(found.user, found.key, found.body, self.out);
        } else {
            let members = members.map_or_else(|| found.members(), Ok)?;
            self.out.push_str(&Value::Object(self.find.projection.apply(members)).to_string());
        }
        self.written += 1;
        if self.out.len() > self.find.bytes_max {
            let text = format!(
                "the documents found exceed {} bytes (max_size_per_result_mb): request fewer with limit",
                self.find.bytes_max
            );
            return Err(CollectionError::Invalid(text).into());
        }
        Ok(if self.written == self.find.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}
