package convert

import (
	"github.com/weirml/weir/internal/importer/onnx/schema"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// check compares a node with the form of its operator at a version of its domain: the number of inputs and outputs,
// the attributes and their types. It checks no operator that is missing in the table; its rule does. A deprecated
// operator keeps its last form.
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
