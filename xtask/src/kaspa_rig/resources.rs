//! CPU time and memory of the two nodes.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use process_usage::Process;

use crate::kaspa_rig::statistics::format_ratio;

const MIB: f64 = 1024.0 * 1024.0;

/// The resources of a node, which may have had several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resources {
    /// The CPU time of all its processes, in user and kernel.
    pub(crate) cpu_time: Duration,
    /// The resident memory of the running process.
    pub(crate) resident_bytes: u64,
}

/// The resources of both nodes at the end of a run. `None`: the node does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComparedResources {
    pub(crate) kaspad: Option<Resources>,
    pub(crate) hydrant: Option<Resources>,
}

impl Resources {
    /// Reads the resources of a node with this process. Its earlier processes used `past_cpu_time`.
    pub(crate) fn read(process_id: u32, past_cpu_time: Duration) -> Result<Self> {
        let process = Process::with_id(process_id);
        Ok(Self {
            cpu_time: past_cpu_time + process.cpu_time()?,
            resident_bytes: process.resident_bytes()?,
        })
    }

    fn resident_mib(&self) -> f64 {
        self.resident_bytes as f64 / MIB
    }

    fn cpu_seconds(&self) -> f64 {
        self.cpu_time.as_secs_f64()
    }
}

impl ComparedResources {
    /// Returns the table of both nodes.
    pub(crate) fn table(&self) -> String {
        let mut table = "\n| resource | kaspad | Hydrant | ratio |\n|---|---|---|---|\n".to_owned();
        let columns = [&self.kaspad, &self.hydrant].map(Option::as_ref);
        let memory = columns.map(|node| node.map(Resources::resident_mib));
        let cpu_time = columns.map(|node| node.map(Resources::cpu_seconds));
        let rows =
            [("resident memory at the end, MiB", memory), ("CPU time of the run, s", cpu_time)];
        for (name, [kaspad, hydrant]) in rows {
            let ratio = match (kaspad, hydrant) {
                (Some(kaspad), Some(hydrant)) => format_ratio(hydrant, kaspad),
                _ => "-".to_owned(),
            };
            let format = |value: Option<f64>| {
                value.map_or_else(|| "does not run".to_owned(), |value| format!("{value:.1}"))
            };
            // Writing to a string does not fail.
            let _ =
                writeln!(table, "| {name} | {} | {} | {ratio} |", format(kaspad), format(hydrant));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_nodes_have_a_column_and_a_ratio() {
        let resources = |cpu_s, mib: u64| Resources {
            cpu_time: Duration::from_secs(cpu_s),
            resident_bytes: mib << 20,
        };
        let kaspad = Some(resources(40, 200));
        let compared = ComparedResources { kaspad, hydrant: Some(resources(10, 50)) };
        let table = compared.table();
        assert!(table.contains("| resident memory at the end, MiB | 200.0 | 50.0 | 0.250 |"));
        assert!(table.contains("| CPU time of the run, s | 40.0 | 10.0 | 0.250 |"), "{table}");
        let table = ComparedResources { kaspad, hydrant: None }.table();
        assert!(table.contains("| CPU time of the run, s | 40.0 | does not run | - |"), "{table}");
    }

    #[test]
    fn the_cpu_time_of_earlier_processes_is_added() {
        let past = Duration::from_secs(1_000);
        let resources = Resources::read(std::process::id(), past).unwrap();
        assert!(resources.cpu_time >= past);
        assert!(resources.resident_bytes > 0);
    }
}
