//! `iplocation`: looks up the geographic location of IP addresses.
//!
//! The node provides the database; this command turns its answers into fields. An address that is not in the database
//! gets no fields; an address with incomplete data gets empty texts for the missing parts. Answers are cached per
//! worker, because addresses recur in logs.

use std::net::IpAddr;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::lookup::{AddressLocations, Location};
use quarry_eval::rows::{self, ColumnBuilder, Value};
use quarry_spl::ast::IpLocationCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

/// Maximum number of cached addresses per worker; then the cache is cleared.
const CACHED_ADDRESSES_MAX: usize = 20_000;

impl Execute for IpLocationCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let places = lowering.environment.lookups().address_locations();
        let places = places.map_err(|fault| fault.with_context("iplocation"))?;
        let Some(places) = places else {
            let message = "iplocation: there is no address database, so the fields of this command stay empty";
            lowering.environment.context().messages.push(message);
            return Ok(Vec::new());
        };
        let command = self.clone();
        Ok(vec![row(move || IpLocation::new(&command, Arc::clone(&places)))])
    }
}

/// Adds the location of the address in each row.
struct IpLocation {
    command: IpLocationCommand,
    places: Arc<dyn AddressLocations>,
    cache: HashMap<String, Option<Arc<Location>>, foldhash::fast::FixedState>,
}

/// A field and the part of a location it shows.
type LocationField = (&'static str, fn(&Location) -> Option<Value<'_>>);

fn text(part: &Option<String>) -> Option<Value<'_>> {
    part.as_deref().map(Value::borrowed_text)
}

const FIELDS: [LocationField; 5] = [
    ("City", |place| text(&place.city)),
    ("Country", |place| text(&place.country)),
    ("Region", |place| text(&place.region)),
    ("lat", |place| place.latitude.map(Value::from_f64)),
    ("lon", |place| place.longitude.map(Value::from_f64)),
];

const FURTHER_FIELDS: [LocationField; 3] = [
    ("Continent", |place| text(&place.continent)),
    ("MetroCode", |place| place.metro_code.map(Value::Int)),
    ("Timezone", |place| text(&place.time_zone)),
];

impl IpLocation {
    /// The command over a database.
    fn new(command: &IpLocationCommand, places: Arc<dyn AddressLocations>) -> IpLocation {
        IpLocation { command: command.clone(), places, cache: HashMap::default() }
    }

    fn locate(&mut self, address: &str) -> Result<Option<Arc<Location>>, EngineError> {
        if let Some(place) = self.cache.get(address) {
            return Ok(place.clone());
        }
        let found = match address.trim().parse::<IpAddr>() {
            Ok(address) => self.places.locate(address, &self.command.languages),
            Err(_) => Ok(None),
        };
        let found = found.map_err(|fault| fault.with_context(format_args!("iplocation: {address}")))?.map(Arc::new);
        if self.cache.len() >= CACHED_ADDRESSES_MAX {
            self.cache.clear();
        }
        self.cache.insert(address.to_owned(), found.clone());
        Ok(found)
    }
}

impl RowCommand for IpLocation {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let reader = rows::reader(&rows, &self.command.field);
        let mut scratch = String::new();
        let mut places = Vec::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            places.push(match reader.text(row, &mut scratch) {
                Some(address) => self.locate(address)?,
                None => None,
            });
        }
        let further = if self.command.all_fields { &FURTHER_FIELDS[..] } else { &[] };
        let mut result = rows.clone();
        for (name, part) in FIELDS.iter().chain(further) {
            let name = format!("{}{name}", self.command.prefix);
            let before = rows::reader(&rows, &name);
            let mut column = ColumnBuilder::new(rows.num_rows());
            for (row, place) in places.iter().enumerate() {
                match place {
                    Some(place) => column.push(part(place).unwrap_or(Value::borrowed_text(""))),
                    None => column.push(before.value(row)),
                }
            }
            result = rows::with_column(&result, &name, column.finish())?;
        }
        Ok(result)
    }
}
