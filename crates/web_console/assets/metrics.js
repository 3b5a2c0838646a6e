// Prometheus' text format, as far as /metrics uses it, and quantiles of its histograms.

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

// Samples by the name of their family: [{ labels, value }].
export function parseMetrics(text) {
  const families = new Map();
  for (const line of text.split('\n')) {
    const match = line.startsWith('#') ? null : SAMPLE.exec(line);
    if (!match) continue;
    const [, name, labelText, value] = match;
    const labels = Object.fromEntries([...(labelText ?? '').matchAll(LABEL)].map(([, key, it]) => [key, it]));
    if (!families.has(name)) families.set(name, []);
    families.get(name).push({ labels, value: Number(value.replace('Inf', 'Infinity')) });
  }
  return families;
}

export const samples = (families, name) => families.get(name) ?? [];

// The value of the first sample with these labels.
export function value(families, name, labels = {}) {
  const matches = ({ labels: own }) => Object.entries(labels).every(([key, it]) => own[key] === it);
  return samples(families, name).find(matches)?.value ?? null;
}

// Sums of a family by one label.
export function sums(families, name, label) {
  const totals = new Map();
  for (const { labels, value: it } of samples(families, name)) {
    totals.set(labels[label], (totals.get(labels[label]) ?? 0) + it);
  }
  return totals;
}

// Cumulative buckets by one label: Map of le to count.
export function histograms(families, name, label) {
  const found = new Map();
  for (const { labels, value: it } of samples(families, `${name}_bucket`)) {
    const key = labels[label];
    if (!found.has(key)) found.set(key, new Map());
    const le = labels.le === '+Inf' ? Infinity : Number(labels.le);
    found.get(key).set(le, (found.get(key).get(le) ?? 0) + it);
  }
  return found;
}

// The counts that were added since an earlier state of the same histogram.
export function since(buckets, earlier) {
  return new Map([...buckets].map(([le, count]) => [le, count - (earlier?.get(le) ?? 0)]));
}

// The upper bound of the bucket in which a quantile lies; NaN for an empty histogram.
export function quantile(buckets, q) {
  const sorted = [...buckets].sort(([one], [other]) => one - other);
  const total = sorted.at(-1)?.[1] ?? 0;
  if (!(total > 0)) return NaN;
  return sorted.find(([, count]) => count >= q * total)[0];
}
