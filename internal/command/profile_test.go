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
