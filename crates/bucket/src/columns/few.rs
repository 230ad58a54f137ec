//! A few rows of a page: what a search for one id looks at.
//!
//! For the text of a row each column is decoded at most once, its value found by counting the templates in front of it,
//! and of values that lie in a shared dictionary only those of the row are looked up, as each may be a cache miss. The
//! other way round, rows are found from the places of values.

use std::sync::Arc;

use quarry_event::shape::{ColumnKind, ColumnValues, TEXT_COLUMN, Texts};

use crate::columns::SharedDictionary;
use crate::columns::layout::Stored;
use crate::columns::read::{ShapedPage, SlabColumns};
use crate::columns::rebuild::NO_SLOT;
use crate::error::BucketError;

/// Rows up to which texts are made this way.
pub(super) const FEW_ROWS: usize = 16;

/// The values of one column, as far as they are decoded.
enum Decoded {
    Values(ColumnValues),
    Shared { codes: Vec<u32>, dictionary: Arc<SharedDictionary>, component: u32 },
}

/// The columns that were decoded for some rows.
struct FewRows<'a> {
    page: &'a mut ShapedPage,
    columns: Arc<SlabColumns>,
    decoded: Vec<Option<Decoded>>,
    out: Vec<u8>,
}

impl ShapedPage {
    /// The texts of the events in these few rows.
    pub(super) fn few_texts(&mut self, rows: &[u32]) -> Result<Texts, BucketError> {
        let columns = self.columns.clone();
        let decoded = columns.layout.stored.iter().map(|_| None).collect();
        let mut few = FewRows { page: self, columns, decoded, out: Vec::new() };
        let mut ends = Vec::with_capacity(rows.len());
        for row in rows {
            few.put(TEXT_COLUMN, *row as usize)?;
            ends.push(few.out.len() as u32);
        }
        Ok(Texts { bytes: few.out.into(), ends })
    }

    /// Rows of the events whose values of a column have these places, in the order of the places.
    pub(crate) fn rows_of_places(&mut self, column: u32, places: Vec<usize>) -> Result<Vec<u32>, BucketError> {
        let columns = self.columns.clone();
        let (mut column, mut places) = (column, places);
        while let Some(parent) = columns.layout.shapes.columns[column as usize].parent {
            if let Some(namers) = &columns.namers[column as usize] {
                let ColumnValues::Codes(codes) = self.values(parent)? else {
                    return Err(self.place().corrupt(format!("column {parent} has no templates")));
                };
                let named = (0..codes.len()).filter(|at| namers.binary_search(&codes[*at]).is_ok());
                let mut named = named.enumerate();
                let mut of_parent = Vec::with_capacity(places.len());
                for place in places {
                    // Places ascend.
                    match named.find(|(at, _)| *at == place) {
                        Some((_, found)) => of_parent.push(found),
                        None => return Err(self.place().corrupt(format!("column {column} has no value {place}"))),
                    }
                }
                places = of_parent;
            }
            column = parent;
        }
        Ok(places.into_iter().map(|place| place as u32).collect())
    }
}

impl FewRows<'_> {
    /// Appends a value of a column.
    fn put(&mut self, column: u32, place: usize) -> Result<(), BucketError> {
        let columns = self.columns.clone();
        let missing = |page: &ShapedPage| Err(page.place().corrupt(format!("column {column} has no value {place}")));
        let code = match self.decoded(column)? {
            Decoded::Values(ColumnValues::Codes(codes)) => match codes.get(place) {
                Some(code) => *code,
                None => return missing(self.page),
            },
            Decoded::Values(ColumnValues::Texts { bytes, ends }) => {
                let Some(end) = ends.get(place) else { return missing(self.page) };
                let start = if place == 0 { 0 } else { ends[place - 1] as usize };
                let text = bytes.slice(start..*end as usize);
                return self.put_bytes(&text);
            }
            Decoded::Values(ColumnValues::Numbers(numbers)) => match numbers.get(place).copied() {
                Some(number) => return self.put_number(column, number),
                None => return missing(self.page),
            },
            Decoded::Shared { codes, dictionary, component } => {
                let number = codes.get(place).and_then(|code| dictionary.number(*component, *code));
                return match number {
                    Some(number) => self.put_number(column, number),
                    None => missing(self.page),
                };
            }
        };
        let Some(plan) = columns.plans.of_column(column) else {
            let dictionary = columns.dictionary(&self.page.source, column)?;
            return self.put_bytes(dictionary.get(code));
        };
        for step in plan.steps_of(code) {
            self.put_bytes(plan.literal(step))?;
            if step.slot != NO_SLOT {
                let place = self.place_in(step.slot, column, place)?;
                self.put(step.slot, place)?;
            }
        }
        Ok(())
    }

    /// The place of a slot's value, given that of the value of `above`, whose template it is part of.
    fn place_in(&mut self, slot: u32, above: u32, place: usize) -> Result<usize, BucketError> {
        let columns = self.columns.clone();
        let parent = columns.layout.shapes.columns[slot as usize].parent;
        let place = match parent {
            Some(parent) if parent != above => self.place_in(parent, above, place)?,
            _ => place,
        };
        let (Some(namers), Some(parent)) = (&columns.namers[slot as usize], parent) else {
            return Ok(place);
        };
        let ColumnKind::Templates(templates) = &columns.layout.shapes.columns[parent as usize].kind else {
            return Ok(place);
        };
        let Decoded::Values(ColumnValues::Codes(codes)) = self.decoded(parent)? else {
            return Ok(place);
        };
        let mut named = vec![false; templates.len()];
        namers.iter().for_each(|template| named[*template as usize] = true);
        Ok(codes[..place.min(codes.len())].iter().filter(|code| named[**code as usize]).count())
    }

    fn put_number(&mut self, column: u32, number: i64) -> Result<(), BucketError> {
        let kind = &self.columns.layout.shapes.columns[column as usize].kind;
        match kind {
            ColumnKind::Numbers { format, min, max } if (*min..=*max).contains(&number) => {
                format.write(number, &mut self.out)
            }
            _ => return Err(self.page.place().corrupt(format!("number {number} is beyond those of column {column}"))),
        }
        self.put_bytes(&[])
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> Result<(), BucketError> {
        self.page.put_bytes(bytes, &mut self.out)
    }

    fn decoded(&mut self, column: u32) -> Result<&Decoded, BucketError> {
        if self.decoded[column as usize].is_none() {
            let decoded = match (&self.columns.layout.stored[column as usize].values, self.page.kept(column)) {
                (_, Some(kept)) => Decoded::Values(kept.values.clone()),
                (Stored::Shared { .. }, None) => match self.columns.shared(&self.page.source, column)? {
                    Some((dictionary, component)) => {
                        let codes = self.page.shared_codes(column)?;
                        Decoded::Shared { codes, dictionary, component }
                    }
                    None => Decoded::Values(self.page.values(column)?),
                },
                (_, None) => Decoded::Values(self.page.values(column)?),
            };
            self.decoded[column as usize] = Some(decoded);
        }
        match &self.decoded[column as usize] {
            Some(decoded) => Ok(decoded),
            None => Err(self.page.place().corrupt(format!("column {column} was not decoded"))),
        }
    }
}
