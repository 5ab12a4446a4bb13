package convert

import (
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// sorted returns a graph's nodes in an order in which each node follows those whose outputs it or its subgraphs read.
// It keeps the file's order if that is valid, as ONNX demands. maker is the index of the node that computes a name.
// Nodes in a cycle stay as they are.
func sorted(nodes []*wire.NodeProto, maker map[string]int) []*wire.NodeProto {
	after := make([][]int, len(nodes)) // the nodes that must come first, by node
	fine := true
	for i, n := range nodes {
		Reads(n, func(name string) {
			if j, made := maker[name]; made && j != i {
				after[i] = append(after[i], j)
				fine = fine && j < i
			}
		})
	}
	if fine {
		return nodes
	}
	out := make([]*wire.NodeProto, 0, len(nodes))
	const fresh, open, done = 0, 1, 2
	state, next := make([]int, len(nodes)), make([]int, len(nodes))
	for root := range nodes {
		for path := []int{root}; len(path) > 0; {
			i := path[len(path)-1]
			switch {
			case state[i] == done:
				path = path[:len(path)-1]
			case next[i] < len(after[i]):
				state[i] = open
				j := after[i][next[i]]
				next[i]++
				if state[j] == open {
					return nodes
				}
				path = append(path, j)
			default:
				state[i] = done
				out = append(out, nodes[i])
				path = path[:len(path)-1]
			}
		}
	}
	return out
}

// Reads calls f for each name that a node or its subgraphs read, with the names that the subgraphs compute themselves.
func Reads(n *wire.NodeProto, f func(name string)) {
	for _, name := range n.Input {
		f(name)
	}
	for _, a := range n.Attribute {
		for _, g := range append(a.Graphs[:len(a.Graphs):len(a.Graphs)], a.G) {
			if g == nil {
				continue
			}
			for _, inner := range g.Node {
				Reads(inner, f)
			}
			for _, o := range g.Output {
				f(o.Name)
			}
		}
	}
}
