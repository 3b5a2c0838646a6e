// What the node says of itself and of its chain.

package flow

import (
	"strings"

	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/rpc"
	"github.com/gagliardetto/solana-go/rpc/jsonrpc"
)

func nodeSteps(f *flow, w *world) {
	var identity solana.PublicKey

	f.step("node: health, version, genesis, cluster", func() {
		equal("health", ok(w.rpc.GetHealth(background)), "ok")
		version := ok(w.rpc.GetVersion(background))
		equal("dots of the version", strings.Count(version.SolanaCore, "."), 2)
		is(version.FeatureSet > 0, "feature set %d", version.FeatureSet)
		is(!ok(w.rpc.GetGenesisHash(background)).IsZero(), "a genesis hash of zeros")
		identity = ok(w.rpc.GetIdentity(background)).Identity
		nodes := ok(w.rpc.GetClusterNodes(background))
		equal("nodes", len(nodes), 1)
		equal("the node's key", nodes[0].Pubkey, identity)
		equal("its RPC address", "http://"+*nodes[0].RPC, env("HYDRANT_RPC_URL"))
	})

	f.step("node: slots, epoch and their leaders", func() {
		info := ok(w.rpc.GetEpochInfo(background, rpc.CommitmentConfirmed))
		is(info.SlotIndex < info.SlotsInEpoch, "slot %d of %d", info.SlotIndex, info.SlotsInEpoch)
		schedule := ok(w.rpc.GetEpochSchedule(background))
		equal("slots of an epoch", schedule.SlotsPerEpoch, info.SlotsInEpoch)
		equal("warm-up", schedule.Warmup, false)
		equal("leader", ok(w.rpc.GetSlotLeader(background, rpc.CommitmentConfirmed)), identity)
		equal("leaders", ok(w.rpc.GetSlotLeaders(background, info.AbsoluteSlot, 2)), []solana.PublicKey{identity, identity})
		leaders := ok(w.rpc.GetLeaderScheduleWithOpts(background, &rpc.GetLeaderScheduleOpts{Identity: &identity}))
		equal("slots that it leads", uint64(len(leaders[identity])), info.SlotsInEpoch)
		is(ok(w.rpc.GetFirstAvailableBlock(background)) <= info.AbsoluteSlot, "first available block")
		is(ok(w.rpc.MinimumLedgerSlot(background)) <= info.AbsoluteSlot, "minimum ledger slot")
		is(ok(w.rpc.GetBlockHeight(background, rpc.CommitmentProcessed)) >= info.BlockHeight, "block height")
		processed := ok(w.rpc.GetSlot(background, rpc.CommitmentProcessed))
		is(processed >= ok(w.rpc.GetSlot(background, rpc.CommitmentFinalized)), "finalized above processed")
		is(ok(w.rpc.GetMaxRetransmitSlot(background)) >= processed, "max retransmit slot")
		is(ok(w.rpc.GetMaxShredInsertSlot(background)) >= processed, "max shred insert slot")
	})

	f.step("node: votes, production, performance", func() {
		votes := until("a vote", func() (*rpc.GetVoteAccountsResult, bool) {
			votes := ok(w.rpc.GetVoteAccounts(background, nil))
			return votes, len(votes.Current) > 0
		})
		equal("the voter", votes.Current[0].NodePubkey, identity)
		is(votes.Current[0].ActivatedStake > 0, "no stake")
		until("a leader slot with its block", func() (bool, bool) {
			production := ok(w.rpc.GetBlockProduction(background)).Value
			slots, blocks := production.ByIdentity[identity][0], production.ByIdentity[identity][1]
			return true, blocks > 0 && slots >= blocks
		})
		ok(w.rpc.GetRecentPerformanceSamples(background, pointer(uint(3))))
		until("stake behind a block", func() (bool, bool) {
			slot := ok(w.rpc.GetSlot(background, rpc.CommitmentConfirmed))
			commitment := ok(w.rpc.GetBlockCommitment(background, slot))
			return true, commitment.TotalStake > 0 && len(commitment.Commitment) == 32
		})
	})

	f.step("node: inflation, supply, rent", func() {
		ok(w.rpc.GetInflationGovernor(background, rpc.CommitmentConfirmed))
		rate := ok(w.rpc.GetInflationRate(background))
		is(rate.Total >= rate.Validator, "inflation %v", rate)
		supply := ok(w.rpc.GetSupply(background, rpc.CommitmentConfirmed)).Value
		equal("supply", supply.Total, supply.Circulating+supply.NonCirculating)
		equal("rent of a token account", w.rent(165), uint64(2_039_280))
		largest := ok(w.rpc.GetLargestAccounts(background, rpc.CommitmentConfirmed, "")).Value
		is(len(largest) > 1 && largest[0].Lamports >= largest[1].Lamports, "largest accounts %v", largest)
	})

	f.step("node: what Agave has removed is refused as unknown", func() {
		for _, method := range []string{"getRecentBlockhash", "getFees", "getConfirmedBlock", "getStakeActivation"} {
			var out any
			refused := refusal(-32601, w.rpc.RPCCallForInto(background, &out, method, nil))
			equal("the message", refused.Message, "Method not found")
		}
	})

	f.step("node: a batch is answered call by call", func() {
		responses := ok(w.rpc.RPCCallBatch(background, jsonrpc.RPCRequests{
			jsonrpc.NewRequest("getSlot"), jsonrpc.NewRequest("getBalance", "no address"), jsonrpc.NewRequest("getHealth"),
		}))
		equal("answers", len(responses), 3)
		var codes []int
		for _, response := range responses {
			if response.Error != nil {
				codes = append(codes, response.Error.Code)
			}
		}
		equal("errors", codes, []int{-32602})
	})
}
