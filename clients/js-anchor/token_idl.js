// An IDL of the Token program: discriminators of one byte, accounts with none, options as C lays them out.

const key = (name, flags = '') => ({ name, writable: flags.includes('w'), signer: flags.includes('s') });
const amount = { name: 'amount', type: 'u64' };
// Anchor's `coption` is in its IDL and not in its coder.
const option = { defined: { name: 'OptionalKey' } };

export const tokenIdl = {
  address: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
  metadata: { name: 'token', version: '3.0.0', spec: '0.1.0' },
  instructions: [
    {
      name: 'initialize_mint2', discriminator: [20], accounts: [key('mint', 'w')],
      args: [
        { name: 'decimals', type: 'u8' }, { name: 'mint_authority', type: 'pubkey' },
        { name: 'freeze_authority', type: { option: 'pubkey' } },
      ],
    },
    {
      name: 'initialize_account3', discriminator: [18], accounts: [key('account', 'w'), key('mint')],
      args: [{ name: 'owner', type: 'pubkey' }],
    },
    { name: 'mint_to', discriminator: [7], accounts: [key('mint', 'w'), key('account', 'w'), key('owner', 's')], args: [amount] },
    { name: 'burn', discriminator: [8], accounts: [key('account', 'w'), key('mint', 'w'), key('owner', 's')], args: [amount] },
  ],
  accounts: [{ name: 'Mint', discriminator: [] }, { name: 'Holding', discriminator: [] }],
  types: [
    { name: 'OptionalKey', type: { kind: 'struct', fields: [{ name: 'some', type: 'u32' }, { name: 'key', type: 'pubkey' }] } },
    { name: 'OptionalAmount', type: { kind: 'struct', fields: [{ name: 'some', type: 'u32' }, amount] } },
    {
      name: 'Mint',
      type: {
        kind: 'struct',
        fields: [
          { name: 'mint_authority', type: option }, { name: 'supply', type: 'u64' }, { name: 'decimals', type: 'u8' },
          { name: 'is_initialized', type: 'bool' }, { name: 'freeze_authority', type: option },
        ],
      },
    },
    {
      name: 'Holding',
      type: {
        kind: 'struct',
        fields: [
          { name: 'mint', type: 'pubkey' }, { name: 'owner', type: 'pubkey' }, amount, { name: 'delegate', type: option },
          { name: 'state', type: 'u8' }, { name: 'is_native', type: { defined: { name: 'OptionalAmount' } } }, { name: 'delegated_amount', type: 'u64' },
          { name: 'close_authority', type: option },
        ],
      },
    },
  ],
};
