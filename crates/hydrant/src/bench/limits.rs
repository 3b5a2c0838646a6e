//! The limits of the flags of `hydrant bench`, checked before anything is opened.
//!
//! A maximum is a value above which no use is known. Counts are in `bounds`, with those of the other commands.

use std::ops::RangeInclusive;

use anyhow::{Result, ensure};
use loadgen::{LOG_REQUESTS_MAX, RATE_MAX, RUN_TIME_MAX};

use crate::bench::flags::BenchFlags;
use crate::bounds;

/// One request in 17 minutes.
const RATE_MIN: f64 = 0.001;

/// A millisecond: the resolution of the timers that end a request.
const SECONDS_MIN: f64 = 0.001;

/// Factors of the recorded speed.
const SPEEDS: RangeInclusive<f64> = 1e-6..=1e6;

/// Open files that a load thread needs in addition to its connections.
const THREAD_FDS: usize = 4;

/// Open files of the process itself: standard streams, libraries, the files that it reads and writes.
const RESERVED_FDS: usize = 64;

/// Refuses the first flag that is out of its range, with its name, value and range.
pub(crate) fn check(flags: &BenchFlags) -> Result<()> {
    bounds::check(&bounds::bench(flags))?;
    let seconds_max = RUN_TIME_MAX.as_secs_f64();
    for (flag, value, range) in [
        ("--rate", flags.rate, RATE_MIN..=RATE_MAX),
        ("--duration", Some(flags.duration), SECONDS_MIN..=seconds_max),
        ("--warm-up", Some(flags.warm_up), 0.0..=seconds_max),
        ("--timeout", Some(flags.timeout), SECONDS_MIN..=seconds_max),
        ("--speed", Some(flags.speed), SPEEDS),
    ] {
        if let Some(value) = value {
            check_fraction(flag, value, &range)?;
        }
    }
    if let (Some(_), Some(rate)) = (&flags.generate, flags.rate) {
        let duration = flags.duration;
        let requests = rate * duration;
        ensure!(
            requests <= LOG_REQUESTS_MAX as f64,
            "--rate {rate} for --duration {duration} is {requests} requests: the maximum of \
             --generate is {LOG_REQUESTS_MAX}"
        );
    }
    Ok(())
}

fn check_fraction(flag: &str, value: f64, range: &RangeInclusive<f64>) -> Result<()> {
    // `Debug` writes very small and very large numbers with an exponent.
    let text = format!("{value:?}");
    let text = text.trim_end_matches(".0");
    ensure!(
        range.contains(&value),
        "{flag} is {text}: must be from {} to {}",
        range.start(),
        range.end()
    );
    Ok(())
}

/// Refuses more connections than the process may have open files.
pub(crate) fn check_open_files(connections: usize, flags: &BenchFlags, allowed: u64) -> Result<()> {
    let BenchFlags { scans, threads, .. } = flags;
    let needed = connections + scans + threads * THREAD_FDS + RESERVED_FDS;
    ensure!(
        needed as u64 <= allowed,
        "--connections {connections} and --scans {scans} need {needed} open files: the maximum is {allowed} (ulimit -n)"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: BenchFlags,
    }

    fn flags(line: &str) -> BenchFlags {
        Line::parse_from(format!("bench {line}").split_whitespace()).flags
    }

    #[test]
    fn every_number_is_refused_outside_its_range() {
        let max = u64::MAX.to_string();
        for (flag, invalid, range) in [
            ("--rate", ["0", "1e-20", "1e300"], "from 0.001 to 1000000"),
            ("--connections", ["0", "65536", &max], "from 1 to 65535"),
            ("--threads", ["0", "257", &max], "from 1 to 256"),
            ("--duration", ["0", "1e-300", "10000000"], "from 0.001 to 1000000"),
            ("--warm-up", ["-1", "NaN", "10000000"], "from 0 to 1000000"),
            ("--runs", ["0", "101", &max], "from 1 to 100"),
            ("--timeout", ["0", "1e-300", "inf"], "from 0.001 to 1000000"),
            ("--scans", ["65536", "1000000", &max], "from 0 to 65535"),
            ("--replay f --speed", ["0", "1e-300", "1e300"], "from 0.000001 to 1000000"),
        ] {
            for value in invalid {
                let err = check(&flags(&format!("{flag}={value}"))).expect_err(flag).to_string();
                let name = flag.rsplit(' ').next().unwrap_or(flag);
                assert_eq!(err, format!("{name} is {value}: must be {range}"));
            }
        }
        for valid in [
            "",
            "--rate 0.001 --duration 0.001 --timeout 0.001 --warm-up 0",
            "--rate 1e6 --duration 1e6 --timeout 1e6 --warm-up 1e6",
            "--connections 65535 --scans 65535 --threads 256 --runs 100",
            "--generate f --rate 1e6 --duration 1",
        ] {
            check(&flags(valid)).expect(valid);
        }
    }

    #[test]
    fn a_generated_log_has_a_maximum() {
        let err = check(&flags("--generate f --rate 1000 --duration 1001")).expect_err("too many");
        let expected = "--rate 1000 for --duration 1001 is 1001000 requests: the maximum of \
                        --generate is 1000000";
        assert_eq!(err.to_string(), expected);
    }

    #[test]
    fn connections_need_open_files() {
        let flags = flags("--scans 100 --threads 2");
        check_open_files(1_000, &flags, 1_172).expect("they suffice");
        let err = check_open_files(1_000, &flags, 1_171).expect_err("one is missing").to_string();
        let expected = "--connections 1000 and --scans 100 need 1172 open files: the maximum is \
                        1171 (ulimit -n)";
        assert_eq!(err, expected);
    }
}
