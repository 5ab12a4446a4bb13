package loop

import "github.com/weirml/weir/internal/sym"

// matrix is a compiled Tile.
type matrix struct {
	slot             int
	origin, row, col []integer
}

// matrix compiles a Tile.
func (c *resolver) matrix(t Tile) matrix {
	return matrix{c.memory(t.Buffer), c.symbols(t.Origin), c.symbols(t.Row), c.symbols(t.Col)}
}

// flat is the matrix of one execution: element (r, c) is at offset actual.of(r, c) of the memory; logical is the same
// for row-major strides.
type flat struct {
	*memory
	actual, logical steps
}

// steps is an offset, and the distances between rows and between columns.
type steps struct{ origin, row, col int64 }

// of returns the offset of element (r, c).
func (s steps) of(r, c int64) int64 { return s.origin + r*s.row + c*s.col }

// add returns the steps with those along one more axis added.
func (s steps) add(o, r, c, stride int64) steps {
	return steps{s.origin + o*stride, s.row + r*stride, s.col + c*stride}
}

// flat checks the matrix's corners, which bound every element's index, and returns the offsets of its elements.
func (t *matrix) flat(k *Kernel, f *frame, rows, cols int64) flat {
	m := &f.memories[t.slot]
	result := flat{memory: m}
	for d := range t.origin {
		o, r, c := t.origin[d](f), t.row[d](f), t.col[d](f)
		dr, dc := (rows-1)*r, (cols-1)*c
		low, high := o+min(dr, 0)+min(dc, 0), o+max(dr, 0)+max(dc, 0)
		if low < 0 || high >= m.shape[d] {
			kernelBug(k, "a tile of %%%s spans [%d, %d] of axis %d, outside its shape %v", m.name, low, high, d, m.shape)
		}
		result.actual = result.actual.add(o, r, c, m.strides[d])
		result.logical = result.logical.add(o, r, c, elements(m.shape[d+1:]))
	}
	return result
}

// load returns the bits of element (r, c).
func (t *flat) load(k *Kernel, r, c int64) uint64 {
	if t.written != nil {
		t.mark(k, t.logical.of(r, c), false)
	}
	return loadBits(t.width, t.data, t.actual.of(r, c))
}

// contract compiles a Contract.
func (c *resolver) contract(s *Contract) action {
	extents := c.symbols([]sym.Expr{s.M, s.N, s.K})
	cm, am, bm := c.matrix(s.C), c.matrix(s.A), c.matrix(s.B)
	dt := c.types[cm.slot]
	widenA, widenB := castFunc(dt, c.types[am.slot], false), castFunc(dt, c.types[bm.slot], false)
	multiply, add := binaryFunc(Mul, dt), binaryFunc(Add, dt)
	return func(f *frame) {
		rows, cols, depth := extents[0](f), extents[1](f), extents[2](f)
		if rows <= 0 || cols <= 0 || depth <= 0 {
			return
		}
		a, b, sum := am.flat(c.kernel, f, rows, depth), bm.flat(c.kernel, f, depth, cols), cm.flat(c.kernel, f, rows, cols)
		for i := int64(0); i < rows; i++ {
			for j := int64(0); j < cols; j++ {
				total := sum.load(c.kernel, i, j)
				for k := int64(0); k < depth; k++ {
					total = add(total, multiply(widenA(a.load(c.kernel, i, k)), widenB(b.load(c.kernel, k, j))))
				}
				storeBits(sum.width, sum.data, sum.actual.of(i, j), total)
			}
		}
	}
}
