package convert

import (
	"errors"
	"slices"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// A run may decide which operand of a broadcast repeats: of x: [a] plus y: [b], x if a = 1, y if b = 1, and neither if
// a = b. A conversion first assumes equal extents, which gives the fastest code. Large models that declare the shapes
// of their outputs keep it: exporters that name each dimension anew mean equal extents. Other models are converted
// again, and operands are stretched.

const (
	// fewNodes is the largest number of nodes of a model whose operands may repeat although it declares its outputs.
	fewNodes = 64
	// mostBroadcasts limits the pairs of extents of which one may repeat: with many, the formulas of the shapes grow, and
	// so does the time of a compilation.
	mostBroadcasts = 8
)

// repeats says whether operands may repeat that only a run knows to have an extent of 1.
type repeats struct {
	how       repeating
	inference *ir.Inference // of the last conversion
	unlimited int           // the number of dimensions without a bound if extents are equal
}

type repeating uint8

const (
	assumedEqual repeating = iota
	mayRepeat
	mustBeEqual // the model is not valid otherwise, or its memory is not bounded as well
)

// settle begins the conversion again if it requires equal extents of which one might repeat. It begins again with equal
// extents if a conversion in which operands may repeat fails, or leaves more dimensions without a bound.
func (r *repeats) settle(m *Source, a *Attempt, err error) error {
	if errors.Is(err, errAgain) || r.how == mustBeEqual {
		return err
	}
	found, unlimited := len(r.inference.Broadcasts), 0
	for _, limit := range r.inference.Module.Limits {
		if sym.IsUnlimited(limit) {
			unlimited++
		}
	}
	switch {
	case r.how == mayRepeat && (err != nil || unlimited > r.unlimited):
		r.how = mustBeEqual
	case r.how == assumedEqual && found > 0 && found <= mostBroadcasts && len(a.States) == 0 &&
		(nodesOf(m.Proto.Graph) <= fewNodes || m.opens()):
		r.how, r.unlimited = mayRepeat, unlimited
	default:
		return err
	}
	a.forget(m)
	return errAgain
}

// opens reports whether the file leaves the shape of an output open.
func (m *Source) opens() bool {
	return slices.ContainsFunc(m.Proto.Graph.Output, func(o *wire.ValueInfoProto) bool {
		return o.Type == nil || o.Type.TensorType != nil && o.Type.TensorType.Shape == nil
	})
}
