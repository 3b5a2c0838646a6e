//! Requests of several kinds measured in turn, round by round, each beside a constant answer of its round.
//!
//! Out: a table, and two ratios of each to its constant: of answers a second, for bars and people; and of
//! answers for a second of the server's CPU time, for the quick profile. What else the machine does takes
//! from the first, and hardly from the second; and a round of the quick profile is so many requests, all of
//! them answered, so that it is the same work however long it takes: of a round of so much time, a busy
//! machine leaves some answers, and the CPU time of as many more that did not come before its end.

use std::net::SocketAddr;
use std::time::Duration;

use std::sync::Arc;

use ::load::{Process, Report, Run, Span, Stream};
use anyhow::{Result, ensure};

use super::Size;
use super::recorded::Ratio;
use crate::median;

/// Before the rounds each kind is asked for so long, so that no round is the first.
const FIRST: Duration = Duration::from_millis(50);

/// Of a round of the quick profile: CPU time that it takes about, and how many requests it may have.
const ROUND_CPU: Duration = Duration::from_millis(40);
const ROUND_REQUESTS_LEAST: usize = 32;
const ROUND_REQUESTS_MOST: usize = 4_000;

/// Different requests of a kind in the quick profile, from all over those that there are. Before the rounds
/// each is answered twice, so that whatever is kept of it is kept.
const ROUND_DIFFERENT_MOST: usize = 1_000;

/// What a request takes is estimated from so many at least: of fewer it would be what the threads' waking costs.
const ROUND_ESTIMATE_LEAST: usize = 128;

/// A kind of requests.
pub(crate) struct Case {
    pub(crate) address: SocketAddr,
    pub(crate) stream: Stream,
    /// The constant that it is compared with, by place.
    pub(crate) constant: usize,
}

impl Case {
    /// What came of it, and the CPU time that the server used for it. Every answer must be right.
    fn run(
        &self,
        stream: &Stream,
        span: Span,
        process: Process,
        size: &Size,
    ) -> Result<(Run, Duration)> {
        let before = process.cpu_time_of_threads()?;
        let run = size.once(self.address, vec![stream.clone()], span, Some(process))?;
        let cpu = process.cpu_time_of_threads()?.saturating_sub(before);
        let (counts, failure) = (run.outcomes[0].counts, &run.outcomes[0].failure);
        ensure!(counts.failed() == 0, "{}: {counts:?}, such as {failure:?}", stream.name);
        Ok((run, cpu))
    }

    /// So many of its requests that a round of them takes the server about [`ROUND_CPU`].
    fn counted(&self, process: Process, size: &Size) -> Result<Stream> {
        let all = &self.stream.requests;
        let every = all.len().div_ceil(ROUND_DIFFERENT_MOST).max(1);
        let different: Vec<Vec<u8>> = all.iter().step_by(every).cloned().collect();
        let round = |count: usize| {
            let requests = different.iter().cycle().take(count).cloned().collect();
            Stream { requests: Arc::new(requests), ..self.stream.clone() }
        };
        let estimate = different.len().max(ROUND_ESTIMATE_LEAST);
        self.run(&round(different.len()), Span::Once, process, size)?;
        let (_, cpu) = self.run(&round(estimate), Span::Once, process, size)?;
        let each = cpu.as_secs_f64().max(1e-9) / estimate as f64;
        let count = (ROUND_CPU.as_secs_f64() / each) as usize;
        Ok(round(count.clamp(ROUND_REQUESTS_LEAST, ROUND_REQUESTS_MOST)))
    }
}

/// What was measured, by case.
pub(crate) struct Rounds {
    names: Vec<String>,
    constants: Vec<usize>,
    runs: Vec<Vec<Run>>,
    /// CPU time of the server.
    cpu: Vec<Vec<Duration>>,
}

impl Rounds {
    /// Measures so many rounds. Every answer must be right.
    pub(crate) fn measure(
        cases: &[Case],
        process: Process,
        size: &Size,
        rounds: usize,
    ) -> Result<Self> {
        let mut measured = Self {
            names: cases.iter().map(|case| case.stream.name.clone()).collect(),
            constants: cases.iter().map(|case| case.constant).collect(),
            runs: vec![Vec::new(); cases.len()],
            cpu: vec![Vec::new(); cases.len()],
        };
        let first = Span::Time { warm_up: Duration::ZERO, measured: FIRST.min(size.measured) };
        let mut offered = Vec::new();
        for case in cases {
            if size.is_quick() {
                offered.push((case.counted(process, size)?, Span::Once));
            } else {
                case.run(&case.stream, first, process, size)?;
                offered.push((case.stream.clone(), size.span()));
            }
        }
        for _ in 0..rounds {
            for (nth, (case, (stream, span))) in cases.iter().zip(&offered).enumerate() {
                let (run, cpu) = case.run(stream, *span, process, size)?;
                measured.runs[nth].push(run);
                measured.cpu[nth].push(cpu);
            }
        }
        Ok(measured)
    }

    pub(crate) fn print(&self) {
        let mut report = Report::new("rounds", Vec::new());
        for runs in &self.runs {
            report.add(&[], runs);
        }
        print!("{}", report.table());
    }

    /// Answers a second over those of the constant, the median of the rounds.
    pub(crate) fn of_rate(&self, case: usize) -> f64 {
        let rate = |run: &Run| run.outcomes[0].rate();
        let pairs = self.runs[case].iter().zip(&self.runs[self.constants[case]]);
        median(pairs.map(|(run, constant)| rate(run) / rate(constant)).collect())
    }

    /// Seconds of CPU time an answer, round by round.
    fn cost(&self, case: usize) -> Vec<f64> {
        let answers = self.runs[case].iter().map(|run| run.outcomes[0].counts.right as f64);
        answers.zip(&self.cpu[case]).map(|(answers, cpu)| cpu.as_secs_f64() / answers).collect()
    }

    /// Of all but the constants.
    pub(crate) fn ratios(&self, prefix: &str) -> Vec<Ratio> {
        let cases = self.names.iter().enumerate();
        let cases = cases.filter(|(nth, _)| *nth != self.constants[*nth]);
        cases
            .map(|(nth, name)| Ratio {
                name: format!("{prefix}{}", name.replace(' ', "_")),
                own: self.cost(nth),
                constant: self.cost(self.constants[nth]),
            })
            .collect()
    }
}
