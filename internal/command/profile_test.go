package command

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
)

// TestLost: the time that a launch loses on several threads, and the reason; nodes that a program for one thread
// computes in another kernel have no time to compare with.
func TestLost(t *testing.T) {
	list := []row{
		{Nodes: "a", Backend: "amd64", Ms: 3, Tiles: 8},
		{Nodes: "b", Backend: "amd64", Ms: 4, Tiles: 1, Alone: "one tile"},
		{Nodes: "c", Backend: "amd64", Ms: 3, Tiles: 3},
		{Nodes: "d", Backend: "amd64", Ms: 1, Tiles: 9},
		{Nodes: "e", Backend: "amd64", Ms: 1, Tiles: 2},
		{Nodes: "e", Backend: "amd64", Ms: 1, Tiles: 2},
	}
	addOneThread(list, []weir.KernelTime{
		{Nodes: "a", Backend: "amd64", Time: 4 * time.Millisecond},
		{Nodes: "b", Backend: "amd64", Time: 4 * time.Millisecond},
		{Nodes: "c", Backend: "amd64", Time: 4 * time.Millisecond},
		{Nodes: "d", Backend: "host", Time: 4 * time.Millisecond},
		{Nodes: "e", Backend: "amd64", Time: 3 * time.Millisecond},
	})
	for i, want := range []struct {
		lost float64
		why  string
	}{{1, "hand-over"}, {2, "one tile"}, {1, "3 tiles: a gain of 1.50 at most"}, {0, "hand-over"}, {0.25, "hand-over"},
		{0.25, "hand-over"}} {
		r := list[i]
		_, why := r.lostBy(2)
		if lost := r.lost(2); math.Abs(lost-want.lost) > 1e-9 || !strings.HasPrefix(why, want.why) {
			t.Errorf("%+v loses %v, %s", r, lost, why)
		}
	}
}

// TestWhy: a launch of more than 2 % of a run that reaches less than half of its limit has a reason, and no other has.
func TestWhy(t *testing.T) {
	probe := weir.Roofline{Core: 100, All: 100}
	moment := time.Microsecond
	list := rows([]weir.KernelTime{
		{Kernel: "fast", Count: 1, Time: 100 * moment, Slots: 90 * 100_000, Delays: []string{"a"}},
		{Kernel: "slow", Count: 1, Time: 90 * moment, Slots: 100_000, Why: []string{"b"}, Delays: []string{"c"}},
		{Kernel: "short", Count: 20, Time: 20 * moment, Delays: []string{"d"}},
		{Kernel: "copy", Count: 1, Time: 10 * moment},
		{Kernel: "little", Count: 1, Time: moment, Delays: []string{"e"}},
	}, probe)
	if limit := limitOf(list); math.Abs(limit-0.091) > 1e-9 { // 9,100,000 operations at 100 GFLOP/s
		t.Errorf("a limit of %v ms", limit)
	}
	var got []string
	for _, r := range list {
		got = append(got, r.Kernel+": "+strings.Join(r.Why, ", "))
	}
	want := "fast: ; slow: b, c; short: a launch is so short that its beginning takes a part of it, d; " +
		"copy: memory is copied, with nothing else to do meanwhile; little: "
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
