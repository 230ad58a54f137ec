//! The rule that code which stores, reads and aggregates events asserts its invariants.

use crate::tidy::product_lines;

/// Directories with a minimum of assertions.
const DIRECTORIES: &[&str] =
    &["crates/bucket/src/", "crates/eval/src/aggregate/", "crates/scan/src/", "crates/store/src/"];
/// Minimum number of assertions in a thousand lines of code.
const PER_THOUSAND_LINES_MIN: usize = 5;

/// Lines of code and assertions of each of the [`DIRECTORIES`].
#[derive(Default)]
pub(crate) struct Assertions {
    counts: [(usize, usize); DIRECTORIES.len()],
}

impl Assertions {
    /// Counts the lines and assertions of a file.
    pub(crate) fn add(&mut self, name: &str, text: &str) {
        let Some(at) = DIRECTORIES.iter().position(|directory| name.starts_with(directory)) else { return };
        if crate::tidy::is_test_file(name) {
            return;
        }
        for line in product_lines(text).into_iter().map(str::trim_start) {
            if !line.is_empty() && !line.starts_with("//") {
                self.counts[at].0 += 1;
                let asserts = ["assert!(", "assert_eq!(", "assert_ne!("].map(|call| line.matches(call).count());
                self.counts[at].1 += asserts.iter().sum::<usize>();
            }
        }
    }

    /// Reports directories with too few assertions.
    pub(crate) fn check(&self, faults: &mut Vec<String>) {
        for (directory, (lines, assertions)) in DIRECTORIES.iter().zip(self.counts) {
            if assertions * 1_000 < lines * PER_THOUSAND_LINES_MIN {
                faults.push(format!(
                    "{directory}: {assertions} assertions in {lines} lines of code, fewer than {PER_THOUSAND_LINES_MIN} \
                     per thousand: assert what is written and what is read"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_are_counted_in_product_code() {
        let mut counted = Assertions::default();
        let body = "    a();\n".repeat(198);
        let text = format!("//! Head.\nfn f() {{\n    debug_assert_eq!(a, b);\n{body}}}\n");
        counted.add("crates/store/src/a.rs", &text);
        counted.add("crates/store/src/tests.rs", &body);
        counted.add("crates/api/src/a.rs", &body);
        assert_eq!(counted.counts[3], (201, 1));
        let mut faults = Vec::new();
        counted.check(&mut faults);
        assert_eq!(faults.len(), 1, "{faults:?}");
        counted.add("crates/store/src/b.rs", "assert!(a);\n#[cfg(test)]\nmod tests {\n    b();\n}\n");
        faults.clear();
        counted.check(&mut faults);
        assert!(faults.is_empty());
    }
}
