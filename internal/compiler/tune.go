package compiler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/pass"
	"github.com/weirml/weir/internal/schedule"
)

// Choice is what a kernel does otherwise than the table says; a field that is zero is as the table says.
type Choice struct {
	schedule.Choice
	Tile int64 // outputs that a convolution of 3 × 3 computes at once each way, by Winograd's algorithms; 1: directly
}

// over is c where it says something, else other.
func (c Choice) over(other Choice) Choice {
	return Choice{schedule.Choice{Vectors: cmp.Or(c.Vectors, other.Vectors), Rows: cmp.Or(c.Rows, other.Rows)}, cmp.Or(c.Tile, other.Tile)}
}

// String is what is chosen, in words.
func (c Choice) String() string {
	var list []string
	switch {
	case c.Tile == 1:
		list = append(list, "direct")
	case c.Tile > 1:
		list = append(list, fmt.Sprintf("Winograd %d×%d", c.Tile, c.Tile))
	}
	if c.Vectors > 0 {
		list = append(list, fmt.Sprintf("panels of %d vectors", c.Vectors))
	}
	switch {
	case c.Rows > 0:
		list = append(list, fmt.Sprintf("rows × %d", 1<<c.Rows))
	case c.Rows < 0:
		list = append(list, fmt.Sprintf("rows / %d", 1<<-c.Rows))
	}
	return strings.Join(list, ", ")
}

// Choices are the choices for a module's kernels, by the nodes of the model that they compute; All holds for every kernel, before its own.
type Choices struct {
	All     Choice
	Kernels map[string]Choice
}

// of is the choice for a kernel that computes these nodes.
func (c *Choices) of(nodes string) Choice { return c.All.over(c.Kernels[nodes]) }

// tileOf is the tile of a convolution: its node's, whatever kernel computes it.
func (c *Choices) tileOf(node string) int64 {
	if c.All.Tile != 0 {
		return c.All.Tile
	}
	tile := int64(0)
	for nodes, choice := range c.Kernels {
		if choice.Tile > tile && hasNode(nodes, node) {
			tile = choice.Tile
		}
	}
	return tile
}

func hasNode(nodes, node string) bool { return strings.Contains(", "+nodes+", ", ", "+node+", ") }

// choosing are the passes that choose algorithms.
var choosing = map[string]func(m *ir.Module, choose func(node string) int64) error{"winograd": pass.WinogradBy}

// asked are the kernels and nodes that a compilation asked choices for.
type asked struct {
	tiles  []string        // nodes
	panels map[string]bool // what kernels compute
}

// run is a row's pass, with what was chosen.
func (c *Compiled) run(p *passRow, m *ir.Module, o *Options) error {
	chosen := choosing[p.Name]
	if chosen == nil {
		return p.Run(m)
	}
	return chosen(m, func(node string) int64 {
		c.asked.tiles = append(c.asked.tiles, node)
		return o.Choices.tileOf(node)
	})
}

// chosen answers what schedule asks.
func (c *Compiled) chosen(o *Options) func(nodes string) schedule.Choice {
	c.asked.panels = map[string]bool{}
	return func(nodes string) schedule.Choice {
		c.asked.panels[nodes] = nodes != ""
		return o.Choices.of(nodes).Choice
	}
}

// Candidates are choices between which only one can be taken, and the kernels that they are for.
type Candidates struct {
	List []Choice
	For  func(nodes string) bool
}

// Candidates are the choices to try for the program's kernels. They are independent enough to be tried list by list.
func (c *Compiled) Candidates() (lists []Candidates) {
	if len(c.asked.tiles) > 0 {
		lists = append(lists, Candidates{[]Choice{{Tile: 1}, {Tile: 2}, {Tile: 4}}, func(nodes string) bool {
			return slices.ContainsFunc(c.asked.tiles, func(node string) bool { return hasNode(nodes, node) })
		}})
	}
	if panels := c.asked.panels; len(panels) > 0 {
		of := func(nodes string) bool { return panels[nodes] }
		var list []Choice
		for vectors := int64(1); vectors <= mostVectors; vectors++ {
			if usual := c.Machine.Tile.Columns * 4 / int64(c.Machine.VectorBytes); vectors != usual && vectors >= usual-1 {
				list = append(list, Choice{Choice: schedule.Choice{Vectors: vectors}})
			}
		}
		lists = append(lists, Candidates{list, of}, Candidates{[]Choice{{Choice: schedule.Choice{Rows: -1}}, {Choice: schedule.Choice{Rows: 1}}}, of})
	}
	return lists
}

// mostVectors is the most vectors of a panel that are tried.
const mostVectors = 4

// Nodes are the model's nodes that a kernel computes: the key of its choice.
func (c *Compiled) Nodes(kernel int) string { return c.Loop.Kernels[kernel].Source }

// Trial is what a program compiled with some choices came to.
type Trial struct {
	Times      map[string]time.Duration // in a run, of the kernels that compute these nodes
	Candidates []Candidates
}

// worthwhile is the part of a kernel's time that a choice must save: less is noise.
const worthwhile = 0.03

// Tune finds choices that take less time than the table's, kernel by kernel: it tries each candidate for all kernels at once, and takes for each the one with the shortest time. A candidate that
// fails is passed over; an error is of the first trial, which is of no choices. Kernels that a candidate joins otherwise than the first trial did stay as they were. No trial is begun
// once more is false.
func Tune(try func(Choices) (*Trial, error), more func() bool) (Choices, error) {
	best := Choices{Kernels: map[string]Choice{}}
	first, err := try(Choices{})
	if err != nil {
		return best, err
	}
	times := maps.Clone(first.Times)
	for _, candidates := range first.Candidates {
		winners := map[string]Choice{}
		for _, candidate := range candidates.List {
			if !more() {
				break
			}
			t, err := try(Choices{All: candidate, Kernels: best.Kernels})
			if err != nil {
				continue
			}
			for nodes, took := range t.Times {
				if before, ok := times[nodes]; ok && candidates.For(nodes) && float64(took) < float64(before)*(1-worthwhile) {
					times[nodes], winners[nodes] = took, candidate
				}
			}
		}
		for nodes, winner := range winners {
			best.Kernels[nodes] = winner.over(best.Kernels[nodes])
		}
	}
	return best, nil
}

// Here reports whether the program runs as its choices are for: its code is for the machine that its kernels are scheduled for.
func (c *Compiled) Here() bool { return c.Code.Machine.Name == c.Machine.Name }
