//! The headers that say which state a response was read from.

use chain_kaspa::{ChainReader, ChainStatus};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use kaspa::Hash;
use ledger::Commitment;
use rest::{ApiError, OwnHeader};

/// The chain block, or that below the virtual block.
const CHAIN_BLOCK: HeaderName = HeaderName::from_static("hydrant-chain-block");
/// The DAA score of the state that was read.
const DAA_SCORE: HeaderName = HeaderName::from_static("hydrant-daa-score");
/// The blue score of the chain block.
const BLUE_SCORE: HeaderName = HeaderName::from_static("hydrant-blue-score");
/// Whether the state is that of the virtual block or of the sink.
const STATE: HeaderName = HeaderName::from_static("hydrant-state");
/// The DAA score of the oldest block in the history.
const HISTORY_FROM: HeaderName = HeaderName::from_static("hydrant-history-from");
/// The token of the next page.
pub(crate) const NEXT_PAGE: HeaderName = HeaderName::from_static("hydrant-next-page");
/// The number of transactions of a page by time.
pub(crate) const PAGE_COUNT: HeaderName = HeaderName::from_static("x-page-count");
/// The time before which the next page starts.
pub(crate) const NEXT_PAGE_BEFORE: HeaderName = HeaderName::from_static("x-next-page-before");
/// The time after which the page before starts.
pub(crate) const NEXT_PAGE_AFTER: HeaderName = HeaderName::from_static("x-next-page-after");

/// Every header of this API, for OpenAPI.
pub(crate) const OWN_HEADERS: &[OwnHeader] = &[
    OwnHeader {
        name: "Hydrant-Chain-Block",
        doc: "The chain block whose state was read, or that below the virtual block.",
    },
    OwnHeader { name: "Hydrant-Daa-Score", doc: "The DAA score of the state that was read." },
    OwnHeader { name: "Hydrant-Blue-Score", doc: "The blue score of the chain block." },
    OwnHeader { name: "Hydrant-State", doc: "The state that was read: virtual or sink." },
    OwnHeader {
        name: "Hydrant-Proven-Block",
        doc: "The newest chain block, whose UTXO set is proven by the commitment of its header.",
    },
    OwnHeader {
        name: "Hydrant-Proven-Daa-Score",
        doc: "The DAA score of the newest proven block.",
    },
    OwnHeader {
        name: "Hydrant-Virtual-State",
        doc: "The UTXO set of the virtual block: exact, joining or off.",
    },
    OwnHeader {
        name: "Hydrant-History-From",
        doc: "The DAA score of the oldest block in the history. Older transactions are not known. Only with history.",
    },
    OwnHeader {
        name: "Hydrant-Next-Page",
        doc: "The parameter page of the next request. Missing on the last page.",
    },
    OwnHeader { name: "X-Page-Count", doc: "The transactions of a page by time." },
    OwnHeader {
        name: "X-Next-Page-Before",
        doc: "The parameter before of the next request. Missing if the page is not full.",
    },
    OwnHeader {
        name: "X-Next-Page-After",
        doc: "The parameter after of a request for newer transactions. Missing if the page is not full.",
    },
];

/// The state that a response was read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatePosition {
    chain_block: Hash,
    daa_score: u64,
    blue_score: u64,
    is_virtual: bool,
    /// The DAA score of the oldest block in the history, for a response from it.
    history_from: Option<u64>,
}

impl StatePosition {
    /// The position of the UTXO set at a commitment.
    pub(crate) fn for_utxos(chain: &ChainReader, commitment: Commitment) -> Self {
        let view = chain.utxos.view(commitment);
        let info = view.meta();
        Self {
            chain_block: info.hash,
            daa_score: info.daa_score,
            blue_score: info.header.blue_score,
            is_virtual: info.is_virtual,
            history_from: None,
        }
    }

    /// The position of the sink of a status.
    pub(crate) fn for_status(status: &ChainStatus) -> Self {
        Self {
            chain_block: status.sink.hash,
            daa_score: status.sink.daa_score,
            blue_score: status.sink.blue_score,
            is_virtual: false,
            history_from: None,
        }
    }

    /// The position up to which the history reaches. If it has no block yet, it starts above the sink.
    pub(crate) fn for_history(chain: &ChainReader) -> Self {
        let history = chain.history();
        match history.newest_block() {
            Some(newest) => Self {
                chain_block: newest.hash,
                daa_score: newest.header.daa_score,
                blue_score: newest.header.blue_score,
                is_virtual: false,
                history_from: history.first_daa_score(),
            },
            None => {
                let sink = Self::for_utxos(chain, Commitment::Confirmed);
                Self { history_from: Some(sink.daa_score.saturating_add(1)), ..sink }
            }
        }
    }

    /// The DAA score from which on transactions are known, for a response from the history.
    pub(crate) fn history_from(&self) -> u64 {
        self.history_from.unwrap_or(self.daa_score)
    }

    /// Writes the headers of a response.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.extend(self.to_headers());
    }

    /// Adds the headers to an error.
    pub(crate) fn add_to(&self, error: ApiError) -> ApiError {
        let headers = self.to_headers().into_iter();
        headers.fold(error, |error, (name, value)| error.with_header(name, value))
    }

    fn to_headers(self) -> Vec<(HeaderName, HeaderValue)> {
        let state = HeaderValue::from_static(if self.is_virtual { "virtual" } else { "sink" });
        let mut headers = vec![
            (DAA_SCORE, self.daa_score.into()),
            (BLUE_SCORE, self.blue_score.into()),
            (STATE, state),
        ];
        let hash = HeaderValue::try_from(self.chain_block.to_string());
        headers.extend(hash.ok().map(|hash| (CHAIN_BLOCK, hash)));
        headers.extend(self.history_from.map(|daa_score| (HISTORY_FROM, daa_score.into())));
        headers
    }
}
