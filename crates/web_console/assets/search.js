// From a text to a view: a slot, a signature or an address.

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const CHARS_MAX = 90;
const VIEWS = new Map([[32, 'account'], [64, 'transaction']]);

// The number of bytes of a text in base58; null if it is none.
export function keyLength(text) {
  if (text.length === 0 || text.length > CHARS_MAX) return null;
  let value = 0n;
  for (const char of text) {
    const digit = ALPHABET.indexOf(char);
    if (digit < 0) return null;
    value = value * 58n + BigInt(digit);
  }
  const zeros = /^1*/.exec(text)[0].length;
  return zeros + (value === 0n ? 0 : Math.ceil(value.toString(16).length / 2));
}

// The address of the view in the console; null if the text is nothing that can be searched.
export function findView(text) {
  const key = text.trim().replace(/[\s,_]/g, '');
  if (/^\d{1,15}$/.test(key)) return `#/block/${key.replace(/^0+(?=\d)/, '')}`;
  const view = VIEWS.get(keyLength(key));
  return view ? `#/${view}/${key}` : null;
}

// Lets the search field open a view.
export function enableSearch(input) {
  input.addEventListener('input', () => input.setCustomValidity(''));
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    const view = findView(input.value);
    if (!view) {
      input.setCustomValidity('This is no slot, signature or address.');
      input.reportValidity();
      return;
    }
    location.hash = view;
    input.value = '';
    input.blur();
  });
}
