//! Options of a command, read from its syntax line: `[action=rm|tf] [param=N] [mark=]`.

/// An option and the values that it accepts; the list is empty if it accepts any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OptionName<'s> {
    pub(super) name: &'s str,
    pub(super) values: Vec<&'s str>,
}

/// Values of an option whose syntax ends after `=`; most such options are flags.
const FLAGS: [&str; 2] = ["true", "false"];
/// Options without a value in the syntax line that are not flags.
const NOT_FLAGS: [&str; 13] = [
    "bins",
    "default",
    "end",
    "endswith",
    "format",
    "limit",
    "max",
    "maxpause",
    "maxspan",
    "sep",
    "span",
    "start",
    "startswith",
];

/// The options in a syntax line, in order.
pub(super) fn options_of(syntax: &str) -> Vec<OptionName<'_>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut found: Vec<OptionName<'_>> = Vec::new();
    for (at, _) in syntax.match_indices('=') {
        let before = &syntax[..at];
        let start = before.rfind(|c| !is_part(c)).map_or(0, |at| at + 1);
        let name = &before[start..];
        // Placeholders, as in `FIELD=EXPR`, are upper case.
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase()) && !name.contains("NAME");
        if !is_name || found.iter().any(|option| option.name == name) {
            continue;
        }
        let after = &syntax[at + 1..];
        let end = after.find(|c: char| !is_part(c) && c != '|').unwrap_or(after.len());
        let words: Vec<&str> = after[..end].split('|').filter(|word| !word.is_empty()).collect();
        let is_listed = words.len() > 1 && words.iter().all(|word| !word.contains('=') && *word != "N");
        let values = match words.is_empty() {
            true if !NOT_FLAGS.contains(&name) => FLAGS.to_vec(),
            false if is_listed => words,
            _ => Vec::new(),
        };
        found.push(OptionName { name, values });
    }
    found
}

/// Whether a command with this syntax line has an option of this lower-case name.
pub(super) fn has_option(syntax: &str, name: &str) -> bool {
    options_of(syntax).iter().any(|option| option.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::help;

    #[test]
    fn options_are_lower_case_words_before_an_equals_sign() {
        let shown = |syntax| {
            let options = options_of(syntax).into_iter();
            options.map(|option| format!("{}={}", option.name, option.values.join("|"))).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("outlier [action=rm|tf] [param=N] [mark=] [FIELD...]"), "action=rm|tf param= mark=true|false");
        assert_eq!(shown("eval FIELD=EXPR [, FIELD=EXPR]..."), "");
        assert_eq!(shown("bin FIELD [span=|bins=|start=]"), "span= bins= start=");
        assert!(help().iter().all(|row| options_of(&row.syntax).iter().all(|option| !option.name.is_empty())));
    }
}
