//! The parameters of a request, by name.
//!
//! Not here: parsing them (`parse_request`), their types (`param`).

use serde_json::{Map, Value};

/// The parameters of a request by name. Each value has the type of its parameter.
#[derive(Debug, Default)]
pub struct Params {
    values: Map<String, Value>,
    is_posted: bool,
}

impl Params {
    /// No parameters yet, of a route with a body if `is_posted` is set.
    pub(crate) fn new(is_posted: bool) -> Self {
        Self { values: Map::new(), is_posted }
    }

    /// The value of a parameter, if the request has it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// The value of a parameter, or null.
    pub fn json(&self, name: &str) -> Value {
        self.get(name).cloned().unwrap_or(Value::Null)
    }

    /// The value of a parameter that is a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// The value of a parameter that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// Sets the value of a parameter. Returns false if it had one.
    pub(crate) fn insert(&mut self, name: &str, value: Value) -> bool {
        self.values.insert(name.to_owned(), value).is_none()
    }

    /// Whether the route has a body.
    pub(crate) fn is_posted(&self) -> bool {
        self.is_posted
    }
}
