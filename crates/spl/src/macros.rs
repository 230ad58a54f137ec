//! Macro expansion: replaces `` `name(arguments)` `` with its definition before a search is parsed.
//!
//! Macros inside quotes and comments are not expanded. Definitions may use macros, up to [`MAX_MACRO_DEPTH`] deep. A
//! [`SpanMap`] maps positions in the expanded text back to the text as written. A [`MacroSource`] finds definitions and
//! evaluates expressions.

use quarry_stdx::Fault;

use crate::ast::Span;
use crate::diagnostic::{Diagnostic, closest_name};
use crate::parse::{COMMENT, MAX_SEARCH_BYTES, quoted_len};

/// Maximum nesting of macros.
pub const MAX_MACRO_DEPTH: usize = 100;
/// Maximum number of missing macros that are reported for one search.
const MISSING_REPORTED_MAX: usize = 100;
/// Maximum number of errors in macros that are reported for one search; the text after the last one is dropped. For
/// each missing macro, all known names are compared for a suggestion, which would take minutes for thousands of errors.
const ERRORS_MAX: usize = 100;
/// Maximum number of macros listed in a suggestion.
const LISTED_MAX: usize = 12;
/// Maximum number of macros of one search that are reported with their expansion.
const EXPANSIONS_REPORTED_MAX: usize = 100;
/// Maximum number of macros in a search, including nested macros: empty macros do not lengthen the text, so a limit on
/// its length is not enough.
pub const MAX_MACROS: usize = 10_000;

/// Characters of an expansion shown before an error in it; a third of the characters shown in total.
const FRAGMENT_CHARS: usize = 30;

/// A macro as defined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Macro {
    /// Names of its arguments.
    pub arguments: Vec<String>,
    /// Its text, with `$argument$` placeholders.
    pub definition: String,
    /// `iseval`: the definition is an expression whose value is the expansion.
    pub is_eval: bool,
    /// Expression over the arguments. The macro is refused if the value is false, or a text, which is the error
    /// message.
    pub validation: Option<String>,
    /// Error message if the validation is false.
    pub error_message: Option<String>,
}

/// Value of an expression without fields.
#[derive(Clone, Debug, PartialEq)]
pub enum MacroValue {
    /// The null value.
    Null,
    /// A condition.
    Bool(bool),
    /// A text or number.
    Text(String),
}

/// Source of macros.
pub trait MacroSource {
    /// The macro of this name with this many arguments.
    fn find(&self, name: &str, arguments: usize) -> Option<Macro>;
    /// Known names, for suggestions.
    fn names(&self) -> Vec<String>;
    /// Computes an expression.
    fn evaluate(&self, expression: &str) -> Result<MacroValue, Fault>;
}

/// A text with its macros expanded.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    /// Text after expansion, ready to be parsed.
    pub text: String,
    /// Maps positions in the expanded text to the text as written.
    pub spans: SpanMap,
    /// Errors, with positions in the text as written.
    pub diagnostics: Vec<Diagnostic>,
    /// Unknown macros, as `name` or `name(2)`; the text contains them as written.
    pub missing: Vec<String>,
    /// Expanded macros as written, with their expansion, without duplicates.
    pub replaced: Vec<(String, String)>,
}

/// Maps positions in the expanded text to positions in the text as written.
#[derive(Clone, Debug, Default)]
pub struct SpanMap {
    pieces: Vec<SpanPiece>,
    /// The expanded text.
    expanded_text: String,
}

#[derive(Clone, Copy, Debug)]
struct SpanPiece {
    /// First byte in the expanded text.
    at: usize,
    /// Its origin in the text as written.
    from: Span,
    /// Whether the text was copied byte for byte.
    verbatim: bool,
}

impl SpanMap {
    /// Excerpt of the expanded text around a position, if it comes from a macro; `None` if the text is as written.
    pub fn fragment(&self, span: Span) -> Option<String> {
        let place = self.pieces.partition_point(|piece| piece.at <= span.start).checked_sub(1)?;
        let piece = self.pieces.get(place).filter(|piece| !piece.verbatim)?;
        let end = self.pieces.get(place + 1).map_or(self.expanded_text.len(), |next| next.at);
        let before = self.expanded_text.get(piece.at..span.start)?;
        let start = before.char_indices().rev().nth(FRAGMENT_CHARS).map_or(piece.at, |(at, _)| piece.at + at);
        let shown = self.expanded_text.get(start..end.max(start))?;
        let text: String = shown.chars().take(3 * FRAGMENT_CHARS).collect();
        let (cut, whole) = (if start > piece.at { "..." } else { "" }, text.len() == shown.len());
        Some(format!("{cut}{}{}", text.trim(), if whole { "" } else { "..." }))
    }

    /// Maps a span of the expanded text to the text as written.
    pub fn original(&self, span: Span) -> Span {
        let piece = |at: usize| {
            let place = self.pieces.partition_point(|piece| piece.at <= at);
            place.checked_sub(1).and_then(|place| self.pieces.get(place))
        };
        let (Some(first), Some(last)) = (piece(span.start), piece(span.end.saturating_sub(1).max(span.start))) else {
            return span;
        };
        let start = if first.verbatim { first.from.start + span.start - first.at } else { first.from.start };
        let end = if last.verbatim { last.from.start + span.end - last.at } else { last.from.end };
        Span { start, end: end.max(start) }
    }
}

/// Expands the macros of a search.
pub fn expand(text: &str, source: &dyn MacroSource) -> Expansion {
    let mut out = Expansion::default();
    if text.len() > MAX_SEARCH_BYTES {
        // The parser reports texts that are too long.
        out.text = text.to_owned();
        return out;
    }
    let mut at = 0;
    let mut uses_left = MAX_MACROS;
    while at < text.len() {
        let next = macro_at(text, at);
        let plain_end = next.map_or(text.len(), |span| span.start);
        if plain_end > at {
            let from = Span { start: at, end: plain_end };
            out.spans.pieces.push(SpanPiece { at: out.text.len(), from, verbatim: true });
            out.text.push_str(&text[at..plain_end]);
        }
        let Some(from) = next else { break };
        let used = &text[from.start + 1..from.end - 1];
        let mut missing = None;
        match expand_macro(used, source, 0, &mut ExpansionState { missing: &mut missing, remaining: &mut uses_left }) {
            Ok(made) => {
                let is_known = out.replaced.iter().any(|(name, _)| name == used);
                if !is_known && out.replaced.len() < EXPANSIONS_REPORTED_MAX {
                    out.replaced.push((used.to_owned(), made.clone()));
                }
                out.spans.pieces.push(SpanPiece { at: out.text.len(), from, verbatim: false });
                out.text.push_str(&made);
            }
            Err(fault) => {
                let mut remark = Diagnostic::error(fault.to_string(), from);
                remark.hint = missing.as_ref().and_then(|name| suggest_macro(name, source));
                out.diagnostics.push(remark);
                if let Some(missing) = missing
                    && !out.missing.contains(&missing)
                    && out.missing.len() < MISSING_REPORTED_MAX
                {
                    out.missing.push(missing);
                }
                out.spans.pieces.push(SpanPiece { at: out.text.len(), from, verbatim: true });
                out.text.push_str(&text[from.start..from.end]);
            }
        }
        if out.text.len() > MAX_SEARCH_BYTES {
            let message = format!("with its macros the search is longer than the limit of {MAX_SEARCH_BYTES} bytes");
            out.diagnostics.push(Diagnostic::error(message, from));
            break;
        }
        if out.diagnostics.len() >= ERRORS_MAX {
            break;
        }
        at = from.end;
    }
    out.spans.expanded_text.clone_from(&out.text);
    out
}

fn suggest_macro(missing: &str, source: &dyn MacroSource) -> Option<String> {
    let names = source.names();
    let bare = |name: &str| name.split('(').next().unwrap_or_default().to_owned();
    let same = names.iter().find(|name| bare(name) == bare(missing));
    if let Some(same) = same {
        return Some(format!("`{same}` takes a different number of arguments"));
    }
    let near = closest_name(&bare(missing), names.iter().map(|name| name.split('(').next().unwrap_or_default()));
    near.map(|near| format!("did you mean `{near}`?")).or_else(|| list_names(&names))
}

/// Lists the known macros, or the first of them if there are many.
fn list_names(names: &[String]) -> Option<String> {
    let shown = names.iter().take(LISTED_MAX).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED_MAX) {
        0 if names.is_empty() => None,
        0 => Some(format!("known macros: {shown}")),
        rest => Some(format!("known macros: {shown} and {rest} more")),
    }
}

/// Position of the next macro from `at` on, including backticks.
fn macro_at(text: &str, mut at: usize) -> Option<Span> {
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        at += match next {
            '"' => quoted_len(rest).unwrap_or(rest.len()),
            '\\' => 1 + rest[1..].chars().next().filter(|c| matches!(c, '"' | '\\' | '`')).map_or(0, char::len_utf8),
            '`' if rest.starts_with(COMMENT) => {
                let close = rest[COMMENT.len()..].find(COMMENT);
                close.map_or(rest.len(), |end| end + 2 * COMMENT.len())
            }
            '`' => {
                // The parser reports a macro without a closing backtick.
                let end = at + 2 + rest[1..].find('`')?;
                return Some(Span { start: at, end });
            }
            _ => next.len_utf8(),
        };
    }
    None
}

/// State of macro expansion.
struct ExpansionState<'a> {
    /// The first unknown macro.
    missing: &'a mut Option<String>,
    /// Number of macros that may still be expanded.
    remaining: &'a mut usize,
}

/// Returns the expansion of a macro. An unknown macro, including one in the definition, is recorded in `uses`.
fn expand_macro(
    used: &str,
    source: &dyn MacroSource,
    depth: usize,
    uses: &mut ExpansionState<'_>,
) -> Result<String, Fault> {
    if depth >= MAX_MACRO_DEPTH {
        return Err(Fault::invalid(format!("macros are nested deeper than the limit of {MAX_MACRO_DEPTH}")));
    }
    let Some(left) = uses.remaining.checked_sub(1) else {
        return Err(Fault::invalid(format!("the search uses more than the limit of {MAX_MACROS} macros")));
    };
    *uses.remaining = left;
    let (name, given) = name_and_arguments(used)?;
    let Some(found) = source.find(name, given.len()) else {
        let shown = if given.is_empty() { name.to_owned() } else { format!("{name}({})", given.len()) };
        let message = Fault::not_found(format!("there is no macro `{shown}`"));
        *uses.missing = Some(shown);
        return Err(message);
    };
    let values = named_arguments(&found, given);
    let fill = |text: &str| {
        values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}$"), value))
    };
    if let Some(validation) = &found.validation {
        validate(name, &validation_of(validation, &values), &found, source)?;
    }
    let mut definition = fill(&found.definition);
    if found.is_eval {
        definition =
            match source.evaluate(&definition).map_err(|fault| fault.with_context(format_args!("macro `{name}`")))? {
                MacroValue::Text(text) => text,
                MacroValue::Null | MacroValue::Bool(_) => {
                    return Err(Fault::invalid(format!("macro `{name}`: its expression returns no text")));
                }
            };
    }
    expand_nested(&definition, source, depth, uses)
}

/// Expands the macros that a definition uses.
fn expand_nested(
    definition: &str,
    source: &dyn MacroSource,
    depth: usize,
    uses: &mut ExpansionState<'_>,
) -> Result<String, Fault> {
    let mut out = String::with_capacity(definition.len());
    let mut at = 0;
    while let Some(span) = macro_at(definition, at) {
        out.push_str(&definition[at..span.start]);
        out.push_str(&expand_macro(&definition[span.start + 1..span.end - 1], source, depth + 1, uses)?);
        if out.len() > MAX_SEARCH_BYTES {
            return Err(Fault::invalid(format!("a macro expands to more than the limit of {MAX_SEARCH_BYTES} bytes")));
        }
        at = span.end;
    }
    out.push_str(&definition[at..]);
    Ok(out)
}

/// Fills the arguments into the validation of a macro. As in the definition, `$name$` is replaced by the argument's
/// text. A bare `name`, which would be a field of the expression, is replaced by the argument as a value.
fn validation_of(text: &str, values: &[(String, String)]) -> String {
    let value_of = |name: &str| values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (length, replaced) = match next {
            '"' => {
                let length = quoted_len(rest).unwrap_or(1);
                let fill = |text: String, (name, value): &(String, String)| text.replace(&format!("${name}$"), value);
                (length, Some(values.iter().fold(rest[..length].to_owned(), fill)))
            }
            '$' => {
                let name = rest[1..].split_once('$').map_or("", |(name, _)| name);
                match value_of(name) {
                    Some(value) => (name.len() + 2, Some(value.to_owned())),
                    None => (1, None),
                }
            }
            '\'' => match rest[1..].split_once('\'') {
                Some((name, _)) => (name.len() + 2, value_of(name).map(literal)),
                None => (1, None),
            },
            _ if next.is_alphanumeric() || next == '_' => {
                let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '.');
                let length = rest.find(|char| !is_part(char)).unwrap_or(rest.len());
                let is_call = rest[length..].trim_start().starts_with('(');
                (length, value_of(&rest[..length]).filter(|_| !is_call).map(literal))
            }
            _ => (next.len_utf8(), None),
        };
        out.push_str(replaced.as_deref().unwrap_or(&rest[..length]));
        rest = &rest[length..];
    }
    out
}

/// An argument as a value of an expression.
fn literal(value: &str) -> String {
    match value.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => format!("({})", value.trim()),
        _ => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

fn validate(name: &str, expression: &str, found: &Macro, source: &dyn MacroSource) -> Result<(), Fault> {
    match source.evaluate(expression).map_err(|fault| fault.with_context(format_args!("macro `{name}`, validation")))? {
        MacroValue::Null | MacroValue::Bool(true) => Ok(()),
        MacroValue::Text(text) => Err(Fault::invalid(format!("macro `{name}`: {text}"))),
        MacroValue::Bool(false) => {
            let text = found.error_message.as_deref().unwrap_or("its arguments are not valid");
            Err(Fault::invalid(format!("macro `{name}`: {text}")))
        }
    }
}

/// Pairs the arguments with their names; a call gives them in order or all as `name=value`.
fn named_arguments(found: &Macro, given: Vec<String>) -> Vec<(String, String)> {
    let by_name = |value: &String| {
        let (name, value) = value.split_once('=')?;
        let name = found.arguments.iter().find(|known| known.as_str() == name.trim())?;
        Some((name.clone(), unquote(value.trim()).to_owned()))
    };
    let named: Option<Vec<_>> = given.iter().map(by_name).collect();
    match named {
        Some(named) if !named.is_empty() => named,
        _ => {
            let values = given.iter().map(|value| unquote(value).to_owned());
            found.arguments.iter().cloned().zip(values).collect()
        }
    }
}

fn unquote(text: &str) -> &str {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.filter(|_| quoted_len(text) == Some(text.len())).unwrap_or(text)
}

/// Parses `name` or `name(a, "b, c", d)`.
fn name_and_arguments(used: &str) -> Result<(&str, Vec<String>), Fault> {
    let used = used.trim();
    let Some((name, rest)) = used.split_once('(') else { return Ok((used, Vec::new())) };
    let Some(list) = rest.trim_end().strip_suffix(')') else {
        return Err(Fault::invalid(format!("macro `{}`: its parenthesis is never closed", name.trim())));
    };
    let mut arguments = vec![String::new()];
    let (mut at, mut open) = (0, 0usize);
    while let Some(next) = list[at..].chars().next() {
        let length = match next {
            '"' => quoted_len(&list[at..]).unwrap_or(1),
            _ => next.len_utf8(),
        };
        match next {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        if next == ',' && open == 0 {
            arguments.push(String::new());
        } else if let Some(last) = arguments.last_mut() {
            last.push_str(&list[at..at + length]);
        }
        at += length;
    }
    let mut arguments: Vec<String> = arguments.iter().map(|text| text.trim().to_owned()).collect();
    if arguments.len() == 1 && arguments[0].is_empty() {
        arguments.clear();
    }
    Ok((name.trim(), arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known;

    impl MacroSource for Known {
        fn find(&self, name: &str, arguments: usize) -> Option<Macro> {
            let plain = |definition: &str| Macro { definition: definition.to_owned(), ..Macro::default() };
            match (name, arguments) {
                ("web", 0) => Some(plain("sourcetype=access status>=400")),
                ("twice", 0) => Some(plain("(`web`) OR (`web`)")),
                // Each macro uses the next one twice: a short text with 2^60 uses.
                ("fan0", 0) => Some(plain("")),
                (fan, 0) if fan.starts_with("fan") => {
                    let next = fan[3..].parse::<usize>().unwrap_or(1) - 1;
                    Some(plain(&format!("`fan{next}``fan{next}`")))
                }
                ("circle", 0) => Some(plain("x `circle`")),
                ("drop", 1) => Some(Macro { arguments: vec!["o".into()], ..plain("rename \"$o$.*\" AS *") }),
                ("pair", 2) => Some(Macro { arguments: vec!["a".into(), "b".into()], ..plain("$a$=$b$") }),
                ("checked", 1) => Some(Macro {
                    arguments: vec!["n".into()],
                    validation: Some("$n$".into()),
                    error_message: Some("n must be true".into()),
                    ..plain("head $n$")
                }),
                _ => None,
            }
        }

        fn names(&self) -> Vec<String> {
            ["web", "twice", "drop(1)", "pair(2)"].map(str::to_owned).to_vec()
        }

        fn evaluate(&self, expression: &str) -> Result<MacroValue, Fault> {
            Ok(MacroValue::Bool(expression == "true"))
        }
    }

    #[test]
    fn macros_are_replaced_outside_of_quotes_and_comments() {
        for (text, wanted) in [
            ("`web` | head", "sourcetype=access status>=400 | head"),
            ("a \"`web`\" ```no `web` here``` b", "a \"`web`\" ```no `web` here``` b"),
            ("`twice`", "(sourcetype=access status>=400) OR (sourcetype=access status>=400)"),
            ("x | `drop(\"All Changes\")`", "x | rename \"All Changes.*\" AS *"),
            ("`pair(x, \"a, b\")`", "x=a, b"),
            ("`pair(b=1, a=2)`", "2=1"),
            ("`pair(f(1,2), g)`", "f(1,2)=g"),
            ("`checked(true)`", "head true"),
        ] {
            let made = expand(text, &Known);
            assert_eq!((made.text.as_str(), made.diagnostics.len()), (wanted, 0), "{text}: {:?}", made.diagnostics);
        }
    }

    #[test]
    fn arguments_are_fields_of_the_validation() {
        let values = [("value", "34"), ("limit", "1\"2"), ("low", "-5")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (text, wanted) in [
            ("value < limit", r#"(34) < "1\"2""#),
            ("value>low AND 'value'!=0", "(34)>(-5) AND (34)!=0"),
            ("isnum($value$) OR value2=1", "isnum(34) OR value2=1"),
            (r#"match("$value$ value", "x")"#, r#"match("34 value", "x")"#),
            ("value(1) + $other$ + a.value", "value(1) + $other$ + a.value"),
        ] {
            assert_eq!(validation_of(text, &values), wanted, "{text}");
        }
    }

    #[test]
    fn faults_are_reported_at_the_macro() {
        for (text, message, hint) in [
            ("a `wbe` b", "there is no macro `wbe`", Some("did you mean `web`?")),
            ("a `drop` b", "there is no macro `drop`", Some("`drop(1)` takes a different number of arguments")),
            ("a `weekly` b", "there is no macro `weekly`", Some("known macros: `web`, `twice`, `drop(1)`, `pair(2)`")),
            ("a `circle` b", "macros are nested deeper than the limit of 100", None),
            ("a `fan60` b", "the search uses more than the limit of 10000 macros", None),
            ("a `checked(no)` b", "macro `checked`: n must be true", None),
            ("a `web(` b", "macro `web`: its parenthesis is never closed", None),
        ] {
            let made = expand(text, &Known);
            let [remark] = made.diagnostics.as_slice() else { panic!("{text}: {:?}", made.diagnostics) };
            assert_eq!((remark.message.as_str(), remark.hint.as_deref()), (message, hint));
            assert_eq!(&text[remark.span.start..remark.span.start + 1], "`");
            assert_eq!(made.text, text);
        }
    }

    #[test]
    fn texts_full_of_errors_are_read_up_to_a_limit() {
        let made = expand(&"`wbe` ".repeat(50_000), &Known);
        assert_eq!((made.diagnostics.len(), made.missing.len()), (ERRORS_MAX, 1));
    }

    #[test]
    fn spans_map_back_to_the_original_text() {
        let text = "`web` | foo `pair(a,b)` x";
        let made = expand(text, &Known);
        let place = |part: &str| {
            let start = made.text.find(part).unwrap();
            let span = made.spans.original(Span { start, end: start + part.len() });
            &text[span.start..span.end]
        };
        assert_eq!(place("foo"), "foo");
        assert_eq!(place("status>="), "`web`");
        assert_eq!(place("a=b"), "`pair(a,b)`");
        assert_eq!(place("foo a"), "foo `pair(a,b)`");
        assert_eq!(place(" x"), " x");
    }
}
