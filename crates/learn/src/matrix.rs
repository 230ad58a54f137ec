//! A row-major matrix of numbers.

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    width: usize,
    cells: Vec<f64>,
}

impl Matrix {
    /// An empty matrix with `width` columns, at least 1.
    pub(crate) fn of_width(width: usize) -> Matrix {
        Matrix { width: width.max(1), cells: Vec::new() }
    }

    /// A matrix of these rows, which have equal length.
    #[cfg(test)]
    pub(crate) fn of_rows(rows: &[&[f64]]) -> Matrix {
        Matrix { width: rows[0].len(), cells: rows.concat() }
    }

    /// Appends a row of zeroes for the caller to fill.
    pub(crate) fn add_row(&mut self) -> &mut [f64] {
        let start = self.cells.len();
        self.cells.resize(start + self.width, 0.0);
        &mut self.cells[start..]
    }

    /// Removes the last row.
    pub(crate) fn drop_row(&mut self) {
        self.cells.truncate(self.cells.len() - self.width);
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.cells.len() / self.width
    }

    /// Number of columns.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.cells[row * self.width..(row + 1) * self.width]
    }

    /// All rows.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.cells.chunks_exact(self.width)
    }

    /// The numbers of a column.
    pub(crate) fn column(&self, column: usize) -> impl Iterator<Item = f64> + '_ {
        self.cells.iter().skip(column).step_by(self.width).copied()
    }
}
