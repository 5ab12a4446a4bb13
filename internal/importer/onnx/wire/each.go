package wire

import "slices"

// Fixed is the property of an initializer that is not to be learned, as Weir writes it for running statistics.
func Fixed() *StringStringEntryProto {
	return &StringStringEntryProto{Key: "weir.fixed", Value: "true"}
}

// IsFixed reports whether an initializer has the property Fixed.
func (t *TensorProto) IsFixed() bool {
	return slices.ContainsFunc(t.MetadataProps, func(p *StringStringEntryProto) bool { return *p == *Fixed() })
}

// EachTensor calls f for every tensor of the model, in its graphs and functions, until one is an error.
func (m *ModelProto) EachTensor(f func(t *TensorProto) error) error {
	e := each{f: f}
	e.graph(m.Graph)
	for _, function := range m.Functions {
		e.nodes(function.Node)
		e.attributes(function.AttributeProto)
	}
	return e.err
}

// each walks through a model.
type each struct {
	f   func(t *TensorProto) error
	err error
}

func (e *each) tensor(t *TensorProto) {
	if t != nil && e.err == nil {
		e.err = e.f(t)
	}
}

func (e *each) sparse(t *SparseTensorProto) {
	if t != nil {
		e.tensor(t.Values)
		e.tensor(t.Indices)
	}
}

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

func (e *each) nodes(list []*NodeProto) {
	for _, n := range list {
		e.attributes(n.Attribute)
	}
}

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
