package compiler

import (
	"fmt"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// sharedBytes is the error of a module in which the compiler's own rewriting has made a carve live on when its bytes are carved again.
type sharedBytes struct{ first, second string }

func (e *sharedBytes) Error() string {
	return fmt.Sprintf("%s and %s share bytes of one storage at once", e.first, e.second)
}

// checkPlaces checks, in the order in which the steps run, that no two carves of one storage share bytes at once: not as operand and result of one kernel
// either. ir.CheckMemory has shown that of the module as it was written; since then it was rewritten.
func (c *Compiled) checkPlaces() error {
	of := map[*loop.Buffer][]*loop.Buffer{} // the carves of a storage
	for _, b := range c.Loop.Buffers {
		if b.View != nil && b.Carved() {
			of[b.View.Of] = append(of[b.View.Of], b)
		}
	}
	if len(of) == 0 {
		return nil
	}
	time := lifetimesBy(c.Loop, func(b *loop.Buffer) *loop.Buffer {
		for b.View != nil && !b.Carved() {
			b = b.View.Of
		}
		return b
	})
	given := ir.Assuming(c.IR)
	for _, carves := range of {
		for i, x := range carves {
			for _, y := range carves[:i] {
				a, b := time.alive[x], time.alive[y]
				if a == nil || b == nil || !a.meets(*b) || given.Apart(rangeOf(x), rangeOf(y)) {
					continue
				}
				if c.plain {
					panic(diag.Internalf("%v, with nothing rewritten", &sharedBytes{x.Name, y.Name}))
				}
				return &sharedBytes{x.Name, y.Name}
			}
		}
	}
	return nil
}

// rangeOf is where a carve begins in its storage, and how long it is, in bytes.
func rangeOf(b *loop.Buffer) ir.Bytes {
	return ir.Bytes{Begin: bytesOf(b, b.View.Offset), Size: bytesOf(b, sym.Product(b.Shape...))}
}

// written is a module as text, and the contents of its constants.
type written struct {
	text   string
	consts map[string]*tensor.Tensor
	check  func() error
}

// write keeps a module as it is.
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

func (w *written) parse() (*ir.Module, error) {
	m, err := ir.Parse(w.text, ir.ParseOptions{Data: func(name string, _ dtype.DType, _ []int64, _ int64) (*tensor.Tensor, error) {
		return w.consts[name], nil
	}})
	if err != nil {
		return nil, diag.Internalf("reading a module that was written: %v", err)
	}
	m.Check = w.check
	return m, nil
}
