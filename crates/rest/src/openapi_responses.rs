//! The responses of the OpenAPI document: their headers, links and errors.

use serde_json::{Map, Value, json};

use crate::error_codes::all_codes;
use crate::param::ParamLocation;
use crate::route::{HttpMethod, Link, RequestBody, ResponseKind, Route};
use crate::route_table::RouteTable;

/// The responses of a route, by status.
pub(crate) fn responses(table: &RouteTable, route: &Route) -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{}", route.schema) });
    let mut content = json!({ route.response.media(): { "schema": schema } });
    if route.response.has_raw() {
        content["application/octet-stream"] =
            json!({ "schema": { "type": "string", "format": "binary" } });
    }
    let mut headers = json!({
        "Hydrant-Slot": header("Slot"),
        "Hydrant-Commitment": header("Commitment"),
        "Hydrant-Verified-Slot": header("VerifiedSlot"),
        "Hydrant-Verified-Level": header("VerifiedLevel"),
        "Cache-Control": header("CacheControl"),
        "Vary": header("Vary"),
    });
    for own in table.headers {
        headers[own.name] = header(own.name);
    }
    let is_accepted = matches!(route.response, ResponseKind::Accepted(_));
    let mut not_modified_headers = headers.clone();
    if is_accepted {
        headers["Location"] = header("Location");
    } else {
        headers["ETag"] = header("ETag");
        headers["Content-Encoding"] = header("ContentEncoding");
    }
    if route.is_paged() {
        headers["Link"] = header("Link");
    }
    for field in route.response.raw_fields().unwrap_or_default() {
        headers[format!("Hydrant-{}", field.name)] = header(field.name);
    }
    let mut responses = Map::new();
    let status = if is_accepted { "202" } else { "200" };
    let description = if is_accepted { "Queued for execution" } else { "The response" };
    let mut response =
        json!({ "description": description, "headers": headers, "content": content });
    if let Some(links) = links(route) {
        response["links"] = links;
    }
    responses.insert(status.to_owned(), response);
    if route.method == HttpMethod::Get {
        not_modified_headers["ETag"] = header("ETag");
        let not_modified = json!({
            "description": "Not modified: If-None-Match lists the ETag",
            "headers": not_modified_headers,
        });
        responses.insert("304".to_owned(), not_modified);
    }
    let mut statuses: Vec<u16> = all_codes(table.errors.codes).map(|known| known.status).collect();
    statuses.extend([401, 403, 406, 414, 415, 429, 431, 501]);
    if route.body != RequestBody::None {
        statuses.extend([408, 413]);
    }
    for status in statuses {
        responses.entry(status.to_string()).or_insert_with(|| error_response(table, status));
    }
    responses.into()
}

/// Every header that a response of an API may have, except its type and length.
pub(crate) fn headers(table: &RouteTable) -> Value {
    let text =
        |description: &str| json!({ "description": description, "schema": { "type": "string" } });
    let etag_doc = format!(
        "A hash of the bytes as they are sent: each content coding has its own. A response \
            of more than 1 MiB is streamed and may have none. {}",
        table.etag_doc
    );
    let mut headers = json!({
        "Slot": { "description": "The slot at which the response is true.", "required": true,
            "schema": { "type": "integer", "minimum": 0 } },
        "Commitment": { "description": "The commitment level of that slot.", "required": true,
            "schema": { "type": "string", "enum": ["processed", "confirmed", "finalized"] } },
        "VerifiedSlot": { "schema": { "type": "integer", "minimum": 0 },
            "description": "The newest slot whose block has Hydrant-Verified-Level. Missing if there is none yet." },
        "VerifiedLevel": { "schema": { "type": "string" },
            "description": "How that block is verified. Missing with Hydrant-Verified-Slot." },
        "NotFoundSlot": { "schema": { "type": "integer", "minimum": 0 },
            "description": "The slot at which the object does not exist. The finalized slot if the path does not exist." },
        "NotFoundCommitment": { "description": "The commitment level of that slot.",
            "schema": { "type": "string", "enum": ["processed", "confirmed", "finalized"] } },
        "CacheControl": { "required": true, "schema": { "type": "string" },
            "description": "no-cache: revalidate each time, with If-None-Match. immutable: the response never changes." },
        "Vary": { "description": "The request headers on which the response depends.", "required": true,
            "schema": { "type": "string" } },
        "ETag": { "schema": { "type": "string", "pattern": "^\"[0-9a-f]{32}\"$" },
            "description": etag_doc.trim_end() },
        "ContentEncoding": { "schema": { "type": "string", "enum": ["gzip", "zstd"] },
            "description": "If Accept-Encoding allows it and the response is long enough." },
        "Link": text("The next page, as rel=\"next\". Missing on the last page."),
        "NoStore": { "description": "no-store", "required": true,
            "schema": { "type": "string", "const": "no-store" } },
        "RetryAfter": { "description": "Seconds until the client should try again.", "required": true,
            "schema": { "type": "integer", "minimum": 1 } },
    });
    for own in table.headers {
        headers[own.name] = text(own.doc);
    }
    for route in table.routes {
        if let ResponseKind::Accepted(accepted) = &route.response {
            headers["Location"] = json!({ "description": accepted.location_doc, "required": true,
                "schema": { "type": "string" } });
        }
        for field in route.response.raw_fields().unwrap_or_default() {
            headers[field.name] = (field.header)();
        }
    }
    headers
}

fn header(name: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{name}") })
}

/// The operations that a member of the response leads to.
fn links(route: &Route) -> Option<Value> {
    let mut links = Map::new();
    if route.is_paged() {
        let path_params = route.params.iter().filter(|param| param.location == ParamLocation::Path);
        let mut next: Map<String, Value> = path_params
            .map(|param| (param.name.to_owned(), format!("$request.path.{}", param.name).into()))
            .collect();
        next.insert("cursor".to_owned(), "$response.body#/paginationKey".into());
        let next = json!({ "operationId": route.id, "parameters": next });
        links.insert("next".to_owned(), next);
    }
    for Link { name, operation, param: (param, value) } in route.links {
        let link = json!({ "operationId": operation, "parameters": { *param: value } });
        links.insert((*name).to_owned(), link);
    }
    (!links.is_empty()).then(|| links.into())
}

fn error_response(table: &RouteTable, status: u16) -> Value {
    let of_status = all_codes(table.errors.codes).filter(|known| known.status == status);
    let names: Vec<&str> = of_status.map(|known| known.name).collect();
    let description = match status {
        401 => "unauthorized: an API key is needed, and is missing or not valid".to_owned(),
        403 => "origin_not_allowed, page_not_allowed: the web page may not send this request \
                (--allow-origin, --allow-host), or not with this API key; method_denied: this API key may not read it"
            .to_owned(),
        406 => "not_acceptable: Accept has no available media type".to_owned(),
        408 => "body_too_slow".to_owned(),
        413 => "body_too_large".to_owned(),
        414 => "uri_too_long".to_owned(),
        415 => "unsupported_media_type".to_owned(),
        429 => "too_busy: try again after Retry-After seconds".to_owned(),
        431 => {
            "header_too_long; if the whole head is too long, the response has no body".to_owned()
        }
        501 => "not_implemented: a Transfer-Encoding other than chunked".to_owned(),
        _ => names.join(", "),
    };
    let mut headers = json!({
        "Cache-Control": header("NoStore"),
        "Hydrant-Verified-Slot": header("VerifiedSlot"),
        "Hydrant-Verified-Level": header("VerifiedLevel"),
    });
    if status == 404 {
        headers["Hydrant-Slot"] = header("NotFoundSlot");
        headers["Hydrant-Commitment"] = header("NotFoundCommitment");
    }
    if status == 429 {
        headers["Retry-After"] = header("RetryAfter");
    }
    let schema = json!({ "$ref": "#/components/schemas/Error" });
    json!({
        "description": description,
        "headers": headers,
        "content": { "application/json": { "schema": schema } },
    })
}
