//! The paths of an API on the port of JSON-RPC.

/// The paths that an API owns, and those of its pages.
#[derive(Debug)]
pub struct ApiPaths {
    /// The first segments that it owns, with everything below them: `/v1`.
    pub roots: &'static [&'static str],
    /// The path of the page to try the API. A request may omit a slash at its end.
    pub explorer: &'static str,
    /// The path of the OpenAPI document.
    pub openapi: &'static str,
}

impl ApiPaths {
    /// The paths of an API that owns everything below `/v1`.
    pub const V1: Self = Self { roots: &["/v1"], explorer: "/v1/", openapi: "/v1/openapi.json" };

    /// Whether the API serves a path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let is_below = |root: &&str| {
            let below = path.strip_prefix(*root);
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        self.roots.iter().any(is_below)
    }

    /// Whether a path is that of the page to try the API.
    pub(crate) fn is_explorer(&self, path: &str) -> bool {
        path == self.explorer || Some(path) == self.explorer.strip_suffix('/')
    }

    /// Whether a path belongs to the explorer or to the OpenAPI document, which can only be read.
    pub(crate) fn is_page(&self, path: &str) -> bool {
        self.is_explorer(path) || path == self.openapi
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_whole_segment() {
        let owned = ["/v1", "/v1/", "/v1/a", "/v1/a/b"];
        assert!(owned.iter().all(|path| ApiPaths::V1.contains(path)));
        let others = ["", "/", "/v", "/v1a", "/v10/a", "/a/v1"];
        assert!(!others.iter().any(|path| ApiPaths::V1.contains(path)));
    }

    #[test]
    fn the_explorer_is_found_without_its_slash() {
        assert!(ApiPaths::V1.is_explorer("/v1") && ApiPaths::V1.is_explorer("/v1/"));
        assert!(!ApiPaths::V1.is_explorer("/v1/a"));
        let paths = ApiPaths { roots: &["/docs"], explorer: "/docs", openapi: "/openapi.json" };
        assert!(paths.is_explorer("/docs") && !paths.is_explorer("/docs/"));
        assert!(paths.is_page("/openapi.json") && !paths.is_page("/other"));
    }
}
