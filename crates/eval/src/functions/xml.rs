//! Values at paths of an XML text, for `spath`, `xmlkv`, `xpath` and `KV_MODE=xml`.
//!
//! A path is element names joined by dots, from the root; `{2}` after a name selects the second element of that name,
//! and `{@id}` at the end selects an attribute, even after a position: `order.item{2}{@id}`. The text is read once from
//! front to back and need not be well-formed: an element that is never closed has no value. The reader
//! ([`for_each_node`]) passes values as written; their entities are resolved when they are requested. Not here:
//! namespaces (a prefix is part of the name), entities of a DTD.

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
pub fn xml_get<'t>(text: &'t str, path: &str) -> Vec<Cow<'t, str>> {
    XmlPath::parse(path).map(|path| path.values(text)).unwrap_or_default()
}

/// Passes every attribute and leaf element that is not empty to `found`, with its path.
pub fn xml_fields(text: &str, found: &mut dyn FnMut(&str, &str)) {
    let mut path = String::new();
    for_each_node(text, false, &mut |node| {
        let value = if node.is_leaf() { node.value() } else { return };
        if !value.is_empty() {
            node.write_path(&mut path);
            found(&path, &value);
        }
    });
}

/// The values selected by an XPath, in the order in which elements end.
pub fn xpath_get(text: &str, path: &XPath) -> Vec<String> {
    // Attributes of the open elements, by the start of the element's content.
    let mut attributes: BTreeMap<usize, Vec<(String, String)>> = BTreeMap::new();
    let mut found = Vec::new();
    for_each_node(text, true, &mut |node| {
        let Some(element) = node.open.last() else { return };
        if let Some(name) = node.attribute {
            attributes.entry(element.start).or_default().push((name.to_owned(), node.value().into_owned()));
            return;
        }
        if matches_path(&path.steps, node.open, &attributes) {
            let own = attributes.get(&element.start).map(Vec::as_slice).unwrap_or_default();
            match &path.attribute {
                Some(name) => found.extend(own.iter().filter(|(known, _)| known == name).map(|(_, v)| v.clone())),
                None => found.push(node.value().into_owned()),
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
    for_each_node(text, false, &mut |node| {
        if let Some(name) = node.leaf_name() {
            found(name, &node.value());
        }
    });
}

/// Resolves entities.
pub fn unescape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    unescape(text, &mut out);
    out
}

/// A path that selects elements or attributes.
#[derive(Clone, Debug)]
pub struct XmlPath {
    steps: Vec<Step>,
}

/// One part of a path.
#[derive(Clone, Debug)]
struct Step {
    name: String,
    /// Number of the element among those of this name, from 1.
    position: Option<u32>,
    attribute: Option<String>,
}

impl Step {
    /// Parses `name`, `name{2}`, `name{@id}` or `name{2}{@id}`; `name{}` is the same as `name`.
    fn parse(part: &str) -> Option<Step> {
        let (name, selectors) = part.split_once('{').unwrap_or((part, "}"));
        let selectors = selectors.strip_suffix('}')?;
        let (index, attribute) = match selectors.split_once("}{@") {
            Some((index, attribute)) => (index, Some(attribute)),
            None => selectors.strip_prefix('@').map_or((selectors, None), |attribute| ("", Some(attribute))),
        };
        let position = if index.is_empty() { None } else { Some(index.parse().ok()?) };
        let attribute = attribute.map(str::to_owned);
        (!name.is_empty()).then(|| Step { name: name.to_owned(), position, attribute })
    }
}

impl XmlPath {
    /// Parses a path; `None` if it selects nothing in any text.
    pub fn parse(path: &str) -> Option<XmlPath> {
        let steps = path.split('.').map(Step::parse).collect::<Option<Vec<Step>>>()?;
        let (_, enclosing) = steps.split_last()?;
        // An attribute contains no elements.
        enclosing.iter().all(|step| step.attribute.is_none()).then_some(XmlPath { steps })
    }

    /// The values at the path, in order.
    pub fn values<'t>(&self, text: &'t str) -> Vec<Cow<'t, str>> {
        let mut found = Vec::new();
        for_each_node(text, self.has_positions(), &mut |node| {
            if self.selects(node) {
                found.push(node.value());
            }
        });
        found
    }

    /// Whether the path selects elements by their positions.
    pub fn has_positions(&self) -> bool {
        self.steps.iter().any(|step| step.position.is_some())
    }

    /// Whether the path selects this node.
    pub fn selects(&self, node: &XmlNode<'_, '_>) -> bool {
        self.steps.len() == node.open.len()
            && self.steps.last().is_some_and(|step| step.attribute.as_deref() == node.attribute)
            && self.steps.iter().zip(node.open).all(|(step, element)| {
                step.name == element.name && step.position.is_none_or(|position| position == element.position)
            })
    }
}

/// An element whose end tag has not been reached yet.
struct OpenElement<'t> {
    name: &'t str,
    /// Position among the siblings of this name, from 1; 0 if positions are not counted.
    position: u32,
    /// Start of the content.
    start: usize,
    has_elements: bool,
    /// Number of child elements so far, by name.
    counts: BTreeMap<&'t str, u32>,
}

/// An attribute or a closed element, while a text is read.
pub struct XmlNode<'a, 't> {
    /// The enclosing elements and, last, the element itself.
    open: &'a [OpenElement<'t>],
    /// Name of the attribute; `None` for an element.
    attribute: Option<&'t str>,
    /// The text between the quotes of the attribute, or between the tags of the element.
    written: &'t str,
}

impl<'t> XmlNode<'_, 't> {
    /// The value: of an attribute, its text; of an element without child elements, its trimmed text; of another
    /// element, the trimmed text as written.
    pub fn value(&self) -> Cow<'t, str> {
        match (self.attribute, self.is_leaf()) {
            (Some(_), _) => attribute_value(self.written),
            (None, true) => content_value(self.written),
            (None, false) => Cow::Borrowed(self.written.trim()),
        }
    }

    /// The text from which the value is computed, a slice of the text that is read.
    pub fn written(&self) -> &'t str {
        self.written
    }

    /// Whether the node is an attribute.
    pub fn is_attribute(&self) -> bool {
        self.attribute.is_some()
    }

    /// Whether the node is an attribute or an element without child elements.
    pub fn is_leaf(&self) -> bool {
        self.attribute.is_some() || self.open.last().is_none_or(|element| !element.has_elements)
    }

    /// Name of an element without child elements; `None` for other nodes.
    pub fn leaf_name(&self) -> Option<&'t str> {
        let element = self.open.last().filter(|element| self.attribute.is_none() && !element.has_elements)?;
        Some(element.name)
    }

    /// Replaces `path` with the names of the enclosing elements, joined by dots.
    pub fn write_path(&self, path: &mut String) {
        path.clear();
        for element in self.open {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(element.name);
        }
        if let Some(attribute) = self.attribute {
            path.push_str("{@");
            path.push_str(attribute);
            path.push('}');
        }
    }
}

/// Passes each attribute and each closed element to `see`. Positions of elements are counted only if `positions` is true.
pub fn for_each_node<'t>(text: &'t str, positions: bool, see: &mut dyn FnMut(&XmlNode<'_, 't>)) {
    let mut open: Vec<OpenElement<'t>> = Vec::new();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'<', &text.as_bytes()[at..]) {
        let start = at + found;
        let Some(length) = tag_length(&text[start..]) else { return };
        at = start + length;
        let tag = &text[start..at];
        if tag.starts_with("<!") || tag.starts_with("<?") {
            continue;
        }
        if let Some(name) = tag.strip_prefix("</") {
            let name = name.trim_end_matches('>').trim_end();
            // The end of an enclosing element drops the elements in it that were never closed; they have no value.
            let Some(innermost) = open.iter().rposition(|element| element.name == name) else { continue };
            open.truncate(innermost + 1);
            close_tag(&mut open, text, start, see);
        } else {
            if open.len() == NESTING_MAX {
                return;
            }
            open_tag(&mut open, tag, at, positions, see);
            if tag.ends_with("/>") {
                close_tag(&mut open, text, at, see);
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
    let bytes = tag.as_bytes();
    let mut at = 0;
    loop {
        at += memchr::memchr3(b'>', b'"', b'\'', &bytes[at..])?;
        if bytes[at] == b'>' {
            return Some(at + 1);
        }
        at += 2 + memchr::memchr(bytes[at], &bytes[at + 1..])?;
    }
}

fn open_tag<'t>(
    open: &mut Vec<OpenElement<'t>>,
    tag: &'t str,
    start: usize,
    positions: bool,
    see: &mut dyn FnMut(&XmlNode<'_, 't>),
) {
    let inner = tag.trim_start_matches('<').trim_end_matches('>').trim_end_matches('/');
    let name_end = inner.bytes().position(|byte| byte.is_ascii_whitespace()).unwrap_or(inner.len());
    let (name, mut rest) = inner.split_at(name_end);
    let position = match open.last_mut() {
        Some(parent) => {
            parent.has_elements = true;
            if positions {
                let count = parent.counts.entry(name).or_default();
                *count += 1;
                *count
            } else {
                0
            }
        }
        None => 1,
    };
    open.push(OpenElement { name, position, start, has_elements: false, counts: BTreeMap::new() });
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let Some(quote) = after.chars().next().filter(|c| matches!(c, '"' | '\'')) else { return };
        let Some((quoted, more)) = after[1..].split_once(quote) else { return };
        see(&XmlNode { open, attribute: Some(key.trim()), written: quoted });
        rest = more;
    }
}

fn close_tag<'t>(open: &mut Vec<OpenElement<'t>>, text: &'t str, end: usize, see: &mut dyn FnMut(&XmlNode<'_, 't>)) {
    let Some(element) = open.last() else { return };
    let written = text.get(element.start..end).unwrap_or_default();
    see(&XmlNode { open, attribute: None, written });
    open.pop();
}

/// The value of an attribute, given the text between its quotes.
pub fn attribute_value(written: &str) -> Cow<'_, str> {
    match memchr::memchr(b'&', written.as_bytes()) {
        None => Cow::Borrowed(written),
        Some(_) => Cow::Owned(unescape_xml(written)),
    }
}

/// The value of an element without child elements, given the text between its tags.
pub fn content_value(written: &str) -> Cow<'_, str> {
    if memchr::memchr2(b'<', b'&', written.as_bytes()).is_none() {
        return Cow::Borrowed(written.trim());
    }
    let (mut text, mut rest) = (String::with_capacity(written.len()), written);
    while let Some(found) = rest.find('<') {
        unescape(&rest[..found], &mut text);
        let tag = &rest[found..];
        // Tags that never end are not in the content of an element that ends.
        let length = tag_length(tag).unwrap_or(tag.len());
        if let Some(literal) = tag[..length].strip_prefix("<![CDATA[") {
            text.push_str(literal.trim_end_matches("]]>"));
        } else if tag.starts_with("</") {
            // The end of an element that was never opened is text, so that the value is a part of the event's text.
            text.push_str(&tag[..length]);
        }
        rest = &tag[length..];
    }
    unescape(rest, &mut text);
    match text.trim() {
        trimmed if trimmed.len() == text.len() => Cow::Owned(text),
        trimmed => Cow::Owned(trimmed.to_owned()),
    }
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
            let (digits, base) = number.strip_prefix('x').map_or((number, 10), |hex| (hex, 16));
            // Unlike numbers in Rust, those of XML have no sign.
            let is_number = digits.chars().all(|digit| digit.is_digit(base));
            u32::from_str_radix(digits, base).ok().filter(|_| is_number).and_then(char::from_u32)
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
            ("order.item{2}{@n}", &["2"]),
            ("order{@id}.item", &[]),
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
            ("<a>&#+65; &#x+41; &#; &#x;</a>", "a", &["&#+65; &#x+41; &#; &#x;"]),
            ("<>", "", &[]),
            (&deep, "a.a", &[]),
        ] {
            assert_eq!(xml_get(text, path), wanted, "{path}");
        }
    }
}
