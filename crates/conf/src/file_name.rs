//! Validation of user input that becomes a file name: names of lookups, results, programs, apps and users' folders.
//!
//! One rule applies to all these names, so that no name leads out of its folder, is hidden in its folder, or makes the
//! file system fail halfway through an operation. Not here: names of indexes, which follow Splunk's stricter rule.

use quarry_stdx::Fault;

/// Maximum bytes of a name. File systems allow 255, and temporary files derived from the name have longer names.
pub const FILE_NAME_BYTES_MAX: usize = 200;
/// Characters of a refused name shown in its error.
const SHOWN_CHARS: usize = 60;

/// Refuses a text that cannot be the name of a file in a folder; the error states the reason.
pub fn check_file_name(name: &str) -> Result<(), Fault> {
    let reason = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.contains(['/', '\\']) {
        "give a name without a path".to_owned()
    } else if name.starts_with('.') {
        "it begins with a dot, as hidden files do".to_owned()
    } else if name.chars().any(char::is_control) {
        "it contains a control character".to_owned()
    } else if name.len() > FILE_NAME_BYTES_MAX {
        format!("it has {} bytes; the limit is {FILE_NAME_BYTES_MAX}", name.len())
    } else {
        return Ok(());
    };
    Err(Fault::invalid(format!("`{}` cannot be the name of a file: {reason}", display_name(name))))
}

/// A refused name for display: truncated and without control characters.
fn display_name(name: &str) -> String {
    let mut text: String = name.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN_CHARS).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder_and_fit_the_file_system() {
        for good in ["a.csv", "a b.csv", "größe.csv", "-a", "a..csv", &"x".repeat(FILE_NAME_BYTES_MAX)] {
            assert_eq!(check_file_name(good), Ok(()));
        }
        for (bad, reason) in [
            ("", "it is empty"),
            ("../a.csv", "without a path"),
            ("a/b.csv", "without a path"),
            ("a\\b.csv", "without a path"),
            ("..", "hidden"),
            (".a.csv", "hidden"),
            ("a\0.csv", "control character"),
            ("a\n.csv", "control character"),
            (&"é".repeat(101), "it has 202 bytes; the limit is 200"),
        ] {
            let said = check_file_name(bad).unwrap_err().to_string();
            assert!(said.contains(reason) && !said.chars().any(char::is_control), "{said}");
        }
    }
}
