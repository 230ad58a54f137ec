//! Words of other languages (SQL, the shell, Kusto, programming languages) and their SPL equivalents.
//!
//! Only for hints: the parser does not know these words. Names that exist in SPL are not listed.

use crate::diagnostic::closest_name;

/// A word and its replacement in SPL.
type ForeignWord = (&'static str, &'static str);

/// Words used in place of a command.
const COMMANDS: &[ForeignWord] = &[
    ("aggregate", "write `stats count by FIELD`"),
    ("awk", "write `rex \"(?<field>...)\"` to extract a field, `table FIELD...` to show some"),
    ("cut", "write `rex \"(?<field>...)\"` to extract a field, `table FIELD...` to show some"),
    ("distinct", "write `dedup FIELD`, or `stats count by FIELD`"),
    ("drop", "write `fields - FIELD`"),
    ("extend", "write `eval FIELD=EXPRESSION`"),
    ("filter", "write `where CONDITION`, or `search TERMS`"),
    ("grep", "write `search TERMS`, or `regex \"...\"`"),
    ("group", "write `stats count by FIELD`"),
    ("groupby", "write `stats count by FIELD`"),
    ("having", "write `where CONDITION` after stats"),
    ("jq", "write `spath path=a.b`; fields of JSON events are extracted automatically"),
    ("json", "write `spath`; fields of JSON events are extracted automatically"),
    ("less", "long output is paged; write `head 10` for the first rows"),
    ("limit", "write `head 10`"),
    ("order", "write `sort FIELD`, or `sort -FIELD` for the greatest first"),
    ("orderby", "write `sort FIELD`, or `sort -FIELD` for the greatest first"),
    ("parse", "write `rex \"(?<field>...)\"`"),
    ("project", "write `table FIELD, FIELD`"),
    ("remove", "write `fields - FIELD`"),
    ("sed", "write `rex mode=sed \"s/a/b/\"`"),
    ("select", "write `table FIELD, FIELD`, or `stats` for aggregates"),
    ("show", "write `table FIELD, FIELD`"),
    ("take", "write `head 10`"),
    ("timeslice", "write `bin _time span=5m`, or `timechart span=5m count`"),
    ("unique", "write `dedup FIELD`, or `stats count by FIELD`"),
    ("wc", "write `stats count`"),
];

/// Words used in place of an eval function.
const FUNCTIONS: &[ForeignWord] = &[
    ("char_length", "write len(text)"),
    ("concat", "join texts with `.`"),
    ("contains", "write like(field, \"%text%\")"),
    ("date_format", "write strftime(time, \"%Y-%m-%d\")"),
    ("day", "write strftime(_time, \"%d\")"),
    ("endswith", "write like(field, \"%text\")"),
    ("format", "write printf(\"%d\", x) for numbers, strftime(time, \"...\") for times"),
    ("hour", "write strftime(_time, \"%H\")"),
    ("ifnull", "write coalesce(x, other)"),
    ("iif", "write if(condition, yes, no)"),
    ("indexof", "write match(field, \"regex\"), or mvfind(field, \"regex\") for the values of a field"),
    ("int", "write tonumber(text), or floor(x)"),
    ("isempty", "write isnull(field) OR field=\"\""),
    ("lcase", "write lower(text)"),
    ("length", "write len(text)"),
    ("minute", "write strftime(_time, \"%M\")"),
    ("month", "write strftime(_time, \"%m\")"),
    ("nvl", "write coalesce(x, other)"),
    ("parsefloat", "write tonumber(text)"),
    ("parseint", "write tonumber(text)"),
    ("regex", "write match(field, \"regex\")"),
    ("regexp", "write match(field, \"regex\")"),
    ("rlike", "write match(field, \"regex\")"),
    ("startswith", "write like(field, \"text%\")"),
    ("str", "write tostring(x)"),
    ("strcat", "join texts with `.`"),
    ("strlen", "write len(text)"),
    ("substring", "write substr(text, start, length), counted from 1"),
    ("switch", "write case(condition, value, ...)"),
    ("to_char", "write strftime(time, \"...\")"),
    ("to_date", "write strptime(text, \"...\")"),
    ("todate", "write strptime(text, \"...\")"),
    ("tolower", "write lower(text)"),
    ("toupper", "write upper(text)"),
    ("trunc", "write floor(x)"),
    ("ucase", "write upper(text)"),
    ("unixtime", "write strptime(text, \"...\")"),
    ("year", "write strftime(_time, \"%Y\")"),
];

/// Words used in place of an aggregate.
const AGGREGATES: &[ForeignWord] = &[
    ("and", "separate aggregates by blanks or commas"),
    ("average", "did you mean `avg`?"),
    ("cnt", "did you mean `count`?"),
    ("countd", "write dc(field)"),
    ("count_distinct", "write dc(field)"),
    ("distinct", "write dc(field)"),
    ("for", "write BY before the fields to group by"),
    ("from", "conditions come before stats: `index=main ... | stats count`"),
    ("group", "write BY before the fields to group by"),
    ("having", "write `| where CONDITION` after it"),
    ("if", "write count(eval(CONDITION))"),
    ("maximum", "did you mean `max`?"),
    ("minimum", "did you mean `min`?"),
    ("nunique", "write dc(field)"),
    ("number", "did you mean `count`?"),
    ("order", "write `| sort FIELD` after it"),
    ("over", "OVER belongs to chart; stats has BY"),
    ("per", "write BY before the fields to group by"),
    ("percentile", "write perc95(field)"),
    ("sort", "write `| sort FIELD` after it"),
    ("std", "did you mean `stdev`?"),
    ("stddev", "did you mean `stdev`?"),
    ("total", "did you mean `sum`?"),
    ("uniq", "write dc(field)"),
    ("unique", "write dc(field)"),
    ("variance", "did you mean `var`?"),
    ("where", "write `| where CONDITION` after it, or put the condition before stats"),
];

/// Text mistakenly written after an expression, and its replacement.
const AFTER_EXPRESSIONS: &[ForeignWord] = &[
    ("&&", "write AND"),
    ("||", "write OR"),
    ("&", "write AND for two conditions, bit_and(x, y) for the bits of numbers"),
    ("?", "write if(condition, yes, no)"),
    ("~", "write match(field, \"regex\")"),
    ("^", "write pow(x, y) for powers"),
    ("between", "write field>=LOW AND field<=HIGH"),
    ("contains", "write like(field, \"%text%\")"),
    ("else", "write if(condition, yes, no)"),
    ("endswith", "write like(field, \"%text\")"),
    ("group", "write `| stats count by FIELD` after it"),
    ("is", "write isnull(field) or isnotnull(field)"),
    ("limit", "write `| head 10` after it"),
    ("matches", "write match(field, \"regex\")"),
    ("order", "write `| sort FIELD` after it"),
    ("regexp", "write match(field, \"regex\")"),
    ("rlike", "write match(field, \"regex\")"),
    ("startswith", "write like(field, \"text%\")"),
    ("then", "write if(condition, yes, no)"),
];

fn find(table: &[ForeignWord], word: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, hint)| *hint)
}

/// Hint at the SPL equivalent of a command.
pub(crate) fn command(name: &str) -> Option<&'static str> {
    find(COMMANDS, name)
}

/// Hint at the SPL equivalent of an eval function.
pub(crate) fn function(name: &str) -> Option<&'static str> {
    find(FUNCTIONS, name)
}

/// Hint for the foreign eval function in the table whose name is most similar to `name`.
pub(crate) fn near_function(name: &str) -> Option<&'static str> {
    closest_name(name, FUNCTIONS.iter().map(|(known, _)| *known)).and_then(function)
}

/// Hint for the foreign aggregate in the table whose name is most similar to `name`.
pub(crate) fn near_aggregate(name: &str) -> Option<&'static str> {
    closest_name(name, AGGREGATES.iter().map(|(known, _)| *known)).and_then(aggregate)
}

/// Hint at the SPL equivalent of an aggregate.
pub(crate) fn aggregate(name: &str) -> Option<&'static str> {
    find(AGGREGATES, name)
}

/// Hint at the SPL equivalent of the text after an expression.
pub(crate) fn after_expression(text: &str) -> Option<&'static str> {
    let word = text.split(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let sign =
        AFTER_EXPRESSIONS.iter().find(|(known, _)| !known.starts_with(char::is_alphabetic) && text.starts_with(known));
    sign.map(|(_, hint)| *hint).or_else(|| find(AFTER_EXPRESSIONS, word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::is_command;
    use crate::functions::{eval_function, stats_function};

    #[test]
    fn foreign_words_are_not_spl_words() {
        assert!(COMMANDS.iter().all(|(name, _)| !is_command(name)));
        assert!(FUNCTIONS.iter().all(|(name, _)| eval_function(name).is_none()));
        assert!(AGGREGATES.iter().all(|(name, _)| stats_function(name).is_none()));
    }
}
