//! Steps of the commands that read texts, and of those that look at all rows of a table.

use std::sync::Arc;

use quarry_spl::ast::{AnalyticsCommand, AnomaliesCommand, Span, TablesCommand, TextCommand};

use super::{Lowering, Step, row};
use crate::EngineError;
use crate::commands::analyze_fields::AnalyzeFields;
use crate::commands::anomaly::{Anomalies, AnomalousValue, AnomalyDetection};
use crate::commands::associate::{Arules, Associate, Correlate};
use crate::commands::cluster::Cluster;
use crate::commands::concurrency::{Concurrency, Outlier, Require};
use crate::commands::continuous::MakeContinuous;
use crate::commands::difference::Diff;
use crate::commands::erex::Erex;
use crate::commands::extract_pairs::Extract;
use crate::commands::kmeans::KMeans;
use crate::commands::lookup::{LookupTable, read_csv};
use crate::commands::multikv::MultiKv;
use crate::commands::predict::Predict;
use crate::commands::regions::Localize;
use crate::commands::selfjoin::{BucketDir, SelfJoin};
use crate::commands::timewrap::TimeWrap;
use crate::commands::to_json::ToJson;
use crate::commands::together::{Cofilter, Relevancy};
use crate::commands::xml::{XPathValues, XmlKv, XmlUnescape};

/// A command that reads texts.
pub(super) fn text(command: &TextCommand) -> Step {
    match command {
        TextCommand::Extract(extract) => {
            let command = Arc::new(extract.clone());
            row(move || Extract(Arc::clone(&command)))
        }
        TextCommand::XmlKv(field) => {
            let field = field.clone();
            row(move || XmlKv(field.clone()))
        }
        TextCommand::XmlUnescape => row(|| XmlUnescape),
        TextCommand::XPath(xpath) => {
            let command = Arc::new(xpath.clone());
            row(move || XPathValues(Arc::clone(&command)))
        }
        TextCommand::MultiKv(multikv) => {
            let command = MultiKv { command: Arc::new(multikv.clone()), rule: None };
            row(move || command.clone())
        }
        TextCommand::ToJson(json) => {
            let command = Arc::new(json.clone());
            row(move || ToJson(Arc::clone(&command)))
        }
    }
}

/// A command that looks at all rows.
pub(super) fn table(command: &TablesCommand) -> Step {
    Step::Blocking(match command {
        TablesCommand::MakeContinuous(command) => Arc::new(MakeContinuous(command.clone())),
        TablesCommand::TimeWrap(command) => Arc::new(TimeWrap(command.clone())),
        TablesCommand::Concurrency(command) => Arc::new(Concurrency(command.clone())),
        TablesCommand::Outlier(command) => Arc::new(Outlier(command.clone())),
        TablesCommand::Cluster(command) => Arc::new(Cluster(command.clone())),
        TablesCommand::Require => Arc::new(Require),
    })
}

impl Lowering<'_> {
    /// A command that looks for patterns in all rows.
    pub(super) fn analytics(&self, command: &AnalyticsCommand) -> Result<Step, EngineError> {
        match command {
            AnalyticsCommand::Anomalies(command) => self.anomalies(command),
            other => Ok(pattern_step(other)),
        }
    }

    /// What is denied is read from a table.
    fn anomalies(&self, command: &AnomaliesCommand) -> Result<Step, EngineError> {
        let denied = match &command.denied {
            Some((name, span)) => Some((self.environment.table(name, *span)?, *span)),
            None => None,
        };
        let read = |(table, span): (LookupTable, Span)| {
            let invalid = |message| EngineError::Invalid { message, span: Some(span) };
            read_csv(&table.csv).map_err(invalid)
        };
        let denied = denied.map(read).transpose()?;
        Ok(Step::Blocking(Arc::new(Anomalies::new(command, denied.as_ref()))))
    }
}

fn pattern_step(command: &AnalyticsCommand) -> Step {
    Step::Blocking(match command {
        AnalyticsCommand::Predict(command) => Arc::new(Predict(command.clone())),
        AnalyticsCommand::KMeans(command) => Arc::new(KMeans(command.clone())),
        AnalyticsCommand::Anomalies(command) => Arc::new(Anomalies::new(command, None)),
        AnalyticsCommand::AnomalousValue(command) => Arc::new(AnomalousValue(command.clone())),
        AnalyticsCommand::AnomalyDetection(command) => Arc::new(AnomalyDetection(command.clone())),
        AnalyticsCommand::Associate(command) => Arc::new(Associate(command.clone())),
        AnalyticsCommand::Correlate => Arc::new(Correlate),
        AnalyticsCommand::Arules(command) => Arc::new(Arules(command.clone())),
        AnalyticsCommand::Erex(command) => Arc::new(Erex(command.clone())),
        AnalyticsCommand::AnalyzeFields(class) => Arc::new(AnalyzeFields(class.clone())),
        AnalyticsCommand::SelfJoin(command) => Arc::new(SelfJoin(command.clone())),
        AnalyticsCommand::BucketDir(command) => Arc::new(BucketDir(command.clone())),
        AnalyticsCommand::Cofilter(command) => Arc::new(Cofilter(command.clone())),
        AnalyticsCommand::Diff(command) => Arc::new(Diff(command.clone())),
        AnalyticsCommand::Localize(command) => Arc::new(Localize(command.clone())),
        AnalyticsCommand::Relevancy(words) => Arc::new(Relevancy(words.clone())),
    })
}
