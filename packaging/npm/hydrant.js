#!/usr/bin/env node
// Starts the program of the package for this platform, with the same arguments and the same input and output.
//
// Signals are passed on, and the exit status is that of the program. Invariant: nothing is downloaded here. npm has
// installed the package of the platform, as an optional dependency of this one.
'use strict';

const { spawn } = require('node:child_process');

// The terminal sends these to the program itself. A second one would interrupt the shutdown that the first one began.
const SIGNALS_OF_TERMINAL = ['SIGHUP', 'SIGINT', 'SIGQUIT'];
const OTHER_SIGNALS = ['SIGTERM', 'SIGUSR1', 'SIGUSR2'];

// npx passes signals to the shell between it and this process only, and the shell ends without it.
const STARTED_BY_NPM = /^'?hydrant'?( [^&;|]*)?$/.test(process.env.npm_lifecycle_script ?? '');
const PARENT_POLL_INTERVAL_MS = 200;

const platform = `hydrant-${process.platform}-${process.arch}`;

function findProgram() {
  try {
    return require.resolve(`${platform}/bin/hydrant`);
  } catch {
    console.error(`hydrant: the package ${platform} is not installed. Either there is none for this platform, or npm \
left out optional dependencies (--omit=optional), or it could not download the package.`);
    process.exit(1);
  }
}

const program = spawn(findProgram(), process.argv.slice(2), { stdio: 'inherit' });
for (const signal of SIGNALS_OF_TERMINAL) {
  process.on(signal, () => process.stdin.isTTY || program.kill(signal));
}
for (const signal of OTHER_SIGNALS) {
  process.on(signal, () => program.kill(signal));
}
if (STARTED_BY_NPM) {
  const parent = process.ppid;
  const poll = setInterval(() => {
    if (process.ppid !== parent) {
      clearInterval(poll);
      program.kill('SIGTERM');
    }
  }, PARENT_POLL_INTERVAL_MS);
}
program.on('error', (error) => {
  console.error(`hydrant: ${error.message}`);
  process.exit(1);
});
program.on('exit', (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
