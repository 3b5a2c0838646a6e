//! Resources of a process from Linux's `/proc`: CPU time, resident memory.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fs, io};

use crate::LoadError;

/// Clock ticks a second, as Linux counts the CPU time of processes on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(pub u32);

/// The resources of a process at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Sample {
    /// Milliseconds since the load began.
    pub at_ms: f64,
    /// Seconds of CPU time, in user and kernel, since the process began.
    pub cpu_s: f64,
    /// Bytes of memory that are resident.
    pub resident_bytes: u64,
}

/// The resources that a server used while it was measured.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ResourceUsage {
    /// Seconds of CPU time.
    pub cpu_s: f64,
    /// Average number of cores in use.
    pub cores: f64,
    /// Resident memory at the start.
    pub resident_bytes_before: u64,
    /// Peak of the resident memory, sampled ten times a second.
    pub peak_resident_bytes: u64,
    /// All samples.
    pub samples: Vec<Sample>,
}

impl Process {
    /// CPU time used so far, in user and kernel, with a resolution of 10 ms.
    pub fn cpu_time(self) -> Result<Duration, LoadError> {
        let stat = self.file("stat")?;
        let (_, time) = name_and_cpu_time(&stat).ok_or_else(|| self.unknown("stat"))?;
        Ok(time)
    }

    /// CPU time of its threads, summed by thread name.
    pub fn cpu_time_by_thread(self) -> Result<BTreeMap<String, Duration>, LoadError> {
        let mut times = BTreeMap::new();
        self.for_each_thread("stat", |stat| {
            let (name, time) = name_and_cpu_time(stat)?;
            *times.entry(name.to_owned()).or_default() += time;
            Some(())
        })?;
        Ok(times)
    }

    /// CPU time of all its threads, with a resolution of 1 ns; without threads that have ended.
    pub fn cpu_time_of_threads(self) -> Result<Duration, LoadError> {
        let mut time = Duration::ZERO;
        self.for_each_thread("schedstat", |stat| {
            time += Duration::from_nanos(stat.split_whitespace().next()?.parse().ok()?);
            Some(())
        })?;
        Ok(time)
    }

    /// Bytes of memory that are resident.
    pub fn resident_bytes(self) -> Result<u64, LoadError> {
        self.status_bytes("VmRSS:")
    }

    /// Peak of the resident memory in bytes.
    pub fn peak_resident_bytes(self) -> Result<u64, LoadError> {
        self.status_bytes("VmHWM:")
    }

    /// A sample with the time `at`.
    pub(crate) fn sample(self, at: Duration) -> Result<Sample, LoadError> {
        Ok(Sample {
            at_ms: at.as_secs_f64() * 1e3,
            cpu_s: self.cpu_time()?.as_secs_f64(),
            resident_bytes: self.resident_bytes()?,
        })
    }

    fn status_bytes(self, name: &str) -> Result<u64, LoadError> {
        let status = self.file("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.ok_or_else(|| self.unknown("status"))? * 1024)
    }

    /// Reads a file of each running thread.
    fn for_each_thread(
        self,
        name: &str,
        mut read: impl FnMut(&str) -> Option<()>,
    ) -> Result<(), LoadError> {
        let failed = |err| LoadError::Process { pid: self.0, err };
        for task in fs::read_dir(format!("/proc/{}/task", self.0)).map_err(failed)? {
            let Ok(text) = fs::read_to_string(task.map_err(failed)?.path().join(name)) else {
                continue;
            };
            read(&text).ok_or_else(|| self.unknown(name))?;
        }
        Ok(())
    }

    fn file(self, name: &str) -> Result<String, LoadError> {
        let pid = self.0;
        fs::read_to_string(format!("/proc/{pid}/{name}"))
            .map_err(|err| LoadError::Process { pid, err })
    }

    fn unknown(self, name: &str) -> LoadError {
        let err = io::Error::new(io::ErrorKind::InvalidData, format!("an unknown form of {name}"));
        LoadError::Process { pid: self.0, err }
    }
}

/// Parses a `stat` file: the second field is the name, in parentheses, with any bytes; the 14th and
/// 15th are ticks.
fn name_and_cpu_time(stat: &str) -> Option<(&str, Duration)> {
    let (name, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<f64>);
    let (user, kernel) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    let time = Duration::from_secs_f64((user + kernel) / TICKS_PER_SECOND);
    Some((name.split_once('(')?.1, time))
}

impl ResourceUsage {
    /// Computes the usage from samples in order.
    pub(crate) fn from_samples(samples: Vec<Sample>) -> Option<Self> {
        let (first, last) = (*samples.first()?, *samples.last()?);
        let cpu_s = last.cpu_s - first.cpu_s;
        let took_s = (last.at_ms - first.at_ms) / 1e3;
        Some(Self {
            cpu_s,
            cores: if took_s > 0.0 { cpu_s / took_s } else { 0.0 },
            resident_bytes_before: first.resident_bytes,
            peak_resident_bytes: samples.iter().map(|sample| sample.resident_bytes).max()?,
            samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_process_is_read() {
        let process = Process(std::process::id());
        let resident = process.resident_bytes().expect("it runs");
        assert!(resident > 100_000, "{resident} bytes resident");
        assert!(process.peak_resident_bytes().expect("it runs") >= resident / 2);
        process.cpu_time().expect("it runs");
        let by_thread = process.cpu_time_by_thread().expect("it runs");
        assert!(!by_thread.is_empty());
        assert!(process.cpu_time_of_threads().expect("it runs") > Duration::ZERO);
        let err = Process(u32::MAX).cpu_time().expect_err("no such process");
        assert!(matches!(err, LoadError::Process { .. }));
    }

    #[test]
    fn a_name_may_have_any_bytes() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0";
        let (name, time) = name_and_cpu_time(stat).expect("a stat");
        assert_eq!((name, time), ("a) b (c", Duration::from_secs(2)));
        assert_eq!(name_and_cpu_time("7 (a) S 1"), None);
    }

    #[test]
    fn usage_is_the_last_sample_minus_the_first() {
        let sample = |at_ms, cpu_s, resident_bytes| Sample { at_ms, cpu_s, resident_bytes };
        let usage = ResourceUsage::from_samples(vec![
            sample(0.0, 1.0, 5),
            sample(500.0, 1.5, 9),
            sample(1e3, 2.5, 7),
        ]);
        let usage = usage.expect("three samples");
        assert_eq!((usage.cpu_s, usage.cores), (1.5, 1.5));
        assert_eq!((usage.resident_bytes_before, usage.peak_resident_bytes), (5, 9));
        assert_eq!(ResourceUsage::from_samples(Vec::new()), None);
    }
}
