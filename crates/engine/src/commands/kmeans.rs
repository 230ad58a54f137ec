//! `kmeans`: clusters rows by numeric fields.
//!
//! Initial centres are far apart and chosen deterministically, so that the same rows always yield the same clusters.
//! Of several runs with different starting centres, the run with the smallest sum of distances is used. Clusters are
//! numbered in order of their first row.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::{matching_names, names_of};
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, batch_of, is_hidden, rows_in_memory};
use quarry_spl::ast::{KMeansCommand, KMeansDistance};
use quarry_stdx::number::f64_of;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for KMeansCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(KMeans(self.clone()))])
    }
}

/// Number of points between two checks whether to end.
const CHECKED_POINTS: usize = 4_096;

struct KMeans(KMeansCommand);

/// Whether to end with the best clusters so far.
type ShouldEnd<'a> = &'a dyn Fn() -> bool;

/// A grouping of points.
struct Clustering {
    centres: Vec<Vec<f64>>,
    /// Group of each point; only of the first points if the search ended before all points had a group.
    members: Vec<usize>,
    /// Sum of the distances to the centres; infinite before all points have a group.
    distortion: f64,
}

impl BlockingTable for KMeans {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("kmeans", rows, context)?;
        let names: Vec<String> =
            names_of(&all).into_iter().filter(|name| !is_hidden(name) && !name.starts_with('_')).collect();
        let chosen: Vec<&str> = match self.0.fields.is_empty() {
            true => names.iter().map(String::as_str).collect(),
            false => matching_names(&self.0.fields, &names),
        };
        let readers: Vec<_> = chosen.iter().map(|name| (*name, rows::reader(&all, name))).collect();
        let is_number = |reader: &rows::ColumnReader| (0..all.num_rows()).any(|row| reader.number(row).is_some());
        let numeric: Vec<_> = readers.into_iter().filter(|(_, reader)| is_number(reader)).collect();
        // A row without a number in one of the fields is excluded.
        let place = |row: usize| -> Option<Vec<f64>> {
            numeric.iter().map(|(_, reader)| reader.number(row).filter(|number| number.is_finite())).collect()
        };
        let places: Vec<Option<Vec<f64>>> =
            (0..all.num_rows()).map(|row| place(row).filter(|_| !numeric.is_empty())).collect();
        let points: Vec<&[f64]> = places.iter().flatten().map(Vec::as_slice).collect();
        if points.is_empty() {
            context.messages.push("kmeans: no row has a number in every field");
            return Ok(vec![all.into_batch()]);
        }
        let (low, high) = self.0.groups;
        let work = context.stop.begin_work();
        let should_end: ShouldEnd<'_> = &|| context.stop.should_end_work(work);
        if low < high {
            return self.distortions(&points, should_end).map(|table| vec![table]);
        }
        let grouping = self.best_clustering(&points, low, should_end);
        let mut groups = grouping.members.iter();
        let members: Vec<Option<usize>> =
            places.iter().map(|place| place.as_ref().and_then(|_| groups.next().copied())).collect();
        let fields: Vec<&str> = numeric.iter().map(|(name, _)| *name).collect();
        self.with_clusters(&all, &members, &grouping, &fields).map(|table| vec![table])
    }
}

impl KMeans {
    /// Distortion for each number of clusters.
    fn distortions(&self, points: &[&[f64]], should_end: ShouldEnd<'_>) -> Result<RecordBatch, EngineError> {
        let (low, high) = self.0.groups;
        let (mut counts, mut sums, mut rows) = (ColumnBuilder::new(0), ColumnBuilder::new(0), 0);
        for count in low..=high {
            let grouping = self.best_clustering(points, count, should_end);
            if grouping.members.len() < points.len() {
                break;
            }
            counts.push_int(count as i64);
            sums.push(Value::from_f64(grouping.distortion));
            rows += 1;
            if should_end() {
                break;
            }
        }
        batch_of([("k", counts.finish()), ("distortion", sums.finish())], rows)
    }

    fn with_clusters(
        &self,
        all: &RecordBatch,
        members: &[Option<usize>],
        grouping: &Clustering,
        fields: &[&str],
    ) -> Result<RecordBatch, EngineError> {
        let mut column = ColumnBuilder::new(members.len());
        for member in members {
            match member {
                Some(group) => column.push_int(*group as i64 + 1),
                None => column.push_null(),
            }
        }
        let mut result = rows::with_column(all, &self.0.output, column.finish())?;
        if self.0.shows_centre {
            for (at, field) in fields.iter().enumerate() {
                let mut column = ColumnBuilder::new(members.len());
                for member in members {
                    let value = member.map(|group| Value::from_f64(grouping.centres[group][at]));
                    column.push(value.unwrap_or(Value::Null));
                }
                result = rows::with_column(&result, &format!("centroid_{field}"), column.finish())?;
            }
        }
        Ok(result)
    }

    fn best_clustering(&self, points: &[&[f64]], count: usize, should_end: ShouldEnd<'_>) -> Clustering {
        let count = count.min(points.len());
        let mut best = self.seeded_clustering(points, count, 0, should_end);
        for start in 1..self.0.starts.min(points.len()) {
            if should_end() {
                break;
            }
            let other = self.seeded_clustering(points, count, start, should_end);
            if other.distortion < best.distortion {
                best = other;
            }
        }
        renumber(best)
    }

    /// Clusters with a first centre at a given point; each further centre is the point farthest from the previous
    /// centres.
    fn seeded_clustering(
        &self,
        points: &[&[f64]],
        count: usize,
        start: usize,
        should_end: ShouldEnd<'_>,
    ) -> Clustering {
        let first = start * points.len() / self.0.starts.min(points.len()).max(1);
        let mut centres: Vec<Vec<f64>> = vec![points[first].to_vec()];
        let mut nearest: Vec<f64> = points.iter().map(|point| self.distance(point, points[first])).collect();
        while centres.len() < count && !should_end() {
            let farthest = (0..points.len()).max_by(|a, b| nearest[*a].total_cmp(&nearest[*b])).unwrap_or(0);
            for (near, point) in nearest.iter_mut().zip(points) {
                *near = near.min(self.distance(point, points[farthest]));
            }
            centres.push(points[farthest].to_vec());
        }
        let members = Vec::with_capacity(points.len());
        let mut grouping = Clustering { centres, members, distortion: f64::INFINITY };
        for _ in 0..self.0.rounds {
            let moved = self.iterate(points, &mut grouping, should_end);
            if moved.is_none_or(|moved| moved <= self.0.tolerance) {
                break;
            }
        }
        grouping
    }

    /// Assigns each point to its nearest centre and moves each centre to the mean of its points; returns how far the
    /// centres moved, or `None` if the search ended before all points were assigned.
    fn iterate(&self, points: &[&[f64]], grouping: &mut Clustering, should_end: ShouldEnd<'_>) -> Option<f64> {
        let width = points[0].len();
        let mut sums = vec![(vec![0.0; width], 0usize); grouping.centres.len()];
        let mut distortion = 0.0;
        for (at, point) in points.iter().enumerate() {
            if at.is_multiple_of(CHECKED_POINTS) && should_end() {
                return None;
            }
            let distances = grouping.centres.iter().map(|centre| self.distance(point, centre)).enumerate();
            let nearest = distances.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0));
            match grouping.members.get_mut(at) {
                Some(member) => *member = nearest.0,
                None => grouping.members.push(nearest.0),
            }
            distortion += nearest.1;
            let (sum, count) = &mut sums[nearest.0];
            sum.iter_mut().zip(*point).for_each(|(sum, number)| *sum += number);
            *count += 1;
        }
        grouping.distortion = distortion;
        let mut moved = 0.0;
        for (centre, (sum, count)) in grouping.centres.iter_mut().zip(sums).filter(|(_, (_, count))| *count > 0) {
            let middle: Vec<f64> = sum.iter().map(|sum| sum / f64_of(count)).collect();
            moved += self.distance(centre, &middle);
            *centre = middle;
        }
        Some(moved)
    }

    fn distance(&self, a: &[f64], b: &[f64]) -> f64 {
        let pairs = a.iter().zip(b);
        match self.0.distance {
            KMeansDistance::Sum => pairs.map(|(a, b)| (a - b).abs()).sum(),
            KMeansDistance::Squares => pairs.map(|(a, b)| (a - b).powi(2)).sum(),
            KMeansDistance::Angle => {
                let length = |point: &[f64]| point.iter().map(|number| number * number).sum::<f64>().sqrt();
                let lengths = length(a) * length(b);
                let product: f64 = pairs.map(|(a, b)| a * b).sum();
                if lengths > 0.0 { (1.0 - product / lengths).max(0.0) } else { 1.0 }
            }
        }
    }
}

/// Numbers the clusters in order of their first point.
fn renumber(grouping: Clustering) -> Clustering {
    let (mut order, mut numbers) = (Vec::new(), vec![None; grouping.centres.len()]);
    let number_of = |member: usize| {
        *numbers[member].get_or_insert_with(|| {
            order.push(member);
            order.len() - 1
        })
    };
    let members = grouping.members.into_iter().map(number_of).collect();
    let centres = order.iter().map(|at| grouping.centres[*at].clone()).collect();
    Clustering { centres, members, distortion: grouping.distortion }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::cell::Cell;

    use quarry_spl::ast::Command;

    use super::*;

    #[test]
    fn a_search_that_ends_leaves_points_without_a_group_or_in_their_last_one() {
        let parsed = quarry_spl::parse("* | kmeans k=2 reps=3 number");
        let Command::KMeans(command) = &parsed.pipeline.commands[1].command else { panic!("{parsed:?}") };
        let command = KMeans(command.clone());
        let numbers: Vec<f64> = (0..3 * CHECKED_POINTS).map(|at| if at % 2 == 0 { 0.0 } else { 9.0 }).collect();
        let points: Vec<&[f64]> = numbers.chunks(1).collect();
        let cluster = |calls: usize| {
            let left = Cell::new(calls);
            command.best_clustering(&points, 2, &|| left.replace(left.get().saturating_sub(1)) == 0)
        };
        // One check before the second centre, and one per 4,096 points of a pass.
        for (calls, grouped) in [(0, 0), (1, 0), (2, CHECKED_POINTS), (3, 2 * CHECKED_POINTS), (4, points.len())] {
            let made = cluster(calls);
            assert_eq!(made.members.len(), grouped, "{calls}");
            assert!(made.members.iter().enumerate().all(|(at, member)| *member == at % 2), "{calls}");
        }
        assert_eq!((cluster(usize::MAX).centres, cluster(4).distortion), (vec![vec![0.0], vec![9.0]], 0.0));
    }
}
