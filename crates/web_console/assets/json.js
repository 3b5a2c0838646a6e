// JSON with integers above 2^53: lamports of a large account, a rent epoch.
//
// Out: such an integer is a BigInt, all other numbers are numbers. A browser that does not show a reviver the text of a
// number gives the nearest number instead.

const INTEGER = /^-?\d+$/;

export function parse(text) {
  return JSON.parse(text, (_key, value, context) => {
    const isLarge = typeof value === 'number' && !Number.isSafeInteger(value);
    return isLarge && INTEGER.test(context?.source ?? '') ? BigInt(context.source) : value;
  });
}

// The text of a value, indented, for people.
export function show(value) {
  return JSON.stringify(value, (_key, it) => (typeof it === 'bigint' ? it.toString() : it), 2);
}
