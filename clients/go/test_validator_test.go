// Answers that are `solana-test-validator`'s to the byte: of a program that is not there, of limits, of what genesis
// has. They are asked for in raw JSON where solana-go has no field for them.

package flow

import (
	"encoding/json"

	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/rpc"
)

var (
	memo4        = solana.MustPublicKeyFromBase58("Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH")
	slotsInEpoch = uint64(432_000)
)

// rawTransaction is the meta of a transaction as JSON has it.
func (w *world) rawMeta(signature solana.Signature) map[string]json.RawMessage {
	w.transaction(signature)
	var found struct {
		Meta map[string]json.RawMessage `json:"meta"`
	}
	config := rpc.M{"commitment": "confirmed", "encoding": "base64", "maxSupportedTransactionVersion": 0}
	check(w.rpc.RPCCallForInto(background, &found, "getTransaction", []any{signature, config}))
	return found.Meta
}

// rawSimulation is what a transaction would do as JSON has it.
func (w *world) rawSimulation(tx *solana.Transaction) map[string]json.RawMessage {
	var simulated struct {
		Value map[string]json.RawMessage `json:"value"`
	}
	config := rpc.M{"commitment": "confirmed", "encoding": "base64"}
	check(w.rpc.RPCCallForInto(background, &simulated, "simulateTransaction", []any{tx.MustToBase64(), config}))
	return simulated.Value
}

func testValidatorSteps(f *flow, w *world) {
	payer := w.payer.PublicKey()

	f.step("test-validator: a program that is not there is said to be not there", func() {
		call := []solana.Instruction{solana.NewInstruction(newKey().PublicKey(), nil, []byte{1})}
		tx := w.sign(w.blockhash(), call, nil)
		equal("error", string(w.rawSimulation(tx)["err"]), `"ProgramAccountNotFound"`)
		_, err := w.rpc.SendTransactionWithOpts(background, tx, checked)
		equal("message", refusal(-32002, err).Message, "Transaction simulation failed: Attempt to load a program that does not exist")
		signature, failed := w.sendUnchecked(tx)
		equal("error", failed, "ProgramAccountNotFound")
		meta := w.rawMeta(signature)
		equal("fee", string(meta["fee"]), "5000")
		for _, name := range []string{"logMessages", "innerInstructions"} {
			value, isThere := meta[name]
			// solana-go's JSON reader returns no bytes for null.
			is(isThere && (len(value) == 0 || string(value) == "null"), "%s of what never ran: %q", name, value)
		}
	})

	f.step("test-validator: loaded data is limited with the program's own data, and counted only once loaded", func() {
		limit := solana.NewInstruction(solana.ComputeBudget, nil, []byte{4, 0xe8, 0x03, 0, 0})
		// Created anew for each transaction: solana-go marks the payer in the accounts of its instructions.
		call := func() solana.Instruction {
			return solana.NewInstruction(solana.TokenProgramID, []*solana.AccountMeta{solana.Meta(payer)}, []byte{21})
		}
		tx := w.sign(w.blockhash(), []solana.Instruction{limit, call()}, nil)
		simulated := w.rawSimulation(tx)
		equal("error", string(simulated["err"]), `"MaxLoadedAccountsDataSizeExceeded"`)
		equal("size", string(simulated["loadedAccountsDataSize"]), "1000")

		stranger := &world{rpc: w.rpc, ws: w.ws, payer: newKey()}
		simulated = w.rawSimulation(stranger.sign(w.blockhash(), []solana.Instruction{call()}, nil))
		equal("error", string(simulated["err"]), `"AccountNotFound"`)
		equal("size", string(simulated["loadedAccountsDataSize"]), "0")
	})

	f.step("test-validator: the memo programs log as theirs", func() {
		older, newer := memo(solana.MemoProgramID, "hello"), memo(memo4, "hello")
		signature := w.send([]solana.Instruction{older, newer})
		logs := w.transaction(signature).Meta.LogMessages
		is(contains(logs, `Program log: Memo (len 5): "hello"`), "logs %v", logs)
		is(contains(logs, `Program log: Memo (len 5)`), "logs %v", logs)
		var units uint64
		check(json.Unmarshal(w.rawMeta(signature)["costUnits"], &units))
		is(units > *w.transaction(signature).Meta.ComputeUnitsConsumed, "cost of %d units", units)
	})

	f.step("test-validator: inflation and epochs of genesis", func() {
		equal("governor", ok(w.rpc.GetInflationGovernor(background, rpc.CommitmentConfirmed)), &rpc.GetInflationGovernorResult{
			Initial: 0.08, Terminal: 0.015, Taper: 0.15, Foundation: 0.05, FoundationTerm: 7,
		})
		equal("slots of an epoch", ok(w.rpc.GetEpochSchedule(background)).SlotsPerEpoch, slotsInEpoch)
	})
}
