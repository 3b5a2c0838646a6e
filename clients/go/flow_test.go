// Package flow drives solana-go, as the Go module proxy ships it, against a running node: the main flow,
// step by step.
//
// A step is a subtest. The first one that fails ends the flow, so its name is the last one printed.
// Bounds: a step has 60 s, a wait inside it 30 s. A wait is always for a value, never for time to pass.
package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/rpc/jsonrpc"
)

const (
	stepMax  = 60 * time.Second
	waitMax  = 30 * time.Second
	pollWait = 50 * time.Millisecond
)

func TestSolanaGo(t *testing.T) {
	f := &flow{t: t}
	w := connect()
	defer w.close()
	nodeSteps(f, w)
	f.step("airdrop", func() {
		for _, owner := range []solana.PrivateKey{w.payer, w.alice, w.bob} {
			w.airdrop(owner.PublicKey(), 10)
		}
		equal("the payer's balance", w.balance(w.payer.PublicKey()), 10*solana.LAMPORTS_PER_SOL)
	})
	token := tokenSteps(f, w, "token", solana.TokenProgramID, "spl-token")
	token2022 := tokenSteps(f, w, "token-2022", solana.Token2022ProgramID, "spl-token-2022")
	subscriptionSteps(f, w)
	failingSteps(f, w, token)
	lookupTableSteps(f, w)
	simulateSteps(f, w)
	nonceSteps(f, w)
	programSteps(f, w)
	genesisProgramSteps(f, w)
	historySteps(f, w, token)
	historySteps(f, w, token2022)
	finalizedSteps(f, w, token)
	testValidatorSteps(f, w)
}

// flow runs named steps in order.
type flow struct {
	t *testing.T
}

// step runs body as a subtest, and ends the flow if it fails.
func (f *flow) step(name string, body func()) {
	f.t.Helper()
	passed := f.t.Run(name, func(t *testing.T) {
		ended := make(chan string, 1)
		go func() { ended <- failureOf(body) }()
		select {
		case failure := <-ended:
			if failure != "" {
				t.Fatal(failure)
			}
		case <-time.After(stepMax):
			t.Fatalf("not done after %s", stepMax)
		}
	})
	if !passed {
		f.t.FailNow()
	}
}

// failure is what check and equal panic with: a step ends where it fails.
type failure string

func failureOf(body func()) (text string) {
	defer func() {
		if cause := recover(); cause != nil {
			text = fmt.Sprintf("%v\n%s", cause, debug.Stack())
		}
	}()
	body()
	return ""
}

// check ends the step if there is an error.
func check(err error) {
	if err != nil {
		panic(failure(err.Error()))
	}
}

// ok is the value of a call that must not fail.
func ok[T any](value T, err error) T {
	check(err)
	return value
}

// is ends the step unless the condition holds.
func is(holds bool, format string, args ...any) {
	if !holds {
		panic(failure(fmt.Sprintf(format, args...)))
	}
}

// equal ends the step unless both are deeply equal.
func equal(what string, got, want any) {
	is(reflect.DeepEqual(got, want), "%s: got %s, want %s", what, show(got), show(want))
}

// show is the value as JSON, with its Go form where that says more.
func show(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%#v", value)
	}
	return fmt.Sprintf("%s (%T)", text, value)
}

// text is the value as JSON: solana-go decodes numbers of unknown type now to one type, now to another.
func text(value any) string {
	return string(ok(json.Marshal(value)))
}

// refusal is the JSON-RPC error of a call that must be refused with this code.
func refusal(code int, err error) *jsonrpc.RPCError {
	var refused *jsonrpc.RPCError
	is(errors.As(err, &refused), "a JSON-RPC error was expected, got %v", err)
	equal("the error's code", refused.Code, code)
	return refused
}

// until asks probe again until it has an answer.
func until[T any](what string, probe func() (T, bool)) T {
	for end := time.Now().Add(waitMax); time.Now().Before(end); time.Sleep(pollWait) {
		if value, found := probe(); found {
			return value
		}
	}
	panic(failure(fmt.Sprintf("waited %s for %s", waitMax, what)))
}

// receiver is a subscription of solana-go.
type receiver[T any] interface {
	Recv(context.Context) (T, error)
}

// next is the first notification, from now on, that wanted accepts.
func next[T any](what string, subscription receiver[T], wanted func(T) bool) T {
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	for {
		item, err := subscription.Recv(ctx)
		is(err == nil, "no such %s notification: %v", what, err)
		if wanted(item) {
			return item
		}
	}
}

func anything[T any](T) bool { return true }

func pointer[T any](value T) *T { return &value }
