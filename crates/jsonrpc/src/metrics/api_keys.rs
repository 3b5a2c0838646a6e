//! The metric families of API keys.
//!
//! Bounds: `api_keys::REPORTED_KEYS_MAX` keys have labels of their own.

use api_keys::{ApiKeys, CLASS_NAMES};
use metrics::{Exposition, MetricKind};

pub(super) fn write(exposition: &mut Exposition, keys: &ApiKeys) {
    let rows = keys.metric_rows();
    let help = "Admitted calls of methods by API key and class.";
    let mut family = exposition.family("hydrant_api_key_requests_total", MetricKind::Counter, help);
    for row in &rows {
        for (class, calls) in CLASS_NAMES.iter().zip(row.calls) {
            family.put(&[("key", &row.name), ("class", class)], calls);
        }
    }
    let help = "Requests refused by API key: over a limit, or of a method that its tier denies.";
    let mut family = exposition.family("hydrant_api_key_refused_total", MetricKind::Counter, help);
    for row in &rows {
        family.put(&[("key", &row.name)], row.refused);
    }
    let help = "Refusals that were sent late, because their client had too many.";
    let name = "hydrant_api_key_refusals_delayed_total";
    exposition.single(name, MetricKind::Counter, help, keys.delayed_refusals());
    let help = "Requests without a valid API key.";
    let mut family =
        exposition.family("hydrant_api_key_unauthorized_total", MetricKind::Counter, help);
    let throttled = keys.throttled_requests();
    let refused = keys.unauthorized_requests().saturating_sub(throttled);
    family.put(&[("cause", "key")], refused);
    family.put(&[("cause", "throttled")], throttled);
    let help = "Reloads of the file of API keys, by result.";
    let mut family = exposition.family("hydrant_api_key_reloads_total", MetricKind::Counter, help);
    let (valid, failed) = keys.reloads();
    family.put(&[("result", "replaced")], valid);
    family.put(&[("result", "failed")], failed);
    let help = "API keys in the table.";
    exposition.single("hydrant_api_keys", MetricKind::Gauge, help, keys.keys());
}
