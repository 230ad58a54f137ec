//! Values at paths of an XML text, for `spath`, `xmlkv` and `xpath`.
//!
//! A path is element names joined by dots, from the root; `{2}` after a name selects the second element of that name,
//! and `{@id}` at the end selects an attribute. The text is read once from front to back and need not be well-formed:
//! an element that is never closed has no value. Not here: namespaces (a prefix is part of the name), entities of a
//! DTD.

use std::borrow::Cow;
use std::collections::BTreeMap;

use quarry_spl::ast::{XPath, XPathStep};

/// Maximum nesting depth; reading ends at the first deeper element.
const NESTING_MAX: usize = 100;
/// Longest entity, `&#x10FFFF;`.
const ENTITY_BYTES_MAX: usize = 10;

/// Whether a text looks like XML rather than JSON.
pub fn is_xml(text: &str) -> bool {
    text.trim_start().starts_with('<')
}

/// The values at `path`, in order.
pub fn xml_get(text: &str, path: &str) -> Vec<Cow<'static, str>> {
    let mut found = Vec::new();
    if let Some(steps) = parse(path) {
        walk(text, &mut |seen| {
            if matches_steps(&steps, seen) {
                found.push(Cow::Owned(seen.value.to_owned()));
            }
        });
    }
    found
}

/// Passes every attribute and leaf element that is not empty to `found`, with its path.
pub fn xml_fields(text: &str, found: &mut dyn FnMut(&str, &str)) {
    let mut path = String::new();
    walk(text, &mut |seen| {
        if !seen.is_leaf || seen.value.is_empty() {
            return;
        }
        path.clear();
        for element in seen.open {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(element.name);
        }
        if let Some(attribute) = seen.attribute {
            path.push_str("{@");
            path.push_str(attribute);
            path.push('}');
        }
        found(&path, seen.value);
    });
}

/// The values selected by an XPath, in the order in which elements end.
pub fn xpath_get(text: &str, path: &XPath) -> Vec<String> {
    // Attributes of the open elements, by the start of the element's content.
    let mut attributes: BTreeMap<usize, Vec<(String, String)>> = BTreeMap::new();
    let mut found = Vec::new();
    walk(text, &mut |seen| {
        let Some(element) = seen.open.last() else { return };
        if let Some(name) = seen.attribute {
            attributes.entry(element.start).or_default().push((name.to_owned(), seen.value.to_owned()));
            return;
        }
        if matches_path(&path.steps, seen.open, &attributes) {
            let own = attributes.get(&element.start).map(Vec::as_slice).unwrap_or_default();
            match &path.attribute {
                Some(name) => found.extend(own.iter().filter(|(known, _)| known == name).map(|(_, v)| v.clone())),
                None => found.push(seen.value.to_owned()),
            }
        }
        attributes.remove(&element.start);
    });
    found
}

/// Whether the steps match the path from the root to the innermost open element.
fn matches_path(
    steps: &[XPathStep],
    open: &[OpenElement<'_>],
    attributes: &BTreeMap<usize, Vec<(String, String)>>,
) -> bool {
    // `reached[n]`: whether the steps so far lead from the root to the n-th open element.
    let mut reached = vec![false; open.len() + 1];
    reached[0] = true;
    for step in steps {
        let mut next = vec![false; open.len() + 1];
        let mut reached_before = false;
        for (at, element) in open.iter().enumerate() {
            reached_before |= reached[at];
            let stands = if step.anywhere { reached_before } else { reached[at] };
            let own = attributes.get(&element.start).map(Vec::as_slice).unwrap_or_default();
            let has = |(name, value): &(String, Option<String>)| {
                own.iter().any(|(known, is)| known == name && value.as_ref().is_none_or(|value| value == is))
            };
            next[at + 1] = stands
                && (step.name == "*" || step.name == element.name)
                && step.position.is_none_or(|position| position == element.position)
                && step.attributes.iter().all(has);
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

/// Passes every leaf element to `found`, with the element's own name.
pub fn xml_leaves(text: &str, found: &mut dyn FnMut(&str, &str)) {
    walk(text, &mut |seen| {
        if let (true, None, Some(element)) = (seen.is_leaf, seen.attribute, seen.open.last()) {
            found(element.name, seen.value);
        }
    });
}

/// Resolves entities.
pub fn unescape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    unescape(text, &mut out);
    out
}

/// One part of a path.
struct Step<'p> {
    name: &'p str,
    /// Number of the element among those of this name, from 1.
    position: Option<u32>,
    attribute: Option<&'p str>,
}

fn parse(path: &str) -> Option<Vec<Step<'_>>> {
    let parts = path.split('.').map(|part| {
        let (name, index) = part.split_once('{').unwrap_or((part, "}"));
        let index = index.strip_suffix('}')?;
        let attribute = index.strip_prefix('@');
        let position = if index.is_empty() || attribute.is_some() { None } else { Some(index.parse().ok()?) };
        (!name.is_empty()).then_some(Step { name, position, attribute })
    });
    parts.collect()
}

fn matches_steps(steps: &[Step<'_>], seen: &XmlNode<'_>) -> bool {
    steps.len() == seen.open.len()
        && steps.last().is_some_and(|step| step.attribute == seen.attribute)
        && steps.iter().zip(seen.open).all(|(step, element)| {
            step.name == element.name && step.position.is_none_or(|position| position == element.position)
        })
}

/// An element whose end tag has not been reached yet.
struct OpenElement<'t> {
    name: &'t str,
    /// Position among the siblings of this name, from 1.
    position: u32,
    /// Start of the content.
    start: usize,
    /// The element's own text so far, with entities resolved.
    text: String,
    has_elements: bool,
    /// Number of child elements so far, by name.
    counts: BTreeMap<&'t str, u32>,
}

/// An attribute or a closed element, while the text is read.
struct XmlNode<'a> {
    /// The enclosing elements and, last, the element itself.
    open: &'a [OpenElement<'a>],
    /// Name of the attribute; `None` for an element.
    attribute: Option<&'a str>,
    /// The value; for an element with child elements, the text as written.
    value: &'a str,
    /// Whether the element has no child elements.
    is_leaf: bool,
}

/// Visits each attribute and each closed element.
fn walk(text: &str, see: &mut dyn FnMut(&XmlNode<'_>)) {
    let mut open: Vec<OpenElement<'_>> = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find('<') {
        let (before, tag) = (&text[at..at + found], &text[at + found..]);
        if let Some(element) = open.last_mut() {
            unescape(before, &mut element.text);
        }
        let Some(length) = tag_length(tag) else { return };
        let start = at + found;
        at = start + length;
        let tag = &tag[..length];
        if let Some(literal) = tag.strip_prefix("<![CDATA[") {
            if let Some(element) = open.last_mut() {
                element.text.push_str(literal.trim_end_matches("]]>"));
            }
        } else if tag.starts_with("<!") || tag.starts_with("<?") {
            continue;
        } else if let Some(name) = tag.strip_prefix("</") {
            let name = name.trim_end_matches('>').trim_end();
            // The end of an enclosing element drops the elements in it that were never closed; they have no value.
            let Some(place) = open.iter().rposition(|element| element.name == name) else { continue };
            open.truncate(place + 1);
            close_tag(&mut open, &text[..start], see);
        } else {
            if open.len() == NESTING_MAX {
                return;
            }
            open_tag(&mut open, tag, at, see);
            if tag.ends_with("/>") {
                close_tag(&mut open, &text[..at], see);
            }
        }
    }
}

/// Bytes up to the end of a tag, comment, CDATA section or processing instruction; `None` if it never ends.
fn tag_length(tag: &str) -> Option<usize> {
    for (start, end) in [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")] {
        if tag.starts_with(start) {
            return tag.find(end).map(|at| at + end.len());
        }
    }
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

fn open_tag<'t>(open: &mut Vec<OpenElement<'t>>, tag: &'t str, start: usize, see: &mut dyn FnMut(&XmlNode<'_>)) {
    let inner = tag.trim_start_matches('<').trim_end_matches('>').trim_end_matches('/');
    let (name, mut rest) = inner.split_at(inner.find(|c: char| c.is_ascii_whitespace()).unwrap_or(inner.len()));
    let position = match open.last_mut() {
        Some(parent) => {
            parent.has_elements = true;
            let count = parent.counts.entry(name).or_default();
            *count += 1;
            *count
        }
        None => 1,
    };
    open.push(OpenElement { name, position, start, text: String::new(), has_elements: false, counts: BTreeMap::new() });
    let mut value = String::new();
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let Some(quote) = after.chars().next().filter(|c| matches!(c, '"' | '\'')) else { return };
        let Some((quoted, more)) = after[1..].split_once(quote) else { return };
        value.clear();
        unescape(quoted, &mut value);
        see(&XmlNode { open, attribute: Some(key.trim()), value: &value, is_leaf: true });
        rest = more;
    }
}

fn close_tag(open: &mut Vec<OpenElement<'_>>, before: &str, see: &mut dyn FnMut(&XmlNode<'_>)) {
    let Some(element) = open.last() else { return };
    let is_leaf = !element.has_elements;
    let value = if is_leaf { element.text.trim() } else { before.get(element.start..).unwrap_or_default().trim() };
    see(&XmlNode { open, attribute: None, value, is_leaf });
    open.pop();
}

/// Appends a text with entities resolved; unknown entities are kept.
fn unescape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('&') {
        out.push_str(plain);
        let end = after.bytes().take(ENTITY_BYTES_MAX).position(|byte| byte == b';');
        let resolved = end.and_then(|end| Some((entity(&after[..end])?, end)));
        match resolved {
            Some((letter, end)) => {
                out.push(letter);
                rest = &after[end + 1..];
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
}

fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &str = "<?xml version=\"1.0\"?><!-- a > b --><order id=\"7\" note='a &gt; b'>\n  \
        <item n=\"1\">pen &amp; ink</item><item n=\"2\"><![CDATA[<ink>]]></item>\n  <to><city>Rome</city></to><empty/>\
        </order>";

    #[test]
    fn paths_find_elements_and_attributes() {
        for (path, wanted) in [
            ("order.item", &["pen & ink", "<ink>"][..]),
            ("order.item{2}", &["<ink>"]),
            ("order.item{@n}", &["1", "2"]),
            ("order{@id}", &["7"]),
            ("order{@note}", &["a > b"]),
            ("order.to", &["<city>Rome</city>"]),
            ("order.to.city", &["Rome"]),
            ("order.empty", &[""]),
            ("order.nosuch", &[]),
            ("item", &[]),
            ("order.", &[]),
            ("order{x", &[]),
        ] {
            assert_eq!(xml_get(ORDER, path), wanted, "{path}");
        }
    }

    #[test]
    fn fields_are_leaves_and_attributes() {
        let mut found = Vec::new();
        xml_fields(ORDER, &mut |path, value| found.push(format!("{path}={value}")));
        let wanted = [
            "order{@id}=7",
            "order{@note}=a > b",
            "order.item{@n}=1",
            "order.item=pen & ink",
            "order.item{@n}=2",
            "order.item=<ink>",
            "order.to.city=Rome",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn malformed_texts_give_their_complete_elements() {
        let deep = "<a>".repeat(100_000);
        for (text, path, wanted) in [
            ("<a><b>1</b><b>2", "a.b", &["1"][..]),
            ("<a><b>1</a>", "a", &["<b>1"]),
            ("<a", "a", &[]),
            ("<a b=\"", "a", &[]),
            ("<a b=é>x</a>", "a", &["x"]),
            ("</a><a>&bogus; &#233; &#xE9; &</a>", "a", &["&bogus; é é &"]),
            ("<>", "", &[]),
            (&deep, "a.a", &[]),
        ] {
            assert_eq!(xml_get(text, path), wanted, "{path}");
        }
    }
}
