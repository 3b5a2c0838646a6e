//! Compares the results of an executed transaction with those that a source reported.

use chain_solana::ResultField;
use solana_transaction_status::TransactionStatusMeta;

/// Returns the fields in which the reported results differ. A field that the source leaves out differs, unless it is
/// empty. The model's cost of a transaction is not compared: blocks do not depend on it.
pub(super) fn find_differences(
    executed: &TransactionStatusMeta,
    reported: &TransactionStatusMeta,
) -> Vec<ResultField> {
    let inner = |meta: &TransactionStatusMeta| meta.inner_instructions.clone().unwrap_or_default();
    let pairs = [
        (ResultField::Status, executed.status == reported.status),
        (ResultField::Fee, executed.fee == reported.fee),
        (
            ResultField::Balances,
            executed.pre_balances == reported.pre_balances
                && executed.post_balances == reported.post_balances,
        ),
        (ResultField::LoadedAddresses, executed.loaded_addresses == reported.loaded_addresses),
        (
            ResultField::ComputeUnits,
            executed.compute_units_consumed.unwrap_or(0)
                == reported.compute_units_consumed.unwrap_or(0),
        ),
        (
            ResultField::Logs,
            executed.log_messages.as_deref().unwrap_or_default()
                == reported.log_messages.as_deref().unwrap_or_default(),
        ),
        (ResultField::InnerInstructions, inner(executed) == inner(reported)),
        (ResultField::ReturnData, has_same_return_data(executed, reported)),
        (
            ResultField::TokenBalances,
            executed.pre_token_balances == reported.pre_token_balances
                && executed.post_token_balances == reported.post_token_balances,
        ),
        (
            ResultField::TransactionRewards,
            reported.rewards.as_ref().is_none_or(|rewards| rewards.is_empty()),
        ),
    ];
    pairs.into_iter().filter(|(_, is_equal)| !is_equal).map(|(field, _)| field).collect()
}

/// Empty return data is none.
fn has_same_return_data(
    executed: &TransactionStatusMeta,
    reported: &TransactionStatusMeta,
) -> bool {
    let data = |meta: &TransactionStatusMeta| {
        let data = meta.return_data.clone();
        data.filter(|returned| !returned.data.is_empty())
    };
    data(executed) == data(reported)
}

/// Whether the accounts after the transaction are unknown if this field differs: the source lies, or the VM differs
/// from the cluster.
pub(super) fn affects_accounts(field: ResultField) -> bool {
    matches!(
        field,
        ResultField::Inclusion | ResultField::Status | ResultField::Fee | ResultField::Balances
    )
}

#[cfg(test)]
mod tests {
    use solana_transaction_error::TransactionError;

    use super::*;

    #[test]
    fn every_altered_field_is_named_and_an_empty_one_may_be_left_out() {
        let executed = TransactionStatusMeta {
            log_messages: Some(Vec::new()),
            inner_instructions: Some(Vec::new()),
            compute_units_consumed: Some(0),
            pre_token_balances: Some(Vec::new()),
            post_token_balances: Some(Vec::new()),
            ..TransactionStatusMeta::default()
        };
        let mut reported = TransactionStatusMeta {
            log_messages: None,
            inner_instructions: None,
            compute_units_consumed: None,
            rewards: None,
            ..executed.clone()
        };
        assert_eq!(find_differences(&executed, &reported), []);
        reported.status = Err(TransactionError::AccountInUse);
        reported.fee = 1;
        reported.compute_units_consumed = Some(1);
        reported.log_messages = Some(vec!["paid".to_owned()]);
        assert_eq!(
            find_differences(&executed, &reported),
            [ResultField::Status, ResultField::Fee, ResultField::ComputeUnits, ResultField::Logs]
        );
    }
}
