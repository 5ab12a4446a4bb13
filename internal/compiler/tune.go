package compiler

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/schedule"
)

// Choice is what a kernel does otherwise than the table says; a field that is zero is as the table says.
type Choice struct {
	schedule.Choice
	Tile int64 // outputs that a convolution of 3 × 3 computes at once each way, by Winograd's algorithms; 1: directly
}

// over is c where it says something, else other.
func (c Choice) over(other Choice) Choice {
	return Choice{schedule.Choice{Vectors: cmp.Or(c.Vectors, other.Vectors), Rows: cmp.Or(c.Rows, other.Rows)},
		cmp.Or(c.Tile, other.Tile)}
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

// Choices are the choices for a module's kernels, by the nodes of the model that they compute; All holds for every
// kernel, before its own.
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
		if choice.Tile > tile && strings.Contains(", "+nodes+", ", ", "+node+", ") {
			tile = choice.Tile
		}
	}
	return tile
}

// asked is what a compilation asked choices of.
type asked struct{ tile, panel bool }

// Tiled reports whether some convolution may be computed in tiles, by Winograd's algorithms: choices can have it
// computed directly.
func (c *Compiled) Tiled() bool { return c.asked.tile }

// run is a row's pass, with what was chosen.
func (c *Compiled) run(p *PassRow, m *ir.Module, o *Options) error {
	chosen := p.Choosing
	if chosen == nil {
		return p.Run(m)
	}
	if c.forBlocks(o) {
		chosen = p.ChoosingForBlocks
	}
	brains := 1.0
	if o.Precision == dtype.BF16 {
		brains = o.Machine.BrainSpeed()
	}
	return chosen(m, brains, func(node string) int64 {
		c.asked.tile = true
		return o.Choices.tileOf(node)
	})
}

// chosen answers what schedule asks.
func (c *Compiled) chosen(o *Options) func(nodes string) schedule.Choice {
	return func(nodes string) schedule.Choice {
		c.asked.panel = true
		return o.Choices.of(nodes).Choice
	}
}

// Candidates are the choices to try for the program's kernels: lists of those between which only one can be taken. They
// are independent enough to be tried list by list.
func (c *Compiled) Candidates() (lists [][]Choice) {
	if c.Tiled() {
		lists = append(lists, []Choice{{Tile: 2}, {Tile: 4}, {Tile: 1}})
	}
	if c.asked.panel {
		var list []Choice
		for vectors := int64(2); vectors <= mostVectors; vectors++ {
			if usual := c.Machine.Tile.Columns * 4 / int64(c.Machine.VectorBytes); vectors != usual {
				list = append(list, Choice{Choice: schedule.Choice{Vectors: vectors}})
			}
		}
		lists = append(lists, list, []Choice{{Choice: schedule.Choice{Rows: -1}}, {Choice: schedule.Choice{Rows: 1}}})
	}
	return lists
}

// mostVectors is the most vectors of a panel that are tried.
const mostVectors = 4

// Nodes are the model's nodes that a kernel computes: the key of its choice.
func (c *Compiled) Nodes(kernel int) string { return c.Loop.Kernels[kernel].Source }

// Trial is what a program compiled with some choices came to, beside one without that ran in alternation with it: what
// a machine does besides changes all times from one moment to the next. Times are of a run, of the kernels that compute
// these nodes.
type Trial struct {
	Times, Usual map[string]time.Duration
	Changed      map[string]bool // whose loops the choices changed
}

// Ratio is a kernel's time beside the usual one; 1 if it is the same kernel, or the two programs do not have it both.
func (t *Trial) Ratio(nodes string) float64 {
	usual, time := t.Usual[nodes], t.Times[nodes]
	if usual <= 0 || time <= 0 || !t.Changed[nodes] {
		return 1
	}
	return float64(time) / float64(usual)
}

// Changed are the nodes whose kernels are other loops than another program's.
func (c *Compiled) Changed(from *Compiled) map[string]bool {
	changed, were := map[string]bool{}, from.texts()
	for nodes, text := range c.texts() {
		changed[nodes] = nodes != "" && text != were[nodes]
	}
	return changed
}

// texts are the kernels' loops, without the kernels' names, by the nodes that they compute.
func (c *Compiled) texts() map[string]string {
	texts := map[string]string{}
	for _, k := range c.Loop.Kernels {
		unnamed := *k
		unnamed.Name = ""
		texts[k.Source] += unnamed.String()
	}
	return texts
}

// worthwhile is the part of a kernel's usual time that a choice must save: less is noise.
const worthwhile = 0.04

// Tune finds choices that take less time than the table's, kernel by kernel: it tries each candidate for all kernels at
// once, and takes for each the one with the shortest time. A candidate that fails is passed over. Kernels that a
// candidate joins otherwise than the table does stay as they were. No trial is begun once more is false.
func Tune(lists [][]Choice, try func(Choices) (*Trial, error), more func() bool) Choices {
	best := Choices{Kernels: map[string]Choice{}}
	ratios := map[string]float64{}
	for _, list := range lists {
		winners := map[string]Choice{}
		for _, candidate := range list {
			if !more() {
				break
			}
			t, err := try(Choices{All: candidate, Kernels: best.Kernels})
			if err != nil {
				continue
			}
			for nodes := range t.Times {
				if r := t.Ratio(nodes); r < cmp.Or(ratios[nodes], 1)-worthwhile {
					ratios[nodes], winners[nodes] = r, candidate
				}
			}
		}
		for nodes, winner := range winners {
			best.Kernels[nodes] = winner.over(best.Kernels[nodes])
		}
	}
	return best
}

// Here reports whether the program runs as its choices are for: its code is for the machine that its kernels are
// scheduled for.
func (c *Compiled) Here() bool { return c.Code.Machine.Name == c.Machine.Name }
