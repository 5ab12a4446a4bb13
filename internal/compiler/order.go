package compiler

import (
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/sym"
)

// orderSamples are the sizes of every dimension at which two orders are compared.
var orderSamples = []int64{1, 7, 64, 500}

// order reorders the module's steps if that makes the arena smaller. Steps that bind dimensions, branch or loop do not
// move. Because fewer live bytes may still need a larger plan, the new order must need no more at any sample, and less
// at one.
func (c *Compiled) order() error {
	body, _, err := c.ordered(0)
	c.Loop.Body = body
	return err
}

// predicted returns the arena's size in bytes at each of orderSamples, for the order that the module will have.
func (c *Compiled) predicted() ([]int64, error) {
	own := c.Loop.Body
	_, sizes, err := c.ordered(fewMoves)
	if err == nil && sizes == nil {
		sizes, err = c.arenaOf(own)
	}
	c.Loop.Body = own
	for err == nil && len(sizes) < len(orderSamples) {
		sizes = append(sizes, sizes[0]) // they are all the same
	}
	return sizes, err
}

// fewMoves limits the search of memplan.Order when many orders are only compared.
const fewMoves = 10_000

// ordered returns the better order of the steps after so many moves of the search (0: the usual number), and the
// arena's sizes for it; no sizes if there was no second order.
func (c *Compiled) ordered(moves int64) (body []loop.Step, sizes []int64, err error) {
	own := c.Loop.Body
	found := fewerAlive(c.Loop, moves)
	if found == nil {
		return own, nil, nil
	}
	c.overwrites = map[live.Overwrite]bool{} // the two orders have the same kernels
	defer func() { c.overwrites = nil }()
	before, err := c.arenaOf(own)
	if err != nil {
		return own, nil, err
	}
	after, err := c.arenaOf(found)
	c.Loop.Body = own
	if err != nil {
		return own, nil, err
	}
	wins := false
	for i := range before {
		if after[i] > before[i] {
			return own, before, nil
		}
		wins = wins || after[i] < before[i]
	}
	if wins {
		return found, after, nil
	}
	return own, before, nil
}

// arenaOf returns the arena's size in bytes for an order of the steps, at each sample that has one.
func (c *Compiled) arenaOf(body []loop.Step) (sizes []int64, err error) {
	c.Loop.Body = body
	p, _, err := c.problemOf(newAssembly(c.Loop, live.Ranges(c.Loop)), loop.Temp, "")
	if err != nil {
		return nil, err
	}
	samples := orderSamples
	if !slices.ContainsFunc(p.Buffers, func(b memplan.Buffer) bool { _, number := b.Size.Const(); return !number }) {
		samples = samples[:1] // they are all the same
	}
	for _, size := range samples {
		at, err := p.At(func(name sym.Name) (int64, bool) {
			r, ok := c.Loop.Dims.Get(name)
			return min(max(size, r.Min), r.Max), ok
		})
		if err != nil {
			sizes = append(sizes, 0) // beyond any memory: this sample says nothing
			continue
		}
		s, err := memplan.Plan(at, memplan.Options{Layouts: 1})
		if err != nil {
			return nil, err
		}
		height, _ := s.Arena.Const()
		sizes = append(sizes, height)
	}
	return sizes, nil
}

// fewerAlive returns the steps in an order with fewer live bytes at the peak; nil if the model's own order is as good.
func fewerAlive(m *loop.Module, moves int64) []loop.Step {
	g := memplan.Graph{Dims: m.Dims}
	values := map[*loop.Buffer]int{}
	value := func(b *loop.Buffer) (int, bool) {
		root := b.Root()
		if root.Kind == loop.Weight || root.Kind == loop.Input {
			return 0, false
		}
		if v, ok := values[root]; ok {
			return v, true
		}
		size := sym.Const(0) // outputs have storage of their own from the beginning
		if root.Kind == loop.Temp {
			// A buffer whose size has no bound is not in the arena.
			if limit, err := live.AtLimits(m, root); err == nil {
				size = limit
			}
		}
		values[root] = len(g.Values)
		g.Values = append(g.Values, memplan.Value{Name: root.Name, Size: size, Keep: root.Kind == loop.Output})
		return values[root], true
	}
	made := map[int]int{} // the last node that wrote a value, which a later writer must follow
	readers := map[int][]int{}
	for i, step := range m.Body {
		n := memplan.Node{}
		reads, writes, simple := live.Operands(step)
		n.Fixed = !simple
		for _, b := range reads {
			if v, ok := value(b); ok {
				n.Uses = append(n.Uses, v)
				readers[v] = append(readers[v], i)
				if before, written := made[v]; written {
					n.After = append(n.After, before)
				}
			}
		}
		for _, b := range writes {
			v, ok := value(b)
			if !ok {
				continue
			}
			switch before, again := made[v]; {
			case again && before == i: // the step writes other elements of it
			case again:
				n.Uses = append(n.Uses, v)
				n.After = append(append(n.After, before), slices.DeleteFunc(slices.Clone(readers[v]), func(r int) bool {
					return r == i
				})...)
			default:
				n.Makes = append(n.Makes, v)
			}
			made[v] = i
		}
		g.Nodes = append(g.Nodes, n)
	}
	found, _, err := memplan.Order(g, moves)
	if err != nil || slices.IsSorted(found) {
		return nil // sizes that cannot be computed at a sample keep the model's own order
	}
	body := make([]loop.Step, len(found))
	for i, at := range found {
		body[i] = m.Body[at]
	}
	return body
}
