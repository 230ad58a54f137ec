//! Remarks about many files. A terminal shows only the first few and the number of others, so that thousands of remarks
//! do not flood the screen; a pipe or file receives all remarks.

use std::io::IsTerminal;

use indicatif::HumanCount;

use crate::bars;
use crate::output::line_folding::prepare_message;

/// Remarks shown on a terminal.
const SHOWN_MAX: usize = 20;

/// Prints or counts remarks.
pub(crate) struct Remarks {
    shown_max: usize,
    printed: usize,
}

impl Default for Remarks {
    fn default() -> Remarks {
        let shown_max = if std::io::stderr().is_terminal() { SHOWN_MAX } else { usize::MAX };
        Remarks { shown_max, printed: 0 }
    }
}

impl Remarks {
    /// Prints or counts a remark.
    pub(crate) fn print(&mut self, line: &str) {
        self.printed += 1;
        if self.printed <= self.shown_max {
            write(line);
        }
    }

    /// Prints the number of remarks that were only counted.
    pub(crate) fn end(&self) {
        if let Some(text) = self.rest() {
            write(&text);
        }
    }

    fn rest(&self) -> Option<String> {
        let rest = self.printed.saturating_sub(self.shown_max);
        let (count, remarks) = (HumanCount(rest as u64), if rest == 1 { "remark" } else { "remarks" });
        (rest > 0).then(|| format!("… and {count} more such {remarks}; `2> FILE` writes all of them to a file"))
    }
}

fn write(line: &str) {
    bars::write_above(format!("{}\n", prepare_message(line)).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_remarks_are_reported_at_the_end() {
        for (told, rest) in
            [(0, None), (2, None), (3, Some("… and 1 more such remark; ")), (1_002, Some("… and 1,000 "))]
        {
            let text = Remarks { shown_max: 2, printed: told }.rest();
            assert_eq!(text.is_some(), rest.is_some(), "{text:?}");
            assert!(text.unwrap_or_default().starts_with(rest.unwrap_or_default()));
        }
    }
}
