// Makes an Anchor workspace whose program is built already: `node workspace.js DIRECTORY PROGRAM`. The keypair of the
// program is there before, and the caller writes Anchor.toml.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PublicKey } from '@solana/web3.js';
import { counterElf, counterIdl } from './counter.js';

const [directory, program] = process.argv.slice(2);
const write = (file, content) => {
  const path = join(directory, file);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, content);
};
write('Cargo.toml', '[workspace]\nmembers = ["programs/*"]\nresolver = "2"\n');
write(
  'programs/counter/Cargo.toml',
  '[package]\nname = "counter"\nversion = "0.1.0"\nedition = "2021"\n\n[lib]\nname = "counter"\n',
);
write('programs/counter/src/lib.rs', '');
write('target/deploy/counter.so', counterElf());
write('target/idl/counter.json', JSON.stringify(counterIdl(new PublicKey(program))));
