package compiler

import (
	"strings"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/pass"
)

// mostChunkings is how often stretches are looked for that are better computed in pieces: each time all of the model's kernels are made anew.
const mostChunkings = 3

// chunk has what is alive at the fullest steps computed in pieces, where the module does not keep within the budget and takes less memory then.
func (c *Compiled) chunk(m *ir.Module, o Options) error {
	for range mostChunkings {
		s := newSqueezer(c, *o.Budget)
		if !s.bounded() {
			return nil
		}
		before, err := s.whole(c.Loop.Body)
		if err != nil || before <= o.Budget.Bytes {
			return err
		}
		full := s.fullest()
		done, undo := pass.Chunk(m, func(n *ir.Node) bool { return full[n.Source] })
		if done == nil {
			return nil
		}
		less, err := c.remade(m, o, before)
		if err != nil {
			return err
		}
		if !less {
			undo()
			_, err := c.remade(m, o, before)
			return err
		}
		for _, d := range done {
			c.Savings = append(c.Savings, savingOf(d))
		}
	}
	return nil
}

// fullest are the sources of the steps at which more is alive than the budget leaves.
func (s *squeezer) fullest() map[string]bool {
	out := map[string]bool{}
	p := s.profile(s.m.Body)
	for _, step := range s.m.Body {
		most := int64(0)
		for at := p.time.at[step].first; at <= p.time.at[step].last; at++ {
			most = max(most, p.live[at])
		}
		if _, plain := step.(*loop.Launch); plain && most > s.target() {
			for _, name := range strings.Split(sourceOf(step), ",") {
				out[strings.TrimSpace(name)] = true
			}
		}
	}
	delete(out, "")
	return out
}

// remade makes the kernels anew, and reports whether the module takes less then.
func (c *Compiled) remade(m *ir.Module, o Options, before int64) (bool, error) {
	c.drop()
	if err := c.kernels(m, o, func(string, func() string) {}); err != nil {
		return false, err
	}
	s := newSqueezer(c, *o.Budget)
	if !s.bounded() {
		return false, nil
	}
	after, err := s.whole(c.Loop.Body)
	return after < before, err
}

func savingOf(d pass.Chunked) Saving {
	first, last := d.Nodes[0], d.Nodes[len(d.Nodes)-1]
	s := Saving{Kind: ChunkUp, Tensor: first.Outputs[0].Name, At: last.Source, Pieces: d.Pieces}
	for _, n := range d.Nodes[:len(d.Nodes)-1] {
		s.Bytes = max(s.Bytes, pass.SizeInBytes(n.Outputs[0])/d.Pieces*(d.Pieces-1))
	}
	return s
}
