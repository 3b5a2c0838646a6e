// Transactions that are not plain: failing ones, through a lookup table, simulated, with a nonce.

package flow

import (
	"encoding/binary"
	"fmt"
	"strings"

	bin "github.com/gagliardetto/binary"
	"github.com/gagliardetto/solana-go"
	lookup "github.com/gagliardetto/solana-go/programs/address-lookup-table"
	"github.com/gagliardetto/solana-go/programs/system"
	"github.com/gagliardetto/solana-go/programs/token"
	"github.com/gagliardetto/solana-go/rpc"
	confirm "github.com/gagliardetto/solana-go/rpc/sendAndConfirmTransaction"
)

// instructionError is a program's own error, as JSON.
func instructionError(index, code int) string {
	return fmt.Sprintf(`{"InstructionError":[%d,{"Custom":%d}]}`, index, code)
}

func failingSteps(f *flow, w *world, life *tokenLife) {
	payer, bob := w.payer.PublicKey(), w.bob.PublicKey()
	// Bob's account has 350 of the token: this sends one more.
	tooMuch := func() []solana.Instruction {
		return life.instruction(token.NewTransferInstruction(351, life.bob, life.bob, bob, nil).Build())
	}

	f.step("failing: preflight refuses with the decoded error and the logs", func() {
		tx := w.sign(w.blockhash(), tooMuch(), []solana.PrivateKey{w.bob})
		_, err := w.rpc.SendTransactionWithOpts(background, tx, checked)
		refused := refusal(-32002, err)
		equal("message", refused.Message, "Transaction simulation failed: Error processing Instruction 0: custom program error: 0x1")
		data := refused.Data.(map[string]any)
		equal("error", text(data["err"]), instructionError(0, 1))
		is(strings.Contains(show(data["logs"]), "insufficient funds"), "logs %v", data["logs"])
	})

	f.step("failing: without preflight it is in its block with the error, and the fee is paid", func() {
		before := w.balance(payer)
		signature, failed := w.sendUnchecked(w.sign(w.blockhash(), tooMuch(), []solana.PrivateKey{w.bob}))
		equal("error", text(failed), instructionError(0, 1))
		meta := w.transaction(signature).Meta
		equal("error in its block", text(meta.Err), text(failed))
		equal("fee", meta.Fee, uint64(10_000))
		equal("the payer's balance", w.balance(payer), before-10_000)
		listed := ok(w.rpc.GetSignaturesForAddressWithOpts(background, life.bob, &rpc.GetSignaturesForAddressOpts{
			Limit: pointer(1), Commitment: rpc.CommitmentConfirmed,
		}))
		equal("signature", listed[0].Signature, signature)
		equal("error in the list", text(listed[0].Err), text(failed))
	})

	f.step("failing: a stale blockhash and a wrong signature are refused", func() {
		stale := w.sign(solana.Hash(newKey().PublicKey()), []solana.Instruction{w.transfer(1, payer, bob)}, nil)
		_, err := w.rpc.SendTransactionWithOpts(background, stale, checked)
		equal("message", refusal(-32002, err).Message, "Transaction simulation failed: Blockhash not found")
		forged := w.sign(w.blockhash(), []solana.Instruction{w.transfer(1, payer, bob)}, nil)
		forged.Signatures[0][0] ^= 1
		_, err = w.rpc.SendTransactionWithOpts(background, forged, checked)
		equal("message", refusal(-32002, err).Message, "Transaction simulation failed: Transaction did not pass signature verification")
	})

	f.step("failing: what makes no sense is refused in Agave's words", func() {
		_, err := w.rpc.SendEncodedTransaction(background, "AAAA")
		is(strings.HasPrefix(refusal(-32602, err).Message, "failed to deserialize"), "%v", err)
		_, err = w.rpc.GetAccountInfo(background, newKey().PublicKey())
		equal("an account that is not there", err, rpc.ErrNotFound)
		_, err = w.rpc.GetTransaction(background, solana.Signature{1}, nil)
		equal("a transaction that is not there", err, rpc.ErrNotFound)
		_, err = w.rpc.GetTokenAccountBalance(background, payer, rpc.CommitmentConfirmed)
		equal("message", refusal(-32602, err).Message, "Invalid param: not a Token account")
		_, err = w.rpc.GetBlockTime(background, 1<<40)
		refusal(-32004, err)
		_, err = w.rpc.GetMultipleAccounts(background, make([]solana.PublicKey, 101)...)
		equal("message", refusal(-32602, err).Message, "Too many inputs provided; max 100")
	})

	f.step("failing: what sends and waits says so, and so it does when all is well", func() {
		send := func(instructions []solana.Instruction, skip bool, signers ...solana.PrivateKey) error {
			tx := w.sign(w.blockhash(), instructions, signers)
			options := rpc.TransactionOpts{SkipPreflight: skip, PreflightCommitment: rpc.CommitmentConfirmed}
			_, err := confirm.SendAndConfirmTransactionWithOpts(background, w.rpc, w.ws, tx, options, pointer(waitMax))
			return err
		}
		check(send([]solana.Instruction{w.transfer(1_000_002, payer, bob)}, false))
		refusal(-32002, send(tooMuch(), false, w.bob))
		err := send(tooMuch(), true, w.bob)
		is(err != nil && strings.HasPrefix(err.Error(), "confirmed transaction with execution error"), "%v", err)
	})
}

func lookupTableSteps(f *flow, w *world) {
	payer := w.payer.PublicKey()
	var table solana.PublicKey
	var used solana.Signature
	var targets solana.PublicKeySlice
	for len(targets) < 4 {
		targets = append(targets, newKey().PublicKey())
	}

	f.step("lookup table: create and extend", func() {
		recent := ok(w.rpc.GetSlot(background, rpc.CommitmentFinalized))
		seed := binary.LittleEndian.AppendUint64(nil, recent)
		address, bump, err := solana.FindProgramAddress([][]byte{payer[:], seed}, solana.AddressLookupTableProgramID)
		check(err)
		table = address
		// solana-go reads lookup tables, but has no instructions for them.
		metas := []*solana.AccountMeta{
			solana.Meta(table).WRITE(), solana.Meta(payer).SIGNER(),
			solana.Meta(payer).WRITE().SIGNER(), solana.Meta(solana.SystemProgramID),
		}
		create := append(append(make([]byte, 4), seed...), bump)
		extend := binary.LittleEndian.AppendUint64([]byte{2, 0, 0, 0}, uint64(len(targets)))
		for _, target := range targets {
			extend = append(extend, target[:]...)
		}
		signature := w.send([]solana.Instruction{
			solana.NewInstruction(solana.AddressLookupTableProgramID, metas, create),
			solana.NewInstruction(solana.AddressLookupTableProgramID, metas, extend),
		})
		state := ok(lookup.GetAddressLookupTableStateWithOpts(background, w.rpc, table, &rpc.GetAccountInfoOpts{
			Encoding: solana.EncodingBase64Zstd, Commitment: rpc.CommitmentConfirmed,
		}))
		equal("addresses", state.Addresses, targets)
		equal("active", state.IsActive(), true)
		// Addresses can be used from the slot after the one that added them.
		w.slotAfter(w.transaction(signature).Slot)
	})

	f.step("lookup table: a version 0 transaction takes its accounts from it", func() {
		var transfers []solana.Instruction
		for _, target := range targets {
			transfers = append(transfers, w.transfer(1_000_000, payer, target))
		}
		tables := solana.TransactionAddressTables(map[solana.PublicKey]solana.PublicKeySlice{table: targets})
		tx := w.sign(w.blockhash(), transfers, nil, tables)
		equal("addresses from the table", tx.Message.NumLookups(), len(targets))
		fee := ok(w.rpc.GetFeeForMessage(background, tx.Message.ToBase64(), rpc.CommitmentConfirmed))
		equal("fee", *fee.Value, uint64(5_000))
		used = ok(w.rpc.SendTransactionWithOpts(background, tx, checked))
		equal("error", w.confirmed(used), nil)
		for _, target := range targets {
			equal("what it has got", w.balance(target), uint64(1_000_000))
		}
	})

	f.step("lookup table: history names the loaded addresses, and wants the version allowed", func() {
		found := w.transaction(used)
		equal("version", found.Version, rpc.TransactionVersion(0))
		equal("loaded", found.Meta.LoadedAddresses.Writable.Same(targets), true)
		equal("only read", len(found.Meta.LoadedAddresses.ReadOnly), 0)
		_, err := w.rpc.GetTransaction(background, used, &rpc.GetTransactionOpts{
			Encoding: solana.EncodingBase64, Commitment: rpc.CommitmentConfirmed,
		})
		refused := refusal(-32015, err)
		is(strings.HasPrefix(refused.Message, "Transaction version (0) is not supported"), "%s", refused.Message)
	})
}

func simulateSteps(f *flow, w *world) {
	payer, bob := w.payer.PublicKey(), w.bob.PublicKey()

	f.step("simulate: accounts after, another blockhash, nothing written", func() {
		before := w.balance(bob)
		tx := w.sign(solana.Hash(newKey().PublicKey()), []solana.Instruction{w.transfer(123, payer, bob)}, nil)
		simulated := ok(w.rpc.SimulateTransactionWithOpts(background, tx, &rpc.SimulateTransactionOpts{
			Commitment: rpc.CommitmentConfirmed, ReplaceRecentBlockhash: true,
			Accounts: &rpc.SimulateTransactionAccountsOpts{
				Encoding: solana.EncodingBase64, Addresses: []solana.PublicKey{bob},
			},
		})).Value
		equal("error", simulated.Err, nil)
		equal("units", *simulated.UnitsConsumed, uint64(150))
		equal("what Bob would have", simulated.Accounts[0].Lamports, before+123)
		equal("what Bob has", w.balance(bob), before)
		unknown := ok(w.rpc.SimulateTransaction(background, tx)).Value
		equal("error without another blockhash", unknown.Err, "BlockhashNotFound")
		_, err := w.rpc.SimulateTransactionWithOpts(background, tx, &rpc.SimulateTransactionOpts{
			SigVerify: true, ReplaceRecentBlockhash: true,
		})
		equal("message", refusal(-32602, err).Message, "sigVerify may not be used with replaceRecentBlockhash")
	})
}

func nonceSteps(f *flow, w *world) {
	payer, alice, bob := w.payer.PublicKey(), w.alice.PublicKey(), w.bob.PublicKey()
	account := newKey()
	const size = 80
	nonce := func() solana.Hash {
		var state system.NonceAccount
		check(bin.NewBinDecoder(w.account(account.PublicKey()).Data.GetBinary()).Decode(&state))
		equal("its authority", state.AuthorizedPubkey, payer)
		return solana.Hash(state.Nonce)
	}
	use := func(lamports uint64) any {
		used := nonce()
		advance := system.NewAdvanceNonceAccountInstruction(account.PublicKey(), solana.SysVarRecentBlockHashesPubkey, payer)
		move := w.transfer(lamports, alice, bob)
		signature, failed := w.sendUnchecked(w.sign(used, []solana.Instruction{advance.Build(), move}, []solana.PrivateKey{w.alice}))
		is(nonce() != used, "the nonce did not advance")
		w.slotAfter(w.transaction(signature).Slot)
		return failed
	}

	f.step("nonce: create the account", func() {
		initialize := system.NewInitializeNonceAccountInstruction(
			payer, account.PublicKey(), solana.SysVarRecentBlockHashesPubkey, solana.SysVarRentPubkey,
		)
		signature := w.send([]solana.Instruction{w.create(account, size, solana.SystemProgramID), initialize.Build()}, account)
		// A nonce advances to another value only in a later block than the one that set it.
		w.slotAfter(w.transaction(signature).Slot)
	})

	f.step("nonce: a transaction on it advances it, and so does a failing one", func() {
		equal("error", text(use(1_000)), "null")
		equal("error", text(use(1<<60)), instructionError(1, 1))
	})
}
