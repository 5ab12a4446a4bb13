package compiler

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/schedule/recipes"
)

// Choice overrides the schedule's table for a kernel; a zero field does not override.
type Choice struct {
	schedule.Choice
	Tile int64 // the side of a tile of outputs of a 3 × 3 convolution, by Winograd's algorithms; 1: direct
}

// over returns c, with other's values for fields that c leaves zero.
func (c Choice) over(other Choice) Choice {
	return Choice{schedule.Choice{Vectors: cmp.Or(c.Vectors, other.Vectors), Rows: cmp.Or(c.Rows, other.Rows)},
		cmp.Or(c.Tile, other.Tile)}
}

// String describes the choice in words.
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

// Choices are the choices for a module's kernels, by the model's nodes that they compute. All applies to every kernel
// and has priority over its own.
type Choices struct {
	All     Choice
	Kernels map[string]Choice
}

// of returns the choice for a kernel that computes these nodes.
func (c *Choices) of(nodes string) Choice { return c.All.over(c.Kernels[nodes]) }

// tileOf returns the tile of a convolution, whichever kernel computes it.
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

// asked records which choices a compilation asked for.
type asked struct{ tile, panel bool }

// Tiled reports whether a convolution may be computed by Winograd's algorithms; a choice can make it direct.
func (c *Compiled) Tiled() bool { return c.asked.tile }

// run runs a pass, with the choices if it asks for them.
func (c *Compiled) run(p *PassRow, m *ir.Module, o *Options) error {
	chosen := p.Choosing
	if chosen == nil {
		return p.Run(m)
	}
	if c.forBlocks(o) {
		chosen = p.ChoosingForBlocks
	}
	speed := 1.0
	if o.Precision == dtype.BF16 {
		speed = o.Machine.BF16Speed()
	}
	return chosen(m, recipes.CostsOn(o.Machine), speed, func(node string) int64 {
		c.asked.tile = true
		return o.Choices.tileOf(node)
	})
}

// chosen returns the function that answers the schedule's requests for choices.
func (c *Compiled) chosen(o *Options) func(nodes string) schedule.Choice {
	return func(nodes string) schedule.Choice {
		c.asked.panel = true
		return o.Choices.of(nodes).Choice
	}
}

// Candidates returns the choices to try for the program's kernels, in lists of alternatives. The lists are independent
// enough to be tried one after another.
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

// Nodes returns the model's nodes that a kernel computes: the key of its choice.
func (c *Compiled) Nodes(kernel int) string { return c.Loop.Kernels[kernel].Source }

// Trial holds the times of a program with some choices, and of one without that ran in alternation with it, since a
// machine's speed varies. Times are per run, by the nodes that a kernel computes.
type Trial struct {
	Times, Usual map[string]time.Duration
	Changed      map[string]bool // the nodes whose kernels' loops the choices changed
}

// Ratio returns a kernel's time divided by the usual one; 1 if the choices did not change its loops, or a time is
// missing.
func (t *Trial) Ratio(nodes string) float64 {
	usual, time := t.Usual[nodes], t.Times[nodes]
	if usual <= 0 || time <= 0 || !t.Changed[nodes] {
		return 1
	}
	return float64(time) / float64(usual)
}

// Changed returns the nodes whose kernels have other loops than in another program.
func (c *Compiled) Changed(from *Compiled) map[string]bool {
	changed, were := map[string]bool{}, from.texts()
	for nodes, text := range c.texts() {
		changed[nodes] = nodes != "" && text != were[nodes]
	}
	return changed
}

// texts returns the text of the kernels' loops, without names, by the nodes that they compute.
func (c *Compiled) texts() map[string]string {
	texts := map[string]string{}
	for _, k := range c.Loop.Kernels {
		unnamed := *k
		unnamed.Name = ""
		texts[k.Source] += unnamed.String()
	}
	return texts
}

// worthwhile is the share of a kernel's usual time that a choice must save; less is noise.
const worthwhile = 0.04

// Tune returns choices that take less time than the table's. It tries each candidate for all kernels at once, and takes
// the fastest for each kernel. It skips candidates that fail, and kernels that a candidate fuses differently. It begins
// no trial after more returns false.
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

// Here reports whether the program's code is for the machine that its kernels are scheduled for.
func (c *Compiled) Here() bool { return c.Code.Machine.Name == c.Machine.Name }
