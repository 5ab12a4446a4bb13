package onnx

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// reduceNames maps the reductions to the operators of ONNX.
var reduceNames = map[string]string{"reduce_sum": "ReduceSum", "reduce_prod": "ReduceProd", "reduce_min": "ReduceMin",
	"reduce_max": "ReduceMax", "reduce_mean": "ReduceMean",
	"reduce_l1": "ReduceL1", "reduce_l2": "ReduceL2", "reduce_sum_square": "ReduceSumSquare",
	"reduce_log_sum": "ReduceLogSum", "reduce_log_sum_exp": "ReduceLogSumExp"}

// init adds the rules of this file.
func init() {
	for op, name := range reduceNames {
		rules[op] = func(c *call) {
			if _, late := c.n.Attrs["outer"]; late {
				c.refuse("a reduction along axes that only the run knows")
			}
			axes := c.n.Attrs.Ints("axes")
			attrs := []*wire.AttributeProto{intAttr("keepdims", flag(c.n.Attrs.Bool("keep")))}
			if len(axes) == 0 {
				attrs = append(attrs, intAttr("noop_with_empty_axes", 1))
				if op != "reduce_sum" && op != "reduce_prod" && op != "reduce_min" && op != "reduce_max" && op != "reduce_mean" {
					c.refuse("a reduction along no axis")
				}
			}
			c.final(name, []string{c.in(0), c.ints(axes...)}, attrs...)
		}
	}
	rulesOf(map[string]rule{
		"argmax": argmax,
		"cumsum": func(c *call) {
			axis := c.number(dtype.I64, float64(c.n.Attrs.Int("axis", 0)))
			c.final("CumSum", []string{c.in(0), axis}, intAttr("exclusive", flag(c.n.Attrs.Bool("exclusive"))),
				intAttr("reverse", flag(c.n.Attrs.Bool("reverse"))))
		},
		"softmax": axisRule("Softmax"), "log_softmax": axisRule("LogSoftmax"), "hardmax": axisRule("Hardmax"),
		"matmul": matmul, "convolution": convolution, "convolution_transpose": convolutionTranspose,
		"max_pool": pool("MaxPool"), "average_pool": pool("AveragePool"), "lp_pool": pool("LpPool"),
		"max_pool_indices": pool("MaxPool"),
		"normalize":        normalize, "recurrent": recurrent, "quantize": quantize, "dequantize": dequantize,
		"determinant": direct("Det"),
		"lrn": func(c *call) {
			a := c.n.Attrs
			if c.dtype() == dtype.F64 {
				c.refuse("settings of f64")
			}
			c.final("LRN", c.inputs(), intAttr("size", a.Int("size", 1)),
				wire.FloatAttribute("alpha", float32(a.Float("alpha", 0))),
				wire.FloatAttribute("beta", float32(a.Float("beta", 0))), wire.FloatAttribute("bias", float32(a.Float("bias", 0))))
		},
	})
}

// axisRule returns a rule of an operator whose only attribute is the axis.
func axisRule(name string) rule {
	return func(c *call) { c.final(name, c.inputs(), intAttr("axis", c.n.Attrs.Int("axis", -1))) }
}

// argmax writes ArgMax or ArgMin.
func argmax(c *call) {
	name := "ArgMax"
	if c.n.Attrs.Bool("smallest") {
		name = "ArgMin"
	}
	c.final(name, c.inputs(), intAttr("axis", c.n.Attrs.Ints("axes")[0]),
		intAttr("keepdims", flag(c.n.Attrs.Bool("keep"))), intAttr("select_last_index", flag(c.n.Attrs.Bool("last"))))
}

// matmul writes MatMul, or MatMulInteger if the result is i32; it transposes the operands before.
func matmul(c *call) {
	x, y := c.in(0), c.in(1)
	if c.n.Attrs.Bool("transpose_a") {
		x = c.permuted(x, swapped(len(c.shape())))
	}
	if c.n.Attrs.Bool("transpose_b") {
		y = c.permuted(y, swapped(len(c.n.Inputs[1].Type.Shape)))
	}
	if to := c.n.Attrs.DType("dtype"); to == dtype.I32 {
		c.final("MatMulInteger", []string{x, y})
		return
	} else if to != dtype.Invalid && to != c.dtype() {
		c.refuse("a product of %v in %v", c.dtype(), to)
	}
	c.final("MatMul", []string{x, y})
}

// window returns a window's attributes; padding must be numbers.
func (c *call) window() []*wire.AttributeProto {
	a := c.n.Attrs
	begin, known := numbersOf(a.Exprs("begin"))
	end, also := numbersOf(a.Exprs("end"))
	if !known || !also {
		c.refuse("padding that depends on named extents")
	}
	list := []*wire.AttributeProto{wire.IntsAttribute("kernel_shape", a.Ints("kernel")...),
		wire.IntsAttribute("strides", a.Ints("strides")...)}
	// Readers' quantised poolings do not have dilations.
	if d := a.Ints("dilations"); slices.ContainsFunc(d, func(n int64) bool { return n > 1 }) {
		list = append(list, wire.IntsAttribute("dilations", d...))
	}
	more := make([]int64, len(end))
	for i := range end {
		if c.n.Op.Name() == "convolution_transpose" {
			end[i], more[i] = max(end[i], 0), max(-end[i], 0)
		}
		if begin[i] < 0 || end[i] < 0 {
			c.refuse("padding of %v and %v", begin, end)
		}
	}
	if slices.Max(append(more, 0)) > 0 {
		list = append(list, wire.IntsAttribute("output_padding", more...))
	}
	return append(list, wire.IntsAttribute("pads", append(begin, end...)...))
}

// convolution writes Conv, or ConvInteger if the result is i32.
func convolution(c *call) {
	attrs := append(c.window(), intAttr("group", c.n.Attrs.Int("groups", 1)))
	if to := c.n.Attrs.DType("dtype"); to == dtype.I32 {
		c.final("ConvInteger", c.inputs(), attrs...)
		return
	} else if to != dtype.Invalid && to != c.dtype() {
		c.refuse("a convolution of %v in %v", c.dtype(), to)
	}
	c.final("Conv", c.inputs(), attrs...)
}

func convolutionTranspose(c *call) {
	c.final("ConvTranspose", c.inputs(), append(c.window(), intAttr("group", c.n.Attrs.Int("groups", 1)))...)
}

// pool returns the rule of a pooling.
func pool(name string) rule {
	return func(c *call) {
		attrs := append(c.window(), intAttr("ceil_mode", flag(c.n.Attrs.Bool("ceil"))))
		switch c.n.Op.Name() {
		case "average_pool":
			attrs = append(attrs, intAttr("count_include_pad", flag(c.n.Attrs.Bool("padded"))))
		case "lp_pool":
			attrs = append(attrs, intAttr("p", c.n.Attrs.Int("p", 2)))
		case "max_pool_indices":
			attrs = append(attrs, intAttr("storage_order", flag(c.n.Attrs.Bool("columns"))))
			c.node(name, c.inputs(), []string{c.result(c.n.Outputs[0]), c.result(c.n.Outputs[1])}, attrs...)
			return
		}
		c.final(name, c.inputs(), attrs...)
	}
}

// normalize writes a LayerNormalization along the last axes, after it moves the axes there. If no mean is subtracted,
// it divides by the root of the mean of squares.
func normalize(c *call) {
	x, rank, epsilon := c.in(0), len(c.shape()), c.n.Attrs.Float("epsilon", 0)
	axes := positive(c.n.Attrs.Ints("axes"), rank)
	if len(axes) == 0 {
		c.refuse("a normalisation along no axis")
	}
	if !c.n.Attrs.Bool("centered") {
		square := c.add("ReduceMean", []string{c.add("Mul", []string{x, x}), c.ints(axes...)}, intAttr("keepdims", 1))
		c.final("Div", []string{x, c.add("Sqrt", []string{c.add("Add", []string{square, c.like(epsilon)})})})
		return
	}
	var perm, inner []int64
	for i := range int64(rank) {
		if !slices.Contains(axes, i) {
			perm = append(perm, i)
		}
	}
	first := int64(len(perm))
	perm = append(perm, axes...)
	for _, a := range axes {
		n, ok := c.shape()[a].Const()
		if !ok {
			c.standardize(x, axes, epsilon)
			return
		}
		inner = append(inner, n)
	}
	one := tensor.Must(tensor.New(c.dtype(), inner...))
	for i := range one.Len() {
		one.SetFloat(i, 1)
	}
	attrs := []*wire.AttributeProto{intAttr("axis", first), wire.FloatAttribute("epsilon", float32(epsilon))}
	in := []string{c.permuted(x, perm), c.tensor("ones", one)}
	if slices.IsSorted(perm) {
		c.final("LayerNormalization", in, attrs...)
		return
	}
	back := make([]int64, rank)
	for i, p := range perm {
		back[p] = int64(i)
	}
	c.final("Transpose", []string{c.add("LayerNormalization", in, attrs...)}, wire.IntsAttribute("perm", back...))
}

// standardize is a normalisation along axes whose extents are named.
func (c *call) standardize(x string, axes []int64, epsilon float64) {
	mean := func(x string) string {
		return c.add("ReduceMean", []string{x, c.ints(axes...)}, intAttr("keepdims", 1))
	}
	d := c.add("Sub", []string{x, mean(x)})
	c.final("Div", []string{d, c.add("Sqrt",
		[]string{c.add("Add", []string{mean(c.add("Mul", []string{d, d})), c.like(epsilon)})})})
}

// positive returns the axes counted from 0, in ascending order.
func positive(axes []int64, rank int) []int64 {
	out := make([]int64, len(axes))
	for i, a := range axes {
		if out[i] = a; a < 0 {
			out[i] += int64(rank)
		}
	}
	slices.Sort(out)
	return out
}

// functionNames has the functions of recurrent cells and the number of their settings.
var functionNames = map[string]struct {
	name     string
	settings int
}{"sigmoid": {"Sigmoid", 0}, "tanh": {"Tanh", 0}, "relu": {"Relu", 0}, "affine": {"Affine", 2},
	"leaky_relu":       {"LeakyRelu", 1},
	"thresholded_relu": {"ThresholdedRelu", 1}, "scaled_tanh": {"ScaledTanh", 2}, "hard_sigmoid": {"HardSigmoid", 2},
	"elu": {"Elu", 1}, "softsign": {"Softsign", 0}, "softplus": {"Softplus", 0}}

// recurrent writes LSTM, GRU and RNN. ONNX's operators multiply their input by the weights, ir's take the product. If
// the product's operands are found, they are written; otherwise the product is the input, and the weights are matrices
// of zeros and ones that select each direction's rows from it.
func recurrent(c *call) {
	a, in := c.n.Attrs, c.n.Inputs
	shape := in[0].Type.Shape
	weights := in[1].Type.Shape
	if a.Bool("keep") {
		c.refuse("the values that each step keeps for a derivative")
	}
	if dt := in[1].Type.DType; dt != in[0].Type.DType {
		c.refuse("weights of %s by which states of %s are multiplied", dt, in[0].Type.DType)
	}
	sizes, ok := numbersOf([]sym.Expr{shape[2], weights[1], weights[2]})
	if !ok {
		c.refuse("units whose number has a name")
	}
	d, rows, hidden := sizes[0], sizes[1], sizes[2]
	x, w, b := c.projection(d, rows)
	if x == "" {
		flat := []sym.Expr{shape[0], shape[1], sym.Const(d * rows)}
		x = c.unique("gates")
		c.reshape(c.in(0), shape, flat, x)
		w = c.tensor("part", selectors(c.dtype(), d, rows))
	}
	after := ""
	if len(in) > 6 {
		after = c.in(6)
	}
	for _, part := range []*string{&b, &after} {
		if *part == "" {
			*part = c.tensor("zeros", tensor.Must(tensor.New(c.dtype(), d, rows)))
		}
	}
	attrs, functions := []*wire.AttributeProto{intAttr("hidden_size", hidden),
		wire.StringAttribute("direction", c.direction())}, c.functions()
	attrs = append(attrs, functions...)
	if clip := a.Float("clip", 0); clip > 0 {
		attrs = append(attrs, wire.FloatAttribute("clip", float32(clip)))
	}
	lengths := ""
	if len(in) > 2 && in[2] != nil {
		lengths = c.cast(c.in(2), dtype.I32)
	}
	name := map[string]string{"lstm": "LSTM", "gru": "GRU", "rnn": "RNN"}[a.String("cell", "")]
	list := []string{x, w, c.in(1), c.add("Concat", []string{b, after}, intAttr("axis", 1)), lengths, c.in(3)}
	switch name {
	case "LSTM":
		list = append(list, c.in(4), c.in(5))
		attrs = append(attrs, intAttr("input_forget", flag(a.Bool("coupled"))))
	case "GRU":
		attrs = append(attrs, intAttr("linear_before_reset", flag(a.Bool("reset_after"))))
	}
	for len(list[len(list)-1]) == 0 {
		list = list[:len(list)-1]
	}
	var out []string
	for _, v := range c.n.Outputs {
		out = append(out, c.result(v))
	}
	c.node(name, list, out, attrs...)
}

// selectors returns the matrices, [directions, rows, directions · rows], that select each direction's rows from the
// rows of all directions.
func selectors(dt dtype.DType, directions, rows int64) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, directions, rows, directions*rows))
	for d := range directions {
		for i := range rows {
			t.SetFloat((d*rows+i)*directions*rows+d*rows+i, 1)
		}
	}
	return t
}

// direction returns the direction attribute.
func (c *call) direction() string {
	reverse := c.n.Attrs.Ints("reverse")
	switch {
	case slices.Equal(reverse, []int64{0}):
		return "forward"
	case slices.Equal(reverse, []int64{1}):
		return "reverse"
	case slices.Equal(reverse, []int64{0, 1}):
		return "bidirectional"
	}
	c.refuse("directions %v", reverse)
	return ""
}

// functions returns the attributes of the cell's functions and their settings.
func (c *call) functions() []*wire.AttributeProto {
	list, _ := c.n.Attrs["functions"].([]string)
	alpha, _ := c.n.Attrs["alpha"].([]float64)
	beta, _ := c.n.Attrs["beta"].([]float64)
	var names []string
	var alphas, betas []float32
	for i, f := range list {
		row, ok := functionNames[f]
		if !ok {
			c.refuse("a recurrent cell of %s", f)
		}
		names = append(names, row.name)
		if row.settings > 0 {
			alphas = append(alphas, float32(alpha[i]))
		}
		if row.settings > 1 {
			betas = append(betas, float32(beta[i]))
		}
	}
	attrs := []*wire.AttributeProto{wire.StringsAttribute("activations", names...)}
	if alphas != nil {
		attrs = append(attrs, wire.FloatsAttribute("activation_alpha", alphas...))
	}
	if betas != nil {
		attrs = append(attrs, wire.FloatsAttribute("activation_beta", betas...))
	}
	return attrs
}

// projection finds the operands whose product is the gates' input of a recurrent layer: the layer's input, the weights,
// [directions, rows, in], and the bias, [directions, rows] or "". All are "" if the gates' input is not such a product.
func (c *call) projection(directions, rows int64) (x, w, b string) {
	list := []*ir.Value{c.n.Inputs[0]}
	if n := list[0].Node; directions > 1 {
		if n == nil || n.Op.Name() != "concat" || n.Attrs.Int("axis", 0) != 2 || int64(len(n.Inputs)) != directions {
			return "", "", ""
		}
		list = n.Inputs
	}
	var from *ir.Value
	var weights, biases []string
	for _, v := range list {
		product, bias := summand(unsqueezed(v))
		if product == nil || from != nil && from != product.Inputs[0] {
			return "", "", ""
		}
		from = product.Inputs[0]
		turned := c.permuted(c.of(product.Inputs[1]), []int64{1, 0})
		weights = append(weights, c.add("Unsqueeze", []string{turned, c.ints(0)}))
		if bias != nil {
			biases = append(biases, c.add("Reshape", []string{c.of(bias), c.ints(1, rows)}))
		}
	}
	if len(biases) != 0 && len(biases) != len(list) {
		return "", "", ""
	}
	return c.of(from), c.concatenate(weights), c.concatenate(biases)
}

// concatenate joins values along axis 0; "" if there are none.
func (c *call) concatenate(list []string) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return list[0]
	}
	return c.add("Concat", list, intAttr("axis", 0))
}

// unsqueezed returns the value that v reshapes, if v only inserts an axis of 1 before the last; otherwise nil.
func unsqueezed(v *ir.Value) *ir.Value {
	if v.Node == nil || v.Node.Op.Name() != "reshape" {
		return nil
	}
	x := v.Node.Inputs[0]
	want := append(slices.Clone(x.Type.Shape[:max(len(x.Type.Shape)-1, 0)]), sym.Const(1))
	if len(x.Type.Shape) != 3 || len(v.Type.Shape) != 4 || !slices.EqualFunc(v.Type.Shape, append(want, x.Type.Shape[2]),
		sym.Expr.Equal) {
		return nil
	}
	return x
}

// summand returns v's product with a matrix, and the vector that is added to it, which may be nil; product is nil if v
// is none.
func summand(v *ir.Value) (product *ir.Node, bias *ir.Value) {
	if v == nil || v.Node == nil {
		return nil, nil
	}
	n := v.Node
	if n.Op.Name() == "add" && len(n.Inputs[1].Type.Shape) == 1 {
		if bias, n = n.Inputs[1], n.Inputs[0].Node; n == nil {
			return nil, nil
		}
	}
	if n.Op.Name() != "matmul" || n.Attrs.Bool("transpose_a") || n.Attrs.Bool("transpose_b") ||
		len(n.Inputs[0].Type.Shape) != 3 || len(n.Inputs[1].Type.Shape) != 2 {
		return nil, nil
	}
	return n, bias
}
