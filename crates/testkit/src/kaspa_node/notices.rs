//! Notifications before they are filtered and encoded for a client, and their order.

use kaspa::{AcceptedIds, AddressUtxo, Event, Hash, Outpoint, Prefix, UtxoEntry};

use super::dag::{BlockEffects, ChainPath, Dag, UtxoDiff};
use super::wire::{Structure, Value, address_utxo};

/// The notifications of one change of the virtual block, in the order in which clients of kaspad 2.1.0 usually get
/// them. kaspad emits UtxosChanged second; its index passes it on later than the others. No order is guaranteed.
pub const NOTIFICATION_ORDER: [Event; 5] = [
    Event::NewBlockTemplate,
    Event::SinkBlueScoreChanged,
    Event::VirtualDaaScoreChanged,
    Event::VirtualChainChanged,
    Event::UtxosChanged,
];

/// A notification for all clients.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    BlockAdded(Structure),
    VirtualChainChanged { path: ChainPath, accepted: Vec<AcceptedIds> },
    FinalityConflict(Hash),
    FinalityConflictResolved(Hash),
    UtxosChanged(UtxoDiff),
    SinkBlueScoreChanged(u64),
    VirtualDaaScoreChanged(u64),
    PruningPointUtxoSetOverride,
    NewBlockTemplate,
}

/// The UTXOs of a notification, filtered for one client.
pub(crate) struct UtxoSelection<'a> {
    pub(crate) added: Vec<(&'a Outpoint, &'a UtxoEntry)>,
    pub(crate) removed: Vec<(&'a Outpoint, &'a UtxoEntry)>,
}

impl Notice {
    pub(crate) fn event(&self) -> Event {
        match self {
            Self::BlockAdded(_) => Event::BlockAdded,
            Self::VirtualChainChanged { .. } => Event::VirtualChainChanged,
            Self::FinalityConflict(_) => Event::FinalityConflict,
            Self::FinalityConflictResolved(_) => Event::FinalityConflictResolved,
            Self::UtxosChanged(_) => Event::UtxosChanged,
            Self::SinkBlueScoreChanged(_) => Event::SinkBlueScoreChanged,
            Self::VirtualDaaScoreChanged(_) => Event::VirtualDaaScoreChanged,
            Self::PruningPointUtxoSetOverride => Event::PruningPointUtxoSetOverride,
            Self::NewBlockTemplate => Event::NewBlockTemplate,
        }
    }

    /// Returns the notifications of a change in a given order, without that of the block.
    pub(crate) fn from_effects(dag: &Dag, effects: &BlockEffects, order: &[Event]) -> Vec<Self> {
        let change = &effects.change;
        let notice = |event: &Event| match event {
            Event::NewBlockTemplate => Some(Self::NewBlockTemplate),
            Event::SinkBlueScoreChanged => {
                Some(Self::SinkBlueScoreChanged(dag.sink().header.blue_score))
            }
            Event::VirtualDaaScoreChanged => {
                Some(Self::VirtualDaaScoreChanged(dag.virtual_block().ghostdag.daa_score))
            }
            Event::VirtualChainChanged => Some(Self::VirtualChainChanged {
                path: change.path.clone(),
                accepted: accepted_ids(dag, &change.path.added),
            }),
            Event::UtxosChanged => Some(Self::UtxosChanged(change.diff.clone())),
            _ => None,
        };
        order.iter().filter_map(notice).collect()
    }

    /// Returns the content of the notification, without UTXOs and ids, which depend on the client.
    pub(crate) fn to_structure(&self) -> Structure {
        let structure = Structure::with_version16(1);
        match self {
            Self::BlockAdded(block) => structure.field("block", Value::Structure(block.clone())),
            Self::FinalityConflict(block) => {
                structure.field("violatingBlockHash", Value::Hash(*block))
            }
            Self::FinalityConflictResolved(block) => {
                structure.field("finalityBlockHash", Value::Hash(*block))
            }
            Self::SinkBlueScoreChanged(score) => {
                structure.field("sinkBlueScore", Value::U64(*score))
            }
            Self::VirtualDaaScoreChanged(score) => {
                structure.field("virtualDaaScore", Value::U64(*score))
            }
            Self::VirtualChainChanged { .. }
            | Self::UtxosChanged(_)
            | Self::PruningPointUtxoSetOverride
            | Self::NewBlockTemplate => structure,
        }
    }
}

/// Returns the ids that chain blocks accept.
pub(crate) fn accepted_ids(dag: &Dag, chain_blocks: &[Hash]) -> Vec<AcceptedIds> {
    let ids = |hash: &Hash| {
        let block = dag.block(hash)?;
        let accepted = block.state.as_ref()?.accepted.iter();
        let transaction_ids = accepted.map(|accepted| dag.accepted_id(accepted)).collect();
        Some(AcceptedIds { accepting_block: *hash, transaction_ids })
    };
    chain_blocks.iter().filter_map(ids).collect()
}

/// The fields of a change of the chain: a notification, or a reply to getVirtualChainFromBlock.
pub(crate) fn chain_structure(path: &ChainPath, accepted: &[AcceptedIds]) -> Structure {
    let accepted = accepted.iter().map(|accepted| {
        Value::Object(vec![
            ("acceptingBlockHash", Value::Hash(accepted.accepting_block)),
            ("acceptedTransactionIds", Value::hashes(&accepted.transaction_ids)),
        ])
    });
    Structure::with_version16(1)
        .field("removedChainBlockHashes", Value::hashes(&path.removed))
        .field("addedChainBlockHashes", Value::hashes(&path.added))
        .field("acceptedTransactionIds", Value::List(accepted.collect()))
}

impl UtxoSelection<'_> {
    /// The content of a notification.
    pub(crate) fn to_structure(
        &self,
        report: impl Fn(&Outpoint, &UtxoEntry) -> UtxoEntry,
    ) -> Structure {
        let list = |utxos: &[(&Outpoint, &UtxoEntry)]| {
            let mut utxos: Vec<AddressUtxo> = utxos
                .iter()
                .map(|(outpoint, entry)| to_address_utxo(outpoint, report(outpoint, entry)))
                .collect();
            // kaspad groups by script, in the order of a hash table.
            utxos.sort_by(|left, right| {
                let script = |utxo: &AddressUtxo| utxo.entry.script_public_key.script.clone();
                script(left).cmp(&script(right)).then(left.outpoint.cmp(&right.outpoint))
            });
            Value::structures(utxos.iter().map(address_utxo).collect())
        };
        Structure::with_version16(1)
            .field("added", list(&self.added))
            .field("removed", list(&self.removed))
    }
}

/// A UTXO with its address on simnet.
pub(crate) fn to_address_utxo(outpoint: &Outpoint, entry: UtxoEntry) -> AddressUtxo {
    let address = entry.script_public_key.address(Prefix::Simnet);
    AddressUtxo { address, outpoint: *outpoint, entry }
}
