//! Linear algebra for small symmetric matrices in row-major order.

use crate::{LearnError, StopCheck, check_stop};

/// Minimum share of a column's squared length that remains after projecting out the previous columns; below it, the
/// column counts as dependent.
const INDEPENDENCE_MIN: f64 = 1e-10;
/// Maximum number of Jacobi sweeps; usually fewer than ten are needed.
const JACOBI_ROUNDS_MAX: usize = 60;

/// Solves `a x = b` for a symmetric, positive semidefinite `a` with `size` rows by Cholesky decomposition. The
/// coefficient of a column that depends on previous columns is 0, which is one of the least-squares solutions.
pub(crate) fn solve_symmetric(
    mut a: Vec<f64>,
    b: &[f64],
    size: usize,
    stop: StopCheck<'_>,
) -> Result<Vec<f64>, LearnError> {
    let mut used = vec![false; size];
    for column in 0..size {
        check_stop(stop)?;
        let whole = a[column * size + column];
        for before in (0..column).filter(|before| used[*before]) {
            let mut rest = a[column * size + before];
            for inner in (0..before).filter(|inner| used[*inner]) {
                rest -= a[column * size + inner] * a[before * size + inner];
            }
            a[column * size + before] = rest / a[before * size + before];
        }
        let taken: f64 =
            (0..column).filter(|before| used[*before]).map(|before| a[column * size + before].powi(2)).sum();
        let left = whole - taken;
        used[column] = whole > 0.0 && left > INDEPENDENCE_MIN * whole;
        if used[column] {
            a[column * size + column] = left.sqrt();
        }
    }
    let mut solution = vec![0.0; size];
    for row in (0..size).filter(|row| used[*row]) {
        let known: f64 = (0..row).filter(|at| used[*at]).map(|at| a[row * size + at] * solution[at]).sum();
        solution[row] = (b[row] - known) / a[row * size + row];
    }
    for row in (0..size).rev().filter(|row| used[*row]) {
        let known: f64 = (row + 1..size).filter(|at| used[*at]).map(|at| a[at * size + row] * solution[at]).sum();
        solution[row] = (solution[row] - known) / a[row * size + row];
    }
    Ok(solution)
}

/// Eigenvalues of a symmetric matrix in descending order, each with its eigenvector (Jacobi's method; Golub, Van Loan:
/// "Matrix Computations", 8.5).
pub(crate) fn eigen_symmetric(
    mut a: Vec<f64>,
    size: usize,
    stop: StopCheck<'_>,
) -> Result<Vec<(f64, Vec<f64>)>, LearnError> {
    let mut vectors = vec![0.0; size * size];
    (0..size).for_each(|at| vectors[at * size + at] = 1.0);
    let whole: f64 = a.iter().map(|cell| cell * cell).sum();
    for _ in 0..JACOBI_ROUNDS_MAX {
        let beside: f64 = (0..size)
            .flat_map(|row| (0..row).map(move |column| (row, column)))
            .map(|(row, column)| a[row * size + column].powi(2))
            .sum();
        if beside <= whole * 1e-30 {
            break;
        }
        for p in 0..size {
            check_stop(stop)?;
            for q in p + 1..size {
                rotate(&mut a, &mut vectors, size, (p, q));
            }
        }
    }
    let mut found: Vec<(f64, Vec<f64>)> =
        (0..size).map(|at| (a[at * size + at], (0..size).map(|row| vectors[row * size + at]).collect())).collect();
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    Ok(found)
}

/// Rotates two axes so that the cell between them becomes 0.
fn rotate(a: &mut [f64], vectors: &mut [f64], size: usize, (p, q): (usize, usize)) {
    let between = a[p * size + q];
    if between == 0.0 {
        return;
    }
    let slope = (a[q * size + q] - a[p * size + p]) / (2.0 * between);
    let tangent = (if slope < 0.0 { -1.0 } else { 1.0 }) / (slope.abs() + (slope * slope + 1.0).sqrt());
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    for at in 0..size {
        let (one, other) = (a[at * size + p], a[at * size + q]);
        a[at * size + p] = cosine * one - sine * other;
        a[at * size + q] = sine * one + cosine * other;
    }
    for at in 0..size {
        let (one, other) = (a[p * size + at], a[q * size + at]);
        a[p * size + at] = cosine * one - sine * other;
        a[q * size + at] = sine * one + cosine * other;
        let (one, other) = (vectors[at * size + p], vectors[at * size + q]);
        vectors[at * size + p] = cosine * one - sine * other;
        vectors[at * size + q] = sine * one + cosine * other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solvable_systems_are_solved() {
        let never = || false;
        let solved = solve_symmetric(vec![4.0, 2.0, 2.0, 3.0], &[2.0, 5.0], 2, &never).unwrap();
        assert!((solved[0] + 0.5).abs() < 1e-12 && (solved[1] - 2.0).abs() < 1e-12, "{solved:?}");
        // The second column equals the first, so it gets 0.
        let solved = solve_symmetric(vec![1.0, 1.0, 1.0, 1.0], &[3.0, 3.0], 2, &never).unwrap();
        assert_eq!(solved, [3.0, 0.0]);
    }

    #[test]
    fn finds_the_axes_of_an_ellipse() {
        let never = || false;
        let found = eigen_symmetric(vec![2.0, 1.0, 1.0, 2.0], 2, &never).unwrap();
        assert!((found[0].0 - 3.0).abs() < 1e-12 && (found[1].0 - 1.0).abs() < 1e-12, "{found:?}");
        assert!((found[0].1[0] - found[0].1[1]).abs() < 1e-12);
        assert_eq!(eigen_symmetric(vec![0.0], 1, &never).unwrap()[0].0, 0.0);
    }
}
