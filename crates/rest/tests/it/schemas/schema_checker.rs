//! Holds values against the schemas of the description, stricter than it says: nothing untold is let through,
//! and what no value had is known at the end.

use std::collections::{BTreeSet, HashMap};

use jsonschema::Validator;
use serde_json::{Value, json};

pub(crate) struct SchemaChecker {
    /// The description, in which no object may have a member that is not told.
    document: Value,
    validators: HashMap<String, Validator>,
    /// Places in the schemas that a value had: members, items, forms, nulls.
    seen: BTreeSet<String>,
}

impl SchemaChecker {
    pub(crate) fn new(document: &Value) -> Self {
        let mut document = document.clone();
        close(&mut document);
        Self { document, validators: HashMap::new(), seen: BTreeSet::new() }
    }

    /// That a value is as the schema of that name tells it.
    pub(crate) fn check(&mut self, name: &str, value: &Value) {
        self.check_at(&format!("/components/schemas/{name}"), value, name);
    }

    /// The same of a schema anywhere in the description.
    pub(crate) fn check_at(&mut self, place: &str, value: &Value, what: &str) {
        let wrong: Vec<String> = self
            .validator(place)
            .iter_errors(value)
            .map(|err| format!("{}: {err}", err.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{what} is not as it is told: {wrong:#?}\n{value:#}");
        self.record(place, value);
    }

    /// Whether a value is so.
    pub(crate) fn accepts(&mut self, name: &str, value: &Value) -> bool {
        self.validator(&format!("/components/schemas/{name}")).is_valid(value)
    }

    /// What is told of the schemas that are named in the description, and no value had.
    pub(crate) fn unseen(&self) -> Vec<String> {
        let schemas = self.document["components"]["schemas"].as_object().expect("schemas");
        let mut told = BTreeSet::new();
        for (name, schema) in schemas.iter().filter(|(name, _)| *name != "Error") {
            schema_paths(&format!("/components/schemas/{name}"), schema, &mut told);
        }
        told.difference(&self.seen).cloned().collect()
    }

    /// The words that a schema takes.
    pub(crate) fn words(&self, place: &str) -> BTreeSet<String> {
        let schema = self.schema_at(&format!("/components/schemas/{place}"));
        let words = schema["enum"].as_array().unwrap_or_else(|| panic!("no words at {place}"));
        words.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// What a schema is.
    pub(crate) fn schema_at(&self, place: &str) -> &Value {
        self.document.pointer(place).unwrap_or_else(|| panic!("nothing is told at {place}"))
    }

    fn validator(&mut self, place: &str) -> &Validator {
        if !self.validators.contains_key(place) {
            // A reference is a URI.
            let place_in_uri = place.replace('{', "%7B").replace('}', "%7D");
            let schema = json!({
                "$ref": format!("#{place_in_uri}"),
                "components": self.document["components"],
                "paths": self.document["paths"],
            });
            let validator = jsonschema::draft202012::new(&schema).expect("a schema");
            self.validators.insert(place.to_owned(), validator);
        }
        &self.validators[place]
    }

    fn record(&mut self, place: &str, value: &Value) {
        let schema = self.schema_at(place).clone();
        if let Some(other) = schema.get("$ref").and_then(Value::as_str) {
            return self.record(&other[1..], value);
        }
        if may_be_null(&schema) {
            let what = if value.is_null() { "null" } else { "some" };
            self.seen.insert(format!("{place} {what}"));
        }
        for (nth, _) in branches(&schema) {
            let branch = format!("{place}/anyOf/{nth}");
            if self.validator(&branch).is_valid(value) {
                self.seen.insert(branch.clone());
                self.record(&branch, value);
            }
        }
        for (name, value) in value.as_object().into_iter().flatten() {
            let member = format!("{place}/properties/{}", escaped(name));
            if schema["properties"].get(name).is_some() {
                self.seen.insert(member.clone());
                self.record(&member, value);
            }
        }
        for (nth, value) in value.as_array().into_iter().flatten().enumerate() {
            let item = match schema["prefixItems"].get(nth) {
                Some(_) => format!("{place}/prefixItems/{nth}"),
                None if schema.get("items").is_some() => format!("{place}/items"),
                None => continue,
            };
            self.seen.insert(item.clone());
            self.record(&item, value);
        }
    }
}

/// Every place of a schema that a value is to have had.
fn schema_paths(place: &str, schema: &Value, told: &mut BTreeSet<String>) {
    if may_be_null(schema) {
        told.extend(["null", "some"].map(|what| format!("{place} {what}")));
    }
    let mut inside: Vec<(String, &Value)> = Vec::new();
    for (nth, branch) in branches(schema) {
        inside.push((format!("{place}/anyOf/{nth}"), branch));
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        inside.push((format!("{place}/properties/{}", escaped(name)), member));
    }
    for (nth, item) in schema["prefixItems"].as_array().into_iter().flatten().enumerate() {
        inside.push((format!("{place}/prefixItems/{nth}"), item));
    }
    if let Some(item) = schema.get("items") {
        inside.push((format!("{place}/items"), item));
    }
    for (place, schema) in inside {
        schema_paths(&place, schema, told);
        told.insert(place);
    }
}

fn branches(schema: &Value) -> impl Iterator<Item = (usize, &Value)> {
    schema.get("anyOf").and_then(Value::as_array).into_iter().flatten().enumerate()
}

fn may_be_null(schema: &Value) -> bool {
    let mut kinds = schema.get("type").and_then(Value::as_array).into_iter().flatten();
    kinds.any(|kind| kind == "null")
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Lets no object have a member that is not told.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.contains_key("properties") && members.get("type") == Some(&json!("object")) {
                members.entry("additionalProperties").or_insert(json!(false));
            }
            members.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
