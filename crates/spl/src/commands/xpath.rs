//! `xpath`: extracts the values that a path selects in XML.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("xpath", &["field", "outfield", "default"]);

/// `xpath [field=] [outfield=] [default=] "PATH"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XPathCommand {
    /// `field=` (default `_raw`): field with the XML.
    pub field: String,
    /// `outfield=` (default `xpath`): output field.
    pub output: String,
    /// `default=`: value if the path selects nothing.
    pub default: Option<String>,
    /// The parsed path.
    pub path: XPath,
}

/// A path to XML elements, to their attributes or to their text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XPath {
    /// Steps from the root, or from anywhere if the first is [`XPathStep::anywhere`].
    pub steps: Vec<XPathStep>,
    /// `/@name` at the end.
    pub attribute: Option<String>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XPathStep {
    /// Whether `//` precedes the step.
    pub anywhere: bool,
    /// Name of the element; `*` for any.
    pub name: String,
    /// `[N]`: which of the elements of this name, from 1.
    pub position: Option<u32>,
    /// `[@name]` and `[@name="value"]`.
    pub attributes: Vec<(String, Option<String>)>,
}

impl Syntax for XPathCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "xpath [field=] [outfield=] [default=] \"PATH\"",
        summary: "Extracts the values that a path selects in XML",
        group: Group::Fields,
        kind: Kind::Row,
        page: Some("xmlkv"),
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<XPathCommand> {
        let (mut field, mut output, mut default, mut path) = ("_raw".to_owned(), "xpath".to_owned(), None, None);
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "field" => field = option.value,
                    "outfield" => output = option.value,
                    _ => default = Some(option.value),
                }
            }
            if parser.at_end() || path.is_some() {
                break;
            }
            let word = match parser.eat_quoted() {
                Some(word) => word,
                None => {
                    let message = format!("xpath: expected a path in quotes, found {}", parser.found_text());
                    return Err(Diagnostic::error(message, parser.here()).with_hint("write `xpath \"//name\"`"));
                }
            };
            path = Some(xpath_of(&word.text).ok_or_else(|| {
                let message = format!("xpath: the path `{}` is not supported", word.text);
                Diagnostic::error(message, word.span)
                    .with_hint("paths are made of /name, //name, [N], [@name=\"value\"] and /@name at the end")
            })?);
        }
        match path {
            Some(path) => Ok(XPathCommand { field, output, default, path }),
            None => Err(Diagnostic::error("xpath: no path is given", parser.here())),
        }
    }
}

impl Semantics for XPathCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}

/// Parses a path of the supported form.
fn xpath_of(text: &str) -> Option<XPath> {
    let mut rest = text.trim();
    let mut path = XPath { steps: Vec::new(), attribute: None };
    if !rest.starts_with('/') {
        // A relative path may start at any element, not only at the root.
        path.steps.push(xpath_step(&mut rest, true)?);
    }
    while !rest.is_empty() {
        let anywhere = rest.starts_with("//");
        rest = rest.strip_prefix("//").or_else(|| rest.strip_prefix('/'))?;
        if rest == "text()" {
            return (!path.steps.is_empty()).then_some(path);
        }
        if let Some(name) = rest.strip_prefix('@') {
            if anywhere {
                path.steps.push(XPathStep { anywhere, name: "*".to_owned(), position: None, attributes: Vec::new() });
            }
            path.attribute = is_xml_name(name).then(|| name.to_owned());
            return (path.attribute.is_some() && !path.steps.is_empty()).then_some(path);
        }
        path.steps.push(xpath_step(&mut rest, anywhere)?);
    }
    (!path.steps.is_empty()).then_some(path)
}

fn xpath_step(rest: &mut &str, anywhere: bool) -> Option<XPathStep> {
    let end = rest.find(['/', '[']).unwrap_or(rest.len());
    let name = &rest[..end];
    if name != "*" && !is_xml_name(name) {
        return None;
    }
    *rest = &rest[end..];
    let mut step = XPathStep { anywhere, name: name.to_owned(), position: None, attributes: Vec::new() };
    while let Some(inner) = rest.strip_prefix('[') {
        let close = inner.find(']')?;
        let test = inner[..close].trim();
        *rest = &inner[close + 1..];
        match test.strip_prefix('@') {
            Some(test) => {
                let (name, value) = match test.split_once('=') {
                    Some((name, value)) => (name.trim(), Some(value.trim())),
                    None => (test, None),
                };
                let unquoted = |value: &str| {
                    let mark = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
                    value[1..].strip_suffix(mark).map(str::to_owned)
                };
                let value = match value {
                    Some(value) => Some(unquoted(value)?),
                    None => None,
                };
                step.attributes.push((is_xml_name(name).then(|| name.to_owned())?, value));
            }
            None => step.position = Some(test.parse().ok().filter(|position| *position > 0)?),
        }
    }
    // Positions are not supported for elements of any name.
    (step.name != "*" || step.position.is_none()).then_some(step)
}

fn is_xml_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}
