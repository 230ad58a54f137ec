//! Checks that dashboards (views) and other files of the user interface are well-formed XML.
//!
//! A document is one element with attributes, texts, comments, CDATA sections and processing instructions. The only
//! entities are the predefined ones and character references. A document type declaration is skipped, but a declaration
//! with an internal subset is refused.
//!
//! Not here: the elements that a view may contain.

use quick_xml::Reader;
use quick_xml::errors::{IllFormedError, SyntaxError};
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::attributes::{AttrError, Attribute};
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::ObjectError;

/// Maximum nesting depth of elements.
const DEPTH_MAX: usize = 256;

/// Name, attributes and some texts of the outermost element of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootElement {
    /// Name of the element.
    pub name: String,
    /// Attributes of the element.
    pub attributes: Vec<(String, String)>,
    /// The texts of the element's children `label` and `description`.
    pub texts: Vec<(String, String)>,
}

impl RootElement {
    /// The outermost element of a file; `None` if the file is not well-formed.
    pub fn of(text: &str) -> Option<RootElement> {
        Document::new(text).read().ok()
    }

    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        find(&self.attributes, name)
    }

    /// The text of a child.
    pub fn text(&self, name: &str) -> Option<&str> {
        find(&self.texts, name)
    }
}

fn find<'p>(pairs: &'p [(String, String)], name: &str) -> Option<&'p str> {
    pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Children of the outermost element whose texts are recorded in [`RootElement`].
const TEXTS: [&str; 3] = ["label", "description", "title"];

/// The hint about a `&` that does not begin an entity.
const AMPERSAND: &str = "a & does not begin an entity: write &amp;";
/// The fault of text before or after the outermost element.
const OUTSIDE: &str = "there is text outside the element";

/// A fault of a text that is not well-formed, at a position in bytes.
#[derive(Debug)]
struct XmlFault {
    at: u64,
    text: String,
}

/// Fails if the text is not well-formed; the error names the line. `name` is the setting that holds the text.
pub(super) fn check_well_formed(name: &str, text: &str) -> Result<(), ObjectError> {
    Document::new(text).read().map(drop).map_err(|fault| {
        let at = usize::try_from(fault.at).unwrap_or(usize::MAX).min(text.len());
        let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        ObjectError::Invalid(format!("{name} is not well-formed XML: line {line}: {}", fault.text))
    })
}

/// A document that is being read. The XML reader checks the syntax of markup and the names of end tags; this type
/// checks everything else.
struct Document<'t> {
    text: &'t str,
    reader: Reader<&'t [u8]>,
    /// Start of the current event.
    at: u64,
    /// Names of the open elements.
    open: Vec<String>,
    has_root: bool,
    root: RootElement,
    /// Text of the open child of the outermost element.
    child_text: String,
}

impl<'t> Document<'t> {
    fn new(text: &'t str) -> Document<'t> {
        Document {
            text,
            reader: Reader::from_str(text),
            at: 0,
            open: Vec::new(),
            has_root: false,
            root: RootElement::default(),
            child_text: String::new(),
        }
    }

    fn fault<T>(&self, text: impl Into<String>) -> Result<T, XmlFault> {
        Err(XmlFault { at: self.at, text: text.into() })
    }

    fn read(mut self) -> Result<RootElement, XmlFault> {
        if let Some((at, letter)) = self.text.char_indices().find(|(_, letter)| !is_character(*letter)) {
            self.at = at as u64;
            return self.fault(format!("the character U+{:04X} is not allowed", u32::from(letter)));
        }
        loop {
            self.at = self.reader.buffer_position();
            let event = self
                .reader
                .read_event()
                .map_err(|error| XmlFault { at: self.reader.error_position().max(self.at), text: explain(&error) })?;
            match event {
                Event::Eof => break,
                Event::Start(tag) => {
                    self.read_tag(&tag)?;
                    self.open.push(text_of(tag.name().as_ref()));
                    self.child_text.clear();
                }
                Event::Empty(tag) => self.read_tag(&tag)?,
                Event::End(_) => self.close(),
                Event::Text(text) => self.add_text(&text_of(&text))?,
                Event::GeneralRef(reference) => match character_of(&reference) {
                    Some(letter) => self.add_text(&letter)?,
                    None => return self.fault(AMPERSAND),
                },
                Event::CData(_) if self.open.is_empty() => return self.fault(OUTSIDE),
                Event::CData(text) => self.add_text(&text_of(&text))?,
                Event::DocType(declared) if self.has_root || declared.contains(&b'[') => {
                    return self.fault("this document type is not supported");
                }
                Event::DocType(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            }
        }
        match self.open.last() {
            Some(name) => self.fault(format!("<{name}> is not closed")),
            None if !self.has_root => self.fault("there is no element"),
            None => Ok(self.root),
        }
    }

    fn add_text(&mut self, text: &str) -> Result<(), XmlFault> {
        if self.open.is_empty() && !text.trim().is_empty() {
            return self.fault(OUTSIDE);
        }
        if self.open.len() == CHILD_DEPTH {
            self.child_text.push_str(text);
        }
        Ok(())
    }

    fn close(&mut self) {
        let Some(name) = self.open.pop() else { return };
        if self.open.len() + 1 == CHILD_DEPTH && TEXTS.contains(&name.as_str()) && self.root.text(&name).is_none() {
            self.root.texts.push((name, self.child_text.trim().to_owned()));
        }
    }

    /// Checks a start tag, and records the tag of the outermost element.
    fn read_tag(&mut self, tag: &BytesStart<'_>) -> Result<(), XmlFault> {
        let name = text_of(tag.name().as_ref());
        if self.open.is_empty() && self.has_root {
            return self.fault("there is a second element");
        }
        if self.open.len() >= DEPTH_MAX {
            return self.fault(format!("more than {DEPTH_MAX} elements are nested"));
        }
        self.check_name(&name)?;
        let attributes = self.attributes_of(tag, &name)?;
        if self.open.is_empty() {
            self.root.name = name;
            self.root.attributes = attributes;
        }
        self.has_root = true;
        Ok(())
    }

    fn attributes_of(&self, tag: &BytesStart<'_>, name: &str) -> Result<Vec<(String, String)>, XmlFault> {
        let mut attributes = Vec::new();
        let mut rest = tag.attributes_raw();
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|error| self.explain_attribute(&error, name))?;
            // The XML reader accepts attributes without a blank between them.
            if !rest.first().is_some_and(u8::is_ascii_whitespace) {
                return self.fault(format!("the tag of <{name}> is not valid"));
            }
            rest = after_attribute(rest, &attribute);
            let key = text_of(attribute.key.as_ref());
            self.check_name(&key)?;
            if attribute.value.contains(&b'<') {
                return self.fault(format!("the value of {key} contains <"));
            }
            match attribute.unescape_value() {
                Ok(value) if value.chars().all(is_character) => attributes.push((key, value.into_owned())),
                _ => return self.fault(AMPERSAND),
            }
        }
        Ok(attributes)
    }

    fn explain_attribute(&self, error: &AttrError, name: &str) -> XmlFault {
        let (at, text) = match error {
            AttrError::ExpectedEq(at) | AttrError::ExpectedValue(at) => (at, "has an attribute that has no value"),
            AttrError::UnquotedValue(at) => (at, "has an attribute whose value is not in quotation marks"),
            AttrError::ExpectedQuote(at, _) => (at, "has an attribute whose value does not end"),
            AttrError::Duplicated(at, _) => (at, "has an attribute twice"),
        };
        // Positions count from the first byte after the `<`.
        XmlFault { at: self.at + 1 + *at as u64, text: format!("<{name}> {text}") }
    }

    fn check_name(&self, name: &str) -> Result<(), XmlFault> {
        let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':' | '-' | '.');
        let is_name = name.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | ':'));
        if is_name && name.chars().all(is_part) {
            return Ok(());
        }
        let found: String = name.chars().take(10).flat_map(char::escape_default).collect();
        self.fault(format!("a name is expected before {found}"))
    }
}

/// Depth of the children of the outermost element.
const CHILD_DEPTH: usize = 2;

/// The bytes of a tag after its first attribute.
fn after_attribute<'t>(tag: &'t [u8], attribute: &Attribute<'_>) -> &'t [u8] {
    let skip = |bytes: &'t [u8], count: usize| bytes.trim_ascii_start().get(count..).unwrap_or_default();
    let quotes = 2;
    skip(skip(skip(tag, attribute.key.as_ref().len()), "=".len()), attribute.value.len() + quotes)
}

/// Decodes bytes of the document, which come from a text and are therefore valid UTF-8.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The text of a predefined entity or a character reference.
fn character_of(reference: &BytesRef<'_>) -> Option<String> {
    match reference.resolve_char_ref() {
        Ok(Some(letter)) => is_character(letter).then(|| letter.to_string()),
        Ok(None) => resolve_predefined_entity(&text_of(reference)).map(str::to_owned),
        Err(_) => None,
    }
}

/// Describes a syntax error in this program's own words.
fn explain(error: &quick_xml::Error) -> String {
    let what = match error {
        quick_xml::Error::IllFormed(IllFormedError::MismatchedEndTag { expected, found }) => {
            return format!("<{expected}> is closed by </{found}>");
        }
        quick_xml::Error::IllFormed(IllFormedError::UnmatchedEndTag(name)) => {
            return format!("</{name}> closes nothing");
        }
        quick_xml::Error::IllFormed(IllFormedError::UnclosedReference) => return AMPERSAND.to_owned(),
        quick_xml::Error::Syntax(SyntaxError::UnclosedComment) => "a comment",
        quick_xml::Error::Syntax(SyntaxError::UnclosedCData) => "a CDATA section",
        quick_xml::Error::Syntax(SyntaxError::UnclosedPI | SyntaxError::UnclosedXmlDecl) => "a processing instruction",
        quick_xml::Error::Syntax(SyntaxError::UnclosedDoctype) => "a document type",
        quick_xml::Error::Syntax(SyntaxError::UnclosedTag) => "a tag",
        quick_xml::Error::Syntax(
            SyntaxError::UnclosedSingleQuotedAttributeValue | SyntaxError::UnclosedDoubleQuotedAttributeValue,
        ) => "the value of an attribute",
        other => return other.to_string(),
    };
    format!("{what} does not end")
}

/// Whether XML 1.0 allows the character.
fn is_character(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\r') || (letter >= ' ' && !matches!(letter, '\u{fffe}' | '\u{ffff}'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn malformed_texts_are_reported_with_line_and_fault() {
        for text in [
            "<view/>",
            "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE view>\n<!-- a <b --><view type='x'>\n</view>\n<!-- end -->",
            "<form version=\"1.1\"><a b=\"1 &amp; 2\" c='&#65;&#x42;'>x &lt; y</a ><b\n/></form>",
            "<v><![CDATA[ {\"a\": \"<b>&\"} ]]></v>",
            "<n:nav xmlns:n=\"u\"><größe.ok-1/></n:nav>",
        ] {
            assert_eq!(check_well_formed("eai:data", text), Ok(()), "{text}");
        }
        for (text, line, fault) in [
            ("", 1, "no element"),
            ("plain", 1, "outside"),
            ("<a>\n<b>\n</a>", 3, "<b> is closed by </a>"),
            ("<a>\n<b>", 2, "<b> is not closed"),
            ("<a/><b/>", 1, "second element"),
            ("<a/>text", 1, "outside"),
            ("<a b=1/>", 1, "quotation"),
            ("<a b='1' b='2'/>", 1, "twice"),
            ("<a b='1'c='2'/>", 1, "not valid"),
            ("<a b='<'/>", 1, "contains <"),
            ("<a b='x", 1, "does not end"),
            ("<a b/>", 1, "no value"),
            ("<a>1 & 2</a>", 1, "&amp;"),
            ("<a>&nbsp;</a>", 1, "&amp;"),
            ("<a>&#0;</a>", 1, "&amp;"),
            ("<a>\u{1}</a>", 1, "U+0001"),
            ("<a><!-- </a>", 1, "comment does not end"),
            ("<1a/>", 1, "a name is expected"),
            ("</a>", 1, "closes nothing"),
            ("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", 1, "document type"),
            ("<a", 1, "a tag does not end"),
            ("<a\n b='1'\n c/>", 3, "no value"),
            ("<a>&#1;</a>", 1, "&amp;"),
            ("<a b='&nbsp;'/>", 1, "&amp;"),
            ("&lt;<a/>", 1, "outside"),
            ("<![CDATA[x]]><a/>", 1, "outside"),
            ("<a 1b='c'/>", 1, "a name is expected"),
            ("<a><b/>\n</a b></a>", 2, "closed by"),
            ("<a><!-- \u{2} --></a>", 1, "U+0002"),
        ] {
            let told = check_well_formed("eai:data", text).map_err(|error| error.to_string());
            let text_of_fault = told.as_ref().err().map(String::as_str).unwrap_or_default();
            assert!(text_of_fault.contains(fault), "{text}: {told:?}");
            assert!(text_of_fault.contains(&format!("line {line}:")), "{text}: {told:?}");
        }
        let deep = "<a>".repeat(DEPTH_MAX + 1);
        assert!(check_well_formed("eai:data", &deep).is_err_and(|error| error.to_string().contains("nested")));
    }

    #[test]
    fn the_outermost_element_has_a_name_attributes_and_texts() {
        let text = "<!-- x --><form version='1.1' theme=\"a&amp;b\"><label> Sales &lt; 5 </label><row><label>no</label></row></form>";
        let root = RootElement::of(text).unwrap();
        assert_eq!((root.name.as_str(), root.attribute("version")), ("form", Some("1.1")));
        assert_eq!((root.attribute("theme"), root.text("label")), (Some("a&b"), Some("Sales < 5")));
        let in_section =
            RootElement::of("<view><label><![CDATA[A & B]]> &#67;</label><label>2</label></view>").unwrap();
        assert_eq!(in_section.text("label"), Some("A & B C"));
        assert_eq!((root.text("description"), RootElement::of("<a>")), (None, None));
    }

    #[test]
    fn no_text_makes_the_check_panic() {
        let whole = "<?xml?><a b='c &amp; d'>é<!-- x --><![CDATA[y]]></a>";
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            assert!(check_well_formed("eai:data", &whole[..end]).is_err(), "{}", &whole[..end]);
            assert!(
                check_well_formed("eai:data", &whole[end..]).is_ok() == (end == 0 || end == 7),
                "{}",
                &whole[end..]
            );
        }
    }
}
