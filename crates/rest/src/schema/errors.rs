//! Why a transaction fails, in the words that Agave has for it.

use serde_json::Value;

use super::builder::*;

/// Reasons that need no more words.
pub(crate) const TRANSACTION_ERRORS: &[&str] = &[
    "AccountInUse",
    "AccountLoadedTwice",
    "AccountNotFound",
    "ProgramAccountNotFound",
    "InsufficientFundsForFee",
    "InvalidAccountForFee",
    "AlreadyProcessed",
    "BlockhashNotFound",
    "CallChainTooDeep",
    "MissingSignatureForFee",
    "InvalidAccountIndex",
    "SignatureFailure",
    "InvalidProgramForExecution",
    "SanitizeFailure",
    "ClusterMaintenance",
    "AccountBorrowOutstanding",
    "WouldExceedMaxBlockCostLimit",
    "UnsupportedVersion",
    "InvalidWritableAccount",
    "WouldExceedMaxAccountCostLimit",
    "WouldExceedAccountDataBlockLimit",
    "TooManyAccountLocks",
    "AddressLookupTableNotFound",
    "InvalidAddressLookupTableOwner",
    "InvalidAddressLookupTableData",
    "InvalidAddressLookupTableIndex",
    "InvalidRentPayingAccount",
    "WouldExceedMaxVoteCostLimit",
    "WouldExceedAccountDataTotalLimit",
    "MaxLoadedAccountsDataSizeExceeded",
    "InvalidLoadedAccountsDataSizeLimit",
    "ResanitizationNeeded",
    "UnbalancedTransaction",
    "ProgramCacheHitMaxLimit",
    "CommitCancelled",
];

/// Reasons of an instruction that need no more words.
pub(crate) const INSTRUCTION_ERRORS: &[&str] = &[
    "GenericError",
    "InvalidArgument",
    "InvalidInstructionData",
    "InvalidAccountData",
    "AccountDataTooSmall",
    "InsufficientFunds",
    "IncorrectProgramId",
    "MissingRequiredSignature",
    "AccountAlreadyInitialized",
    "UninitializedAccount",
    "UnbalancedInstruction",
    "ModifiedProgramId",
    "ExternalAccountLamportSpend",
    "ExternalAccountDataModified",
    "ReadonlyLamportChange",
    "ReadonlyDataModified",
    "DuplicateAccountIndex",
    "ExecutableModified",
    "RentEpochModified",
    "NotEnoughAccountKeys",
    "AccountDataSizeChanged",
    "AccountNotExecutable",
    "AccountBorrowFailed",
    "AccountBorrowOutstanding",
    "DuplicateAccountOutOfSync",
    "InvalidError",
    "ExecutableDataModified",
    "ExecutableLamportChange",
    "ExecutableAccountNotRentExempt",
    "UnsupportedProgramId",
    "CallDepth",
    "MissingAccount",
    "ReentrancyNotAllowed",
    "MaxSeedLengthExceeded",
    "InvalidSeeds",
    "InvalidRealloc",
    "ComputationalBudgetExceeded",
    "PrivilegeEscalation",
    "ProgramEnvironmentSetupFailure",
    "ProgramFailedToComplete",
    "ProgramFailedToCompile",
    "Immutable",
    "IncorrectAuthority",
    "BorshIoError",
    "AccountNotRentExempt",
    "InvalidAccountOwner",
    "ArithmeticOverflow",
    "UnsupportedSysvar",
    "IllegalOwner",
    "MaxAccountsDataAllocationsExceeded",
    "MaxAccountsExceeded",
    "MaxInstructionTraceLengthExceeded",
    "BuiltinProgramsMustConsumeComputeUnits",
];

pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![("TransactionError", transaction_error()), ("InstructionError", instruction_error())]
}

fn transaction_error() -> Value {
    let of_account = |name: &str, told: &str| {
        let index = uint(8, "The account's place among the keys.");
        object(told, [(name, object("Of which account.", [("account_index", index)]))])
    };
    let of_instruction =
        [uint(8, "The instruction, from 0."), reference("InstructionError", "Why it failed.")];
    any_of(
        "Why a transaction failed.",
        [
            string_enum("Of all of it.", TRANSACTION_ERRORS),
            object(
                "Of one instruction.",
                [("InstructionError", tuple("Which one, and why.", of_instruction))],
            ),
            object(
                "It has one instruction twice that it may have once.",
                [("DuplicateInstruction", uint(8, "The second of them, from 0."))],
            ),
            of_account("InsufficientFundsForRent", "An account would be left with too little."),
            of_account(
                "ProgramExecutionTemporarilyRestricted",
                "A program may not be run for now.",
            ),
        ],
    )
}

fn instruction_error() -> Value {
    any_of(
        "Why an instruction failed.",
        [
            string_enum("As the runtime says it.", INSTRUCTION_ERRORS),
            object(
                "As the program says it.",
                [("Custom", uint(32, "The program's own code for it."))],
            ),
        ],
    )
}
