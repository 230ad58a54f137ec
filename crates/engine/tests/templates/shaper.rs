//! Hand-made template segments, including forms that the splitter would never choose: variables that begin inside
//! words, templates inside templates, dictionaries of numbers, plain texts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quarry_event::segment::{for_each_token, lower_token};
use quarry_event::template::{
    ByteSet, Column, ColumnKind, ColumnValues, CountedValues, Dictionary, NumberFormat, PageColumn, Template,
    TemplatePart, TemplateSet, Texts, ValueCounts, ValueTraits, is_json_scalar, is_string_content,
};
use quarry_event::{FieldColumns, Page, PageColumns, TermQuery};
use quarry_store::{Segment, StoreError, TemplatePage};

/// Maximum number of distinct values of a column whose counts are stored.
const COUNTED: usize = 24;

/// Options of splitting texts into templates and columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitOptions {
    /// Bytes that separate words; they are part of the literals.
    pub(crate) breaks: &'static [u8],
    /// Number of bytes at the start of a word that stay in the literal, before its variable.
    pub(crate) shift: usize,
    /// Whether only words with digits become variables.
    pub(crate) digits_only: bool,
    /// Whether columns with values that contain blanks become nested templates.
    pub(crate) nested: bool,
    /// Whether numbers stay texts.
    pub(crate) no_numbers: bool,
    /// Whether columns state the JSON types of their values.
    pub(crate) knows_json: bool,
    /// Maximum number of distinct texts for which a column becomes a dictionary.
    pub(crate) dictionary: usize,
    /// Whether text in quotes is one variable.
    pub(crate) quotes: bool,
    /// Every n-th text becomes a template of one variable; 0 for none.
    pub(crate) outliers: usize,
    /// Whether the segment can name the rows that may contain a token.
    pub(crate) rows_known: bool,
}

#[derive(Debug)]
struct Values {
    rows: Vec<u32>,
    texts: Vec<Vec<u8>>,
    codes: Vec<u32>,
    numbers: Vec<i64>,
}

/// A segment with its texts as columns.
#[derive(Debug)]
pub(crate) struct HandMade {
    inner: Arc<dyn Segment>,
    rows_known: bool,
    template_set: Arc<TemplateSet>,
    values: Vec<Values>,
    dictionaries: BTreeMap<u32, Arc<Dictionary>>,
    starts: Vec<u32>,
}

impl HandMade {
    /// Splits the texts of a segment.
    pub(crate) fn new(inner: Arc<dyn Segment>, manner: SplitOptions) -> Arc<HandMade> {
        let (mut rows, mut starts) = (Vec::new(), vec![0]);
        for page in 0..inner.pages().len() {
            let events = inner.read_page(page, PageColumns::ALL).unwrap();
            rows.extend((0..events.len()).map(|row| events.raw(row).to_vec()));
            starts.push(rows.len() as u32);
        }
        let mut making =
            ColumnSetBuilder { manner, columns: Vec::new(), values: Vec::new(), dictionaries: BTreeMap::new() };
        let all = (0..rows.len() as u32).collect();
        making.column(None, all, rows, 0, true);
        let columns: Vec<Column> = making.columns.into_iter().map(Option::unwrap).collect();
        let counts = columns.iter().zip(&making.values).zip(0..);
        let counts = counts.filter_map(|((column, values), number)| Some((number, counted(column, values, &starts)?)));
        let counts = counts.collect();
        Arc::new(HandMade {
            inner,
            rows_known: manner.rows_known,
            template_set: Arc::new(TemplateSet { columns, counts, ..TemplateSet::default() }),
            values: making.values,
            dictionaries: making.dictionaries,
            starts,
        })
    }
}

/// Counts of the distinct values of a column, if there are few.
fn counted(column: &Column, values: &Values, starts: &[u32]) -> Option<ValueCounts> {
    let numbers: BTreeSet<i64> = values.numbers.iter().copied().collect();
    let distinct = match &column.kind {
        ColumnKind::Templates(templates) => CountedValues::Codes(templates.len() as u32),
        ColumnKind::Dictionary { len } => CountedValues::Codes(*len),
        ColumnKind::Numbers { .. } => CountedValues::Numbers(numbers.iter().copied().collect()),
        ColumnKind::Texts => return None,
    };
    if distinct.is_empty() || distinct.len() > COUNTED {
        return None;
    }
    let mut counts = vec![0; distinct.len() * (starts.len() - 1)];
    for (at, row) in values.rows.iter().enumerate() {
        let page = starts.partition_point(|start| start <= row) - 1;
        let value = match values.numbers.get(at) {
            Some(number) => numbers.range(..number).count(),
            None => values.codes[at] as usize,
        };
        counts[page * distinct.len() + value] += 1;
    }
    Some(ValueCounts::new(distinct, counts.into()))
}

/// The text with which all of these sorted texts begin.
fn common_prefix<'t>(texts: &[&'t Vec<u8>]) -> &'t str {
    let [first, .., last] = texts else { return "" };
    let len = first.iter().zip(last.iter()).take_while(|(one, other)| one == other).count();
    first[..len].utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

struct ColumnSetBuilder {
    manner: SplitOptions,
    columns: Vec<Option<Column>>,
    values: Vec<Values>,
    dictionaries: BTreeMap<u32, Arc<Dictionary>>,
}

impl ColumnSetBuilder {
    fn column(&mut self, parent: Option<u32>, rows: Vec<u32>, texts: Vec<Vec<u8>>, depth: usize, root: bool) -> u32 {
        let number = self.columns.len() as u32;
        self.columns.push(None);
        let mut traits = ValueTraits::default();
        texts.iter().enumerate().for_each(|(at, text)| traits.add(text, at == 0));
        if self.manner.knows_json {
            traits.string_contents = texts.iter().all(|text| is_string_content(text));
            traits.json_scalars = texts.iter().all(|text| is_json_scalar(text));
        }
        let mut values = Values { rows, texts: Vec::new(), codes: Vec::new(), numbers: Vec::new() };
        let count = texts.len() as u64;
        let guess = texts.first().and_then(|text| NumberFormat::guess(text));
        let shortest = NumberFormat::shortest(texts.iter().map(Vec::as_slice));
        let numbers = guess.into_iter().chain(shortest).find_map(|format| {
            let numbers: Option<Vec<i64>> = texts.iter().map(|text| format.parse(text)).collect();
            Some((format, numbers?))
        });
        let mut distinct: Vec<&Vec<u8>> = texts.iter().collect();
        distinct.sort();
        distinct.dedup();
        let prefix: Box<str> = common_prefix(&distinct).into();
        let mut rest = ByteSet::EMPTY;
        distinct.iter().for_each(|text| rest.insert_all(&text[prefix.len()..]));
        let splits = root || (self.manner.nested && depth < 3 && texts.iter().any(|text| text.contains(&b' ')));
        self.values.push(Values { rows: Vec::new(), texts: Vec::new(), codes: Vec::new(), numbers: Vec::new() });
        let kind = if splits {
            self.templates(number, &mut values, &texts, depth, root)
        } else if let (Some((format, numbers)), false) = (numbers, self.manner.no_numbers) {
            let (min, max) = (*numbers.iter().min().unwrap(), *numbers.iter().max().unwrap());
            values.numbers = numbers;
            ColumnKind::Numbers { format, min, max }
        } else if distinct.len() <= self.manner.dictionary {
            let mut dictionary = Dictionary::default();
            let mut bytes = Vec::new();
            for text in &distinct {
                bytes.extend_from_slice(text);
                dictionary.ends.push(bytes.len() as u32);
            }
            dictionary.bytes = bytes.into();
            values.codes = texts.iter().map(|text| dictionary.find(text).unwrap()).collect();
            self.dictionaries.insert(number, Arc::new(dictionary));
            ColumnKind::Dictionary { len: distinct.len() as u32 }
        } else {
            values.texts = texts;
            ColumnKind::Texts
        };
        if matches!(kind, ColumnKind::Dictionary { .. } | ColumnKind::Texts) && !prefix.is_empty() {
            (traits.prefix, traits.after_prefix) = (prefix, rest);
        }
        self.values[number as usize] = values;
        self.columns[number as usize] = Some(Column { parent, kind, traits, values: count });
        number
    }

    fn templates(
        &mut self,
        number: u32,
        values: &mut Values,
        texts: &[Vec<u8>],
        depth: usize,
        root: bool,
    ) -> ColumnKind {
        type VariableKey = (Vec<u8>, usize);
        let mut variables: Vec<(VariableKey, Vec<u32>, Vec<Vec<u8>>)> = Vec::new();
        let mut template_set: Vec<Vec<Result<Vec<u8>, usize>>> = Vec::new();
        for (at, (row, text)) in values.rows.iter().zip(texts).enumerate() {
            let outlier = root && self.manner.outliers > 0 && at % self.manner.outliers == self.manner.outliers - 1;
            let pieces = if outlier { vec![(true, text.clone())] } else { self.split(text, depth) };
            let mut parts: Vec<Result<Vec<u8>, usize>> = Vec::new();
            for (variable, bytes) in pieces {
                if !variable {
                    match parts.last_mut() {
                        Some(Ok(before)) => before.extend_from_slice(&bytes),
                        _ => parts.push(Ok(bytes)),
                    }
                    continue;
                }
                let before: Vec<u8> = match parts.last() {
                    Some(Ok(literal)) => literal[literal.len().saturating_sub(9)..].to_vec(),
                    _ => Vec::new(),
                };
                let mut key = (before, 0);
                let variable = loop {
                    let found = variables.iter().position(|(known, _, _)| *known == key).unwrap_or_else(|| {
                        variables.push((key.clone(), Vec::new(), Vec::new()));
                        variables.len() - 1
                    });
                    if !parts.contains(&Err(found)) {
                        break found;
                    }
                    key.1 += 1;
                };
                variables[variable].1.push(*row);
                variables[variable].2.push(bytes);
                parts.push(Err(variable));
            }
            let code = template_set.iter().position(|known| *known == parts).unwrap_or_else(|| {
                template_set.push(parts);
                template_set.len() - 1
            });
            values.codes.push(code as u32);
        }
        let columns: Vec<u32> = variables
            .into_iter()
            .map(|(_, rows, texts)| self.column(Some(number), rows, texts, depth + 1, false))
            .collect();
        let templates = template_set.into_iter().map(|parts| Template {
            parts: (parts.into_iter())
                .map(|part| match part {
                    Ok(literal) => TemplatePart::Literal(literal.into()),
                    Err(variable) => TemplatePart::Variable(columns[variable]),
                })
                .collect(),
        });
        ColumnKind::Templates(templates.collect())
    }

    /// Pieces of a text, and which are variables.
    fn split(&self, text: &[u8], depth: usize) -> Vec<(bool, Vec<u8>)> {
        let mut pieces = Vec::new();
        let mut at = 0;
        let is_break = |byte: u8| self.manner.breaks.contains(&byte);
        while at < text.len() {
            if self.manner.quotes
                && depth == 0
                && text[at] == b'"'
                && let Some(length) = text[at + 1..].iter().position(|byte| *byte == b'"')
            {
                pieces.push((false, vec![b'"']));
                pieces.push((true, text[at + 1..at + 1 + length].to_vec()));
                pieces.push((false, vec![b'"']));
                at += length + 2;
                continue;
            }
            let end = text[at..].iter().position(|byte| is_break(*byte)).map_or(text.len(), |length| at + length);
            if end == at {
                pieces.push((false, vec![text[at]]));
                at += 1;
                continue;
            }
            let word = &text[at..end];
            let wanted = !self.manner.digits_only || word.iter().any(u8::is_ascii_digit);
            let mut shift = self.manner.shift.min(word.len());
            // A part never begins inside a character.
            while shift < word.len() && word[shift] & 0xc0 == 0x80 {
                shift += 1;
            }
            if wanted && shift < word.len() {
                if shift > 0 {
                    pieces.push((false, word[..shift].to_vec()));
                }
                pieces.push((true, word[shift..].to_vec()));
            } else {
                pieces.push((false, word.to_vec()));
            }
            at = end;
        }
        if pieces.is_empty() {
            pieces.push((true, Vec::new()));
        }
        pieces
    }
}

impl Segment for HandMade {
    quarry_testworld::segment_of!(inner);

    fn candidate_rows(
        &self,
        page: usize,
        query: &TermQuery,
        _fields: &dyn FieldColumns,
        most: usize,
    ) -> Result<Option<Vec<u32>>, StoreError> {
        if !self.rows_known {
            return Ok(None);
        }
        let events = self.inner.read_page(page, PageColumns::ALL)?;
        let mut rows = Vec::new();
        for row in 0..events.len() {
            match may_hold(query, events.raw(row), !events.fields.is_empty()) {
                Some(true) => rows.push(row as u32),
                Some(false) => {}
                None => return Ok(None),
            }
        }
        Ok((rows.len() <= most).then_some(rows))
    }

    fn read_page(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        self.inner.read_page(page, columns)
    }

    fn may_hold_fields(&self, page: usize) -> bool {
        !self.inner.read_page(page, PageColumns::ALL).unwrap().fields.is_empty()
    }

    fn template_set(&self) -> Result<Option<Arc<TemplateSet>>, StoreError> {
        Ok(Some(Arc::clone(&self.template_set)))
    }

    fn dictionary(&self, column: u32) -> Result<Arc<Dictionary>, StoreError> {
        Ok(Arc::clone(&self.dictionaries[&column]))
    }

    fn template_page(&self, page: usize) -> Result<Option<Box<dyn TemplatePage>>, StoreError> {
        let (start, end) = (self.starts[page], self.starts[page + 1]);
        let columns = self.values.iter().zip(&self.template_set.columns).map(|(values, column)| {
            let from = values.rows.partition_point(|row| *row < start);
            let to = values.rows.partition_point(|row| *row < end);
            let rows: Vec<u32> = values.rows[from..to].iter().map(|row| row - start).collect();
            let is_full = rows.len() == (end - start) as usize;
            let values = match column.kind {
                ColumnKind::Numbers { .. } => ColumnValues::Numbers(values.numbers[from..to].to_vec()),
                ColumnKind::Texts => {
                    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
                    for text in &values.texts[from..to] {
                        bytes.extend_from_slice(text);
                        ends.push(bytes.len() as u32);
                    }
                    ColumnValues::Texts { bytes: bytes.into(), ends }
                }
                _ => ColumnValues::Codes(values.codes[from..to].to_vec()),
            };
            Arc::new(PageColumn { rows: (!is_full).then(|| rows.into()), values })
        });
        let (template_set, dictionaries) = (Arc::clone(&self.template_set), self.dictionaries.clone());
        Ok(Some(Box::new(HandPage { columns: columns.collect(), template_set, dictionaries })))
    }
}

/// Whether a text has the tokens of a query; `None` for a query without tokens, or for an index-time field that the
/// event may have.
fn may_hold(query: &TermQuery, text: &[u8], has_fields: bool) -> Option<bool> {
    match query {
        TermQuery::None => Some(false),
        TermQuery::Field { .. } | TermQuery::FieldNumber { .. } => (!has_fields).then_some(false),
        TermQuery::Token(wanted) => {
            let (mut found, mut lower) = (false, Vec::new());
            for_each_token(text, |token| {
                lower_token(token, &mut lower);
                found |= lower == wanted.as_bytes();
            });
            Some(found)
        }
        TermQuery::Value { tokens, .. } => may_hold(tokens, text, has_fields),
        TermQuery::And(parts) => {
            parts.iter().filter_map(|part| may_hold(part, text, has_fields)).reduce(|all, one| all && one)
        }
        TermQuery::Or(parts) => parts
            .iter()
            .map(|part| may_hold(part, text, has_fields))
            .try_fold(false, |any, one| one.map(|one| any || one)),
        _ => None,
    }
}

struct HandPage {
    columns: Vec<Arc<PageColumn>>,
    template_set: Arc<TemplateSet>,
    dictionaries: BTreeMap<u32, Arc<Dictionary>>,
}

impl HandPage {
    fn write(&self, column: u32, row: u32, out: &mut Vec<u8>) {
        let values = &self.columns[column as usize];
        let place = values.value_index(row).expect("the row has a value");
        match (&values.values, &self.template_set.columns[column as usize].kind) {
            (ColumnValues::Codes(codes), ColumnKind::Templates(templates)) => {
                for part in &templates[codes[place] as usize].parts {
                    match part {
                        TemplatePart::Literal(literal) => out.extend_from_slice(literal),
                        TemplatePart::Variable(column) => self.write(*column, row, out),
                    }
                }
            }
            (ColumnValues::Codes(codes), _) => out.extend_from_slice(self.dictionaries[&column].get(codes[place])),
            (ColumnValues::Numbers(numbers), ColumnKind::Numbers { format, .. }) => format.write(numbers[place], out),
            (ColumnValues::Texts { bytes, ends }, _) => {
                let start = if place == 0 { 0 } else { ends[place - 1] as usize };
                out.extend_from_slice(&bytes[start..ends[place] as usize]);
            }
            _ => panic!("numbers without format"),
        }
    }
}

impl TemplatePage for HandPage {
    fn column(&mut self, column: u32) -> Result<Arc<PageColumn>, StoreError> {
        Ok(Arc::clone(&self.columns[column as usize]))
    }

    fn column_of_rows(&mut self, column: u32, rows: &[u32]) -> Result<Arc<PageColumn>, StoreError> {
        let whole = self.column(column)?;
        if rows.len() > 16 {
            return Ok(whole);
        }
        let places: Vec<usize> = rows.iter().filter_map(|row| whole.value_index(*row)).collect();
        let found: Vec<u32> = rows.iter().copied().filter(|row| whole.value_index(*row).is_some()).collect();
        let values = match &whole.values {
            ColumnValues::Codes(codes) => ColumnValues::Codes(places.iter().map(|at| codes[*at]).collect()),
            ColumnValues::Numbers(numbers) => ColumnValues::Numbers(places.iter().map(|at| numbers[*at]).collect()),
            ColumnValues::Texts { .. } => {
                let Texts { bytes, ends } = self.texts(column, &found)?;
                ColumnValues::Texts { bytes, ends }
            }
        };
        Ok(Arc::new(PageColumn { rows: Some(found.into()), values }))
    }

    fn texts(&mut self, column: u32, rows: &[u32]) -> Result<Texts, StoreError> {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for row in rows {
            self.write(column, *row, &mut bytes);
            ends.push(bytes.len() as u32);
        }
        Ok(Texts { bytes: bytes.into(), ends })
    }
}
