//! Rebuilding texts: templates filled with the values of their variables.
//!
//! A whole page is rebuilt by reading every column from start to end, so that no value is looked up. Numbers are
//! formatted in batches, and each text is a sequence of copies. A short copy moves a fixed number of bytes without a
//! function call; the next copy starts where the copied text really ends, and overwrites the surplus. A few rows are
//! rebuilt by looking up the position of each value.
//!
//! All parts are valid UTF-8 (literals, dictionaries and texts are checked when read, numbers are ASCII), and so is
//! their concatenation.

use std::sync::Arc;

use quarry_event::template::{
    ColumnKind, ColumnValues, Dictionary, NumberFormat, PageColumn, TEXT_COLUMN, TemplatePart, TemplateSet, Texts,
};
use quarry_stdx::number::u32_of;

use crate::columns::cells::{BATCH_CELLS, CELL_BYTES, Cells};
use crate::columns::layout::ChunkLocations;
use crate::columns::point_reads::POINT_READ_ROWS_MAX;
use crate::columns::read::{Extent, SlabColumns, TemplatePage};
use crate::error::BucketError;
use crate::wire::Malformed;

/// Bytes moved by a short copy.
const COPY_BYTES: usize = CELL_BYTES;
pub(super) const NO_VARIABLE: u32 = u32::MAX;
/// Number of rows of a block, if texts are passed on in blocks: their texts take a small part of the processor's cache.
const BLOCK_ROWS: usize = 128;
/// If at least one row in four is requested, the whole page is rebuilt and the rows are taken from it.
const WHOLE_PAGE_DIVISOR: usize = 4;
/// Number of rows that a cursor passes one by one before it continues with a binary search.
const LINEAR_STEPS_MAX: usize = 8;
/// Maximum number of steps of a template that is inlined into the templates that contain its column. Only the template
/// of a column with a single template is inlined.
const INLINED_STEPS: usize = 16;
/// Maximum bytes of literals of a template that is inlined, including the room for a short copy.
const INLINED_BYTES: usize = 256;

/// Plans for rebuilding those columns of a slab that have templates.
#[derive(Debug)]
pub(crate) struct RebuildPlans {
    /// Plan of each column; `None` for a column without templates.
    plans_by_column: Vec<Option<RebuildPlan>>,
    /// Columns inlined into their parents' plans.
    inlined: Vec<bool>,
}

/// The templates of a column, prepared for filling.
#[derive(Debug, Default)]
pub(super) struct RebuildPlan {
    /// Literals of all templates, followed by room for a short copy.
    literals: Vec<u8>,
    steps: Vec<Step>,
    /// End of each template in `steps`.
    ends: Vec<u32>,
}

/// A literal followed by a variable; either of them may be missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    literal_at: u32,
    literal_len: u32,
    pub(super) variable: u32,
}

impl RebuildPlans {
    pub(crate) fn of(template_set: &TemplateSet) -> RebuildPlans {
        let count = template_set.columns.len();
        let mut plans =
            RebuildPlans { plans_by_column: (0..count).map(|_| None).collect(), inlined: vec![false; count] };
        // The columns of variables come after the column whose templates contain them.
        for (number, column) in template_set.columns.iter().enumerate().rev() {
            let ColumnKind::Templates(templates) = &column.kind else { continue };
            let mut plan = RebuildPlan::default();
            for template in templates.iter() {
                let mut literal_at = plan.literals.len();
                for part in &template.parts {
                    plan.add(part, &plans, &mut literal_at);
                }
                plan.close_step(&mut literal_at, NO_VARIABLE);
                plan.ends.push(u32_of(plan.steps.len()));
            }
            plan.literals.resize(plan.literals.len() + COPY_BYTES, 0);
            plans.inlined[number] = number != TEXT_COLUMN as usize
                && templates.len() == 1
                && plan.steps.len() <= INLINED_STEPS
                && plan.literals.len() <= INLINED_BYTES;
            plans.plans_by_column[number] = Some(plan);
        }
        plans
    }

    pub(super) fn plan_of_column(&self, column: u32) -> Option<&RebuildPlan> {
        self.plans_by_column[column as usize].as_ref()
    }
}

impl RebuildPlan {
    fn add(&mut self, part: &TemplatePart, plans: &RebuildPlans, literal_at: &mut usize) {
        match part {
            TemplatePart::Literal(bytes) => self.literals.extend_from_slice(bytes),
            TemplatePart::Variable(variable) => match plans.plan_of_column(*variable) {
                Some(inner) if plans.inlined[*variable as usize] => {
                    for step in &inner.steps {
                        let start = step.literal_at as usize;
                        self.literals.extend_from_slice(&inner.literals[start..start + step.literal_len as usize]);
                        if step.variable != NO_VARIABLE {
                            self.close_step(literal_at, step.variable);
                        }
                    }
                }
                _ => self.close_step(literal_at, *variable),
            },
        }
    }

    fn close_step(&mut self, literal_at: &mut usize, variable: u32) {
        assert!(*literal_at <= self.literals.len(), "a literal follows those before it");
        let literal_len = u32_of(self.literals.len() - *literal_at);
        if literal_len > 0 || variable != NO_VARIABLE {
            self.steps.push(Step { literal_at: u32_of(*literal_at), literal_len, variable });
        }
        *literal_at = self.literals.len();
    }

    /// Bytes of the literals of each template.
    fn literal_bytes(&self) -> Vec<usize> {
        let bytes_of = |code: usize| self.steps_of(u32_of(code)).iter().map(|step| step.literal_len as usize).sum();
        (0..self.ends.len()).map(bytes_of).collect()
    }

    /// The literal before a variable.
    pub(super) fn literal(&self, step: &Step) -> &[u8] {
        &self.literals[step.literal_at as usize..(step.literal_at + step.literal_len) as usize]
    }

    #[inline]
    pub(super) fn steps_of(&self, code: u32) -> &[Step] {
        let at = code as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.steps[start..self.ends[at] as usize]
    }
}

/// Texts under construction. The buffer is longer than the texts, so that short copies may write past their end.
#[derive(Default)]
pub(crate) struct TextBuffer {
    bytes: Vec<u8>,
    at: usize,
    limit: usize,
    ends: Vec<u32>,
}

impl TextBuffer {
    /// The texts, concatenated.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.at]
    }

    /// End of each text.
    pub(crate) fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Removes the texts but keeps the space.
    fn clear(&mut self) {
        self.at = 0;
        self.ends.clear();
    }

    /// Clears the buffer and reserves space for texts of up to `limit` bytes.
    fn start(&mut self, limit: usize) {
        if self.bytes.len() < limit + COPY_BYTES {
            self.bytes = vec![0; limit + COPY_BYTES];
        }
        self.limit = limit;
        self.clear();
    }

    /// The finished texts.
    pub(crate) fn finish(mut self) -> Texts {
        self.bytes.truncate(self.at);
        Texts { bytes: self.bytes.into(), ends: self.ends }
    }

    #[inline(always)]
    fn put(&mut self, from: &[u8], start: usize, len: usize) -> Result<(), RebuildFault> {
        let end = self.at + len;
        if end > self.limit {
            return Err(RebuildFault::TooLong);
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

    #[inline(always)]
    fn put_cell(&mut self, cell: &[u8; CELL_BYTES], len: u8) -> Result<(), RebuildFault> {
        let end = self.at + usize::from(len);
        match self.bytes[self.at..].first_chunk_mut::<CELL_BYTES>() {
            Some(to) if end <= self.limit => *to = *cell,
            _ => return Err(RebuildFault::TooLong),
        }
        self.at = end;
        Ok(())
    }
}

#[cold]
fn text_limit_error(limit: usize) -> Malformed {
    Malformed(format!("its texts exceed the {limit} bytes of the page"))
}

/// The values of a column in order; the values from `next` on are unused.
struct ColumnFeed<'a> {
    values: FeedValues<'a>,
    next: usize,
    len: usize,
}

enum FeedValues<'a> {
    Templates(&'a [u32], &'a RebuildPlan),
    Dictionary(&'a [u32], &'a Dictionary),
    Numbers(NumberFormat, &'a [i64], Box<Cells>),
    Texts(&'a [u8], &'a [u32]),
    /// A column that was not read, because the rebuilt texts do not contain it.
    Absent,
}

/// The values of a column, held while a page is rebuilt.
enum HeldColumn {
    Kept(Arc<PageColumn>),
    Own(ColumnValues),
}

impl HeldColumn {
    fn values(&self) -> &ColumnValues {
        match self {
            HeldColumn::Kept(column) => &column.values,
            HeldColumn::Own(values) => values,
        }
    }
}

/// Position in a column while some of its rows are rebuilt in ascending order.
struct Cursor {
    read: Arc<PageColumn>,
    dictionary: Option<Arc<Dictionary>>,
    /// Index of the first row that has not been passed yet.
    next: usize,
}

impl Cursor {
    /// Position of the row's value.
    #[inline]
    fn value_position(&mut self, row: u32) -> Option<usize> {
        let Some(rows) = &self.read.rows else { return Some(row as usize) };
        let near = rows.len().min(self.next + LINEAR_STEPS_MAX);
        while self.next < near && rows[self.next] < row {
            self.next += 1;
        }
        if self.next == near {
            self.next += rows[near..].partition_point(|known| *known < row);
        }
        (rows.get(self.next) == Some(&row)).then_some(self.next)
    }
}

impl TemplatePage {
    /// The texts of a column in `rows`, which ascends; every row must have a value. The texts of column 0 are the
    /// events.
    pub fn texts(&mut self, column: u32, rows: &[u32]) -> Result<Texts, BucketError> {
        if rows.len() <= POINT_READ_ROWS_MAX && (column as usize) < self.columns.layout.stored.len() {
            return self.point_read_texts(column, rows);
        }
        let read = if column == TEXT_COLUMN { None } else { Some(self.column(column)?) };
        let count = read.as_ref().map_or_else(|| self.value_count(column), |read| read.values.len());
        let whole = match read.as_ref().map(|read| &read.values) {
            // The texts are in memory as they are.
            Some(ColumnValues::Texts { bytes, ends }) => Texts { bytes: bytes.clone(), ends: ends.clone() },
            _ if rows.len() < count.div_ceil(WHOLE_PAGE_DIVISOR) => return self.texts_of_rows(column, rows),
            _ => self.all_texts(column)?,
        };
        if rows.len() == count {
            return Ok(whole);
        }
        let mut texts = Vec::with_capacity(whole.bytes.len() / count.max(1) * rows.len());
        let mut ends = Vec::with_capacity(rows.len());
        for row in rows {
            let place = read.as_ref().map_or(Some(*row as usize), |read| read.value_index(*row));
            let Some(place) = place.filter(|place| *place < whole.ends.len()) else {
                return Err(self.missing_value_error(column, *row));
            };
            texts.extend_from_slice(whole.get(place));
            ends.push(u32_of(texts.len()));
        }
        assert_eq!(ends.len(), rows.len(), "every requested row has its text");
        Ok(Texts { bytes: texts.into(), ends })
    }

    pub(super) fn missing_value_error(&self, column: u32, row: u32) -> BucketError {
        self.position().corrupt(format!("column {column} has no value in row {row}"))
    }

    /// The texts of a column in all rows that have it.
    pub(crate) fn all_texts(&mut self, column: u32) -> Result<Texts, BucketError> {
        let mut buffer = TextBuffer::default();
        self.rebuild_all(column, &mut buffer)?;
        Ok(buffer.finish())
    }

    /// Rebuilds a column in all rows that have it.
    pub(crate) fn rebuild_all(&mut self, column: u32, out: &mut TextBuffer) -> Result<(), BucketError> {
        self.rebuild_all_and_visit(column, out, &mut |_, _| {}, None)
    }

    /// Rebuilds a column like `rebuild_all`, and passes the values of each column that this reads to `show`. If `take`
    /// is given, it receives the texts in blocks, and `out` is empty at the end.
    pub(crate) fn rebuild_all_and_visit(
        &mut self,
        column: u32,
        out: &mut TextBuffer,
        show: &mut dyn FnMut(u32, &ColumnValues),
        take: Option<&mut dyn FnMut(&TextBuffer)>,
    ) -> Result<(), BucketError> {
        let columns = self.columns.clone();
        self.fetch_descendants(column, Extent::All)?;
        let held = self.collect_with_descendants(column)?;
        for (number, held) in (0u32..).zip(&held) {
            held.iter().for_each(|held| show(number, held.values()));
        }
        let mut dictionaries = Vec::with_capacity(held.len());
        for (number, held) in held.iter().enumerate() {
            let is_dictionary =
                matches!(columns.layout.template_set.columns[number].kind, ColumnKind::Dictionary { .. });
            dictionaries.push(match held {
                Some(_) if is_dictionary => Some(columns.dictionary(&self.source, u32_of(number))?),
                _ => None,
            });
        }
        let feed = |number: usize| {
            let values = match (
                held[number].as_ref().map(HeldColumn::values),
                &columns.layout.template_set.columns[number].kind,
            ) {
                (None, _) => FeedValues::Absent,
                (Some(ColumnValues::Texts { bytes, ends }), _) => FeedValues::Texts(bytes, ends),
                (Some(ColumnValues::Numbers(numbers)), ColumnKind::Numbers { format, .. }) => {
                    FeedValues::Numbers(*format, numbers, Cells::new())
                }
                (Some(ColumnValues::Codes(codes)), _) => {
                    match (columns.plans.plan_of_column(u32_of(number)), &dictionaries[number]) {
                        (Some(plan), _) => FeedValues::Templates(codes, plan),
                        (None, Some(dictionary)) => FeedValues::Dictionary(codes, dictionary),
                        (None, None) => FeedValues::Absent,
                    }
                }
                (Some(ColumnValues::Numbers(_)), _) => FeedValues::Absent,
            };
            ColumnFeed { values, next: 0, len: held[number].as_ref().map_or(0, |held| held.values().len()) }
        };
        let mut feeds: Vec<ColumnFeed<'_>> = (0..held.len()).map(feed).collect();
        let is_of_texts = (column as usize) < columns.layout.template_set.text_columns().len();
        let limit = if is_of_texts { self.raw_bytes } else { self.most_bytes } as usize;
        // The values of a column are often a small part of the texts, and allocation clears the buffer.
        let most_bytes = match column {
            TEXT_COLUMN => limit,
            _ => feeds.iter().map(ColumnFeed::most_bytes).sum::<usize>().min(limit),
        };
        out.start(most_bytes);
        self.position().map_malformed(fill_column(column, &mut feeds, out, take))
    }

    /// The values of a column and of the columns below it that are not inlined.
    fn collect_with_descendants(&mut self, column: u32) -> Result<Vec<Option<HeldColumn>>, BucketError> {
        let columns = self.columns.clone();
        let mut wanted = vec![false; columns.layout.stored.len()];
        let mut held: Vec<Option<HeldColumn>> = Vec::with_capacity(wanted.len());
        // Index-time fields that were read before; columns of the texts may have their values.
        let fields = columns.layout.template_set.fields.iter().map(|field| field.column);
        let fields: Vec<u32> = fields.filter(|field| self.cached_column(*field).is_some()).collect();
        for (number, facts) in columns.layout.template_set.columns.iter().enumerate() {
            let is_root = number == column as usize;
            wanted[number] = is_root || facts.parent.is_some_and(|parent| wanted[parent as usize]);
            let same = || fields.iter().find(|field| self.are_stored_once(**field, u32_of(number)));
            let known = self.cached_column(u32_of(number)).or_else(|| self.cached_column(*same()?));
            held.push(match known {
                _ if !wanted[number] || (columns.plans.inlined[number] && !is_root) => None,
                Some(kept) => Some(HeldColumn::Kept(kept.clone())),
                None => {
                    let slice = columns.layout.slice_of(u32_of(number));
                    let texts = slice.and_then(|slice| Some((held.get(slice.column as usize)?.as_ref()?, slice.start)));
                    Some(HeldColumn::Own(match texts {
                        Some((texts, start)) => self.sliced(u32_of(number), texts.values(), start)?,
                        None => self.values(u32_of(number))?,
                    }))
                }
            });
        }
        Ok(held)
    }

    /// Whether two columns share the same stored values, as a field that is a cell of the texts and the column of the
    /// cell do.
    fn are_stored_once(&self, one: u32, other: u32) -> bool {
        let [one, other] = [one, other].map(|column| {
            let stored = &self.columns.layout.stored[column as usize];
            (&stored.values, &stored.counts, &self.columns.layout.template_set.columns[column as usize])
        });
        matches!(one.0, ChunkLocations::Blocks { .. } | ChunkLocations::Shared { .. })
            && (one.0, one.1) == (other.0, other.1)
            && (&one.2.kind, &one.2.traits) == (&other.2.kind, &other.2.traits)
    }

    /// Rebuilds a column in some rows, looking up each value. Only columns that one of the rows needs are read.
    fn texts_of_rows(&mut self, column: u32, rows: &[u32]) -> Result<Texts, BucketError> {
        let columns = self.columns.clone();
        self.fetch_descendants(column, Extent::All)?;
        let mut cursors = Vec::new();
        cursors.resize_with(columns.layout.stored.len(), || None);
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(rows.len()));
        for row in rows {
            self.put_value(&columns, &mut cursors, column, *row, &mut bytes)?;
            ends.push(u32_of(bytes.len()));
        }
        Ok(Texts { bytes: bytes.into(), ends })
    }

    fn put_value(
        &mut self,
        columns: &SlabColumns,
        cursors: &mut [Option<Cursor>],
        column: u32,
        row: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), BucketError> {
        let slot = &mut cursors[column as usize];
        let cursor = match slot {
            Some(cursor) => cursor,
            None => {
                let is_dictionary =
                    matches!(columns.layout.template_set.columns[column as usize].kind, ColumnKind::Dictionary { .. });
                let dictionary = match is_dictionary {
                    true => Some(columns.dictionary(&self.source, column)?),
                    false => None,
                };
                slot.insert(Cursor { read: self.column(column)?, dictionary, next: 0 })
            }
        };
        let Some(place) = cursor.value_position(row).filter(|place| *place < cursor.read.values.len()) else {
            return Err(self.missing_value_error(column, row));
        };
        let code = match &cursor.read.values {
            ColumnValues::Texts { bytes, ends } => {
                let start = if place == 0 { 0 } else { ends[place - 1] as usize };
                return self.put_bytes(&bytes[start..ends[place] as usize], out);
            }
            ColumnValues::Numbers(numbers) => {
                if let ColumnKind::Numbers { format, .. } = columns.layout.template_set.columns[column as usize].kind {
                    format.write(numbers[place], out);
                }
                return self.put_bytes(&[], out);
            }
            ColumnValues::Codes(codes) => codes[place],
        };
        if let Some(dictionary) = &cursor.dictionary {
            return self.put_bytes(dictionary.get(code), out);
        }
        let Some(plan) = columns.plans.plan_of_column(column) else {
            return Err(self.missing_value_error(column, row));
        };
        for step in plan.steps_of(code) {
            self.put_bytes(plan.literal(step), out)?;
            if step.variable != NO_VARIABLE {
                self.put_value(columns, cursors, step.variable, row, out)?;
            }
        }
        Ok(())
    }

    pub(super) fn put_bytes(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), BucketError> {
        if (out.len() + bytes.len()) as u64 > self.most_bytes {
            return Err(self.position().corrupt(text_limit_error(self.most_bytes as usize).0));
        }
        out.extend_from_slice(bytes);
        Ok(())
    }
}

/// Error of rebuilding texts. The error has no message, so that the result returned for every value stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RebuildFault {
    /// The texts exceed the bytes of the page.
    TooLong,
    /// This column has fewer values than the rows need.
    TooFew(u32),
    /// A template contains this column, which was not read.
    Absent(u32),
}

impl RebuildFault {
    #[cold]
    fn into_malformed(self, limit: usize) -> Malformed {
        match self {
            RebuildFault::TooLong => text_limit_error(limit),
            RebuildFault::TooFew(column) => Malformed(format!("column {column} has fewer values than rows")),
            RebuildFault::Absent(column) => Malformed(format!("column {column} is not part of the rebuilt texts")),
        }
    }
}

/// Rebuilds all values of a column; passes them to `take` in blocks, if it is given. Fails if a value of a column below
/// is left over at the end.
fn fill_column(
    column: u32,
    feeds: &mut [ColumnFeed<'_>],
    out: &mut TextBuffer,
    mut take: Option<&mut dyn FnMut(&TextBuffer)>,
) -> Result<(), Malformed> {
    let mut left = feeds[column as usize].len;
    while left > 0 {
        let rows = if take.is_some() { left.min(BLOCK_ROWS) } else { left };
        out.ends.reserve_exact(rows);
        for _ in 0..rows {
            fill(column, feeds, out).map_err(|misfit| misfit.into_malformed(out.limit))?;
            out.ends.push(u32_of(out.at));
        }
        if let Some(take) = &mut take {
            take(out);
            out.clear();
        }
        left -= rows;
    }
    match feeds.iter().position(|feed| feed.next != feed.len) {
        None => Ok(()),
        Some(left) => Err(Malformed(format!("column {left} has more values than rows"))),
    }
}

/// Appends the next value of a column.
#[inline(always)]
fn fill(column: u32, feeds: &mut [ColumnFeed<'_>], out: &mut TextBuffer) -> Result<(), RebuildFault> {
    match feeds[column as usize].put_next(column, out)? {
        Some((plan, code)) => fill_template(plan, code, feeds, out),
        None => Ok(()),
    }
}

/// Appends a template filled with the next values of its variables. Most values are not templates themselves, so
/// recursion is rare.
fn fill_template(
    plan: &RebuildPlan,
    code: u32,
    feeds: &mut [ColumnFeed<'_>],
    out: &mut TextBuffer,
) -> Result<(), RebuildFault> {
    for step in plan.steps_of(code) {
        out.put(&plan.literals, step.literal_at as usize, step.literal_len as usize)?;
        if step.variable != NO_VARIABLE {
            fill(step.variable, feeds, out)?;
        }
    }
    Ok(())
}

impl<'a> ColumnFeed<'a> {
    /// Upper bound for the bytes that the column's values add to the rebuilt texts; of templates, only literals count.
    fn most_bytes(&self) -> usize {
        match &self.values {
            FeedValues::Templates(codes, plan) => {
                let bytes = plan.literal_bytes();
                codes.iter().map(|code| bytes[*code as usize]).sum()
            }
            FeedValues::Dictionary(codes, dictionary) => codes.iter().map(|code| dictionary.get(*code).len()).sum(),
            FeedValues::Numbers(_, numbers, _) => numbers.len() * CELL_BYTES,
            FeedValues::Texts(bytes, _) => bytes.len(),
            FeedValues::Absent => 0,
        }
    }

    /// Appends the next value. If the value is a template, returns the plan and the template, which the caller fills.
    #[inline(always)]
    fn put_next(&mut self, column: u32, out: &mut TextBuffer) -> Result<Option<(&'a RebuildPlan, u32)>, RebuildFault> {
        let at = self.next;
        if at >= self.len {
            return Err(RebuildFault::TooFew(column));
        }
        self.next += 1;
        match &mut self.values {
            FeedValues::Numbers(format, numbers, cells) => {
                let cell = at % BATCH_CELLS;
                if cell == 0 {
                    cells.format_numbers(*format, &numbers[at..numbers.len().min(at + BATCH_CELLS)]);
                }
                out.put_cell(&cells.bytes[cell], cells.lens[cell])?;
            }
            FeedValues::Dictionary(codes, dictionary) => {
                let code = codes[at] as usize;
                let start = if code == 0 { 0 } else { dictionary.ends[code - 1] as usize };
                out.put(&dictionary.bytes, start, dictionary.ends[code] as usize - start)?;
            }
            FeedValues::Texts(bytes, ends) => {
                let start = if at == 0 { 0 } else { ends[at - 1] as usize };
                out.put(bytes, start, ends[at] as usize - start)?;
            }
            FeedValues::Templates(codes, plan) => return Ok(Some((plan, codes[at]))),
            FeedValues::Absent => return Err(RebuildFault::Absent(column)),
        }
        Ok(None)
    }
}
