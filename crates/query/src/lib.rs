//! temporary contract stub
use ledger::{Address, BlockId, Commitment, Record, Facet};
use std::sync::Arc;
/// r
pub struct Reader<R, M>(std::marker::PhantomData<(R, M)>);
/// v
pub struct View<R, M>(std::marker::PhantomData<(R, M)>);
