//! Metrics of the process from the system, with the names that Prometheus' own clients use. Without `/proc` there are
//! none.

use super::exposition::{Exposition, MetricKind};

/// The kernel reports CPU time in these ticks: 100 per second on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn write(exposition: &mut Exposition) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).ok();
    if let Some(bytes) = read("status").as_deref().and_then(resident_bytes) {
        let name = "process_resident_memory_bytes";
        exposition.single(name, MetricKind::Gauge, "Resident memory of the process.", bytes);
    }
    if let Some((ticks, threads)) = read("stat").as_deref().and_then(ticks_and_threads) {
        let name = "process_cpu_seconds_total";
        let help = "CPU time of the process, user and system.";
        exposition.single(name, MetricKind::Counter, help, ticks as f64 / TICKS_PER_SECOND);
        exposition.single("process_threads", MetricKind::Gauge, "Threads of the process.", threads);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        exposition.single(
            "process_open_fds",
            MetricKind::Gauge,
            "Open file descriptors.",
            open.count(),
        );
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}

/// The fields after the process name are numbers. Of all fields, the 14th and 15th are user and system time, the 20th
/// is the number of threads. The name may contain any character.
fn ticks_and_threads(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some((field(14)? + field(15)?, field(20)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_after_any_process_name() {
        let stat = "77 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 1234 5 6\n";
        assert_eq!(ticks_and_threads(stat), Some((300, 9)));
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t   12 kB\n"), Some(12 * 1_024));
    }
}
