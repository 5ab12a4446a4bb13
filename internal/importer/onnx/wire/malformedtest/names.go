package malformedtest

import (
	"fmt"
	"iter"

	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// rewire is an attack on the names that connect a model's values. edit changes m and returns the path that it attacked,
// or "" if the model has nothing to attack.
type rewire struct {
	name string
	edit func(m *wire.ModelProto) string
}

// firstNode returns the first node that satisfies want, and its path.
func firstNode(g *wire.GraphProto, want func(*wire.NodeProto) bool) (*wire.NodeProto, string) {
	for i, n := range g.Node {
		if want(n) {
			return n, fmt.Sprintf("graph.node[%d]", i)
		}
	}
	return nil, ""
}

// wired reports whether a node has an input and an output.
func wired(n *wire.NodeProto) bool { return len(n.Input) > 0 && len(n.Output) > 0 && n.Output[0] != "" }

// body returns the first graph among a node's attributes, nil if there is none.
func body(n *wire.NodeProto) *wire.GraphProto {
	for _, a := range n.Attribute {
		if a.G != nil {
			return a.G
		}
	}
	return nil
}

var rewires = []rewire{
	{"a node reads its own output", func(m *wire.ModelProto) string {
		n, path := firstNode(m.Graph, wired)
		if n != nil {
			n.Input[0] = n.Output[0]
		}
		return path
	}},
	{"the first node reads the last one's output", func(m *wire.ModelProto) string {
		n, path := firstNode(m.Graph, wired)
		last := m.Graph.Node[len(m.Graph.Node)-1]
		if n == nil || n == last || !wired(last) {
			return ""
		}
		n.Input[0] = last.Output[0]
		return path
	}},
	{"two nodes make one value", func(m *wire.ModelProto) string {
		if len(m.Graph.Node) == 0 {
			return ""
		}
		m.Graph.Node = append(m.Graph.Node, m.Graph.Node[0])
		return fmt.Sprintf("graph.node[%d]", len(m.Graph.Node)-1)
	}},
	{"a node makes the graph's input", func(m *wire.ModelProto) string {
		n, path := firstNode(m.Graph, wired)
		if n == nil || len(m.Graph.Input) == 0 {
			return ""
		}
		n.Output[0] = m.Graph.Input[0].Name
		return path
	}},
	{"a node makes an initializer", func(m *wire.ModelProto) string {
		n, path := firstNode(m.Graph, wired)
		if n == nil || len(m.Graph.Initializer) == 0 {
			return ""
		}
		n.Output[0] = m.Graph.Initializer[0].Name
		return path
	}},
	{"two inputs have one name", func(m *wire.ModelProto) string {
		if len(m.Graph.Input) == 0 {
			return ""
		}
		m.Graph.Input = append(m.Graph.Input, m.Graph.Input[0])
		return fmt.Sprintf("graph.input[%d]", len(m.Graph.Input)-1)
	}},
	{"two initializers have one name", func(m *wire.ModelProto) string {
		if len(m.Graph.Initializer) == 0 {
			return ""
		}
		m.Graph.Initializer = append(m.Graph.Initializer, m.Graph.Initializer[0])
		return fmt.Sprintf("graph.initializer[%d]", len(m.Graph.Initializer)-1)
	}},
	{"two outputs have one name", func(m *wire.ModelProto) string {
		if len(m.Graph.Output) == 0 {
			return ""
		}
		m.Graph.Output = append(m.Graph.Output, m.Graph.Output[0])
		return fmt.Sprintf("graph.output[%d]", len(m.Graph.Output)-1)
	}},
	{"nobody makes the graph's output", func(m *wire.ModelProto) string {
		if len(m.Graph.Output) == 0 {
			return ""
		}
		m.Graph.Output[0].Name = Dangling
		return "graph.output[0].name"
	}},
	{"no nodes", func(m *wire.ModelProto) string { m.Graph.Node = nil; return "graph.node" }},
	{"no outputs", func(m *wire.ModelProto) string { m.Graph.Output = nil; return "graph.output" }},
	{"a body reads what its own node makes", func(m *wire.ModelProto) string {
		n, path := firstNode(m.Graph, func(n *wire.NodeProto) bool { return body(n) != nil && len(n.Output) > 0 })
		if n == nil {
			return ""
		}
		inner, _ := firstNode(body(n), wired)
		if inner == nil {
			return ""
		}
		inner.Input[0] = n.Output[0]
		return path
	}},
	{"a body returns nothing", func(m *wire.ModelProto) string {
		n, path := firstNode(m.Graph, func(n *wire.NodeProto) bool { return body(n) != nil })
		if n != nil {
			body(n).Output = nil
		}
		return path
	}},
	{"a function calls itself", func(m *wire.ModelProto) string {
		if len(m.Functions) == 0 || len(m.Functions[0].Node) == 0 {
			return ""
		}
		f := m.Functions[0]
		call(f.Node[0], f)
		f.OpsetImport = append(f.OpsetImport, &wire.OperatorSetIDProto{Domain: f.Domain, Version: 1})
		return "functions[0].node[0]"
	}},
	{"two functions call each other", func(m *wire.ModelProto) string {
		if len(m.Functions) == 0 || len(m.Functions[0].Node) == 0 {
			return ""
		}
		f := m.Functions[0]
		g := *f
		node := *f.Node[0]
		g.Name, g.Node = f.Name+"2", []*wire.NodeProto{&node}
		call(&node, f)
		call(f.Node[0], &g)
		m.Functions = append(m.Functions, &g)
		imported := &wire.OperatorSetIDProto{Domain: f.Domain, Version: 1}
		f.OpsetImport = append(f.OpsetImport, imported)
		g.OpsetImport = append(g.OpsetImport, imported)
		return "functions[0].node[0]"
	}},
	{"two functions have one name", func(m *wire.ModelProto) string {
		if len(m.Functions) == 0 {
			return ""
		}
		m.Functions = append(m.Functions, m.Functions[0])
		return fmt.Sprintf("functions[%d]", len(m.Functions)-1)
	}},
}

// call makes n call the function f, with f's own names as inputs.
func call(n *wire.NodeProto, f *wire.FunctionProto) {
	n.OpType, n.Domain, n.Overload = f.Name, f.Domain, f.Overload
	n.Input = append([]string(nil), f.Input...)
	n.Attribute = nil
}

// Names yields a case for every attack on names that applies to a valid model: cycles, clashes, dangling names. The
// model must have a graph.
func Names(model []byte) iter.Seq[Case] {
	return func(yield func(Case) bool) {
		for _, r := range rewires {
			m, err := wire.ParseModel(model)
			if err != nil {
				panic(fmt.Sprintf("malformedtest: the valid model is not: %v", err))
			}
			path := r.edit(m)
			if path == "" {
				continue
			}
			if !yield(Case{path, r.name, m.Marshal()}) {
				return
			}
		}
	}
}
