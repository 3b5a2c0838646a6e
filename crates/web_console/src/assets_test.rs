//! Tests of the files that the page loads: complete, small, and without a way from data to HTML.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use http_server::{ContentEncoding, encode_all};
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};

use crate::assets::{Assets, FILES};
use crate::page::{LedgerKind, Page};

/// All files together, as a browser loads them once.
const COMPRESSED_BYTES_MAX: usize = 60 * 1024;

#[test]
fn every_file_is_listed_and_every_import_leads_to_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let in_folder = fs::read_dir(folder).expect("the folder is there").map(|entry| {
        entry.expect("an entry").file_name().into_string().expect("a name of ASCII letters")
    });
    let listed: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
    assert_eq!(in_folder.collect::<BTreeSet<_>>(), listed);
    let mut imported = BTreeSet::from(["app.js", "style.css", "icon.svg"]);
    for file in FILES {
        for line in file.text.lines().filter(|line| line.starts_with("import ")) {
            let (_, from) = line.split_once(" from './").unwrap_or_else(|| panic!("{line}"));
            imported.insert(from.trim_end_matches("';"));
        }
    }
    assert_eq!(imported, listed.iter().map(String::as_str).collect(), "each one is used");
}

#[test]
fn no_file_converts_text_to_html_or_code_or_loads_elsewhere() {
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "srcdoc",
        "createContextualFragment",
        "setHTML",
        "eval(",
        "new Function",
        "javascript:",
        "https://",
        "@import",
        "url(",
        "localStorage",
        "document.cookie",
    ];
    for file in FILES {
        for word in forbidden {
            assert!(!file.text.contains(word), "{}: {word}", file.name);
        }
        // The only other address is the XML namespace of SVG.
        let without_names = file.text.replace("http://www.w3.org/2000/svg", "");
        let urls = without_names.matches("http://").count();
        let own = without_names.matches("`http://${own.").count();
        assert_eq!(urls, own, "{}", file.name);
    }
}

#[test]
fn the_page_has_no_inline_script_style_or_handler() {
    let assets = Assets::new();
    let page = Page::new(LedgerKind::Local, &assets).render(&crate::page::example_state());
    assert!(!page.contains("<style") && !page.contains(" style="));
    for attribute in page.split_whitespace().filter(|word| word.contains('=')) {
        assert!(!attribute.starts_with("on"), "{attribute}");
    }
    for script in page.split("<script").skip(1) {
        assert!(script.starts_with(" type=module src=\"/console/"), "{script}");
        assert!(script.contains("\"></script>"), "{script}");
    }
    for file in FILES {
        assert!(page.contains(&assets.path(file.name)), "{} is loaded at once", file.name);
    }
}

#[test]
fn all_files_together_are_small() {
    let compress = |text: &str| encode_all(ContentEncoding::Gzip, text.as_bytes());
    let sizes = FILES.iter().map(|file| compress(file.text).expect("gzip to memory").len());
    let bytes: usize = sizes.sum();
    assert!(bytes < COMPRESSED_BYTES_MAX, "{bytes}");
}

#[test]
fn the_listed_traffic_has_the_intervals_in_the_scripts() {
    let traffic: serde_json::Value = serde_json::from_str(crate::TRAFFIC).expect("it is JSON");
    let constants = traffic["constants"].as_object().expect("figures by file and name");
    assert_eq!(constants.len(), 5);
    for (place, value) in constants {
        let (file, name) = place.split_once(' ').expect("a file and a name");
        let file = FILES.iter().find(|it| it.name == file).expect(place);
        let declaration = format!("const {name} = ");
        let line = file.text.lines().find(|line| line.starts_with(&declaration)).expect(place);
        let digits: String =
            line[declaration.len()..].chars().filter(char::is_ascii_digit).collect();
        assert_eq!(digits.parse().ok(), value.as_u64(), "{place}: {line}");
    }
}

#[test]
fn a_file_is_sent_compressed_once_and_then_not_at_all() {
    let assets = Assets::new();
    let path = assets.path("app.js");
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, deflate, br"));
    let response = assets.respond(&path, &headers).expect("the file");
    assert_eq!(response.status(), StatusCode::OK);
    let sent = response.headers();
    assert_eq!(sent[header::CONTENT_ENCODING], "gzip");
    assert_eq!(sent[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
    assert_eq!(sent[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
    let etag = sent[header::ETAG].clone();
    headers.insert(header::IF_NONE_MATCH, etag.clone());
    let response = assets.respond(&path, &headers).expect("the file");
    assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
    // Another coding is another representation.
    headers.remove(header::ACCEPT_ENCODING);
    let response = assets.respond(&path, &headers).expect("the file");
    assert_eq!(response.status(), StatusCode::OK);
    assert_ne!(response.headers()[header::ETAG], etag);
}

#[test]
fn a_file_from_another_version_does_not_exist() {
    let assets = Assets::new();
    let headers = HeaderMap::new();
    for path in ["/console/", "/console/app.js", "/console/000000000000/app.js"] {
        assert!(assets.respond(path, &headers).is_none(), "{path}");
    }
    assert!(assets.respond(&assets.path("../Cargo.toml"), &headers).is_none());
}
