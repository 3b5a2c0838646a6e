// The life of a token, once for each token program, with what is read of it on the way.

package flow

import (
	"encoding/binary"
	"encoding/json"
	"sort"

	bin "github.com/gagliardetto/binary"
	"github.com/gagliardetto/solana-go"
	associated "github.com/gagliardetto/solana-go/programs/associated-token-account"
	"github.com/gagliardetto/solana-go/programs/token"
	"github.com/gagliardetto/solana-go/rpc"
	"github.com/gagliardetto/solana-go/rpc/ws"
)

const decimals = 2

// tokenLife is what later steps need of a token: its addresses and the signatures of what happened to it.
type tokenLife struct {
	program                                                solana.PublicKey
	parsedAs                                               string
	mint, alice, bob                                       solana.PublicKey
	created, minted, transferred, approved, burned, closed solana.Signature
}

// parsedData is what jsonParsed makes of an account.
type parsedData struct {
	Program string `json:"program"`
	Parsed  struct {
		Type string         `json:"type"`
		Info map[string]any `json:"info"`
	} `json:"parsed"`
}

func parsedOf(data *rpc.DataBytesOrJSON) parsedData {
	var parsed parsedData
	check(json.Unmarshal(data.GetRawJSON(), &parsed))
	return parsed
}

// ofProgram is an instruction for another program of the same interface: solana-go knows one token program at a time.
type ofProgram struct {
	solana.Instruction
	program solana.PublicKey
}

func (i ofProgram) ProgramID() solana.PublicKey { return i.program }

func (life *tokenLife) instruction(of solana.Instruction) []solana.Instruction {
	return []solana.Instruction{ofProgram{of, life.program}}
}

// accountOf is the associated account of an owner, and the instruction that creates it.
func (life *tokenLife) accountOf(w *world, owner solana.PublicKey) (solana.PublicKey, solana.Instruction) {
	seeds := [][]byte{owner[:], life.program[:], life.mint[:]}
	address, _, err := solana.FindProgramAddress(seeds, solana.SPLAssociatedTokenAccountProgramID)
	check(err)
	create := associated.NewCreateInstruction(w.payer.PublicKey(), owner, life.mint).Build()
	metas := create.Accounts()
	metas[1], metas[5] = solana.Meta(address).WRITE(), solana.Meta(life.program)
	return address, solana.NewInstruction(solana.SPLAssociatedTokenAccountProgramID, metas, ok(create.Data()))
}

func tokenSteps(f *flow, w *world, name string, program solana.PublicKey, parsedAs string) *tokenLife {
	life := &tokenLife{program: program, parsedAs: parsedAs}
	payer, alice, bob := w.payer.PublicKey(), w.alice.PublicKey(), w.bob.PublicKey()
	amount := func(address solana.PublicKey) uint64 { return amountOf(w.account(address).Data.GetBinary()) }
	transfer := func(units uint64, authority solana.PublicKey) []solana.Instruction {
		move := token.NewTransferCheckedInstruction(units, decimals, life.alice, life.mint, life.bob, authority, nil)
		return life.instruction(move.Build())
	}

	f.step(name+": create the mint", func() {
		mint := newKey()
		life.mint = mint.PublicKey()
		initialize := token.NewInitializeMint2Instruction(decimals, payer, payer, life.mint).Build()
		w.send(append([]solana.Instruction{w.create(mint, token.MINT_SIZE, program)}, life.instruction(initialize)...), mint)
		var state token.Mint
		// Not the type's own Decode, which decodes into a copy.
		check(bin.NewBinDecoder(w.account(life.mint).Data.GetBinary()).Decode(&state))
		equal("decimals", state.Decimals, uint8(decimals))
		equal("supply", state.Supply, uint64(0))
		equal("mint authority", *state.MintAuthority, payer)
	})

	f.step(name+": create two associated accounts", func() {
		var forAlice, forBob solana.Instruction
		life.alice, forAlice = life.accountOf(w, alice)
		life.bob, forBob = life.accountOf(w, bob)
		life.created = w.send([]solana.Instruction{forAlice, forBob})
		balance := ok(w.rpc.GetTokenAccountBalance(background, life.alice, rpc.CommitmentConfirmed)).Value
		equal("balance", balance.Amount, "0")
	})

	var changes *ws.AccountSubscription
	var holders *ws.ProgramSubscription
	var logs *ws.LogSubscription
	f.step(name+": subscribe to the account, the program and the logs", func() {
		changes = ok(w.ws.AccountSubscribeWithOpts(life.alice, rpc.CommitmentConfirmed, solana.EncodingBase64))
		holders = ok(w.ws.ProgramSubscribeWithOpts(program, rpc.CommitmentConfirmed, solana.EncodingBase64, []rpc.RPCFilter{
			{Memcmp: &rpc.RPCFilterMemcmp{Offset: 0, Bytes: life.mint[:]}},
			{Memcmp: &rpc.RPCFilterMemcmp{Offset: 32, Bytes: bob[:]}},
		}))
		logs = ok(w.ws.LogsSubscribeMentions(life.alice, rpc.CommitmentConfirmed))
		w.socketSettled()
	})

	f.step(name+": mint", func() {
		mint := token.NewMintToCheckedInstruction(1_000, decimals, life.mint, life.alice, payer, nil).Build()
		life.minted = w.send(life.instruction(mint))
		supply := ok(w.rpc.GetTokenSupply(background, life.mint, rpc.CommitmentConfirmed)).Value
		equal("supply", []string{supply.Amount, supply.UiAmountString}, []string{"1000", "10"})
	})

	f.step(name+": transfer", func() {
		life.transferred = w.send(transfer(300, alice), w.alice)
		equal("what Alice has", amount(life.alice), uint64(700))
		balance := ok(w.rpc.GetTokenAccountBalance(background, life.bob, rpc.CommitmentConfirmed)).Value
		equal("what Bob has", balance.UiAmountString, "3")
	})

	f.step(name+": delegate, and the delegate spends", func() {
		approve := token.NewApproveCheckedInstruction(200, decimals, life.alice, life.mint, bob, alice, nil).Build()
		life.approved = w.send(life.instruction(approve), w.alice)
		w.send(transfer(50, bob), w.bob)
		var state token.Account
		check(bin.NewBinDecoder(w.account(life.alice).Data.GetBinary()).Decode(&state))
		equal("amount of Alice's account", state.Amount, uint64(650))
		equal("its delegate", *state.Delegate, bob)
		equal("what is left of the delegated", state.DelegatedAmount, uint64(150))
	})

	f.step(name+": accounts by owner, by delegate and by program", func() {
		options := func(encoding solana.EncodingType) *rpc.GetTokenAccountsOpts {
			return &rpc.GetTokenAccountsOpts{Encoding: encoding, Commitment: rpc.CommitmentConfirmed}
		}
		byMint := &rpc.GetTokenAccountsConfig{Mint: &life.mint}
		byProgram := &rpc.GetTokenAccountsConfig{ProgramId: &program}
		owned := ok(w.rpc.GetTokenAccountsByOwner(background, alice, byMint, options(solana.EncodingJSONParsed))).Value
		equal("accounts of Alice", len(owned), 1)
		equal("their address", owned[0].Pubkey, life.alice)
		parsed := parsedOf(owned[0].Account.Data)
		equal("parsed by", parsed.Program, parsedAs)
		equal("parsed as", parsed.Parsed.Type, "account")
		equal("amount", parsed.Parsed.Info["tokenAmount"].(map[string]any)["amount"], "650")

		delegated := ok(w.rpc.GetTokenAccountsByDelegate(background, bob, byProgram, options(solana.EncodingBase64))).Value
		equal("accounts that Bob may spend from", len(delegated), 1)
		equal("their amount", amountOf(delegated[0].Account.Data.GetBinary()), uint64(650))

		all := ok(w.rpc.GetProgramAccountsWithOpts(background, program, &rpc.GetProgramAccountsOpts{
			Commitment: rpc.CommitmentConfirmed, Encoding: solana.EncodingBase64,
			DataSlice: &rpc.DataSlice{Offset: pointer(uint64(64)), Length: pointer(uint64(8))},
			Filters:   []rpc.RPCFilter{{Memcmp: &rpc.RPCFilterMemcmp{Offset: 0, Bytes: life.mint[:]}}},
		}))
		var amounts []int
		for _, holder := range all {
			amounts = append(amounts, int(binary.LittleEndian.Uint64(holder.Account.Data.GetBinary())))
		}
		sort.Ints(amounts)
		equal("amounts of all holders", amounts, []int{350, 650})

		largest := ok(w.rpc.GetTokenLargestAccounts(background, life.mint, rpc.CommitmentConfirmed)).Value
		equal("the largest holder", largest[0].Address, life.alice)
		equal("what it has", []string{largest[0].Amount, largest[1].Amount}, []string{"650", "350"})
	})

	f.step(name+": burn", func() {
		burn := token.NewBurnCheckedInstruction(650, decimals, life.alice, life.mint, alice, nil).Build()
		life.burned = w.send(life.instruction(burn), w.alice)
		equal("what Alice has", amount(life.alice), uint64(0))
	})

	f.step(name+": close the account", func() {
		before := w.balance(bob)
		life.closed = w.send(life.instruction(token.NewCloseAccountInstruction(life.alice, bob, alice, nil).Build()), w.alice)
		is(w.account(life.alice) == nil, "the account is still there")
		is(w.balance(bob) > before, "Bob has not got its lamports")
	})

	f.step(name+": every change was notified", func() {
		var seen []int
		var slots []uint64
		next[*ws.AccountResult]("account", changes, func(item *ws.AccountResult) bool {
			now := -1
			if data := item.Value.Data.GetBinary(); len(data) > 0 {
				now = int(amountOf(data))
			}
			if len(seen) == 0 || seen[len(seen)-1] != now {
				seen = append(seen, now)
			}
			slots = append(slots, item.Context.Slot)
			return item.Value.Lamports == 0
		})
		equal("amounts", seen, []int{1_000, 700, 650, 0, -1})
		is(sort.SliceIsSorted(slots, func(a, b int) bool { return slots[a] < slots[b] }), "slots %v", slots)
		last := next[*ws.ProgramResult]("program", holders, func(item *ws.ProgramResult) bool {
			return amountOf(item.Value.Account.Data.GetBinary()) == 350
		})
		equal("the holder", last.Value.Pubkey, life.bob)
		success := "Program " + program.String() + " success"
		for _, signature := range []solana.Signature{life.minted, life.transferred, life.approved, life.burned, life.closed} {
			entry := next[*ws.LogResult]("logs", logs, func(item *ws.LogResult) bool { return item.Value.Signature == signature })
			equal("its error", entry.Value.Err, nil)
			is(contains(entry.Value.Logs, success), "logs %v", entry.Value.Logs)
		}
		changes.Unsubscribe()
		holders.Unsubscribe()
		logs.Unsubscribe()
	})
	return life
}

// amountOf is the amount in a token account's bytes.
func amountOf(data []byte) uint64 {
	return binary.LittleEndian.Uint64(data[64:72])
}

func contains(lines []string, wanted string) bool {
	for _, line := range lines {
		if line == wanted {
			return true
		}
	}
	return false
}
