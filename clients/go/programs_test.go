// Programs: one over the upgradeable loader, and those that a local ledger begins with.
//
// solana-go has no instructions for the upgradeable loader, so they are laid out here as its users do.

package flow

import (
	"bytes"
	"encoding/binary"
	"os"

	"github.com/gagliardetto/solana-go"
	budget "github.com/gagliardetto/solana-go/programs/compute-budget"
	"github.com/gagliardetto/solana-go/programs/stake"
	"github.com/gagliardetto/solana-go/programs/token"
	"github.com/gagliardetto/solana-go/rpc"
)

const (
	loaderBufferHeader = 37
	loaderProgramSize  = 36
	loaderChunk        = 1_000
	stakeAccountSize   = 200
)

func loader(data []byte, metas ...*solana.AccountMeta) solana.Instruction {
	return solana.NewInstruction(solana.BPFLoaderUpgradeableProgramID, metas, data)
}

// memo is the text as it is: solana-go's own instruction puts its length before it.
func memo(program solana.PublicKey, text string) solana.Instruction {
	return solana.NewInstruction(program, nil, []byte(text))
}

func programSteps(f *flow, w *world) {
	payer, program := w.payer.PublicKey(), newKey()
	elf := ok(os.ReadFile(env("HYDRANT_UPGRADE_ELF")))

	f.step("program: write the ELF to a buffer and deploy it", func() {
		buffer := newKey()
		holder := []*solana.AccountMeta{solana.Meta(buffer.PublicKey()).WRITE(), solana.Meta(payer).SIGNER()}
		w.send([]solana.Instruction{
			w.create(buffer, uint64(loaderBufferHeader+len(elf)), solana.BPFLoaderUpgradeableProgramID),
			loader(make([]byte, 4), holder...),
		}, buffer)
		for at := 0; at < len(elf); at += loaderChunk {
			chunk := elf[at:]
			if len(chunk) > loaderChunk {
				chunk = chunk[:loaderChunk]
			}
			data := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0}, uint32(at))
			data = binary.LittleEndian.AppendUint64(data, uint64(len(chunk)))
			w.send([]solana.Instruction{loader(append(data, chunk...), holder...)})
		}
		is(bytes.Equal(w.account(buffer.PublicKey()).Data.GetBinary()[loaderBufferHeader:], elf), "the buffer holds something else")

		key := program.PublicKey()
		programData, _, err := solana.FindProgramAddress([][]byte{key[:]}, solana.BPFLoaderUpgradeableProgramID)
		check(err)
		deploy := loader(binary.LittleEndian.AppendUint64([]byte{2, 0, 0, 0}, uint64(len(elf))),
			solana.Meta(payer).WRITE().SIGNER(), solana.Meta(programData).WRITE(), solana.Meta(key).WRITE(),
			solana.Meta(buffer.PublicKey()).WRITE(), solana.Meta(solana.SysVarRentPubkey), solana.Meta(solana.SysVarClockPubkey),
			solana.Meta(solana.SystemProgramID), solana.Meta(payer).SIGNER(),
		)
		signature := w.send([]solana.Instruction{w.create(program, loaderProgramSize, solana.BPFLoaderUpgradeableProgramID), deploy}, program)
		equal("executable", w.account(key).Executable, true)
		equal("its data", w.parsed(key).Parsed.Info["programData"], programData.String())
		w.slotAfter(w.transaction(signature).Slot)
	})

	f.step("program: call it", func() {
		logs := w.transaction(w.send([]solana.Instruction{memo(program.PublicKey(), "deployed")})).Meta.LogMessages
		is(contains(logs, "Program log: Memo (len 8)"), "logs %v", logs)
	})
}

func genesisProgramSteps(f *flow, w *world) {
	payer := w.payer.PublicKey()

	f.step("programs: SOL is wrapped, synced and unwrapped", func() {
		wrapped := newKey()
		w.send([]solana.Instruction{
			w.create(wrapped, 165, solana.TokenProgramID),
			token.NewInitializeAccount3Instruction(payer, wrapped.PublicKey(), solana.SolMint).Build(),
			w.transfer(7, payer, wrapped.PublicKey()),
			token.NewSyncNativeInstruction(wrapped.PublicKey()).Build(),
		}, wrapped)
		equal("wrapped", amountOf(w.account(wrapped.PublicKey()).Data.GetBinary()), uint64(7))
		w.send([]solana.Instruction{token.NewCloseAccountInstruction(wrapped.PublicKey(), payer, payer, nil).Build()})
		is(w.account(wrapped.PublicKey()) == nil, "the account is still there")
	})

	f.step("programs: a memo and a price, in history and in the fees", func() {
		signature := w.send([]solana.Instruction{
			budget.NewSetComputeUnitLimitInstruction(50_000).Build(),
			budget.NewSetComputeUnitPriceInstruction(200_000).Build(),
			memo(solana.MemoProgramID, "hello"),
		})
		found := w.transaction(signature)
		equal("fee", found.Meta.Fee, uint64(5_000+10_000))
		listed := ok(w.rpc.GetSignaturesForAddressWithOpts(background, payer, &rpc.GetSignaturesForAddressOpts{
			Limit: pointer(1), Commitment: rpc.CommitmentConfirmed,
		}))
		equal("memo", *listed[0].Memo, "[5] hello")
		paid := until("the price among the fees", func() (uint64, bool) {
			for _, fee := range ok(w.rpc.GetRecentPrioritizationFees(background, solana.PublicKeySlice{payer})) {
				if fee.Slot == found.Slot {
					return fee.PrioritizationFee, true
				}
			}
			return 0, false
		})
		equal("price", paid, uint64(200_000))
	})

	f.step("programs: stake is delegated, deactivated and withdrawn", func() {
		account := newKey()
		votes := ok(w.rpc.GetVoteAccounts(background, nil)).Current
		create := []solana.Instruction{
			w.create(account, stakeAccountSize, solana.StakeProgramID),
			w.transfer(solana.LAMPORTS_PER_SOL, payer, account.PublicKey()),
			stake.NewInitializeInstruction(payer, payer, account.PublicKey()).Build(),
			stake.NewDelegateStakeInstruction(votes[0].VotePubkey, payer, account.PublicKey()).Build(),
		}
		w.send(create, account)
		equal("parsed as", w.parsed(account.PublicKey()).Parsed.Type, "delegated")
		lamports := w.balance(account.PublicKey())
		w.send([]solana.Instruction{stake.NewDeactivateInstruction(account.PublicKey(), payer).Build()})
		w.send([]solana.Instruction{stake.NewWithdrawInstruction(lamports, account.PublicKey(), payer, payer).Build()})
		is(w.account(account.PublicKey()) == nil, "the account is still there")
	})
}
