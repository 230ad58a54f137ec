//! `rename` of props.conf: events that appear under another sourcetype at search time.
//!
//! A segment with such events is wrapped: the wrapper reports the new names, so that conditions, settings and columns
//! use them, and provides the old name as the index-time field `_sourcetype`. Other segments are not wrapped.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_conf::PropsResolver;
use quarry_event::template::{Dictionary, TemplateSet};
use quarry_event::term::MetaField;
use quarry_event::{FieldColumns, FieldNames, IndexedFields, Metadata, Page, PageColumns, PageSet, TermQuery, TimeNs};
use quarry_store::{Damage, Deletion, PageInfo, Segment, SlabIdentity, Snapshot, StoreError, StoredSlab, TemplatePage};

/// Field with the original sourcetype of an event.
pub(crate) const ORIGINAL_SOURCETYPE_FIELD: &str = "_sourcetype";

/// The snapshot with sourcetypes renamed for searching.
pub fn with_renamed_sourcetypes(mut snapshot: Snapshot, props: &PropsResolver) -> Snapshot {
    let names = props.renamed_sourcetypes();
    if names.is_empty() {
        return snapshot;
    }
    snapshot.open_later();
    for segment in &mut snapshot.segments {
        let metas = segment.metas();
        if metas.iter().any(|meta| names.contains_key(&*meta.sourcetype)) {
            *segment = Arc::new(RenamedSegment::new(Arc::clone(segment), &metas, &names));
        }
    }
    snapshot
}

#[derive(Debug)]
struct RenamedSegment {
    segment: Arc<dyn Segment>,
    metas: Arc<[Metadata]>,
    /// For each metadata code, the original name, if renamed.
    originals: Vec<Option<Box<str>>>,
}

impl RenamedSegment {
    fn new(segment: Arc<dyn Segment>, metas: &[Metadata], names: &BTreeMap<&str, &str>) -> RenamedSegment {
        let shown = metas.iter().map(|meta| match names.get(&*meta.sourcetype) {
            Some(shown) => Metadata { sourcetype: Arc::from(*shown), ..meta.clone() },
            None => meta.clone(),
        });
        let original = |meta: &Metadata| names.get(&*meta.sourcetype).map(|_| Box::from(&*meta.sourcetype));
        RenamedSegment { metas: shown.collect(), originals: metas.iter().map(original).collect(), segment }
    }

    /// Fields of a page, with the original names added; `metas` has the metadata code of each event.
    fn with_originals(&self, given: &IndexedFields, metas: &[u32]) -> IndexedFields {
        let name: Arc<str> = ORIGINAL_SOURCETYPE_FIELD.into();
        let mut given = given.iter().peekable();
        let mut fields = IndexedFields::default();
        for (row, meta) in (0..).zip(metas) {
            while let Some(field) = given.next_if(|field| field.row <= row) {
                fields.push(field.row, field.name, field.value);
            }
            if let Some(Some(value)) = self.originals.get(*meta as usize) {
                fields.push(row, &name, value);
            }
        }
        given.for_each(|field| fields.push(field.row, field.name, field.value));
        fields
    }
}

/// The query without terms that the stored slab cannot answer: its sourcetypes have other names, and the index-time
/// field [`ORIGINAL_SOURCETYPE_FIELD`] is not stored.
fn answerable_terms(query: &TermQuery) -> TermQuery {
    match query {
        TermQuery::Meta { field: MetaField::Sourcetype, .. } | TermQuery::IndexTimeFields => TermQuery::All,
        TermQuery::Field { name, .. } | TermQuery::FieldNumber { name, .. } if **name == *ORIGINAL_SOURCETYPE_FIELD => {
            TermQuery::All
        }
        TermQuery::Value { field, value, tokens } => TermQuery::for_field_value(field, value, answerable_terms(tokens)),
        TermQuery::And(parts) => TermQuery::and(parts.iter().map(answerable_terms)),
        TermQuery::Or(parts) => TermQuery::or(parts.iter().map(answerable_terms)),
        other => other.clone(),
    }
}

impl Segment for RenamedSegment {
    fn bucket(&self) -> &str {
        self.segment.bucket()
    }

    fn index(&self) -> &str {
        self.segment.index()
    }

    fn origin(&self) -> u64 {
        self.segment.origin()
    }

    fn identity(&self) -> Option<SlabIdentity> {
        self.segment.identity()
    }

    fn stored(&self) -> Option<StoredSlab> {
        self.segment.stored()
    }

    fn latest_arrival(&self) -> Option<TimeNs> {
        self.segment.latest_arrival()
    }

    fn metas(&self) -> Arc<[Metadata]> {
        Arc::clone(&self.metas)
    }

    fn pages(&self) -> &[PageInfo] {
        self.segment.pages()
    }

    fn candidate_pages(&self, query: &TermQuery, fields: &dyn FieldColumns) -> Result<PageSet, StoreError> {
        self.segment.candidate_pages(&answerable_terms(query), fields)
    }

    fn candidate_rows(
        &self,
        page: usize,
        query: &TermQuery,
        fields: &dyn FieldColumns,
        most: usize,
    ) -> Result<Option<Vec<u32>>, StoreError> {
        self.segment.candidate_rows(page, &answerable_terms(query), fields, most)
    }

    fn damage(&self) -> Option<Damage> {
        self.segment.damage()
    }

    fn read_page(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        let mut page = self.segment.read_page(page, columns)?;
        if columns.fields.may_contain(ORIGINAL_SOURCETYPE_FIELD) {
            page.fields = self.with_originals(&page.fields, &page.meta);
        }
        page.metas = Arc::clone(&self.metas);
        Ok(page)
    }

    fn may_hold_fields(&self, _page: usize) -> bool {
        true
    }

    fn may_hold_fields_by_row(&self, _page: usize) -> bool {
        true
    }

    fn fields_by_row(&self, page: usize, names: FieldNames) -> Result<IndexedFields, StoreError> {
        let fields = self.segment.fields_by_row(page, names)?;
        match names.may_contain(ORIGINAL_SOURCETYPE_FIELD) {
            true => Ok(self.with_originals(&fields, &self.segment.page_metas(page)?)),
            false => Ok(fields),
        }
    }

    fn template_set(&self) -> Result<Option<Arc<TemplateSet>>, StoreError> {
        self.segment.template_set()
    }

    fn dictionary(&self, column: u32) -> Result<Arc<Dictionary>, StoreError> {
        self.segment.dictionary(column)
    }

    fn has_templates(&self, page: usize) -> bool {
        self.segment.has_templates(page)
    }

    fn add_to_deletion(&self, page: usize, rows: &[u32], deletion: &mut Deletion) -> bool {
        self.segment.add_to_deletion(page, rows, deletion)
    }

    fn is_remote(&self) -> bool {
        self.segment.is_remote()
    }

    fn request_count(&self) -> u64 {
        self.segment.request_count()
    }

    fn prefetch_lookups(&self, slabs: &[usize], query: &TermQuery) {
        self.segment.prefetch_lookups(slabs, &answerable_terms(query));
    }

    fn prefetch_pages(&self, pages: PageSet, is_certain: bool) {
        self.segment.prefetch_pages(pages, is_certain);
    }

    fn plan_columns(&self, columns: &[u32]) -> Result<(), StoreError> {
        self.segment.plan_columns(columns)
    }

    fn release_page(&self, page: usize) {
        self.segment.release_page(page);
    }

    fn template_page(&self, page: usize) -> Result<Option<Box<dyn TemplatePage>>, StoreError> {
        self.segment.template_page(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_events_are_not_ruled_out_by_stored_names_and_fields() {
        let sourcetype = TermQuery::Meta { field: MetaField::Sourcetype, pattern: "shown".into() };
        let token = TermQuery::Token("x".into());
        // A rule that reads `_sourcetype` takes its values from an index-time field.
        let of_rule = TermQuery::or([token.clone(), TermQuery::and([sourcetype.clone(), TermQuery::IndexTimeFields])]);
        assert_eq!(answerable_terms(&of_rule), TermQuery::All);
        assert_eq!(answerable_terms(&TermQuery::and([sourcetype, token.clone()])), token);
    }
}
