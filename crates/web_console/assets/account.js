// The view of an account: what it is, its decoded data, its changes while they happen, its history, and the accounts of
// a program.

import { accountHistory } from './account_history.js';
import { h, show } from './dom.js';
import { base64Bytes, bytes, grouped, hexLines, short, signed } from './format.js';
import { differences, watchAccount } from './live_account.js';
import { nameOf, words } from './names.js';
import { accountLink, badge, card, facts, notice, slotLink, solAmount, source, tree, wholeKey } from './parts.js';
import { programAccounts } from './program_accounts.js';

const SHOWN_BYTES_MAX = 1_024;
const CHANGES_MAX = 50;
const DIFFERENCES_MAX = 8;
const SOL_DECIMALS = 9;
// The rent epoch of an account that pays no rent.
const RENT_EXEMPT = (1n << 64n) - 1n;

export async function account(container, context) {
  const { params: [address] } = context;
  const [head, data, changes] = [h('div'), h('div'), h('ol', { class: 'changes', 'aria-live': 'polite' })];
  const none = notice('None since this page was opened.');
  const program = h('div');
  let before;
  let isFirst = true;
  const at = await watchAccount(address, context, (now, slot) => {
    show(head, accountFacts(address, now));
    show(data, dataCard(now));
    if (isFirst && now?.executable) programAccounts(program, { ...context, address });
    if (!isFirst) addChange(changes, none, { before, now, slot });
    if (!isFirst) flash(head.firstElementChild);
    before = now;
    isFirst = false;
  });
  const name = nameOf(address);
  container.replaceChildren(
    h('h1', {}, name ?? 'Account', ' ', badge('live', 'live')),
    head, data, program,
    card('Changes', none, changes),
    accountHistory({ ...context, address }),
    source(at),
  );
}

function flash(element) {
  element.classList.remove('flash');
  // Reading the layout lets the animation start again.
  element.getBoundingClientRect();
  element.classList.add('flash');
}

function accountFacts(address, now) {
  if (!now) {
    return card(null, facts([['Address', wholeKey(address)], ['Balance', solAmount(0)]]), notice('There is no account at this address yet. It is shown as soon as there is.'));
  }
  const rentEpoch = BigInt(now.rentEpoch ?? 0);
  return card(null, facts([
    ['Address', wholeKey(address)],
    ['Balance', h('span', { 'data-fact': 'balance' }, solAmount(now.lamports))],
    ['Owner', h('span', {}, accountLink(now.owner, { isWhole: true }), nameOf(now.owner) && h('span', { class: 'note' }, nameOf(now.owner)))],
    ['Data', bytes(now.space)],
    ['Executable', now.executable ? 'yes' : null],
    ['Rent epoch', rentEpoch === 0n || rentEpoch >= RENT_EXEMPT ? null : grouped(rentEpoch)],
  ]));
}

function dataCard(now) {
  if (!now || now.space === 0) return null;
  if (!Array.isArray(now.data)) {
    const { program, parsed } = now.data;
    const title = typeof parsed === 'string' ? program : `${words(program)}: ${words(parsed.type ?? '')}`;
    return card(`Data, ${title}`, tree(parsed.info ?? parsed));
  }
  const all = base64Bytes(now.data[0]);
  const shown = all.slice(0, SHOWN_BYTES_MAX);
  const left = Number(now.space) - shown.length;
  return card('Data', h('pre', { class: 'hex' }, hexLines(shown)), left > 0 && h('p', { class: 'faint' }, `${bytes(left)} more`));
}

function addChange(list, none, { before, now, slot }) {
  const found = differences(before, now);
  const lamports = BigInt(now?.lamports ?? 0) - BigInt(before?.lamports ?? 0);
  const others = found.filter(({ name }) => name !== 'lamports');
  const item = h('li', {},
    slotLink(slot),
    lamports !== 0n && h('span', { class: lamports > 0n ? 'num good' : 'num bad' }, signed(lamports, SOL_DECIMALS), h('small', {}, ' SOL')),
    !now && badge('closed', 'bad'),
    !before && now && badge('created', 'good'),
    before && now && h('ul', {}, others.slice(0, DIFFERENCES_MAX).map(({ name, before: old, after }) =>
      h('li', {}, h('b', {}, name), ' ', name === 'data' ? 'changed' : [h('s', {}, short(old ?? 'none', 20)), ' ', short(after ?? 'none', 20)])),
    others.length > DIFFERENCES_MAX && h('li', { class: 'faint' }, `${others.length - DIFFERENCES_MAX} more`)),
    found.length === 0 && h('span', { class: 'faint' }, 'written without a change'));
  none.hidden = true;
  list.prepend(item);
  while (list.children.length > CHANGES_MAX) list.lastElementChild.remove();
}
