//! The API as OpenAPI 3.1, built from the table that requests are matched against.
//!
//! Not here: responses and their headers (`openapi_responses`), serving the document (`openapi_document`).

use serde_json::{Map, Value, json};

use crate::openapi_responses::{headers, responses};
use crate::param::{Limits, Param, ParamLocation, ParamType};
use crate::rest_api::Examples;
use crate::route::{HttpMethod, RequestBody, Route};
use crate::route_table::RouteTable;

/// The part of the description that all APIs share.
const DESCRIPTION: &str = "Every response has the slot and the commitment \
    for which it is true in `Hydrant-Slot` and `Hydrant-Commitment`, and so has a 404 for an object that does \
    not exist. Other errors have the finalized slot. A request whose header `Hydrant-Min-Slot` is above the slot of \
    the state waits for it, and gets 409 after `rpc.min_slot_wait_ms`. Every GET may be a HEAD. OPTIONS returns \
    the methods that a path allows. Requests from any origin are allowed. A path that does not exist gets 404, a \
    method that a path does not have gets 405 with `Allow`, both in the shape of `Error`.";

/// The document of an API, with examples that the node can serve.
pub fn build_openapi(table: &RouteTable, examples: &Examples, limits: Limits) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in table.routes {
        let verb = match route.method {
            HttpMethod::Get => "get",
            HttpMethod::Post => "post",
        };
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[verb] = operation(table, route, examples, limits);
    }
    let mut schemas = Map::new();
    schemas.insert("Error".to_owned(), table.errors.format.schema(table.errors.codes));
    schemas.extend((table.schemas)().into_iter().map(|(name, schema)| (name.to_owned(), schema)));
    let description = format!("{} {DESCRIPTION}", table.summary);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Hydrant",
            "version": "1",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": description,
        },
        "servers": [{ "url": "/" }],
        "tags": table.tags.iter().map(|tag| json!({ "name": tag.name })).collect::<Vec<_>>(),
        "paths": paths,
        "components": { "schemas": schemas, "headers": headers(table) },
    })
}

fn operation(table: &RouteTable, route: &Route, examples: &Examples, limits: Limits) -> Value {
    let tags = table.tags.iter().filter(|tag| tag.contains(route));
    let outside_body = route.params.iter().filter(|param| param.location != ParamLocation::Body);
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "tags": tags.map(|tag| tag.name).collect::<Vec<_>>(),
        "parameters": outside_body
            .map(|param| parameter(param, examples, limits))
            .collect::<Vec<_>>(),
        "responses": responses(table, route),
    });
    if route.body != RequestBody::None {
        operation["requestBody"] = body(route, limits);
    }
    operation
}

fn parameter(param: &Param, examples: &Examples, limits: Limits) -> Value {
    let location = if param.location == ParamLocation::Path { "path" } else { "query" };
    let mut parameter = json!({
        "name": param.name,
        "in": location,
        "required": param.is_required,
        "description": param.doc,
        "schema": param.kind.schema(limits),
    });
    if matches!(param.kind, ParamType::List(..)) {
        (parameter["style"], parameter["explode"]) = ("form".into(), false.into());
    }
    let of_node = match param.location {
        ParamLocation::Path => examples.get(param.name).cloned(),
        ParamLocation::Query | ParamLocation::Body => None,
    };
    if let Some(example) = param.example.map(|example| example()).or(of_node) {
        parameter["example"] = example;
    }
    parameter
}

fn body(route: &Route, limits: Limits) -> Value {
    let members: Vec<&Param> =
        route.params.iter().filter(|param| param.location == ParamLocation::Body).collect();
    let properties: Map<String, Value> = members
        .iter()
        .map(|param| {
            let mut schema = param.kind.schema(limits);
            schema["description"] = param.doc.into();
            (param.name.to_owned(), schema)
        })
        .collect();
    let required: Vec<&str> =
        members.iter().filter(|param| param.is_required).map(|param| param.name).collect();
    let object = json!({
        "type": "object", "required": required, "properties": properties,
        "additionalProperties": false,
    });
    let example: Map<String, Value> = members
        .iter()
        .filter_map(|param| Some((param.name.to_owned(), param.example?())))
        .collect();
    let mut content = json!({ "application/json": { "schema": object, "example": example } });
    if matches!(route.body, RequestBody::JsonOrRaw(_)) {
        content["application/octet-stream"] =
            json!({ "schema": { "type": "string", "format": "binary" } });
    }
    json!({ "required": true, "content": content })
}
