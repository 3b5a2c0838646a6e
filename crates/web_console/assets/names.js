// Names of well-known programs and sysvars, and errors of transactions as text.

const PROGRAMS = new Map([
  ['11111111111111111111111111111111', 'System'],
  ['TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA', 'Token'],
  ['TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb', 'Token-2022'],
  ['ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL', 'Associated Token'],
  ['MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr', 'Memo'],
  ['Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo', 'Memo v1'],
  ['ComputeBudget111111111111111111111111111111', 'Compute Budget'],
  ['Vote111111111111111111111111111111111111111', 'Vote'],
  ['Stake11111111111111111111111111111111111111', 'Stake'],
  ['Config1111111111111111111111111111111111111', 'Config'],
  ['AddressLookupTab1e1111111111111111111111111', 'Address Lookup Table'],
  ['BPFLoader1111111111111111111111111111111111', 'BPF Loader 1'],
  ['BPFLoader2111111111111111111111111111111111', 'BPF Loader 2'],
  ['BPFLoaderUpgradeab1e11111111111111111111111', 'Upgradeable Loader'],
  ['LoaderV411111111111111111111111111111111111', 'Loader v4'],
  ['NativeLoader1111111111111111111111111111111', 'Native Loader'],
  ['Ed25519SigVerify111111111111111111111111111', 'Ed25519'],
  ['KeccakSecp256k11111111111111111111111111111', 'Secp256k1'],
  ['Secp256r1SigVerify1111111111111111111111111', 'Secp256r1'],
  ['Feature111111111111111111111111111111111111', 'Feature Gate'],
  ['Sysvar1111111111111111111111111111111111111', 'Sysvar'],
  ['SysvarC1ock11111111111111111111111111111111', 'Clock'],
  ['SysvarRent111111111111111111111111111111111', 'Rent'],
  ['SysvarEpochSchedu1e111111111111111111111111', 'Epoch Schedule'],
  ['SysvarS1otHashes111111111111111111111111111', 'Slot Hashes'],
  ['SysvarS1otHistory11111111111111111111111111', 'Slot History'],
  ['SysvarStakeHistory1111111111111111111111111', 'Stake History'],
  ['SysvarRecentB1ockHashes11111111111111111111', 'Recent Blockhashes'],
  ['Sysvar1nstructions1111111111111111111111111', 'Instructions'],
  ['SysvarEpochRewards1111111111111111111111111', 'Epoch Rewards'],
  ['SysvarLastRestartS1ot1111111111111111111111', 'Last Restart Slot'],
]);

export const VOTE_PROGRAM = 'Vote111111111111111111111111111111111111111';
export const COMPUTE_BUDGET = 'ComputeBudget111111111111111111111111111111';
// Programs that most transactions name.
export const COMMON_PROGRAMS = [
  '11111111111111111111111111111111',
  'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
  COMPUTE_BUDGET,
];
// Programs whose instructions run outside of the VM, and so log nothing.
export const PRECOMPILES = [
  'Ed25519SigVerify111111111111111111111111111',
  'KeccakSecp256k11111111111111111111111111111',
  'Secp256r1SigVerify1111111111111111111111111',
];

export const nameOf = (address) => PROGRAMS.get(address);

// "splToken" style words as a title: "transferChecked" is "transfer checked".
export const words = (name) => String(name).replace(/([a-z0-9])([A-Z])/g, '$1 $2').replace(/[-_]/g, ' ').toLowerCase();

// The error of a transaction: {"InstructionError":[0,{"Custom":1}]} is "instruction 1: custom error 1 (0x1)".
export function errorText(err) {
  if (err === null || err === undefined) return null;
  if (typeof err === 'string') return words(err);
  const [[kind, detail]] = Object.entries(err);
  if (kind === 'InstructionError') return `instruction ${detail[0] + 1}: ${errorText(detail[1])}`;
  if (kind === 'Custom') return `custom error ${detail} (0x${Number(detail).toString(16)})`;
  const text = typeof detail === 'object' ? JSON.stringify(detail) : String(detail);
  return `${words(kind)}: ${text}`;
}

// The index of the instruction that failed, if one did.
export const failedInstruction = (err) => err?.InstructionError?.[0] ?? null;
