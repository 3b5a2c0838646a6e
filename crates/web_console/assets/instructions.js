// The instructions of a transaction, each with those that it called, its compute units, and where it failed.

import { h } from './dom.js';
import { amount, grouped, sol } from './format.js';
import { nameOf, words } from './names.js';
import { accountLink, badge, tree } from './parts.js';

// The name of what an instruction does: "transfer checked", or null if it is not parsed.
export function actionOf({ parsed }) {
  if (typeof parsed === 'string') return null;
  return parsed?.type ? words(parsed.type) : null;
}

// The SOL or the tokens that an instruction is about, if it is parsed.
function amountOf({ parsed }) {
  const { lamports, tokenAmount } = parsed?.info ?? {};
  if (lamports !== undefined) return `${sol(lamports)} SOL`;
  return tokenAmount ? amount(tokenAmount.amount, tokenAmount.decimals) : null;
}

// What a transaction does, in one line.
export function summary(instructions) {
  const texts = instructions.map((it) => {
    const name = nameOf(it.programId) ?? `${it.programId.slice(0, 4)}…`;
    const action = typeof it.parsed === 'string' ? `“${it.parsed.slice(0, 60)}”` : actionOf(it);
    return [action ? `${name}: ${action}` : name, amountOf(it)].filter(Boolean).join(' ');
  });
  const counted = new Map();
  texts.forEach((text) => counted.set(text, (counted.get(text) ?? 0) + 1));
  return [...counted].map(([text, count]) => (count > 1 ? `${text} ×${count}` : text)).join(', ');
}

export function instructionList(instructions, { inner, units, failed }) {
  return h('ol', { class: 'instructions' }, instructions.map((it, index) => {
    const calls = inner.find((set) => set.index === index)?.instructions ?? [];
    const used = units.get(index);
    return h('li', { class: failed === index ? 'failed' : undefined },
      heading(it, [used && badge(`${grouped(used.units)} CU`, 'plain'), failed === index && badge('failed here', 'bad')]),
      details(it),
      calls.length > 0 && h('ol', { class: 'inner' }, calls.map(innerCall)));
  }));
}

function innerCall(it) {
  const node = h('li', {}, heading(it, []), details(it));
  node.style.setProperty('--depth', Math.max(0, (it.stackHeight ?? 2) - 2));
  return node;
}

function heading(it, badges) {
  const action = actionOf(it);
  return h('h3', {}, accountLink(it.programId), action && h('span', {}, action), badges);
}

function details({ parsed, accounts, data }) {
  if (typeof parsed === 'string') return h('pre', { class: 'text' }, parsed);
  if (parsed) return tree(parsed.info ?? parsed);
  return h('dl', { class: 'tree' },
    h('dt', {}, 'accounts'), h('dd', {}, h('ol', { class: 'tree' }, (accounts ?? []).map((it) => h('li', {}, accountLink(it, { isWhole: true }))))),
    h('dt', {}, 'data'), h('dd', { class: 'key' }, data || 'none'));
}
