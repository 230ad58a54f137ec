//! Splunk's representation of entities: an Atom feed or its JSON equivalent.
//!
//! [`Feed`] and [`Entry`] are plain data. The content of an entity is a JSON value, which Atom writes as `s:dict`,
//! `s:list` and text, with 1 and 0 for true and false. Members and their order follow Splunk (REST API Reference
//! Manual, "Response elements"). Not here: search results (wire) and errors (message).

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use quarry_apps::objects::ObjectSharing;
use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_search::API_VERSION;
use quarry_search::cell::format_iso_time;
use serde_json::{Map, Value, json};

use crate::message::escape_xml;

const NAMESPACES: &str = "xmlns=\"http://www.w3.org/2005/Atom\" xmlns:s=\"http://dev.splunk.com/ns/rest\" \
                          xmlns:opensearch=\"http://a9.com/-/spec/opensearch/1.1/\"";

/// Format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Atom,
    Json,
}

impl Form {
    /// The format requested by `output_mode`; Atom unless it is JSON.
    pub(crate) fn of(output_mode: Option<&str>) -> Form {
        if output_mode.is_some_and(|mode| mode.starts_with("json")) { Form::Json } else { Form::Atom }
    }

    /// An answer in this format.
    pub(crate) fn answer(self, body: String) -> Response {
        let kind = match self {
            Form::Atom => "text/xml; charset=UTF-8",
            Form::Json => "application/json; charset=UTF-8",
        };
        ([(header::CONTENT_TYPE, kind)], body).into_response()
    }
}

/// An entity of a collection, as shown to clients.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Name in the collection, by default also the last part of the entity's path.
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) author: String,
    pub(crate) app: String,
    /// Owner, sharing and roles.
    pub(crate) acl: Acl,
    /// Parameters that can change the entity, if known.
    pub(crate) fields: Option<Fields>,
    /// Time of the entity's last change.
    pub(crate) updated: TimeNs,
    /// Links to actions: relation and path.
    pub(crate) links: Vec<(&'static str, String)>,
    pub(crate) content: Map<String, Value>,
}

/// Permissions of an entity.
#[derive(Clone, Debug)]
pub(crate) struct Acl {
    pub(crate) sharing: ObjectSharing,
    /// Roles that may read the entity, or the owner's name if only the owner may read the entity.
    pub(crate) readers: Vec<String>,
    /// Roles that may change the entity.
    pub(crate) writers: Vec<String>,
    /// Whether the caller may change the entity.
    pub(crate) can_write: bool,
    /// Whether the caller may remove the entity.
    pub(crate) can_remove: bool,
    /// Whether the sharing of the entity can be changed.
    pub(crate) can_share: bool,
    /// Whether the entity can be made private, if its sharing can be changed.
    pub(crate) can_be_private: bool,
    /// Whether the JSON content has a member for the permissions, with the value null.
    pub(crate) is_in_content: bool,
}

impl Acl {
    /// Permissions of an entity that belongs to the node: everyone may read it, and nobody may change it.
    pub(crate) fn for_node() -> Acl {
        let (readers, sharing) = (vec!["*".to_owned()], ObjectSharing::System);
        let writers = Vec::new();
        Acl {
            sharing,
            readers,
            writers,
            can_write: false,
            can_remove: false,
            can_share: false,
            can_be_private: false,
            is_in_content: true,
        }
    }

    /// Permissions of an entity that only its owner may read, such as a job or a session.
    pub(crate) fn for_user(owner: &str, can_write: bool) -> Acl {
        let only = vec![owner.to_owned()];
        let (readers, writers) = (only.clone(), only);
        let sharing = ObjectSharing::Global;
        Acl {
            sharing,
            readers,
            writers,
            can_write,
            can_remove: can_write,
            can_share: false,
            can_be_private: false,
            is_in_content: false,
        }
    }
}

/// Parameters that change an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) required: &'static [&'static str],
    pub(crate) optional: &'static [&'static str],
    /// Patterns of the names of further parameters.
    pub(crate) wildcard: &'static [&'static str],
}

/// Entities of a collection.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    pub(crate) title: Cow<'static, str>,
    /// Path of the collection.
    pub(crate) path: String,
    pub(crate) entries: Vec<Entry>,
    /// Total number of entities in the collection, of which `entries` may be one page.
    pub(crate) total: usize,
    pub(crate) offset: usize,
    pub(crate) per_page: usize,
    /// An additional message.
    pub(crate) notice: Option<Cow<'static, str>>,
    /// Whether the content of an entry is written as plain text, taken from the member [`PLAIN_CONTENT`] (empty if it
    /// is missing), instead of as members.
    pub(crate) is_plain: bool,
}

/// The member of the content that stands for the permissions.
pub(crate) const ACL_MEMBER: &str = "eai:acl";
/// The member with the messages of a job.
const MESSAGES_MEMBER: &str = "messages";
/// The number of entities on a page by default (Splunk's).
pub(crate) const PAGE_SIZE_DEFAULT: usize = 30;
/// The member that holds the content of an entry if the content is plain text.
pub(crate) const PLAIN_CONTENT: &str = "";

/// A name encoded as a path segment. A slash is encoded twice, as in Splunk: clients decode a link once and use it as a
/// path.
pub(crate) fn escape_segment(name: &str) -> String {
    form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20").replace("%2F", "%252F")
}

/// A time of an entity, truncated to milliseconds as in Splunk.
fn format_time(time: TimeNs) -> String {
    format_iso_time(time - time.rem_euclid(NS_PER_SEC / 1_000), &jiff::tz::TimeZone::UTC)
}

impl Entry {
    /// The permissions as JSON.
    pub(crate) fn acl(&self) -> Value {
        let Acl { sharing, readers, writers, can_write, can_remove, can_share, can_be_private, .. } = &self.acl;
        let perms = match sharing {
            ObjectSharing::User => Value::Null,
            _ => json!({ "read": readers, "write": writers }),
        };
        json!({
            "app": self.app, "owner": self.author, "sharing": sharing.word(), "modifiable": can_write, "can_list": true,
            "can_write": can_write, "removable": can_remove, "can_share_app": can_share, "can_share_global": can_share,
            "can_share_user": *can_share && *can_be_private, "can_change_perms": can_share, "perms": perms,
        })
    }

    /// The content in JSON, which differs from the content in Atom: the permissions are a member of the entry, and the
    /// messages of a job are a list.
    fn json_content(&self) -> Map<String, Value> {
        let mut content = self.content.clone();
        if self.acl.is_in_content {
            content.insert(ACL_MEMBER.to_owned(), Value::Null);
        }
        if let Some(messages) = content.get_mut(MESSAGES_MEMBER)
            && let Value::Object(by_type) = messages
        {
            let texts = by_type.iter().filter_map(|(kind, texts)| Some((kind, texts.as_array()?)));
            let list = texts.flat_map(|(kind, texts)| {
                texts.iter().map(move |text| json!({ "type": kind.to_uppercase(), "text": text }))
            });
            *messages = Value::Array(list.collect());
        }
        content
    }

    fn json(&self, base: &str) -> Value {
        let mut links = Map::new();
        links.insert("alternate".to_owned(), self.path.as_str().into());
        links.extend(self.links.iter().map(|(relation, path)| ((*relation).to_owned(), path.as_str().into())));
        let mut entry = json!({
            "name": self.name, "id": format!("{base}{}", self.path), "updated": format_time(self.updated), "links": links, "author": self.author,
            "acl": self.acl(), "content": self.json_content(),
        });
        if let Some(Fields { required, optional, wildcard }) = self.fields {
            entry["fields"] = json!({ "required": required, "optional": optional, "wildcard": wildcard });
        }
        entry
    }

    /// Writes the XML element; `namespaces` are the namespace attributes of a root element, or empty.
    fn write_xml(&self, (namespaces, base): (&str, &str), form: ContentForm, out: &mut String) {
        out.push_str(&format!(
            "<entry{namespaces}>\n  <title>{}</title>\n  <id>{}{}</id>\n  <updated>{}</updated>\n  <link href=\"{2}\" \
             rel=\"alternate\"/>\n  <author>\n    <name>{}</name>\n  </author>\n  <published>{3}</published>\n",
            escape_xml(&self.name),
            escape_xml(base),
            escape_xml(&self.path),
            format_time(self.updated),
            escape_xml(&self.author),
        ));
        for (relation, path) in &self.links {
            out.push_str(&format!("  <link href=\"{}\" rel=\"{relation}\"/>\n", escape_xml(path)));
        }
        if form == ContentForm::Text {
            let text = self.content.get(PLAIN_CONTENT).and_then(Value::as_str).unwrap_or_default();
            out.push_str(&format!("  <content type=\"text\">{}</content>\n</entry>\n", escape_xml(text)));
            return;
        }
        let mut content = self.content.clone();
        content.insert(ACL_MEMBER.to_owned(), self.acl());
        if let Some(Fields { required, optional, wildcard }) = self.fields {
            let attributes =
                json!({ "requiredFields": required, "optionalFields": optional, "wildcardFields": wildcard });
            content.insert("eai:attributes".to_owned(), attributes);
        }
        out.push_str("  <content type=\"text/xml\">\n");
        write_value(&Value::Object(content), out);
        out.push_str("  </content>\n</entry>\n");
    }

    /// An answer with only this entity: in Atom the entry itself, in JSON a feed with one entry.
    pub(crate) fn answer(self, title: &'static str, form: Form) -> Response {
        Feed::of(title, self.path.clone(), vec![self]).answer_as(form, form == Form::Atom)
    }
}

/// Written form of an entry's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentForm {
    Members,
    Text,
}

/// Response extension with the entities of an answer; [`write_feeds`](crate::feed_answers::write_feeds) writes the body.
#[derive(Clone, Debug)]
pub(crate) struct AnsweredFeed {
    feed: Arc<Feed>,
    form: Form,
    /// True if the answer is the only entity itself, without a feed around it.
    is_bare: bool,
}

/// Facts about a request that the body of its answer repeats.
#[derive(Clone, Debug)]
pub(crate) struct FeedContext {
    /// Address of the node as the client wrote it, such as `https://host:8089`; empty if unknown. It precedes the paths
    /// in ids.
    pub(crate) base: String,
    /// Time of the answer.
    pub(crate) now: TimeNs,
    /// Links to actions of the collection: relation and path.
    pub(crate) links: Vec<(&'static str, String)>,
    /// Path of the collection, in the namespace of the request.
    pub(crate) path: String,
}

impl AnsweredFeed {
    /// The title of the collection, and the entity, if the answer is a feed with exactly one entity.
    pub(crate) fn only_entry(&self) -> Option<(&Cow<'static, str>, &Entry)> {
        let [entry] = self.feed.entries.as_slice() else { return None };
        (!self.is_bare).then_some((&self.feed.title, entry))
    }

    /// Path of the collection.
    pub(crate) fn path(&self) -> &str {
        &self.feed.path
    }

    /// The body of the answer.
    pub(crate) fn body(&self, context: &FeedContext) -> String {
        match (self.form, self.feed.entries.first()) {
            (Form::Json, _) => self.feed.json(context).to_string(),
            (Form::Atom, Some(only)) if self.is_bare => {
                let mut body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
                let namespaces = format!(" {NAMESPACES}");
                only.write_xml((&namespaces, &context.base), ContentForm::Members, &mut body);
                body
            }
            (Form::Atom, _) => self.feed.xml(context),
        }
    }
}

impl Feed {
    /// All entities of a collection.
    pub(crate) fn of(title: impl Into<Cow<'static, str>>, path: String, entries: Vec<Entry>) -> Feed {
        let (total, per_page) = (entries.len(), PAGE_SIZE_DEFAULT);
        Feed { title: title.into(), path, total, offset: 0, per_page, notice: None, is_plain: false, entries }
    }

    pub(crate) fn answer(self, form: Form) -> Response {
        self.answer_as(form, false)
    }

    fn answer_as(self, form: Form, is_bare: bool) -> Response {
        let mut answer = form.answer(String::new());
        answer.extensions_mut().insert(AnsweredFeed { feed: Arc::new(self), form, is_bare });
        answer
    }

    fn json(&self, context: &FeedContext) -> Value {
        let FeedContext { base, now, links, path } = context;
        let links = links.iter().map(|(relation, path)| ((*relation).to_owned(), path.as_str().into()));
        json!({
            "links": links.collect::<Map<String, Value>>(), "origin": format!("{base}{path}"),
            "updated": format_time(*now),
            "generator": { "build": env!("CARGO_PKG_VERSION"), "version": API_VERSION },
            "entry": self.entries.iter().map(|entry| self.entry_json(entry, base)).collect::<Vec<_>>(),
            "paging": { "total": self.total, "perPage": self.per_page, "offset": self.offset },
            "messages": self.notice.iter().map(|text| json!({ "type": "WARN", "text": text })).collect::<Vec<_>>(),
        })
    }

    fn entry_json(&self, entry: &Entry, base: &str) -> Value {
        let mut json = entry.json(base);
        if self.is_plain
            && let Some(members) = json.as_object_mut()
        {
            members.remove("content");
            members.extend(entry.content.get(PLAIN_CONTENT).map(|text| ("content".to_owned(), text.clone())));
        }
        json
    }

    fn xml(&self, context: &FeedContext) -> String {
        let FeedContext { base, now, links, path } = context;
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<feed {NAMESPACES}>\n  <title>{}</title>\n  <id>{}{}</id>\n  \
             <updated>{}</updated>\n  <generator build=\"{}\" version=\"{API_VERSION}\"/>\n  <author>\n    \
             <name>Quarry</name>\n  </author>\n",
            self.title,
            escape_xml(base),
            escape_xml(path),
            format_time(*now),
            env!("CARGO_PKG_VERSION"),
        );
        for (relation, path) in links {
            out.push_str(&format!("  <link href=\"{}\" rel=\"{relation}\"/>\n", escape_xml(path)));
        }
        out.push_str(&format!(
            "  <opensearch:totalResults>{}</opensearch:totalResults>\n  \
             <opensearch:itemsPerPage>{}</opensearch:itemsPerPage>\n  <opensearch:startIndex>{}</opensearch:startIndex>\n  \
             {}\n",
            self.total,
            self.per_page,
            self.offset,
            match &self.notice {
                None => "<s:messages/>".to_owned(),
                Some(text) => format!("<s:messages><s:msg type=\"WARN\">{}</s:msg></s:messages>", escape_xml(text)),
            },
        ));
        let form = if self.is_plain { ContentForm::Text } else { ContentForm::Members };
        self.entries.iter().for_each(|entry| entry.write_xml(("", base), form, &mut out));
        out.push_str("</feed>\n");
        out
    }
}

/// A value in Atom's content form.
fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => {}
        Value::Bool(flag) => out.push(if *flag { '1' } else { '0' }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => out.push_str(&escape_xml(text)),
        Value::Array(values) => {
            out.push_str("<s:list>");
            for value in values {
                out.push_str("<s:item>");
                write_value(value, out);
                out.push_str("</s:item>");
            }
            out.push_str("</s:list>");
        }
        Value::Object(members) => {
            out.push_str("<s:dict>\n");
            for (name, value) in members {
                out.push_str(&format!("<s:key name=\"{}\">", escape_xml(name)));
                write_value(value, out);
                out.push_str("</s:key>\n");
            }
            out.push_str("</s:dict>\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let content = json!({ "isDone": true, "count": 3, "roles": ["a", "b<c"], "none": null, "text": "x & \"y\"" });
        let Value::Object(content) = content else { panic!("an object") };
        let path = "/services/things/a%20b".to_owned();
        let links = vec![("remove", path.clone())];
        let (author, app) = ("eva".to_owned(), "search".to_owned());
        Entry {
            name: "a b".to_owned(),
            path,
            author,
            app,
            acl: Acl::for_user("eva", true),
            fields: None,
            updated: 0,
            links,
            content,
        }
    }

    fn body(response: &Response) -> String {
        let (base, links) = ("https://host:8089".to_owned(), vec![("create", "/services/things/_new".to_owned())]);
        let feed = response.extensions().get::<AnsweredFeed>().unwrap();
        feed.body(&FeedContext { base, now: 1_500_000_000, links, path: feed.path().to_owned() })
    }

    #[test]
    fn an_entity_is_an_entry_in_atom_and_a_feed_in_json() {
        let xml = body(&entry().answer("things", Form::of(None)));
        assert!(
            xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<entry xmlns=\"http://www.w3.org/2005/Atom\"")
        );
        for part in [
            "<title>a b</title>",
            "<s:key name=\"isDone\">1</s:key>",
            "<s:key name=\"roles\"><s:list><s:item>a</s:item><s:item>b&lt;c</s:item></s:list></s:key>",
            "<s:key name=\"none\"></s:key>",
            "<s:key name=\"text\">x &amp; &quot;y&quot;</s:key>",
            "<s:key name=\"eai:acl\"><s:dict>",
            "<link href=\"/services/things/a%20b\" rel=\"remove\"/>",
            "<id>https://host:8089/services/things/a%20b</id>",
            "<link href=\"/services/things/a%20b\" rel=\"alternate\"/>",
        ] {
            assert!(xml.contains(part), "{part} in {xml}");
        }
        let json: Value = serde_json::from_str(&body(&entry().answer("things", Form::of(Some("json"))))).unwrap();
        assert_eq!(json["entry"][0]["content"]["isDone"], true);
        assert_eq!(json["entry"][0]["id"], "https://host:8089/services/things/a%20b");
        assert_eq!(json["entry"][0]["links"]["alternate"], "/services/things/a%20b");
        assert_eq!(json["links"], json!({ "create": "/services/things/_new" }));
        assert_eq!(json["updated"], "1970-01-01T00:00:01.500+00:00");
        assert_eq!(
            (json["paging"]["total"].as_u64(), json["entry"][0]["acl"]["owner"].as_str()),
            (Some(1), Some("eva"))
        );
    }

    #[test]
    fn feeds_report_the_number_of_entries() {
        let feed = Feed { total: 7, offset: 2, ..Feed::of("things", "/services/things".to_owned(), vec![entry()]) };
        let xml = body(&feed.answer(Form::Atom));
        for part in [
            "<opensearch:totalResults>7<",
            "<opensearch:startIndex>2<",
            "<opensearch:itemsPerPage>30<",
            "<entry>",
            "<id>https://host:8089/services/things</id>",
            "<link href=\"/services/things/_new\" rel=\"create\"/>",
        ] {
            assert!(xml.contains(part), "{part} in {xml}");
        }
    }
}
