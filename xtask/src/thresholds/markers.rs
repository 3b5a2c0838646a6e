//! Generated parts of a document: the text between the lines `<!-- begin NAME -->` and `<!-- end NAME -->`.

/// A generated part of a document.
#[derive(Debug, PartialEq)]
pub(super) struct Section<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

/// Returns the sections of `document`, in order. A start mark without an end mark is skipped.
pub(super) fn sections(document: &str) -> Vec<Section<'_>> {
    let mut sections = Vec::new();
    let mut rest = document;
    while let Some((_, after)) = rest.split_once("<!-- begin ") {
        rest = after;
        let Some((line, body)) = after.split_once('\n') else { break };
        let name = line.strip_suffix(" -->").filter(|name| !name.contains(' '));
        let Some(name) = name else { continue };
        let Some((text, after)) = body.split_once(&end_mark(name)) else { continue };
        sections.push(Section { name, text });
        rest = after;
    }
    sections
}

/// Returns `document` with `text` as the section `name`, or `None` if it has no such section.
pub(crate) fn replace_section(document: &str, name: &str, text: &str) -> Option<String> {
    let (before, rest) = document.split_once(&start_mark(name))?;
    let (_, after) = rest.split_once(&end_mark(name))?;
    Some(format!("{before}{}{text}{}{after}", start_mark(name), end_mark(name)))
}

fn start_mark(name: &str) -> String {
    format!("<!-- begin {name} -->\n")
}

fn end_mark(name: &str) -> String {
    format!("<!-- end {name} -->")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# B `<!-- begin NAME -->` and `<!-- end NAME -->`\n\
                            <!-- begin rpc -->\nold\n<!-- end rpc -->\nrest\n\
                            <!-- begin start -->\n<!-- end start -->\n<!-- begin open -->\n";

    #[test]
    fn sections_are_found_in_order() {
        let found = sections(DOCUMENT);
        assert_eq!(
            found,
            [Section { name: "rpc", text: "old\n" }, Section { name: "start", text: "" }]
        );
    }

    #[test]
    fn only_the_named_section_is_replaced() {
        let replaced = replace_section(DOCUMENT, "rpc", "new\n").unwrap();
        assert_eq!(replaced, DOCUMENT.replace("old", "new"));
        assert_eq!(replace_section(DOCUMENT, "load", "new\n"), None);
        assert_eq!(replace_section(DOCUMENT, "open", "new\n"), None);
    }
}
