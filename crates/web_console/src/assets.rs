//! The files that the page loads, and their paths.

use http_server::ResponseBody;
use hyper::Response;
use hyper::header::HeaderMap;
use rest::StaticResponse;

/// The common prefix of the paths of all files.
pub(crate) const PREFIX: &str = "/console/";

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// A file that the page loads, by name.
pub(crate) struct AssetFile {
    pub(crate) name: &'static str,
    pub(crate) media: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! asset {
    ($name:literal, $media:expr) => {
        AssetFile { name: $name, media: $media, text: include_str!(concat!("../assets/", $name)) }
    };
}

/// Every file. The page loads the first script, which imports the others.
pub(crate) const FILES: &[AssetFile] = &[
    asset!("app.js", SCRIPT),
    asset!("account.js", SCRIPT),
    asset!("account_history.js", SCRIPT),
    asset!("api.js", SCRIPT),
    asset!("block.js", SCRIPT),
    asset!("dom.js", SCRIPT),
    asset!("faucet.js", SCRIPT),
    asset!("format.js", SCRIPT),
    asset!("instructions.js", SCRIPT),
    asset!("json.js", SCRIPT),
    asset!("keyboard.js", SCRIPT),
    asset!("live_account.js", SCRIPT),
    asset!("logs.js", SCRIPT),
    asset!("metrics.js", SCRIPT),
    asset!("names.js", SCRIPT),
    asset!("node.js", SCRIPT),
    asset!("overview.js", SCRIPT),
    asset!("parts.js", SCRIPT),
    asset!("plot.js", SCRIPT),
    asset!("program_accounts.js", SCRIPT),
    asset!("search.js", SCRIPT),
    asset!("socket.js", SCRIPT),
    asset!("tip.js", SCRIPT),
    asset!("transaction.js", SCRIPT),
    asset!("transaction_list.js", SCRIPT),
    asset!("verification.js", SCRIPT),
    asset!("style.css", STYLE),
    asset!("icon.svg", ICON),
];

/// The files as responses. Their paths change with their content, so that a browser never mixes two versions.
pub(crate) struct Assets {
    /// `/console/`, the hash of all files, and `/`.
    folder: String,
    responses: Vec<(&'static str, StaticResponse)>,
}

impl Assets {
    pub(crate) fn new() -> Self {
        let mut hasher = blake3::Hasher::new();
        for file in FILES {
            hasher.update(file.name.as_bytes()).update(&[0]).update(file.text.as_bytes());
        }
        let folder = format!("{PREFIX}{}/", &hasher.finalize().to_hex()[..12]);
        let response = |file: &AssetFile| {
            (file.name, StaticResponse::new(file.media, file.text.as_bytes()).immutable())
        };
        Self { folder, responses: FILES.iter().map(response).collect() }
    }

    /// Returns the path at which a file is served.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    /// Returns the response to a request for this path, if there is such a file in this version.
    pub(crate) fn respond(
        &self,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<Response<ResponseBody>> {
        let name = path.strip_prefix(&self.folder)?;
        let (_, response) = self.responses.iter().find(|(it, _)| *it == name)?;
        Some(response.respond(headers))
    }
}
