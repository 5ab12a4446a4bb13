package compiler

import (
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// Files are the files that a model's weights lie in.
type Files interface {
	Keep(data [][]byte) // unmaps all pages but those of data, unless other users of the files read them
	Held() int64        // bytes that a limit counts now
}

// Asks is the memory that compiling takes from the system, in bytes of pages.
type Asks struct {
	Most    int64 // the peak while compiling, as a limit counts it: see mem.Block.Held
	Weights int64 // held after compiling: the weights that were laid out anew
	Paged   int64 // after compiling: the program's own file, from which weights are paged
	Kept    int64 // the share of Paged that a limit counts, since the file lies in memory
	Code    int64 // held after compiling
}

// Asks returns the memory that the compilation took and the program holds.
func (c *Compiled) Asks() Asks { return c.asks }

// hold adds blocks that the program owns, and updates the peak.
func (c *Compiled) hold(blocks ...*mem.Block) {
	c.blocks = append(c.blocks, blocks...)
	most := c.code()
	if c.files != nil {
		most += c.files.Held()
	}
	for _, b := range c.blocks {
		most += b.Held()
	}
	c.asks.Most = max(c.asks.Most, most)
}

// code returns the bytes of the code's pages.
func (c *Compiled) code() int64 {
	if c.Code == nil {
		return 0
	}
	return mem.WholePages(c.Code.Bytes)
}

// held sets the memory that the program holds after compilation.
func (c *Compiled) held() {
	c.asks.Code, c.asks.Weights, c.asks.Paged, c.asks.Kept = c.code(), 0, 0, 0
	for _, b := range c.blocks {
		if b.Kind() == mem.File {
			c.asks.Paged += b.Mapped()
			c.asks.Kept += b.Held()
		} else {
			c.asks.Weights += b.Mapped()
		}
	}
}

// Ahead returns the bytes of pages, as a limit counts them, that placing the code and laying out the weights will take.
// It is for Options.Planned.
func (c *Compiled) Ahead() int64 {
	if c.IR == nil {
		return c.code() // an artefact's weights are laid out
	}
	_, weights := c.anew(false)
	_, paged := c.anew(true)
	if _, inMemory := mem.Folder(c.folder); !inMemory {
		paged = 0
	}
	return c.code() + mem.WholePages(weights) + mem.WholePages(paged)
}

// HostHeap returns the most bytes of Go's heap that a host function of the program needs, with data dimensions at their
// limits. It leaves out functions whose needs depend on operands' contents.
func (c *Compiled) HostHeap() sym.Expr {
	var list []sym.Expr
	program.Walk(c.Program.Steps, func(step program.Step) {
		s, host := step.(*program.Host)
		if !host {
			return
		}
		times, plus, _ := hostop.Heap(s.Op, s.Attrs)
		total := sym.Const(plus)
		for i, n := range times {
			if n > 0 && s.In[i] >= 0 {
				total = total.Add(sym.Const(n).Mul(c.Program.Tensors[s.In[i]].Bytes()))
			}
		}
		list = append(list, sym.AtLimits(total, c.Loop.Limits))
	})
	return sym.MaxOf(append(list, sym.Const(0))...)
}
