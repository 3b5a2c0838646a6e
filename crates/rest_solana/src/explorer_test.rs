//! Test: the page to try the API has every route.

use rest::{HttpMethod, ParamLocation, RestApi, Route, explorer_page};

use crate::SolanaRest;
use crate::routes::ROUTES;

/// The part of the page for a route.
fn part<'p>(page: &'p str, route: &Route) -> &'p str {
    let from = page.find(&format!("<details class=route id={}>", route.id));
    let part = &page[from.unwrap_or_else(|| panic!("no {}", route.id))..];
    part.split("</form>").next().unwrap_or_default()
}

#[test]
fn every_route_has_a_form_and_every_parameter_a_field() {
    let page = explorer_page(SolanaRest::TABLE);
    assert_eq!(page.matches("<form ").count(), ROUTES.len());
    for route in ROUTES {
        let verb = if route.method == HttpMethod::Get { "GET" } else { "POST" };
        let part = part(&page, route);
        let form = format!("<form class=inside data-verb={verb} data-path=\"{}\">", route.path);
        assert!(part.contains(&form), "{part}");
        assert!(page.contains(&format!("href=\"/v1/#{}\"", route.id)), "{} is listed", route.id);
        for param in route.params {
            let location = match param.location {
                ParamLocation::Path => "path",
                ParamLocation::Query => "query",
                ParamLocation::Body => "body",
            };
            let field = format!(" name={} data-in={location} ", param.name);
            assert_eq!(part.matches(&field).count(), 1, "{}: {field}{part}", route.id);
            let label = format!(
                "aria-label={}{}",
                param.name,
                if param.is_required { " required" } else { "" }
            );
            assert!(part.contains(&label) && part.contains(param.doc), "{}: {label}", route.id);
        }
        let fields = part.matches("data-in=").count();
        assert_eq!(fields, route.params.len() + usize::from(route.response.has_raw()));
        for class in ["class=command", "class=copy", "class=send", "class=response"] {
            assert!(part.contains(class), "{}: {class}", route.id);
        }
    }
}

#[test]
fn bodies_are_filled_in_with_what_can_be_sent() {
    let page = explorer_page(SolanaRest::TABLE);
    let part_of = |id: &str| {
        let route = ROUTES.iter().find(|route| route.id == id);
        part(&page, route.unwrap_or_else(|| panic!("no {id}")))
    };
    assert!(part_of("postProgramAccounts").contains(">[{\"dataSize\":165}]</textarea>"));
    assert!(
        part_of("postAccounts")
            .contains("\nSysvarC1ock11111111111111111111111111111111</textarea>")
    );
    for id in ["postTransaction", "simulateTransaction"] {
        assert!(part_of(id).contains("placeholder=base64>AQAA"), "{id}");
    }
    // The accounts of a simulation are optional, so they are not filled in.
    assert!(part_of("simulateTransaction").contains("commas\"></textarea>"));
}

#[test]
fn the_page_is_well_formed_and_self_contained() {
    let page = explorer_page(SolanaRest::TABLE);
    for element in ["details", "form", "select", "textarea", "label", "pre", "script", "style"] {
        let open = format!("<{element}");
        let close = format!("</{element}>");
        assert_eq!(page.matches(&open).count(), page.matches(&close).count(), "{element}");
    }
    for forbidden in ["http:", "https:", "src=", "@import", "url(", "innerHTML"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    for doc in ROUTES.iter().flat_map(|route| route.params.iter().map(|param| param.doc)) {
        assert!(!doc.contains(['<', '>', '&', '"']), "{doc}");
    }
}
