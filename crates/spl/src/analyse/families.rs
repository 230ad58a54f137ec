//! What the families of commands in `ast/values.rs`, `ast/sequence.rs` and `ast/reshape.rs` need of the rows before them.

use super::{FieldNeeds, RAW, TIME};
use crate::ast::{
    AnalyticsCommand, Command, FieldPattern, LearnCommand, ReshapeCommand, ReturnItem, SequenceCommand, SeveralCommand,
    StrcatSource, TablesCommand, TextCommand, ValuesCommand,
};

/// What is needed before a command of a family; what is needed after other commands stays.
pub(super) fn before_family(command: &Command, mut needs: FieldNeeds) -> FieldNeeds {
    match command {
        Command::Values(values) => before_values(values, &mut needs),
        Command::Sequence(sequence) => before_sequence(sequence, &mut needs),
        Command::Reshape(reshape) => return before_reshape(reshape, needs),
        Command::Several(several) => return before_several(several, needs),
        Command::Text(text) => before_text(text, &mut needs),
        Command::Tables(tables) => before_tables(tables, &mut needs),
        Command::Analytics(command) => before_analytics(command, &mut needs),
        Command::Learn(command) => return before_learn(command, needs),
        // What a program of an app reads, and what it makes, only the program knows.
        Command::Custom(_) => return FieldNeeds::everything(),
        Command::Node(_) => needs = FieldNeeds::default(),
        _ => {}
    }
    needs
}

fn before_values(command: &ValuesCommand, needs: &mut FieldNeeds) {
    match command {
        ValuesCommand::Convert(convert) => {
            // A wildcard asks for what it matches only where that is wanted; too much is merely slow.
            needs.add_all(convert.conversions.iter().map(|conversion| &conversion.field));
        }
        ValuesCommand::FillDown(fields) => needs.add_all(fields),
        ValuesCommand::Strcat(strcat) => {
            for source in &strcat.sources {
                if let StrcatSource::Field(field) = source {
                    needs.add(field);
                }
            }
        }
        ValuesCommand::Replace(replace) => needs.add_all(&replace.fields),
        ValuesCommand::RangeMap(map) => needs.add(&map.field),
        ValuesCommand::NoMv(field) => needs.add(field),
        ValuesCommand::FieldFormat(format) => {
            needs.add(&format.field);
            needs.add_expr(&format.expr);
        }
        // Which fields the conditions of event types and tags ask for is known only when they are read.
        ValuesCommand::Typer => needs.all = true,
        ValuesCommand::Tags(tags) => {
            needs.all |= tags.fields.is_empty();
            for field in &tags.fields {
                needs.add(field);
                needs.add(&format!("tag::{field}"));
            }
        }
        ValuesCommand::AddInfo | ValuesCommand::SetFields(_) | ValuesCommand::Pass => {}
    }
}

fn before_sequence(command: &SequenceCommand, needs: &mut FieldNeeds) {
    match command {
        SequenceCommand::AutoRegress(command) => needs.add(&command.field),
        SequenceCommand::Delta(command) => needs.add(&command.field),
        SequenceCommand::TrendLine(trends) => trends.iter().for_each(|trend| needs.add(&trend.field)),
        // Rows are alike only when all their fields are.
        SequenceCommand::Uniq => needs.all = true,
    }
}

fn before_reshape(command: &ReshapeCommand, mut needs: FieldNeeds) -> FieldNeeds {
    match command {
        ReshapeCommand::AddTotals(totals) => add_or_all(&mut needs, &totals.fields),
        ReshapeCommand::MvCombine { .. } | ReshapeCommand::Transpose(_) | ReshapeCommand::Untable { .. } => {
            return FieldNeeds::everything();
        }
        ReshapeCommand::XySeries(xy) => {
            needs = FieldNeeds::default();
            [&xy.row, &xy.name].into_iter().chain(&xy.data).for_each(|field| needs.add(field));
        }
        ReshapeCommand::FieldSummary { fields, .. } => {
            needs = FieldNeeds::default();
            add_or_all(&mut needs, fields);
            needs.every |= fields.is_empty();
            needs.add(TIME);
        }
        ReshapeCommand::Gauge(parts) => {
            needs = FieldNeeds::default();
            parts.iter().for_each(|part| needs.add(part));
        }
    }
    needs
}

fn before_several(command: &SeveralCommand, mut needs: FieldNeeds) -> FieldNeeds {
    match command {
        // Values pair with those of other searches by their names only.
        SeveralCommand::AppendCols { .. } | SeveralCommand::Union { .. } => {}
        SeveralCommand::AppendPipe(pipeline) => {
            let inner = super::needed_before(&pipeline.commands, needs.clone());
            needs.all |= inner.all;
            needs.every |= inner.every;
            needs.fields.extend(inner.fields);
            inner.patterns.iter().for_each(|pattern| needs.add(pattern));
        }
        SeveralCommand::MultiReport(reports) => {
            let after = std::mem::take(&mut needs);
            for report in reports {
                let inner = super::needed_before(&report.commands, after.clone());
                needs.all |= inner.all;
                needs.every |= inner.every;
                needs.fields.extend(inner.fields);
                inner.patterns.iter().for_each(|pattern| needs.add(pattern));
            }
        }
        SeveralCommand::Format(_) => return FieldNeeds::everything(),
        SeveralCommand::Return(command) => {
            needs = FieldNeeds::default();
            for item in &command.items {
                match item {
                    ReturnItem::Pair { field, .. } | ReturnItem::Value(field) => needs.add(field),
                }
            }
        }
        // They make rows of their own.
        SeveralCommand::MultiSearch(_)
        | SeveralCommand::Set { .. }
        | SeveralCommand::GenTimes(_)
        | SeveralCommand::IndexTime { .. } => {
            needs = FieldNeeds::default();
        }
    }
    needs
}

/// No field named is every field.
fn add_or_all(needs: &mut FieldNeeds, fields: &[FieldPattern]) {
    needs.all |= fields.is_empty();
    needs.add_all(fields);
}

fn before_text(command: &TextCommand, needs: &mut FieldNeeds) {
    match command {
        TextCommand::Extract(_) | TextCommand::XmlUnescape => needs.add(RAW),
        TextCommand::XmlKv(field) => needs.add(field),
        TextCommand::XPath(xpath) => needs.add(&xpath.field),
        TextCommand::MultiKv(_) => needs.add(RAW),
        TextCommand::ToJson(json) => match json.fields.is_empty() {
            true => needs.all = true,
            false => json.fields.iter().for_each(|(_, field)| needs.add(field)),
        },
    }
}

fn before_tables(command: &TablesCommand, needs: &mut FieldNeeds) {
    match command {
        TablesCommand::MakeContinuous(command) => needs.add(&command.field),
        TablesCommand::TimeWrap(_) => needs.all = true,
        TablesCommand::Concurrency(command) => {
            needs.add(&command.duration);
            needs.add(&command.start);
        }
        TablesCommand::Outlier(command) => needs.add_all(&command.fields),
        TablesCommand::Cluster(command) => needs.add(&command.field),
        TablesCommand::Require => {}
    }
}

fn before_analytics(command: &AnalyticsCommand, needs: &mut FieldNeeds) {
    match command {
        AnalyticsCommand::Predict(predict) => {
            predict.series.iter().map(|(field, _)| field).chain(&predict.correlate).for_each(|field| needs.add(field));
            needs.add(TIME);
        }
        AnalyticsCommand::KMeans(kmeans) => add_or_all(needs, &kmeans.fields),
        AnalyticsCommand::Anomalies(anomalies) => {
            needs.add(&anomalies.field);
            needs.add_all(&anomalies.by);
        }
        AnalyticsCommand::AnomalousValue(command) => add_or_all(needs, &command.fields),
        AnalyticsCommand::AnomalyDetection(command) => add_or_all(needs, &command.fields),
        AnalyticsCommand::Associate(command) => add_or_all(needs, &command.fields),
        AnalyticsCommand::Arules(command) => needs.add_all(&command.fields),
        AnalyticsCommand::Erex(erex) => needs.add(&erex.field),
        // What of another row comes along is known only when the rows are.
        AnalyticsCommand::Correlate | AnalyticsCommand::SelfJoin(_) | AnalyticsCommand::AnalyzeFields(_) => {
            needs.all = true;
        }
        AnalyticsCommand::Cofilter(command) => {
            needs.add(&command.user);
            needs.add(&command.item);
        }
        AnalyticsCommand::Diff(command) => needs.add(&command.field),
        AnalyticsCommand::Localize(_) => needs.add(TIME),
        AnalyticsCommand::Relevancy(_) => needs.add(RAW),
        AnalyticsCommand::BucketDir(command) => {
            needs.add(&command.path);
            needs.add(&command.size);
        }
    }
}

fn before_learn(command: &LearnCommand, mut needs: FieldNeeds) -> FieldNeeds {
    match command {
        LearnCommand::Fit(fit) => {
            needs.add_all(fit.target.iter().chain(&fit.features));
            fit.by.iter().for_each(|field| needs.add(field));
        }
        // Only the model knows what it reads.
        LearnCommand::Apply(_) => needs.all = true,
        LearnCommand::Score(score) => {
            needs = FieldNeeds::default();
            needs.add_all(score.actual.iter().chain(&score.predicted));
        }
        LearnCommand::Summary(_) | LearnCommand::ListModels | LearnCommand::DeleteModel(_) => {
            needs = FieldNeeds::default();
        }
    }
    needs
}

/// Whether a command's rows are a report, whatever came before.
pub(super) fn makes_report(command: &Command) -> bool {
    let reshape = match command {
        Command::Reshape(reshape) => reshape,
        Command::Several(several) => {
            use SeveralCommand::{Format, GenTimes, IndexTime, MultiReport, Return, Set};
            let makes_rows = matches!(several, Set { .. } | GenTimes(_) | IndexTime { .. });
            return makes_rows || matches!(several, Format(_) | Return(_) | MultiReport(_));
        }
        Command::Tables(tables) => return matches!(tables, TablesCommand::TimeWrap(_)),
        Command::Analytics(command) => return reports_patterns(command),
        Command::Learn(command) => return !matches!(command, LearnCommand::Fit(_) | LearnCommand::Apply(_)),
        Command::Node(_) | Command::Custom(_) => return true,
        _ => return false,
    };
    matches!(
        reshape,
        ReshapeCommand::Transpose(_)
            | ReshapeCommand::XySeries(_)
            | ReshapeCommand::Untable { .. }
            | ReshapeCommand::FieldSummary { .. }
            | ReshapeCommand::Gauge(_)
    )
}

/// Whether a command shows what it found instead of the rows.
fn reports_patterns(command: &AnalyticsCommand) -> bool {
    use AnalyticsCommand::{AnalyzeFields, Arules, Associate, BucketDir, Cofilter, Correlate, Diff, Localize, Predict};
    let summary = crate::ast::AnomalyAction::Summary;
    match command {
        Predict(_) | Associate(_) | Correlate | Arules(_) | BucketDir(_) | AnalyzeFields(_) => true,
        Cofilter(_) | Diff(_) | Localize(_) => true,
        AnalyticsCommand::AnomalousValue(command) => command.action == summary,
        AnalyticsCommand::AnomalyDetection(command) => command.action == summary,
        _ => false,
    }
}
