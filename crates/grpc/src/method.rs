//! The method of a call, found by its path.
//!
//! A path may have several kilobytes, so a call stores its method instead.

use yellowstone_grpc_proto::geyser::geyser_server::SERVICE_NAME;

const HEALTH_SERVICE_NAME: &str = "grpc.health.v1.Health";
/// The methods of the proto. Not all of them are served.
const GEYSER_METHODS: [&str; 10] = [
    "Subscribe",
    "SubscribeDeshred",
    "SubscribeGossip",
    "SubscribeReplayInfo",
    "Ping",
    "GetLatestBlockhash",
    "GetBlockHeight",
    "GetSlot",
    "IsBlockhashValid",
    "GetVersion",
];
const HEALTH_METHODS: [&str; 2] = ["Check", "Watch"];
/// The name of a method that is in neither list.
const UNKNOWN_METHOD: &str = "unknown";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Geyser(&'static str),
    Health(&'static str),
    /// A method of another service.
    Foreign,
}

impl Method {
    /// Returns the method with a path of the form `/service/method`.
    pub(crate) fn from_path(path: &str) -> Self {
        let service_and_method = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        match service_and_method {
            Some((SERVICE_NAME, method)) => Self::Geyser(find_name(&GEYSER_METHODS, method)),
            Some((HEALTH_SERVICE_NAME, method)) => Self::Health(find_name(&HEALTH_METHODS, method)),
            _ => Self::Foreign,
        }
    }
}

fn find_name(known: &[&'static str], name: &str) -> &'static str {
    known.iter().copied().find(|it| *it == name).unwrap_or(UNKNOWN_METHOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_found_by_its_service_and_name() {
        let cases = [
            ("/geyser.Geyser/Subscribe", Method::Geyser("Subscribe")),
            ("/geyser.Geyser/subscribe", Method::Geyser(UNKNOWN_METHOD)),
            ("/geyser.Geyser/Subscribe/", Method::Geyser(UNKNOWN_METHOD)),
            ("/grpc.health.v1.Health/Watch", Method::Health("Watch")),
            ("/grpc.health.v1.Health/Subscribe", Method::Health(UNKNOWN_METHOD)),
            ("/geyser.Geyser", Method::Foreign),
            ("geyser.Geyser/Subscribe", Method::Foreign),
            ("/", Method::Foreign),
        ];
        for (path, expected) in cases {
            assert_eq!(Method::from_path(path), expected, "{path}");
        }
    }
}
