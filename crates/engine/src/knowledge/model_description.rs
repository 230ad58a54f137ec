//! Data models in the form that Splunk's REST interface returns and accepts.
//!
//! For each object, a description adds everything that the definition leaves to its ancestors: the path of objects
//! down to the object (`lineage`), inherited fields, constraints and calculations with the path of their owner, and
//! searches. A client may send such a description; [`stored_model`] keeps only the parts that define the model.
//!
//! Not here: reading definitions for searches ([`super::model`]), storing definitions (`quarry_apps`).

use quarry_stdx::Fault;
use serde_json::{Map, Value, json};

use super::model::{Calculation, DataModel, DataObject, Grouping, is_base};

/// Members of an object that are computed from other members and not stored.
const COMPUTED_MEMBERS: [&str; 7] = [
    "lineage",
    "children",
    "previewSearch",
    "objectSearch",
    "objectSearchNoFields",
    "autoextractSearch",
    "tsidxNamespace",
];
/// Members of a model that are not stored.
const COMPUTED_MODEL_MEMBERS: [&str; 2] = ["objectSummary", "objectNameList"];
/// Fields that events have even if no definition lists them, with their types.
const EVENT_FIELDS: [(&str, &str); 4] =
    [("_time", "timestamp"), ("host", "string"), ("source", "string"), ("sourcetype", "string")];
/// Base objects, each with the member of `objectSummary` that counts the objects derived from it.
const BASE_NAMES: [(&str, &str); 3] =
    [("BaseEvent", "Event-Based"), ("BaseTransaction", "Transaction-Based"), ("BaseSearch", "Search-Based")];

/// The members of a JSON list that are objects.
fn items<'j>(json: &'j Value, key: &str) -> impl Iterator<Item = &'j Map<String, Value>> {
    json[key].as_array().map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_object)
}

/// The last object of an owner's path.
fn owner_of(item: &Map<String, Value>) -> Option<&str> {
    let owner = item.get("owner")?.as_str()?;
    owner.rsplit('.').next().filter(|owner| !owner.is_empty())
}

/// Converts a client's description of a model to the stored definition, without inherited or computed parts. Fails if
/// the description is not a model.
pub fn stored_model(name: &str, description: &str) -> Result<String, Fault> {
    let wrong = |text: &str| Fault::invalid(format!("data model {name}: {text}"));
    let json: Value = serde_json::from_str(description).map_err(|error| wrong(&format!("it is not JSON: {error}")))?;
    let Value::Object(mut model) = json else { return Err(wrong("it is not a JSON object")) };
    COMPUTED_MODEL_MEMBERS.iter().for_each(|key| drop(model.remove(*key)));
    model.insert("modelName".to_owned(), name.into());
    let objects = model.entry("objects").or_insert_with(|| json!([]));
    let objects = objects.as_array_mut().ok_or_else(|| wrong("objects is not a list"))?;
    for object in objects {
        let Value::Object(object) = object else { return Err(wrong("an element of objects is not a JSON object")) };
        COMPUTED_MEMBERS.iter().for_each(|key| drop(object.remove(*key)));
        let own = object.get("objectName").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_own = |item: &Value| {
            let owner = item.as_object().and_then(owner_of);
            owner.is_none_or(|owner| owner == own || is_base(owner))
        };
        for key in ["fields", "constraints", "calculations"] {
            if let Some(Value::Array(list)) = object.get_mut(key) {
                list.retain(is_own);
            }
        }
    }
    let text = Value::Object(model).to_string();
    let known = DataModel::of_json(name, &text)?;
    for object in &known.objects {
        known.chain(&object.name)?;
        if known.objects.iter().filter(|other| other.name == object.name).count() > 1 {
            return Err(wrong(&format!("it has two objects {}", object.name)));
        }
    }
    Ok(text)
}

/// The description of a model with this definition.
pub fn described_model(name: &str, text: &str) -> Result<Value, Fault> {
    let model = DataModel::of_json(name, text)?;
    let json: Value = serde_json::from_str(text)
        .map_err(|error| Fault::invalid(format!("data model {name} is not JSON: {error}")))?;
    let mut objects = Vec::new();
    for object in &model.objects {
        objects.push(described_object(&model, object, &json)?);
    }
    let mut described = concise_description(&model, &json);
    described["objects"] = Value::Array(objects);
    Ok(described)
}

/// The description of a model without its objects.
pub fn model_headline(name: &str, text: &str) -> Result<Value, Fault> {
    let model = DataModel::of_json(name, text)?;
    let json: Value = serde_json::from_str(text).unwrap_or_default();
    Ok(concise_description(&model, &json))
}

fn concise_description(model: &DataModel, json: &Value) -> Value {
    let base_of =
        |object: &DataObject| model.chain(&object.name).ok().and_then(|chain| Some(chain.first()?.parent.clone()));
    let bases: Vec<String> = model.objects.iter().filter_map(base_of).collect();
    let counts =
        BASE_NAMES.map(|(base, shown)| (shown.to_owned(), bases.iter().filter(|own| *own == base).count().into()));
    let mut summary = Map::from_iter(counts);
    // Splunk lists these two kinds, although no object is of either kind.
    for none in ["Interfaces", "Interface Implementations"] {
        summary.insert(none.to_owned(), 0.into());
    }
    let names: Vec<&str> = model.objects.iter().map(|object| object.name.as_str()).collect();
    json!({
        "modelName": model.name, "displayName": json["displayName"].as_str().unwrap_or_default(),
        "description": json["description"].as_str().unwrap_or_default(), "objectSummary": summary,
        "objectNameList": names,
    })
}

fn described_object(model: &DataModel, object: &DataObject, json: &Value) -> Result<Value, Fault> {
    let chain = model.chain(&object.name)?;
    let defined = |name: &str| {
        let mut objects = json["objects"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
        objects.find(|object| object["objectName"] == name)
    };
    let mut described = defined(&object.name).and_then(Value::as_object).cloned().unwrap_or_default();
    let base = chain.first().map_or("BaseEvent", |root| root.parent.as_str()).to_owned();
    let (mut fields, mut constraints, mut calculations) = (Vec::new(), Vec::new(), Vec::new());
    let mut path = String::new();
    for member in &chain {
        path = if path.is_empty() { member.name.clone() } else { format!("{path}.{}", member.name) };
        let Some(definition) = defined(&member.name) else { continue };
        let owned = |item: &Map<String, Value>| {
            let owner = owner_of(item).filter(|owner| is_base(owner)).unwrap_or(&path).to_owned();
            Map::from_iter(item.clone().into_iter().chain([("owner".to_owned(), owner.into())]))
        };
        fields.extend(items(definition, "fields").map(|field| described_field(owned(field))));
        constraints.extend(items(definition, "constraints").map(|constraint| Value::Object(owned(constraint))));
        for (at, calculation) in items(definition, "calculations").enumerate() {
            calculations.push(described_calculation(owned(calculation), &format!("{path}.{at}")));
        }
    }
    let has = |fields: &[Value], name: &str| fields.iter().any(|field| field["fieldName"] == name);
    let base_fields = EVENT_FIELDS.iter().filter(|(name, _)| base != "BaseSearch" && !has(&fields, name));
    let base_fields: Vec<Value> = base_fields.map(|(name, kind)| plain_field(name, kind, &base)).collect();
    if !has(&fields, &object.name) {
        let mut count = plain_field(&object.name, "objectCount", &path);
        count["displayName"] = described.get("displayName").cloned().unwrap_or_else(|| object.name.as_str().into());
        fields.push(count);
    }
    // The count fields of ancestors are not inherited.
    fields.retain(|field| field["type"] != "objectCount" || field["fieldName"] == object.name);
    let mut known = std::collections::BTreeSet::new();
    let all = base_fields.into_iter().chain(fields);
    let fields: Vec<Value> = all.filter(|field| known.insert(field["fieldName"].to_string())).collect();
    let children = model.objects.iter().filter(|child| child.parent == object.name).map(|child| child.name.as_str());
    let children: Vec<&str> = children.collect();
    let search = object_search(model, &chain)?;
    let names: Vec<String> = fields
        .iter()
        .filter(|field| field["type"] != "objectCount")
        .chain(calculations.iter().flat_map(|calculation| calculation["outputFields"].as_array().into_iter().flatten()))
        .filter_map(|field| Some(format!("\"{}\"", field["fieldName"].as_str()?)))
        .collect();
    let members = json!({
        "objectName": object.name, "parentName": object.parent, "lineage": path, "fields": fields,
        "constraints": constraints, "calculations": calculations, "children": children, "previewSearch": search,
        "objectSearchNoFields": search, "objectSearch": format!("{search} | fields {}", names.join(", ")),
    });
    for (key, text) in [("displayName", object.name.as_str()), ("comment", "")] {
        described.entry(key).or_insert_with(|| text.into());
    }
    described.extend(if let Value::Object(members) = members { members } else { Map::new() });
    Ok(Value::Object(described))
}

/// A field that is not in any definition.
fn plain_field(name: &str, kind: &str, owner: &str) -> Value {
    let members = [("fieldName", name), ("type", kind), ("owner", owner)];
    let members = members.map(|(key, text)| (key.to_owned(), Value::from(text)));
    let mut field = described_field(Map::from_iter(members));
    field["editable"] = false.into();
    field
}

/// A field with all its members.
fn described_field(mut field: Map<String, Value>) -> Value {
    let name = field.get("fieldName").cloned().unwrap_or_default();
    let texts = [("displayName", name), ("type", "string".into()), ("comment", "".into()), ("fieldSearch", "".into())];
    for (key, value) in texts {
        field.entry(key).or_insert(value);
    }
    for (key, flag) in [("required", false), ("multivalue", false), ("hidden", false), ("editable", true)] {
        field.entry(key).or_insert(flag.into());
    }
    Value::Object(field)
}

fn described_calculation(mut calculation: Map<String, Value>, id: &str) -> Value {
    let owner = calculation.get("owner").cloned().unwrap_or_default();
    calculation.entry("calculationID").or_insert_with(|| id.into());
    calculation.entry("comment").or_insert_with(|| "".into());
    calculation.entry("editable").or_insert(true.into());
    let is_lookup = calculation
        .get("calculationType")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind.eq_ignore_ascii_case("lookup"));
    if is_lookup && !calculation.contains_key("lookupInputs") {
        // A definition with one input stores the input as plain members, but clients expect a list.
        let input = calculation.get("inputField").cloned().unwrap_or_default();
        let column = calculation.get("lookupField").cloned().unwrap_or_else(|| input.clone());
        calculation.insert("lookupInputs".to_owned(), json!([{ "lookupField": column, "inputField": input }]));
    }
    if let Some(Value::Array(outputs)) = calculation.get_mut("outputFields") {
        for output in outputs {
            if let Value::Object(field) = output {
                field.insert("owner".to_owned(), owner.clone());
                *output = described_field(std::mem::take(field));
            }
        }
    }
    Value::Object(calculation)
}

/// The search for an object's events, with its calculated fields.
fn object_search(model: &DataModel, chain: &[&DataObject]) -> Result<String, Fault> {
    let mut text = match chain.first().map(|root| (&root.base_search, &root.grouping)) {
        Some((Some(search), _)) => format!("| {}", search.trim().trim_start_matches('|').trim_start()),
        Some((None, Some(grouping))) => transaction_search(model, grouping)?,
        _ => String::new(),
    };
    for object in chain {
        let conditions: Vec<String> = object.constraints.iter().map(|condition| format!("({condition})")).collect();
        if !conditions.is_empty() || text.is_empty() {
            let condition = if conditions.is_empty() { "*".to_owned() } else { conditions.join(" ") };
            text.push_str(if text.is_empty() { "| search " } else { " | search " });
            text.push_str(&condition);
        }
        object.calculations.iter().for_each(|calculation| text.push_str(&format!(" | {}", calculation.command_text())));
    }
    Ok(text)
}

/// The search of a root transaction object: the events of the grouped objects, through `transaction`.
fn transaction_search(model: &DataModel, grouping: &Grouping) -> Result<String, Fault> {
    let (mut conditions, mut commands) = (Vec::new(), String::new());
    for chain in model.grouped(grouping)? {
        let parts = chain.iter().flat_map(|object| &object.constraints).map(|text| format!("({text})"));
        let parts: Vec<String> = parts.collect();
        conditions.push(if parts.is_empty() { "(*)".to_owned() } else { format!("({})", parts.join(" ")) });
        for (_, calculation) in grouping.calculations_before(&chain) {
            commands.push_str(&format!(" | {}", calculation.command_text()));
        }
    }
    let fields: Vec<String> = grouping.fields.iter().map(|field| format!("\"{field}\"")).collect();
    let options: String = grouping.options().map(|(name, value)| format!(" {name}={value}")).collect();
    Ok(format!("| search {}{commands} | transaction {}{options}", conditions.join(" OR "), fields.join(" ")))
}

impl Calculation {
    fn command_text(&self) -> String {
        let quoted = |name: &str| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
        let pairs = |pairs: &[(String, String)]| {
            let pair = |(column, field): &(String, String)| format!("{} AS {}", quoted(column), quoted(field));
            pairs.iter().map(pair).collect::<Vec<_>>().join(" ")
        };
        match self {
            Calculation::Eval { field, expression } => format!("eval {}={expression}", quoted(field)),
            Calculation::Rex { input, pattern, .. } => {
                format!("rex field={} {}", quoted(input), quoted_pattern(pattern))
            }
            Calculation::GeoIp { input, .. } => format!("iplocation {}", quoted(input)),
            Calculation::Lookup { table, inputs, outputs } => {
                format!("lookup {} {} OUTPUT {}", quoted(table), pairs(inputs), pairs(outputs))
            }
        }
    }
}

/// A regular expression in quotation marks; its backslashes stay as they are.
fn quoted_pattern(pattern: &str) -> String {
    format!("\"{}\"", pattern.replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::common_information_model::MODELS;

    const SENT: &str = r#"{"displayName": "Shop", "objects": [
        {"objectName": "Orders", "parentName": "BaseEvent", "constraints": [{"search": "index=shop"}],
         "fields": [{"fieldName": "_time", "owner": "BaseEvent"}, {"fieldName": "price", "type": "number", "owner": "Orders"}],
         "calculations": [{"calculationType": "Eval", "expression": "price*2", "outputFields": [{"fieldName": "twice"}]}]},
        {"objectName": "Large", "parentName": "Orders", "lineage": "Orders.Large",
         "constraints": [{"search": "index=shop", "owner": "Orders"}, {"search": "price>9", "owner": "Orders.Large"}],
         "fields": [{"fieldName": "price", "owner": "Orders"}], "calculations": []}]}"#;

    #[test]
    fn inherited_members_are_described_but_not_stored() {
        let stored = stored_model("shop", SENT).unwrap();
        let json: Value = serde_json::from_str(&stored).unwrap();
        assert_eq!(json["objects"][1]["constraints"], json!([{ "search": "price>9", "owner": "Orders.Large" }]));
        assert_eq!((&json["objects"][1]["fields"], &json["objects"][1]["lineage"]), (&json!([]), &Value::Null));
        let described = described_model("shop", &stored).unwrap();
        let large = &described["objects"][1];
        assert_eq!(large["lineage"], "Orders.Large");
        let owners: Vec<&Value> = large["constraints"].as_array().unwrap().iter().map(|item| &item["owner"]).collect();
        assert_eq!(owners, ["Orders", "Orders.Large"]);
        let fields: Vec<&str> =
            large["fields"].as_array().unwrap().iter().filter_map(|field| field["fieldName"].as_str()).collect();
        assert_eq!(fields, ["host", "source", "sourcetype", "_time", "price", "Large"]);
        assert_eq!(large["calculations"][0]["outputFields"][0]["owner"], "Orders");
        assert_eq!(large["previewSearch"], "| search (index=shop) | eval \"twice\"=price*2 | search (price>9)");
        assert_eq!(described["objectSummary"]["Event-Based"], 2);
        let lookup = json!({ "calculationType": "Lookup", "lookupName": "t", "inputField": "host", "owner": "Orders" });
        let lookup = described_calculation(lookup.as_object().cloned().unwrap(), "Orders.0");
        assert_eq!(lookup["lookupInputs"], json!([{ "lookupField": "host", "inputField": "host" }]));
        // A described model that is sent back is stored as the same model.
        assert_eq!(described_model("shop", &stored_model("shop", &described.to_string()).unwrap()).unwrap(), described);
    }

    #[test]
    fn searches_of_bundled_models_can_be_parsed() {
        for (name, text) in MODELS {
            for object in described_model(name, text).unwrap()["objects"].as_array().unwrap() {
                let search = object["objectSearch"].as_str().unwrap();
                // Macros of constraints are defined by apps.
                let parsed = quarry_spl::parse(search);
                assert!(parsed.is_ok() || search.contains('`'), "{name}: {search}: {:?}", parsed.diagnostics);
            }
        }
    }

    #[test]
    fn invalid_models_are_refused() {
        for (text, says) in [
            ("{", "not JSON"),
            ("[]", "not a JSON object"),
            (r#"{"objects": {}}"#, "not a list"),
            (r#"{"objects": [{"objectName": "A", "parentName": "B"}]}"#, "no object B"),
            (r#"{"objects": [{"objectName": "A"}, {"objectName": "A"}]}"#, "two objects A"),
        ] {
            let fault = stored_model("m", text).unwrap_err().to_string();
            assert!(fault.contains(says), "{text}: {fault}");
        }
        assert!(stored_model("m", "{}").is_ok(), "a model without objects");
    }
}
