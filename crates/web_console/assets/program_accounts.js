// The accounts of a program, in pages.

import { get, path } from './api.js';
import { h, show } from './dom.js';
import { bytes, sol } from './format.js';
import { accountLink, card, errorNotice, notice, row, source, table } from './parts.js';

const PAGE = 25;
const COLUMNS = [{ title: 'Account', class: 'grow' }, { title: 'Data', class: 'num' }, { title: 'Balance, SOL', class: 'num' }];

export function programAccounts(container, { address, signal }) {
  const list = table(COLUMNS, [], 'Accounts of the program');
  const [message, from] = [h('div'), h('div')];
  // The keys of the pages before this one.
  let keys = [undefined];
  let next = null;
  const back = h('button', { type: 'button', disabled: true, onclick: () => { keys.pop(); load(); } }, 'Previous page');
  const forward = h('button', { type: 'button', disabled: true, onclick: () => { keys.push(next); load(); } }, 'Next page');

  async function load() {
    // The data itself is not needed: its length is.
    const at = path(['programs', address, 'accounts'], { limit: PAGE, commitment: 'processed', dataOffset: 0, dataLength: 0, ...(keys.at(-1) && { cursor: keys.at(-1) }) });
    back.disabled = forward.disabled = true;
    try {
      const { value } = await get(at, { signal });
      next = value.paginationKey;
      list.body.replaceChildren(...value.accounts.map(({ pubkey, account }) =>
        row(COLUMNS, [accountLink(pubkey, { isWhole: true }), bytes(account.space), sol(account.lamports)], { key: pubkey })));
      show(message, value.accounts.length === 0 ? notice('None.') : []);
      show(from, source(at));
    } catch (err) {
      if (!signal.aborted) show(message, errorNotice(err));
    }
    back.disabled = keys.length === 1;
    forward.disabled = next === null;
  }

  container.replaceChildren(card('Accounts of the program', message, list.node, h('p', { class: 'pages' }, back, forward, h('span', { class: 'faint' }, 'in the node’s own order')), from));
  load();
}
