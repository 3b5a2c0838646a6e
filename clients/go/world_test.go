// What every step shares: the clients, the keys, and how a transaction is sent and confirmed.

package flow

import (
	"context"
	"fmt"
	"os"

	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/programs/system"
	"github.com/gagliardetto/solana-go/rpc"
	"github.com/gagliardetto/solana-go/rpc/ws"
)

var (
	background = context.Background()
	version0   = pointer(uint64(0))
)

// world is the node under test and the people on its ledger.
type world struct {
	rpc               *rpc.Client
	ws                *ws.Client
	payer, alice, bob solana.PrivateKey
}

func connect() *world {
	return &world{
		rpc:   rpc.New(env("HYDRANT_RPC_URL")),
		ws:    ok(ws.Connect(background, env("HYDRANT_WS_URL"))),
		payer: newKey(),
		alice: newKey(),
		bob:   newKey(),
	}
}

func (w *world) close() {
	w.ws.Close()
	check(w.rpc.Close())
}

// env is the value of an environment variable that crates/hydrant/tests/it/clients.rs sets.
func env(name string) string {
	value := os.Getenv(name)
	is(value != "", "%s must be set: see clients/README.md", name)
	return value
}

func newKey() solana.PrivateKey {
	return ok(solana.NewRandomPrivateKey())
}

func (w *world) airdrop(to solana.PublicKey, sol uint64) solana.Signature {
	signature := ok(w.rpc.RequestAirdrop(background, to, sol*solana.LAMPORTS_PER_SOL, rpc.CommitmentConfirmed))
	equal("the airdrop's error", w.confirmed(signature), nil)
	return signature
}

func (w *world) balance(of solana.PublicKey) uint64 {
	return ok(w.rpc.GetBalance(background, of, rpc.CommitmentConfirmed)).Value
}

func (w *world) rent(size uint64) uint64 {
	return ok(w.rpc.GetMinimumBalanceForRentExemption(background, size, rpc.CommitmentConfirmed))
}

func (w *world) blockhash() solana.Hash {
	return ok(w.rpc.GetLatestBlockhash(background, rpc.CommitmentConfirmed)).Value.Blockhash
}

// sign is a transaction paid for by the payer and signed by all that it wants.
func (w *world) sign(
	blockhash solana.Hash, instructions []solana.Instruction, signers []solana.PrivateKey,
	options ...solana.TransactionOption,
) *solana.Transaction {
	options = append(options, solana.TransactionPayer(w.payer.PublicKey()))
	tx := ok(solana.NewTransaction(instructions, blockhash, options...))
	ok(tx.Sign(func(key solana.PublicKey) *solana.PrivateKey {
		for _, signer := range append(signers, w.payer) {
			if signer.PublicKey().Equals(key) {
				return &signer
			}
		}
		return nil
	}))
	return tx
}

// send is the signature of a transaction that is confirmed and has not failed.
func (w *world) send(instructions []solana.Instruction, signers ...solana.PrivateKey) solana.Signature {
	tx := w.sign(w.blockhash(), instructions, signers)
	signature := ok(w.rpc.SendTransactionWithOpts(background, tx, checked))
	equal("the transaction's error", w.confirmed(signature), nil)
	return signature
}

// sendUnchecked is the signature of a transaction, and the error with which it is in its block.
func (w *world) sendUnchecked(tx *solana.Transaction) (solana.Signature, any) {
	signature := ok(w.rpc.SendTransactionWithOpts(background, tx, rpc.TransactionOpts{SkipPreflight: true}))
	return signature, w.confirmed(signature)
}

var checked = rpc.TransactionOpts{PreflightCommitment: rpc.CommitmentConfirmed}

// confirmed is the error, or nil, of a transaction that is now confirmed.
func (w *world) confirmed(signature solana.Signature) any {
	return until(fmt.Sprintf("%s to be confirmed", signature), func() (any, bool) {
		status := ok(w.rpc.GetSignatureStatuses(background, false, signature)).Value[0]
		if status == nil || status.ConfirmationStatus == rpc.ConfirmationStatusProcessed {
			return nil, false
		}
		return status.Err, true
	})
}

func (w *world) transaction(signature solana.Signature) *rpc.GetTransactionResult {
	return until(fmt.Sprintf("transaction %s", signature), func() (*rpc.GetTransactionResult, bool) {
		found, err := w.rpc.GetTransaction(background, signature, &rpc.GetTransactionOpts{
			Encoding: solana.EncodingBase64, Commitment: rpc.CommitmentConfirmed, MaxSupportedTransactionVersion: version0,
		})
		if err == rpc.ErrNotFound {
			return nil, false
		}
		check(err)
		return found, true
	})
}

func (w *world) parsedTransaction(signature solana.Signature) *rpc.GetParsedTransactionResult {
	return ok(w.rpc.GetParsedTransaction(background, signature, &rpc.GetParsedTransactionOpts{
		Commitment: rpc.CommitmentConfirmed, MaxSupportedTransactionVersion: version0,
	}))
}

// account is an account as it is confirmed, or nil.
func (w *world) account(address solana.PublicKey) *rpc.Account {
	found, err := w.rpc.GetAccountInfoWithOpts(background, address, &rpc.GetAccountInfoOpts{
		Encoding: solana.EncodingBase64, Commitment: rpc.CommitmentConfirmed,
	})
	if err == rpc.ErrNotFound {
		return nil
	}
	check(err)
	return found.Value
}

// parsed is what the node makes of an account's data.
func (w *world) parsed(address solana.PublicKey) parsedData {
	found := ok(w.rpc.GetAccountInfoWithOpts(background, address, &rpc.GetAccountInfoOpts{
		Encoding: solana.EncodingJSONParsed, Commitment: rpc.CommitmentConfirmed,
	}))
	return parsedOf(found.Value.Data)
}

// slotAfter waits for a confirmed slot after this one.
func (w *world) slotAfter(slot uint64) {
	until(fmt.Sprintf("a slot after %d", slot), func() (uint64, bool) {
		now := ok(w.rpc.GetSlot(background, rpc.CommitmentConfirmed))
		return now, now > slot
	})
}

// socketSettled returns once the node has answered everything asked on the socket so far: it answers in order.
func (w *world) socketSettled() {
	slots := ok(w.ws.SlotSubscribe())
	defer slots.Unsubscribe()
	next[*ws.SlotResult]("slot", slots, anything[*ws.SlotResult])
}

// create is an account of this size, paid for by the payer.
func (w *world) create(account solana.PrivateKey, size uint64, owner solana.PublicKey) solana.Instruction {
	return system.NewCreateAccountInstruction(w.rent(size), size, owner, w.payer.PublicKey(), account.PublicKey()).Build()
}

func (w *world) transfer(lamports uint64, from, to solana.PublicKey) solana.Instruction {
	return system.NewTransferInstruction(lamports, from, to).Build()
}
