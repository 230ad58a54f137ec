//! Functions of eval, where, fieldformat and `count(eval(...))`: one table row for each.
//!
//! Not here: their bodies (`crates/eval/src/functions`).

use super::{Arity, FunctionHelp, at_least, between, exactly};
use ResultType::{Any, Boolean, Number, Text};
use Volatility::{Immutable, Stable, Volatile};

/// A function of eval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvalFunction {
    /// Name, arguments and help line.
    pub help: FunctionHelp,
    /// Dependence of the function's value on anything besides its arguments.
    pub volatility: Volatility,
    /// Type of the function's non-null results.
    pub result: ResultType,
}

/// Dependence of a function's value on anything besides its arguments, in the volatility classes of databases. A
/// result is cached for later searches only if all its functions are immutable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volatility {
    /// Depends on the event and the user's time zone only: the same in every search.
    Immutable,
    /// Depends on the start of the search, or on tables that may change: constant within a search.
    Stable,
    /// Random: different in every call.
    Volatile,
}

/// Type of a function's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// A boolean, which a field cannot hold.
    Boolean,
    /// A number, or a text that preserves the digits of a number; times are seconds since the epoch.
    Number,
    /// A text, or several texts.
    Text,
    /// Depends on the arguments.
    Any,
}

/// A row of the table.
const fn row(
    syntax: &'static str,
    arity: Arity,
    volatility: Volatility,
    result: ResultType,
    summary: &'static str,
) -> EvalFunction {
    EvalFunction { help: FunctionHelp::new(syntax, arity, summary), volatility, result }
}

/// All functions, by name.
pub static EVAL_FUNCTIONS: &[EvalFunction] = &[
    row("abs(x)", exactly(1), Immutable, Number, "absolute value"),
    row("acos(x)", exactly(1), Immutable, Number, "arc cosine in radians"),
    row("acosh(x)", exactly(1), Immutable, Number, "inverse hyperbolic cosine"),
    row("asin(x)", exactly(1), Immutable, Number, "arc sine in radians"),
    row("asinh(x)", exactly(1), Immutable, Number, "inverse hyperbolic sine"),
    row("atan(x)", exactly(1), Immutable, Number, "arc tangent in radians"),
    row("atan2(y, x)", exactly(2), Immutable, Number, "angle of the point (x, y) in radians"),
    row("atanh(x)", exactly(1), Immutable, Number, "inverse hyperbolic tangent"),
    row("avg(x, ...)", at_least(1), Immutable, Number, "mean of the numeric arguments"),
    row("bit_and(x, y, ...)", at_least(2), Immutable, Number, "bitwise AND of integers"),
    row("bit_not(x, mask)", between(1, 2), Immutable, Number, "bitwise NOT within a mask, by default 53 bits"),
    row("bit_or(x, y, ...)", at_least(2), Immutable, Number, "bitwise OR of integers"),
    row("bit_shift_left(x, places)", exactly(2), Immutable, Number, "bitwise left shift"),
    row("bit_shift_right(x, places)", exactly(2), Immutable, Number, "bitwise right shift"),
    row("bit_xor(x, y, ...)", at_least(2), Immutable, Number, "bitwise XOR of integers"),
    row("case(condition, value, ...)", at_least(2), Immutable, Any, "value of the first true condition"),
    row("ceil(x)", exactly(1), Immutable, Number, "smallest integer not below x"),
    row("ceiling(x)", exactly(1), Immutable, Number, "smallest integer not below x"),
    row("cidrmatch(\"net\", ip)", exactly(2), Immutable, Boolean, "whether an address lies in a network"),
    row("coalesce(x, ...)", at_least(1), Immutable, Any, "first argument that is not null"),
    row("commands(search)", exactly(1), Immutable, Text, "names of the commands in a search text"),
    row("cos(x)", exactly(1), Immutable, Number, "cosine of radians"),
    row("cosh(x)", exactly(1), Immutable, Number, "hyperbolic cosine"),
    row("exact(expression)", exactly(1), Immutable, Number, "the result with full precision"),
    row("exp(x)", exactly(1), Immutable, Number, "e to the power x"),
    row("false()", exactly(0), Immutable, Boolean, "boolean false"),
    row("floor(x)", exactly(1), Immutable, Number, "greatest integer not above x"),
    row("hypot(x, y)", exactly(2), Immutable, Number, "length of the hypotenuse"),
    row("if(condition, yes, no)", exactly(3), Immutable, Any, "yes if the condition is true, else no"),
    row("in(x, value, ...)", at_least(2), Immutable, Boolean, "whether x equals one of the values"),
    row("ipmask(\"mask\", ip)", exactly(2), Immutable, Text, "an IP address with a mask applied"),
    row("isarray(x)", exactly(1), Immutable, Boolean, "whether a value is a JSON array"),
    row("isbool(x)", exactly(1), Immutable, Boolean, "whether a value is boolean"),
    row("isdouble(x)", exactly(1), Immutable, Boolean, "whether a value is a number with a fraction"),
    row("isint(x)", exactly(1), Immutable, Boolean, "whether a value is an integer"),
    row("ismv(x)", exactly(1), Immutable, Boolean, "whether a field has several values"),
    row("isnotnull(x)", exactly(1), Immutable, Boolean, "whether a value is present"),
    row("isnull(x)", exactly(1), Immutable, Boolean, "whether a value is absent"),
    row("isnum(x)", exactly(1), Immutable, Boolean, "whether a value is a number"),
    row("isobject(x)", exactly(1), Immutable, Boolean, "whether a value is a JSON object"),
    row("isstr(x)", exactly(1), Immutable, Boolean, "whether a value is text"),
    row("json(x)", exactly(1), Immutable, Text, "x if it is JSON, else null"),
    row("json_append(json, path, value, ...)", at_least(3), Immutable, Text, "appends values to arrays inside JSON"),
    row("json_array(x, ...)", at_least(0), Immutable, Text, "a JSON array of the arguments"),
    row("json_array_to_mv(json, quoted)", between(1, 2), Immutable, Any, "elements of a JSON array as values"),
    row("json_delete(json, path, ...)", at_least(2), Immutable, Text, "JSON without the values at these paths"),
    row("json_entries(json)", exactly(1), Immutable, Text, "keys and values of an object as a JSON array"),
    row(
        "json_extend(json, path, value, ...)",
        at_least(3),
        Immutable,
        Text,
        "appends the elements of arrays to arrays inside JSON",
    ),
    row("json_extract(json, path, ...)", at_least(1), Immutable, Any, "the value at a path of JSON"),
    row(
        "json_extract_exact(json, key, ...)",
        at_least(1),
        Immutable,
        Any,
        "the value of a key of JSON; dots are part of the key",
    ),
    row("json_has_key(json, path)", exactly(2), Immutable, Boolean, "whether JSON has a value at a path"),
    row(
        "json_has_key_exact(json, key)",
        exactly(2),
        Immutable,
        Boolean,
        "whether there is a key; dots are part of the key",
    ),
    row("json_keys(json)", exactly(1), Immutable, Text, "a JSON array of the keys of an object"),
    row("json_object(key, value, ...)", at_least(0), Immutable, Text, "a JSON object of key-value pairs"),
    row("json_set(json, path, value, ...)", at_least(3), Immutable, Text, "JSON with the value at a path replaced"),
    row(
        "json_set_exact(json, key, value, ...)",
        at_least(3),
        Immutable,
        Text,
        "JSON with the value of a key replaced; dots are part of the key",
    ),
    row("json_valid(x)", exactly(1), Immutable, Boolean, "whether a text is valid JSON"),
    row("len(text)", exactly(1), Immutable, Number, "number of characters"),
    row("like(text, \"pattern\")", exactly(2), Immutable, Boolean, "whether text matches a pattern with % and _"),
    row("ln(x)", exactly(1), Immutable, Number, "natural logarithm"),
    row("log(x, base)", between(1, 2), Immutable, Number, "logarithm, base 10 by default"),
    row(
        "lookup(\"table\", json_object(\"column\", x, ...), json_array(\"output\", ...))",
        exactly(3),
        Stable,
        Text,
        "a JSON object of columns of a table, from the first row that matches",
    ),
    row("lower(text)", exactly(1), Immutable, Text, "text in lower case"),
    row("ltrim(text, \"characters\")", between(1, 2), Immutable, Text, "text without leading characters"),
    row("match(text, \"regex\")", exactly(2), Immutable, Boolean, "whether a regular expression matches somewhere"),
    row("max(x, ...)", at_least(1), Immutable, Any, "largest argument; texts are greater than numbers"),
    row("md5(text)", exactly(1), Immutable, Text, "MD5 digest in hexadecimal"),
    row("median(x, ...)", at_least(1), Immutable, Number, "middle of the numeric arguments"),
    row("min(x, ...)", at_least(1), Immutable, Any, "smallest argument; numbers are below text"),
    row("mode(x, ...)", at_least(1), Immutable, Any, "most frequent of the arguments"),
    row("mv_to_json_array(field, infer)", between(1, 2), Immutable, Text, "values of a field as a JSON array"),
    row("mvappend(x, ...)", at_least(1), Immutable, Any, "all values of the arguments"),
    row("mvcount(field)", exactly(1), Immutable, Number, "number of values"),
    row("mvdedup(field)", exactly(1), Immutable, Any, "values without repeats"),
    row("mvfilter(condition)", exactly(1), Immutable, Any, "values of one field for which a condition holds"),
    row("mvfind(field, \"regex\")", exactly(2), Immutable, Number, "index of the first value that matches"),
    row("mvindex(field, start, end)", between(2, 3), Immutable, Any, "values from start to end, counted from 0"),
    row("mvjoin(field, \"delimiter\")", exactly(2), Immutable, Text, "values joined into one text"),
    row("mvmap(field, expression)", between(2, 3), Immutable, Any, "an expression computed for each value"),
    row("mvrange(start, end, step)", between(2, 3), Immutable, Any, "numbers from start (included) to end (excluded)"),
    row("mvreverse(field)", exactly(1), Immutable, Any, "values in reverse order"),
    row("mvsort(field)", exactly(1), Immutable, Any, "values in lexicographic order"),
    row("mvzip(a, b, \"delimiter\")", between(2, 3), Immutable, Text, "values of two fields joined pair by pair"),
    row("now()", exactly(0), Stable, Number, "time the search started, in epoch seconds"),
    row("null()", exactly(0), Immutable, Any, "no value"),
    row("nullif(a, b)", exactly(2), Immutable, Any, "null if a equals b, otherwise a"),
    row("pi()", exactly(0), Immutable, Number, "3.14159..."),
    row("pow(x, y)", exactly(2), Immutable, Number, "x to the power y"),
    row("printf(\"format\", value, ...)", at_least(1), Immutable, Text, "values formatted by a printf pattern"),
    row("rand()", exactly(0), Volatile, Number, "same as random"),
    row("random()", exactly(0), Volatile, Number, "an integer from 0 to 2147483647"),
    row(
        "range(x, ...)",
        at_least(1),
        Immutable,
        Number,
        "difference between the greatest and smallest numeric argument",
    ),
    row("relative_time(time, \"modifier\")", exactly(2), Immutable, Number, "a time adjusted by a time modifier"),
    row("replace(text, \"regex\", \"replacement\")", exactly(3), Immutable, Text, "text with all matches replaced"),
    row("round(x, digits)", between(1, 2), Immutable, Number, "x rounded to a number of decimal places"),
    row("rtrim(text, \"characters\")", between(1, 2), Immutable, Text, "text without trailing characters"),
    row("searchmatch(\"search\")", exactly(1), Immutable, Boolean, "whether the event matches a search expression"),
    row("sha1(text)", exactly(1), Immutable, Text, "SHA-1 digest in hexadecimal"),
    row("sha256(text)", exactly(1), Immutable, Text, "SHA-256 digest in hexadecimal"),
    row("sha512(text)", exactly(1), Immutable, Text, "SHA-512 digest in hexadecimal"),
    row("sigfig(x)", exactly(1), Immutable, Number, "x rounded to the significant digits of its inputs"),
    row("sin(x)", exactly(1), Immutable, Number, "sine of radians"),
    row("sinh(x)", exactly(1), Immutable, Number, "hyperbolic sine"),
    row("spath(text, \"path\")", exactly(2), Immutable, Any, "the value at a path of JSON or XML text"),
    row("split(text, \"delimiter\")", exactly(2), Immutable, Text, "parts of a text as values"),
    row("sqrt(x)", exactly(1), Immutable, Number, "square root"),
    row("stdev(x, ...)", at_least(1), Immutable, Number, "sample standard deviation of the arguments"),
    row("stdevp(x, ...)", at_least(1), Immutable, Number, "population standard deviation of the arguments"),
    row("strftime(time, \"format\")", exactly(2), Immutable, Text, "a time formatted as text"),
    row("strptime(text, \"format\")", exactly(2), Stable, Number, "a time parsed from text"),
    row("substr(text, start, length)", between(2, 3), Immutable, Text, "part of a text, counted from 1"),
    row("sum(x, ...)", at_least(1), Immutable, Number, "sum of the numeric arguments"),
    row("sumsq(x, ...)", at_least(1), Immutable, Number, "sum of the squares of the numeric arguments"),
    row("tan(x)", exactly(1), Immutable, Number, "tangent of radians"),
    row("tanh(x)", exactly(1), Immutable, Number, "hyperbolic tangent"),
    row("time()", exactly(0), Stable, Number, "start of the search in fractional epoch seconds"),
    row("toarray(x)", exactly(1), Immutable, Text, "x as a JSON array"),
    row("tobool(x)", exactly(1), Immutable, Boolean, "x as a condition"),
    row("todouble(x)", exactly(1), Immutable, Number, "x as a number"),
    row("toint(x)", exactly(1), Immutable, Number, "x rounded down to an integer"),
    row("tomv(x)", exactly(1), Immutable, Any, "elements of a JSON array as values, any other value unchanged"),
    row("tonumber(text, base)", between(1, 2), Immutable, Number, "a number parsed from text"),
    row("toobject(x)", exactly(1), Immutable, Text, "x if it is a JSON object, else null"),
    row("tostring(x, \"format\")", between(1, 2), Immutable, Text, "a value as text; formats: hex, commas, duration"),
    row("trim(text, \"characters\")", between(1, 2), Immutable, Text, "text without leading and trailing characters"),
    row("true()", exactly(0), Immutable, Boolean, "boolean true"),
    row("typeof(x)", exactly(1), Immutable, Text, "name of the type of a value"),
    row("upper(text)", exactly(1), Immutable, Text, "text in upper case"),
    row("urldecode(text)", exactly(1), Immutable, Text, "text with %xx escapes decoded"),
    row("validate(condition, value, ...)", at_least(2), Immutable, Any, "value of the first false condition"),
    row("var(x, ...)", at_least(1), Immutable, Number, "sample variance of the arguments"),
    row("varp(x, ...)", at_least(1), Immutable, Number, "population variance of the arguments"),
];

/// The function of this lower-case name.
pub fn eval_function(name: &str) -> Option<&'static EvalFunction> {
    EVAL_FUNCTIONS.binary_search_by_key(&name, |function| function.help.name).ok().map(|at| &EVAL_FUNCTIONS[at])
}
