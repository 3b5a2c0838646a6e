// The faucet of a local ledger: lamports for an address, and the transaction that pays them.

import { call, get, path } from './api.js';
import { h, show } from './dom.js';
import { lamportsFrom, sol } from './format.js';
import { accountLink, card, errorNotice, notice, solAmount, transactionLink } from './parts.js';
import { keyLength } from './search.js';

const WAIT_MS = 20_000;
const ADDRESS_BYTES = 32;

export function faucet(container, { config, signal }) {
  if (!config.hasFaucet) throw new Error('This ledger has no faucet.');
  const address = h('input', { id: 'faucet-address', name: 'address', autocomplete: 'off', spellcheck: 'false', required: true });
  const amount = h('input', { id: 'faucet-amount', name: 'amount', inputmode: 'decimal', value: '1', autocomplete: 'off', required: true });
  const send = h('button', { class: 'primary' }, 'Send');
  const result = h('div', { 'aria-live': 'polite' });
  const form = h('form', { class: 'form', novalidate: true, onsubmit: (event) => { event.preventDefault(); request(); } },
    h('label', { for: 'faucet-address' }, 'To the address'), address,
    h('label', { for: 'faucet-amount' }, 'SOL'), amount, send);

  async function request() {
    const [to, lamports] = [address.value.trim(), lamportsFrom(amount.value)];
    if (keyLength(to) !== ADDRESS_BYTES) return show(result, errorNotice(new Error('The address is not 32 bytes in base58.')));
    if (lamports === null) return show(result, errorNotice(new Error('The amount is not a number of SOL above 0, with at most 9 decimals.')));
    send.disabled = true;
    try {
      const signature = await call('requestAirdrop', [to, lamports], { signal });
      show(result, notice(`${sol(lamports)} SOL are on their way: `, transactionLink(signature)));
      await get(path(['transactions', signature, 'status'], { commitment: 'confirmed', waitMs: WAIT_MS }), { signal });
      const { value } = await get(path(['accounts', to], { commitment: 'confirmed' }), { signal });
      show(result, notice(accountLink(to, { isWhole: true }), ' has ', solAmount(value.lamports), ' in the confirmed block: ', transactionLink(signature)));
    } catch (err) {
      if (!signal.aborted) show(result, errorNotice(err));
    } finally {
      send.disabled = false;
    }
  }

  container.append(h('h1', {}, 'Faucet'), card(null, form, result), h('p', { class: 'source' }, h('code', {}, 'POST requestAirdrop')));
  address.focus();
}
