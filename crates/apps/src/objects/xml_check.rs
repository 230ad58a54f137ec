//! Check for well-formed XML, which views and other files of the user interface must be.
//!
//! A document is one element with attributes, texts, comments, CDATA sections and processing instructions. Entities are
//! the predefined ones and character references. A document type without an internal subset is skipped.
//!
//! Not here: whether the elements are those of a view.

use super::ObjectError;

/// Maximum nesting depth of elements.
const DEPTH_MAX: usize = 256;
/// Named entities without a document type.
const ENTITIES: [&str; 5] = ["lt", "gt", "amp", "quot", "apos"];

/// Facts about the outermost element of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootElement {
    /// Its name.
    pub name: String,
    /// Its attributes.
    pub attributes: Vec<(String, String)>,
    /// The texts of its children `label` and `description`.
    pub texts: Vec<(String, String)>,
}

impl RootElement {
    /// The outermost element of a file; `None` if the file is not well-formed.
    pub fn of(text: &str) -> Option<RootElement> {
        let mut reader = Reader::new(text);
        reader.read_document().ok()?;
        Some(reader.root)
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

/// Children of the outermost element whose texts are facts.
const TEXTS: [&str; 2] = ["label", "description"];

/// A fault of a text that is not well-formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct XmlFault(String);

impl From<&str> for XmlFault {
    fn from(text: &str) -> XmlFault {
        XmlFault(text.to_owned())
    }
}

impl From<String> for XmlFault {
    fn from(text: String) -> XmlFault {
        XmlFault(text)
    }
}

/// Fails, with the line, if the text is not well-formed. `name` is the setting that holds the text.
pub(super) fn check_well_formed(name: &str, text: &str) -> Result<(), ObjectError> {
    let mut reader = Reader::new(text);
    reader.read_document().map_err(|fault| {
        let line = text.as_bytes()[..reader.at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
        ObjectError::Invalid(format!("{name} is not well-formed XML: line {line}: {fault}"))
    })
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// Names of the open elements.
    open: Vec<&'t str>,
    has_root: bool,
    root: RootElement,
}

impl<'t> Reader<'t> {
    fn new(text: &str) -> Reader<'_> {
        Reader { text, at: 0, open: Vec::new(), has_root: false, root: RootElement::default() }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn read_document(&mut self) -> Result<(), XmlFault> {
        if self.rest().starts_with('\u{feff}') {
            self.at += '\u{feff}'.len_utf8();
        }
        loop {
            let rest = self.rest();
            let text = rest.split('<').next().unwrap_or_default();
            self.check_text(text)?;
            self.note_text(text);
            self.at += text.len();
            if self.rest().is_empty() {
                break;
            }
            self.read_markup()?;
        }
        match self.open.last() {
            Some(name) => Err(XmlFault::from(format!("<{name}> is not closed"))),
            None if !self.has_root => Err(XmlFault::from("there is no element")),
            None => Ok(()),
        }
    }

    /// Checks a text between tags, or the value of an attribute.
    fn check_text(&mut self, text: &str) -> Result<(), XmlFault> {
        if self.open.is_empty() && !text.trim().is_empty() {
            return Err(XmlFault::from("there is text outside the element"));
        }
        check_entities(text)
    }

    fn note_text(&mut self, text: &str) {
        if let [_, child] = self.open.as_slice()
            && TEXTS.contains(child)
            && self.root.text(child).is_none()
        {
            self.root.texts.push(((*child).to_owned(), resolve_entities(text).trim().to_owned()));
        }
    }

    /// Reads what begins with `<`.
    fn read_markup(&mut self) -> Result<(), XmlFault> {
        let rest = self.rest();
        if rest.starts_with("<!--") {
            return self.skip_to("<!--", "-->", "a comment");
        }
        if rest.starts_with("<![CDATA[") {
            return match self.open.is_empty() {
                true => Err(XmlFault::from("there is text outside the element")),
                false => self.skip_to("<![CDATA[", "]]>", "a CDATA section"),
            };
        }
        if rest.starts_with("<?") {
            return self.skip_to("<?", "?>", "a processing instruction");
        }
        if rest.starts_with("<!DOCTYPE") {
            let declared = rest.split('>').next().unwrap_or_default();
            if self.has_root || declared.contains('[') {
                return Err(XmlFault::from("this document type is not supported"));
            }
            return self.skip_to("<!DOCTYPE", ">", "a document type");
        }
        match rest.strip_prefix("</") {
            Some(_) => self.read_end(),
            None => self.read_start(),
        }
    }

    fn skip_to(&mut self, begin: &str, end: &str, what: &str) -> Result<(), XmlFault> {
        let found = self.text.get(self.at + begin.len()..).and_then(|rest| rest.find(end));
        let Some(length) = found else { return Err(XmlFault::from(format!("{what} does not end"))) };
        self.at += begin.len() + length + end.len();
        Ok(())
    }

    fn read_end(&mut self) -> Result<(), XmlFault> {
        self.at += "</".len();
        let name = self.read_name()?;
        self.skip_blanks();
        if !self.rest().starts_with('>') {
            return Err(XmlFault::from(format!("</{name} does not end with >")));
        }
        match self.open.pop() {
            Some(open) if open == name => {}
            Some(open) => return Err(XmlFault::from(format!("<{open}> is closed by </{name}>"))),
            None => return Err(XmlFault::from(format!("</{name}> closes nothing"))),
        }
        self.at += 1;
        Ok(())
    }

    fn read_start(&mut self) -> Result<(), XmlFault> {
        if self.open.is_empty() && self.has_root {
            return Err(XmlFault::from("there is a second element"));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(XmlFault::from(format!("more than {DEPTH_MAX} elements are nested")));
        }
        self.at += 1;
        let name = self.read_name()?;
        let is_root = self.open.is_empty();
        if is_root {
            self.root.name = name.to_owned();
        }
        let mut known: Vec<&str> = Vec::new();
        loop {
            let has_blank = self.skip_blanks();
            let rest = self.rest();
            if rest.starts_with("/>") {
                self.at += "/>".len();
                break;
            }
            if rest.starts_with('>') {
                self.at += 1;
                self.open.push(name);
                break;
            }
            if rest.is_empty() || !has_blank {
                return Err(XmlFault::from(format!("the tag of <{name}> is not valid")));
            }
            let (attribute, value) = self.read_attribute()?;
            if known.contains(&attribute) {
                return Err(XmlFault::from(format!("<{name}> has the attribute {attribute} twice")));
            }
            known.push(attribute);
            if is_root {
                self.root.attributes.push((attribute.to_owned(), resolve_entities(value)));
            }
        }
        self.has_root = true;
        Ok(())
    }

    fn read_attribute(&mut self) -> Result<(&'t str, &'t str), XmlFault> {
        let name = self.read_name()?;
        self.skip_blanks();
        if !self.rest().starts_with('=') {
            return Err(XmlFault::from(format!("the attribute {name} has no value")));
        }
        self.at += 1;
        self.skip_blanks();
        let rest = self.rest();
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let Some(quote) = quote else {
            return Err(XmlFault::from(format!("the value of {name} is not in quotation marks")));
        };
        let Some(value) = rest.get(1..).and_then(|rest| rest.split_once(quote)).map(|(value, _)| value) else {
            return Err(XmlFault::from(format!("the value of {name} does not end")));
        };
        if value.contains('<') {
            return Err(XmlFault::from(format!("the value of {name} contains <")));
        }
        check_entities(value)?;
        self.at += value.len() + 2;
        Ok((name, value))
    }

    fn read_name(&mut self) -> Result<&'t str, XmlFault> {
        let rest = self.rest();
        let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':' | '-' | '.');
        let name = rest.split(|letter| !is_part(letter)).next().unwrap_or_default();
        let is_name = name.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | ':'));
        if !is_name {
            let found: String = rest.chars().take(10).flat_map(char::escape_default).collect();
            return Err(XmlFault::from(format!("a name is expected before {found}")));
        }
        self.at += name.len();
        Ok(name)
    }

    /// Passes over blanks; returns whether there were any.
    fn skip_blanks(&mut self) -> bool {
        let rest = self.rest();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        self.at += blanks;
        blanks > 0
    }
}

/// Checks that every `&` begins an entity, and that no character is forbidden in XML.
fn check_entities(text: &str) -> Result<(), XmlFault> {
    if let Some(letter) = text.chars().find(|letter| !is_character(*letter)) {
        return Err(XmlFault::from(format!("the character U+{:04X} is not allowed", u32::from(letter))));
    }
    for after in text.split('&').skip(1) {
        let name = after.split_once(';').map_or("", |(name, _)| name);
        let number = name.strip_prefix('#').and_then(|number| match number.strip_prefix('x') {
            Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok(),
            None => number.parse().ok(),
        });
        if !ENTITIES.contains(&name) && !number.and_then(char::from_u32).is_some_and(is_character) {
            return Err(XmlFault::from("a & does not begin an entity: write &amp;"));
        }
    }
    Ok(())
}

/// A text with the predefined entities replaced.
fn resolve_entities(text: &str) -> String {
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    plain.iter().fold(text.to_owned(), |text, (entity, letter)| text.replace(entity, letter))
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
    fn texts_are_well_formed_or_say_why_not() {
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
            ("<a", 1, "not valid"),
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
