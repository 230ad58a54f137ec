//! Dependencies between fields and rules: the fields that rules produce and read, and digests of rules.
//!
//! A digest covers everything that determines a field's value, except the event. Stored values of a field are used only
//! if their digest equals the digest of the search's rules (`crate::slab_extraction`).
//!
//! Not here: the extraction itself.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_conf::KvMode;
use quarry_eval::messages::Messages;
use quarry_eval::rows::is_hidden;
use quarry_event::Metadata;
use xxhash_rust::xxh3::xxh3_128;

use super::reports::Report;
use super::{Extract, FieldRules, SourceRules};
use crate::event_fields::is_intrinsic_field;

/// Names of the fields that rules of a source produce.
#[derive(Debug, Default)]
pub(crate) struct ProducedFields {
    /// The names that are known from the rules.
    pub names: BTreeSet<String>,
    /// Whether some rule takes names from the text.
    pub is_open: bool,
}

/// Fields that rules produce and read, and digests of rules.
impl FieldRules {
    /// The fields that `EXTRACT` and `REPORT` rules produce in events of these sources.
    pub(crate) fn produced_fields(&self, metas: &[Metadata], messages: &Messages) -> ProducedFields {
        let mut produced = ProducedFields::default();
        for meta in metas {
            let rules = self.of(meta, messages);
            produced.names.extend(rules.extracts.iter().flat_map(|extract| extract.names.iter().flatten()).cloned());
            for report in &rules.reports {
                match report.names() {
                    Some(names) => produced.names.extend(names.iter().cloned()),
                    None => produced.is_open = true,
                }
            }
        }
        produced.names.retain(|name| !is_intrinsic_field(name) && !is_hidden(name));
        produced
    }

    /// Digest of everything, except the events, that determines the values of a field in events of these sources; the
    /// order of the sources does not matter. `None` if the values cannot be stored: the texts of a source are tables,
    /// or a sourcetype is renamed (`rename`), so that searches apply the rules of its new name.
    pub(crate) fn digest_of<'a>(
        &self,
        metas: impl Iterator<Item = &'a Metadata>,
        name: &str,
        messages: &Messages,
    ) -> Option<u128> {
        let renamed = self.renamed.get_or_init(|| {
            let names = self.props.renamed_sourcetypes();
            names.into_iter().flat_map(|(name, shown)| [name.to_owned(), shown.to_owned()]).collect()
        });
        let mut sum: u128 = 0;
        for meta in metas {
            let rules = self.of(meta, messages);
            if rules.kv_mode == KvMode::Multi || renamed.contains(&*meta.sourcetype) {
                return None;
            }
            let of_source = (&*meta.index, &*meta.source, &*meta.host, &*meta.sourcetype, rules.digest_of(name));
            sum = sum.wrapping_add(digest_of_rule(&of_source));
        }
        Some(sum)
    }

    /// Digest for a field that is produced, in events of these sources, only by rules that take names from the texts;
    /// and the fields on which such a field depends. `None` if there are no such rules, or if [`FieldRules::digest_of`]
    /// returns `None`.
    pub(crate) fn digest_of_open_rules(
        &self,
        metas: &[&Metadata],
        messages: &Messages,
    ) -> Option<(u128, BTreeSet<String>)> {
        let is_open = |meta: &&Metadata| self.of(meta, messages).reports.iter().any(|report| report.names().is_none());
        if !metas.iter().any(is_open) {
            return None;
        }
        let digest = self.digest_of(metas.iter().copied(), UNNAMED_FIELD, messages)?;
        Some((digest, self.fields_behind(metas, UNNAMED_FIELD, messages)))
    }

    /// Whether only rules that take names from the texts may produce a field in events of these sources.
    pub(crate) fn is_unnamed(&self, metas: &[Metadata], name: &str, messages: &Messages) -> bool {
        let is_named = |meta: &Metadata| {
            let rules = self.of(meta, messages);
            let by_report =
                |report: &Arc<Report>| report.names().is_some_and(|names| names.iter().any(|own| own == name));
            rules.extracts.iter().any(|extract| extract.group(name).is_some()) || rules.reports.iter().any(by_report)
        };
        // Hidden fields are not among the names of a slab.
        !is_hidden(name) && !metas.iter().any(is_named)
    }

    /// The fields on whose values a field depends in events of these sources, and the field itself.
    pub(crate) fn fields_behind(&self, metas: &[&Metadata], name: &str, messages: &Messages) -> BTreeSet<String> {
        let of_source = |meta: &&Metadata| self.of(meta, messages).fields_behind(name);
        metas.iter().flat_map(of_source).collect()
    }
}

/// A name that no rule produces: hidden fields are not extracted.
const UNNAMED_FIELD: &str = "_unnamed";
/// Version of the extraction, part of each digest. The version must change whenever the same rules extract other
/// values.
const EXTRACTION_VERSION: u32 = 1;

/// Digest of the parts of a rule.
pub(super) fn digest_of_rule(parts: &impl std::fmt::Debug) -> u128 {
    xxh3_128(format!("{parts:?}").as_bytes())
}

impl SourceRules {
    /// The fields that rules read instead of the text.
    pub(super) fn sources(&self) -> impl Iterator<Item = &str> {
        let of_extracts = self.extracts.iter().map(|extract| extract.field.as_str());
        of_extracts.chain(self.reports.iter().map(|report| report.source())).filter(|source| *source != "_raw")
    }

    /// Whether both sources have the same rules in the same order.
    pub(super) fn has_same_rules(&self, other: &SourceRules) -> bool {
        fn are_same<T>(a: &[Arc<T>], b: &[Arc<T>]) -> bool {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
        }
        are_same(&self.extracts, &other.extracts) && are_same(&self.reports, &other.reports)
    }

    /// For each pattern: whether it both reads a field and produces a field that a transform reads, directly or through
    /// other fields. Such a pattern comes before the transforms, as all `EXTRACT` rules do in Splunk. Other patterns
    /// that read fields come last, so that they can read the fields of transforms and automatic extraction.
    pub(super) fn find_feeds(&self) -> Vec<bool> {
        let read = self.reports.iter().map(|report| report.source()).filter(|source| *source != "_raw");
        let read: BTreeSet<String> = read.flat_map(|source| self.fields_behind(source)).collect();
        let feeds =
            |extract: &Arc<Extract>| !extract.reads_text() && read.iter().any(|field| extract.group(field).is_some());
        self.extracts.iter().map(feeds).collect()
    }

    /// Whether a transform reads a field that this pattern produces from another field.
    pub(super) fn feeds(&self, extract: &Arc<Extract>) -> bool {
        let mut known = self.extracts.iter().zip(&self.feeds_reports);
        known.any(|(known, feeds)| *feeds && Arc::ptr_eq(known, extract))
    }

    /// Whether a rule reads a field.
    pub(super) fn reads_fields(&self) -> bool {
        self.sources().next().is_some()
    }

    /// The fields `names` and the fields from which rules extract them.
    pub(super) fn with_sources<'n>(&self, names: &'n [String]) -> Cow<'n, [String]> {
        if !self.reads_fields() {
            return Cow::Borrowed(names);
        }
        let mut all = names.to_vec();
        for behind in names.iter().flat_map(|name| self.fields_behind(name)) {
            if !all.contains(&behind) {
                all.push(behind);
            }
        }
        Cow::Owned(all)
    }

    fn digest_of(&self, name: &str) -> u128 {
        let fields = self.fields_behind(name);
        let extracts = self.extracts.iter().zip(&self.feeds_reports);
        let extracts = extracts.filter(|(extract, _)| fields.iter().any(|field| extract.group(field).is_some()));
        let reports = self.reports.iter().filter(|report| fields.iter().any(|field| report.may_produce(field)));
        // A pattern that a transform depends on comes before the transforms.
        let extracts: Vec<(u128, bool)> = extracts.map(|(extract, feeds)| (extract.digest, *feeds)).collect();
        let reports: Vec<u128> = reports.map(|report| report.digest()).collect();
        digest_of_rule(&(EXTRACTION_VERSION, self.kv_mode, self.auto_json, extracts, reports))
    }

    /// The fields from which rules extract this field, directly or through other fields, and the field itself.
    pub(super) fn fields_behind(&self, name: &str) -> Vec<String> {
        let mut fields = vec![name.to_owned()];
        let mut next = 0;
        while let Some(field) = fields.get(next).cloned() {
            let of_extracts = self.extracts.iter().filter(|extract| extract.group(&field).is_some());
            let of_reports = self.reports.iter().filter(|report| report.may_produce(&field));
            let read =
                of_extracts.map(|extract| extract.field.as_str()).chain(of_reports.map(|report| report.source()));
            let new: Vec<String> = read
                .filter(|read| *read != "_raw" && !fields.iter().any(|known| known == read))
                .map(str::to_owned)
                .collect();
            fields.extend(new);
            next += 1;
        }
        fields.sort_unstable();
        fields.dedup();
        fields
    }
}
