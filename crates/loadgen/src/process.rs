//! What a process uses, as Linux tells in `/proc`: CPU time, resident memory.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fs, io};

use crate::LoadError;

/// Clock ticks a second, as Linux counts the CPU time of processes on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(pub u32);

/// What a process had used at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Sample {
    /// Milliseconds since the load began.
    pub at_ms: f64,
    /// Seconds of CPU time, in user and kernel, since the process began.
    pub cpu_s: f64,
    /// Bytes of memory that are resident.
    pub resident_bytes: u64,
}

/// What a server used while it was measured.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ResourceUsage {
    /// Seconds of CPU time.
    pub cpu_s: f64,
    /// Of one core; 2.0 is two of them.
    pub cores: f64,
    /// Resident memory when it began.
    pub resident_bytes_before: u64,
    /// The most that was seen, at ten looks a second.
    pub peak_resident_bytes: u64,
    /// Every look.
    pub samples: Vec<Sample>,
}

impl Process {
    /// CPU time that it has used, in user and kernel; 10 ms is the finest it is counted in.
    pub fn cpu_time(self) -> Result<Duration, LoadError> {
        let stat = self.file("stat")?;
        let (_, time) = name_and_cpu_time(&stat).ok_or_else(|| self.unknown("stat"))?;
        Ok(time)
    }

    /// The same of each of its threads, by name; equal names together.
    pub fn cpu_time_by_thread(self) -> Result<BTreeMap<String, Duration>, LoadError> {
        let mut times = BTreeMap::new();
        self.for_each_thread("stat", |stat| {
            let (name, time) = name_and_cpu_time(stat)?;
            *times.entry(name.to_owned()).or_default() += time;
            Some(())
        })?;
        Ok(times)
    }

    /// CPU time of all its threads together, to the nanosecond; without those that have ended.
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

    /// The most bytes of memory that were ever resident.
    pub fn peak_resident_bytes(self) -> Result<u64, LoadError> {
        self.status_bytes("VmHWM:")
    }

    /// All of it, at a time of the caller's.
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

    /// Shows a file of each thread that has not ended meanwhile.
    fn for_each_thread(
        self,
        name: &str,
        mut show: impl FnMut(&str) -> Option<()>,
    ) -> Result<(), LoadError> {
        let failed = |err| LoadError::Process { pid: self.0, err };
        for task in fs::read_dir(format!("/proc/{}/task", self.0)).map_err(failed)? {
            let Ok(text) = fs::read_to_string(task.map_err(failed)?.path().join(name)) else {
                continue;
            };
            show(&text).ok_or_else(|| self.unknown(name))?;
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

/// Of a `stat` file: its second field is the name, in parentheses, and may hold anything; the 14th and 15th
/// are ticks.
fn name_and_cpu_time(stat: &str) -> Option<(&str, Duration)> {
    let (name, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<f64>);
    let (user, kernel) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    let time = Duration::from_secs_f64((user + kernel) / TICKS_PER_SECOND);
    Some((name.split_once('(')?.1, time))
}

impl ResourceUsage {
    /// From looks in their order.
    pub(crate) fn from_samples(samples: Vec<Sample>) -> Option<Self> {
        let (first, last) = (*samples.first()?, *samples.last()?);
        let cpu_s = last.cpu_s - first.cpu_s;
        let took_s = (last.at_ms - first.at_ms) / 1e3;
        Some(Self {
            cpu_s,
            cores: if took_s > 0.0 { cpu_s / took_s } else { 0.0 },
            resident_bytes_before: first.resident_bytes,
            peak_resident_bytes: samples.iter().map(|look| look.resident_bytes).max()?,
            samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_is_seen() {
        let us = Process(std::process::id());
        let resident = us.resident_bytes().expect("we are there");
        assert!(resident > 100_000, "{resident} bytes resident");
        assert!(us.peak_resident_bytes().expect("we are there") >= resident / 2);
        us.cpu_time().expect("we are there");
        let by_thread = us.cpu_time_by_thread().expect("we are there");
        assert!(!by_thread.is_empty());
        assert!(us.cpu_time_of_threads().expect("we are there") > Duration::ZERO);
        let err = Process(u32::MAX).cpu_time().expect_err("no such process");
        assert!(matches!(err, LoadError::Process { .. }));
    }

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0";
        let (name, time) = name_and_cpu_time(stat).expect("a stat");
        assert_eq!((name, time), ("a) b (c", Duration::from_secs(2)));
        assert_eq!(name_and_cpu_time("7 (a) S 1"), None);
    }

    #[test]
    fn usage_is_the_last_sample_minus_the_first() {
        let look = |at_ms, cpu_s, resident_bytes| Sample { at_ms, cpu_s, resident_bytes };
        let used = ResourceUsage::from_samples(vec![
            look(0.0, 1.0, 5),
            look(500.0, 1.5, 9),
            look(1e3, 2.5, 7),
        ]);
        let used = used.expect("three looks");
        assert_eq!((used.cpu_s, used.cores), (1.5, 1.5));
        assert_eq!((used.resident_bytes_before, used.peak_resident_bytes), (5, 9));
        assert_eq!(ResourceUsage::from_samples(Vec::new()), None);
    }
}
