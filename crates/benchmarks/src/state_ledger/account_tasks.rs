//! Accounts that are read and encoded in tasks, for the question of the reviewers of Agave PR 3242: is a call for a
//! hundred accounts one task, a task for each account, or all tasks at once?
//!
//! Shape: two servers of the same calls. One has the CPU pool with the threads of the binary, the other tokio's blocking
//! pool with the threads of Agave: IO threads for all cores, blocking threads for a quarter of them. The path of a
//! request is its [`Mode`]. It serves until a line comes on standard input.
//! Invariant: the response is the same in all modes. Only the number of tasks and their order differ.

use std::convert::Infallible;
use std::io::stdin;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use chain_solana::{Reader, View};
use clients::ClientId;
use cpu_pool::{Class, Pool, Task, TaskPoll, Ticket, TimeSlice};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use jsonrpc::SystemClock;
use ledger::{Address, Commitment};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use solana::Encoding;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_pubkey::Pubkey;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::protocol::TaskServing;

const BASE64: Encoding = Encoding { form: UiAccountEncoding::Base64, slice: None };

/// The tasks that read the accounts of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// No task: on the thread that polls the socket.
    Inline,
    OneTask,
    /// A task for each account, each submitted when the one before it has ended, as in Agave.
    TaskEach,
    /// A task for each account, all submitted at once.
    AllAtOnce,
}

/// The pool that runs the tasks.
#[derive(Clone)]
enum Executor {
    CpuPool(Arc<Pool>),
    SpawnBlocking,
}

/// Reads and encodes accounts.
struct EncodeTask {
    view: View,
    keys: Vec<Pubkey>,
    encoded: usize,
    out: Vec<u8>,
    done: Option<oneshot::Sender<Vec<u8>>>,
}

/// A task that was submitted.
enum SubmittedTask {
    CpuPool { result: oneshot::Receiver<Vec<u8>>, _ticket: Ticket },
    SpawnBlocking(JoinHandle<Vec<u8>>),
}

/// The part of a request that is read.
#[derive(Deserialize)]
struct Call<P> {
    params: P,
}

pub(crate) fn run(reader: &Reader) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = cpu_pool::Config { threads: cores, ..cpu_pool::Config::default() };
    let nice = pool.nice;
    let pool = Pool::new(pool, Arc::new(SystemClock::new()), move || {
        // On Linux it applies to this thread only. Raising the value is always allowed.
        let _ = rustix::process::setpriority_process(None, nice.into());
    })?;
    let ours = runtime((cores / 2).max(1), 1)?;
    let theirs = runtime(cores, (cores / 4).max(1))?;
    let serving = TaskServing {
        cpu_pool: serve(&ours, reader, Executor::CpuPool(Arc::new(pool)))?,
        spawn_blocking: serve(&theirs, reader, Executor::SpawnBlocking)?,
    };
    println!("serving {}", serde_json::to_string(&serving)?);
    stdin().read_line(&mut String::new())?;
    Ok(())
}

fn runtime(io_threads: usize, blocking_threads: usize) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(io_threads).max_blocking_threads(blocking_threads).enable_all();
    Ok(builder.build()?)
}

/// Serves on a free port, which it returns.
fn serve(runtime: &Runtime, reader: &Reader, executor: Executor) -> Result<SocketAddr> {
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let address = listener.local_addr()?;
    let reader = reader.clone();
    runtime.spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            // It only fails on a socket that is closed already.
            let _ = socket.set_nodelay(true);
            let reader = reader.clone();
            let executor = executor.clone();
            let service = service_fn(move |request| {
                let view = reader.view(Commitment::Finalized);
                respond(request, view, executor.clone())
            });
            // An error ends only its own connection.
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
    Ok(address)
}

async fn respond(
    request: Request<Incoming>,
    view: View,
    executor: Executor,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::default();
    match encode_response(request, view, &executor).await {
        Ok(body) => *response.body_mut() = Full::from(body),
        Err(err) => {
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            *response.body_mut() = Full::from(err.to_string());
        }
    }
    Ok(response)
}

async fn encode_response(
    request: Request<Incoming>,
    view: View,
    executor: &Executor,
) -> Result<Vec<u8>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let slot = view.block().slot;
    let mut out = format!(r#"{{"jsonrpc":"2.0","result":{{"context":{{"slot":{slot}}},"value":"#)
        .into_bytes();
    let is_light = path.starts_with("/light");
    let keys = if is_light {
        vec![parse::<(String, IgnoredAny)>(&body)?.0.parse()?]
    } else {
        let keys = parse::<(Vec<String>, IgnoredAny)>(&body)?.0;
        keys.iter().map(|key| key.parse::<Pubkey>()).collect::<Result<Vec<_>, _>>()?
    };
    let values = executor.encode(mode(&path)?, view, keys).await?;
    if is_light {
        out.extend_from_slice(&values);
    } else {
        out.push(b'[');
        out.extend_from_slice(&values);
        out.push(b']');
    }
    out.extend_from_slice(br#"},"id":1}"#);
    Ok(out)
}

fn parse<P: DeserializeOwned>(body: &[u8]) -> Result<P> {
    Ok(serde_json::from_slice::<Call<P>>(body)?.params)
}

fn mode(path: &str) -> Result<Mode> {
    Ok(match path {
        "/inline" | "/light-inline" => Mode::Inline,
        "/one-task" | "/light-task" => Mode::OneTask,
        "/task-each" => Mode::TaskEach,
        "/all-at-once" => Mode::AllAtOnce,
        _ => bail!("{path}: unknown"),
    })
}

impl Executor {
    /// Returns the accounts in JSON, separated by commas.
    async fn encode(&self, mode: Mode, view: View, keys: Vec<Pubkey>) -> Result<Vec<u8>> {
        match mode {
            Mode::Inline => {
                let mut task = EncodeTask::new(view, keys);
                while task.encode_next() {}
                Ok(task.out)
            }
            Mode::OneTask => self.submit(EncodeTask::new(view, keys))?.finish().await,
            Mode::TaskEach => {
                let mut values = Vec::new();
                for key in keys {
                    let task = EncodeTask::new(view.clone(), vec![key]);
                    append(&mut values, &self.submit(task)?.finish().await?);
                }
                Ok(values)
            }
            Mode::AllAtOnce => {
                let tasks = keys.into_iter().map(|key| EncodeTask::new(view.clone(), vec![key]));
                let submitted = tasks.map(|task| self.submit(task)).collect::<Result<Vec<_>>>()?;
                let mut values = Vec::new();
                for task in submitted {
                    append(&mut values, &task.finish().await?);
                }
                Ok(values)
            }
        }
    }

    fn submit(&self, mut task: EncodeTask) -> Result<SubmittedTask> {
        match self {
            Self::CpuPool(pool) => {
                let class = if task.keys.len() > 1 { Class::Medium } else { Class::Light };
                let (done, result) = oneshot::channel();
                task.done = Some(done);
                let ticket = pool.submit(class, ClientId(1), Box::new(task))?;
                Ok(SubmittedTask::CpuPool { result, _ticket: ticket })
            }
            Self::SpawnBlocking => {
                Ok(SubmittedTask::SpawnBlocking(tokio::task::spawn_blocking(move || {
                    while task.encode_next() {}
                    task.out
                })))
            }
        }
    }
}

fn append(values: &mut Vec<u8>, value: &[u8]) {
    if !values.is_empty() {
        values.push(b',');
    }
    values.extend_from_slice(value);
}

impl SubmittedTask {
    async fn finish(self) -> Result<Vec<u8>> {
        match self {
            Self::CpuPool { result, .. } => result.await.context("the pool ended the task"),
            Self::SpawnBlocking(task) => Ok(task.await?),
        }
    }
}

impl EncodeTask {
    fn new(view: View, keys: Vec<Pubkey>) -> Self {
        Self { view, keys, encoded: 0, out: Vec::new(), done: None }
    }

    /// Encodes an account. Returns false if all are encoded.
    fn encode_next(&mut self) -> bool {
        let Some(key) = self.keys.get(self.encoded) else { return false };
        if self.encoded > 0 {
            self.out.push(b',');
        }
        self.encoded += 1;
        let account = self.view.record(&Address::from(key.to_bytes()));
        let written = account.map(|account| BASE64.write(&mut self.out, key, &account.0, |_| None));
        if !matches!(written, Some(Ok(()))) {
            self.out.extend_from_slice(b"null");
        }
        true
    }
}

impl Task for EncodeTask {
    fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll {
        while self.encode_next() {
            if slice.is_over() {
                return TaskPoll::More;
            }
        }
        if let Some(done) = self.done.take() {
            // An error means that the client has disconnected.
            let _ = done.send(std::mem::take(&mut self.out));
        }
        TaskPoll::Done
    }
}
