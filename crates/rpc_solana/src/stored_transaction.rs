//! A transaction of history as Agave's encoders accept it, and as Agave reads it from its own storage.
//!
//! Invariant: a token balance of zero has no `uiAmount`. Agave stores transactions as Protocol Buffers, which omit a
//! zero. A simulation, which is not stored, has it.

use chain_solana::ExecutedTransaction;
use solana_transaction_status::{TransactionStatusMeta, VersionedTransactionWithStatusMeta};

/// Returns a transaction with its metadata.
pub(crate) fn with_meta(executed: &ExecutedTransaction) -> VersionedTransactionWithStatusMeta {
    let mut meta = executed.meta.clone();
    remove_zero_amounts(&mut meta);
    VersionedTransactionWithStatusMeta { transaction: executed.transaction.clone(), meta }
}

fn remove_zero_amounts(meta: &mut TransactionStatusMeta) {
    for balances in [&mut meta.pre_token_balances, &mut meta.post_token_balances] {
        for balance in balances.iter_mut().flatten() {
            let amount = &mut balance.ui_token_amount.ui_amount;
            // Agave's `solana-storage-proto` does the same.
            *amount = amount.filter(|amount| amount.abs() > f64::EPSILON);
        }
    }
}

#[cfg(test)]
mod tests {
    use solana_account_decoder_client_types::token::UiTokenAmount;
    use solana_transaction_status::TransactionTokenBalance;

    use super::*;

    fn balance(amount: f64) -> TransactionTokenBalance {
        TransactionTokenBalance {
            account_index: 1,
            mint: String::new(),
            ui_token_amount: UiTokenAmount {
                ui_amount: Some(amount),
                decimals: 0,
                amount: amount.to_string(),
                ui_amount_string: amount.to_string(),
            },
            owner: String::new(),
            program_id: String::new(),
        }
    }

    #[test]
    fn a_zero_token_balance_has_no_ui_amount() {
        let mut meta = TransactionStatusMeta {
            pre_token_balances: Some(vec![balance(0.0), balance(3.0)]),
            post_token_balances: Some(vec![balance(0.0)]),
            ..TransactionStatusMeta::default()
        };
        remove_zero_amounts(&mut meta);
        let amounts = |balances: Option<Vec<TransactionTokenBalance>>| -> Vec<Option<f64>> {
            balances.into_iter().flatten().map(|it| it.ui_token_amount.ui_amount).collect()
        };
        assert_eq!(amounts(meta.pre_token_balances), [None, Some(3.0)]);
        assert_eq!(amounts(meta.post_token_balances), [None]);
    }
}
