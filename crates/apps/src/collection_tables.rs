//! Collections (KV store) as lookup tables: resolving a stanza of transforms.conf to a collection, and converting
//! documents to rows and back.
//!
//! A table contains the shared documents of a collection. A row becomes a document with only the fields that the lookup
//! lists; this document completely replaces the existing document of the same key. Rows added to a table replace only
//! the documents of the same key and, with `key_field=` of `outputlookup`, the documents with the same value in that
//! field; otherwise, the rows replace all documents. Each write is one transaction.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_collections::{
    Collection, CollectionDefinition, CollectionError, KEY, NOBODY, Object, Removed, member, set_member,
};
use quarry_conf::Conf;
use quarry_engine::FillTable;
use quarry_stdx::Fault;
use serde_json::Value;

use crate::configuration::{access_of, read_text};
use crate::folders::{app_folder, app_folders_with, app_name, has_stanza};
use crate::lookup_files::{KIND, LOOKUP_BYTES_MAX, LimitedWriter, Lookups, TableFolders, no_data_dir};
use crate::objects::APP_SYSTEM;

/// The conf file of collections.
const CONF: &str = "collections.conf";
/// Name of collections in metadata.
const COLLECTIONS_KIND: &str = "collections";

/// Documents that rows replace.
pub(crate) enum Rewrite<'r> {
    All,
    /// Documents with the same keys.
    SameKeys,
    /// Documents with the same value of a field or the same key.
    SameField(&'r str),
}

/// The app that defines a collection, and the definition.
struct Home {
    folder: PathBuf,
    app: String,
    definition: CollectionDefinition,
}

impl Lookups {
    fn data_dir(&self) -> Option<&Path> {
        match &self.files.place {
            TableFolders::WorkingFolder(data_dir) => data_dir.as_deref(),
            TableFolders::DataFolder(data_dir) | TableFolders::Namespace(data_dir, _) => Some(data_dir),
        }
    }

    /// The app and definition of the collection that the lookup `name` reads: an app of the view that defines the
    /// collection, else any app that defines it, else `etc/system`; if no conf defines it, the app of the lookup.
    fn home(&self, name: &str, collection: &str) -> Result<Home, Fault> {
        let data_dir = self.data_dir().ok_or_else(|| no_data_dir("collections"))?;
        let system = data_dir.join("etc/system");
        let seen = match &self.files.place {
            TableFolders::Namespace(_, view) => app_folder(data_dir, CONF, collection, Some((view, COLLECTIONS_KIND))),
            _ => None,
        };
        // If several apps define the collection, the app whose name sorts last wins, as for objects.
        let folder = seen
            .or_else(|| app_folders_with(data_dir, CONF, collection, None).pop())
            .or_else(|| has_stanza(&system, CONF, collection).then(|| system.clone()))
            .or_else(|| app_folder(data_dir, "transforms.conf", name, None))
            .unwrap_or_else(|| system.clone());
        let app = if folder == system { APP_SYSTEM.to_owned() } else { app_name(&folder) };
        let mut settings = BTreeMap::new();
        for layer in ["default", "local"] {
            let (conf, _) = Conf::parse(CONF, &read_text(&folder.join(layer).join(CONF)).unwrap_or_default());
            let own = conf.stanza(collection).map(|stanza| stanza.settings.as_slice()).unwrap_or_default();
            settings.extend(own.iter().map(|setting| (setting.key.clone(), setting.value.clone())));
        }
        // Errors of the definition are reported where the definition is loaded.
        let (definition, _) = CollectionDefinition::parse_settings(&settings);
        Ok(Home { folder, app, definition })
    }

    /// Fails if the user may not change a collection; `name` is the lookup that reads it.
    pub(crate) fn check_collection(&self, name: &str, collection: &str) -> Result<(), Fault> {
        if self.data_dir().is_none() {
            return Ok(());
        }
        let home = self.home(name, collection)?;
        self.files.check_access(&home.folder.join(KIND), COLLECTIONS_KIND, collection)
    }

    fn open(&self, home: &Home, collection: &str) -> Result<Arc<Collection>, Fault> {
        let collections = self.collections.as_ref().ok_or_else(|| no_data_dir("collections"))?;
        Ok(collections.get(&home.app, collection)?)
    }

    /// The documents of a collection as CSV: the fields that the lookup lists (all fields without a list), and `_key`.
    pub(crate) fn collection(&self, name: &str, collection: &str, fields: &[String]) -> Result<String, Fault> {
        let home = self.home(name, collection)?;
        if !self.files.user().is_none_or(|user| access_of(&home.folder).may_read(COLLECTIONS_KIND, collection, user)) {
            return Err(Fault::not_found(format!(
                "there is no collection {collection}, which the lookup table {name} reads"
            )));
        }
        let opened = self.open(&home, collection)?;
        let mut names: Vec<String> = fields.to_vec();
        if fields.is_empty() {
            let mut seen = BTreeSet::new();
            opened.for_each(NOBODY, &mut |_, members| {
                names.extend(members.keys().filter(|name| seen.insert((*name).clone())).cloned());
                Ok(())
            })?;
        }
        names.retain(|name| name != KEY);
        names.push(KEY.to_owned());
        let mut text = LimitedWriter { out: Vec::new(), left: LOOKUP_BYTES_MAX };
        let failed = |error: csv::Error| CollectionError::Invalid(format!("collection {collection}: {error}"));
        {
            let mut writer = csv::Writer::from_writer(&mut text);
            writer.write_record(&names).map_err(failed)?;
            opened.for_each(NOBODY, &mut |key, members| {
                let cell = |name: &String| if name == KEY { Cow::Borrowed(key) } else { cell_of(&members, name) };
                for name in &names {
                    writer.write_field(cell(name).as_bytes()).map_err(failed)?;
                }
                writer.write_record(None::<&[u8]>).map_err(failed)
            })?;
            writer.flush().map_err(|error| Fault::invalid(format!("collection {collection}: {error}")))?;
        }
        let wrong = |error: &dyn std::fmt::Display| Fault::corrupt(format!("collection {collection}: {error}"));
        String::from_utf8(text.out).map_err(|error| wrong(&error))
    }

    /// Writes the rows of `fill` as documents of a collection; `_key` is the key. `fields` are the fields of the
    /// lookup.
    pub(crate) fn write_collection(
        &self,
        name: &str,
        (collection, fields): (&str, &[String]),
        rewrite: &Rewrite<'_>,
        fill: FillTable<'_>,
    ) -> Result<(), Fault> {
        self.check_collection(name, collection)?;
        let mut text = LimitedWriter { out: Vec::new(), left: LOOKUP_BYTES_MAX };
        fill(&mut text)?;
        let home = self.home(name, collection)?;
        let opened = self.open(&home, collection)?;
        let rows = Rows { csv: &text.out, fields, collection };
        let mut values = BTreeSet::new();
        if let Rewrite::SameField(field) = rewrite {
            rows.for_each_row(&mut |row| {
                values.extend(Some(cell_of(&row, field).into_owned()).filter(|value| !value.is_empty()));
                Ok(())
            })?;
        }
        let has_value = |members: &Object| match rewrite {
            Rewrite::SameField(field) => values.contains(cell_of(members, field).as_ref()),
            Rewrite::All | Rewrite::SameKeys => false,
        };
        let removed = match rewrite {
            Rewrite::All => Removed::All,
            Rewrite::SameKeys => Removed::Nothing,
            Rewrite::SameField(_) => Removed::Matching(&has_value),
        };
        opened.save_all(NOBODY, &home.definition, &removed, &mut |take| rows.for_each_row(take))?;
        Ok(())
    }
}

/// Rows of CSV as documents.
struct Rows<'r> {
    csv: &'r [u8],
    /// Fields to keep; empty means all.
    fields: &'r [String],
    collection: &'r str,
}

impl Rows<'_> {
    fn for_each_row(&self, take: &mut dyn FnMut(Object) -> Result<(), CollectionError>) -> Result<(), CollectionError> {
        let failed = |error: csv::Error| CollectionError::Invalid(format!("collection {}: {error}", self.collection));
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(self.csv);
        let names = reader.headers().map_err(failed)?.clone();
        for record in reader.records() {
            let record = record.map_err(failed)?;
            let mut members = Object::new();
            for (name, cell) in names.iter().zip(&record).filter(|(_, cell)| !cell.is_empty()) {
                if name == KEY || self.fields.is_empty() || self.fields.iter().any(|field| field == name) {
                    set_member(&mut members, name, cell.into());
                }
            }
            take(members)?;
        }
        Ok(())
    }
}

/// A member of a document as a table cell.
fn cell_of<'m>(members: &'m Object, name: &str) -> Cow<'m, str> {
    match member(members, name) {
        None | Some(Value::Null) => Cow::Borrowed(""),
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(other) => Cow::Owned(other.to_string()),
    }
}
