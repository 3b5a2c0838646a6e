// How far the chain is verified: the level that a block needs, the newest block that has it, and what its hash is.

import { get } from './api.js';
import { h, show } from './dom.js';
import { grouped } from './format.js';
import { card, errorNotice, facts, notice, slotLink, source, wholeKey } from './parts.js';

const POLL_MS = 2_000;
const LEVELS = {
  computed: 'computed by this node',
  consistent: 'computed by this node, and listed by the next block of the same source',
  agreed: 'computed by this node, and listed by independent sources',
  voted: 'computed by this node, and signed by more than two thirds of the stake',
};

// The name of the newest slot with the level. A chain that only agrees with itself is not called verified.
export function slotName(level) {
  if (level === 'consistent') return 'Consistent';
  return level ? `Verified (${level})` : 'Verified';
}

export function verification({ signal, onClose }) {
  const body = h('div');
  const load = async () => {
    if (document.hidden) return;
    try {
      const { value } = await get('/v1/ledger?commitment=processed', { signal });
      show(body, value.verification ? verificationFacts(value.verification) : notice('Blocks are not verified.'));
    } catch (err) {
      if (!signal.aborted) show(body, errorNotice(err));
    }
  };
  load();
  const timer = setInterval(load, POLL_MS);
  onClose(() => clearInterval(timer));
  return card('Verification', body, source('/v1/ledger'));
}

function verificationFacts({ requiredLevel, verifiedSlot, bank, mismatchedBanks, firstMismatch, limitation, sources }) {
  const mismatch = mismatchedBanks > 0 ? h('span', { class: 'bad' }, `${grouped(mismatchedBanks)} blocks had another hash`) : 'none';
  return facts([
    ['Level', requiredLevel ? `${requiredLevel}: ${LEVELS[requiredLevel]}` : 'none'],
    [`${slotName(requiredLevel)} up to`, verifiedSlot === null ? 'no block yet' : slotLink(verifiedSlot)],
    ['Bank hash', bank ? wholeKey(bank.bankHash) : null],
    ['Blockhash', bank ? wholeKey(bank.blockhash) : null],
    ['Lattice hash', bank?.ltHashChecksum ? wholeKey(bank.ltHashChecksum) : null],
    ['Signatures', bank ? grouped(bank.signatureCount) : null],
    ['Mismatches', mismatch],
    ['First mismatch', firstMismatch ? h('code', {}, JSON.stringify(firstMismatch)) : null],
    ['Limitation', limitation ? h('code', {}, typeof limitation === 'string' ? limitation : JSON.stringify(limitation)) : null],
    ['Sources', sources?.length > 0 ? sources.map((it) => (typeof it === 'string' ? it : JSON.stringify(it))).join(', ') : null],
  ]);
}
