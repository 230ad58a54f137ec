//! Clustering: k-means and DBSCAN.

use serde::{Deserialize, Serialize};

use crate::matrix::Matrix;
use crate::rng::Rng;
use crate::{FitControl, LearnError, ROWS_PER_STOP_CHECK, StopCheck, check_stop, exact_numbers};

/// Maximum number of clusters.
pub(crate) const CLUSTERS_MAX: usize = 1_000;
/// Number of random starts, the best of which is used.
const RANDOM_STARTS: usize = 10;
/// Maximum number of rounds per start.
const ROUNDS_MAX: usize = 300;
/// Maximum number of rows for DBSCAN, which compares each row with each other row.
const DBSCAN_ROWS_MAX: usize = 20_000;

/// Centres of clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clusters {
    pub(crate) width: usize,
    /// Coordinates of the centres, one centre after the other.
    #[serde(with = "exact_numbers::list")]
    pub(crate) centres: Vec<f64>,
    /// Number of rows in each cluster.
    pub(crate) sizes: Vec<u64>,
    /// Sum of the squared distances of all rows to their nearest centres.
    #[serde(with = "exact_numbers")]
    pub(crate) inertia: f64,
}

impl Clusters {
    /// The nearest centre and its distance.
    pub(crate) fn nearest(&self, row: &[f64]) -> (usize, f64) {
        let (place, square) = nearest(&self.centres, self.width, row);
        (place, square.sqrt())
    }
}

fn square_distance(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum()
}

fn nearest(centres: &[f64], width: usize, row: &[f64]) -> (usize, f64) {
    let squares = centres.chunks_exact(width).map(|centre| square_distance(centre, row)).enumerate();
    squares.fold((0, f64::INFINITY), |best, next| if next.1 < best.1 { next } else { best })
}

/// Lloyd's algorithm with k-means++ initialisation (Arthur, Vassilvitskii, 2007). Clusters are numbered in order of
/// their first row. A fit that ends early has the centres of its last round.
pub(crate) fn k_means(x: &Matrix, count: usize, seed: u64, control: FitControl<'_>) -> Result<Clusters, LearnError> {
    if x.rows() < count {
        let message = format!("{} rows cannot make {count} clusters: give a smaller k", x.rows());
        return Err(LearnError::Data(message));
    }
    let mut rng = Rng::new(seed);
    let mut best: Option<(Vec<f64>, f64)> = None;
    for _ in 0..RANDOM_STARTS {
        let found = run_from_random_start(x, count, &mut rng, control)?;
        if best.as_ref().is_none_or(|best| found.1 < best.1) {
            best = Some(found);
        }
        if (control.should_end)() {
            break;
        }
    }
    let (centres, inertia) = best.unwrap_or_default();
    let (width, mut order, mut sizes) = (x.width(), Vec::new(), Vec::new());
    for row in x.iter() {
        let group = nearest(&centres, width, row).0;
        match order.iter().position(|known| *known == group) {
            Some(place) => sizes[place] += 1,
            None => {
                order.push(group);
                sizes.push(1);
            }
        }
    }
    let centres = order.iter().flat_map(|group| centres[group * width..(group + 1) * width].to_vec()).collect();
    Ok(Clusters { width, centres, sizes, inertia })
}

fn run_from_random_start(
    x: &Matrix,
    count: usize,
    rng: &mut Rng,
    control: FitControl<'_>,
) -> Result<(Vec<f64>, f64), LearnError> {
    let FitControl { stop, should_end } = control;
    let width = x.width();
    let mut centres: Vec<f64> = x.row(rng.below(x.rows())).to_vec();
    let mut squares: Vec<f64> = x.iter().map(|row| square_distance(row, &centres)).collect();
    while centres.len() < count * width {
        check_stop(stop)?;
        let mut left = rng.unit() * squares.iter().sum::<f64>();
        let chosen = squares.iter().position(|square| {
            left -= square;
            left < 0.0 && *square > 0.0
        });
        let chosen = x.row(chosen.unwrap_or_else(|| rng.below(x.rows())));
        squares.iter_mut().zip(x.iter()).for_each(|(square, row)| *square = square.min(square_distance(row, chosen)));
        centres.extend_from_slice(chosen);
    }
    let mut inertia = f64::INFINITY;
    for _ in 0..ROUNDS_MAX {
        let (mut sums, mut sizes, mut sum) = (vec![0.0; count * width], vec![0.0f64; count], 0.0);
        for (at, row) in x.iter().enumerate() {
            if at % ROWS_PER_STOP_CHECK == 0 {
                check_stop(stop)?;
            }
            let (group, square) = nearest(&centres, width, row);
            sums[group * width..(group + 1) * width].iter_mut().zip(row).for_each(|(sum, cell)| *sum += cell);
            sizes[group] += 1.0;
            sum += square;
        }
        for (group, size) in sizes.iter().enumerate().filter(|(_, size)| **size > 0.0) {
            let places = group * width..(group + 1) * width;
            centres[places.clone()].iter_mut().zip(&sums[places]).for_each(|(centre, sum)| *centre = sum / size);
        }
        if sum >= inertia {
            break;
        }
        inertia = sum;
        if should_end() {
            break;
        }
    }
    Ok((centres, inertia))
}

/// The cluster of each row, -1 for noise (Ester, Kriegel, Sander, Xu, 1996): core rows have at least `neighbours`
/// rows, including themselves, within `distance`. Clusters are numbered in order of their first core row.
pub(crate) fn dbscan(
    x: &Matrix,
    distance: f64,
    neighbours: usize,
    stop: StopCheck<'_>,
) -> Result<Vec<i64>, LearnError> {
    let rows = x.rows();
    if rows > DBSCAN_ROWS_MAX {
        let what = "rows for DBSCAN: take fewer, for instance one in ten".to_owned();
        return Err(LearnError::Limit { what, value: rows, limit: DBSCAN_ROWS_MAX });
    }
    let near = |at: usize| -> Vec<usize> {
        let here = x.row(at);
        let square = distance * distance;
        (0..rows).filter(|other| square_distance(x.row(*other), here) <= square).collect()
    };
    let mut groups = vec![-1; rows];
    let mut is_seen = vec![false; rows];
    let mut group = 0;
    let mut open = OpenRows::default();
    for first in 0..rows {
        if is_seen[first] {
            continue;
        }
        check_stop(stop)?;
        is_seen[first] = true;
        let around = near(first);
        if around.len() < neighbours {
            continue;
        }
        groups[first] = group;
        open.push(around, group, &mut groups);
        while let Some(at) = open.rows.pop() {
            if is_seen[at] {
                continue;
            }
            is_seen[at] = true;
            check_stop(stop)?;
            let around = near(at);
            if around.len() >= neighbours {
                open.push(around, group, &mut groups);
            }
        }
        group += 1;
    }
    Ok(groups)
}

/// Rows of a cluster whose neighbours are still to be found. A row is pushed only once, when it joins the cluster,
/// however many rows are near it.
#[derive(Debug, Default)]
struct OpenRows {
    rows: Vec<usize>,
}

impl OpenRows {
    /// Adds to the cluster the rows that are in no cluster.
    fn push(&mut self, around: Vec<usize>, group: i64, groups: &mut [i64]) {
        for at in around {
            if groups[at] < 0 {
                groups[at] = group;
                self.rows.push(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_opened_once_however_dense_they_are() {
        let (mut open, mut groups) = (OpenRows::default(), vec![-1; 100]);
        let mut opened = 0;
        open.push((0..100).collect(), 0, &mut groups);
        while open.rows.pop().is_some() {
            opened += 1;
            assert!(open.rows.len() < 100);
            open.push((0..100).collect(), 0, &mut groups);
        }
        assert_eq!(opened, 100);
    }

    /// The clusters by definition: rows within the distance of each other are connected through core rows, and a row
    /// that is not a core row belongs to the first cluster that reaches it.
    #[test]
    fn clusters_are_those_of_the_definition() {
        let mut rng = Rng::new(7);
        for (distance, neighbours) in
            [0.0, 1.0, 2.0, 3.0].into_iter().flat_map(|distance| (2..8).map(move |n| (distance, n)))
        {
            let cells: Vec<f64> = (0..60).map(|_| (rng.unit() * 60.0).floor()).collect();
            let x = Matrix::of_rows(&cells.chunks(1).collect::<Vec<_>>());
            let near = |at: usize| {
                let cells = &cells;
                (0..60).filter(move |other: &usize| (cells[at] - cells[*other]).abs() <= distance)
            };
            let is_core: Vec<bool> = (0..60).map(|at| near(at).count() >= neighbours).collect();
            let mut expected = vec![-1_i64; 60];
            let mut group = 0;
            for first in 0..60 {
                if !is_core[first] || expected[first] >= 0 {
                    continue;
                }
                expected[first] = group;
                loop {
                    let core: Vec<usize> = (0..60).filter(|at| is_core[*at] && expected[*at] == group).collect();
                    let reached: Vec<usize> = core.into_iter().flat_map(&near).filter(|at| expected[*at] < 0).collect();
                    if reached.is_empty() {
                        break;
                    }
                    reached.into_iter().for_each(|at| expected[at] = group);
                }
                group += 1;
            }
            let found = dbscan(&x, distance, neighbours, &|| false).unwrap();
            assert_eq!(found, expected, "{cells:?} {distance} {neighbours}");
        }
    }
}
