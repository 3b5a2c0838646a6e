//! Errors of transactions and instructions, by Agave's names.

use rest::schema::*;
use serde_json::Value;

/// Errors of a transaction without further members.
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

/// Errors of an instruction without further members.
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
    let account_error = |name: &str, description: &str| {
        let index = uint(8, "The account's index among the keys.");
        object(description, [(name, object("The account.", [("account_index", index)]))])
    };
    let instruction = [
        uint(8, "The index of the instruction, from 0."),
        reference("InstructionError", "Why the instruction failed."),
    ];
    any_of(
        "Why a transaction failed.",
        [
            string_enum("An error of the whole transaction.", TRANSACTION_ERRORS),
            object(
                "An error of one instruction.",
                [("InstructionError", tuple("The instruction and its error.", instruction))],
            ),
            object(
                "An instruction occurs twice that may occur only once.",
                [("DuplicateInstruction", uint(8, "The index of the second one, from 0."))],
            ),
            account_error(
                "InsufficientFundsForRent",
                "The balance of an account would be too low for rent.",
            ),
            account_error(
                "ProgramExecutionTemporarilyRestricted",
                "The execution of a program is restricted for now.",
            ),
        ],
    )
}

fn instruction_error() -> Value {
    any_of(
        "Why an instruction failed.",
        [
            string_enum("An error of the runtime.", INSTRUCTION_ERRORS),
            object(
                "An error of the program.",
                [("Custom", uint(32, "The program's own error code."))],
            ),
        ],
    )
}
