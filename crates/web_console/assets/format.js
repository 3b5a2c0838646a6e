// Numbers, amounts, times and keys as people read them.

const GROUPED = new Intl.NumberFormat('en-US', { maximumFractionDigits: 2 });
const LAMPORTS_PER_SOL_DIGITS = 9;

export const grouped = (value) => GROUPED.format(value);

// An integer with a decimal point, without zeros at its end: amount("1500000000", 9) is "1.5".
export function amount(units, decimals) {
  const value = BigInt(units);
  const digits = (value < 0n ? -value : value).toString().padStart(decimals + 1, '0');
  const whole = GROUPED.format(BigInt(digits.slice(0, digits.length - decimals)));
  const part = decimals > 0 ? digits.slice(-decimals).replace(/0+$/, '') : '';
  return `${value < 0n ? '−' : ''}${whole}${part ? `.${part}` : ''}`;
}

export const sol = (lamports) => amount(lamports, LAMPORTS_PER_SOL_DIGITS);

// A difference with its sign.
export function signed(units, decimals) {
  return `${BigInt(units) > 0n ? '+' : ''}${amount(units, decimals)}`;
}

// Lamports of a text such as "1.5"; null if it is no amount of SOL above 0.
export function lamportsFrom(text) {
  const match = /^(\d{1,10})(?:\.(\d{1,9}))?$/.exec(text.trim());
  if (!match) return null;
  const lamports = BigInt(match[1] + (match[2] ?? '').padEnd(LAMPORTS_PER_SOL_DIGITS, '0'));
  return lamports > 0n && lamports <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(lamports) : null;
}

export function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = Number(count);
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit += 1) value /= 1024;
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 2 : 1)} ${units[unit]}`;
}

// A time in seconds, with a unit that fits: "840 µs", "1.2 ms".
export function seconds(value) {
  if (!Number.isFinite(value)) return '–';
  const [scaled, unit] = value < 0.001 ? [value * 1e6, 'µs'] : value < 1 ? [value * 1e3, 'ms'] : [value, 's'];
  return `${scaled < 10 ? scaled.toFixed(1) : Math.round(scaled)} ${unit}`;
}

// A rate: with one decimal while it is small.
export const rate = (value) => (value < 10 ? value.toFixed(1) : grouped(Math.round(value)));

export const short = (key, chars = 4) =>
  key.length <= 2 * chars + 1 ? key : `${key.slice(0, chars)}…${key.slice(-chars)}`;

// A Unix time in seconds, as the clock of this browser shows it.
export function time(unixSeconds) {
  if (unixSeconds === null || unixSeconds === undefined) return '–';
  const date = new Date(Number(unixSeconds) * 1000);
  return Number.isNaN(date.getTime()) ? '–' : date.toLocaleString('sv-SE');
}

export function base64Bytes(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

// Lines of a hex dump: offset, sixteen bytes, and the same as text.
export function hexLines(data, from = 0) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = [...data.slice(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '·')).join('');
    lines.push(`${(from + at).toString(16).padStart(6, '0')}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join('\n');
}
