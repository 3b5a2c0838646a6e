// The console in a real browser: every view, with data that tries to be HTML.

import assert from 'node:assert/strict';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram } from '@solana/web3.js';
import { flow, until } from '../steps.js';
import { airdrop, assertNoProblems, closeBrowser, connection, memo, openPage, payer, provoke, screenshot, seesText, send, sendSigned, show, stat } from './world.js';
import { createAccount, createMint, mintTo, transferTokens } from './tokens.js';
import { recordTraffic } from './traffic.js';

const HOSTILE = '<img src=x onerror="hacked=1"><script>hacked=1</script><a href="javascript:hacked=1">x</a>';
const VIEWS = () => ['#/', `#/block/${slotOfTransfer}`, `#/transaction/${transferred}`, `#/account/${payer.publicKey}`, '#/node', '#/faucet'];

const { step, run } = flow('console_flow');
const receiver = Keypair.generate().publicKey;
const mint = Keypair.generate();
let page;
let transferred;
let slotOfTransfer;
let hostile;

const transfer = (lamports, to = receiver) => SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports });
const isHacked = () => page.evaluate(() => 'hacked' in window);

step('without scripts the page says how the node is', async () => {
  page = await openPage('/', { javaScriptEnabled: false });
  const text = await page.locator('#view').textContent();
  assert.match(text, /Healthok/);
  assert.match(text, /Processed slot\d+\s+Confirmed slot\d+\s+Finalized slot\d+/);
  assert.match(text, /Load the page again/);
});

step('the tip moves, over the WebSocket of the same port', async () => {
  page = await openPage();
  await page.locator('#link[data-state=on]').waitFor();
  const first = await until('a slot', () => stat(page, 'processed'));
  await until('two more slots', async () => (await stat(page, 'processed')) > first + 1);
  await until('a rate', async () => (await stat(page, 'transactions/s')) > 0);
  await page.locator('.plot .line[d*=L]').waitFor({ state: 'attached' });
  await page.locator('.state[data-state=confirmed]').first().waitFor();
  assert.match(await page.title(), /^[\d,]+ · Hydrant$/);
  await screenshot(page, 'idle');
});

step('the faucet pays, and waits until the payment is confirmed', async () => {
  await page.getByRole('link', { name: 'Faucet' }).click();
  await page.getByLabel('To the address').fill('no address');
  await page.getByRole('button', { name: 'Send' }).click();
  await seesText(page, 'not 32 bytes in base58');
  await page.getByLabel('To the address').fill(payer.publicKey.toBase58());
  await page.getByLabel('SOL', { exact: true }).fill('12.5');
  await page.getByRole('button', { name: 'Send' }).click();
  await seesText(page, 'in the confirmed block');
  assert.equal(await connection.getBalance(payer.publicKey), 12.5 * LAMPORTS_PER_SOL);
});

step('a new transaction is listed, and j and Enter open it', async () => {
  await page.keyboard.press('Escape');
  await show(page, '#/');
  await page.locator('.stats').waitFor();
  transferred = await send(transfer(LAMPORTS_PER_SOL), memo('hello'));
  const row = page.locator(`[data-row="${transferred}"]`);
  await row.waitFor();
  assert.match(await row.textContent(), /System: transfer 1 SOL, Memo: “hello”/);
  await row.locator('a').first().focus();
  const key = () => page.evaluate(() => document.activeElement.closest('[data-row]')?.dataset.row);
  await page.keyboard.press('k');
  assert.notEqual(await key(), transferred);
  await row.locator('a').first().focus();
  await page.keyboard.press('Enter');
  await page.locator('h1', { hasText: 'Transaction' }).waitFor();
});

step('a transaction shows instructions, balances, compute units and logs', async () => {
  const text = await page.locator('#view').textContent();
  for (const part of [transferred, payer.publicKey.toBase58(), receiver.toBase58(), '+1 SOL', 'Compute units']) {
    assert.ok(text.includes(part), part);
  }
  assert.match(text, /Program log: Memo \(len 5\): "hello"/);
  slotOfTransfer = (await connection.getTransaction(transferred, { maxSupportedTransactionVersion: 0 })).slot;
});

step('what is in the ledger is never HTML', async () => {
  await show(page, '#/');
  await page.locator('.stats').waitFor();
  hostile = await send(memo(HOSTILE));
  const row = page.locator(`[data-row="${hostile}"]`);
  await row.waitFor();
  assert.ok((await row.textContent()).includes(HOSTILE.slice(0, 60)));
  for (const view of [`#/transaction/${hostile}`, `#/account/${payer.publicKey}`]) {
    await show(page, view);
    await seesText(page, HOSTILE);
    assert.equal(await page.locator('#view img, #view script, #view a[href^="javascript"]').count(), 0);
    assert.equal(await isHacked(), false);
  }
  await show(page, `#/account/${encodeURIComponent(HOSTILE)}`);
  await page.locator('.notice.bad').waitFor();
  assert.equal(await isHacked(), false);
  // The browser itself refuses what a mistake in a script would do.
  const refused = await provoke(page, () => page.evaluate((text) => {
    try {
      document.createElement('div').innerHTML = text;
      return 'made';
    } catch (err) {
      return err.name;
    }
  }, HOSTILE));
  assert.equal(refused, 'TypeError');
});

step('calls of programs and changes of tokens are shown', async () => {
  const created = await sendSigned([mint], ...await createMint(mint.publicKey), createAccount(payer.publicKey, mint.publicKey), mintTo(mint.publicKey, payer.publicKey, 12_345));
  await show(page, `#/transaction/${created}`);
  const calls = page.locator('.instructions > li', { hasText: 'Associated Token' }).locator('.inner > li');
  await calls.filter({ hasText: 'initialize immutable owner' }).waitFor();
  await calls.filter({ hasText: 'create account' }).waitFor();
  await page.locator('.instructions > li', { hasText: 'mint to' }).getByText(/^[\d,]+ CU$/).waitFor();
  await page.locator('[aria-label="Balance changes"] tr', { hasText: '+123.45 tokens' }).waitFor();
});

step('a failed transaction shows where it failed', async () => {
  const failed = await send(createAccount(receiver, mint.publicKey), transferTokens(mint.publicKey, receiver, 1_000_000));
  await show(page, `#/transaction/${failed}`);
  await page.locator('.instructions > li.failed').getByText('failed here').waitFor();
  await seesText(page, 'instruction 2: custom error 1 (0x1)');
  await seesText(page, 'Program log: Error: insufficient funds');
  await page.locator('.logs .failed').first().waitFor();
  // With its logs to the end.
  await screenshot(page, 'transaction', { fullPage: true });
});

step('an account changes while it is shown', async () => {
  await show(page, `#/account/${receiver}`);
  await page.locator('[data-fact=balance]', { hasText: '1 SOL' }).waitFor();
  await send(transfer(LAMPORTS_PER_SOL / 4));
  await page.locator('[data-fact=balance]', { hasText: '1.25 SOL' }).waitFor();
  await page.locator('.changes', { hasText: '+0.25 SOL' }).waitFor();
  await page.locator('[aria-label="Transactions of the account"] tbody tr').nth(1).waitFor();
  await show(page, `#/account/${Keypair.generate().publicKey}`);
  await seesText(page, 'There is no account at this address yet');
  await show(page, '#/account/SysvarC1ock11111111111111111111111111111111');
  await seesText(page, 'unixTimestamp');
  await page.locator('.changes li li', { hasText: 'slot' }).first().waitFor();
});

step('a program shows its accounts in pages', async () => {
  const receivers = Array.from({ length: 30 }, () => Keypair.generate().publicKey);
  await send(...receivers.slice(0, 15).map((to) => transfer(2_000_000, to)));
  await send(...receivers.slice(15).map((to) => transfer(2_000_000, to)));
  await show(page, '#/account/11111111111111111111111111111111');
  const rows = page.locator('[aria-label="Accounts of the program"] tbody tr');
  await rows.nth(24).waitFor();
  const first = await rows.first().getAttribute('data-row');
  await page.getByRole('button', { name: 'Next page' }).click();
  await until('the next page', async () => (await rows.first().getAttribute('data-row')) !== first);
  await page.getByRole('button', { name: 'Previous page' }).click();
  await until('the first page', async () => (await rows.first().getAttribute('data-row')) === first);
});

step('a block shows its transactions, and one that is not there yet when it is', async () => {
  await show(page, `#/block/${slotOfTransfer}`);
  await page.locator(`[data-row="${transferred}"]`).waitFor();
  await page.getByLabel('Votes').check();
  await seesText(page, 'Vote: ');
  const ahead = (await connection.getSlot('processed')) + 10;
  await show(page, `#/block/${ahead}`);
  await seesText(page, 'not confirmed yet');
  await seesText(page, 'Blockhash');
});

step('the search finds slots, signatures and addresses, and nothing else', async () => {
  const search = page.locator('#search');
  const cases = [
    [String(slotOfTransfer), `#/block/${slotOfTransfer}`],
    [transferred, `#/transaction/${transferred}`],
    [` ${receiver} `, `#/account/${receiver}`],
  ];
  for (const [text, view] of cases) {
    await page.locator('#view').focus();
    await page.keyboard.press('/');
    await search.fill(text);
    await page.keyboard.press('Enter');
    await until(view, () => page.evaluate((it) => location.hash === it, view));
  }
  const before = await page.evaluate(() => location.hash);
  await search.fill('0O0O');
  await search.press('Enter');
  assert.equal(await page.evaluate(() => location.hash), before);
  assert.equal(await search.evaluate((it) => it.validity.customError), true);
  await page.keyboard.press('Escape');
  assert.equal(await search.inputValue(), '');
});

step('the node shows its memory, its requests and what is verified', async () => {
  await show(page, '#/node');
  await page.locator('[aria-label="Memory by part"] tr', { hasText: 'history' }).waitFor();
  await page.locator('[aria-label="Requests by method"] tr', { hasText: 'getTransaction' }).waitFor();
  await seesText(page, 'Verified (computed) up to');
  await seesText(page, 'Genesis');
  await screenshot(page, 'node');
});

step('views send the requests that are listed for the benchmark', async () => {
  for (const name of ['ledger', 'node']) {
    const traffic = recordTraffic(name);
    page = await openPage(`/${traffic.hash}`, {}, traffic.record);
    // Blocks with a vote and a few transactions are small.
    await traffic.assertListed({ hasSmallBlocks: true });
  }
});

step('the overview in light and dark', async () => {
  // Some transactions to look at.
  await Promise.all([1, 2, 3, 4, 5, 6].map((it) => send(transfer(1_000_000 * it), memo(`payment ${it}`))));
  await airdrop(receiver, 2);
  const colours = [];
  for (const colorScheme of ['light', 'dark']) {
    page = await openPage('/', { colorScheme });
    await page.locator('[aria-label="Newest transactions"]').waitFor();
    await until('a rate', async () => (await stat(page, 'transactions/s')) > 0);
    colours.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
    await screenshot(page, `overview-${colorScheme}`);
  }
  assert.notEqual(colours[0], colours[1]);
});

step('every view fits a phone', async () => {
  page = await openPage('/', { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true });
  for (const view of VIEWS()) {
    await show(page, view);
    await page.locator('#view .card').first().waitFor();
    const [wide, window] = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
    assert.ok(wide <= window, `${view} is ${wide} wide`);
  }
  await show(page, '#/');
  await page.locator('.plot .line[d*=L]').waitFor({ state: 'attached' });
  await screenshot(page, 'phone');
});

step('the policy was never violated, and nothing was loaded from elsewhere', async () => {
  assertNoProblems();
});

run(closeBrowser);
