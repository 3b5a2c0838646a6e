// What every step shares: the browser with its page, the keys, and how a transaction gets into a block.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Connection, Keypair, LAMPORTS_PER_SOL, PublicKey, Transaction, TransactionInstruction } from '@solana/web3.js';
import { chromium } from 'playwright-core';
import { env, until } from '../steps.js';

export const url = env('HYDRANT_RPC_URL');
export const connection = new Connection(url, 'confirmed');
// As in js-web3/world.js: short slots.
connection._disableBlockhashCaching = true;
export const payer = Keypair.generate();

const MEMO = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');
const DESKTOP = { width: 1280, height: 860 };
const screenshots = env('HYDRANT_SCREENSHOTS');
const problems = [];
const elsewhere = [];
let browser;
let context;

// A page of a new browser session. What it logs as an error, and requests for other servers, are remembered.
// `prepare` gets it before it loads anything.
export async function openPage(path = '/', options = {}, prepare = () => {}) {
  browser ??= await chromium.launch({ executablePath: env('HYDRANT_CHROMIUM'), args: ['--disable-gpu'] });
  await context?.close();
  context = await browser.newContext({ viewport: DESKTOP, baseURL: url, colorScheme: 'light', ...options });
  const page = await context.newPage();
  page.on('pageerror', (err) => problems.push(err.message));
  page.on('dialog', (dialog) => problems.push(`dialog: ${dialog.message()}`));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  page.on('request', (request) => request.url().startsWith(`${url}/`) || elsewhere.push(request.url()));
  page.on('websocket', (socket) => socket.url() === `${url.replace('http', 'ws')}/` || elsewhere.push(socket.url()));
  prepare(page);
  await page.goto(path);
  return page;
}

export async function closeBrowser() {
  await browser?.close();
}

export function assertNoProblems() {
  // What is missing or invalid is 404 or 400, which a browser logs.
  assert.deepEqual(problems.filter((it) => !/status of 40[04]/.test(it)), []);
  assert.deepEqual(elsewhere, []);
}

// Does what the browser must refuse and log, and forgets that it did.
export async function provoke(page, action) {
  const before = problems.length;
  const [, result] = await Promise.all([page.waitForEvent('console'), action()]);
  problems.length = before;
  return result;
}

// Opens a view by the address after `#`.
export async function show(page, view) {
  await page.evaluate((hash) => { location.hash = hash; }, view);
}

export async function screenshot(page, name, options = {}) {
  mkdirSync(screenshots, { recursive: true });
  await page.screenshot({ path: join(screenshots, `${name}.png`), ...options });
}

// The number that a statistic of the overview shows; null as long as it shows none.
export async function stat(page, name) {
  const text = await page.locator(`[data-stat="${name}"]`).textContent();
  const value = Number(text.replace(/,/g, ''));
  return Number.isNaN(value) ? null : value;
}

// Resolves when `text` is somewhere in the view.
export const seesText = (page, text) => page.locator('#view').getByText(text).first().waitFor();

export async function airdrop(to, sol) {
  const signature = await connection.requestAirdrop(to, sol * LAMPORTS_PER_SOL);
  await confirmed(signature);
}

// Sends instructions, also if they will fail, and waits until their block is confirmed.
export const send = (...instructions) => sendSigned([], ...instructions);

// The same with more signers than the fee payer.
export async function sendSigned(signers, ...instructions) {
  const { blockhash } = await connection.getLatestBlockhash();
  const transaction = new Transaction({ recentBlockhash: blockhash, feePayer: payer.publicKey }).add(...instructions);
  transaction.sign(payer, ...signers);
  const signature = await connection.sendRawTransaction(transaction.serialize(), { skipPreflight: true });
  await confirmed(signature);
  return signature;
}

function confirmed(signature) {
  return until(`transaction ${signature}`, async () => {
    const { value } = await connection.getSignatureStatus(signature);
    return ['confirmed', 'finalized'].includes(value?.confirmationStatus);
  });
}

export const memo = (text) => new TransactionInstruction({ keys: [], programId: MEMO, data: Buffer.from(text) });
