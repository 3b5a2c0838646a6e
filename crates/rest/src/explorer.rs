//! The page to try the API: every route with its parameters, a form to send a request, the same request as a `curl`
//! command, and the response.
//!
//! Self-contained: it includes its style and script and loads nothing from other servers. Its script takes the
//! description of responses and the example values from the OpenAPI document.

use std::fmt::Write;

use serde_json::Value;

use crate::api_paths::ApiPaths;
use crate::param::{Param, ParamLocation, ParamType, TextFormat};
use crate::route::{HttpMethod, Route};
use crate::route_table::RouteTable;

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hydrant: REST</title><link rel=icon href="data:,">
"#;

const INTRODUCTION: &str = r#"</head><body>
<header><h1>Hydrant <small>REST</small></h1>
<p>State and history of a ledger. For programs: <a href="{openapi}">openapi.json</a>. Each response has its slot
and commitment in <code>Hydrant-Slot</code> and <code>Hydrant-Commitment</code>. {pages}</p></header>
<main>"#;

/// The path of the OpenAPI document in the page's script.
const OPENAPI_PATH: &str = "{openapi}";

/// The page of an API. All texts in it are ours and have no characters that HTML would need to escape.
pub fn explorer_page(table: &RouteTable) -> String {
    let mut html = HEAD.to_owned();
    html += &format!("<style>\n{}</style>\n", include_str!("explorer/style.css"));
    let ApiPaths { explorer, openapi, .. } = table.paths;
    html += &INTRODUCTION.replace(OPENAPI_PATH, openapi).replace("{pages}", table.pages_doc);
    html += "<nav>";
    for tag in table.tags {
        html += &format!("<b>{}</b>\n", tag.name);
        for route in table.routes.iter().filter(|route| tag.contains(route)) {
            let (verb, class) = method_labels(route);
            // Writing to a String does not fail.
            let _ = writeln!(
                html,
                "<a href=\"{explorer}#{}\"><span class={class}>{verb}</span>{}</a>",
                route.id, route.summary
            );
        }
    }
    html += "</nav>\n<div>";
    for tag in table.tags {
        html += &format!("<h2>{}</h2>\n", tag.name);
        let routes = table.routes.iter().filter(|route| tag.contains(route));
        routes.for_each(|route| write_route(&mut html, route));
    }
    html += "</div></main>\n";
    let script = include_str!("explorer/script.js").replace(OPENAPI_PATH, openapi);
    html + &format!("<script>\n{script}</script></body></html>\n")
}

fn method_labels(route: &Route) -> (&'static str, &'static str) {
    match route.method {
        HttpMethod::Get => ("GET", "get"),
        HttpMethod::Post => ("POST", "post"),
    }
}

fn write_route(html: &mut String, route: &Route) {
    let ((verb, class), path) = (method_labels(route), route.path);
    let _ = write!(
        html,
        "<details class=route id={}><summary><span class=\"verb {class}\">{verb}</span><code>{path}</code>\
         <span>{}</span></summary>\n<form class=inside data-verb={verb} data-path=\"{path}\">\n",
        route.id, route.summary
    );
    let (required, others): (Vec<&Param>, Vec<&Param>) = route
        .params
        .iter()
        .partition(|param| param.is_required || param.location == ParamLocation::Body);
    required.iter().for_each(|param| write_field(html, param));
    if !others.is_empty() || route.response.has_raw() {
        html.push_str("<details class=more><summary>Options</summary>\n");
        others.iter().for_each(|param| write_field(html, param));
        if route.response.has_raw() {
            html.push_str(ACCEPT);
        }
        html.push_str("</details>\n");
    }
    html.push_str(RUN);
}

/// The field for the `Accept` header of a route that can return raw bytes.
const ACCEPT: &str = "<div class=field><label>Accept <small>header</small></label>\
    <select name=accept data-in=accept aria-label=Accept><option value=\"\">application/json</option>\
    <option>application/octet-stream</option></select><small class=doc>JSON, or the raw bytes.</small></div>\n";

const RUN: &str = r#"<div class=run><pre class=command></pre><button type=button class=copy>Copy</button><button class=send>Send</button></div>
<div class=error role=alert></div>
<div class=response hidden><p><span class=status></span><span class=at></span></p>
<details class=headers><summary>Headers</summary><pre></pre></details><pre></pre></div>
<details class=schema><summary>Response</summary></details>
</form></details>
"#;

fn write_field(html: &mut String, param: &Param) {
    let name = param.name;
    let doc = param.doc;
    let location = match param.location {
        ParamLocation::Path => "path",
        ParamLocation::Query => "query",
        ParamLocation::Body => "body",
    };
    let mark = if param.is_required { " <i title=required>*</i>" } else { "" };
    let _ = writeln!(
        html,
        "<div class=field><label>{name}{mark} <small>{location}</small></label>{}<small class=doc>{doc}</small></div>",
        field(param, location)
    );
}

/// The input field of a parameter.
fn field(param: &Param, location: &str) -> String {
    let required = if param.is_required { " required" } else { "" };
    let attributes = |kind: &str| {
        let name = param.name;
        format!("name={name} data-in={location} data-kind={kind} aria-label={name}{required}")
    };
    let options = |words: &[&str]| {
        let options: String = words.iter().map(|word| format!("<option>{word}</option>")).collect();
        format!("<select {}><option value=\"\"></option>{options}</select>", attributes("text"))
    };
    // Optional parameters are not filled in.
    let example = param.example.filter(|_| param.is_required).map(|example| example());
    match param.kind {
        ParamType::OneOf(words) => options(words),
        ParamType::Bool => options(&["true", "false"]),
        ParamType::Number(min, max) => {
            format!("<input type=number min={min} max={max} {}>", attributes("text"))
        }
        ParamType::List(format, _) => {
            let lines = example.iter().filter_map(Value::as_array).flatten();
            let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
            let hint = list_hint(format);
            format!(
                "<textarea {} placeholder=\"{hint}\">{}</textarea>",
                attributes("list"),
                lines.join("\n")
            )
        }
        ParamType::Json(_) => {
            let json = example.map(|example| example.to_string()).unwrap_or_default();
            format!("<textarea {} placeholder=JSON>{json}</textarea>", attributes("json"))
        }
        ParamType::Base64 => {
            let bytes = example.as_ref().and_then(Value::as_str).unwrap_or_default();
            format!("<textarea {} placeholder=base64>{bytes}</textarea>", attributes("text"))
        }
        ParamType::Text(format) => {
            format!("<input placeholder=\"{}\" {}>", format.placeholder, attributes("text"))
        }
        ParamType::Base58(_) => format!("<input placeholder=base58 {}>", attributes("text")),
    }
}

/// Returns the hint for typing a list: "Addresses: one per line, or separated by commas".
fn list_hint(format: &TextFormat) -> String {
    let (first, others) = format.plural.split_at(1.min(format.plural.len()));
    format!("{}{others}: one per line, or separated by commas", first.to_ascii_uppercase())
}
