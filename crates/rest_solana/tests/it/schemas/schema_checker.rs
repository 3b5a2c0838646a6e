//! Checks values against the schemas of the description. Stricter than the schemas: undescribed members are refused,
//! and at the end the checker reports which parts no value had.

use std::collections::{BTreeSet, HashMap};

use jsonschema::Validator;
use serde_json::{Value, json};

pub(crate) struct SchemaChecker {
    /// The description, changed so that no object may have an undescribed member.
    document: Value,
    validators: HashMap<String, Validator>,
    /// Parts of the schemas that a value had: members, items, variants, nulls.
    seen: BTreeSet<String>,
}

impl SchemaChecker {
    pub(crate) fn new(document: &Value) -> Self {
        let mut document = document.clone();
        close(&mut document);
        Self { document, validators: HashMap::new(), seen: BTreeSet::new() }
    }

    /// Checks a value against a named schema.
    pub(crate) fn check(&mut self, name: &str, value: &Value) {
        self.check_at(&format!("/components/schemas/{name}"), value, name);
    }

    /// Checks a value against the schema at a JSON pointer of the description.
    pub(crate) fn check_at(&mut self, pointer: &str, value: &Value, what: &str) {
        let errors: Vec<String> = self
            .validator(pointer)
            .iter_errors(value)
            .map(|err| format!("{}: {err}", err.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{what} does not match its schema: {errors:#?}\n{value:#}");
        self.record(pointer, value);
    }

    /// Whether a value matches a named schema.
    pub(crate) fn accepts(&mut self, name: &str, value: &Value) -> bool {
        self.validator(&format!("/components/schemas/{name}")).is_valid(value)
    }

    /// Parts of the named schemas that no value had.
    pub(crate) fn unseen(&self) -> Vec<String> {
        let schemas = self.document["components"]["schemas"].as_object().expect("schemas");
        let mut paths = BTreeSet::new();
        for (name, schema) in schemas.iter().filter(|(name, _)| *name != "Error") {
            schema_paths(&format!("/components/schemas/{name}"), schema, &mut paths);
        }
        paths.difference(&self.seen).cloned().collect()
    }

    /// The values of an enum.
    pub(crate) fn words(&self, pointer: &str) -> BTreeSet<String> {
        let schema = self.schema_at(&format!("/components/schemas/{pointer}"));
        let words = schema["enum"].as_array().unwrap_or_else(|| panic!("no enum at {pointer}"));
        words.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The schema at a JSON pointer.
    pub(crate) fn schema_at(&self, pointer: &str) -> &Value {
        self.document.pointer(pointer).unwrap_or_else(|| panic!("no schema at {pointer}"))
    }

    /// The objects among the variants of the schema at a JSON pointer, and among those of its variants.
    pub(crate) fn objects(&self, pointer: &str) -> Vec<&Value> {
        let mut schema = self.schema_at(pointer);
        if let Some(other) = schema.get("$ref").and_then(Value::as_str) {
            schema = self.schema_at(&other[1..]);
        }
        let of_variant = |(index, variant): (usize, &Value)| match variant.get("$ref") {
            Some(other) => self.objects(&other.as_str().expect("a reference")[1..]),
            None => self.objects(&format!("{pointer}/oneOf/{index}")),
        };
        let variants = branches(schema).flat_map(of_variant);
        schema.get("properties").map(|_| schema).into_iter().chain(variants).collect()
    }

    fn validator(&mut self, pointer: &str) -> &Validator {
        if !self.validators.contains_key(pointer) {
            // A reference is a URI.
            let encoded = pointer.replace('{', "%7B").replace('}', "%7D");
            let schema = json!({
                "$ref": format!("#{encoded}"),
                "components": self.document["components"],
                "paths": self.document["paths"],
            });
            let validator = jsonschema::draft202012::new(&schema).expect("a schema");
            self.validators.insert(pointer.to_owned(), validator);
        }
        &self.validators[pointer]
    }

    fn record(&mut self, pointer: &str, value: &Value) {
        let schema = self.schema_at(pointer).clone();
        if let Some(other) = schema.get("$ref").and_then(Value::as_str) {
            return self.record(&other[1..], value);
        }
        if may_be_null(&schema) {
            let what = if value.is_null() { "null" } else { "some" };
            self.seen.insert(format!("{pointer} {what}"));
        }
        for (index, _) in branches(&schema) {
            let branch = format!("{pointer}/oneOf/{index}");
            if self.validator(&branch).is_valid(value) {
                self.seen.insert(branch.clone());
                self.record(&branch, value);
            }
        }
        for (name, value) in value.as_object().into_iter().flatten() {
            let member = format!("{pointer}/properties/{}", escape_pointer(name));
            if schema["properties"].get(name).is_some() {
                self.seen.insert(member.clone());
                self.record(&member, value);
            }
        }
        for (index, value) in value.as_array().into_iter().flatten().enumerate() {
            let item = match schema["prefixItems"].get(index) {
                Some(_) => format!("{pointer}/prefixItems/{index}"),
                None if schema.get("items").is_some() => format!("{pointer}/items"),
                None => continue,
            };
            self.seen.insert(item.clone());
            self.record(&item, value);
        }
    }
}

/// Collects every part of a schema that some value must have.
fn schema_paths(pointer: &str, schema: &Value, paths: &mut BTreeSet<String>) {
    if may_be_null(schema) {
        paths.extend(["null", "some"].map(|what| format!("{pointer} {what}")));
    }
    let mut children: Vec<(String, &Value)> = Vec::new();
    for (index, branch) in branches(schema) {
        children.push((format!("{pointer}/oneOf/{index}"), branch));
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        children.push((format!("{pointer}/properties/{}", escape_pointer(name)), member));
    }
    for (index, item) in schema["prefixItems"].as_array().into_iter().flatten().enumerate() {
        children.push((format!("{pointer}/prefixItems/{index}"), item));
    }
    if let Some(item) = schema.get("items") {
        children.push((format!("{pointer}/items"), item));
    }
    for (pointer, schema) in children {
        schema_paths(&pointer, schema, paths);
        paths.insert(pointer);
    }
}

fn branches(schema: &Value) -> impl Iterator<Item = (usize, &Value)> {
    schema.get("oneOf").and_then(Value::as_array).into_iter().flatten().enumerate()
}

fn may_be_null(schema: &Value) -> bool {
    let mut kinds = schema.get("type").and_then(Value::as_array).into_iter().flatten();
    kinds.any(|kind| kind == "null")
}

fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Forbids undescribed members in all objects.
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
