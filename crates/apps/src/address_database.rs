//! The geolocation database of `iplocation`: a file in MaxMind's format (GeoLite2, GeoIP2, DB-IP).
//!
//! The setting `[iplocation] db_path` of limits.conf names the file; without this setting, the file is searched for in
//! the folder `share` of the data directory. The file is loaded into memory and reloaded when it changes. Only the
//! layout of the *City* and *Country* databases is supported.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use maxminddb::Reader;
use quarry_engine::{AddressLocations, Location};
use quarry_stdx::Fault;
use serde_json::Value;

/// Maximum size of a database in bytes.
const DATABASE_BYTES_MAX: u64 = 1 << 30;
/// Folder of databases, relative to the data directory.
const FOLDER: &str = "share";
/// Preferred file names in the folder.
const PREFERRED: [&str; 3] = ["GeoLite2-City.mmdb", "GeoIP2-City.mmdb", "dbip-city-lite.mmdb"];
/// Prefix of paths below Splunk's installation folder; here the prefix stands for the data directory.
const HOME_PREFIX: &str = "$SPLUNK_HOME/";
/// Default language of names.
const ENGLISH: &str = "en";
/// Pseudo-language for ISO codes instead of names.
const CODES: &str = "code";

/// Finds and caches the database.
pub struct AddressDatabase {
    data_dir: PathBuf,
    configured: Option<String>,
    read: Mutex<Option<LoadedDatabase>>,
}

struct LoadedDatabase {
    path: PathBuf,
    changed: SystemTime,
    bytes: u64,
    places: Arc<InMemoryDatabase>,
}

impl AddressDatabase {
    /// The database of a data directory, at the configured location.
    pub fn new(data_dir: &Path, configured: Option<String>) -> AddressDatabase {
        AddressDatabase { data_dir: data_dir.to_owned(), configured, read: Mutex::default() }
    }

    fn path(&self) -> Option<PathBuf> {
        if let Some(path) = &self.configured {
            return Some(self.data_dir.join(path.strip_prefix(HOME_PREFIX).unwrap_or(path)));
        }
        let folder = self.data_dir.join(FOLDER);
        if let Some(path) = PREFERRED.iter().map(|name| folder.join(name)).find(|path| path.is_file()) {
            return Some(path);
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "mmdb")).min()
    }

    /// The database; `None` if there is none. A configured database must exist.
    pub fn open(&self) -> Result<Option<Arc<dyn AddressLocations>>, Fault> {
        let Some(path) = self.path() else { return Ok(None) };
        let shown = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let failed = |error: std::io::Error| Fault::io(format_args!("the database {shown}"), error);
        let facts = std::fs::metadata(&path).map_err(failed)?;
        let changed = facts.modified().map_err(failed)?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = read.as_ref()
            && (loaded.path == path && loaded.changed == changed && loaded.bytes == facts.len())
        {
            return Ok(Some(Arc::clone(&loaded.places) as Arc<dyn AddressLocations>));
        }
        if facts.len() > DATABASE_BYTES_MAX {
            let bytes = facts.len();
            return Err(Fault::invalid(format!(
                "the database {shown} has {bytes} bytes; the limit is {DATABASE_BYTES_MAX}"
            )));
        }
        let bytes = std::fs::read(&path).map_err(failed)?;
        let places = Arc::new(
            InMemoryDatabase::of(bytes).map_err(|fault| fault.with_context(format_args!("the database {shown}")))?,
        );
        *read = Some(LoadedDatabase { path, changed, bytes: facts.len(), places: Arc::clone(&places) });
        Ok(Some(places))
    }
}

struct InMemoryDatabase(Reader<Vec<u8>>);

impl InMemoryDatabase {
    fn of(bytes: Vec<u8>) -> Result<InMemoryDatabase, Fault> {
        Reader::from_source(bytes).map(InMemoryDatabase).map_err(|error| Fault::corrupt(error.to_string()))
    }
}

impl AddressLocations for InMemoryDatabase {
    fn locate(&self, address: IpAddr, languages: &[String]) -> Result<Option<Location>, Fault> {
        // For an IPv6 address, an IPv4-only database would return an error instead of no result.
        if address.is_ipv6() && self.0.metadata().ip_version == 4 {
            return Ok(None);
        }
        let found = self.0.lookup(address).map_err(|error| Fault::corrupt(error.to_string()))?;
        let record: Option<Value> = found.decode().map_err(|error| Fault::corrupt(error.to_string()))?;
        Ok(record.map(|record| parse_location(&record, languages)))
    }
}

/// The name of a part of a record, in the first of `languages` in which the part has a name; English is tried last.
fn name_of(part: &Value, code: &str, languages: &[String]) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let asked = languages.iter().map(String::as_str).chain([ENGLISH]);
    asked.filter_map(|language| text(if language == CODES { &part[code] } else { &part["names"][language] })).next()
}

fn parse_location(record: &Value, languages: &[String]) -> Location {
    let location = &record["location"];
    Location {
        city: name_of(&record["city"], "iso_code", languages),
        country: name_of(&record["country"], "iso_code", languages),
        region: name_of(&record["subdivisions"][0], "iso_code", languages),
        latitude: location["latitude"].as_f64(),
        longitude: location["longitude"].as_f64(),
        continent: name_of(&record["continent"], "code", languages),
        metro_code: location["metro_code"].as_i64(),
        time_zone: location["time_zone"].as_str().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value encoded for the format's data section.
    fn encode(value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Object(members) => {
                out.push(7 << 5 | members.len() as u8);
                for (name, value) in members {
                    encode(&Value::String(name.clone()), out);
                    // These two members have wider types.
                    match name.as_str() {
                        "node_count" => out.extend([6 << 5 | 1, value.as_u64().unwrap() as u8]),
                        "build_epoch" => out.extend([1, 9 - 7, value.as_u64().unwrap() as u8]),
                        _ => encode(value, out),
                    }
                }
            }
            Value::Array(values) => {
                out.extend([values.len() as u8, 11 - 7]);
                values.iter().for_each(|value| encode(value, out));
            }
            Value::String(text) => {
                assert!(text.len() < 29, "longer texts need a wider length");
                out.push(2 << 5 | text.len() as u8);
                out.extend(text.as_bytes());
            }
            Value::Number(number) if number.is_f64() => {
                out.push(3 << 5 | 8);
                out.extend(number.as_f64().unwrap().to_be_bytes());
            }
            Value::Number(number) => {
                out.push(5 << 5 | 2);
                out.extend(u16::try_from(number.as_u64().unwrap()).unwrap().to_be_bytes());
            }
            other => panic!("{other} is not needed"),
        }
    }

    /// An IPv4 database with one /8 network.
    fn database(network: u8, record: &Value) -> Vec<u8> {
        const NODES: u32 = 8;
        let mut bytes = Vec::new();
        for bit in 0..NODES {
            let goes_on = if bit + 1 == NODES { NODES + 16 } else { bit + 1 };
            let is_set = network >> (7 - bit) & 1 == 1;
            for side in if is_set { [NODES, goes_on] } else { [goes_on, NODES] } {
                bytes.extend(&side.to_be_bytes()[1..]);
            }
        }
        bytes.extend([0; 16]);
        encode(record, &mut bytes);
        bytes.extend(b"\xab\xcd\xefMaxMind.com");
        let facts = serde_json::json!({ "node_count": NODES, "record_size": 24, "ip_version": 4, "database_type": "City",
            "languages": ["en"], "binary_format_major_version": 2, "binary_format_minor_version": 0,
            "build_epoch": 1, "description": {} });
        encode(&facts, &mut bytes);
        bytes
    }

    fn berlin() -> Value {
        serde_json::json!({
            "city": { "names": { "en": "Munich", "de": "München" } },
            "country": { "iso_code": "DE", "names": { "en": "Germany", "de": "Deutschland" } },
            "subdivisions": [{ "iso_code": "BY", "names": { "en": "Bavaria" } }],
            "continent": { "code": "EU", "names": { "en": "Europe" } },
            "location": { "latitude": 48.5, "longitude": 11.25, "time_zone": "Europe/Berlin", "metro_code": 7 },
        })
    }

    fn asked(places: &dyn AddressLocations, address: &str, languages: &[&str]) -> Option<Location> {
        let languages: Vec<String> = languages.iter().map(|name| (*name).to_owned()).collect();
        places.locate(address.parse().unwrap(), &languages).unwrap()
    }

    #[test]
    fn locations_have_names_in_several_languages() {
        let places = InMemoryDatabase::of(database(81, &berlin())).unwrap();
        let place = asked(&places, "81.2.69.142", &[]).unwrap();
        let texts = [&place.city, &place.country, &place.region, &place.continent, &place.time_zone];
        assert_eq!(
            texts.map(|text| text.clone().unwrap_or_default()),
            ["Munich", "Germany", "Bavaria", "Europe", "Europe/Berlin"]
        );
        assert_eq!((place.latitude, place.longitude, place.metro_code), (Some(48.5), Some(11.25), Some(7)));
        let german = asked(&places, "81.2.69.142", &["fr", "de"]).unwrap();
        assert_eq!((german.city.as_deref(), german.region.as_deref()), (Some("München"), Some("Bavaria")));
        let codes = asked(&places, "81.2.69.142", &["code"]).unwrap();
        let texts = [&codes.city, &codes.country, &codes.region, &codes.continent];
        assert_eq!(texts.map(|text| text.clone().unwrap_or_default()), ["Munich", "DE", "BY", "EU"]);
        for unknown in ["10.0.0.1", "82.0.0.1", "2001:db8::1"] {
            assert_eq!(asked(&places, unknown, &[]), None, "{unknown}");
        }
    }

    #[test]
    fn the_file_is_found_and_reloaded_on_change() {
        let folder = tempfile::tempdir().unwrap();
        let own = AddressDatabase::new(folder.path(), None);
        assert!(own.open().unwrap().is_none());
        let share = folder.path().join(FOLDER);
        std::fs::create_dir(&share).unwrap();
        std::fs::write(share.join("towns.mmdb"), database(81, &berlin())).unwrap();
        let first = own.open().unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &own.open().unwrap().unwrap()));
        std::fs::write(share.join("towns.mmdb"), database(9, &serde_json::json!({ "a": "longer than before" })))
            .unwrap();
        let second = own.open().unwrap().unwrap();
        assert_eq!(asked(second.as_ref(), "81.2.69.142", &[]), None);
        assert_eq!(asked(second.as_ref(), "9.9.9.9", &[]), Some(Location::default()));
        let missing = AddressDatabase::new(folder.path(), Some("$SPLUNK_HOME/share/gone.mmdb".to_owned()));
        let fault = missing.open().err().unwrap().to_string();
        assert!(fault.contains("gone.mmdb") && !fault.contains("share") && !fault.contains("SPLUNK"), "{fault}");
        std::fs::write(share.join("towns.mmdb"), "no database").unwrap();
        assert!(own.open().is_err());
    }
}
