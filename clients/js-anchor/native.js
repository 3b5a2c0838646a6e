// Programs that are not Anchor's through Anchor: System and Token, versioned transactions, several at once.

import assert from 'node:assert/strict';
import { Keypair, SystemProgram, Transaction, TransactionMessage, VersionedTransaction } from '@solana/web3.js';
import { tokenIdl } from './token_idl.js';
import { alice, connection, payer, slotAfter, transactionOf } from './world.js';

const NONCE_SIZE = 80;
const DECIMALS = 2;
const MINT_SIZE = 82;
const ACCOUNT_SIZE = 165;

export function nativeSteps(step, { anchor, provider }) {
  const { BN, Native } = anchor.default;

  step('system: accounts are created and lamports moved by the IDL of the System program', async () => {
    const system = Native.system(provider);
    const account = Keypair.generate();
    const lamports = await connection.getMinimumBalanceForRentExemption(9);
    await system.methods.createAccount(new BN(lamports), new BN(9), payer.publicKey)
      .accounts({ from: payer.publicKey, to: account.publicKey }).signers([account]).rpc();
    const created = await connection.getAccountInfo(account.publicKey);
    assert.deepEqual([created.lamports, created.data.length, created.owner.toBase58()], [lamports, 9, payer.publicKey.toBase58()]);
    const to = Keypair.generate().publicKey;
    const signature = await system.methods.transfer(new BN(1_000_000)).accounts({ from: payer.publicKey, to }).rpc();
    assert.equal(await connection.getBalance(to), 1_000_000);
    assert.equal((await transactionOf(signature)).meta.err, null);
  });

  step('system: a nonce account is fetched by its layout', async () => {
    const system = Native.system(provider);
    const nonce = Keypair.generate();
    await provider.sendAndConfirm(new Transaction().add(SystemProgram.createNonceAccount({
      fromPubkey: payer.publicKey, noncePubkey: nonce.publicKey, authorizedPubkey: payer.publicKey,
      lamports: await connection.getMinimumBalanceForRentExemption(NONCE_SIZE),
    })), [nonce]);
    const { authorizedPubkey } = await system.account.nonce.fetch(nonce.publicKey);
    assert.equal(authorizedPubkey.toBase58(), payer.publicKey.toBase58());
  });

  step('provider: a version 0 transaction is sent and confirmed', async () => {
    const before = await connection.getBalance(alice.publicKey);
    const { blockhash } = await connection.getLatestBlockhash();
    const message = new TransactionMessage({
      payerKey: payer.publicKey, recentBlockhash: blockhash,
      instructions: [SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: alice.publicKey, lamports: 5 })],
    }).compileToV0Message();
    const signature = await provider.sendAndConfirm(new VersionedTransaction(message));
    assert.equal((await transactionOf(signature)).version, 0);
    assert.equal(await connection.getBalance(alice.publicKey), before + 5);
  });

  step('provider: several transactions, one after the other', async () => {
    const targets = Array.from({ length: 3 }, () => Keypair.generate().publicKey);
    const signatures = await provider.sendAll(targets.map((toPubkey) => ({
      tx: new Transaction().add(
        SystemProgram.transfer({ fromPubkey: alice.publicKey, toPubkey, lamports: 1_000_000 }),
      ),
      signers: [alice],
    })));
    assert.equal(new Set(signatures).size, 3);
    assert.deepEqual(await Promise.all(targets.map((key) => connection.getBalance(key))), [1_000_000, 1_000_000, 1_000_000]);
  });

  step('provider: an account is returned as it would be', async () => {
    const lamports = 1_000_000;
    const to = Keypair.generate().publicKey;
    const tried = new Transaction().add(SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports }));
    const { accounts, logs } = await provider.simulate(tried, [], 'confirmed', [to]);
    assert.equal(accounts[0].lamports, lamports);
    assert.equal(logs.at(-1), `Program ${SystemProgram.programId} success`);
    assert.equal(await connection.getBalance(to), 0);
    await slotAfter(await connection.getSlot());
  });
}

export function tokenSteps(step, { anchor, provider }) {
  const { BN } = anchor.default;

  step('token: a mint and an account by an IDL of the Token program, and their errors', async () => {
    const token = new anchor.Program(tokenIdl, provider);
    const [mint, account] = [Keypair.generate(), Keypair.generate()];
    const create = async ({ publicKey }, space) => SystemProgram.createAccount({
      fromPubkey: payer.publicKey, newAccountPubkey: publicKey, space, programId: token.programId,
      lamports: await connection.getMinimumBalanceForRentExemption(space),
    });
    await token.methods.initializeMint2(DECIMALS, payer.publicKey, null).accounts({ mint: mint.publicKey })
      .preInstructions([await create(mint, MINT_SIZE)]).signers([mint]).rpc();
    await token.methods.initializeAccount3(payer.publicKey).accounts({ account: account.publicKey, mint: mint.publicKey })
      .preInstructions([await create(account, ACCOUNT_SIZE)]).signers([account]).rpc();
    const accounts = { mint: mint.publicKey, account: account.publicKey, owner: payer.publicKey };
    const signature = await token.methods.mintTo(new BN(1_000)).accounts(accounts).rpc();
    const { amount, delegate } = await token.account.holding.fetch(account.publicKey);
    assert.deepEqual([amount.toNumber(), delegate.some], [1_000, 0]);
    const { supply, decimals, mintAuthority } = await token.account.mint.fetch(mint.publicKey);
    assert.deepEqual([supply.toNumber(), decimals, mintAuthority.key.toBase58()], [1_000, DECIMALS, payer.publicKey.toBase58()]);
    // Anchor compares the discriminator, and there is none: Agave requires a whole mint at its position in a token account.
    await assert.rejects(token.account.holding.all(), /Incorrect byte length 0 for SPL token mint filter, expected 32/);
    assert.equal((await transactionOf(signature)).meta.err, null);
    await assert.rejects(token.methods.burn(new BN(1_001)).accounts(accounts).rpc(), (error) => {
      assert.match(error.transactionError.message, /custom program error: 0x1$/);
      assert.deepEqual(error.programErrorStack.map(String), [tokenIdl.address]);
      return true;
    });
  });
}
