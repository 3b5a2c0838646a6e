// The console of a node that follows another one.

import assert from 'node:assert/strict';
import { flow, until } from '../steps.js';
import { assertNoProblems, closeBrowser, openPage, screenshot, seesText, show, stat } from './world.js';

const { step, run } = flow('console_followed_flow');
let page;

step('without scripts the page says what is verified', async () => {
  page = await openPage('/', { javaScriptEnabled: false });
  const text = await page.locator('#view').textContent();
  assert.match(text, /Ledgerfollowed chain/);
  assert.match(text, /Newest consistent slot\d+\s*Verification levelconsistent/);
});

step('the tip and the consistent slot move', async () => {
  page = await openPage();
  await page.locator('#link[data-state=on]').waitFor();
  const first = await until('a consistent slot', () => stat(page, 'verified'));
  await until('a newer one', async () => (await stat(page, 'verified')) > first);
  assert.ok((await stat(page, 'processed')) >= first);
  await seesText(page, 'Consistent');
  await page.locator('.state[data-state=confirmed]').first().waitFor();
  await screenshot(page, 'followed');
});

step('it has no faucet', async () => {
  assert.equal(await page.getByRole('link', { name: 'Faucet' }).count(), 0);
});

step('a block, an account and the node are shown', async () => {
  await page.locator('[aria-label="Newest blocks"] tbody tr', { hasText: 'confirmed' }).locator('a').first().click();
  await seesText(page, 'Blockhash');
  await show(page, '#/account/SysvarC1ock11111111111111111111111111111111');
  await seesText(page, 'unixTimestamp');
  await show(page, '#/node');
  await seesText(page, 'computed by this node, and listed by the next block');
  await page.locator('[aria-label="Memory by part"] tr', { hasText: 'history' }).waitFor();
});

step('nothing was wrong', async () => {
  assertNoProblems();
});

run(closeBrowser);
