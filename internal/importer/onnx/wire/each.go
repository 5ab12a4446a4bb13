package wire

import "slices"

// Fixed returns the property by which Weir marks an initializer that is not to be learned, such as running statistics.
func Fixed() *StringStringEntryProto {
	return &StringStringEntryProto{Key: "weir.fixed", Value: "true"}
}

// IsFixed reports whether an initializer has the property Fixed.
func (t *TensorProto) IsFixed() bool {
	return slices.ContainsFunc(t.MetadataProps, func(p *StringStringEntryProto) bool { return *p == *Fixed() })
}

// EachTensor calls f for every tensor of the model, in its graphs and functions. It stops at the first error, and
// returns it.
func (m *ModelProto) EachTensor(f func(t *TensorProto) error) error {
	e := each{f: f}
	e.graph(m.Graph)
	for _, function := range m.Functions {
		e.nodes(function.Node)
		e.attributes(function.AttributeProto)
	}
	return e.err
}

// each walks through a model; it calls f until err is set.
type each struct {
	f   func(t *TensorProto) error
	err error
}

// tensor calls f for t, which may be nil, unless there was an error.
func (e *each) tensor(t *TensorProto) {
	if t != nil && e.err == nil {
		e.err = e.f(t)
	}
}

// sparse visits the two tensors of a sparse tensor, which may be nil.
func (e *each) sparse(t *SparseTensorProto) {
	if t != nil {
		e.tensor(t.Values)
		e.tensor(t.Indices)
	}
}

// graph visits the initializers and nodes of a graph, which may be nil.
func (e *each) graph(g *GraphProto) {
	if g == nil {
		return
	}
	for _, t := range g.Initializer {
		e.tensor(t)
	}
	for _, t := range g.SparseInitializer {
		e.sparse(t)
	}
	e.nodes(g.Node)
}

// nodes visits the attributes of nodes.
func (e *each) nodes(list []*NodeProto) {
	for _, n := range list {
		e.attributes(n.Attribute)
	}
}

// attributes visits the tensors and graphs in attributes.
func (e *each) attributes(list []*AttributeProto) {
	for _, a := range list {
		e.tensor(a.T)
		e.graph(a.G)
		e.sparse(a.SparseTensor)
		for _, t := range a.Tensors {
			e.tensor(t)
		}
		for _, t := range a.SparseTensors {
			e.sparse(t)
		}
		for _, g := range a.Graphs {
			e.graph(g)
		}
	}
}
