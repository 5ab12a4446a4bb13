package train

import (
	"io"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/nn"
)

// ONNX is an ONNX model as a layer or a network. Its parameters are the model's weights (array.Model.Weights), under
// the file's names.
type ONNX struct{ model *array.Model }

// FromONNX reads the ONNX model at a path, with the external data beside it, as a network with trainable parameters;
// nn.Params.Freeze excludes parameters by name. With the option Outputs the network ends earlier, and other layers can
// follow:
//
//	base, err := train.FromONNX("mobilenet.onnx", array.ModelOptions{Outputs: []string{"features"}})
//	net := nn.Sequential(base, nn.Linear(1280, 5))
//	params, err := nn.New(net, 7)
//	err = params.Freeze("0.*")
//
// With Options.Precision BF16 the model's matrix products and convolutions of f32 multiply in bf16 and accumulate in
// f32; see array.Model.Apply. The store and the files that WriteONNX writes remain f32.
//
// A BatchNormalization uses its running statistics in training too, and does not change them. Weights of f16 and bf16
// are f32 in the store, and rounded when the model reads them. A model without any parameter is an error.
func FromONNX(path string, o array.ModelOptions) (*ONNX, error) {
	m, err := array.ReadONNX(path, o)
	if err != nil {
		return nil, err
	}
	return layerOf(m)
}

// ParseONNX is FromONNX for a model in memory without external data. The network keeps data.
func ParseONNX(data []byte, o array.ModelOptions) (*ONNX, error) {
	m, err := array.ParseONNX(data, o)
	if err != nil {
		return nil, err
	}
	return layerOf(m)
}

// layerOf returns a layer of a model; a model without trainable weights is an error.
func layerOf(m *array.Model) (*ONNX, error) {
	if len(m.Weights()) == 0 {
		return nil, diag.Inputf("no initializer of the model can be trained: they are integers, as those of quantised " +
			"models, " +
			"settings of operators, or what no derivative reaches").
			WithFix("take the model from before it was quantised, or from an exporter that writes no weights as Constant nodes")
	}
	return &ONNX{m}, nil
}

// Model returns the model as a function of arrays.
func (n *ONNX) Model() *array.Model { return n.model }

// Inputs returns the specs of the model's inputs.
func (n *ONNX) Inputs() []array.Spec { return n.model.Inputs() }

// String returns the layer's name in errors.
func (n *ONNX) String() string { return "ONNX" }

// Declare declares the model's weights.
func (n *ONNX) Declare(d *nn.Declaration) {
	for _, w := range n.model.Weights() {
		t, err := w.Elements()
		if err != nil {
			d.Fail(err)
			return
		}
		d.Param(w.Name, w.DType, nn.Elements(t), w.Shape...)
	}
}

// Apply computes the model's outputs.
func (n *ONNX) Apply(c *nn.Context, x ...*array.Array) []*array.Array {
	weights, narrow := map[string]*array.Array{}, false
	for _, w := range n.model.Weights() {
		a := c.Param(w.Name)
		narrow = narrow || c.Err() == nil && a.DType() == weir.BF16 && w.DType == weir.F32
		weights[w.Name] = a
	}
	out := n.model.Apply(c.Scope, weights, x...)
	for i, y := range out {
		if narrow && c.Err() == nil && y.DType() == weir.F32 { // like the values between other layers
			out[i] = c.Cast(y, weir.BF16)
		}
	}
	return out
}

// WriteONNX writes the model with the parameters of a store as an ONNX file. The graph is unchanged except for nodes
// that Outputs removed; external data are included in the file. The store must be of the model alone; if the model is a
// layer of a network, nn.WriteONNX writes the network.
func (n *ONNX) WriteONNX(w io.Writer, p *nn.Params) error {
	weights := map[string]*array.Array{}
	for _, weight := range n.model.Weights() {
		a := p.Get(weight.Name)
		if a == nil {
			return n.missing(weight.Name, p)
		}
		weights[weight.Name] = a
	}
	return n.model.WriteONNX(w, weights)
}

// missing returns the error that a store does not have a parameter.
func (n *ONNX) missing(name string, p *nn.Params) error {
	err := diag.Inputf("the store has no parameter %s", name).AtTensor(name)
	for _, other := range p.Names() {
		if strings.HasSuffix(other, "."+name) {
			return err.WithFix("write the network that has the model as a layer, with %s, by nn.WriteONNX", other)
		}
	}
	return err.WithFix("make the store of this model, by nn.New")
}
