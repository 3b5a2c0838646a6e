//! The method of a call, found by its path.
//!
//! A path may have several kilobytes, so a call stores its method instead.

const HEALTH_SERVICE_NAME: &str = "grpc.health.v1.Health";
const HEALTH_METHODS: &[&str] = &["Check", "Watch"];
/// The name of a method that a service does not have.
const UNKNOWN_METHOD: &str = "unknown";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// A method of the server's own service.
    Own(&'static str),
    Health(&'static str),
    /// A method of another service.
    Foreign,
}

impl Method {
    /// Returns the method with a path of the form `/service/method`. `service` and `methods` are those of the server.
    pub(crate) fn from_path(path: &str, service: &str, methods: &[&'static str]) -> Self {
        let service_and_method = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        match service_and_method {
            Some((name, method)) if name == service => Self::Own(find_name(methods, method)),
            Some((HEALTH_SERVICE_NAME, method)) => Self::Health(find_name(HEALTH_METHODS, method)),
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
            ("/geyser.Geyser/Subscribe", Method::Own("Subscribe")),
            ("/geyser.Geyser/subscribe", Method::Own(UNKNOWN_METHOD)),
            ("/geyser.Geyser/Subscribe/", Method::Own(UNKNOWN_METHOD)),
            ("/grpc.health.v1.Health/Watch", Method::Health("Watch")),
            ("/grpc.health.v1.Health/Subscribe", Method::Health(UNKNOWN_METHOD)),
            ("/geyser.Geyser", Method::Foreign),
            ("geyser.Geyser/Subscribe", Method::Foreign),
            ("/", Method::Foreign),
        ];
        for (path, expected) in cases {
            assert_eq!(
                Method::from_path(path, "geyser.Geyser", &["Subscribe"]),
                expected,
                "{path}"
            );
        }
    }
}
