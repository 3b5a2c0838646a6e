//! Test: `docs/kaspa_rest.md` lists every route and every header.

use rest::HttpMethod;

use crate::position_headers::OWN_HEADERS;
use crate::routes::ROUTES;

#[test]
fn the_document_lists_every_route_and_every_header() {
    let document = include_str!("../../../docs/kaspa_rest.md");
    for route in ROUTES {
        let verb = if route.method == HttpMethod::Get { "GET" } else { "POST" };
        let line = format!("| `{verb} {}` |", route.path);
        assert!(document.contains(&line), "no {line}");
        for param in route.params {
            assert!(document.contains(&format!("`{}`", param.name)), "no {}", param.name);
        }
    }
    for header in OWN_HEADERS {
        assert!(document.contains(&format!("`{}`", header.name)), "no {}", header.name);
    }
}
