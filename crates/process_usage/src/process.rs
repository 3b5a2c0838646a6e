//! Resources of a process from Linux's `/proc`: CPU time, memory, threads, open files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

/// Milliseconds of a clock tick, as Linux counts the CPU time of processes on every architecture.
const TICK_MS: u64 = 10;

/// A process of this machine, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// `None`: this process. Its own id may belong to another process in the `/proc` of a container.
    pid: Option<u32>,
}

/// The resources of a process cannot be read: it has ended, or the system has no `/proc`.
#[derive(Debug, thiserror::Error)]
#[error("read {}", path.display())]
pub struct ProcessError {
    /// The file under `/proc` of the process.
    pub path: PathBuf,
    /// The system's error of the read.
    #[source]
    pub err: io::Error,
}

impl Process {
    /// Returns the calling process.
    pub fn current() -> Self {
        Self { pid: None }
    }

    /// Creates the process with this id.
    pub fn with_id(pid: u32) -> Self {
        Self { pid: Some(pid) }
    }

    /// Returns the CPU time used so far, in user and kernel, with a resolution of 10 ms.
    pub fn cpu_time(self) -> Result<Duration, ProcessError> {
        let (_, time) = self.parse("stat", name_and_cpu_time)?;
        Ok(time)
    }

    /// Returns the CPU time of its threads, summed by thread name.
    pub fn cpu_time_by_thread(self) -> Result<BTreeMap<String, Duration>, ProcessError> {
        let mut times = BTreeMap::new();
        self.for_each_thread("stat", |stat| {
            let (name, time) = name_and_cpu_time(stat)?;
            *times.entry(name).or_default() += time;
            Some(())
        })?;
        Ok(times)
    }

    /// Returns the CPU time of all its threads, with a resolution of 1 ns; without threads that have ended.
    pub fn threads_cpu_time(self) -> Result<Duration, ProcessError> {
        let mut time = Duration::ZERO;
        self.for_each_thread("schedstat", |stat| {
            time += Duration::from_nanos(stat.split_whitespace().next()?.parse().ok()?);
            Some(())
        })?;
        Ok(time)
    }

    /// Returns the resident bytes of memory.
    pub fn resident_bytes(self) -> Result<u64, ProcessError> {
        self.status_bytes("VmRSS")
    }

    /// Returns the peak of the resident memory in bytes.
    pub fn peak_resident_bytes(self) -> Result<u64, ProcessError> {
        self.status_bytes("VmHWM")
    }

    /// Returns the resident bytes that are not of a file: heap and stacks.
    pub fn anonymous_bytes(self) -> Result<u64, ProcessError> {
        self.status_bytes("RssAnon")
    }

    /// Returns the resident bytes in transparent huge pages of 2 MiB. The process may use a part of each.
    pub fn huge_page_bytes(self) -> Result<u64, ProcessError> {
        self.parse("smaps_rollup", |rollup| bytes(field(rollup, "AnonHugePages")?))
    }

    /// Returns the resident bytes of files: the executable and libraries.
    pub fn file_bytes(self) -> Result<u64, ProcessError> {
        self.status_bytes("RssFile")
    }

    /// Returns the number of its threads.
    pub fn threads(self) -> Result<u64, ProcessError> {
        self.parse("status", |status| field(status, "Threads")?.parse().ok())
    }

    /// Returns the number of its open file descriptors.
    pub fn open_files(self) -> Result<usize, ProcessError> {
        let path = self.path("fd");
        match fs::read_dir(&path) {
            Ok(open) => Ok(open.count()),
            Err(err) => Err(ProcessError { path, err }),
        }
    }

    /// Returns a mask of signals, by its name, such as `SigIgn` for those that it ignores. The lowest bit is signal
    /// 1.
    pub fn signal_mask(self, name: &str) -> Result<u64, ProcessError> {
        self.parse("status", |status| u64::from_str_radix(field(status, name)?, 16).ok())
    }

    fn status_bytes(self, name: &str) -> Result<u64, ProcessError> {
        self.parse("status", |status| bytes(field(status, name)?))
    }

    /// Reads a file of each running thread.
    fn for_each_thread(
        self,
        name: &str,
        mut read: impl FnMut(&str) -> Option<()>,
    ) -> Result<(), ProcessError> {
        let path = self.path("task");
        let failed = |err| ProcessError { path: path.clone(), err };
        for task in fs::read_dir(&path).map_err(failed)? {
            let file = task.map_err(failed)?.path().join(name);
            let Ok(text) = fs::read_to_string(&file) else { continue };
            read(&text).ok_or_else(|| unknown_form(&file))?;
        }
        Ok(())
    }

    /// Reads a file of the process. `read` returns `None` for an unknown form.
    fn parse<T>(self, name: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, ProcessError> {
        let path = self.path(name);
        match fs::read_to_string(&path) {
            Ok(text) => read(&text).ok_or_else(|| unknown_form(&path)),
            Err(err) => Err(ProcessError { path, err }),
        }
    }

    fn path(self, name: &str) -> PathBuf {
        let process = self.pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        Path::new("/proc").join(process).join(name)
    }
}

fn unknown_form(path: &Path) -> ProcessError {
    let err = io::Error::new(io::ErrorKind::InvalidData, "an unknown form");
    ProcessError { path: path.to_owned(), err }
}

/// Returns a line of a `status` file, by its name.
fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    let named = |line: &'t str| line.strip_prefix(name)?.strip_prefix(':');
    status.lines().find_map(named).map(str::trim)
}

/// Returns a size in a `status` file.
fn bytes(value: &str) -> Option<u64> {
    let kilobytes: u64 = value.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}

/// Parses a `stat` file: the second field is the name, in parentheses, with any bytes; the 14th and
/// 15th are ticks.
fn name_and_cpu_time(stat: &str) -> Option<(String, Duration)> {
    let (name, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let user = ticks.next()?.ok()?;
    let kernel = ticks.next()?.ok()?;
    let time = Duration::from_millis((user + kernel) * TICK_MS);
    Some((name.split_once('(')?.1.to_owned(), time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_process_is_read() {
        for process in [Process::current(), Process::with_id(std::process::id())] {
            let resident = process.resident_bytes().expect("it runs");
            assert!(resident > 100_000, "{resident} bytes resident");
            assert!(process.peak_resident_bytes().expect("it runs") >= resident / 2);
            for bytes in [process.anonymous_bytes(), process.file_bytes()] {
                assert!(bytes.expect("it runs") > 1 << 16);
            }
            let huge = process.huge_page_bytes();
            let anonymous = process.anonymous_bytes();
            assert!(huge.expect("it runs") <= anonymous.expect("it runs"));
            process.cpu_time().expect("it runs");
            let by_thread = process.cpu_time_by_thread().expect("it runs");
            assert!(!by_thread.is_empty());
            assert!(process.threads_cpu_time().expect("it runs") > Duration::ZERO);
            assert!(process.threads().expect("it runs") > 0);
            assert!(process.open_files().expect("it runs") > 0);
            process.signal_mask("SigIgn").expect("it runs");
        }
        let err = Process::with_id(u32::MAX).cpu_time().expect_err("no such process");
        assert_eq!(err.to_string(), "read /proc/4294967295/stat");
    }

    #[test]
    fn a_name_may_have_any_bytes() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0";
        let (name, time) = name_and_cpu_time(stat).expect("a stat");
        assert_eq!((name.as_str(), time), ("a) b (c", Duration::from_secs(2)));
        let stat = "77 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 1234 5 6\n";
        assert_eq!(name_and_cpu_time(stat).map(|(_, time)| time), Some(Duration::from_secs(3)));
        assert_eq!(name_and_cpu_time("7 (a) S 1"), None);
    }

    #[test]
    fn a_status_line_is_read_by_its_whole_name() {
        let status = "Name:\tVmRSS\nVmRSSX:\t1 kB\nVmRSS:\t   12 kB\nThreads:\t9\nSigIgn:\t0000000000001001\n";
        assert_eq!(field(status, "VmRSS").and_then(bytes), Some(12 * 1_024));
        assert_eq!(field(status, "Threads"), Some("9"));
        assert_eq!(
            (field(status, "SigIgn"), field(status, "VmHWM")),
            (Some("0000000000001001"), None)
        );
        assert_eq!(bytes("12 MB"), None);
    }
}
