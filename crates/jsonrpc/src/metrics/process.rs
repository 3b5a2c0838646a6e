//! Metrics of the process from the system, with the names that Prometheus' own clients use. Without `/proc` there are
//! none.

use metrics::{Exposition, MetricKind};
use process_usage::Process;

pub(super) fn write(exposition: &mut Exposition) {
    let process = Process::current();
    if let Ok(bytes) = process.resident_bytes() {
        let name = "process_resident_memory_bytes";
        exposition.single(name, MetricKind::Gauge, "Resident memory of the process.", bytes);
    }
    if let Ok(time) = process.cpu_time() {
        let name = "process_cpu_seconds_total";
        let help = "CPU time of the process, user and system.";
        exposition.single(name, MetricKind::Counter, help, time.as_secs_f64());
    }
    if let Ok(threads) = process.threads() {
        exposition.single("process_threads", MetricKind::Gauge, "Threads of the process.", threads);
    }
    if let Ok(open) = process.open_files() {
        exposition.single("process_open_fds", MetricKind::Gauge, "Open file descriptors.", open);
    }
}
