//! The memory that this machine has for its processes.

/// Returns the bytes of memory that the processes of this machine or container may use. `None` on systems without
/// `/proc`.
pub fn machine_memory_bytes() -> Option<u64> {
    let installed = parse_total(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    // The limit of the control group at the root of a container. "max" is none.
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok());
    Some(limit.map_or(installed, |limit: u64| limit.min(installed)))
}

fn parse_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_in_kib() {
        let text = "MemFree:  3 kB\nMemTotal:        8026384 kB\n";
        assert_eq!(parse_total(text), Some(8_026_384 * 1_024));
        assert_eq!(parse_total("MemTotal: many\n"), None);
        assert_eq!(parse_total(""), None);
    }
}
