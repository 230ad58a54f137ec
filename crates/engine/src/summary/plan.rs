//! Contents and construction of an object's summary, and the digest of everything that its rows depend on.
//!
//! The digest covers the model's definition, the expanded search (macros, event types and tags), the columns, the time
//! zone, the search-time settings and lookup tables, and the program's version. It is computed for every search and
//! every round of building, so that a summary of an outdated definition is not found. If completeness of the digest is
//! in doubt, the object has no summary and is read from events.
//!
//! Not here: rules of single sources, which [`super::build`] checks slab by slab.

use std::collections::BTreeSet;

use quarry_eval::row_filter::RowFilter;
use quarry_scan::has_keywords;
use quarry_scan::summary::COLUMNS_MAX;
use quarry_spl::analyse::{depends_only_on_event, search_fields};
use quarry_spl::ast::{Command, FieldPattern, SearchExpr, Span, Stage, TableCommand, TimeModifiers};
use quarry_stdx::Fault;
use sha2::{Digest, Sha256};

use crate::knowledge::labels::Labels;
use crate::knowledge::object::ModelObject;

use crate::run::Runner;

/// Version of the meaning of summary rows; a change makes all older summaries stale.
const VERSION: &str = concat!("2 ", env!("CARGO_PKG_VERSION"));

/// Construction and contents of the summaries of an object.
pub(crate) struct SummaryPlan {
    /// Digest of everything that the rows depend on.
    pub digest: [u8; 32],
    pub columns: BTreeSet<String>,
    /// Condition of the object's events, with labels expanded.
    pub expr: SearchExpr,
    /// Commands that compute fields.
    pub stages: Vec<Stage>,
    /// Columns that mark the events of descendants, with their conditions.
    pub members: Vec<(String, RowFilter)>,
    /// Fields read in addition to the columns.
    pub extra: BTreeSet<String>,
}

impl SummaryPlan {
    /// A command that keeps the fields needed after the stages.
    pub(crate) fn keep_command(&self, span: Span) -> Command {
        let names = self.columns.iter().filter(|name| !self.members.iter().any(|(member, _)| member == *name));
        let pattern = |name: &String| FieldPattern { text: name.clone(), span };
        TableCommand { fields: names.chain(&self.extra).map(pattern).collect() }.into()
    }
}

impl Runner {
    /// Plans the summaries of an object; the error says why the object cannot have summaries.
    pub(crate) fn summary_plan(&self, object: &ModelObject, model_text: &str) -> Result<SummaryPlan, Fault> {
        if object.base_search().is_some() {
            return Err(Fault::invalid("it is made of a search or of transactions, not of events"));
        }

        let mut columns = object.all_fields();
        if columns.iter().any(|name| name.contains('*')) {
            return Err(Fault::invalid("it names fields by a pattern"));
        }
        let (search, stages) = object.search(&SearchExpr::All, TimeModifiers::default(), &columns, Span::default());
        let expr = self.expand_event_condition(&search.expr)?;
        let mut tables = BTreeSet::new();
        for stage in &stages {
            match &stage.command {
                Command::Lookup(lookup) => {
                    tables.insert(lookup.table.clone());
                }
                command if command.is_repeatable() => {}
                _ => return Err(Fault::invalid("a calculated field depends on more than the event, such as now()")),
            }
        }
        let expressions = self.context.expressions();
        let (mut members, mut extra, mut conditions) = (Vec::new(), BTreeSet::new(), Vec::new());
        for (column, condition) in object.members_below() {
            let condition = self.expand_event_condition(&condition)?;
            extra.extend(search_fields(&condition));
            if has_keywords(&condition) {
                extra.insert("_raw".to_owned());
            }
            members.push((column, RowFilter::new(&condition, &expressions)?));
            conditions.push(condition);
        }
        extra.retain(|name| !columns.contains(name));
        if extra.iter().any(|name| name.contains('*')) {
            return Err(Fault::invalid("a condition names fields by a pattern"));
        }
        columns.extend(members.iter().map(|(column, _)| column.clone()));
        if columns.len() > COLUMNS_MAX {
            return Err(Fault::invalid(format!("it has {} fields; the limit is {COLUMNS_MAX}", columns.len())));
        }
        let labels = Labels::new(self.knowledge.as_ref(), &expressions);
        let configuration = self.summaries.configuration(&tables)?;
        let zone = self.context.zone.iana_name().ok_or_else(|| Fault::invalid("the time zone has no name"))?;
        let parts = [
            VERSION.to_owned(),
            model_text.to_owned(),
            object.summarised_as().to_owned(),
            format!("{expr:?}"),
            format!("{stages:?}"),
            format!("{conditions:?}"),
            format!("{columns:?}"),
            format!("{:?} {:?}", labels.types, labels.tags),
            configuration,
            zone.to_owned(),
        ];
        let mut hasher = Sha256::new();
        for part in &parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let digest = hasher.finalize().into();
        Ok(SummaryPlan { digest, columns, expr, stages, members, extra })
    }

    /// A condition with labels expanded, if it depends on nothing but the event.
    fn expand_event_condition(&self, expr: &SearchExpr) -> Result<SearchExpr, Fault> {
        if !depends_only_on_event(expr) {
            return Err(Fault::invalid("a condition contains a subsearch"));
        }
        let expr = self.expand_labels(expr)?;
        match depends_only_on_event(&expr) {
            true => Ok(expr),
            false => Err(Fault::invalid("an event type contains a subsearch")),
        }
    }
}
