//! Data models as defined by apps: a JSON file with objects, each with constraints, fields and calculations.
//!
//! An object extends its parent: constraints are combined with AND, calculations run after those of the parent.
//! Constraints and expressions are kept as text here; [`super::object`] turns them into commands.

use std::collections::BTreeSet;

use quarry_spl::analyse::expr_fields;
use quarry_stdx::Fault;
use serde_json::Value;

/// Maximum length of a chain of an object and its ancestors.
const DEPTH_MAX: usize = 32;
/// Root parents, which are not objects of a model.
const BASES: [&str; 3] = ["BaseEvent", "BaseSearch", "BaseTransaction"];
/// Owner of the fields of transactions; unlike the root parents, it is never the parent of an object.
const BASE_EVENT_SET: &str = "BaseEventSet";

/// Whether an owner of fields is a built-in base rather than an object of a model.
pub(crate) fn is_base(owner: &str) -> bool {
    BASES.contains(&owner) || owner == BASE_EVENT_SET
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DataModel {
    /// `modelName`.
    pub name: String,
    /// Objects, in the order of the definition.
    pub objects: Vec<DataObject>,
}

/// One object (Splunk: dataset) of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DataObject {
    /// `objectName`.
    pub name: String,
    /// `parentName`.
    pub parent: String,
    /// Search conditions for the object's events, in addition to the conditions of the parent.
    pub constraints: Vec<String>,
    /// `baseSearch` of a root search object.
    pub base_search: Option<String>,
    /// Grouping of events by a root transaction object.
    pub grouping: Option<Grouping>,
    /// Fields extracted from events.
    pub fields: Vec<String>,
    /// Fields that the definition lists although every object with the same base has them.
    pub base_fields: Vec<String>,
    /// Calculated fields, in order.
    pub calculations: Vec<Calculation>,
}

/// Grouping of the events of other objects by a root transaction object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Grouping {
    /// `objectsToGroup`.
    pub objects: Vec<String>,
    /// `groupByFields`.
    pub fields: Vec<String>,
    /// `transactionMaxTimeSpan` and `transactionMaxPause`.
    pub limits: (Option<String>, Option<String>),
}

impl Grouping {
    /// The options of `transaction` with their values.
    pub(crate) fn options(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let limits = [("maxspan", &self.limits.0), ("maxpause", &self.limits.1)];
        limits.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// The calculations of an object and its ancestors that run before its events are grouped, each with its object.
    /// Lookups and calculations of locations are included only if the grouping or a later calculation reads their
    /// fields.
    pub(crate) fn calculations_before<'m>(&self, chain: &[&'m DataObject]) -> Vec<(&'m DataObject, &'m Calculation)> {
        let of_object =
            |object: &'m DataObject| object.calculations.iter().map(move |calculation| (object, calculation));
        let all: Vec<(&DataObject, &Calculation)> = chain.iter().copied().flat_map(of_object).collect();
        let mut needed: BTreeSet<String> = self.fields.iter().cloned().collect();
        let mut may_read_all = false;
        let mut kept = Vec::new();
        for (object, calculation) in all.into_iter().rev() {
            let is_kept = match calculation {
                Calculation::Eval { .. } | Calculation::Rex { .. } => true,
                Calculation::Lookup { .. } | Calculation::GeoIp { .. } => {
                    may_read_all || calculation.outputs().into_iter().any(|field| needed.contains(field))
                }
            };
            if is_kept {
                match calculation.inputs() {
                    Some(inputs) => needed.extend(inputs),
                    None => may_read_all = true,
                }
                kept.push((object, calculation));
            }
        }
        kept.reverse();
        kept
    }
}

/// Calculation of one or more fields of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Calculation {
    /// `eval FIELD=EXPR`.
    Eval {
        /// Field that is set.
        field: String,
        expression: String,
    },
    /// Named groups of a regular expression.
    Rex {
        /// Field that the expression reads.
        input: String,
        /// Expression.
        pattern: String,
        /// Fields that the groups set.
        outputs: Vec<String>,
    },
    /// Columns of a lookup table.
    Lookup {
        table: String,
        /// Column of the table, field of the event.
        inputs: Vec<(String, String)>,
        /// Column of the table, resulting field.
        outputs: Vec<(String, String)>,
    },
    /// Geographic location of an IP address.
    GeoIp {
        /// Field with the address.
        input: String,
        /// Fields that are set.
        outputs: Vec<String>,
    },
}

impl Calculation {
    /// Fields that the calculation sets.
    pub(crate) fn outputs(&self) -> Vec<&str> {
        match self {
            Calculation::Eval { field, .. } => vec![field],
            Calculation::Rex { outputs, .. } | Calculation::GeoIp { outputs, .. } => {
                outputs.iter().map(String::as_str).collect()
            }
            Calculation::Lookup { outputs, .. } => outputs.iter().map(|(_, field)| field.as_str()).collect(),
        }
    }

    /// Fields that the calculation reads; `None` if they are unknown, because the expression contains a macro.
    fn inputs(&self) -> Option<BTreeSet<String>> {
        Some(match self {
            Calculation::Eval { expression, .. } => expr_fields(&quarry_spl::parse_expression(expression).ok()?),
            Calculation::Rex { input, .. } | Calculation::GeoIp { input, .. } => BTreeSet::from([input.clone()]),
            Calculation::Lookup { inputs, .. } => inputs.iter().map(|(_, field)| field.clone()).collect(),
        })
    }
}

impl DataModel {
    /// Parses the JSON definition of the model `name`.
    pub(crate) fn of_json(name: &str, text: &str) -> Result<DataModel, Fault> {
        let json: Value = serde_json::from_str(text)
            .map_err(|error| Fault::invalid(format!("data model {name} is not JSON: {error}")))?;
        let objects = json["objects"]
            .as_array()
            .ok_or_else(|| Fault::invalid(format!("data model {name} has no list `objects`")))?;
        let objects = objects.iter().map(|object| data_object(name, object)).collect::<Result<Vec<_>, _>>()?;
        Ok(DataModel { name: json["modelName"].as_str().unwrap_or(name).to_owned(), objects })
    }

    /// The object of this name.
    pub(crate) fn object(&self, name: &str) -> Option<&DataObject> {
        self.objects.iter().find(|object| object.name == name)
    }

    /// Objects whose parent is one of the root parents.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &DataObject> {
        self.objects.iter().filter(|object| BASES.contains(&object.parent.as_str()))
    }

    /// The object with its ancestors, the root first.
    pub(crate) fn chain(&self, name: &str) -> Result<Vec<&DataObject>, Fault> {
        let mut chain: Vec<&DataObject> = Vec::new();
        let mut next = name;
        while !BASES.contains(&next) {
            if chain.len() >= DEPTH_MAX {
                return Err(Fault::invalid(format!(
                    "data model {}: {name} and its ancestors are more than {DEPTH_MAX} objects",
                    self.name
                )));
            }
            let object = self.object(next).ok_or_else(|| self.unknown_object(next))?;
            chain.push(object);
            next = &object.parent;
        }
        chain.reverse();
        Ok(chain)
    }

    /// The objects whose events a root transaction object groups, each with its ancestors.
    pub(crate) fn grouped(&self, grouping: &Grouping) -> Result<Vec<Vec<&DataObject>>, Fault> {
        let mut chains = Vec::new();
        for name in &grouping.objects {
            let chain = self.chain(name)?;
            if chain.iter().any(|object| object.base_search.is_some() || object.grouping.is_some()) {
                let message = format!("data model {}: {name} is not made of events and cannot be grouped", self.name);
                return Err(Fault::invalid(message));
            }
            chains.push(chain);
        }
        if chains.is_empty() {
            return Err(Fault::invalid(format!("data model {}: a transaction has no objectsToGroup", self.name)));
        }
        Ok(chains)
    }

    /// Error for an object that does not exist.
    pub(crate) fn unknown_object(&self, name: &str) -> Fault {
        let names: Vec<&str> = self.objects.iter().map(|object| object.name.as_str()).collect();
        Fault::not_found(format!("data model {} has no object {name}; it has {}", self.name, names.join(", ")))
    }
}

fn data_object(model: &str, json: &Value) -> Result<DataObject, Fault> {
    let name = json["objectName"]
        .as_str()
        .ok_or_else(|| Fault::invalid(format!("data model {model}: an object has no objectName")))?;
    let place = || format!("data model {model}, object {name}");
    let list = |key: &str| json[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let constraints = list("constraints").iter().filter_map(|constraint| constraint["search"].as_str());
    let is_of_base = |field: &&Value| field["owner"].as_str().is_some_and(is_base);
    let (base_fields, fields): (Vec<&Value>, Vec<&Value>) = list("fields").iter().partition(is_of_base);
    let names = |fields: Vec<&Value>| {
        let names = fields.into_iter().filter_map(|field| field["fieldName"].as_str());
        names.map(str::to_owned).collect()
    };
    let calculations =
        list("calculations").iter().map(|json| calculation(json).map_err(|fault| fault.with_context(place())));
    Ok(DataObject {
        name: name.to_owned(),
        parent: json["parentName"].as_str().unwrap_or("BaseEvent").to_owned(),
        constraints: constraints.map(str::to_owned).filter(|text| !text.trim().is_empty()).collect(),
        base_search: json["baseSearch"].as_str().map(str::to_owned),
        grouping: (json["parentName"] == "BaseTransaction").then(|| grouping(json)),
        fields: names(fields),
        base_fields: names(base_fields),
        calculations: calculations.collect::<Result<_, _>>()?,
    })
}

fn grouping(json: &Value) -> Grouping {
    let names = |key: &str| {
        let list = json[key].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let limit = |key: &str| json[key].as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
    Grouping {
        objects: names("objectsToGroup"),
        fields: names("groupByFields"),
        limits: (limit("transactionMaxTimeSpan"), limit("transactionMaxPause")),
    }
}

fn calculation(json: &Value) -> Result<Calculation, Fault> {
    let text = |key: &str| json[key].as_str().map(str::to_owned);
    let made = json["outputFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let outputs: Vec<String> = made.iter().filter_map(|field| field["fieldName"].as_str()).map(str::to_owned).collect();
    let needs = |key: &str| text(key).ok_or_else(|| Fault::invalid(format!("a calculation has no {key}")));
    match json["calculationType"].as_str().unwrap_or_default().to_ascii_lowercase().as_str() {
        "eval" => {
            let field =
                outputs.into_iter().next().ok_or_else(|| Fault::invalid("an Eval calculation has no outputFields"))?;
            Ok(Calculation::Eval { field, expression: needs("expression")? })
        }
        "rex" => Ok(Calculation::Rex { input: needs("inputField")?, pattern: needs("expression")?, outputs }),
        "geoip" => Ok(Calculation::GeoIp { input: needs("inputField")?, outputs }),
        "lookup" => {
            let listed = json["lookupInputs"].as_array().map(Vec::as_slice).unwrap_or_default();
            let pair = |json: &Value| {
                let field = json["inputField"].as_str()?.to_owned();
                Some((json["lookupField"].as_str().unwrap_or(&field).to_owned(), field))
            };
            let inputs: Vec<_> = listed.iter().chain([json]).filter_map(pair).collect();
            let pair = |field: &Value| {
                let name = field["fieldName"].as_str()?.to_owned();
                Some((field["lookupOutputFieldName"].as_str().unwrap_or(&name).to_owned(), name))
            };
            let outputs = made.iter().filter_map(pair).collect();
            Ok(Calculation::Lookup { table: needs("lookupName")?, inputs, outputs })
        }
        other => Err(Fault::invalid(format!("a calculation has the unknown calculationType `{other}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGE: &str = r#"{"modelName": "Change", "objects": [
        {"objectName": "All", "parentName": "BaseEvent", "constraints": [{"search": "tag=change"}],
         "fields": [{"fieldName": "_time", "owner": "BaseEvent"}, {"fieldName": "action", "owner": "All"}],
         "calculations": [{"calculationType": "Eval", "expression": "coalesce(user,\"unknown\")",
                           "outputFields": [{"fieldName": "user"}]}]},
        {"objectName": "Accounts", "parentName": "All", "constraints": [{"search": "tag=account"}],
         "calculations": [{"calculationType": "Lookup", "lookupName": "people", "inputField": "user",
                           "outputFields": [{"fieldName": "team", "lookupOutputFieldName": "group"}]}]}]}"#;

    #[test]
    fn chains_list_parents_before_children() {
        let model = DataModel::of_json("Change", CHANGE).unwrap();
        let chain: Vec<&str> = model.chain("Accounts").unwrap().iter().map(|object| object.name.as_str()).collect();
        assert_eq!(chain, ["All", "Accounts"]);
        assert_eq!(model.object("All").unwrap().fields, ["action"]);
        let made = [("group".to_owned(), "team".to_owned())];
        let Calculation::Lookup { outputs, inputs, .. } = &model.object("Accounts").unwrap().calculations[0] else {
            panic!("a lookup is one");
        };
        assert_eq!((outputs.as_slice(), inputs[0].1.as_str()), (made.as_slice(), "user"));
    }

    #[test]
    fn lookups_that_the_grouping_reads_run_before_it() {
        let text = r#"{"objects": [
            {"objectName": "Steps", "parentName": "BaseEvent", "calculations": [
                {"calculationType": "Lookup", "lookupName": "people", "inputField": "user", "outputFields": [{"fieldName": "team"}]},
                {"calculationType": "Lookup", "lookupName": "hosts", "inputField": "host", "outputFields": [{"fieldName": "site"}]},
                {"calculationType": "Eval", "expression": "lower(team)", "outputFields": [{"fieldName": "group"}]},
                {"calculationType": "GeoIP", "inputField": "ip", "outputFields": [{"fieldName": "City"}]}]},
            {"objectName": "Visits", "parentName": "BaseTransaction", "objectsToGroup": ["Steps"], "groupByFields": ["City"]}]}"#;
        let model = DataModel::of_json("X", text).unwrap();
        let grouping = model.object("Visits").unwrap().grouping.as_ref().unwrap();
        let chain = model.chain("Steps").unwrap();
        let before = grouping.calculations_before(&chain);
        let outputs: Vec<&str> = before.iter().flat_map(|(_, calculation)| calculation.outputs()).collect();
        // No calculation or grouping reads the site.
        assert_eq!(outputs, ["team", "group", "City"]);
    }

    #[test]
    fn errors_describe_the_fault() {
        assert!(DataModel::of_json("X", "{").unwrap_err().to_string().starts_with("data model X is not JSON"));
        let circle = r#"{"objects": [{"objectName": "A", "parentName": "B"}, {"objectName": "B", "parentName": "A"}]}"#;
        let model = DataModel::of_json("X", circle).unwrap();
        let circular = "data model X: A and its ancestors are more than 32 objects";
        assert_eq!(model.chain("A").unwrap_err().to_string(), circular);
        assert_eq!(model.chain("C").unwrap_err().to_string(), "data model X has no object C; it has A, B");
    }
}
