package memplan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/sym"
)

// twoBranches returns a graph of two branches, each of which makes a large value and reduces it to a small one, in an
// order that makes both large ones first.
func twoBranches(size sym.Expr) memplan.Graph {
	small := sym.Const(8)
	return memplan.Graph{
		Values: []memplan.Value{{Name: "x", Size: small}, {Name: "big1", Size: size}, {Name: "big2", Size: size},
			{Name: "small1", Size: small}, {Name: "small2", Size: small}, {Name: "y", Size: small, Keep: true}},
		Nodes: []memplan.Node{
			{Name: "grow1", Uses: []int{0}, Makes: []int{1}}, {Name: "grow2", Uses: []int{0}, Makes: []int{2}},
			{Name: "shrink1", Uses: []int{1}, Makes: []int{3}}, {Name: "shrink2", Uses: []int{2}, Makes: []int{4}},
			{Name: "add", Uses: []int{3, 4}, Makes: []int{5}},
		},
	}
}

// TestOrder: the peaks of small graphs before and after, with constraints of every kind.
func TestOrder(t *testing.T) {
	n := sym.Dim("n")
	dims := sym.NewDims()
	dims.Set(sym.User("n"), sym.Range{Min: 1, Max: sym.NoMax})
	large := n.Mul(sym.Const(1000))
	for _, c := range []struct {
		name         string
		change       func(g *memplan.Graph)
		before, want int64 // peaks at n = 10
	}{
		{"one after the other", func(*memplan.Graph) {}, 20008, 10016},
		{"one must come later", func(g *memplan.Graph) { g.Nodes[2].After = []int{1} }, 20008, 10016},
		{"both must come later", func(g *memplan.Graph) {
			g.Nodes[2].After, g.Nodes[3].After = []int{1}, []int{0}
		}, 20008, 20008},
		{"a fixed node between", func(g *memplan.Graph) { g.Nodes[1].Fixed = true }, 20008, 20008},
		{"in place", func(g *memplan.Graph) {
			g.Values[3].Size, g.Values[4].Size = large, large
			for i := range 2 {
				g.Nodes[2+i].Reuse = []memplan.Reuse{{Make: 3 + i, Use: 1 + i}}
			}
		}, 20008, 20008},
		{"a view keeps its storage alive", func(g *memplan.Graph) {
			g.Values[3].View, g.Values[3].Of = true, 1
			g.Values[4].View, g.Values[4].Of = true, 2
		}, 20008, 20008},
		{"work", func(g *memplan.Graph) { g.Nodes[2].Work = n.Mul(sym.Const(5000)) }, 70008, 60016},
	} {
		g := twoBranches(large)
		g.Dims = dims
		c.change(&g)
		at := bind(map[string]int64{"n": 10})
		given := make([]int, len(g.Nodes))
		for i := range given {
			given[i] = i
		}
		before, _, err := memplan.Peak(g, given, at)
		if err != nil {
			t.Fatal(err)
		}
		order, proved, err := memplan.Order(g, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := memplan.Peak(g, order, at)
		if err != nil {
			t.Fatal(err)
		}
		if before != c.before || got != c.want || !proved {
			t.Errorf("%s: %d becomes %d (proved: %v) by %v, want %d to become %d", c.name, before, got, proved, order, c.before,
				c.want)
		}
		if again, _, _ := memplan.Order(g, 0); !slices.Equal(again, order) {
			t.Errorf("%s: %v, and then %v", c.name, order, again)
		}
	}
}

// TestOrderErrors: invalid graphs are input errors that name the fault.
func TestOrderErrors(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(g *memplan.Graph)
	}{
		{"does not come before it", func(g *memplan.Graph) { g.Nodes[0].Uses = []int{3} }},
		{"does not come before it", func(g *memplan.Graph) { g.Nodes[1].After = []int{1} }},
		{"does not come before it", func(g *memplan.Graph) { g.Nodes[1].After = []int{-7} }},
		{"uses value 9", func(g *memplan.Graph) { g.Nodes[0].Uses = []int{9} }},
		{"makes value -1", func(g *memplan.Graph) { g.Nodes[0].Makes = []int{-1} }},
		{"made elsewhere", func(g *memplan.Graph) { g.Nodes[1].Makes = []int{1} }},
		{"view of an unknown value", func(g *memplan.Graph) { g.Values[1].View, g.Values[1].Of = true, 1 }},
		{"view of an unknown value", func(g *memplan.Graph) { g.Values[1].View, g.Values[1].Of = true, 77 }},
		{"in place of", func(g *memplan.Graph) { g.Nodes[0].Reuse = []memplan.Reuse{{Make: 2, Use: 0}} }},
		{"has no range", func(g *memplan.Graph) { g.Values[1].Size = sym.Dim("q") }},
		{"add up to over", func(g *memplan.Graph) { g.Values[1].Size = sym.Const(1 << 62) }},
	} {
		g := twoBranches(sym.Const(100))
		c.change(&g)
		_, _, err := memplan.Order(g, 0)
		if !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want an input error with %q", err, c.want)
		}
	}
}
