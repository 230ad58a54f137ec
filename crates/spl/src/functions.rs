//! Registries of eval and stats functions: names, argument counts and one line of help each.
//!
//! The parser checks calls against these rows, the help pages and completions read them. What a function computes is
//! the engine's.

/// One function as help shows it and the parser checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionHelp {
    /// Name in lower case.
    pub name: &'static str,
    /// Fewest arguments.
    pub args_min: usize,
    /// Most arguments; `None` is any number.
    pub args_max: Option<usize>,
    /// How a call is written.
    pub syntax: &'static str,
    /// What it returns, in one line.
    pub summary: &'static str,
}

/// A row with a fixed range of argument counts.
const fn row(
    name: &'static str,
    args_min: usize,
    args_max: usize,
    syntax: &'static str,
    summary: &'static str,
) -> FunctionHelp {
    FunctionHelp { name, args_min, args_max: Some(args_max), syntax, summary }
}

/// A row without a greatest argument count.
const fn open(name: &'static str, args_min: usize, syntax: &'static str, summary: &'static str) -> FunctionHelp {
    FunctionHelp { name, args_min, args_max: None, syntax, summary }
}

/// Functions of eval, where, fieldformat and `count(eval(...))`, by name.
pub static EVAL_FUNCTIONS: &[FunctionHelp] = &[
    row("abs", 1, 1, "abs(x)", "absolute value"),
    row("acos", 1, 1, "acos(x)", "arc cosine in radians"),
    row("acosh", 1, 1, "acosh(x)", "inverse hyperbolic cosine"),
    row("asin", 1, 1, "asin(x)", "arc sine in radians"),
    row("asinh", 1, 1, "asinh(x)", "inverse hyperbolic sine"),
    row("atan", 1, 1, "atan(x)", "arc tangent in radians"),
    row("atan2", 2, 2, "atan2(y, x)", "angle of the point (x, y) in radians"),
    row("atanh", 1, 1, "atanh(x)", "inverse hyperbolic tangent"),
    open("avg", 1, "avg(x, ...)", "mean of the numeric arguments"),
    open("bit_and", 2, "bit_and(x, y, ...)", "bits that are set in all whole numbers"),
    row("bit_not", 1, 2, "bit_not(x, mask)", "bits turned around, within a mask of 53 bits unless given"),
    open("bit_or", 2, "bit_or(x, y, ...)", "bits that are set in some whole number"),
    row("bit_shift_left", 2, 2, "bit_shift_left(x, places)", "bits moved towards greater numbers"),
    row("bit_shift_right", 2, 2, "bit_shift_right(x, places)", "bits moved towards smaller numbers"),
    open("bit_xor", 2, "bit_xor(x, y, ...)", "bits that are set in an odd count of whole numbers"),
    open("case", 2, "case(condition, value, ...)", "value of the first true condition"),
    row("ceil", 1, 1, "ceil(x)", "smallest whole number not below x"),
    row("ceiling", 1, 1, "ceiling(x)", "smallest whole number not below x"),
    row("cidrmatch", 2, 2, "cidrmatch(\"net\", ip)", "whether an address lies in a network"),
    open("coalesce", 1, "coalesce(x, ...)", "first argument that is not null"),
    row("commands", 1, 1, "commands(search)", "names of the commands in a search text"),
    row("cos", 1, 1, "cos(x)", "cosine of radians"),
    row("cosh", 1, 1, "cosh(x)", "hyperbolic cosine"),
    row("exact", 1, 1, "exact(expression)", "the result with all its digits"),
    row("exp", 1, 1, "exp(x)", "e to the power x"),
    row("false", 0, 0, "false()", "boolean false"),
    row("floor", 1, 1, "floor(x)", "greatest whole number not above x"),
    row("hypot", 2, 2, "hypot(x, y)", "length of the hypotenuse"),
    row("if", 3, 3, "if(condition, yes, no)", "one of two values"),
    open("in", 2, "in(x, value, ...)", "whether x equals one of the values"),
    row("ipmask", 2, 2, "ipmask(\"mask\", ip)", "an address with a mask put over it"),
    row("isarray", 1, 1, "isarray(x)", "whether a value is a JSON array"),
    row("isbool", 1, 1, "isbool(x)", "whether a value is boolean"),
    row("isdouble", 1, 1, "isdouble(x)", "whether a value is a number with a fraction"),
    row("isint", 1, 1, "isint(x)", "whether a value is a whole number"),
    row("ismv", 1, 1, "ismv(x)", "whether a field has several values"),
    row("isnotnull", 1, 1, "isnotnull(x)", "whether a value is present"),
    row("isnull", 1, 1, "isnull(x)", "whether a value is absent"),
    row("isnum", 1, 1, "isnum(x)", "whether a value is a number"),
    row("isobject", 1, 1, "isobject(x)", "whether a value is a JSON object"),
    row("isstr", 1, 1, "isstr(x)", "whether a value is text"),
    row("json", 1, 1, "json(x)", "x if it is JSON, else null"),
    open("json_append", 3, "json_append(json, path, value, ...)", "appends values to arrays inside JSON"),
    open("json_array", 0, "json_array(x, ...)", "a JSON array of the arguments"),
    row("json_array_to_mv", 1, 2, "json_array_to_mv(json, quoted)", "elements of a JSON array as values"),
    open("json_delete", 2, "json_delete(json, path, ...)", "JSON without what paths lead to"),
    row("json_entries", 1, 1, "json_entries(json)", "keys and values of an object as a JSON array"),
    open(
        "json_extend",
        3,
        "json_extend(json, path, value, ...)",
        "appends the elements of arrays to arrays inside JSON",
    ),
    open("json_extract", 1, "json_extract(json, path, ...)", "the value at a path of JSON"),
    open("json_extract_exact", 1, "json_extract_exact(json, key, ...)", "the value of a key of JSON, dots and all"),
    row("json_has_key", 2, 2, "json_has_key(json, path)", "whether a path leads somewhere"),
    row("json_has_key_exact", 2, 2, "json_has_key_exact(json, key)", "whether there is a key, dots and all"),
    row("json_keys", 1, 1, "json_keys(json)", "a JSON array of the keys of an object"),
    open("json_object", 0, "json_object(key, value, ...)", "a JSON object of key-value pairs"),
    open("json_set", 3, "json_set(json, path, value, ...)", "JSON with the value at a path replaced"),
    open(
        "json_set_exact",
        3,
        "json_set_exact(json, key, value, ...)",
        "JSON with the value of a key replaced, dots and all",
    ),
    row("json_valid", 1, 1, "json_valid(x)", "whether a text is valid JSON"),
    row("len", 1, 1, "len(text)", "number of characters"),
    row("like", 2, 2, "like(text, \"pattern\")", "whether text matches a pattern with % and _"),
    row("ln", 1, 1, "ln(x)", "natural logarithm"),
    row("log", 1, 2, "log(x, base)", "logarithm, base 10 by default"),
    row(
        "lookup",
        3,
        3,
        "lookup(\"table\", json_object(\"column\", x, ...), json_array(\"output\", ...))",
        "a JSON object of columns of the first row of a table that matches",
    ),
    row("lower", 1, 1, "lower(text)", "text in lower case"),
    row("ltrim", 1, 2, "ltrim(text, \"characters\")", "text without leading characters"),
    row("match", 2, 2, "match(text, \"regex\")", "whether a regular expression matches somewhere"),
    open("max", 1, "max(x, ...)", "greatest argument; text is above numbers"),
    row("md5", 1, 1, "md5(text)", "MD5 digest in hexadecimal"),
    open("median", 1, "median(x, ...)", "middle of the numeric arguments"),
    open("min", 1, "min(x, ...)", "smallest argument; numbers are below text"),
    open("mode", 1, "mode(x, ...)", "most frequent of the arguments"),
    row("mv_to_json_array", 1, 2, "mv_to_json_array(field, infer)", "values of a field as a JSON array"),
    open("mvappend", 1, "mvappend(x, ...)", "all values of the arguments"),
    row("mvcount", 1, 1, "mvcount(field)", "number of values"),
    row("mvdedup", 1, 1, "mvdedup(field)", "values without repeats"),
    row("mvfilter", 1, 1, "mvfilter(condition)", "values of one field for which a condition holds"),
    row("mvfind", 2, 2, "mvfind(field, \"regex\")", "index of the first value that matches"),
    row("mvindex", 2, 3, "mvindex(field, start, end)", "values from start to end, counted from 0"),
    row("mvjoin", 2, 2, "mvjoin(field, \"delimiter\")", "values joined into one text"),
    row("mvmap", 2, 3, "mvmap(field, expression)", "an expression computed for each value"),
    row("mvrange", 2, 3, "mvrange(start, end, step)", "numbers from start to before end"),
    row("mvreverse", 1, 1, "mvreverse(field)", "values in reverse order"),
    row("mvsort", 1, 1, "mvsort(field)", "values in lexicographic order"),
    row("mvzip", 2, 3, "mvzip(a, b, \"delimiter\")", "values of two fields joined pair by pair"),
    row("now", 0, 0, "now()", "time the search started, in epoch seconds"),
    row("null", 0, 0, "null()", "no value"),
    row("nullif", 2, 2, "nullif(a, b)", "null when both are equal, else the first"),
    row("pi", 0, 0, "pi()", "3.14159..."),
    row("pow", 2, 2, "pow(x, y)", "x to the power y"),
    open("printf", 1, "printf(\"format\", value, ...)", "values written by a format"),
    row("rand", 0, 0, "rand()", "same as random"),
    row("random", 0, 0, "random()", "a whole number from 0 to 2147483647"),
    open("range", 1, "range(x, ...)", "greatest less smallest of the numeric arguments"),
    row("relative_time", 2, 2, "relative_time(time, \"modifier\")", "a time moved by a time modifier"),
    row("replace", 3, 3, "replace(text, \"regex\", \"replacement\")", "text with all matches replaced"),
    row("round", 1, 2, "round(x, digits)", "x rounded to digits after the point"),
    row("rtrim", 1, 2, "rtrim(text, \"characters\")", "text without trailing characters"),
    row("searchmatch", 1, 1, "searchmatch(\"search\")", "whether the event matches a search expression"),
    row("sha1", 1, 1, "sha1(text)", "SHA-1 digest in hexadecimal"),
    row("sha256", 1, 1, "sha256(text)", "SHA-256 digest in hexadecimal"),
    row("sha512", 1, 1, "sha512(text)", "SHA-512 digest in hexadecimal"),
    row("sigfig", 1, 1, "sigfig(x)", "x with as many digits as its inputs justify"),
    row("sin", 1, 1, "sin(x)", "sine of radians"),
    row("sinh", 1, 1, "sinh(x)", "hyperbolic sine"),
    row("spath", 2, 2, "spath(text, \"path\")", "the value at a path of JSON or XML text"),
    row("split", 2, 2, "split(text, \"delimiter\")", "parts of a text as values"),
    row("sqrt", 1, 1, "sqrt(x)", "square root"),
    open("stdev", 1, "stdev(x, ...)", "standard deviation of the arguments as a sample"),
    open("stdevp", 1, "stdevp(x, ...)", "standard deviation of the arguments as a population"),
    row("strftime", 2, 2, "strftime(time, \"format\")", "a time written by a format"),
    row("strptime", 2, 2, "strptime(text, \"format\")", "a time read by a format"),
    row("substr", 2, 3, "substr(text, start, length)", "part of a text, counted from 1"),
    open("sum", 1, "sum(x, ...)", "sum of the numeric arguments"),
    open("sumsq", 1, "sumsq(x, ...)", "sum of the squares of the numeric arguments"),
    row("tan", 1, 1, "tan(x)", "tangent of radians"),
    row("tanh", 1, 1, "tanh(x)", "hyperbolic tangent"),
    row("time", 0, 0, "time()", "wall clock time in epoch seconds"),
    row("toarray", 1, 1, "toarray(x)", "x as a JSON array"),
    row("tobool", 1, 1, "tobool(x)", "x as a condition"),
    row("todouble", 1, 1, "todouble(x)", "x as a number"),
    row("toint", 1, 1, "toint(x)", "x as a whole number not above it"),
    row("tomv", 1, 1, "tomv(x)", "elements of a JSON array as values, anything else as it is"),
    row("tonumber", 1, 2, "tonumber(text, base)", "a text read as a number"),
    row("toobject", 1, 1, "toobject(x)", "x if it is a JSON object, else null"),
    row("tostring", 1, 2, "tostring(x, \"format\")", "a value written as text; hex, commas or duration"),
    row("trim", 1, 2, "trim(text, \"characters\")", "text without leading and trailing characters"),
    row("true", 0, 0, "true()", "boolean true"),
    row("typeof", 1, 1, "typeof(x)", "name of the type of a value"),
    row("upper", 1, 1, "upper(text)", "text in upper case"),
    row("urldecode", 1, 1, "urldecode(text)", "text with %xx escapes resolved"),
    open("validate", 2, "validate(condition, value, ...)", "value of the first false condition"),
    open("var", 1, "var(x, ...)", "variance of the arguments as a sample"),
    open("varp", 1, "varp(x, ...)", "variance of the arguments as a population"),
];

/// Functions of the stats family, by name; `perc`, `p`, `exactperc` and `upperperc` are followed by a number.
pub static STATS_FUNCTIONS: &[FunctionHelp] = &[
    row("avg", 1, 1, "avg(field)", "mean of the numeric values"),
    row("c", 0, 1, "c(field)", "number of rows, or of values"),
    row("count", 0, 1, "count(field)", "number of rows, or of values"),
    row("dc", 1, 1, "dc(field)", "number of distinct values"),
    row("distinct_count", 1, 1, "distinct_count(field)", "number of distinct values"),
    row("earliest", 1, 1, "earliest(field)", "value of the oldest event"),
    row("earliest_time", 1, 1, "earliest_time(field)", "time of the oldest event with a value"),
    row("estdc", 1, 1, "estdc(field)", "estimated number of distinct values"),
    row("estdc_error", 1, 1, "estdc_error(field)", "how far off estdc may be, as a share"),
    row("exactperc", 1, 1, "exactperc<N>(field)", "exact percentile"),
    row("first", 1, 1, "first(field)", "first value seen"),
    row("last", 1, 1, "last(field)", "last value seen"),
    row("latest", 1, 1, "latest(field)", "value of the newest event"),
    row("latest_time", 1, 1, "latest_time(field)", "time of the newest event with a value"),
    row("list", 1, 1, "list(field)", "values in order, the first 100"),
    row("max", 1, 1, "max(field)", "greatest value"),
    row("mean", 1, 1, "mean(field)", "mean of the numeric values"),
    row("median", 1, 1, "median(field)", "middle value"),
    row("min", 1, 1, "min(field)", "smallest value"),
    row("mode", 1, 1, "mode(field)", "most frequent value"),
    row("p", 1, 1, "p<N>(field)", "percentile"),
    row("per_day", 1, 1, "per_day(field)", "sum scaled to a day (timechart)"),
    row("per_hour", 1, 1, "per_hour(field)", "sum scaled to an hour (timechart)"),
    row("per_minute", 1, 1, "per_minute(field)", "sum scaled to a minute (timechart)"),
    row("per_second", 1, 1, "per_second(field)", "sum scaled to a second (timechart)"),
    row("perc", 1, 1, "perc<N>(field)", "percentile"),
    row("range", 1, 1, "range(field)", "greatest less smallest value"),
    row("rate", 1, 1, "rate(field)", "change of a counter per second"),
    row("sparkline", 0, 2, "sparkline(count, span)", "a small chart of an aggregate over time"),
    row("stdev", 1, 1, "stdev(field)", "standard deviation of a sample"),
    row("stdevp", 1, 1, "stdevp(field)", "standard deviation of a population"),
    row("sum", 1, 1, "sum(field)", "sum of the numeric values"),
    row("sumsq", 1, 1, "sumsq(field)", "sum of squares"),
    row("upperperc", 1, 1, "upperperc<N>(field)", "upper estimate of a percentile"),
    row("values", 1, 1, "values(field)", "distinct values in lexicographic order"),
    row("var", 1, 1, "var(field)", "variance of a sample"),
    row("varp", 1, 1, "varp(field)", "variance of a population"),
];

/// The eval function of this lower-case name.
pub fn eval_function(name: &str) -> Option<&'static FunctionHelp> {
    EVAL_FUNCTIONS.binary_search_by_key(&name, |function| function.name).ok().map(|index| &EVAL_FUNCTIONS[index])
}

/// Whether an eval function returns a boolean, which a field cannot hold.
pub fn is_boolean(name: &str) -> bool {
    matches!(
        name,
        "cidrmatch"
            | "in"
            | "isarray"
            | "isbool"
            | "isdouble"
            | "isint"
            | "ismv"
            | "isnotnull"
            | "isnull"
            | "isnum"
            | "isobject"
            | "isstr"
            | "json_has_key"
            | "json_has_key_exact"
            | "json_valid"
            | "like"
            | "match"
            | "searchmatch"
            | "tobool"
            | "true"
            | "false"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_found() {
        for table in [EVAL_FUNCTIONS, STATS_FUNCTIONS] {
            assert!(table.windows(2).all(|pair| pair[0].name < pair[1].name));
            assert!(table.iter().all(|row| row.args_max.is_none_or(|max| row.args_min <= max)));
        }
        assert!(EVAL_FUNCTIONS.iter().all(|row| eval_function(row.name) == Some(row)));
        assert_eq!(eval_function("nope"), None);
    }
}
