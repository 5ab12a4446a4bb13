package compiler

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/weirml/weir/internal/schedule"
)

// vectors returns the choice of panels of n vectors.
func vectors(n int64) Choice { return Choice{Choice: schedule.Choice{Vectors: n}} }

// TestTune shows that each kernel that a candidate changes gets its fastest candidate, that candidates which fail are
// skipped, that gains within noise do not count, and that a choice stays while the next list is tried.
func TestTune(t *testing.T) {
	candidates := [][]Choice{{{Tile: 2}, {Tile: 4}}, {vectors(1), vectors(3), vectors(4)},
		{{Choice: schedule.Choice{Rows: -1}}}}
	// The time of a kernel with a choice, instead of a measurement; it is 100 for other choices.
	costs := map[string]map[Choice]time.Duration{
		"conv, relu": {{Tile: 2}: 80, {Tile: 4}: 50, vectors(3).over(Choice{Tile: 4}): 40,
			vectors(4).over(Choice{Tile: 4}): 45, vectors(1): 1},
		"product": {vectors(1): 98, vectors(3): 120, {Choice: schedule.Choice{Rows: -1}}: 90},
		"copy":    {{Tile: 2}: 10}, // by chance
	}
	var tried []string
	left := 100
	try := func(c Choices) (*Trial, error) {
		tried, left = append(tried, c.All.String()), left-1
		if c.All.Vectors == 1 {
			return nil, errors.New("it does not fit")
		}
		usual, times := map[string]time.Duration{}, map[string]time.Duration{}
		for nodes, table := range costs {
			usual[nodes], times[nodes] = 100*time.Duration(left), 100
			if d, ok := table[c.of(nodes)]; ok {
				times[nodes] = d
			}
			times[nodes] *= time.Duration(left) // the machine's speed changes from one trial to the next
		}
		if c.All.Tile == 4 {
			times["joined"] = 1 // by this candidate only
		}
		return &Trial{times, usual, map[string]bool{"conv, relu": true, "product": true, "joined": true}}, nil
	}
	got := Tune(candidates, try, func() bool { return left > 0 })
	want := map[string]Choice{"conv, relu": {Tile: 4, Choice: schedule.Choice{Vectors: 3}},
		"product": {Choice: schedule.Choice{Rows: -1}}}
	if !maps.Equal(got.Kernels, want) || got.All != (Choice{}) {
		t.Errorf("chosen %v, want %v", got.Kernels, want)
	}
	if len(tried) != 6 {
		t.Errorf("tried %q", tried)
	}
	left = 2 // the time is up after the first candidate
	if got = Tune(candidates, try, func() bool {
		return left > 1
	}); !maps.Equal(got.Kernels, map[string]Choice{"conv, relu": {Tile: 2}}) {
		t.Errorf("with little time: %v", got.Kernels)
	}
}

// TestChoices shows that a convolution has the tile of the kernel that computes it, and that a node is not confused
// with a node whose name begins with its name.
func TestChoices(t *testing.T) {
	c := Choices{Kernels: map[string]Choice{"conv, relu": {Tile: 4}, "conv_1": {Tile: 1}, "product": vectors(3)}}
	for node, want := range map[string]int64{"conv": 4, "relu": 4, "conv_1": 1, "conv_": 0, "product": 0, "": 0} {
		if got := c.tileOf(node); got != want {
			t.Errorf("%q has tile %d, want %d", node, got, want)
		}
	}
	c.All = Choice{Tile: 2}
	if got := c.tileOf("conv"); got != 2 {
		t.Errorf("a candidate for all kernels is tile %d of one with a choice", got)
	}
	if got, want := c.of("product").String(), "Winograd 2×2, panels of 3 vectors"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
