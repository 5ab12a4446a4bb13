package compiler

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// effort is how much the compiler changes a module. Less effort keeps the storage that a module lays out itself valid.
type effort uint8

const (
	fullEffort  effort = iota // all passes and the schedule run
	unfused                   // only needed passes run, and the simplest schedule
	unscheduled               // loops stay as they are lowered
)

// sharedBytes is the error of a module whose rewriting extended a carve's live range beyond the point at which its
// bytes are carved again.
type sharedBytes struct{ first, second string }

func (e *sharedBytes) Error() string {
	return fmt.Sprintf("%s and %s share bytes of one storage at once", e.first, e.second)
}

// checkCarves returns an error if two live carves of one storage share bytes, as an operand and a result of one kernel
// too. ir.CheckMemory has proved that before the module was rewritten.
func (c *Compiled) checkCarves() error {
	shared := c.sharedCarves()
	if shared == nil {
		return nil
	}
	if c.effort == unscheduled {
		panic(diag.Internalf("%v, with nothing rewritten", shared))
	}
	return shared
}

// sharedCarves returns two live carves of one storage that share bytes; nil if there are none.
func (c *Compiled) sharedCarves() *sharedBytes {
	if !slices.ContainsFunc(c.Loop.Buffers, (*loop.Buffer).Carved) {
		return nil
	}
	f := &flow{meets: map[[2]*loop.Buffer]bool{}}
	f.before(c.Loop.Body, carveSet{})
	given, at := ir.Assuming(c.IR), carves(c.IR.Main.Body, map[string]sym.Expr{})
	for _, x := range c.Loop.Buffers { // in their order, so that the error is always the same
		for _, y := range c.Loop.Buffers {
			if !f.meets[[2]*loop.Buffer{x, y}] || x.View.Of != y.View.Of || given.Disjoint(rangeOf(x, at), rangeOf(y, at)) {
				continue
			}
			return &sharedBytes{x.Name, y.Name}
		}
	}
	return nil
}

// carveSet is a set of carves that may still be read.
type carveSet map[*loop.Buffer]bool

// with returns the set with the carves of buffers added.
func (p carveSet) with(buffers ...*loop.Buffer) carveSet {
	out := maps.Clone(p)
	for _, b := range buffers {
		if at := carveOf(b); at != nil {
			out[at] = true
		}
	}
	return out
}

// carveOf returns the carve that a buffer lies in; nil if it lies in none.
func carveOf(b *loop.Buffer) *loop.Buffer {
	for b != nil && !b.Carved() {
		if b.View == nil {
			return nil
		}
		b = b.View.Of
	}
	return b
}

// flow is a liveness analysis of carves: meets holds each pair in which one is live when the other is written.
type flow struct{ meets map[[2]*loop.Buffer]bool }

// before returns the carves that are live before steps; after has the carves that are live after them.
func (f *flow) before(steps []loop.Step, after carveSet) carveSet {
	for i := len(steps) - 1; i >= 0; i-- {
		switch s := steps[i].(type) {
		case *loop.If:
			then, otherwise := f.before(s.Then, after), f.before(s.Else, after)
			maps.Copy(then, otherwise)
			after = then.with(s.Cond)
		case *loop.Loop:
			for again := after.with(s.Trip, s.Cond, s.Index); ; {
				first := f.before(s.Body, again)
				grown := maps.Clone(again)
				maps.Copy(grown, first)
				if len(grown) == len(again) {
					after = again
					break
				}
				again = grown
			}
		default:
			after = f.step(s, after)
		}
	}
	return maps.Clone(after)
}

// step is before for a step without bodies.
func (f *flow) step(s loop.Step, after carveSet) carveSet {
	var reads, writes []*loop.Buffer
	switch s := s.(type) {
	case *loop.Host:
		reads, writes = s.In, s.Out
	case *loop.Bind:
		reads = []*loop.Buffer{s.From}
	default:
		reads, writes, _ = live.Operands(s)
	}
	alive := after.with(reads...).with(writes...)
	before := maps.Clone(after)
	for _, b := range writes {
		at := carveOf(b)
		if at == nil {
			continue
		}
		for other := range alive {
			if other != at {
				f.meets[[2]*loop.Buffer{at, other}] = true
			}
		}
		if b == at { // all of it
			delete(before, at)
		}
	}
	return before.with(reads...)
}

// rangeOf returns a carve's bytes in its storage. It takes offsets in bytes from at, because a view's offset in
// elements is a quotient, about which less can be proved.
func rangeOf(b *loop.Buffer, at map[string]sym.Expr) ir.Bytes {
	begin, ok := at[b.Source]
	if !ok {
		begin = live.BytesOf(b, b.View.Offset)
	}
	return ir.Bytes{Begin: begin, Size: live.BytesOf(b, sym.Product(b.Shape...))}
}

// carves adds to at the offsets in bytes, by value name, of the carves of a block and its inner blocks.
func carves(b *ir.Block, at map[string]sym.Expr) map[string]sym.Expr {
	for _, n := range b.Nodes {
		if offset, ok := n.Attrs["offset"].(sym.Expr); ok && n.Op.Name() == ir.PlaceOp {
			at[n.Outputs[0].Name] = offset
		}
		for _, r := range n.Regions {
			carves(r, at)
		}
	}
	return at
}

// written is a copy of a module: its text and its constants' contents.
type written struct {
	text   string
	consts map[string]*tensor.Tensor
	check  func() error
}

// write returns a copy of a module.
func write(m *ir.Module) *written {
	w := &written{text: m.String(), consts: map[string]*tensor.Tensor{}, check: m.Check}
	var block func(b *ir.Block)
	block = func(b *ir.Block) {
		for _, v := range b.Consts {
			w.consts[v.Name] = v.Const
		}
		for _, n := range b.Nodes {
			for _, r := range n.Regions {
				block(r)
			}
		}
	}
	for _, f := range m.Funcs {
		block(f.Body)
	}
	return w
}

// parse returns the module.
func (w *written) parse() (*ir.Module, error) {
	m, err := ir.Parse(w.text, ir.ParseOptions{Data: func(name string, _ dtype.DType, _ []int64, _ int64) (*tensor.Tensor,
		error) {
		return w.consts[name], nil
	}})
	if err != nil {
		return nil, diag.Internalf("reading a module that was written: %v", err)
	}
	m.Check = w.check
	return m, nil
}
