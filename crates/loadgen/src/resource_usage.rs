//! Resources that a server's process used while it was measured.

use std::time::Duration;

use process_usage::Process;

use crate::LoadError;

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

impl Sample {
    /// A sample of `process` with the time `at`.
    pub(crate) fn of_process(process: Process, at: Duration) -> Result<Self, LoadError> {
        Ok(Self {
            at_ms: at.as_secs_f64() * 1e3,
            cpu_s: process.cpu_time()?.as_secs_f64(),
            resident_bytes: process.resident_bytes()?,
        })
    }
}

impl ResourceUsage {
    /// Computes the usage from samples in order.
    pub(crate) fn from_samples(samples: Vec<Sample>) -> Option<Self> {
        let first = *samples.first()?;
        let last = *samples.last()?;
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
