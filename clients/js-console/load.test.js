// The console while thousands of transactions a second are executed, which clients.rs sends.

import { flow, until } from '../steps.js';
import { assertNoProblems, closeBrowser, openPage, screenshot, seesText, stat } from './world.js';
import { recordTraffic } from './traffic.js';

// What a machine under test manages, whatever it builds and runs besides. The load itself is 5,000.
const RATE_MIN = 300;

const { step, run } = flow('console_under_load_flow');
const traffic = recordTraffic('ledger');
let page;

step('the rate is shown, and blocks stand for their transactions', async () => {
  page = await openPage(`/${traffic.hash}`, {}, traffic.record);
  await until(`${RATE_MIN} transactions a second`, async () => (await stat(page, 'transactions/s')) >= RATE_MIN);
  await seesText(page, 'one of many in its block');
});

step('of large blocks only some are read', async () => {
  await traffic.assertListed({ hasSmallBlocks: false });
  await page.locator('.plot .line[d*=L]').waitFor({ state: 'attached' });
  await screenshot(page, 'load');
});

step('nothing was wrong', async () => {
  assertNoProblems();
});

run(closeBrowser);
