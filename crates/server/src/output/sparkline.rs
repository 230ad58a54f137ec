//! Sparklines on a terminal: the values of the stats function `sparkline`, drawn as a line of bars.
//!
//! Other outputs have the values as Splunk writes them: a mark, then a number for each span of time.

use quarry_search::Cell;
use quarry_stdx::number::integer_part;

/// Mark that is the first value of a sparkline.
const SPARKLINE_MARKER: &str = "##__SPARKLINE__##";
/// Bars from the lowest to the highest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum number of bars; with more values, each bar shows the maximum of several adjacent values.
const BARS_MAX: usize = 30;

/// Draws a cell that is a sparkline. The lowest bar stands for zero and the highest for the largest value in the cell.
pub(super) fn draw(cell: &Cell<'_>) -> Option<String> {
    let Cell::Multi(values) = cell else { return None };
    let (_, values) = values.split_first().filter(|(first, _)| *first == SPARKLINE_MARKER)?;
    let numbers: Vec<f64> = values.iter().map(|value| value.parse().unwrap_or(0.0)).collect();
    let highest = |some: &[f64]| some.iter().copied().fold(0.0, f64::max);
    let top = highest(&numbers);
    let bar = |some: &[f64]| match top > 0.0 {
        true => BARS[integer_part::<usize>((highest(some) / top * 7.0).round()).min(BARS.len() - 1)],
        false => BARS[0],
    };
    Some(numbers.chunks(numbers.len().div_ceil(BARS_MAX).max(1)).map(bar).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(values: &[&str]) -> Option<String> {
        draw(&Cell::Multi(values.iter().map(|value| (*value).into()).collect()))
    }

    #[test]
    fn bars_are_proportional_to_the_largest_value() {
        assert_eq!(cell(&[SPARKLINE_MARKER, "0", "7", "14", "3"]).unwrap(), "▁▅█▃");
        assert_eq!(cell(&[SPARKLINE_MARKER, "0", "0"]).unwrap(), "▁▁");
        assert_eq!(cell(&[SPARKLINE_MARKER]).unwrap(), "");
        let long: Vec<String> = (0..100).map(|at| at.to_string()).collect();
        let long: Vec<&str> = std::iter::once(SPARKLINE_MARKER).chain(long.iter().map(String::as_str)).collect();
        let bars = cell(&long).unwrap();
        assert!(bars.chars().count() == 25 && bars.starts_with('▁') && bars.ends_with('█'), "{bars}");
    }

    #[test]
    fn other_cells_are_not_drawn() {
        assert_eq!(cell(&["1", "2"]), None);
        assert_eq!(draw(&Cell::Single(SPARKLINE_MARKER.into())), None);
    }
}
