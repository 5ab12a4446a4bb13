package nn

import (
	"fmt"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// embedding is a table of vectors.
type embedding struct {
	count, extent int
	settings
}

// Embedding gives each id, an integer from 0 to count − 1, its vector of a table: "weight", [count, extent]. Ids are an
// array of any rank and any integer type; the vectors are a last axis after theirs.
func Embedding(count, extent int, options ...Option) Layer {
	return &embedding{count, extent, settingsOf(options)}
}

func (l *embedding) String() string { return fmt.Sprintf("Embedding(%d, %d)", l.count, l.extent) }

func (l *embedding) Declare(d *Declaration) {
	d.Param("weight", l.dtype, l.initial(Normal(0, 1)), l.count, l.extent)
}

func (l *embedding) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) {
		return c.dead()
	}
	if !x[0].DType().IsInt() {
		return c.Failf("Cast them to an integer type", "the ids are %v; they must be integers", x[0])
	}
	return []*array.Array{c.Rows("weight", c.notBelow(x[0], l.count))}
}

// notBelow has ids below 0 be errors in training, as those beyond the table are: a take counts them from the end, and
// would train the last rows. Such an id is moved so far that the error names it.
func (c *Context) notBelow(ids *array.Array, count int) *array.Array {
	if !c.Training() || !ids.DType().IsSigned() {
		return ids
	}
	ids = c.Cast(ids, weir.I64)
	below := c.Less(ids, array.Scalar(c.Scope, int64(0)))
	return c.Where(below, c.Sub(ids, array.Scalar(c.Scope, int64(count))), ids)
}

// positions is a table of vectors that are added by position.
type positions struct {
	most, extent int
	settings
}

// Positions adds a learnt vector to each position of x[…, positions, extent]: "weight", [most, extent]. There may be
// most positions at the most.
func Positions(most, extent int, options ...Option) Layer {
	return &positions{most, extent, settingsOf(options)}
}

func (l *positions) String() string { return fmt.Sprintf("Positions(%d, %d)", l.most, l.extent) }

func (l *positions) Declare(d *Declaration) {
	d.Param("weight", l.dtype, l.initial(Normal(0, 0.02)), l.most, l.extent)
}

func (l *positions) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) {
		return c.dead()
	}
	n := x[0].Dim(-2)
	if x[0].Rank() < 2 || x[0].Dim(-1) != l.extent || n > l.most {
		return c.Failf("", "the input is %v; the layer takes at most %d positions of %d elements", x[0], l.most, l.extent)
	}
	w := c.Param("weight")
	if n != l.most {
		w = c.Take(w, c.upTo(n), 0)
	}
	return []*array.Array{c.Add(x[0], w)}
}
