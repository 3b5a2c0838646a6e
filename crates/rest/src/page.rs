//! The page at `/v1/`: every route with its parameters, and a form to try the ones that read.
//!
//! Self-contained: no script, style or font from anywhere else.

use std::fmt::Write;

use crate::route::{Kind, Param, Place, Route, Verb};
use crate::routes::ROUTES;

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Hydrant: REST</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
code, pre, input, select { font: 14px/1.4 ui-monospace, monospace; }
details { border: 1px solid #ccc; border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; } b.get { color: #06c; } b.post { color: #a50; }
td { padding: .15rem .8rem .15rem 0; vertical-align: top; } pre { background: #f4f4f4; padding: .6rem; overflow: auto; max-height: 30rem; }
</style></head><body>
<h1>Hydrant</h1>
<p>State and history of a ledger over REST. For programs: <a href="/v1/openapi.json">openapi.json</a>. Each answer
names its slot and commitment in <code>Hydrant-Slot</code> and <code>Hydrant-Commitment</code>; lists come in
pages: give a page's <code>paginationKey</code> as <code>cursor</code>.</p>
"#;

const SCRIPT: &str = r#"<script>
for (const form of document.forms) form.addEventListener('submit', async (event) => {
  event.preventDefault();
  let path = form.dataset.path; const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (path.includes('{' + name + '}')) path = path.replace('{' + name + '}', encodeURIComponent(value));
    else if (value) query.set(name, value);
  }
  const url = path + (query.size ? '?' + query : '');
  const out = form.nextElementSibling; out.textContent = '…';
  try {
    const answer = await fetch(url); const text = await answer.text();
    const head = ['hydrant-slot', 'hydrant-commitment', 'etag', 'cache-control']
      .map((name) => name + ': ' + answer.headers.get(name)).join('\n');
    let body = text; try { body = JSON.stringify(JSON.parse(text), null, 2); } catch {}
    out.textContent = 'GET ' + url + '\n' + answer.status + '\n' + head + '\n\n' + body.slice(0, 100000);
  } catch (err) { out.textContent = String(err); }
});
</script></body></html>
"#;

/// The page. Everything in it is ours and has no character that HTML would take for its own.
pub(crate) fn html() -> String {
    let mut html = HEAD.to_owned();
    for route in ROUTES {
        write_route(&mut html, route);
    }
    html + SCRIPT
}

fn write_route(html: &mut String, route: &Route) {
    let (verb, class) = match route.verb {
        Verb::Get => ("GET", "get"),
        Verb::Post => ("POST", "post"),
    };
    let (path, summary) = (route.path, route.summary);
    // A String takes everything.
    let _ = write!(
        html,
        "<details><summary><b class={class}>{verb}</b> <code>{path}</code> {summary}</summary>\n\
         <form data-path=\"{path}\"><table>"
    );
    for param in route.params {
        let (name, doc) = (param.name, param.doc);
        let need = if param.is_required { " *" } else { "" };
        let field = field(param, route.verb);
        let _ = writeln!(html, "<tr><td><code>{name}</code>{need}<td>{field}<td>{doc}");
    }
    html.push_str("</table>");
    match route.verb {
        Verb::Get => html.push_str("<button>Try</button></form><pre></pre></details>\n"),
        Verb::Post => html.push_str("</form></details>\n"),
    }
}

fn field(param: &Param, verb: Verb) -> String {
    let name = param.name;
    let required = if param.is_required { " required" } else { "" };
    match param.kind {
        _ if param.place == Place::Body => "in the body".to_owned(),
        _ if verb == Verb::Post => "in the query".to_owned(),
        Kind::OneOf(words) => {
            let options: String = words.iter().map(|word| format!("<option>{word}")).collect();
            format!("<select name={name}><option>{options}</select>")
        }
        Kind::Bool => {
            format!("<select name={name}><option><option>true<option>false</select>")
        }
        _ => format!("<input name={name} size=44{required}>"),
    }
}
