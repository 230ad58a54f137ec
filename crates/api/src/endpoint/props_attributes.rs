//! `data/props`: field extractions, aliases, calculated fields, automatic lookups and renamed sourcetypes.
//!
//! An entity is one setting of a stanza of props.conf. Its name is `STANZA : SETTING`, or the sourcetype for a renamed
//! sourcetype. For each kind, a table row defines the settings and the conversion of parameters to a value. A setting
//! has the permissions of its stanza until permissions of its own are set. Changes take effect at once.
//!
//! Not here: stanzas of transforms.conf ([`super::entities`]), applying the settings (scan).

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::{AclChange, ConfObject, ObjectError};
use quarry_conf::props::search_time::split_words;
use quarry_conf::props::split_extract;
use quarry_engine::check_regex;
use serde_json::{Map, Value};

use super::answer_shape::{AnswerShape, Content, NO_CONTENT};
use super::entities::{Kind, entry, kind};
use super::entity_kinds::RELOAD;
use super::listing::{LIST_PARAMETERS, page};
use super::object_request::ObjectRequest;
use super::permissions::{ACL_PARAMETERS, MOVE_PARAMETERS, acl_entry};
use super::row::{Access, Endpoint, REST_PROPERTIES, REST_PROPERTIES_SET, entities};
use super::shape::{Member, Settings, Shape};
use crate::atom::{Entry, Fields, escape_segment};
use crate::message::ApiError;
use crate::parameter_types::parse_flag;
use crate::parameters::Parameters;

/// The conf that contains the settings.
const CONF: &str = "props";
/// Separator of stanza and setting in a name.
const SEPARATOR: &str = " : ";
/// Maximum number of fields of an alias or a lookup; a request with more is refused.
const FIELDS_MAX: usize = 1_000;

/// A kind of settings.
struct Attribute {
    path: &'static str,
    title: &'static str,
    /// Prefixes of the settings' names; the whole name for a setting that a stanza can have only once.
    prefixes: &'static [&'static str],
    fields: Fields,
    /// The value that parameters describe.
    value: fn(&Parameters) -> Result<String, ApiError>,
    /// Adds members that describe a value, besides the value itself.
    members: fn(&str, &str, &mut Map<String, Value>),
}

impl Attribute {
    /// Whether a stanza has only one such setting.
    fn is_single(&self) -> bool {
        self.prefixes.iter().all(|prefix| !prefix.ends_with('-'))
    }

    /// Parameters of a change: the required parameters of a new setting without `name` and `stanza`, which the path
    /// contains.
    fn value_parameters(&self) -> &'static [&'static str] {
        let required = self.fields.required;
        let places = required.iter().take_while(|name| matches!(**name, "name" | "stanza")).count();
        required.get(places..).unwrap_or_default()
    }

    /// Whether a setting is of this kind.
    fn matches_key(&self, key: &str) -> bool {
        self.prefixes.iter().any(|prefix| match prefix.ends_with('-') {
            true => key.len() > prefix.len() && key.starts_with(prefix),
            false => key == *prefix,
        })
    }

    /// Name of the entity.
    fn name(&self, stanza: &str, key: &str) -> String {
        if self.is_single() { stanza.to_owned() } else { format!("{stanza}{SEPARATOR}{key}") }
    }

    /// Stanza and setting of an entity's name.
    fn parse_name(&self, name: &str) -> Result<(String, String), ObjectError> {
        if self.is_single() {
            return Ok((name.to_owned(), self.prefixes.concat()));
        }
        let parts = name.rsplit_once(SEPARATOR).map(|(stanza, key)| (stanza.trim().to_owned(), key.trim().to_owned()));
        parts
            .filter(|(stanza, key)| !stanza.is_empty() && self.matches_key(key))
            .ok_or(ObjectError::Unknown(name.to_owned()))
    }

    /// Stanza and setting of a new entity.
    fn new_place(&self, form: &Parameters) -> Result<(String, String), ApiError> {
        let name = form.required("name")?;
        if self.is_single() {
            return Ok((name.to_owned(), self.prefixes.concat()));
        }
        let prefix = match (self.prefixes, form.get("type")) {
            ([only], _) => *only,
            (prefixes, kind) => {
                let kind = kind.unwrap_or_default();
                let found = prefixes.iter().find(|prefix| prefix.trim_end_matches('-').eq_ignore_ascii_case(kind));
                found.copied().ok_or_else(|| {
                    let words: Vec<&str> = prefixes.iter().map(|prefix| prefix.trim_end_matches('-')).collect();
                    ApiError::bad_request(format!("type={kind}: give one of {}", words.join(", ")))
                })?
            }
        };
        Ok((form.required("stanza")?.to_owned(), format!("{prefix}{name}")))
    }

    fn kind(&'static self) -> Kind {
        Kind { verbs: &[RELOAD, "move"], ..kind(self.path, self.title, CONF, self.fields) }
    }

    /// The only setting in `stanza` as an entity.
    fn entry(&'static self, stanza: &ConfObject) -> Entry {
        let (key, value) =
            stanza.settings.first_key_value().map_or(("", ""), |(key, value)| (key.as_str(), value.as_str()));
        let mut shown = entry(&self.kind(), stanza);
        let mut content = Map::new();
        for name in ["eai:appName", "eai:userName"] {
            content.extend(shown.content.remove(name).map(|value| (name.to_owned(), value)));
        }
        content.insert("stanza".to_owned(), stanza.name.as_str().into());
        content.insert("attribute".to_owned(), key.into());
        content.insert("value".to_owned(), value.into());
        (self.members)(key, value, &mut content);
        let name = self.name(&stanza.name, key);
        let of_stanza = escape_segment(&stanza.name);
        let path = format!("{}{}", shown.path.trim_end_matches(&of_stanza), escape_segment(&name));
        for (relation, link) in &mut shown.links {
            match *relation {
                RELOAD => {}
                "move" => *link = format!("{path}/move"),
                _ => link.clone_from(&path),
            }
        }
        Entry { name, path, content, ..shown }
    }
}

const ATTRIBUTES: [Attribute; 5] = [
    Attribute {
        path: "data/props/extractions",
        title: "props-extract",
        prefixes: &["EXTRACT-", "REPORT-"],
        fields: Fields { required: &["name", "stanza", "type", "value"], optional: &[], wildcard: &[] },
        value: extraction_value,
        members: |key, _, content| {
            let kind = if key.starts_with("EXTRACT-") { "Inline" } else { "Uses transform" };
            content.insert("type".to_owned(), kind.into());
        },
    },
    Attribute {
        path: "data/props/fieldaliases",
        title: "props-fieldalias",
        prefixes: &["FIELDALIAS-"],
        fields: Fields { required: &["name", "stanza"], optional: &["overwrite"], wildcard: &["alias.*"] },
        value: |form| {
            let word = if is_kept(form) { KEEPING_ALIAS } else { ALIAS };
            let aliases = given_pairs(form, "alias.")?;
            // Unlike a lookup, an alias always needs both names, even if they are the same.
            let written = |(field, alias): &(String, String)| format!("{} {word} {}", quote(field), quote(alias));
            Ok(aliases.iter().map(written).collect::<Vec<_>>().join(" "))
        },
        members: |_, value, content| {
            let words = split_words(value);
            for (field, alias) in pairs_of(&words) {
                content.insert(format!("alias.{field}"), alias.into());
            }
            content.insert("overwrite".to_owned(), (!has_word(&words, KEEPING_ALIAS)).into());
        },
    },
    Attribute {
        path: "data/props/calcfields",
        title: "props-eval",
        prefixes: &["EVAL-"],
        fields: Fields { required: &["name", "stanza", "value"], optional: &[], wildcard: &[] },
        value: |form| {
            let value = required_value(form)?;
            let checked = quarry_spl::parse_expression(&value);
            checked.map(|_| value).map_err(|faults| {
                ApiError::bad_request(format!("value: {}", faults.first().map(ToString::to_string).unwrap_or_default()))
            })
        },
        members: |key, _, content| {
            content.insert("field.name".to_owned(), key.trim_start_matches("EVAL-").into());
            content.insert("type".to_owned(), "EVAL".into());
        },
    },
    Attribute {
        path: "data/props/lookups",
        title: "props-lookup",
        prefixes: &["LOOKUP-"],
        fields: Fields {
            required: &["name", "stanza", "transform"],
            optional: &["overwrite"],
            wildcard: &["lookup.field.input.*", "lookup.field.output.*"],
        },
        value: lookup_value,
        members: |_, value, content| {
            let words = split_words(value);
            let (transform, fields) =
                words.split_first().map_or(("", words.as_slice()), |(first, rest)| (first.as_str(), rest));
            content.insert("transform".to_owned(), transform.into());
            content.insert("overwrite".to_owned(), (!has_word(fields, KEEPING_OUTPUT)).into());
            let is_output =
                |word: &String| [OUTPUT, KEEPING_OUTPUT].iter().any(|known| word.eq_ignore_ascii_case(known));
            let outputs_at = fields.iter().position(is_output).unwrap_or(fields.len());
            let (inputs, outputs) = fields.split_at(outputs_at);
            for (prefix, fields) in [(INPUTS, inputs), (OUTPUTS, outputs.get(1..).unwrap_or_default())] {
                // A field of the same name in the lookup and in the events is shown with an empty value, as it was set.
                let shown = |(field, other): (&str, &str)| {
                    (format!("{prefix}{field}"), Value::from(if field == other { "" } else { other }))
                };
                content.extend(pairs_of(fields).into_iter().map(shown));
            }
        },
    },
    Attribute {
        path: "data/props/sourcetype-rename",
        title: "sourcetype-rename",
        prefixes: &["rename"],
        fields: Fields { required: &["name", "value"], optional: &[], wildcard: &[] },
        value: required_value,
        members: |_, _, _| {},
    },
];

/// The value of an extraction: an expression and possibly the field that it reads, or names of transforms.
fn extraction_value(form: &Parameters) -> Result<String, ApiError> {
    let value = required_value(form)?;
    // A change needs no `type`, because its path names the setting. The check also accepts names of transforms, which
    // are valid expressions.
    let is_inline = form.get("type").is_none_or(|kind| kind.eq_ignore_ascii_case("EXTRACT"));
    if is_inline {
        let (regex, _) = split_extract(&value);
        check_regex(regex).map_err(|fault| ApiError::bad_request(format!("value={value}: {fault}")))?;
    }
    Ok(value)
}

/// The parameter `value`.
fn required_value(form: &Parameters) -> Result<String, ApiError> {
    let value = form.required("value")?.trim();
    match value.is_empty() {
        true => Err(ApiError::bad_request("value is empty: give the value of the setting")),
        false => Ok(value.to_owned()),
    }
}

/// Words between the two fields of an alias; the second keeps a value that the alias already has.
const ALIAS: &str = "AS";
const KEEPING_ALIAS: &str = "ASNEW";
/// Words before the output fields of a lookup; the second keeps values that the fields already have.
const OUTPUT: &str = "OUTPUT";
const KEEPING_OUTPUT: &str = "OUTPUTNEW";
/// Prefixes of the parameters with the fields of a lookup.
const INPUTS: &str = "lookup.field.input.";
const OUTPUTS: &str = "lookup.field.output.";

/// Whether a form asks to keep existing values (`overwrite=0`).
fn is_kept(form: &Parameters) -> bool {
    form.get("overwrite").and_then(parse_flag) == Some(false)
}

/// The parameters with a prefix, as pairs of a field and another field, in the order of the request. The other field
/// may be empty.
fn given_pairs(form: &Parameters, prefix: &str) -> Result<Vec<(String, String)>, ApiError> {
    let given = form.clone().into_pairs().into_iter();
    let pairs = given.filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.to_owned(), value)));
    let pairs: Vec<(String, String)> = pairs.collect();
    if pairs.is_empty() || pairs.len() > FIELDS_MAX {
        return Err(ApiError::bad_request(format!("give {prefix}FIELD=OTHER once to {FIELDS_MAX} times")));
    }
    let is_keyword = |name: &str| {
        let known = [ALIAS, KEEPING_ALIAS, OUTPUT, KEEPING_OUTPUT];
        known.iter().any(|known| name.trim().eq_ignore_ascii_case(known))
    };
    let is_name = |name: &str| !name.contains(['"', ',', '\n', '\r']) && !is_keyword(name);
    let may_be_empty = prefix != "alias.";
    let is_pair = |(field, other): &(String, String)| {
        let is_named = !field.trim().is_empty() && (may_be_empty || !other.trim().is_empty());
        is_named && is_name(field) && is_name(other)
    };
    match pairs.iter().find(|pair| !is_pair(pair)) {
        Some((field, other)) => Err(ApiError::bad_request(format!("{prefix}{field}={other}: give names of fields"))),
        None => Ok(pairs),
    }
}

/// The fields of a lookup as props.conf writes them. If both fields have the same name, or the other field is not
/// given, the name is written once.
fn written_pair((field, other): &(String, String)) -> String {
    match other.trim() {
        "" => quote(field),
        other if other == field.trim() => quote(field),
        other => format!("{} {ALIAS} {}", quote(field), quote(other)),
    }
}

fn has_word(words: &[String], word: &str) -> bool {
    words.iter().any(|other| other.eq_ignore_ascii_case(word))
}

/// The pairs of fields in the words of a value; a field alone is paired with itself.
fn pairs_of(words: &[String]) -> Vec<(&str, &str)> {
    let is_as = |word: &str| [ALIAS, KEEPING_ALIAS].iter().any(|known| word.eq_ignore_ascii_case(known));
    let (mut pairs, mut rest) = (Vec::new(), words);
    while let [field, after @ ..] = rest {
        let (other, after) = match after {
            [word, other, after @ ..] if is_as(word) => (other, after),
            after => (field, after),
        };
        pairs.push((field.as_str(), other.as_str()));
        rest = after;
    }
    pairs
}

/// The value of an automatic lookup.
fn lookup_value(form: &Parameters) -> Result<String, ApiError> {
    let transform = form.required("transform")?.trim();
    if transform.is_empty() || transform.contains(char::is_whitespace) {
        return Err(ApiError::bad_request(format!("transform={transform}: give the name of a lookup")));
    }
    let written = |prefix: &str| -> Result<String, ApiError> {
        let pairs = given_pairs(form, prefix)?;
        Ok(pairs.iter().map(written_pair).collect::<Vec<_>>().join(" "))
    };
    let inputs = written(INPUTS)?;
    if !form.clone().into_pairs().iter().any(|(key, _)| key.starts_with(OUTPUTS)) {
        let overwrites = if is_kept(form) { KEEPING_OUTPUT } else { "" };
        return Ok(format!("{transform} {inputs} {overwrites}").trim_end().to_owned());
    }
    let output = if is_kept(form) { KEEPING_OUTPUT } else { OUTPUT };
    Ok(format!("{transform} {inputs} {output} {}", written(OUTPUTS)?))
}

/// A field name as props.conf writes it.
fn quote(name: &str) -> String {
    let name = name.trim();
    if name.contains(char::is_whitespace) { format!("\"{name}\"") } else { name.to_owned() }
}

pub(crate) fn endpoints() -> Vec<Endpoint> {
    ATTRIBUTES.iter().flat_map(rows).collect()
}

fn rows(attribute: &'static Attribute) -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(REST_PROPERTIES), Access::Capability(REST_PROPERTIES_SET));
    let (path, one) = (attribute.path, format!("{}/{{name}}", attribute.path));
    let changed = attribute.value_parameters();
    let settings = Settings { fields: attribute.fields, more: COMMON_MEMBERS };
    let rows = vec![
        Endpoint::new(Method::GET, path, read, "Lists entities.", get(move |request| list(attribute, request)))
            .takes(LIST_PARAMETERS)
            .of_conf(CONF),
        Endpoint::new(Method::POST, path, write, "Creates an entity.", post(move |request| create(attribute, request)))
            .needs(attribute.fields.required)
            .takes(attribute.fields.optional)
            .takes_patterns(attribute.fields.wildcard),
        Endpoint::new(
            Method::GET,
            one.as_str(),
            read,
            "Shows an entity.",
            get(move |request| show(attribute, request)),
        ),
        Endpoint::new(
            Method::POST,
            one.as_str(),
            write,
            "Changes an entity.",
            post(move |request| edit(attribute, request)),
        )
        .takes(changed),
        Endpoint::new(
            Method::DELETE,
            one.as_str(),
            write,
            "Deletes an entity.",
            delete(move |request| remove(attribute, request)),
        ),
        Endpoint::new(
            Method::POST,
            format!("{one}/move"),
            write,
            "Gives an entity to another user or app.",
            post(move |request| move_entity(attribute, request)),
        )
        .takes(MOVE_PARAMETERS),
    ];
    let set = post(move |request| set_acl(attribute, request));
    let permissions =
        Endpoint::new(Method::POST, format!("{one}/acl"), write, "Changes the permissions of an entity.", set)
            .takes(ACL_PARAMETERS)
            .answers(AnswerShape::Entities(NO_CONTENT));
    let switches = ["enable", "disable"].map(|switch| {
        let refused = "Refuses, because single settings of a stanza cannot be disabled.";
        Endpoint::new(
            Method::POST,
            format!("{one}/{switch}"),
            write,
            refused,
            post(move |request| refuse_switch(attribute, request)),
        )
        .refuses()
    });
    let mut rows = entities(rows, &Content::for_path(path, Shape::Settings(settings)));
    rows.extend([permissions].into_iter().chain(switches));
    rows
}

/// Members of every setting as an entity.
const COMMON_MEMBERS: &[Member] = &[
    ("eai:appName", Shape::Text),
    ("eai:userName", Shape::Text),
    ("stanza", Shape::Text),
    ("attribute", Shape::Text),
    ("value", Shape::Text),
    ("overwrite", Shape::Optional(&Shape::Flag)),
];

fn path_of(attribute: &Attribute) -> String {
    format!("/services/{}", attribute.path)
}

async fn list(attribute: &'static Attribute, request: ObjectRequest) -> Result<Response, ApiError> {
    let scope = request.scope.clone();
    let settings = request
        .with(move |objects, viewer| objects.list_settings(CONF, |key| attribute.matches_key(key), &scope, viewer));
    let entries = settings.await?.iter().map(|setting| attribute.entry(setting)).collect();
    page(attribute.title, path_of(attribute), entries, &request.parameters)
}

async fn find(attribute: &'static Attribute, request: &ObjectRequest) -> Result<ConfObject, ApiError> {
    let (stanza, key) = attribute.parse_name(&request.name)?;
    let scope = request.scope.clone();
    request.with(move |objects, viewer| objects.setting([CONF, &stanza, &key], &scope, viewer)).await
}

/// A setting as an answer.
fn answer(attribute: &'static Attribute, request: &ObjectRequest, setting: &ConfObject) -> Response {
    request.answer(attribute.title, path_of(attribute), attribute.entry(setting))
}

async fn show(attribute: &'static Attribute, request: ObjectRequest) -> Result<Response, ApiError> {
    Ok(answer(attribute, &request, &find(attribute, &request).await?))
}

async fn create(attribute: &'static Attribute, request: ObjectRequest) -> Result<Response, ApiError> {
    let Fields { required, optional, wildcard } = attribute.fields;
    request.parameters.reject_unknown(&[required, optional, wildcard])?;
    let (stanza, key) = attribute.new_place(&request.parameters)?;
    let (value, scope) = ((attribute.value)(&request.parameters)?, request.scope.clone());
    let made = request.change(CONF, move |objects, viewer| {
        match objects.setting([CONF, &stanza, &key], &scope, viewer) {
            Ok(_) => return Err(ObjectError::Exists(format!("{stanza}{SEPARATOR}{key}"))),
            Err(ObjectError::Unknown(_)) => {}
            Err(error) => return Err(error),
        }
        let settings = [(key.clone(), value)];
        match objects.create(CONF, &stanza, &settings, &scope, viewer) {
            // The stanza exists already, with other settings.
            Err(ObjectError::Exists(_)) => objects.edit(CONF, &stanza, &settings, &scope, viewer).map(drop)?,
            made => drop(made?),
        }
        objects.setting([CONF, &stanza, &key], &scope, viewer)
    });
    Ok((StatusCode::CREATED, answer(attribute, &request, &made.await?)).into_response())
}

async fn edit(attribute: &'static Attribute, request: ObjectRequest) -> Result<Response, ApiError> {
    request.parameters.reject_unknown(&[
        attribute.value_parameters(),
        attribute.fields.optional,
        attribute.fields.wildcard,
    ])?;
    let (stanza, key) = attribute.parse_name(&request.name)?;
    let (value, scope) = ((attribute.value)(&request.parameters)?, request.scope.clone());
    let changed = request
        .change(CONF, move |objects, viewer| objects.edit_setting([CONF, &stanza, &key], &value, &scope, viewer));
    Ok(answer(attribute, &request, &changed.await?))
}

async fn remove(attribute: &'static Attribute, request: ObjectRequest) -> Result<Response, ApiError> {
    let (stanza, key) = attribute.parse_name(&request.name)?;
    let scope = request.scope.clone();
    let gone =
        request.change(CONF, move |objects, viewer| objects.remove_setting([CONF, &stanza, &key], &scope, viewer));
    gone.await?;
    list(attribute, request.without_parameters()).await
}

async fn change_acl(
    attribute: &'static Attribute,
    request: &ObjectRequest,
    asked: AclChange,
) -> Result<ConfObject, ApiError> {
    let (stanza, key) = attribute.parse_name(&request.name)?;
    let scope = request.scope.clone();
    request
        .change(CONF, move |objects, viewer| objects.set_setting_acl([CONF, &stanza, &key], &asked, &scope, viewer))
        .await
}

async fn set_acl(attribute: &'static Attribute, request: ObjectRequest) -> Result<Response, ApiError> {
    let asked = request.required_acl_change()?;
    let changed = change_acl(attribute, &request, asked).await?;
    Ok(request.answer(attribute.title, path_of(attribute), acl_entry(attribute.entry(&changed))))
}

async fn move_entity(attribute: &'static Attribute, request: ObjectRequest) -> Result<Response, ApiError> {
    let asked = request.required_move(&find(attribute, &request).await?)?;
    let moved = change_acl(attribute, &request, asked).await?;
    Ok(answer(attribute, &request, &moved))
}

async fn refuse_switch(attribute: &'static Attribute, request: ObjectRequest) -> Result<Response, ApiError> {
    let found = find(attribute, &request).await?;
    Err(ApiError::bad_request(format!(
        "{}: a setting of [{}] in {CONF}.conf cannot be disabled alone; delete it, or move it to an app that is disabled",
        request.name, found.name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(pairs: &[(&str, &str)]) -> Parameters {
        Parameters::of(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn parameters_and_setting_values_round_trip() {
        let [extraction, alias, calculated, lookup, rename] = &ATTRIBUTES;
        let of = |attribute: &Attribute, pairs: &[(&str, &str)]| (attribute.value)(&form(pairs));
        assert_eq!(of(alias, &[("alias.a", "b"), ("alias.c d", "e")]).unwrap(), "a AS b \"c d\" AS e");
        assert_eq!(of(alias, &[("alias.a", "a"), ("alias.b", "c")]).unwrap(), "a AS a b AS c");
        assert!(of(alias, &[]).is_err() && of(alias, &[("alias.a", "\"")]).is_err());
        for name in ["as", "AsNew", " OUTPUT", "outputnew", "a,b"] {
            assert!(
                of(alias, &[("alias.a", name)]).is_err()
                    && of(alias, &[(format!("alias.{name}").as_str(), "a")]).is_err()
            );
        }
        let mut members = Map::new();
        (alias.members)("FIELDALIAS-x", "a AS b", &mut members);
        assert_eq!(members["alias.a"], "b");
        let words = split_words("t,a AS b,\"c d\",as as e");
        assert_eq!(pairs_of(&words), [("t", "t"), ("a", "b"), ("c d", "as"), ("e", "e")]);
        // Longer values than a request may have are still read in linear time.
        assert_eq!(pairs_of(&split_words(&"a,".repeat(500_000))).len(), 500_000);
        let input =
            [("transform", "t"), ("lookup.field.input.a", "b"), ("lookup.field.output.c", "d"), ("overwrite", "0")];
        assert_eq!(of(lookup, &input).unwrap(), "t a AS b OUTPUTNEW c AS d");
        assert_eq!(of(lookup, &input[..2]).unwrap(), "t a AS b");
        assert!(of(calculated, &[("value", "a+")]).is_err() && of(calculated, &[("value", "a+1")]).is_ok());
        assert!(of(rename, &[("value", " ")]).is_err());
        let new = form(&[("name", "x"), ("stanza", "s"), ("type", "report")]);
        assert_eq!(extraction.new_place(&new).unwrap(), ("s".to_owned(), "REPORT-x".to_owned()));
        assert!(extraction.new_place(&form(&[("name", "x"), ("stanza", "s"), ("type", "no")])).is_err());
    }

    #[test]
    fn names_of_entities_are_stanzas_and_settings() {
        let [extraction, .., rename] = &ATTRIBUTES;
        let place = ("a : b".to_owned(), "EXTRACT-x".to_owned());
        assert_eq!(extraction.parse_name(&extraction.name("a : b", "EXTRACT-x")).unwrap(), place);
        assert!(extraction.parse_name("a : EVAL-x").is_err() && extraction.parse_name("a").is_err());
        assert_eq!(rename.parse_name("old").unwrap(), ("old".to_owned(), "rename".to_owned()));
    }
}
