// Load for a validator that is followed (`cargo xtask rig`): every kind of write that a bank hash covers, again and again.
//
// Shape: loops side by side, each with its own pause; a loop that fails says so and goes on. The addresses that it made
// are written to RIG_ADDRESSES, for the comparison of answers. It runs until it is killed.
// A node without a faucet needs RIG_FAUCET, the key file of an account with lamports.

import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import {
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
  approve,
  burn,
  closeAccount,
  createAccount,
  createMint,
  mintTo,
  transfer,
} from '@solana/spl-token';
import {
  AddressLookupTableProgram,
  Authorized,
  Keypair,
  LAMPORTS_PER_SOL,
  NONCE_ACCOUNT_LENGTH,
  PublicKey,
  StakeProgram,
  SystemProgram,
  Transaction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { env } from '../steps.js';
import {
  BUFFER_HEADER,
  LOADER,
  PROGRAM_SIZE,
  close,
  createLoaderAccount,
  deploy,
  filledBuffer,
  initializeBuffer,
  upgrade,
  write,
} from './programs.js';
import { CONFIRMED, airdrop, connection, payer, programElf, send, slotAfter, upgradeElf } from './world.js';

const INCINERATOR = new PublicKey('1nc1nerator11111111111111111111111111111111');
const BIG = 10 * 1024 * 1024;
const TPS = Number(process.env.RIG_TPS ?? 40);
const KEPT = 64;

const counts = {};
const addresses = {
  accounts: [], tokens: [], mints: [], owners: [], delegates: [], programs: [], tables: [], stakes: [], nonces: [],
  messages: [],
};
const count = (name, by = 1) => { counts[name] = (counts[name] ?? 0) + by; };
const keep = (kind, address) => {
  addresses[kind].push(address.toBase58());
  if (addresses[kind].length > KEPT) addresses[kind].shift();
};

// A loop that goes on after a failure: a blockhash expires, a block is full.
async function again(name, pauseMs, body) {
  for (;;) {
    try {
      await body();
      count(name);
    } catch (err) {
      count(`${name} failed`);
      console.error(`${name}: ${String(err.message ?? err).slice(0, 300)}`);
    }
    await pause(pauseMs);
  }
}

const faucet = process.env.RIG_FAUCET
  ? Keypair.fromSecretKey(Uint8Array.from(JSON.parse(readFileSync(process.env.RIG_FAUCET, 'utf8'))))
  : undefined;
const fund = async (to, sol) => {
  if (faucet) await send([move(faucet, to, sol * LAMPORTS_PER_SOL)], [faucet]);
  else await airdrop(to, sol);
};

let latest;
const sign = (transaction, ...signers) => {
  transaction.feePayer = signers[0].publicKey;
  transaction.recentBlockhash = latest.blockhash;
  transaction.sign(...signers);
  return transaction.serialize();
};
const fire = async (bytes) => connection.sendRawTransaction(bytes, { skipPreflight: true, maxRetries: 2 });
const pick = (list) => list[Math.floor(Math.random() * list.length)];
const move = (from, to, lamports) =>
  SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to, lamports });

async function transfers(payers) {
  const from = pick(payers);
  const amount = 1 + Math.floor(Math.random() * 1_000_000);
  const kind = Math.random();
  const transaction = new Transaction();
  if (kind < 0.7) transaction.add(move(from, pick(payers).publicKey, amount));
  else if (kind < 0.8) {
    // An account that is made, and one that is emptied in the transaction that made it.
    const made = Keypair.generate();
    transaction.add(move(from, made.publicKey, LAMPORTS_PER_SOL / 100));
    if (Math.random() < 0.5) {
      transaction.add(move(made, from.publicKey, LAMPORTS_PER_SOL / 100));
      await fire(sign(transaction, from, made));
      return;
    }
    keep('accounts', made.publicKey);
  } else if (kind < 0.9) {
    // Fails, and pays its fee.
    transaction.add(move(from, pick(payers).publicKey, 1_000_000 * LAMPORTS_PER_SOL));
  } else if (kind < 0.95) transaction.add(move(from, INCINERATOR, amount));
  else for (let at = 0; at < 10; at += 1) transaction.add(move(from, pick(payers).publicKey, amount + at));
  await fire(sign(transaction, from));
}

async function tokens(programId) {
  const last = [undefined, CONFIRMED, programId];
  const mint = await createMint(connection, payer, payer.publicKey, null, 6, ...last);
  keep('mints', mint);
  const [one, two] = await Promise.all([Keypair.generate(), Keypair.generate()].map((owner) =>
    createAccount(connection, payer, mint, owner.publicKey, Keypair.generate(), CONFIRMED, programId)
      .then((account) => ({ owner, account }))));
  await mintTo(connection, payer, mint, one.account, payer, 1_000_000n, [], CONFIRMED, programId);
  await transfer(connection, payer, one.account, two.account, one.owner, 400_000n, [], CONFIRMED, programId);
  await burn(connection, payer, two.account, mint, two.owner, 400_000n, [], CONFIRMED, programId);
  await closeAccount(connection, payer, two.account, payer.publicKey, two.owner, [], CONFIRMED, programId);
  const delegate = Keypair.generate().publicKey;
  await approve(connection, payer, one.account, delegate, one.owner, 5n, [], CONFIRMED, programId);
  keep('tokens', one.account);
  keep('owners', one.owner.publicKey);
  if (programId === TOKEN_PROGRAM_ID) keep('delegates', delegate);
}

async function programs() {
  const program = Keypair.generate();
  const [programData] = PublicKey.findProgramAddressSync([program.publicKey.toBuffer()], LOADER);
  const elf = programElf();
  const buffer = await filledBuffer(elf);
  const create = await createLoaderAccount(program.publicKey, PROGRAM_SIZE);
  await send([create, deploy(programData, program.publicKey, buffer, elf.length)], [payer, program]);
  keep('programs', program.publicKey);
  await slotAfter(await connection.getSlot('confirmed'));
  const next = await filledBuffer(upgradeElf());
  await send([upgrade(programData, program.publicKey, next)], [payer]);
  await slotAfter(await connection.getSlot('confirmed'));
  if (Math.random() < 0.7) await send([close(programData, program.publicKey)], [payer]);
}

// A buffer of 10 MiB, written at both ends, and closed.
async function bigAccounts() {
  const buffer = Keypair.generate();
  const create = await createLoaderAccount(buffer.publicKey, BIG);
  await send([create, initializeBuffer(buffer.publicKey)], [payer, buffer]);
  const bytes = Buffer.from(Array.from({ length: 900 }, () => Math.floor(Math.random() * 256)));
  await send([write(buffer.publicKey, 0, bytes)], [payer]);
  await send([write(buffer.publicKey, BIG - BUFFER_HEADER - bytes.length, bytes)], [payer]);
  await send([close(buffer.publicKey)], [payer]);
}

async function stakes() {
  const { current } = await connection.getVoteAccounts();
  const stake = Keypair.generate();
  const make = StakeProgram.createAccount({
    fromPubkey: payer.publicKey,
    stakePubkey: stake.publicKey,
    authorized: new Authorized(payer.publicKey, payer.publicKey),
    lamports: 20 * LAMPORTS_PER_SOL,
  });
  await send([make], [payer, stake]);
  const votePubkey = new PublicKey(current[0].votePubkey);
  await send([StakeProgram.delegate({ stakePubkey: stake.publicKey, authorizedPubkey: payer.publicKey, votePubkey })], [payer]);
  keep('stakes', stake.publicKey);
  if (addresses.stakes.length > 8) {
    const stakePubkey = new PublicKey(addresses.stakes.shift());
    await send([StakeProgram.deactivate({ stakePubkey, authorizedPubkey: payer.publicKey })], [payer]);
  }
}

async function tables() {
  const recentSlot = (await connection.getSlot('finalized'));
  const [create, table] = AddressLookupTableProgram.createLookupTable({
    authority: payer.publicKey, payer: payer.publicKey, recentSlot,
  });
  const receivers = Array.from({ length: 6 }, () => Keypair.generate().publicKey);
  const extend = AddressLookupTableProgram.extendLookupTable({
    payer: payer.publicKey, authority: payer.publicKey, lookupTable: table, addresses: receivers,
  });
  await send([create, extend], [payer]);
  keep('tables', table);
  await slotAfter(await connection.getSlot('confirmed'));
  const { value } = await connection.getAddressLookupTable(table, { commitment: 'confirmed' });
  const { blockhash } = await connection.getLatestBlockhash();
  const instructions = receivers.map((to) => move(payer, to, LAMPORTS_PER_SOL / 500));
  const message = new TransactionMessage({ payerKey: payer.publicKey, recentBlockhash: blockhash, instructions });
  const transaction = new VersionedTransaction(message.compileToV0Message([value]));
  transaction.sign([payer]);
  await fire(transaction.serialize());
}

// A nonce that a transaction advances although its transfer fails.
async function nonces() {
  const nonce = Keypair.generate();
  const make = SystemProgram.createNonceAccount({
    fromPubkey: payer.publicKey,
    noncePubkey: nonce.publicKey,
    authorizedPubkey: payer.publicKey,
    lamports: await connection.getMinimumBalanceForRentExemption(NONCE_ACCOUNT_LENGTH),
  });
  await send([make], [payer, nonce]);
  keep('nonces', nonce.publicKey);
  const { nonce: value } = await connection.getNonce(nonce.publicKey, 'confirmed');
  const advance = SystemProgram.nonceAdvance({ noncePubkey: nonce.publicKey, authorizedPubkey: payer.publicKey });
  const transaction = new Transaction().add(advance, move(payer, nonce.publicKey, 5_000_000 * LAMPORTS_PER_SOL));
  transaction.feePayer = payer.publicKey;
  transaction.recentBlockhash = value;
  transaction.sign(payer);
  await fire(transaction.serialize());
}

function report() {
  const file = process.env.RIG_ADDRESSES;
  if (file) {
    const transaction = new Transaction().add(move(payer, INCINERATOR, 1));
    transaction.feePayer = payer.publicKey;
    transaction.recentBlockhash = latest.blockhash;
    addresses.messages = [transaction.compileMessage().serialize().toString('base64')];
    writeFileSync(`${file}.new`, JSON.stringify(addresses));
    renameSync(`${file}.new`, file);
  }
  console.log(JSON.stringify(counts));
}

env('HYDRANT_RPC_URL');
const payers = Array.from({ length: 16 }, () => Keypair.generate());
await fund(payer.publicKey, 20_000);
for (const { publicKey } of payers) {
  await fund(publicKey, 500);
  keep('accounts', publicKey);
}
latest = await connection.getLatestBlockhash();
setInterval(report, 3_000);
await Promise.all([
  again('blockhash', 1_000, async () => { latest = await connection.getLatestBlockhash(); }),
  ...Array.from({ length: 4 }, () => again('transfer', 4_000 / TPS, () => transfers(payers))),
  again('token', 200, () => tokens(TOKEN_PROGRAM_ID)),
  again('token-2022', 200, () => tokens(TOKEN_2022_PROGRAM_ID)),
  again('program', 3_000, programs),
  again('big account', 10_000, bigAccounts),
  again('stake', 5_000, stakes),
  again('table', 2_000, tables),
  again('nonce', 1_000, nonces),
  again('airdrop', 2_000, () => {
    const { publicKey } = pick(payers);
    if (faucet) return fire(sign(new Transaction().add(move(faucet, publicKey, 1_000_000)), faucet));
    return connection.requestAirdrop(publicKey, 1_000_000);
  }),
]);
