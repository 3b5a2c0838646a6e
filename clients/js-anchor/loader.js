// The upgradeable loader through Anchor: an IDL for a program that is not Anchor's, with discriminators of 4 bytes.

import { Keypair, PublicKey, SYSVAR_CLOCK_PUBKEY, SYSVAR_RENT_PUBKEY, SystemProgram } from '@solana/web3.js';
import { connection, payer, slotAfter, transactionOf } from './world.js';

const LOADER = new PublicKey('BPFLoaderUpgradeab1e11111111111111111111111');
const BUFFER_HEADER = 37;
const PROGRAM_SIZE = 36;

const at = (name, key) => ({ name, address: key.toBase58() });

// Written in two halves of `half` bytes each: Anchor's byte strings have a length of 4 bytes, the loader's of 8.
const loaderIdl = (half) => ({
  address: LOADER.toBase58(),
  metadata: { name: 'upgradeable_loader', version: '3.0.0', spec: '0.1.0' },
  instructions: [
    {
      name: 'initialize_buffer', discriminator: [0, 0, 0, 0],
      accounts: [{ name: 'buffer', writable: true }, { name: 'authority' }], args: [],
    },
    {
      name: 'write', discriminator: [1, 0, 0, 0],
      accounts: [{ name: 'buffer', writable: true }, { name: 'authority', signer: true }],
      args: [
        { name: 'offset', type: 'u32' }, { name: 'length', type: 'u64' }, { name: 'bytes', type: { array: ['u8', half] } },
      ],
    },
    {
      name: 'deploy', discriminator: [2, 0, 0, 0],
      accounts: [
        { name: 'payer', writable: true, signer: true },
        { name: 'program_data', writable: true, pda: { seeds: [{ kind: 'account', path: 'program' }] } },
        { name: 'program', writable: true },
        { name: 'buffer', writable: true },
        at('rent', SYSVAR_RENT_PUBKEY), at('clock', SYSVAR_CLOCK_PUBKEY), at('system_program', SystemProgram.programId),
        { name: 'authority', signer: true },
      ],
      args: [{ name: 'size_max', type: 'u64' }],
    },
  ],
});

// The address of a program that has just been deployed and can be called.
export async function deploy(anchor, provider, elf) {
  const { BN } = anchor.default;
  const half = elf.length / 2;
  const loader = new anchor.Program(loaderIdl(half), provider);
  const [program, buffer] = [Keypair.generate(), Keypair.generate()];
  const create = async ({ publicKey }, space) => SystemProgram.createAccount({
    fromPubkey: payer.publicKey, newAccountPubkey: publicKey, space, programId: LOADER,
    lamports: await connection.getMinimumBalanceForRentExemption(space),
  });
  const accounts = { buffer: buffer.publicKey, authority: payer.publicKey };
  await loader.methods.initializeBuffer().accounts(accounts)
    .preInstructions([await create(buffer, BUFFER_HEADER + elf.length)]).signers([buffer]).rpc();
  for (const offset of [0, half]) {
    const bytes = [...elf.subarray(offset, offset + half)];
    await loader.methods.write(offset, new BN(half), bytes).accounts(accounts).rpc();
  }
  const signature = await loader.methods.deploy(new BN(elf.length))
    .accounts({ program: program.publicKey, buffer: buffer.publicKey })
    .preInstructions([await create(program, PROGRAM_SIZE)]).signers([program]).rpc();
  await slotAfter((await transactionOf(signature)).slot);
  return program.publicKey;
}
