package core

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// scan converts Scan. Version 8 scans each element of a batch separately.
func scan(c *convert.Call) []*ir.Value {
	first := 0
	if c.Version < 9 {
		first = 1 // after the lengths
	}
	count := c.Int("num_scan_inputs", 0)
	states := len(c.In) - first - int(count)
	if count < 1 || states < 0 {
		c.Fault("%d scanned inputs among %d", count, len(c.In)-first)
	}
	in := make([]*ir.Value, 0, len(c.In)-first)
	for i := first; i < len(c.In); i++ {
		in = append(in, c.Input(i))
	}
	if c.Version < 9 {
		return scanBatch(c, in[:states], in[states:])
	}
	over := ops.ScanOver{InputAxes: c.Ints("scan_input_axes"), OutputAxes: c.Ints("scan_output_axes"),
		InputReversed: c.Ints("scan_input_directions"), OutputReverse: c.Ints("scan_output_directions")}
	axes := make([]int, count)
	for i := range axes {
		if i < len(over.InputAxes) {
			axes[i] = int(over.InputAxes[i])
		}
	}
	return ops.Scan(c.Builder, scanBody(c, c.Builder, in[:states], in[states:], axes), over, in[:states], in[states:])
}

// scanBody converts the body for states and slices of the scanned values.
func scanBody(c *convert.Call, b *ir.Builder, states, scanned []*ir.Value, axes []int) *ir.Block {
	proto := c.Graph("body")
	body, into := scanBlock(c, b, states, scanned, axes)
	body.Results = c.Scope.Body(proto, into, body.Params)
	if len(body.Results) < len(states) {
		c.Fault("the body has %d outputs for %d states", len(body.Results), len(states))
	}
	return body
}

// scanBlock returns a scan's region with its parameters: the states, and a slice of each scanned value.
func scanBlock(c *convert.Call, b *ir.Builder, states, scanned []*ir.Value, axes []int) (*ir.Block, *ir.Builder) {
	body := &ir.Block{}
	into := b.In(body)
	for _, v := range states {
		into.Param(v.Name, v.Type)
	}
	for i, v := range scanned {
		axis := c.Axis(int64(axes[i]), len(v.Type.Shape))
		into.Param(v.Name, ir.Type{DType: v.Type.DType, Shape: slices.Delete(slices.Clone(v.Type.Shape), int(axis),
			int(axis)+1)})
	}
	return body, into
}

// scanBatch converts version 8: axis 0 is the batch and axis 1 the scanned axis. Each element of the batch may have
// fewer steps than the axis has elements; the remaining rows of the outputs are zero.
func scanBatch(c *convert.Call, states, scanned []*ir.Value) []*ir.Value {
	b := c.Builder
	for _, v := range scanned {
		if len(v.Type.Shape) < 2 {
			c.Fault("%s is %s and is scanned along axis 1", v.Name, v.Type)
		}
	}
	extent, reversed := scanned[0].Type.Shape[1], c.Ints("directions")
	given := slices.Concat(states, scanned)
	lengths := c.Optional(0)
	if lengths != nil {
		given = append(given, lengths)
	}
	axes := make([]int, len(given))
	each, in := scanBlock(c, b, nil, given, axes)
	one, rows := each.Params[:len(states)], slices.Clone(each.Params[len(states):len(states)+len(scanned)])
	if lengths == nil {
		body := scanBody(c, in, one, rows, axes[:len(rows)])
		each.Results = ops.Scan(in, body, ops.ScanOver{InputReversed: reversed}, one, rows)
		return ops.Scan(b, each, ops.ScanOver{}, nil, given)
	}
	// A backward scan begins at the last step of its own sequence.
	length, step := ops.Cast(in, each.Params[len(each.Params)-1], dtype.I64), ops.Counting(in, dtype.I64, extent)
	on := ops.Binary(in, ops.Lt, step, length)
	for i, v := range rows {
		if i < len(reversed) && reversed[i] != 0 {
			back := ops.Binary(in, ops.Sub, ops.Binary(in, ops.Sub, length, step), ops.Scalar(in, dtype.I64, 1))
			rows[i] = ops.Gather(in, v, ops.Binary(in, ops.Max, back, ops.Scalar(in, dtype.I64, 0)), 0)
		}
	}
	rows = append(rows, on)
	body, into := scanBlock(c, in, one, rows, axes[:len(rows)])
	mask := body.Params[len(body.Params)-1]
	for i, v := range c.Scope.Body(c.Graph("body"), into, body.Params[:len(body.Params)-1]) {
		before := ops.Scalar(into, v.Type.DType, 0)
		if i < len(states) {
			before = body.Params[i]
		}
		body.Results = append(body.Results, ops.Where(into, mask, v, before))
	}
	if len(body.Results) < len(states) {
		c.Fault("the body has %d outputs for %d states", len(body.Results), len(states))
	}
	each.Results = ops.Scan(in, body, ops.ScanOver{}, one, rows)
	return ops.Scan(b, each, ops.ScanOver{}, nil, given)
}
