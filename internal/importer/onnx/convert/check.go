package convert

import (
	"github.com/weirml/weir/internal/importer/onnx/schema"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// check holds a node to the form that its operator has at a version of its domain: the number of inputs and outputs,
// the attributes and their types. An operator that the table does not know is its rule's own business. A deprecated one
// keeps the form it had.
func check(n *wire.NodeProto, version int64) error {
	op, ok := schema.Lookup(n.Domain, n.OpType, version)
	if ok && op.Deprecated {
		op, ok = schema.Lookup(n.Domain, n.OpType, op.Since-1)
	}
	if !ok {
		return nil
	}
	named := *n
	named.Name = sourceOf(n)
	return op.Check(&named)
}
