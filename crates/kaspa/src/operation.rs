//! The operations of wRPC: their codes in Borsh and their names in JSON.

/// Defines a list of operations, each with its code and its name.
macro_rules! operations {
    ($(#[$attribute:meta])* $list:ident { $($(#[$doc:meta])* $variant:ident = $code:literal $name:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $list {
            $($(#[$doc])* $variant = $code,)*
        }

        impl $list {
            /// Every operation of the list, in the order of its code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the code that Borsh messages have.
            pub fn code(self) -> u8 {
                self as u8
            }

            /// Returns the name that JSON messages have.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the one with this code.
            pub fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Returns the one with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

operations! {
    /// A method that returns a reply.
    Method {
        /// Returns an empty reply, which tests the connection.
        Ping = 110 "ping",
        /// Returns counters of the process, its connections and the consensus.
        GetMetrics = 111 "getMetrics",
        /// Returns the version of kaspad, and the cores and the memory of its machine.
        GetSystemInfo = 112 "getSystemInfo",
        /// Returns the numbers of clients and of connected nodes.
        GetConnections = 113 "getConnections",
        /// Versions, network, index and DAA score.
        GetServerInfo = 114 "getServerInfo",
        /// Whether the node is in sync.
        GetSyncStatus = 115 "getSyncStatus",
        /// Returns the network of the node.
        GetCurrentNetwork = 116 "getCurrentNetwork",
        /// Adds a mined block to the DAG.
        SubmitBlock = 117 "submitBlock",
        /// A block without its proof of work.
        GetBlockTemplate = 118 "getBlockTemplate",
        /// Returns the known addresses of other nodes.
        GetPeerAddresses = 119 "getPeerAddresses",
        /// The tip of the selected chain.
        GetSink = 120 "getSink",
        /// A transaction in the mempool.
        GetMempoolEntry = 121 "getMempoolEntry",
        /// Returns all transactions in the mempool.
        GetMempoolEntries = 122 "getMempoolEntries",
        /// Returns the connected nodes.
        GetConnectedPeerInfo = 123 "getConnectedPeerInfo",
        /// Connects the node to another one.
        AddPeer = 124 "addPeer",
        /// Adds a transaction to the mempool.
        SubmitTransaction = 125 "submitTransaction",
        /// Returns a block by its hash.
        GetBlock = 126 "getBlock",
        /// Not implemented by kaspad.
        GetSubnetwork = 127 "getSubnetwork",
        /// Chain blocks with the ids of accepted transactions.
        GetVirtualChainFromBlock = 128 "getVirtualChainFromBlock",
        /// Returns the blocks above a block of the DAG.
        GetBlocks = 129 "getBlocks",
        /// Returns the numbers of blocks and of headers.
        GetBlockCount = 130 "getBlockCount",
        /// Returns the tips, the difficulty and the scores of the DAG.
        GetBlockDagInfo = 131 "getBlockDagInfo",
        /// Not implemented by kaspad.
        ResolveFinalityConflict = 132 "resolveFinalityConflict",
        /// Ends the process of kaspad.
        Shutdown = 133 "shutdown",
        /// Not implemented by kaspad.
        GetHeaders = 134 "getHeaders",
        /// Returns the UTXOs of several addresses.
        GetUtxosByAddresses = 135 "getUtxosByAddresses",
        /// Returns the balance of an address.
        GetBalanceByAddress = 136 "getBalanceByAddress",
        /// Returns the balances of several addresses.
        GetBalancesByAddresses = 137 "getBalancesByAddresses",
        /// Returns the blue score of the tip of the selected chain.
        GetSinkBlueScore = 138 "getSinkBlueScore",
        /// Refuses the nodes of an IP address.
        Ban = 139 "ban",
        /// Accepts the nodes of a banned IP address again.
        Unban = 140 "unban",
        /// Versions, mempool and capabilities.
        GetInfo = 141 "getInfo",
        /// Returns the estimated hash rate of the network.
        EstimateNetworkHashesPerSecond = 142 "estimateNetworkHashesPerSecond",
        /// Transactions in the mempool by address.
        GetMempoolEntriesByAddresses = 143 "getMempoolEntriesByAddresses",
        /// Returns the amount in circulation, and its maximum.
        GetCoinSupply = 144 "getCoinSupply",
        /// Returns the estimated times of DAA scores.
        GetDaaScoreTimestampEstimate = 145 "getDaaScoreTimestampEstimate",
        /// Replaces a transaction in the mempool.
        SubmitTransactionReplacement = 146 "submitTransactionReplacement",
        /// Returns fee rates with the estimated time until a transaction is accepted.
        GetFeeEstimate = 147 "getFeeEstimate",
        /// Returns these fee rates, with details of the mempool on request.
        GetFeeEstimateExperimental = 148 "getFeeEstimateExperimental",
        /// Returns whether a block is blue on the selected chain.
        GetCurrentBlockColor = 149 "getCurrentBlockColor",
        /// The address that paid for a transaction.
        GetUtxoReturnAddress = 150 "getUtxoReturnAddress",
        /// Chain blocks with accepted transactions.
        GetVirtualChainFromBlockV2 = 151 "getVirtualChainFromBlockV2",
        /// Returns the reward that a block paid to its miner.
        GetBlockRewardInfo = 152 "getBlockRewardInfo",
        /// A proof of the sequencing commitment of one subnetwork.
        GetSeqCommitLaneProof = 153 "getSeqCommitLaneProof",
    }
}

operations! {
    /// An event that a client may be notified of. The code is that of the notification.
    Event {
        /// A block was added to the DAG.
        BlockAdded = 60 "blockAddedNotification",
        /// Blocks joined or left the selected chain.
        VirtualChainChanged = 61 "virtualChainChangedNotification",
        /// A block violates the finality of the selected chain.
        FinalityConflict = 62 "finalityConflictNotification",
        /// A conflict of finality was resolved.
        FinalityConflictResolved = 63 "finalityConflictResolvedNotification",
        /// UTXOs were added and removed.
        UtxosChanged = 64 "utxosChangedNotification",
        /// The blue score of the tip changed.
        SinkBlueScoreChanged = 65 "sinkBlueScoreChangedNotification",
        /// The DAA score of the virtual block changed.
        VirtualDaaScoreChanged = 66 "virtualDaaScoreChangedNotification",
        /// The whole UTXO set was replaced.
        PruningPointUtxoSetOverride = 67 "pruningPointUtxoSetOverrideNotification",
        /// There is a new block template.
        NewBlockTemplate = 68 "newBlockTemplateNotification",
    }
}

operations! {
    /// Names that kaspad knows and does not implement as methods: it replies that it has no such method.
    Unserved {
        /// An operation without an effect.
        NoOp = 0 "noOp",
        /// The start of a connection, which is not a message.
        Connect = 1 "connect",
        /// The end of a connection, which is not a message.
        Disconnect = 2 "disconnect",
        /// Subscribes to added blocks over gRPC.
        NotifyBlockAdded = 10 "notifyBlockAdded",
        /// Subscribes to block templates over gRPC.
        NotifyNewBlockTemplate = 11 "notifyNewBlockTemplate",
        /// Subscribes to changes of UTXOs over gRPC.
        NotifyUtxosChanged = 12 "notifyUtxosChanged",
        /// Subscribes to replaced UTXO sets over gRPC.
        NotifyPruningPointUtxoSetOverride = 13 "notifyPruningPointUtxoSetOverride",
        /// Subscribes to conflicts of finality over gRPC.
        NotifyFinalityConflict = 14 "notifyFinalityConflict",
        /// Subscribes to resolved conflicts over gRPC.
        NotifyFinalityConflictResolved = 15 "notifyFinalityConflictResolved",
        /// Subscribes to DAA scores over gRPC.
        NotifyVirtualDaaScoreChanged = 16 "notifyVirtualDaaScoreChanged",
        /// Subscribes to changes of the chain over gRPC.
        NotifyVirtualChainChanged = 17 "notifyVirtualChainChanged",
        /// Subscribes to blue scores over gRPC.
        NotifySinkBlueScoreChanged = 18 "notifySinkBlueScoreChanged",
    }
}

operations! {
    /// A method that kaspad does not have. Only JSON names it: the code is for counters, and no message in Borsh has it.
    OwnMethod {
        /// Starts the changes of a set of addresses, chain block by chain block.
        AddressesSubscribe = 240 "addressesSubscribe",
        /// Stops the changes of a set of addresses.
        AddressesUnsubscribe = 241 "addressesUnsubscribe",
        /// Returns the position up to which the changes were sent.
        AddressesPosition = 242 "addressesPosition",
    }
}

/// An operation that a client may name. A connection that names another one is closed, as kaspad does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Starts the notifications of an event.
    Subscribe,
    /// Stops the notifications of an event.
    Unsubscribe,
    /// Calls a method, which has a reply.
    Method(Method),
    /// A notification, which only a node sends.
    Notification(Event),
    /// A known name that is not a method.
    Unserved(Unserved),
    /// A method that kaspad does not have.
    Own(OwnMethod),
}

const SUBSCRIBE_CODE: u8 = 3;
const UNSUBSCRIBE_CODE: u8 = 4;
const SUBSCRIBE_NAME: &str = "subscribe";
const UNSUBSCRIBE_NAME: &str = "unsubscribe";

impl Operation {
    /// Returns the code that Borsh messages have.
    pub fn code(self) -> u8 {
        match self {
            Self::Subscribe => SUBSCRIBE_CODE,
            Self::Unsubscribe => UNSUBSCRIBE_CODE,
            Self::Method(method) => method.code(),
            Self::Notification(event) => event.code(),
            Self::Unserved(unserved) => unserved.code(),
            Self::Own(method) => method.code(),
        }
    }

    /// Returns the name that JSON messages have.
    pub fn name(self) -> &'static str {
        match self {
            Self::Subscribe => SUBSCRIBE_NAME,
            Self::Unsubscribe => UNSUBSCRIBE_NAME,
            Self::Method(method) => method.name(),
            Self::Notification(event) => event.name(),
            Self::Unserved(unserved) => unserved.name(),
            Self::Own(method) => method.name(),
        }
    }

    /// Returns the operation with this code. Methods that kaspad does not have are found by name only.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            SUBSCRIBE_CODE => Some(Self::Subscribe),
            UNSUBSCRIBE_CODE => Some(Self::Unsubscribe),
            _ => Method::from_code(code)
                .map(Self::Method)
                .or_else(|| Event::from_code(code).map(Self::Notification))
                .or_else(|| Unserved::from_code(code).map(Self::Unserved)),
        }
    }

    /// Returns the operation with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            SUBSCRIBE_NAME => Some(Self::Subscribe),
            UNSUBSCRIBE_NAME => Some(Self::Unsubscribe),
            _ => Method::from_name(name)
                .map(Self::Method)
                .or_else(|| Event::from_name(name).map(Self::Notification))
                .or_else(|| Unserved::from_name(name).map(Self::Unserved))
                .or_else(|| OwnMethod::from_name(name).map(Self::Own)),
        }
    }
}

impl Event {
    /// Returns the number of the event in a notification, and of its scope in a subscription.
    pub fn variant(self) -> u8 {
        self.code() - Self::BlockAdded.code()
    }

    /// Returns the event with this number.
    pub fn from_variant(variant: u8) -> Option<Self> {
        variant.checked_add(Self::BlockAdded.code()).and_then(Self::from_code)
    }

    /// Returns the name in the JSON of a notification's parameters, and of a subscription's scope.
    pub fn scope_name(self) -> &'static str {
        match self {
            Self::BlockAdded => "BlockAdded",
            Self::VirtualChainChanged => "VirtualChainChanged",
            Self::FinalityConflict => "FinalityConflict",
            Self::FinalityConflictResolved => "FinalityConflictResolved",
            Self::UtxosChanged => "UtxosChanged",
            Self::SinkBlueScoreChanged => "SinkBlueScoreChanged",
            Self::VirtualDaaScoreChanged => "VirtualDaaScoreChanged",
            Self::PruningPointUtxoSetOverride => "PruningPointUtxoSetOverride",
            Self::NewBlockTemplate => "NewBlockTemplate",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_code_and_by_name() {
        let known: Vec<Operation> = (0..=u8::MAX).filter_map(Operation::from_code).collect();
        assert_eq!(Method::ALL.len(), 44);
        assert_eq!(known.len(), 44 + 9 + 12 + 2);
        for operation in known {
            assert_eq!(Operation::from_code(operation.code()), Some(operation));
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
        }
        assert_eq!(Operation::from_name("GetInfo"), None);
    }

    #[test]
    fn own_methods_are_found_by_name_only() {
        for method in OwnMethod::ALL {
            let own = Operation::Own(*method);
            assert_eq!(Operation::from_name(own.name()), Some(own));
            assert_eq!(Operation::from_code(own.code()), None);
        }
    }

    #[test]
    fn events_are_numbered_from_zero() {
        for (variant, event) in (0..).zip(Event::ALL) {
            assert_eq!(event.variant(), variant);
            assert_eq!(Event::from_variant(variant), Some(*event));
        }
        assert_eq!(Event::from_variant(9), None);
        assert_eq!(Event::from_variant(255), None);
    }
}
