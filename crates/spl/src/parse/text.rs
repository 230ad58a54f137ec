//! Commands that read texts: extract, xmlkv, xmlunescape, xpath, multikv, tojson.

use super::cursor::{Parser, Read};
use super::options::Known;
use crate::ast::{
    ExtractCommand, JsonType, MultiKvCommand, TextCommand, ToJsonCommand, XPath, XPathCommand, XPathStep,
};
use crate::diagnostic::Diagnostic;

/// Pairs of a row that extract makes fields of when nothing is said.
const PAIRS: usize = 50;
/// Characters of a row that extract reads when nothing is said.
const CHARS: usize = 10_240;

const EXTRACT: Known = Known {
    command: "extract",
    names: &["pairdelim", "kvdelim", "limit", "maxchars", "clean_keys", "mv_add"],
    ignored: &["auto", "reload", "segment"],
};
const XMLKV: Known = Known { command: "xmlkv", names: &[], ignored: &["maxinputs"] };
const XPATH: Known = Known { command: "xpath", names: &["field", "outfield", "default"], ignored: &[] };
const MULTIKV: Known = Known {
    command: "multikv",
    names: &["conf", "copyattrs", "forceheader", "multitable", "noheader", "rmorig"],
    ignored: &[],
};
const TOJSON: Known = Known {
    command: "tojson",
    names: &["default_type", "fill_null", "include_internal", "output_field"],
    ignored: &[],
};

impl Parser<'_> {
    /// The command of this name, or `None` when it is none of this family.
    pub(crate) fn text_command(&mut self, name: &str) -> Read<Option<TextCommand>> {
        let command = match name {
            "extract" | "kv" => TextCommand::Extract(self.extract()?),
            "xmlkv" => self.xmlkv()?,
            "xmlunescape" => {
                while self.option(XMLKV)?.is_some() {}
                TextCommand::XmlUnescape
            }
            "xpath" => TextCommand::XPath(self.xpath()?),
            "multikv" => TextCommand::MultiKv(self.multikv()?),
            "tojson" => TextCommand::ToJson(self.tojson()?),
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    fn extract(&mut self) -> Read<ExtractCommand> {
        let (mut pair, mut name) = (None, None);
        let mut command = ExtractCommand {
            rules: Vec::new(),
            delimiters: None,
            limit: PAIRS,
            chars_max: CHARS,
            clean_keys: true,
            adds_values: false,
        };
        loop {
            let Some(option) = self.option(EXTRACT)? else {
                self.skip_separators();
                match self.field_word() {
                    Some(word) => command.rules.push((word.text, word.span)),
                    None => break,
                }
                continue;
            };
            match option.name.as_str() {
                "pairdelim" => pair = Some(option.value),
                "kvdelim" => name = Some(option.value),
                "limit" => command.limit = option.number()?,
                "maxchars" => command.chars_max = option.number()?,
                "clean_keys" => command.clean_keys = option.boolean()?,
                _ => command.adds_values = option.boolean()?,
            }
        }
        command.delimiters = match (pair, name) {
            (Some(pair), Some(name)) => Some((pair, name)),
            (None, None) => None,
            _ => {
                let remark = Diagnostic::error("extract: pairdelim= and kvdelim= go together", self.here());
                return Err(remark.with_hint("write `extract pairdelim=\";\" kvdelim=\":\"`"));
            }
        };
        Ok(command)
    }

    fn xmlkv(&mut self) -> Read<TextCommand> {
        let mut field = "_raw".to_owned();
        loop {
            while self.option(XMLKV)?.is_some() {}
            match self.field_word() {
                Some(word) => field = word.text,
                None => return Ok(TextCommand::XmlKv(field)),
            }
        }
    }

    fn xpath(&mut self) -> Read<XPathCommand> {
        let (mut field, mut output, mut default, mut path) = ("_raw".to_owned(), "xpath".to_owned(), None, None);
        loop {
            while let Some(option) = self.option(XPATH)? {
                match option.name.as_str() {
                    "field" => field = option.value,
                    "outfield" => output = option.value,
                    _ => default = Some(option.value),
                }
            }
            if self.at_end() || path.is_some() {
                break;
            }
            let word = match self.quoted() {
                Some(word) => word,
                None => {
                    let message = format!("xpath: expected a path in quotes, found {}", self.found());
                    return Err(Diagnostic::error(message, self.here()).with_hint("write `xpath \"//name\"`"));
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
            None => Err(Diagnostic::error("xpath: no path is given", self.here())),
        }
    }

    fn multikv(&mut self) -> Read<MultiKvCommand> {
        let mut command = MultiKvCommand {
            copies_fields: true,
            fields: Vec::new(),
            filter: Vec::new(),
            header_line: None,
            several_tables: true,
            no_header: false,
            removes_event: true,
            rule: None,
        };
        loop {
            while let Some(option) = self.option(MULTIKV)? {
                match option.name.as_str() {
                    "conf" => command.rule = Some((option.value, option.value_span)),
                    "copyattrs" => command.copies_fields = option.boolean()?,
                    "forceheader" => command.header_line = Some(option.number()?).filter(|line| *line > 0),
                    "multitable" => command.several_tables = option.boolean()?,
                    "noheader" => command.no_header = option.boolean()?,
                    _ => command.removes_event = option.boolean()?,
                }
            }
            if self.eat_keyword("fields") {
                command.fields.extend(self.words_before_keyword()?);
            } else if self.eat_keyword("filter") {
                command.filter.extend(self.words_before_keyword()?);
            } else {
                return Ok(command);
            }
        }
    }

    fn words_before_keyword(&mut self) -> Read<Vec<String>> {
        let mut words = Vec::new();
        loop {
            self.skip_separators();
            let keyword = self.at_keyword("fields") || self.at_keyword("filter");
            if self.at_end() || keyword || self.peek_option().is_some() {
                break;
            }
            words.push(self.expect_field("a word")?.text);
        }
        match words.is_empty() {
            true => Err(Diagnostic::error("multikv: a list is empty", self.here())),
            false => Ok(words),
        }
    }

    fn tojson(&mut self) -> Read<ToJsonCommand> {
        let mut command = ToJsonCommand {
            fields: Vec::new(),
            default_type: JsonType::None,
            fill_null: false,
            internal: false,
            output: "_raw".to_owned(),
        };
        let mut plain = Vec::new();
        loop {
            while let Some(option) = self.option(TOJSON)? {
                match option.name.as_str() {
                    "default_type" => {
                        command.default_type = json_type(&option.value)
                            .ok_or_else(|| option.refuse("auto, bool, json, none, num or str"))?
                    }
                    "fill_null" => command.fill_null = option.boolean()?,
                    "include_internal" => command.internal = option.boolean()?,
                    _ => command.output = option.value,
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            let word = self.expect_field("a field or a type such as num(FIELD)")?;
            let Some((kind, inner)) = word.text.strip_suffix(')').and_then(|text| text.split_once('(')) else {
                plain.push(word.text);
                continue;
            };
            let Some(kind) = json_type(kind) else {
                return Err(Diagnostic::error(format!("tojson: there is no type `{kind}`"), word.span)
                    .with_hint("types are auto, bool, json, none, num and str"));
            };
            let names = inner.split([',', ' ']).filter(|name| !name.is_empty());
            command.fields.extend(names.map(|name| (kind, name.trim_matches('"').to_owned())));
        }
        command.fields.extend(plain.into_iter().map(|name| (command.default_type, name)));
        Ok(command)
    }
}

fn json_type(name: &str) -> Option<JsonType> {
    Some(match name.to_ascii_lowercase().as_str() {
        "auto" => JsonType::Auto,
        "bool" => JsonType::Bool,
        "json" => JsonType::Json,
        "none" => JsonType::None,
        "num" => JsonType::Num,
        "str" => JsonType::Str,
        _ => return None,
    })
}

/// Reads a path of the supported kind.
fn xpath_of(text: &str) -> Option<XPath> {
    let mut rest = text.trim();
    let mut path = XPath { steps: Vec::new(), attribute: None };
    if !rest.starts_with('/') {
        // As from the root's element: a name alone is found anywhere.
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
    // Elements of any name are not counted.
    (step.name != "*" || step.position.is_none()).then_some(step)
}

fn is_xml_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}
