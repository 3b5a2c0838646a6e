// The console: from the address after `#` to a view. Everything that it shows comes from the node's public API.
//
// Shape: a view is a function `(container, context)`. It ends when the next one begins: its requests are aborted by
// `context.signal`, and what it passed to `context.onClose` is called.

import { account } from './account.js';
import { block } from './block.js';
import { setText } from './dom.js';
import { faucet } from './faucet.js';
import { grouped } from './format.js';
import { enableKeyboard } from './keyboard.js';
import { node } from './node.js';
import { overview } from './overview.js';
import { errorNotice, notice } from './parts.js';
import { enableSearch } from './search.js';
import { PubSub } from './socket.js';
import { Tip } from './tip.js';
import { transaction } from './transaction.js';

const VIEWS = [
  [/^#?\/?$/, overview],
  [/^#\/block\/(\d{1,15})$/, block],
  [/^#\/transaction\/([^/]+)$/, transaction],
  [/^#\/account\/([^/]+)$/, account],
  [/^#\/node$/, node],
  [/^#\/faucet$/, faucet],
];

// What the server wrote into the page.
const { dataset } = document.documentElement;
const config = {
  isFollowed: dataset.ledger === 'followed',
  hasFaucet: dataset.faucet === 'true',
  slotMs: Number(dataset.slotMs),
};
const socketUrl = new URL(dataset.websocket, location.href);
socketUrl.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
socketUrl.hash = '';

const [view, search] = [document.getElementById('view'), document.getElementById('search')];
const pubsub = new PubSub(socketUrl);
const tip = new Tip(config, pubsub);
let close = () => {};

async function open() {
  close();
  const closers = [];
  const aborter = new AbortController();
  close = () => {
    aborter.abort();
    closers.forEach((it) => it());
  };
  const container = document.createElement('div');
  view.replaceChildren(container);
  markLink();
  const [match, show] = find(location.hash);
  if (!match) {
    container.append(errorNotice(new Error('There is no such view.')));
    return;
  }
  const context = { config, tip, pubsub, signal: aborter.signal, onClose: (it) => closers.push(it) };
  const waiting = setTimeout(() => container.childElementCount === 0 && container.append(notice('Loading…')), 300);
  try {
    await show(container, { ...context, params: match.slice(1).map(decodeURIComponent) });
  } catch (err) {
    if (!aborter.signal.aborted) container.replaceChildren(errorNotice(err));
  } finally {
    clearTimeout(waiting);
  }
}

function find(hash) {
  for (const [pattern, show] of VIEWS) {
    const match = pattern.exec(hash);
    if (match) return [match, show];
  }
  return [null, null];
}

function markLink() {
  const current = location.hash === '' ? '#/' : location.hash;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.getAttribute('href') === current) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

enableSearch(search);
enableKeyboard({ search, view });
pubsub.onState((isOpen) => {
  document.getElementById('link').dataset.state = isOpen ? 'on' : 'off';
  setText(document.getElementById('link-text'), isOpen ? 'live' : 'not connected');
});
tip.onChange(() => {
  document.title = tip.slots.processed === null ? 'Hydrant' : `${grouped(tip.slots.processed)} · Hydrant`;
});
pubsub.open();
tip.start();
window.addEventListener('hashchange', () => {
  open();
  scrollTo(0, 0);
});
open();
