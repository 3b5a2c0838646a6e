// The transactions that name an address, in pages, the newest first.

import { get, path } from './api.js';
import { h, show } from './dom.js';
import { time } from './format.js';
import { errorText } from './names.js';
import { card, errorNotice, notice, row, slotLink, statusBadge, table, transactionLink } from './parts.js';

const PAGE = 20;
const CHECK_MS = 1_000;
const COLUMNS = [
  { title: '', class: 'mark' }, { title: 'Transaction' }, { title: 'Note', class: 'grow' },
  { title: 'Time', class: 'wide' }, { title: 'Slot', class: 'num' },
];

export function accountHistory({ address, signal, tip, onClose }) {
  const list = table(COLUMNS, [], 'Transactions of the account');
  const message = h('div');
  const more = h('button', { type: 'button', hidden: true, onclick: () => load(cursor) }, `Show ${PAGE} more`);
  let cursor;
  let newest = null;

  const page = (params) => get(path(['accounts', address, 'transactions'], { commitment: 'confirmed', limit: PAGE, ...params }), { signal });

  async function load(from) {
    try {
      const { value } = await page({ cursor: from });
      list.body.append(...value.transactions.map(historyRow));
      newest ??= value.transactions[0]?.signature ?? null;
      cursor = value.paginationKey;
      more.hidden = cursor === null;
      show(message, list.body.children.length === 0 ? notice('None in the history of this node.') : []);
    } catch (err) {
      if (!signal.aborted) show(message, errorNotice(err));
    }
  }

  // What came since the newest that is shown. If that is more than a page, the list starts anew: it has no gaps.
  let isLoading = true;
  let checkedAt = 0;
  let checked = null;
  async function loadNewer() {
    isLoading = true;
    const { value } = await page({ until: newest ?? undefined }).catch(() => ({ value: { transactions: [] } }));
    const [first] = value.transactions;
    if (first) {
      newest = first.signature;
      const rows = value.transactions.map(historyRow);
      if (value.paginationKey === null) {
        list.body.prepend(...rows);
      } else {
        list.body.replaceChildren(...rows);
        cursor = value.paginationKey;
        more.hidden = false;
      }
      show(message);
    }
    isLoading = false;
  }
  load().then(() => { isLoading = false; });
  onClose(tip.onChange(() => {
    const now = performance.now();
    if (isLoading || document.hidden || tip.slots.confirmed === checked || now - checkedAt < CHECK_MS) return;
    [checked, checkedAt] = [tip.slots.confirmed, now];
    loadNewer();
  }));
  return card('Transactions', message, list.node, more);
}

function historyRow({ signature, slot, err, memo, blockTime }) {
  const text = err ? h('span', { class: 'bad cut' }, errorText(err)) : h('span', { class: 'cut' }, memo ?? '');
  return row(COLUMNS, [statusBadge(err), transactionLink(signature), text, time(blockTime), slotLink(slot)], { key: signature });
}
