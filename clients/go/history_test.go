// Reading back what the earlier steps did: by signature, by address, by block, parsed and not.

package flow

import (
	"encoding/json"

	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/rpc"
)

func historySteps(f *flow, w *world, life *tokenLife) {
	about := "history of " + life.parsedAs

	f.step(about+": a transaction, raw and parsed", func() {
		raw := w.transaction(life.transferred)
		equal("error", raw.Meta.Err, nil)
		tx := ok(raw.Transaction.GetTransaction())
		equal("signature", tx.Signatures[0], life.transferred)
		check(tx.VerifySignatures())
		amounts := map[solana.PublicKey]string{}
		for _, balance := range raw.Meta.PostTokenBalances {
			equal("its program", *balance.ProgramId, life.program)
			amounts[ok(tx.Message.Account(balance.AccountIndex))] = balance.UiTokenAmount.Amount
		}
		equal("balances after", amounts, map[solana.PublicKey]string{life.alice: "700", life.bob: "300"})
		is(raw.BlockTime != nil && *raw.Meta.ComputeUnitsConsumed > 0, "no time or no units")

		var kinds []string
		for _, signature := range []solana.Signature{life.minted, life.transferred, life.approved, life.burned, life.closed} {
			instruction := w.parsedTransaction(signature).Transaction.Message.Instructions[0]
			// Both token programs are parsed under one name.
			equal("program", instruction.Program, "spl-token")
			kinds = append(kinds, kindOf(instruction))
		}
		equal("kinds", kinds, []string{"mintToChecked", "transferChecked", "approveChecked", "burnChecked", "closeAccount"})
		var inner []string
		for _, group := range w.parsedTransaction(life.created).Meta.InnerInstructions {
			for _, instruction := range group.Instructions {
				inner = append(inner, kindOf(instruction))
			}
		}
		is(contains(inner, "initializeAccount3"), "inner instructions %v", inner)
	})

	f.step(about+": signatures, newest first, in pages", func() {
		page := func(options rpc.GetSignaturesForAddressOpts) (signatures []solana.Signature) {
			options.Commitment = rpc.CommitmentConfirmed
			for _, entry := range ok(w.rpc.GetSignaturesForAddressWithOpts(background, life.alice, &options)) {
				signatures = append(signatures, entry.Signature)
			}
			return signatures
		}
		all := page(rpc.GetSignaturesForAddressOpts{})
		equal("the newest and the oldest", []solana.Signature{all[0], all[len(all)-1]}, []solana.Signature{life.closed, life.created})
		middle := page(rpc.GetSignaturesForAddressOpts{Before: all[0], Until: all[3], Limit: pointer(10)})
		equal("a page", middle, all[1:3])
	})

	f.step(about+": the block at each level of detail", func() {
		slot := w.transaction(life.minted).Slot
		options := rpc.GetBlockOpts{Commitment: rpc.CommitmentConfirmed, MaxSupportedTransactionVersion: version0}
		full := ok(w.rpc.GetBlockWithOpts(background, slot, &options))
		equal("parent", full.ParentSlot, slot-1)
		var signatures []solana.Signature
		for _, each := range full.Transactions {
			signatures = append(signatures, ok(each.GetTransaction()).Signatures[0])
		}
		options.TransactionDetails = rpc.TransactionDetailsSignatures
		equal("signatures alone", ok(w.rpc.GetBlockWithOpts(background, slot, &options)).Signatures, signatures)
		options.TransactionDetails = rpc.TransactionDetailsNone
		equal("no transactions", len(ok(w.rpc.GetBlockWithOpts(background, slot, &options)).Transactions), 0)
		options.TransactionDetails = rpc.TransactionDetailsFull
		parsed := ok(w.rpc.GetParsedBlockWithOpts(background, slot, &options))
		equal("parsed", len(parsed.Transactions), len(signatures))
		equal("time", *ok(w.rpc.GetBlockTime(background, slot)), *full.BlockTime)
		blocks := ok(w.rpc.GetBlocks(background, slot, pointer(slot+5), rpc.CommitmentConfirmed))
		equal("the first of the blocks", blocks[0], slot)
		limited := *ok(w.rpc.GetBlocksWithLimit(background, slot, 1, rpc.CommitmentConfirmed))
		equal("one block", limited, rpc.BlocksResult{slot})
	})
}

func finalizedSteps(f *flow, w *world, life *tokenLife) {
	f.step("history: what was confirmed becomes final", func() {
		until("the status to be finalized", func() (bool, bool) {
			status := ok(w.rpc.GetSignatureStatuses(background, true, life.closed)).Value[0]
			return true, status.ConfirmationStatus == rpc.ConfirmationStatusFinalized
		})
		final := ok(w.rpc.GetTransaction(background, life.closed, &rpc.GetTransactionOpts{Encoding: solana.EncodingBase64}))
		equal("slot", final.Slot, w.transaction(life.closed).Slot)
	})

	f.step("history: many accounts, counts and blockhashes", func() {
		many := ok(w.rpc.GetMultipleAccounts(background, w.payer.PublicKey(), life.mint, life.alice)).Value
		equal("owners", []solana.PublicKey{many[0].Owner, many[1].Owner}, []solana.PublicKey{solana.SystemProgramID, life.program})
		is(many[2] == nil, "a closed account is there")
		is(ok(w.rpc.GetTransactionCount(background, rpc.CommitmentConfirmed)) > 10, "hardly any transactions")
		latest := ok(w.rpc.GetLatestBlockhash(background, rpc.CommitmentConfirmed)).Value
		is(latest.LastValidBlockHeight > ok(w.rpc.GetBlockHeight(background, rpc.CommitmentConfirmed)), "a blockhash that is over")
		valid := ok(w.rpc.IsBlockhashValid(background, latest.Blockhash, rpc.CommitmentConfirmed))
		equal("valid", valid.Value, true)
	})
}

func kindOf(instruction *rpc.ParsedInstruction) string {
	var parsed struct {
		Type string `json:"type"`
	}
	check(json.Unmarshal(ok(instruction.Parsed.MarshalJSON()), &parsed))
	return parsed.Type
}
