// Parts that several views share: cards, tables, facts, links to slots, transactions and accounts.

import { h } from './dom.js';
import { short, sol } from './format.js';
import { show as showJson } from './json.js';
import { nameOf } from './names.js';

export const card = (title, ...children) => h('section', { class: 'card' }, title && h('h2', {}, title), ...children);

// Pairs of a name and a value; a pair whose value is null is left out.
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined);
  return h('dl', { class: 'facts' }, shown.map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
}

// A table. A column is { title, class }; the class "num" aligns numbers, "wide" hides the column on narrow screens.
export function table(columns, rows, caption) {
  const head = h('tr', {}, columns.map(({ title, class: kind }) => h('th', { class: kind, scope: 'col' }, title)));
  const body = h('tbody', {}, rows);
  const node = h('div', { class: 'scroll' }, h('table', { 'aria-label': caption }, h('thead', {}, head), body));
  return { node, body };
}

// A row of cells for columns; `key` makes it reachable with j and k.
export function row(columns, cells, { key } = {}) {
  return h('tr', { 'data-row': key }, cells.map((cell, index) => h('td', { class: columns[index].class }, cell)));
}

export const slotLink = (slot) => h('a', { href: `#/block/${slot}`, class: 'num' }, String(slot));

export const transactionLink = (signature, chars = 8) =>
  h('a', { href: `#/transaction/${encodeURIComponent(signature)}`, class: 'key', title: signature }, short(signature, chars));

// A link to an account: by its name if it is well known, else by its address.
export function accountLink(address, { chars = 4, isWhole = false } = {}) {
  const name = nameOf(address);
  const text = isWhole ? address : name ?? short(address, chars);
  const kind = name && !isWhole ? 'name' : 'key';
  return h('a', { href: `#/account/${encodeURIComponent(address)}`, class: kind, title: address }, text);
}

export const solAmount = (lamports) => h('span', { class: 'num' }, sol(lamports), h('small', {}, ' SOL'));

export const badge = (text, kind) => h('span', { class: `badge ${kind}` }, text);

export const statusBadge = (err) => (err ? badge('failed', 'bad') : badge('ok', 'good'));

// A browser has a clipboard only on pages from this machine or over TLS.
export function copyButton(text, label = 'Copy') {
  if (!navigator.clipboard) return null;
  const button = h('button', {
    type: 'button', class: 'copy', title: `${label}: ${short(text, 12)}`,
    onclick: async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = label; }, 1_200);
    },
  }, label);
  return button;
}

// A key at full length, with a button to copy it.
export const wholeKey = (key) => h('span', { class: 'whole' }, h('span', { class: 'key' }, key), copyButton(key));

export const notice = (...children) => h('p', { class: 'notice' }, ...children);

export const errorNotice = (err) => h('p', { class: 'notice bad', role: 'alert' }, err.message);

// The request behind a card, as a link to its JSON.
export const source = (...paths) =>
  h('p', { class: 'source' }, paths.map((path) => h('a', { href: path }, `GET ${path}`)));

// Any JSON value as nested lists.
export function tree(value) {
  if (value === null || value === undefined) return h('span', { class: 'faint' }, 'null');
  if (Array.isArray(value)) {
    if (value.every((it) => it === null || typeof it !== 'object')) return h('span', {}, value.map((it, index) => [index > 0 && ', ', leaf(it)]));
    return h('ol', { class: 'tree' }, value.slice(0, 64).map((it) => h('li', {}, tree(it))), value.length > 64 && h('li', { class: 'faint' }, `${value.length - 64} more`));
  }
  if (typeof value === 'object') {
    return h('dl', { class: 'tree' }, Object.entries(value).map(([name, it]) => [h('dt', {}, name), h('dd', {}, tree(it))]));
  }
  return leaf(value);
}

const ADDRESS = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;

function leaf(value) {
  if (typeof value === 'string' && ADDRESS.test(value)) return accountLink(value, { isWhole: true });
  return h('span', { class: typeof value === 'number' || typeof value === 'bigint' ? 'num' : undefined }, String(value));
}

export const rawJson = (value, title = 'JSON') =>
  h('details', { class: 'raw' }, h('summary', {}, title), h('pre', {}, showJson(value)));
