package nn

import (
	"fmt"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// embedding implements Embedding.
type embedding struct {
	count, extent int
	settings
}

// Embedding maps each id, an integer from 0 to count − 1, to a row of a table: "weight", [count, extent]. The ids are
// an array of any rank and any integer type; the result has an additional last axis of extent elements.
func Embedding(count, extent int, options ...Option) Layer {
	return &embedding{count, extent, settingsOf(options)}
}

func (l *embedding) String() string { return fmt.Sprintf("Embedding(%d, %d)", l.count, l.extent) }

// Declare declares the table, drawn from the standard normal distribution.
func (l *embedding) Declare(d *Declaration) {
	d.Param("weight", l.dtype, l.initial(Normal(0, 1)), l.count, l.extent)
}

// Apply takes ids and returns their rows.
func (l *embedding) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) {
		return c.dead()
	}
	if !x[0].DType().IsInt() {
		return c.Failf("Cast them to an integer type", "the ids are %v; they must be integers", x[0])
	}
	return []*array.Array{c.Rows("weight", c.notBelow(x[0], l.count))}
}

// notBelow makes negative ids errors in training, as ids beyond the table are. Without it, Take would count them from
// the end and the last rows would be trained. It subtracts count from such an id; the error then names the id.
func (c *Context) notBelow(ids *array.Array, count int) *array.Array {
	if !c.Training() || !ids.DType().IsSigned() {
		return ids
	}
	ids = c.Cast(ids, weir.I64)
	below := c.Less(ids, array.Scalar(c.Scope, int64(0)))
	return c.Where(below, c.Sub(ids, array.Scalar(c.Scope, int64(count))), ids)
}

// positions implements Positions.
type positions struct {
	most, extent int
	settings
}

// Positions adds a learnt vector to each position of x[…, positions, extent]: "weight", [most, extent]. The input's
// number of positions is limited by most.
func Positions(most, extent int, options ...Option) Layer {
	return &positions{most, extent, settingsOf(options)}
}

func (l *positions) String() string { return fmt.Sprintf("Positions(%d, %d)", l.most, l.extent) }

// Declare declares the table, drawn from a normal distribution of deviation 0.02.
func (l *positions) Declare(d *Declaration) {
	d.Param("weight", l.dtype, l.initial(Normal(0, 0.02)), l.most, l.extent)
}

// Apply takes and returns x[…, positions, extent].
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
