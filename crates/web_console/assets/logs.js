// The logs of a transaction: lines with their depth, their program and what they say; compute units by instruction.
//
// A program can log any text, also one that looks like a line of the runtime. Such a line comes after "Program log: ",
// so it is never mistaken for one.

import { h } from './dom.js';
import { grouped } from './format.js';
import { nameOf, PRECOMPILES } from './names.js';

const INVOKE = /^Program (\S+) invoke \[(\d+)\]$/;
const SUCCESS = /^Program (\S+) success$/;
const FAILED = /^Program (\S+) failed: (.*)$/s;
const CONSUMED = /^Program (\S+) consumed (\d+) of (\d+) compute units$/;
const PREFIXES = [['Program log: ', 'log'], ['Program data: ', 'data'], ['Program return: ', 'data']];

// Lines as { depth, kind, text, program, units, limit }.
export function parseLogs(lines) {
  let depth = 0;
  return lines.map((text) => {
    const invoke = INVOKE.exec(text);
    if (invoke) {
      depth = Number(invoke[2]);
      return { depth, kind: 'invoke', program: invoke[1], text };
    }
    const at = depth;
    const consumed = CONSUMED.exec(text);
    if (consumed) {
      const [program, units, limit] = [consumed[1], Number(consumed[2]), Number(consumed[3])];
      return { depth: at, kind: 'units', program, units, limit, text };
    }
    const ended = SUCCESS.exec(text) ?? FAILED.exec(text);
    if (ended) {
      depth = Math.max(0, depth - 1);
      return { depth: at, kind: ended[2] === undefined ? 'success' : 'failed', program: ended[1], text };
    }
    const prefix = PREFIXES.find(([start]) => text.startsWith(start));
    return { depth: at, kind: prefix ? prefix[1] : 'other', text };
  });
}

// The compute units of each instruction, by its index: { units, limit }. Native programs and precompiles report none.
export function unitsByInstruction(logs, programs) {
  const units = new Map();
  let index = -1;
  for (const { depth, kind, program, units: used, limit } of logs) {
    if (depth !== 1) continue;
    if (kind === 'invoke') {
      do index += 1; while (index < programs.length && PRECOMPILES.includes(programs[index]) && programs[index] !== program);
    } else if (kind === 'units') {
      units.set(index, { units: used, limit });
    }
  }
  return units;
}

// The lines as a list, indented by depth. The name of a well-known program stands beside its address.
export function logList(logs) {
  return h('ol', { class: 'logs' }, logs.map(({ depth, kind, text, program, units, limit }) => {
    const name = kind === 'invoke' ? nameOf(program) : null;
    const line = h('li', { class: kind }, h('code', {}, text), name && h('span', { class: 'note' }, name),
      kind === 'units' && h('span', { class: 'note' }, `${grouped((100 * units) / Math.max(limit, 1))} %`));
    line.style.setProperty('--depth', Math.max(0, depth - 1));
    return line;
  }));
}
