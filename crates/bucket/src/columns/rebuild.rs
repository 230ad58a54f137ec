//! Texts from columns: templates filled with the values of their slots.
//!
//! A whole page is filled with every column read from start to end, so that no value is looked up: numbers are written
//! out column by column first, then each text is a run of copies. Short copies move a fixed number of bytes, which
//! needs no call, and go on from the true end. A few rows are filled by looking up the place of each value.
//!
//! All parts are valid UTF-8 on their own (literals, dictionaries and texts are checked where they are read, numbers
//! are ASCII), so what they make together is too.

use std::sync::Arc;

use quarry_event::shape::{ColumnKind, ColumnValues, Dictionary, NumberFormat, PageColumn, Part, TEXT_COLUMN, Texts};

use crate::columns::read::{ShapedPage, SlabColumns};
use crate::error::BucketError;
use crate::wire::Malformed;

/// Bytes a short copy moves.
const COPY_BYTES: usize = 32;
/// No slot.
const NO_SLOT: u32 = u32::MAX;
/// From one row in so many on, the whole page is filled and the rows taken from it.
const WHOLE_FROM: usize = 4;
/// Bytes a number is written in, about.
const NUMBER_BYTES: usize = 12;

/// The templates of a column, ready to be filled.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Literals of all templates and, behind them, room for a short copy.
    literals: Vec<u8>,
    steps: Vec<Step>,
    /// End of each template in `steps`.
    ends: Vec<u32>,
}

/// A literal and the slot behind it; either may be missing.
#[derive(Clone, Copy, Debug)]
struct Step {
    literal_at: u32,
    literal_len: u32,
    slot: u32,
}

impl Plan {
    /// The plan of a column with templates.
    pub(crate) fn of(kind: &ColumnKind) -> Option<Plan> {
        let ColumnKind::Templates(templates) = kind else { return None };
        let mut plan = Plan { literals: Vec::new(), steps: Vec::new(), ends: Vec::with_capacity(templates.len()) };
        for template in templates.iter() {
            let mut literal_at = plan.literals.len();
            for part in &template.parts {
                match part {
                    Part::Literal(bytes) => plan.literals.extend_from_slice(bytes),
                    Part::Slot(slot) => {
                        plan.close_step(literal_at, *slot);
                        literal_at = plan.literals.len();
                    }
                }
            }
            if plan.literals.len() > literal_at {
                plan.close_step(literal_at, NO_SLOT);
            }
            plan.ends.push(plan.steps.len() as u32);
        }
        plan.literals.resize(plan.literals.len() + COPY_BYTES, 0);
        Some(plan)
    }

    fn close_step(&mut self, literal_at: usize, slot: u32) {
        let literal_len = (self.literals.len() - literal_at) as u32;
        self.steps.push(Step { literal_at: literal_at as u32, literal_len, slot });
    }

    #[inline]
    fn steps_of(&self, code: u32) -> &[Step] {
        let at = code as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.steps[start..self.ends[at] as usize]
    }
}

/// Texts under construction: a buffer longer than them, so that short copies may run over.
struct Output {
    bytes: Vec<u8>,
    at: usize,
    limit: usize,
}

impl Output {
    fn new(limit: usize) -> Output {
        Output { bytes: vec![0; limit + COPY_BYTES], at: 0, limit }
    }

    #[inline(always)]
    fn put(&mut self, from: &[u8], start: usize, len: usize) -> Result<(), Malformed> {
        let end = self.at + len;
        if end > self.limit {
            return Err(too_long(self.limit));
        }
        if len <= COPY_BYTES
            && let Some(short) = from.get(start..).and_then(|rest| rest.first_chunk::<COPY_BYTES>())
            && let Some(to) = self.bytes[self.at..].first_chunk_mut::<COPY_BYTES>()
        {
            *to = *short;
        } else {
            self.bytes[self.at..end].copy_from_slice(&from[start..start + len]);
        }
        self.at = end;
        Ok(())
    }
}

#[cold]
fn too_long(limit: usize) -> Malformed {
    Malformed(format!("its texts exceed the {limit} bytes of the page"))
}

/// The values of a column in order, those from `next` on not used yet.
struct Feed<'a> {
    values: FeedValues<'a>,
    next: usize,
    len: usize,
}

enum FeedValues<'a> {
    Templates(&'a [u32], &'a Plan),
    Dictionary(&'a [u32], &'a Dictionary),
    Texts(&'a [u8], &'a [u32]),
    /// Not part of what is rebuilt.
    Absent,
}

/// The values of a column, held while a page is filled.
enum Held {
    Kept(Arc<PageColumn>),
    Own(ColumnValues),
}

impl Held {
    fn values(&self) -> &ColumnValues {
        match self {
            Held::Kept(column) => &column.values,
            Held::Own(values) => values,
        }
    }
}

impl ShapedPage {
    /// The texts that a column has in these rows, ascending, each of which must have one; column 0 gives the events.
    pub fn texts(&mut self, column: u32, rows: &[u32]) -> Result<Texts, BucketError> {
        let read = if column == TEXT_COLUMN { None } else { Some(self.column(column)?) };
        let count = read.as_ref().map_or_else(|| self.count(column), |read| read.values.len());
        if rows.len() < count.div_ceil(WHOLE_FROM) {
            return self.some_texts(column, rows);
        }
        let whole = self.all_texts(column)?;
        if rows.len() == count {
            return Ok(whole);
        }
        let mut texts = Vec::with_capacity(whole.bytes.len() / count.max(1) * rows.len());
        let mut ends = Vec::with_capacity(rows.len());
        for row in rows {
            let place = read.as_ref().map_or(Some(*row as usize), |read| read.place(*row));
            let Some(place) = place.filter(|place| *place < whole.ends.len()) else {
                return Err(self.no_value(column, *row));
            };
            texts.extend_from_slice(whole.get(place));
            ends.push(texts.len() as u32);
        }
        Ok(Texts { bytes: texts.into(), ends })
    }

    fn no_value(&self, column: u32, row: u32) -> BucketError {
        self.place().corrupt(format!("column {column} has no value in row {row}"))
    }

    /// Fills a column in all rows that have it.
    pub(crate) fn all_texts(&mut self, column: u32) -> Result<Texts, BucketError> {
        let columns = self.columns.clone();
        let held = self.hold_below(column)?;
        let mut dictionaries = Vec::with_capacity(held.len());
        for (number, held) in held.iter().enumerate() {
            let is_dictionary = matches!(columns.layout.shapes.columns[number].kind, ColumnKind::Dictionary { .. });
            dictionaries.push(match held {
                Some(_) if is_dictionary => Some(columns.dictionary(&self.source, number as u32)?),
                _ => None,
            });
        }
        let written: Vec<Option<Written>> =
            held.iter().zip(&columns.layout.shapes.columns).map(write_numbers).collect();
        let feeds = (0..held.len()).map(|number| {
            let (values, len) = match (&held[number], &dictionaries[number], &written[number]) {
                (Some(held), dictionary, written) => {
                    feed_of(held.values(), dictionary.as_deref(), written.as_ref(), columns.plans[number].as_ref())
                }
                (None, ..) => (FeedValues::Absent, 0),
            };
            Feed { values, next: 0, len }
        });
        let mut feeds: Vec<Feed<'_>> = feeds.collect();
        let mut out = Output::new(self.raw_bytes as usize);
        let ends = fill_all(column, &mut feeds, &mut out);
        let ends = self.place().decoded(ends)?;
        out.bytes.truncate(out.at);
        Ok(Texts { bytes: out.bytes.into(), ends })
    }

    /// The values of a column and of all below it.
    fn hold_below(&mut self, column: u32) -> Result<Vec<Option<Held>>, BucketError> {
        let columns = self.columns.clone();
        let mut held: Vec<Option<Held>> = Vec::with_capacity(columns.layout.stored.len());
        for (number, facts) in columns.layout.shapes.columns.iter().enumerate() {
            let wanted = number == column as usize
                || facts.parent.is_some_and(|parent| {
                    held.get(parent as usize).is_some_and(Option::is_some) && number > column as usize
                });
            held.push(match self.kept(number as u32) {
                _ if !wanted => None,
                Some(kept) => Some(Held::Kept(kept.clone())),
                None => Some(Held::Own(self.values(number as u32)?)),
            });
        }
        Ok(held)
    }

    /// Fills a column in some rows, looking up each value.
    fn some_texts(&mut self, column: u32, rows: &[u32]) -> Result<Texts, BucketError> {
        let columns = self.columns.clone();
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(rows.len()));
        for row in rows {
            self.put_value(&columns, column, *row, &mut bytes)?;
            ends.push(bytes.len() as u32);
        }
        Ok(Texts { bytes: bytes.into(), ends })
    }

    fn put_value(
        &mut self,
        columns: &SlabColumns,
        column: u32,
        row: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), BucketError> {
        let read = match self.kept(column) {
            Some(kept) => kept.clone(),
            None => self.column(column)?,
        };
        let Some(place) = read.place(row).filter(|place| *place < read.values.len()) else {
            return Err(self.no_value(column, row));
        };
        match &read.values {
            ColumnValues::Texts { bytes, ends } => {
                let start = if place == 0 { 0 } else { ends[place - 1] as usize };
                self.put_bytes(&bytes[start..ends[place] as usize], out)
            }
            ColumnValues::Numbers(numbers) => {
                if let ColumnKind::Numbers { format, .. } = columns.layout.shapes.columns[column as usize].kind {
                    format.write(numbers[place], out);
                }
                self.put_bytes(&[], out)
            }
            ColumnValues::Codes(codes) => match &columns.plans[column as usize] {
                None => {
                    let dictionary = columns.dictionary(&self.source, column)?;
                    self.put_bytes(dictionary.get(codes[place]), out)
                }
                Some(plan) => {
                    for step in plan.steps_of(codes[place]) {
                        let start = step.literal_at as usize;
                        self.put_bytes(&plan.literals[start..start + step.literal_len as usize], out)?;
                        if step.slot != NO_SLOT {
                            self.put_value(columns, step.slot, row, out)?;
                        }
                    }
                    Ok(())
                }
            },
        }
    }

    fn put_bytes(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), BucketError> {
        if (out.len() + bytes.len()) as u64 > self.raw_bytes {
            return Err(self.place().corrupt(too_long(self.raw_bytes as usize).0));
        }
        out.extend_from_slice(bytes);
        Ok(())
    }
}

/// Numbers written out.
struct Written {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

fn write_numbers((held, column): (&Option<Held>, &quarry_event::shape::Column)) -> Option<Written> {
    let (ColumnValues::Numbers(numbers), ColumnKind::Numbers { format, .. }) = (held.as_ref()?.values(), &column.kind)
    else {
        return None;
    };
    let mut written = Written { bytes: Vec::with_capacity(numbers.len() * NUMBER_BYTES), ends: Vec::new() };
    written.ends.reserve_exact(numbers.len());
    write_each(*format, numbers, &mut written);
    Some(written)
}

fn write_each(format: NumberFormat, numbers: &[i64], written: &mut Written) {
    for number in numbers {
        format.write(*number, &mut written.bytes);
        written.ends.push(written.bytes.len() as u32);
    }
}

fn feed_of<'a>(
    values: &'a ColumnValues,
    dictionary: Option<&'a Dictionary>,
    written: Option<&'a Written>,
    plan: Option<&'a Plan>,
) -> (FeedValues<'a>, usize) {
    match (values, plan, dictionary, written) {
        (ColumnValues::Codes(codes), Some(plan), ..) => (FeedValues::Templates(codes, plan), codes.len()),
        (ColumnValues::Codes(codes), None, Some(dictionary), _) => {
            (FeedValues::Dictionary(codes, dictionary), codes.len())
        }
        (ColumnValues::Numbers(_), _, _, Some(written)) => {
            (FeedValues::Texts(&written.bytes, &written.ends), written.ends.len())
        }
        (ColumnValues::Texts { bytes, ends }, ..) => (FeedValues::Texts(bytes, ends), ends.len()),
        _ => (FeedValues::Absent, 0),
    }
}

/// Fills all values of a column; the end of each. Every value of every column below must have been used then.
fn fill_all(column: u32, feeds: &mut [Feed<'_>], out: &mut Output) -> Result<Vec<u32>, Malformed> {
    let count = feeds[column as usize].len;
    let mut ends = Vec::with_capacity(count);
    for _ in 0..count {
        fill(column, feeds, out)?;
        ends.push(out.at as u32);
    }
    match feeds.iter().position(|feed| feed.next != feed.len) {
        None => Ok(ends),
        Some(left) => Err(Malformed(format!("column {left} has more values than rows"))),
    }
}

/// Puts the next value of a column.
fn fill(column: u32, feeds: &mut [Feed<'_>], out: &mut Output) -> Result<(), Malformed> {
    let feed = &mut feeds[column as usize];
    let at = feed.next;
    if at >= feed.len {
        return Err(Malformed(format!("column {column} has fewer values than rows")));
    }
    feed.next += 1;
    match feed.values {
        FeedValues::Texts(bytes, ends) => {
            let start = if at == 0 { 0 } else { ends[at - 1] as usize };
            out.put(bytes, start, ends[at] as usize - start)
        }
        FeedValues::Dictionary(codes, dictionary) => {
            let code = codes[at] as usize;
            let start = if code == 0 { 0 } else { dictionary.ends[code - 1] as usize };
            out.put(&dictionary.bytes, start, dictionary.ends[code] as usize - start)
        }
        FeedValues::Templates(codes, plan) => {
            for step in plan.steps_of(codes[at]) {
                out.put(&plan.literals, step.literal_at as usize, step.literal_len as usize)?;
                if step.slot != NO_SLOT {
                    fill(step.slot, feeds, out)?;
                }
            }
            Ok(())
        }
        FeedValues::Absent => Err(Malformed(format!("column {column} is no part of what is rebuilt"))),
    }
}
