// A program as Anchor's users write them, with its IDL: a counter that emits events and refuses some amounts.
//
// Its one account holds Anchor's discriminator and a total. Its instructions are `initialize`, `add(amount)` and
// `total()`, which only returns. It logs and fails as Anchor's macros do: `require!` with an error of the IDL logs
// an "AnchorError" line, an error code alone logs nothing.

import { createHash } from 'node:crypto';
import { program } from './elf.js';

export const MOST = 1_000;

const TOO_MUCH = { code: 6_000, name: 'TooMuch', msg: `No more than ${MOST} at once` };
const NOTHING = { code: 6_001, name: 'Nothing', msg: 'Nothing to add' };
const UNKNOWN_INSTRUCTION = 101;
const INVALID_ACCOUNT_DATA = 4n << 32n;
const ANCHOR_ERROR =
  `AnchorError thrown in programs/counter/src/lib.rs:12. Error Code: ${TOO_MUCH.name}. ` +
  `Error Number: ${TOO_MUCH.code}. Error Message: ${TOO_MUCH.msg}.`;

// The first 8 bytes of the hash of a name: how Anchor distinguishes instructions, accounts and events.
const discriminator = (space, name) => createHash('sha256').update(`${space}:${name}`).digest().subarray(0, 8);
const INITIALIZE = discriminator('global', 'initialize');
const ADD = discriminator('global', 'add');
const TOTAL = discriminator('global', 'total');
const COUNTER = discriminator('account', 'Counter');
const ADDED = discriminator('event', 'Added');

const ACCOUNT_SIZE = 16;
// Where the loader puts what a program is called with, if that is one account of ACCOUNT_SIZE bytes: the number of
// accounts, 88 bytes of this account, its data with room to grow, its rent epoch, then the instruction.
const DATA_LENGTH = 88;
const DATA = 96;
const INSTRUCTION = DATA + ACCOUNT_SIZE + 10_240 + 8 + 8;

export const counterIdl = (address) => ({
  address: address.toBase58(),
  metadata: { name: 'counter', version: '0.1.0', spec: '0.1.0' },
  instructions: [
    { name: 'initialize', discriminator: [...INITIALIZE], accounts: [{ name: 'counter', writable: true }], args: [] },
    {
      name: 'add', discriminator: [...ADD], accounts: [{ name: 'counter', writable: true }],
      args: [{ name: 'amount', type: 'u64' }],
    },
    { name: 'total', discriminator: [...TOTAL], accounts: [{ name: 'counter' }], args: [], returns: 'u64' },
    // In the IDL, but not in the program.
    { name: 'not_there', discriminator: [...discriminator('global', 'not_there')], accounts: [{ name: 'counter' }], args: [] },
  ],
  accounts: [{ name: 'Counter', discriminator: [...COUNTER] }],
  events: [{ name: 'Added', discriminator: [...ADDED] }],
  errors: [TOO_MUCH, NOTHING],
  types: [
    { name: 'Counter', type: { kind: 'struct', fields: [{ name: 'total', type: 'u64' }] } },
    {
      name: 'Added',
      type: { kind: 'struct', fields: [{ name: 'amount', type: 'u64' }, { name: 'total', type: 'u64' }] },
    },
  ],
});

// r6 is what the program is called with, r7 the instruction, r8 the amount, r9 the total, r10 the end of the stack.
export const counterElf = () =>
  program((a) => {
    a.move(6, 1);
    a.load(1, 6, DATA_LENGTH);
    a.ifNotEqualConstant(1, ACCOUNT_SIZE, 'invalid account');
    a.load(7, 6, INSTRUCTION);
    for (const [bytes, label] of [[INITIALIZE, 'initialize'], [ADD, 'add'], [TOTAL, 'total']]) {
      a.constant(1, bytes.readBigUInt64LE());
      a.ifEqual(7, 1, label);
    }
    a.leave(UNKNOWN_INSTRUCTION);

    a.label('initialize');
    a.constant(1, COUNTER.readBigUInt64LE());
    a.store(6, DATA, 1);
    a.leave(0);

    a.label('add');
    a.load(8, 6, INSTRUCTION + 8);
    a.ifEqualConstant(8, 0, 'nothing');
    a.ifAboveConstant(8, MOST, 'too much');
    a.load(9, 6, DATA + 8);
    a.add(9, 8);
    a.store(6, DATA + 8, 9);
    // The event, and above it the one slice that names it.
    a.constant(1, ADDED.readBigUInt64LE());
    a.store(10, -40, 1);
    a.store(10, -32, 8);
    a.store(10, -24, 9);
    a.move(1, 10);
    a.addConstant(1, -40);
    a.store(10, -16, 1);
    a.constant(1, 24);
    a.store(10, -8, 1);
    a.move(1, 10);
    a.addConstant(1, -16);
    a.constant(2, 1);
    a.call('sol_log_data');
    a.leave(0);

    a.label('total');
    a.move(1, 6);
    a.addConstant(1, DATA + 8);
    a.constant(2, 8);
    a.call('sol_set_return_data');
    a.leave(0);

    a.label('nothing');
    a.leave(NOTHING.code);

    a.label('too much');
    a.text(1, ANCHOR_ERROR);
    a.constant(2, ANCHOR_ERROR.length);
    a.call('sol_log_');
    a.leave(TOO_MUCH.code);

    a.label('invalid account');
    a.leave(INVALID_ACCOUNT_DATA);
  });
