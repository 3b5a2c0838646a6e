//! Conditions on an account other than its address and its owner: data, lamports, and whether a transaction wrote it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chain_solana::AccountUpdate;
use solana_account::{AccountSharedData, ReadableAccount};
use spl_generic_token::token::GenericTokenAccount;
use spl_generic_token::token_2022;
use tonic::Status;
use yellowstone_grpc_proto::geyser::subscribe_request_filter_accounts_filter::Filter;
use yellowstone_grpc_proto::geyser::subscribe_request_filter_accounts_filter_lamports::Cmp;
use yellowstone_grpc_proto::geyser::subscribe_request_filter_accounts_filter_memcmp::Data;
use yellowstone_grpc_proto::geyser::{
    SubscribeRequestFilterAccounts, SubscribeRequestFilterAccountsFilter,
    SubscribeRequestFilterAccountsFilterMemcmp,
};

use super::common::check_count;
use crate::config::Config;

/// Bytes of a memcmp filter, as in Agave.
const MEMCMP_BYTES_MAX: usize = 128;

/// The conditions on an account of one filter, which must all match. Equal ones match the same updates.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AccountPredicate {
    data: Vec<DataFilter>,
    has_signature: Option<bool>,
}

/// A condition on the account's content.
#[derive(Debug, PartialEq, Eq, Hash)]
enum DataFilter {
    Memcmp { offset: usize, bytes: Vec<u8> },
    DataSize(u64),
    TokenAccount,
    Lamports(Cmp),
}

impl AccountPredicate {
    pub(super) fn new(
        filter: &SubscribeRequestFilterAccounts,
        config: &Config,
    ) -> Result<Self, Status> {
        check_count("filters", filter.filters.len(), config.data_filters_max, None)?;
        let data = filter.filters.iter().map(DataFilter::new).collect::<Result<_, _>>()?;
        Ok(Self { data, has_signature: filter.nonempty_txn_signature })
    }

    pub(super) fn matches(&self, update: &AccountUpdate) -> bool {
        self.has_signature.is_none_or(|wanted| wanted == update.signature.is_some())
            && self.data.iter().all(|filter| filter.matches(&update.account.0))
    }

    pub(super) fn cost(&self) -> usize {
        1 + self.data.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.data.len() * (size_of::<DataFilter>() + MEMCMP_BYTES_MAX)
    }
}

impl DataFilter {
    fn new(filter: &SubscribeRequestFilterAccountsFilter) -> Result<Self, Status> {
        match &filter.filter {
            None => Err(Status::invalid_argument("filters: an entry has no filter")),
            Some(Filter::Memcmp(memcmp)) => {
                let offset = usize::try_from(memcmp.offset);
                let offset = offset.map_err(|_| Status::invalid_argument("memcmp: offset"))?;
                Ok(Self::Memcmp { offset, bytes: memcmp_bytes(memcmp)? })
            }
            Some(Filter::Datasize(size)) => Ok(Self::DataSize(*size)),
            Some(Filter::TokenAccountState(true)) => Ok(Self::TokenAccount),
            Some(Filter::TokenAccountState(false)) => {
                Err(Status::invalid_argument("token_account_state can only be true"))
            }
            Some(Filter::Lamports(lamports)) => {
                let cmp = lamports.cmp.ok_or_else(|| {
                    Status::invalid_argument("lamports: one of eq, ne, lt and gt is required")
                })?;
                Ok(Self::Lamports(cmp))
            }
        }
    }

    fn matches(&self, account: &AccountSharedData) -> bool {
        let data = account.data();
        match self {
            Self::Memcmp { offset, bytes } => {
                data.get(*offset..).is_some_and(|rest| rest.starts_with(bytes))
            }
            Self::DataSize(size) => data.len() as u64 == *size,
            Self::TokenAccount => token_2022::Account::valid_account_data(data),
            Self::Lamports(cmp) => {
                let lamports = account.lamports();
                match cmp {
                    Cmp::Eq(value) => lamports == *value,
                    Cmp::Ne(value) => lamports != *value,
                    Cmp::Lt(value) => lamports < *value,
                    Cmp::Gt(value) => lamports > *value,
                }
            }
        }
    }
}

fn memcmp_bytes(memcmp: &SubscribeRequestFilterAccountsFilterMemcmp) -> Result<Vec<u8>, Status> {
    let invalid = |what: &str| Status::invalid_argument(format!("memcmp: {what}"));
    // Base58 and base64 need at most twice the bytes.
    let is_long = match &memcmp.data {
        None => return Err(invalid("one of bytes, base58 and base64 is required")),
        Some(Data::Bytes(bytes)) => bytes.len() > MEMCMP_BYTES_MAX,
        Some(Data::Base58(text) | Data::Base64(text)) => text.len() > 2 * MEMCMP_BYTES_MAX,
    };
    let bytes = match &memcmp.data {
        _ if is_long => None,
        None => None,
        Some(Data::Bytes(bytes)) => Some(bytes.clone()),
        Some(Data::Base58(text)) => {
            Some(bs58::decode(text).into_vec().map_err(|_| invalid("base58 is invalid"))?)
        }
        Some(Data::Base64(text)) => {
            Some(STANDARD.decode(text).map_err(|_| invalid("base64 is invalid"))?)
        }
    };
    let fits = |bytes: &Vec<u8>| bytes.len() <= MEMCMP_BYTES_MAX;
    bytes.filter(fits).ok_or_else(|| invalid("at most 128 bytes are allowed"))
}
