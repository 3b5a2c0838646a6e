//! The methods of the toy ledger: of each kind that the serving layer knows.

use std::sync::LazyLock;

use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, InlineBudget, ListTemplate, MethodOutput, MethodResult, MethodSpec, RawValue,
    StreamState, StreamedResult, write_json,
};
use ledger::{Address, Commitment};
use query::View;
use response_cache::{ContextFrame, Dependencies, RESULT_CHUNK_BYTES, ResultContext};

use super::{Counter, ToyApi};

pub(super) const METHODS: &[MethodSpec<ToyApi>] = &[
    MethodSpec::new("getHeight", Execution::Inline, height),
    MethodSpec::new("getVersion", Execution::Inline, version),
    MethodSpec::new("echo", Execution::Inline, echo),
    MethodSpec::new("counterGet", Execution::Light, get).with_cache_dependencies(dependencies),
    MethodSpec::new("counterGetMany", Execution::TryInline(get_few), get_many),
    MethodSpec::new("counterAdd", Execution::Light, add).dangerous(),
    MethodSpec::new("counterTop", Execution::Medium, top),
    MethodSpec::new("counterSum", Execution::Medium, sum),
    MethodSpec::new(
        "counterList",
        Execution::ByCost { class_max: cpu_pool::Class::Heavy, class: list_class },
        list,
    ),
    MethodSpec::new("counterPanic", Execution::Light, |_, _| panic!("a bug of this method")),
    MethodSpec::new("counterBroken", Execution::Medium, broken)
        .with_cache_dependencies(|_, _| Some(Dependencies::none(Commitment::Finalized, None))),
];

/// The error of `counterBroken`.
const BROKEN: i64 = -32_050;

/// Counters that are listed where the socket is polled.
const INLINE_COUNTERS_MAX: usize = 10;

fn view(api: &ToyApi) -> View<Counter, ()> {
    api.counters.reader.view(Commitment::Finalized)
}

/// The counter and the commitment of `counterGet`. Default: finalized.
fn name_and_commitment(params: Params<'_>) -> Result<(Address, Commitment), RpcError> {
    let (name, commitment): (String, Option<String>) = params.parse(1)?;
    let commitment = match commitment.as_deref() {
        Some("processed") => Commitment::Processed,
        None | Some("finalized") => Commitment::Finalized,
        Some(_) => return Err(RpcError::invalid_params("processed or finalized")),
    };
    Ok((address(&name)?, commitment))
}

fn context(view: &View<Counter, ()>) -> ResultContext {
    static FRAME: LazyLock<ContextFrame> =
        LazyLock::new(|| ContextFrame::new(r#"{"height":"#, r#","value":"#));
    FRAME.at(view.block().slot)
}

fn height(api: &ToyApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&view(api).block().slot)
}

fn version(_: &ToyApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&env!("CARGO_PKG_VERSION"))
}

fn echo(_: &ToyApi, params: Params<'_>) -> MethodResult {
    let (value,): (serde_json::Value,) = params.parse(1)?;
    MethodOutput::json(&value)
}

fn get(api: &ToyApi, params: Params<'_>) -> MethodResult {
    let (name, commitment) = name_and_commitment(params)?;
    let view = api.counters.reader.view(commitment);
    let value = view.record(&name).map(|counter| counter.0);
    match value.filter(|_| params.wants_raw()) {
        Some(value) => {
            let slot = view.block().slot;
            let bytes = value.to_be_bytes().to_vec().into();
            Ok(MethodOutput::raw(RawValue { slot, fields: Vec::new(), bytes }))
        }
        None => MethodOutput::json_in(context(&view), &value),
    }
}

fn dependencies(_: &ToyApi, params: Params<'_>) -> Option<Dependencies> {
    let (name, commitment) = name_and_commitment(params).ok()?;
    Dependencies::none(commitment, None).with_records([name])
}

fn get_many(api: &ToyApi, params: Params<'_>) -> MethodResult {
    let (names,): (Vec<String>,) = params.parse(1)?;
    let view = view(api);
    let values: Vec<Option<u64>> = names
        .iter()
        .map(|name| Ok(view.record(&address(name)?).map(|counter| counter.0)))
        .collect::<Result<_, RpcError>>()?;
    MethodOutput::json_in(context(&view), &values)
}

/// Returns a few counters, which are read inline.
fn get_few(
    api: &ToyApi,
    params: Params<'_>,
    budget: &mut InlineBudget,
) -> Result<MethodResult, cpu_pool::Class> {
    let bytes = params.text().map(|text| text.len() as u64);
    if budget.try_spend(bytes) { Ok(get_many(api, params)) } else { Err(cpu_pool::Class::Medium) }
}

fn add(api: &ToyApi, params: Params<'_>) -> MethodResult {
    let (name, amount): (String, Option<u64>) = params.parse(1)?;
    let added = api.counters.add(&address(&name)?, amount.unwrap_or(1));
    let (value, _) = added.ok_or_else(|| RpcError::internal_with("the ledger is full"))?;
    MethodOutput::json(&value)
}

fn top(api: &ToyApi, params: Params<'_>) -> MethodResult {
    let (count,): (Option<usize>,) = params.parse(0)?;
    let view = view(api);
    let highest = view.highest(None, count.unwrap_or(3).min(20), |_, _| true);
    let entries: Vec<_> =
        highest.iter().map(|record| (name_of(&record.address), record.rank)).collect();
    MethodOutput::json_in(context(&view), &entries)
}

fn sum(api: &ToyApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let view = view(api);
    let sum = view.all().fold(0_u64, |sum, (_, counter)| sum.wrapping_add(counter.0));
    MethodOutput::json_in(context(&view), &sum)
}

fn list(api: &ToyApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let view = view(api);
    let mut counters: Vec<_> =
        view.all().map(|(name, counter)| (name_of(&name), counter.0)).collect();
    counters.sort_unstable();
    let stream = CounterStream {
        template: ListTemplate::at_last_list(&[(); 0])?,
        counters: counters.into_iter(),
        is_first: true,
    };
    Ok(MethodOutput::streamed(Some(context(&view)), stream))
}

fn list_class(api: &ToyApi, _: Params<'_>, _: &mut InlineBudget) -> Option<cpu_pool::Class> {
    (view(api).len() > INLINE_COUNTERS_MAX).then_some(cpu_pool::Class::Heavy)
}

/// Writes a list of counters step by step.
struct CounterStream {
    template: ListTemplate,
    counters: std::vec::IntoIter<(String, u64)>,
    is_first: bool,
}

impl StreamedResult for CounterStream {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        out.append(&mut self.template.head);
        for counter in self.counters.by_ref() {
            if !std::mem::replace(&mut self.is_first, false) {
                out.push(b',');
            }
            write_json(out, &counter)?;
            if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                return Ok(StreamState::More);
            }
        }
        out.append(&mut self.template.tail);
        Ok(StreamState::Done)
    }
}

/// A list that fails after `parts` parts of `bytes` bytes, although an error is allowed before the first byte only.
fn broken(_: &ToyApi, params: Params<'_>) -> MethodResult {
    let (parts, bytes): (usize, usize) = params.parse(2)?;
    Ok(MethodOutput::streamed(None, BrokenStream { parts, bytes: bytes.min(RESULT_CHUNK_BYTES) }))
}

struct BrokenStream {
    parts: usize,
    bytes: usize,
}

impl StreamedResult for BrokenStream {
    fn write(&mut self, _: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        let left = self.parts.checked_sub(1);
        self.parts = left.ok_or_else(|| RpcError::new(BROKEN, "a bug of this method"))?;
        out.resize(out.len() + self.bytes, b'[');
        Ok(StreamState::More)
    }
}

pub(super) fn address(name: &str) -> Result<Address, RpcError> {
    Address::try_from(name.as_bytes())
        .map_err(|_| RpcError::invalid_params("a name has from 1 to 36 bytes"))
}

fn name_of(address: &Address) -> String {
    String::from_utf8_lossy(address.as_bytes()).into_owned()
}
