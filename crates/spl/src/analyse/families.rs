//! What the families of commands in `ast/values.rs`, `ast/sequence.rs` and `ast/reshape.rs` need of the rows before them.

use super::{FieldNeeds, TIME};
use crate::ast::{Command, ReshapeCommand, ReturnItem, SequenceCommand, SeveralCommand, StrcatSource, ValuesCommand};

/// What is needed before a command of a family; what is needed after other commands stays.
pub(super) fn before_family(command: &Command, mut needs: FieldNeeds) -> FieldNeeds {
    match command {
        Command::Values(values) => before_values(values, &mut needs),
        Command::Sequence(sequence) => before_sequence(sequence, &mut needs),
        Command::Reshape(reshape) => return before_reshape(reshape, needs),
        Command::Several(several) => return before_several(several, needs),
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
        ReshapeCommand::AddTotals(totals) => needs.add_all_or_every(&totals.fields),
        ReshapeCommand::MvCombine { .. } | ReshapeCommand::Transpose(_) | ReshapeCommand::Untable { .. } => {
            return FieldNeeds::everything();
        }
        ReshapeCommand::XySeries(xy) => {
            needs = FieldNeeds::default();
            [&xy.row, &xy.name].into_iter().chain(&xy.data).for_each(|field| needs.add(field));
        }
        ReshapeCommand::FieldSummary { fields, .. } => {
            needs = FieldNeeds::default();
            needs.add_all_or_every(fields);
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

/// Whether a command's rows are a report, whatever came before.
pub(super) fn makes_report(command: &Command) -> bool {
    let reshape = match command {
        Command::Reshape(reshape) => reshape,
        Command::Several(several) => {
            use SeveralCommand::{Format, GenTimes, IndexTime, MultiReport, Return, Set};
            let makes_rows = matches!(several, Set { .. } | GenTimes(_) | IndexTime { .. });
            return makes_rows || matches!(several, Format(_) | Return(_) | MultiReport(_));
        }
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
