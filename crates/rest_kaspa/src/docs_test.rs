//! Test: `docs/kaspa_rest.md` lists every route with its parameters, and every header.

use rest::{HttpMethod, ParamLocation};

use crate::position_headers::OWN_HEADERS;
use crate::routes::ROUTES;

#[test]
fn the_document_lists_every_route_with_its_parameters_and_every_header() {
    let document = include_str!("../../../docs/kaspa_rest.md");
    for route in ROUTES {
        let verb = if route.method == HttpMethod::Get { "GET" } else { "POST" };
        let start = format!("| `{verb} {}` |", route.path);
        let line = document.lines().find_map(|line| line.strip_prefix(&start));
        let line = line.unwrap_or_else(|| panic!("no {start}"));
        // The path names its own.
        for param in route.params.iter().filter(|param| param.location != ParamLocation::Path) {
            assert!(line.contains(&format!("`{}`", param.name)), "{start}: no {}", param.name);
        }
    }
    for header in OWN_HEADERS {
        assert!(document.contains(&format!("`{}`", header.name)), "no {}", header.name);
    }
}
