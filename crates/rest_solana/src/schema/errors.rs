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
    let account_error = |name: &str, description: &str| {
        let account = reference("AccountOfError", "The account.");
        object(description, [(name, account)])
    };
    let account_index = uint(8, "The account's index among the keys.");
    vec![
        ("TransactionError", transaction_error()),
        ("TransactionErrorObject", transaction_error_object()),
        ("ErrorOfInstruction", failed_instruction()),
        (
            "DuplicateInstructionError",
            object(
                "An instruction occurs twice that may occur only once.",
                [("DuplicateInstruction", uint(8, "The index of the second one, from 0."))],
            ),
        ),
        (
            "InsufficientFundsForRentError",
            account_error(
                "InsufficientFundsForRent",
                "The balance of an account would be too low for rent.",
            ),
        ),
        (
            "ProgramRestrictedError",
            account_error(
                "ProgramExecutionTemporarilyRestricted",
                "The execution of a program is restricted for now.",
            ),
        ),
        (
            "AccountOfError",
            object("An account of the transaction.", [("account_index", account_index)]),
        ),
        ("InstructionError", instruction_error()),
        (
            "CustomError",
            object(
                "An error of the program.",
                [("Custom", uint(32, "The program's own error code."))],
            ),
        ),
    ]
}

fn transaction_error() -> Value {
    one_of(
        "Why a transaction failed.",
        [
            string_enum("An error of the whole transaction.", TRANSACTION_ERRORS),
            reference("TransactionErrorObject", "An error with further members."),
        ],
    )
}

fn transaction_error_object() -> Value {
    one_of(
        "An error of a transaction that has further members.",
        [
            reference("ErrorOfInstruction", "An error of one instruction."),
            reference("DuplicateInstructionError", "An instruction occurs twice."),
            reference("InsufficientFundsForRentError", "A balance is too low."),
            reference("ProgramRestrictedError", "A program is restricted."),
        ],
    )
}

fn failed_instruction() -> Value {
    let instruction = [
        uint(8, "The index of the instruction, from 0."),
        reference("InstructionError", "Why the instruction failed."),
    ];
    object(
        "An error of one instruction.",
        [("InstructionError", tuple("The instruction and its error.", instruction))],
    )
}

fn instruction_error() -> Value {
    one_of(
        "Why an instruction failed.",
        [
            string_enum("An error of the runtime.", INSTRUCTION_ERRORS),
            reference("CustomError", "An error of the program."),
        ],
    )
}
