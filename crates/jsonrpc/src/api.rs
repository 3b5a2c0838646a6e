//! A ledger's API on the serving layer: its table of methods, and the server that serves it.
//!
//! A method is a plain function `fn(&A, Params) -> MethodResult`: it parses its parameters, takes one view and returns
//! one result. It must not block, sleep or have state. If it panics, only its own request fails (-32603).
//! Not here: sockets, batches, the pool (`dispatch`).

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Poll, Waker};

use foldhash::fast::RandomState;
use http_server::PageAccess;
use ledger::Commitment;
use response_cache::{Dependencies, LedgerVersions};

use crate::error::RpcError;
use crate::method_output::MethodResult;
use crate::metrics::MethodLabel;
use crate::params::Params;
use crate::server_context::ServerContext;
use crate::state_slots::StateRequest;

/// The methods of one ledger, and the state that they read.
pub trait Api: LedgerVersions + Sized {
    /// The tables of all methods, in any order. Metrics have a label for each.
    const METHODS: &'static [&'static [MethodSpec<Self>]];

    /// Returns the API with its state fixed at the current view for as long as it lives: for several methods whose
    /// results must come from one view. Cost: some counters.
    fn pinned(&self) -> Self;

    /// Whether calls may have to wait for something first ([`Self::must_prepare`]).
    fn has_preparations(&self) -> bool {
        false
    }

    /// Whether a call that may run inline, or whose result may be cached, has to wait for something first. If so, it
    /// runs on the pool and is not looked up in the cache. Cost: some lookups.
    fn must_prepare(&self, _method: &'static str, _params: Params<'_>) -> bool {
        false
    }

    /// What a call on the pool waits for before it runs; `None` for nothing. An error is the call's result.
    fn prepare(
        &self,
        _method: &'static str,
        _params: Params<'_>,
    ) -> Result<Option<Box<dyn Preparation>>, RpcError> {
        Ok(None)
    }

    /// Returns the state that a call reads, by its parameters; for a call that does not name one, the newest. It
    /// determines the slot in the headers of the response, and the slot that the call waits for. Cost: a search of the
    /// text.
    fn state_request(&self, _method: &'static str, _params: Params<'_>) -> StateRequest {
        StateRequest { commitment: Commitment::Processed, min_slot: None }
    }

    /// The names of all methods, sorted. Metrics count them in this order.
    fn method_names() -> Vec<&'static str> {
        Self::sorted_methods().into_iter().map(|spec| spec.name).collect()
    }

    /// All methods, sorted by name.
    fn sorted_methods() -> Vec<&'static MethodSpec<Self>> {
        let mut sorted: Vec<_> = Self::METHODS.iter().copied().flatten().collect();
        sorted.sort_unstable_by_key(|spec| spec.name);
        sorted
    }
}

/// Preparation that a call waits for before it runs. Meanwhile it occupies no thread.
pub trait Preparation: Send {
    /// Whether it is there. If not, the waker is woken once it is.
    fn poll_ready(&mut self, waker: &dyn Fn() -> Waker) -> Poll<()>;

    /// The end: the call runs, or has this error as its result.
    fn finish(self: Box<Self>) -> Result<(), RpcError>;
}

/// Finds the dependencies of the result of a call. `None` if they are not known.
pub type FindDependencies<A> = fn(&A, Params<'_>) -> Option<Dependencies>;

/// One method.
pub struct MethodSpec<A: 'static> {
    /// The name that clients send.
    pub name: &'static str,
    /// Where it runs.
    pub execution: Execution<A>,
    /// Runs it.
    pub run: fn(&A, Params<'_>) -> MethodResult,
    /// Finds the dependencies by which a cached result is valid. `None` if results are not cacheable.
    pub cache_dependencies: Option<FindDependencies<A>>,
    /// Finds the dependencies by which the result that a client has is current. `None` if they are those of
    /// `cache_dependencies`.
    pub revalidation_dependencies: Option<FindDependencies<A>>,
    /// Whether a web page of another origin may not call it ([`PageAccess`]): it spends or changes what others rely on.
    pub is_dangerous: bool,
    /// Whether it does not read the ledger's state, so that it is served while the state is withheld
    /// ([`Health::withhold_state`](crate::Health::withhold_state)).
    pub is_stateless: bool,
}

impl<A> MethodSpec<A> {
    /// A method whose result is not cacheable.
    pub const fn new(
        name: &'static str,
        execution: Execution<A>,
        run: fn(&A, Params<'_>) -> MethodResult,
    ) -> Self {
        Self {
            name,
            execution,
            run,
            cache_dependencies: None,
            revalidation_dependencies: None,
            is_dangerous: false,
            is_stateless: false,
        }
    }

    /// Makes the result of a call cacheable if `find` finds its dependencies.
    pub const fn with_cache_dependencies(mut self, find: FindDependencies<A>) -> Self {
        self.cache_dependencies = Some(find);
        self
    }

    /// Lets a client revalidate a result that it has: it is current while the dependencies that `find` finds are
    /// unchanged. The result does not become cacheable.
    pub const fn with_revalidation_dependencies(mut self, find: FindDependencies<A>) -> Self {
        self.revalidation_dependencies = Some(find);
        self
    }

    /// Returns the method as one that a web page of another origin may not call.
    pub const fn dangerous(mut self) -> Self {
        self.is_dangerous = true;
        self
    }

    /// Returns the method as one that does not read the ledger's state.
    pub const fn stateless(mut self) -> Self {
        self.is_stateless = true;
        self
    }

    /// Whether a request with this access may call it.
    pub(crate) fn check_access(&self, access: PageAccess) -> Result<(), RpcError> {
        match access {
            PageAccess::ForeignOrigin | PageAccess::ForeignHost if self.is_dangerous => {
                Err(RpcError::foreign_page(self.name, access))
            }
            PageAccess::Full | PageAccess::ForeignOrigin | PageAccess::ForeignHost => Ok(()),
        }
    }

    /// The class that each of its calls counts for in the limits of API keys: the heaviest that a call can have. A call
    /// that runs inline is light, and so is one that is tried inline, because it is nearly always small.
    pub(crate) fn charged_class(&self) -> cpu_pool::Class {
        match self.execution {
            Execution::Inline | Execution::Light | Execution::TryInline(_) => {
                cpu_pool::Class::Light
            }
            Execution::Medium => cpu_pool::Class::Medium,
            Execution::ByCost { class_max, .. } => class_max,
        }
    }

    /// Whether a call may be heavy, whatever its parameters are. For calls that are not classified one by one.
    pub(crate) fn may_be_heavy(&self) -> bool {
        // A call that is tried inline is nearly always small.
        matches!(self.execution, Execution::ByCost { class_max: cpu_pool::Class::Heavy, .. })
    }
}

/// The place where a method runs. It depends on the cost of the method.
pub enum Execution<A: 'static> {
    /// On the thread that polls the socket: some microseconds for any parameters.
    Inline,
    /// On the CPU pool: a signature, one transaction of history.
    Light,
    /// On the CPU pool: a block, a page, the VM.
    Medium,
    /// `class` decides for each call, up to `class_max`; `None` is inline. The function itself must be cheap.
    /// Its result does not matter if the parameters are invalid.
    ByCost {
        /// The heaviest class of a call.
        class_max: cpu_pool::Class,
        /// Decides for one call.
        class: fn(&A, Params<'_>, &mut InlineBudget) -> Option<cpu_pool::Class>,
    },
    /// Tried on the thread that polls the socket. The function gives up early if the call is expensive, and
    /// returns the class in which the call runs on the CPU pool.
    TryInline(fn(&A, Params<'_>, &mut InlineBudget) -> Result<MethodResult, cpu_pool::Class>),
}

/// Bytes of data that all calls of a body together may still encode inline.
pub struct InlineBudget(u64);

impl InlineBudget {
    /// The budget of one body.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(bytes_max as u64)
    }

    /// Subtracts `bytes` and returns true, or leaves the budget as it is if `bytes` is more. `None` is always more.
    pub fn try_spend(&mut self, bytes: Option<u64>) -> bool {
        let left = bytes.and_then(|bytes| self.0.checked_sub(bytes));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// An API, and what every server has.
pub struct Server<A: Api> {
    /// The methods, and the state that they read.
    pub api: A,
    /// State that every server has, whatever its ledger.
    pub context: ServerContext,
    methods: Arc<MethodTable<A>>,
}

type MethodTable<A> = HashMap<&'static str, MethodRef<A>, RandomState>;

impl<A: Api> Server<A> {
    /// A server of `api`. The metrics of `context` must be those of its methods ([`Api::method_names`]).
    pub fn new(api: A, context: ServerContext) -> Self {
        let numbered = A::sorted_methods().into_iter().zip(0..);
        let methods = numbered.map(|(spec, number)| (spec.name, MethodRef { spec, number }));
        Self { api, context, methods: Arc::new(methods.collect()) }
    }

    /// Returns a server with the API's state fixed at the current view ([`Api::pinned`]).
    pub fn pinned(&self) -> Self {
        let methods = Arc::clone(&self.methods);
        Self { api: self.api.pinned(), context: self.context.clone(), methods }
    }

    pub(crate) fn find_method(&self, name: &str) -> Option<MethodRef<A>> {
        self.methods.get(name).copied()
    }

    /// The budget of one body for calls that run inline.
    pub(crate) fn inline_budget(&self) -> InlineBudget {
        InlineBudget::new(self.context.config.inline_bytes_max)
    }
}

/// A method with its number, which its metrics use.
pub(crate) struct MethodRef<A: 'static> {
    spec: &'static MethodSpec<A>,
    number: u16,
}

impl<A> MethodRef<A> {
    pub(crate) fn label(self) -> MethodLabel {
        MethodLabel::for_method(self.number)
    }
}

impl<A> Clone for MethodRef<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for MethodRef<A> {}

impl<A> Deref for MethodRef<A> {
    type Target = MethodSpec<A>;

    fn deref(&self) -> &MethodSpec<A> {
        self.spec
    }
}
