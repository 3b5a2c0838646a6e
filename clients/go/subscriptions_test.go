// Subscriptions that follow the chain and one signature; those of accounts are with the tokens.

package flow

import (
	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/rpc"
	"github.com/gagliardetto/solana-go/rpc/ws"
)

func subscriptionSteps(f *flow, w *world) {
	payer, bob := w.payer.PublicKey(), w.bob.PublicKey()

	f.step("subscriptions: slots and roots follow the chain", func() {
		slots, roots := ok(w.ws.SlotSubscribe()), ok(w.ws.RootSubscribe())
		first := next[*ws.SlotResult]("slot", slots, anything[*ws.SlotResult])
		equal("its parent", first.Parent, first.Slot-1)
		is(first.Root <= first.Parent, "root %d above parent %d", first.Root, first.Parent)
		equal("the next slot", next[*ws.SlotResult]("slot", slots, anything[*ws.SlotResult]).Slot, first.Slot+1)
		root := *next[*ws.RootResult]("root", roots, anything[*ws.RootResult])
		equal("the next root", *next[*ws.RootResult]("root", roots, anything[*ws.RootResult]), root+1)
		slots.Unsubscribe()
		roots.Unsubscribe()
	})

	f.step("subscriptions: slot updates and votes", func() {
		updates := ok(w.ws.SlotsUpdatesSubscribe())
		kinds := []ws.SlotsUpdatesType{
			ws.SlotsUpdatesCreatedBank, ws.SlotsUpdatesFrozen, ws.SlotsUpdatesOptimisticConfirmation, ws.SlotsUpdatesRoot,
		}
		for _, kind := range kinds {
			update := next[*ws.SlotsUpdatesResult]("slotsUpdates", updates, func(item *ws.SlotsUpdatesResult) bool {
				return item.Type == kind
			})
			is(update.Slot > 0 && update.Timestamp != nil, "%s without slot or time", kind)
		}
		updates.Unsubscribe()
		votes := ok(w.ws.VoteSubscribe())
		vote := next[*ws.VoteResult]("vote", votes, anything[*ws.VoteResult])
		is(len(vote.Slots) > 0 && !vote.Hash.IsZero(), "a vote for nothing")
		votes.Unsubscribe()
	})

	f.step("subscriptions: a block that mentions an address, raw and parsed", func() {
		about := ws.NewBlockSubscribeFilterMentionsAccountOrProgram(payer)
		options := &ws.BlockSubscribeOpts{
			Commitment: rpc.CommitmentConfirmed, Encoding: solana.EncodingBase64,
			TransactionDetails: rpc.TransactionDetailsFull, MaxSupportedTransactionVersion: version0,
		}
		raw := ok(w.ws.BlockSubscribe(about, options))
		parsed := ok(w.ws.ParsedBlockSubscribe(about, options))
		w.socketSettled()
		signature := w.send([]solana.Instruction{w.transfer(1_000_000, payer, bob)})
		block := next[*ws.BlockResult]("block", raw, anything[*ws.BlockResult]).Value
		equal("its error", block.Err, nil)
		equal("its parent", block.Block.ParentSlot, block.Slot-1)
		equal("its transactions", len(block.Block.Transactions), 1)
		equal("their signature", ok(block.Block.Transactions[0].GetTransaction()).Signatures[0], signature)
		same := next[*ws.ParsedBlockResult]("block", parsed, anything[*ws.ParsedBlockResult]).Value
		equal("the parsed block", same.Block.Blockhash, block.Block.Blockhash)
		raw.Unsubscribe()
		parsed.Unsubscribe()
	})

	f.step("subscriptions: a signature at each commitment", func() {
		tx := w.sign(w.blockhash(), []solana.Instruction{w.transfer(1_000_001, payer, bob)}, nil)
		var waiting []*ws.SignatureSubscription
		for _, commitment := range []rpc.CommitmentType{rpc.CommitmentProcessed, rpc.CommitmentConfirmed, rpc.CommitmentFinalized} {
			waiting = append(waiting, ok(w.ws.SignatureSubscribe(tx.Signatures[0], commitment)))
		}
		w.socketSettled()
		equal("the signature", ok(w.rpc.SendTransactionWithOpts(background, tx, checked)), tx.Signatures[0])
		slot := uint64(0)
		for _, subscription := range waiting {
			item := next[*ws.SignatureResult]("signature", subscription, anything[*ws.SignatureResult])
			equal("its error", item.Value.Err, nil)
			is(item.Context.Slot >= slot, "slot %d after %d", item.Context.Slot, slot)
			slot = item.Context.Slot
		}
		status := ok(w.rpc.GetSignatureStatuses(background, true, tx.Signatures[0])).Value[0]
		equal("its status", status.ConfirmationStatus, rpc.ConfirmationStatusFinalized)
	})

	f.step("subscriptions: logs of all and of a failed transaction", func() {
		logs := ok(w.ws.LogsSubscribe(ws.LogsSubscribeFilterAll, rpc.CommitmentProcessed))
		w.socketSettled()
		tx := w.sign(w.blockhash(), []solana.Instruction{w.transfer(1<<60, payer, bob)}, nil)
		signature, failed := w.sendUnchecked(tx)
		entry := next[*ws.LogResult]("logs", logs, func(item *ws.LogResult) bool { return item.Value.Signature == signature })
		equal("its error", text(entry.Value.Err), text(failed))
		equal("its first line", entry.Value.Logs[0], "Program 11111111111111111111111111111111 invoke [1]")
		logs.Unsubscribe()
	})
}
