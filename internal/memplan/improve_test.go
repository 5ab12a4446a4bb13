package memplan

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/sym"
)

// trainingStep returns a step of many layers: results from first to last, and their derivatives from last to first. For
// each weight's derivative, all pieces of a result are extracted, and then multiplied one after the other with that
// result's derivative. Updates end the live ranges of the weights' derivatives.
func trainingStep(layers int) Graph {
	var g Graph
	value := func(size int64) int {
		g.Values = append(g.Values, Value{Size: sym.Const(size)})
		return len(g.Values) - 1
	}
	node := func(makes []int, uses ...int) { g.Nodes = append(g.Nodes, Node{Uses: uses, Makes: makes}) }
	results := []int{value(1000)}
	for range layers {
		y := value(1000)
		node([]int{y}, results[len(results)-1])
		results = append(results, y)
	}
	derivatives := make([]int, layers+1)
	derivatives[layers] = value(1000)
	node([]int{derivatives[layers]}, results[layers])
	for i := layers - 1; i > 0; i-- {
		derivatives[i] = value(1000)
		node([]int{derivatives[i]}, derivatives[i+1])
	}
	var updates [][]int
	for i := range layers {
		var parts, products []int
		for range 4 {
			parts = append(parts, value(900))
			node(parts[len(parts)-1:], results[i])
		}
		for _, part := range parts {
			products = append(products, value(1))
			node(products[len(products)-1:], derivatives[i+1], part)
		}
		updates = append(updates, products)
	}
	for _, products := range updates {
		node(nil, products...)
	}
	return g
}

// TestOrderOfTraining: a weight's derivative is computed as soon as its operands are, in training steps of more layers
// than a search of sets of nodes can handle.
func TestOrderOfTraining(t *testing.T) {
	for _, layers := range []int{1, 2, 5, 20, 60, 150} {
		g := trainingStep(layers)
		order, _, err := Order(g, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := Peak(g, order, nil)
		if err != nil {
			t.Fatal(err)
		}
		// All results, the last derivative and a piece, and the small values beside them.
		if most := int64(layers+5)*1000 + 8; got > most {
			t.Errorf("%d layers: a peak of %d, want %d at most", layers, got, most)
		}
	}
}

// TestImproved: moves give an order in which the nodes can run, with the peak that they report, no higher than before.
func TestImproved(t *testing.T) {
	lower := 0
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 3))
		d := randomDag(random, 2+random.IntN(30), 2+random.IntN(20), 1)
		clear(d.fixed)
		given := make([]int32, len(d.uses))
		for v := range given {
			given[v] = int32(v)
		}
		_, before := d.curve(given, 0, d.start(0), 0)
		found := d.improved(given, d.start(0), 0, 0, 20_000)
		if found == nil {
			continue
		}
		checkOrder(t, d, found)
		_, after := d.curve(found, 0, d.start(0), 0)
		was, is := slices.Max(before), slices.Max(after)
		if is > was {
			t.Fatalf("seed %d: a peak of %d becomes %d", seed, was, is)
		}
		if is < was {
			lower++
		}
	}
	if lower < 500 {
		t.Errorf("%d peaks are lower, of 2000", lower)
	}
}
