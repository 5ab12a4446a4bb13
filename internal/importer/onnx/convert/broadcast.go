package convert

import (
	"errors"
	"slices"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// A run may decide which operand of a broadcast repeats: of x: [a] plus y: [b], x if a = 1, y if b = 1, and neither if
// a = b. A conversion first assumes equal extents, which gives the fastest code. A model whose outputs have shapes in
// the file keeps it: exporters that name each dimension anew mean equal extents. If the file leaves the shape of an
// output open, the model is converted again, and operands are stretched whose extents are known at entry.

// mostBroadcasts limits the pairs of extents of which one may repeat: with many, the formulas of the shapes grow, and
// so does the time of a compilation.
const mostBroadcasts = 8

// repeats says whether operands may repeat that only a run knows to have an extent of 1.
type repeats struct {
	how       repeating
	unlimited int // the number of dimensions without a bound if extents are equal
}

type repeating uint8

const (
	assumedEqual repeating = iota
	mayRepeat
	mustBeEqual // the model is not valid otherwise, or its memory is not bounded as well
)

// found begins the conversion again if the module requires equal extents of which one might repeat, or if more extents
// have no bound than with equal ones.
func (r *repeats) found(m *Source, c *ir.Inference, states map[string]string) error {
	unlimited := 0
	for _, limit := range c.Module.Limits {
		if sym.IsUnlimited(limit) {
			unlimited++
		}
	}
	switch {
	case r.how == mayRepeat && unlimited > r.unlimited:
		r.how = mustBeEqual
	case r.how == assumedEqual && len(c.Broadcasts) > 0 && len(c.Broadcasts) <= mostBroadcasts && m.opens(states) &&
		!loops(m.Proto.Graph.Node):
		r.how, r.unlimited = mayRepeat, unlimited
	default:
		return nil
	}
	return errAgain
}

// failed begins the conversion again with equal extents if it fails with operands that may repeat.
func (r *repeats) failed(err error) error {
	if r.how != mayRepeat || errors.Is(err, errAgain) {
		return err
	}
	r.how = mustBeEqual
	return errAgain
}

// opens reports whether the file leaves the shape of an output open, and no output is the new value of an input, whose
// shape it must have.
func (m *Source) opens(states map[string]string) bool {
	return len(states) == 0 && slices.ContainsFunc(m.Proto.Graph.Output, func(o *wire.ValueInfoProto) bool {
		return o.Type == nil || o.Type.TensorType != nil && o.Type.TensorType.Shape == nil
	})
}

// loops reports whether nodes, or those of their graphs, are loops: bounds of what a loop carries rest on extents that
// are equal.
func loops(nodes []*wire.NodeProto) bool {
	return slices.ContainsFunc(nodes, func(n *wire.NodeProto) bool {
		return n.OpType == "Loop" || n.OpType == "Scan" ||
			slices.ContainsFunc(n.Attribute, func(a *wire.AttributeProto) bool { return a.G != nil && loops(a.G.Node) })
	})
}
