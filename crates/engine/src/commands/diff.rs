//! `diff`: shows the lines in which a field of two rows differs, in the format of Unix `diff`.
//!
//! Common lines at both ends are skipped; for the lines in between, the shortest edit script is computed (Myers, "An
//! O(ND) difference algorithm and its variations", 1986). If the script has more than [`EDITS_MAX`] removed and added
//! lines, all lines in between are shown as removed and added, which is valid though not minimal.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, batch_of};
use quarry_spl::ast::DiffCommand;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of removed and added lines of the shortest edit script.
const EDITS_MAX: usize = 2_000;
/// Lines of context.
const CONTEXT_LINES: usize = 3;

impl Execute for DiffCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Diff(self.clone()))])
    }
}

struct Diff(DiffCommand);

impl BlockingTable for Diff {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let (first, second) = self.0.positions;
        let (mut texts, mut seen, mut scratch) = ([None, None], 0, String::new());
        for batch in rows {
            let batch = batch?;
            let reader = rows::reader(&batch, &self.0.field);
            for (text, position) in texts.iter_mut().zip([first, second]) {
                if (seen..seen + batch.num_rows()).contains(&(position - 1)) {
                    let found = reader.text(position - 1 - seen, &mut scratch).unwrap_or_default();
                    *text = Some(self.compared_part(found).to_owned());
                }
            }
            seen += batch.num_rows();
            if texts[1].is_some() {
                break;
            }
        }
        let [Some(left), Some(right)] = texts else {
            context.messages.push(format!("diff: there is no row {second} to compare row {first} with"));
            return Ok(Vec::new());
        };
        let text = self.difference(&left, &right);
        let [mut raw, mut lines] = [ColumnBuilder::new(1), ColumnBuilder::new(1)];
        raw.push_text(&text);
        lines.push_int(text.lines().count().max(1) as i64);
        Ok(vec![batch_of([("_raw", raw.finish()), ("linecount", lines.finish())], 1)?])
    }
}

/// A line of both texts, or of one of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line<'t> {
    Both(&'t str),
    Removed(&'t str),
    Added(&'t str),
}

impl Diff {
    /// The part of a text that is compared.
    fn compared_part<'t>(&self, text: &'t str) -> &'t str {
        match self.0.bytes_max {
            0 => text,
            most => &text[..(0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)],
        }
    }

    fn difference(&self, left: &str, right: &str) -> String {
        let lines = edits(&left.lines().collect::<Vec<_>>(), &right.lines().collect::<Vec<_>>());
        if lines.iter().all(|line| matches!(line, Line::Both(_))) {
            return "no differences".to_owned();
        }
        let mut written = Vec::new();
        if self.0.header {
            let (left, right) = if self.0.context { ("***", "---") } else { ("---", "+++") };
            written.push(format!("{left} row {}", self.0.positions.0));
            written.push(format!("{right} row {}", self.0.positions.1));
        }
        for hunk in hunks(&lines) {
            match self.0.context {
                true => write_context(&lines, hunk, &mut written),
                false => write_unified(&lines, hunk, &mut written),
            }
        }
        written.join("\n")
    }
}

/// The lines of both texts in order.
fn edits<'t>(left: &[&'t str], right: &[&'t str]) -> Vec<Line<'t>> {
    let alike = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let (left_rest, right_rest) = (&left[alike..], &right[alike..]);
    let at_end = left_rest.iter().rev().zip(right_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&left_rest[..left_rest.len() - at_end], &right_rest[..right_rest.len() - at_end]);
    let mut lines: Vec<Line<'t>> = left[..alike].iter().map(|line| Line::Both(line)).collect();
    lines.extend(shortest_edit_script(old, new).unwrap_or_else(|| {
        let removed = old.iter().map(|line| Line::Removed(line));
        removed.chain(new.iter().map(|line| Line::Added(line))).collect()
    }));
    lines.extend(left[left.len() - at_end..].iter().map(|line| Line::Both(line)));
    lines
}

/// The shortest edit script between two lists of lines; `None` if it is too long.
fn shortest_edit_script<'t>(old: &[&'t str], new: &[&'t str]) -> Option<Vec<Line<'t>>> {
    let most = (old.len() + new.len()).min(EDITS_MAX) as isize;
    // For each diagonal (lines of the old text minus lines of the new text), the farthest line of the old text that
    // the current number of edits reaches.
    let mut reached = vec![0_isize; 2 * most as usize + 3];
    let place = |diagonal: isize| (diagonal + most + 1) as usize;
    let mut steps: Vec<Vec<isize>> = Vec::new();
    for edit in 0..=most {
        for diagonal in (-edit..=edit).step_by(2) {
            let adds =
                diagonal == -edit || (diagonal != edit && reached[place(diagonal - 1)] < reached[place(diagonal + 1)]);
            let mut at = if adds { reached[place(diagonal + 1)] } else { reached[place(diagonal - 1)] + 1 };
            while let (Some(a), Some(b)) = (line_at(old, at), line_at(new, at - diagonal))
                && a == b
            {
                at += 1;
            }
            reached[place(diagonal)] = at;
            if at >= old.len() as isize && at - diagonal >= new.len() as isize {
                steps.push(reached[place(-edit)..=place(edit)].to_vec());
                return Some(backtrack(old, new, &steps));
            }
        }
        steps.push(reached[place(-edit)..=place(edit)].to_vec());
    }
    None
}

fn line_at<'t>(lines: &[&'t str], at: isize) -> Option<&'t str> {
    usize::try_from(at).ok().and_then(|at| lines.get(at).copied())
}

/// Reconstructs the edit script from `steps`, which has the reached positions for each number of edits.
fn backtrack<'t>(old: &[&'t str], new: &[&'t str], steps: &[Vec<isize>]) -> Vec<Line<'t>> {
    let (mut x, mut y) = (old.len() as isize, new.len() as isize);
    let mut lines = Vec::new();
    let reached = |edit: usize, diagonal: isize| {
        let at = diagonal + edit as isize;
        usize::try_from(at).ok().and_then(|at| steps[edit].get(at)).copied().unwrap_or(-1)
    };
    for edit in (1..steps.len()).rev() {
        let diagonal = x - y;
        let width = edit as isize;
        let (below, above) = (reached(edit - 1, diagonal - 1), reached(edit - 1, diagonal + 1));
        let adds = diagonal == -width || (diagonal != width && below < above);
        let (from_x, from_diagonal) = if adds { (above, diagonal + 1) } else { (below, diagonal - 1) };
        let from_y = from_x - from_diagonal;
        while x > from_x && y > from_y {
            (x, y) = (x - 1, y - 1);
            lines.extend(line_at(old, x).map(Line::Both));
        }
        match adds {
            true => lines.extend(line_at(new, from_y).map(Line::Added)),
            false => lines.extend(line_at(old, from_x).map(Line::Removed)),
        }
        (x, y) = (from_x, from_y);
    }
    while x > 0 {
        x -= 1;
        lines.extend(line_at(old, x).map(Line::Both));
    }
    lines.reverse();
    lines
}

/// Ranges of lines to show: those that differ, with context.
fn hunks(lines: &[Line<'_>]) -> Vec<std::ops::Range<usize>> {
    let mut hunks: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| !matches!(line, Line::Both(_))) {
        let range = at.saturating_sub(CONTEXT_LINES)..(at + CONTEXT_LINES + 1).min(lines.len());
        match hunks.last_mut() {
            Some(last) if range.start <= last.end => last.end = range.end,
            _ => hunks.push(range),
        }
    }
    hunks
}

/// Number of lines of the old and the new text before a position.
fn lines_before(lines: &[Line<'_>], at: usize) -> (usize, usize) {
    let old = lines[..at].iter().filter(|line| !matches!(line, Line::Added(_))).count();
    let new = lines[..at].iter().filter(|line| !matches!(line, Line::Removed(_))).count();
    (old, new)
}

fn write_unified(lines: &[Line<'_>], hunk: std::ops::Range<usize>, written: &mut Vec<String>) {
    let ((old, new), (old_end, new_end)) = (lines_before(lines, hunk.start), lines_before(lines, hunk.end));
    // An empty range names the preceding line; a range of one line omits its length.
    let range = |begin: usize, end: usize| match end - begin {
        0 => format!("{begin},0"),
        1 => format!("{}", begin + 1),
        count => format!("{},{count}", begin + 1),
    };
    written.push(format!("@@ -{} +{} @@", range(old, old_end), range(new, new_end)));
    written.extend(lines[hunk].iter().map(|line| match line {
        Line::Both(line) => format!(" {line}"),
        Line::Removed(line) => format!("-{line}"),
        Line::Added(line) => format!("+{line}"),
    }));
}

fn write_context(lines: &[Line<'_>], hunk: std::ops::Range<usize>, written: &mut Vec<String>) {
    let ((old, new), (old_end, new_end)) = (lines_before(lines, hunk.start), lines_before(lines, hunk.end));
    let range = |begin: usize, end: usize| match end - begin {
        0 | 1 => format!("{end}"),
        _ => format!("{},{end}", begin + 1),
    };
    let shown = &lines[hunk];
    written.push("***************".to_owned());
    written.push(format!("*** {} ****", range(old, old_end)));
    let is_changed = |at: usize| changes_both(shown, at);
    let mark = |at: usize, alone: char| if is_changed(at) { '!' } else { alone };
    if shown.iter().any(|line| matches!(line, Line::Removed(_))) {
        written.extend(shown.iter().enumerate().filter_map(|(at, line)| match line {
            Line::Both(line) => Some(format!("  {line}")),
            Line::Removed(line) => Some(format!("{} {line}", mark(at, '-'))),
            Line::Added(_) => None,
        }));
    }
    written.push(format!("--- {} ----", range(new, new_end)));
    if shown.iter().any(|line| matches!(line, Line::Added(_))) {
        written.extend(shown.iter().enumerate().filter_map(|(at, line)| match line {
            Line::Both(line) => Some(format!("  {line}")),
            Line::Added(line) => Some(format!("{} {line}", mark(at, '+'))),
            Line::Removed(_) => None,
        }));
    }
}

/// Whether the run of differing lines around a position has both removed and added lines.
fn changes_both(lines: &[Line<'_>], at: usize) -> bool {
    let differs = |line: &Line<'_>| !matches!(line, Line::Both(_));
    let begin = lines[..at].iter().rposition(|line| !differs(line)).map_or(0, |before| before + 1);
    let run = lines[begin..].iter().take_while(|line| differs(line));
    let removed = run.clone().filter(|line| matches!(line, Line::Removed(_))).count();
    removed > 0 && removed < run.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rebuilds both texts from their difference.
    fn rebuild(lines: &[Line<'_>]) -> (Vec<String>, Vec<String>) {
        let old = lines.iter().filter_map(|line| match line {
            Line::Both(line) | Line::Removed(line) => Some((*line).to_owned()),
            Line::Added(_) => None,
        });
        let new = lines.iter().filter_map(|line| match line {
            Line::Both(line) | Line::Added(line) => Some((*line).to_owned()),
            Line::Removed(_) => None,
        });
        (old.collect(), new.collect())
    }

    #[test]
    fn edit_scripts_transform_one_text_into_the_other() {
        // Random texts over few distinct lines, so that many lines of the two texts are equal.
        let mut state = 7_u32;
        let mut draw = |most: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % most
        };
        let letters = ["a", "b", "c", "d"];
        for _ in 0..400 {
            let mut text = || (0..draw(12)).map(|_| letters[draw(4) as usize]).collect::<Vec<_>>();
            let (old, new) = (text(), text());
            let lines = edits(&old, &new);
            let (left, right) = rebuild(&lines);
            assert_eq!((left.as_slice(), right.as_slice()), (&*owned(&old), &*owned(&new)));
            let kept = lines.iter().filter(|line| matches!(line, Line::Both(_))).count();
            assert_eq!(kept, longest_common(&old, &new), "{old:?} {new:?}");
        }
    }

    fn owned(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    fn longest_common(old: &[&str], new: &[&str]) -> usize {
        let mut table = vec![vec![0; new.len() + 1]; old.len() + 1];
        for (i, a) in old.iter().enumerate() {
            for (j, b) in new.iter().enumerate() {
                table[i + 1][j + 1] = if a == b { table[i][j] + 1 } else { table[i][j + 1].max(table[i + 1][j]) };
            }
        }
        table[old.len()][new.len()]
    }

    #[test]
    fn texts_with_too_many_edits_are_replaced_entirely() {
        let (old, new): (Vec<String>, Vec<String>) =
            ((0..1_500).map(|n| format!("a{n}")).collect(), (0..1_500).map(|n| format!("b{n}")).collect());
        let lines = edits(
            &old.iter().map(String::as_str).collect::<Vec<_>>(),
            &new.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        assert_eq!(rebuild(&lines), (old, new));
    }
}
