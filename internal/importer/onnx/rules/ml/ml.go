package ml

import (
	"math"
	"slices"
	"sort"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/rules/sequence"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// zipMap returns its input. A sequence of maps is represented by the tensor beneath it: a row for each map, a column
// for each key, in the order of the labels.
func zipMap(c *convert.Call) []*ir.Value {
	if c.Has("classlabels_int64s") == c.Has("classlabels_strings") {
		c.Fault("the labels of the maps are either integers or strings")
	}
	return convert.One(c.Input(0))
}

// reals returns a constant vector of x's numbers, converted to dt.
func reals(c *convert.Call, dt dtype.DType, x []float64) *ir.Value {
	t, err := tensor.New(dt, int64(len(x)))
	if err != nil {
		c.Fail(err)
	}
	for i, v := range x {
		if dt.IsFloat() {
			t.SetFloat(int64(i), v)
		} else {
			t.SetInt(int64(i), int64(v))
		}
	}
	return c.Builder.Constant("c", t)
}

// requirePerFeature requires that a list has one element, or one for each feature: the extent of x's last axis. what
// names the list in errors.
func requirePerFeature(c *convert.Call, x *ir.Value, n int, what string) {
	if n == 0 || len(x.Type.Shape) == 0 {
		c.Fault("%d %s for samples %s", n, what, x.Type)
	}
	if n != 1 {
		c.Condition(sym.Cond{A: x.Type.Shape[len(x.Type.Shape)-1], Rel: sym.EQ, B: sym.Const(int64(n))},
			"as many "+what+" as features")
	}
}

// arrayFeatures converts ArrayFeatureExtractor: it gathers columns of x, the last axis, by a list of indices. A vector
// counts as one row.
func arrayFeatures(c *convert.Call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	rank := len(x.Type.Shape)
	if rank == 0 {
		c.Fault("the features of a scalar")
	}
	if rank == 1 {
		x = ops.Reshape(b, x, sym.Const(1), x.Type.Shape[0])
	}
	return convert.One(ops.Gather(b, x, c.Flat(c.Input(1)), -1))
}

// binarizer converts Binarizer: 1 for elements above the threshold, 0 for others. For integers the threshold is rounded
// down.
func binarizer(c *convert.Call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	threshold := c.Float("threshold", 0)
	if x.Type.DType.IsInt() {
		threshold = math.Floor(threshold)
	}
	return convert.One(ops.Cast(b, ops.Binary(b, ops.Gt, x, c.Scalar(x.Type.DType, threshold)), x.Type.DType))
}

// featureVectorizer concatenates matrices along their columns, after it cuts each, or fills it with zeros, to its
// number of columns. A vector is a matrix of one column.
func featureVectorizer(c *convert.Call) []*ir.Value {
	b, widths := c.Builder, c.Ints("inputdimensions")
	if widths != nil && len(widths) != len(c.In) || len(c.In) == 0 {
		c.Fault("%d inputdimensions for %d inputs", len(widths), len(c.In))
	}
	var parts []*ir.Value
	for i := range c.In {
		x := ops.Cast(b, c.Input(i), dtype.F32)
		switch len(x.Type.Shape) {
		case 1:
			x = ops.Reshape(b, x, x.Type.Shape[0], sym.Const(1))
		case 2:
		default:
			c.Fault("features %s", x.Type)
		}
		if widths != nil {
			x = wideTo(c, x, widths[i])
		}
		parts = append(parts, x)
	}
	return convert.One(ops.Concat(b, 1, parts...))
}

// wideTo cuts x's columns to width, or fills the missing columns with zeros.
func wideTo(c *convert.Call, x *ir.Value, width int64) *ir.Value {
	if width < 0 || width > convert.ExtentLimit {
		c.Fault("%d columns", width)
	}
	has, zero := x.Type.Shape[1], sym.Const(0)
	kept := c.Dims().Simplify(has.Min(sym.Const(width)))
	x = ops.SliceAxis(c.Builder, x, 1, zero, kept)
	missing := c.Dims().Simplify(sym.Const(width).Sub(kept))
	if c.Dims().EQ(missing, zero) == sym.Yes {
		return x
	}
	return ops.Pad(c.Builder, x, c.Scalar(dtype.F32, 0), "constant", []sym.Expr{zero, zero}, []sym.Expr{zero, missing})
}

// imputer converts Imputer: it replaces the elements that equal one value, or are NaN if that value is NaN, by the
// imputed value, which is one for all features or one for each.
func imputer(c *convert.Call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	dt := x.Type.DType
	values, replaced := c.Floats("imputed_value_floats"), c.Float("replaced_value_float", 0)
	if dt.IsInt() {
		values, replaced = nil, float64(c.Int("replaced_value_int64", 0))
		for _, v := range c.Ints("imputed_value_int64s") {
			values = append(values, float64(v))
		}
	}
	requirePerFeature(c, x, len(values), "imputed values")
	if math.IsNaN(replaced) {
		return convert.One(ops.Where(b, ops.Unary(b, ops.IsNaN, x), reals(c, dt, values), x))
	}
	return convert.One(ops.Where(b, ops.Binary(b, ops.Eq, x, c.Scalar(dt, replaced)), reals(c, dt, values), x))
}

// normalizer divides each row by its largest element or by its L1 or L2 norm; a row whose divisor is 0 stays as it is.
func normalizer(c *convert.Call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	rank := len(x.Type.Shape)
	if rank != 1 && rank != 2 {
		c.Fault("samples %s", x.Type)
	}
	x = ops.Cast(b, x, dtype.F32)
	last := int64(rank - 1)
	norms := map[string]func() *ir.Value{
		"MAX": func() *ir.Value { return ops.ReduceMax(b, x, true, last) },
		"L1":  func() *ir.Value { return ops.LpNorm(b, x, 1, true, last) },
		"L2":  func() *ir.Value { return ops.LpNorm(b, x, 2, true, last) },
	}
	build := norms[c.StringAttribute("norm", "MAX")]
	if build == nil {
		c.Fault("norm is %q", c.StringAttribute("norm", "MAX"))
	}
	norm, zero := build(), c.Scalar(dtype.F32, 0)
	return convert.One(ops.Binary(b, ops.Div, x, ops.Where(b, ops.Binary(b, ops.Eq, norm, zero), c.Scalar(dtype.F32, 1),
		norm)))
}

// scaler converts Scaler: (x − offset) · scale, as f32. It computes in f64 if the input is f64.
func scaler(c *convert.Call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	dt := dtype.F32
	if x.Type.DType == dtype.F64 {
		dt = dtype.F64
	}
	x = ops.Cast(b, x, dt)
	for _, step := range []struct {
		name string
		f    ops.BinaryFunction
	}{{"offset", ops.Sub}, {"scale", ops.Mul}} {
		if values := c.Floats(step.name); values != nil {
			requirePerFeature(c, x, len(values), step.name+"s")
			x = ops.Binary(b, step.f, x, reals(c, dt, values))
		}
	}
	return convert.One(ops.Cast(b, x, dtype.F32))
}

// oneHotEncoder marks each element's category along a new last axis. If zeros is 0, an element of no category is an
// error of the run, because its index is gathered from a list that does not contain it.
func oneHotEncoder(c *convert.Call) []*ir.Value {
	b, strings := c.Builder, c.IsStrings(0)
	count := len(c.Ints("cats_int64s"))
	if strings {
		count = len(c.Strings("cats_strings"))
	}
	if count == 0 {
		c.Fault("there are no categories of the input's type")
	}
	var index *ir.Value
	if strings {
		index = sequence.IndexOf(c, 0, c.Strings("cats_strings"))
	} else {
		index = indexAmong(c, ops.Cast(b, c.Input(0), dtype.I64), c.Ints("cats_int64s"))
	}
	counting := ops.Counting(b, dtype.I64, sym.Const(int64(count)))
	if c.Int("zeros", 1) == 0 {
		index = ops.Gather(b, counting, index, 0)
	}
	lead := append(slices.Clone(index.Type.Shape), sym.Const(1))
	return convert.One(ops.Cast(b, ops.Binary(b, ops.Eq, ops.Reshape(b, index, lead...), counting), dtype.F32))
}

// categoryMapper maps the i-th string to the i-th integer, or the reverse, by the input's type.
func categoryMapper(c *convert.Call) []*ir.Value {
	strings, ints := c.Strings("cats_strings"), c.Ints("cats_int64s")
	if len(strings) == 0 || len(strings) != len(ints) {
		c.Fault("%d cats_strings and %d cats_int64s", len(strings), len(ints))
	}
	if c.IsStrings(0) {
		return convert.One(ops.Gather(c.Builder, c.Builder.Constant("values",
			tensor.Of(append(ints, c.Int("default_int64", -1))...)), sequence.IndexOf(c, 0, strings), 0))
	}
	if dt := c.Input(0).Type.DType; dt != dtype.I64 {
		c.Fault("elements of type %s, they must be i64 or strings", dt)
	}
	return convert.One(sequence.Picked(c, sequence.Table(c,
		append(strings, c.StringAttribute("default_string", "_Unused"))...),
		indexAmong(c, c.Input(0), ints)))
}

// indexAmong returns the index of each element of x in the list, the first if the list repeats it, and the list's
// length if the element is not in it.
func indexAmong(c *convert.Call, x *ir.Value, list []int64) *ir.Value {
	t := tensor.Of(list...)
	return indexIn(c, x, t, func(i, j int64) bool { return list[i] < list[j] })
}

// indexIn is indexAmong for a list of any numeric type; less is the ascending order of the list's elements.
func indexIn(c *convert.Call, x *ir.Value, list *tensor.Tensor, less func(i, j int64) bool) *ir.Value {
	b := c.Builder
	order := make([]int64, 0, list.Len())
	for i := range list.Len() {
		order = append(order, i)
	}
	sort.SliceStable(order, func(i, j int) bool { return less(order[i], order[j]) })
	order = slices.CompactFunc(order, func(i, j int64) bool { return !less(i, j) && !less(j, i) })
	keys, err := tensor.New(list.DType(), int64(len(order)))
	if err != nil {
		c.Fail(err)
	}
	for k, i := range order {
		if list.DType().IsFloat() {
			keys.SetFloat(int64(k), list.Float(i))
		} else {
			keys.SetInt(int64(k), list.Int(i))
		}
	}
	return ops.Gather(b, b.Constant("places", tensor.Of(append(order, list.Len())...)),
		ops.Find(b, x, b.Constant("keys", keys)), 0)
}

// labelEncoder maps each element to the value of the key that equals it, or to the default. In version 1 it maps a
// string to its index in a list, or an index to its string.
func labelEncoder(c *convert.Call) []*ir.Value {
	if c.Version < 2 {
		return labelClasses(c, c.Strings("classes_strings"))
	}
	keys, values := list(c, "keys"), list(c, "values")
	if keys == nil || values == nil || keys.Len() != values.Len() {
		c.Fault("the keys and values are missing, or their numbers differ")
	}
	var index *ir.Value
	switch strings := c.IsStrings(0); {
	case strings != (keys.DType() == dtype.String):
		c.Fault("keys of type %s do not fit the elements", keys.DType())
	case strings:
		index = sequence.IndexOf(c, 0, keys.Strings())
	case keys.DType() != c.Input(0).Type.DType:
		c.Fault("keys of type %s for elements of type %s", keys.DType(), c.Input(0).Type.DType)
	default:
		index = indexIn(c, c.Input(0), keys, ascending(keys))
	}
	if values.DType() == dtype.String {
		otherwise := c.StringAttribute("default_string", "_Unused")
		if t := c.Tensor("default_tensor"); c.Has("values_tensor") && t != nil && t.DType() == dtype.String && t.Len() == 1 {
			otherwise = t.Strings()[0]
		}
		return convert.One(sequence.Picked(c, sequence.Table(c, append(slices.Clone(values.Strings()), otherwise)...), index))
	}
	return convert.One(ops.Gather(c.Builder, c.Builder.Constant("values", withDefault(c, values)), index, 0))
}

// ascending returns the ascending order of a tensor's numbers; NaN comes last.
func ascending(t *tensor.Tensor) func(i, j int64) bool {
	if !t.DType().IsFloat() {
		return func(i, j int64) bool { return t.Int(i) < t.Int(j) }
	}
	return func(i, j int64) bool {
		a, b := t.Float(i), t.Float(j)
		return a < b || !math.IsNaN(a) && math.IsNaN(b)
	}
}

// labelClasses converts LabelEncoder of version 1.
func labelClasses(c *convert.Call, classes []string) []*ir.Value {
	b := c.Builder
	indices := make([]int64, len(classes))
	for i := range indices {
		indices[i] = int64(i)
	}
	if c.IsStrings(0) {
		return convert.One(ops.Gather(b, b.Constant("values", tensor.Of(append(indices, c.Int("default_int64", -1))...)),
			sequence.IndexOf(c, 0, classes), 0))
	}
	if dt := c.Input(0).Type.DType; dt != dtype.I64 {
		c.Fault("elements of type %s, they must be i64 or strings", dt)
	}
	return convert.One(sequence.Picked(c, sequence.Table(c,
		append(slices.Clone(classes), c.StringAttribute("default_string", "_Unused"))...),
		indexAmong(c, c.Input(0), indices)))
}

// list returns the elements of the attribute whose name begins with prefix: a tensor, integers, floats or strings; nil
// if none of them is present.
func list(c *convert.Call, prefix string) *tensor.Tensor {
	switch {
	case c.Has(prefix + "_tensor"):
		return c.Tensor(prefix + "_tensor")
	case c.Has(prefix + "_int64s"):
		return tensor.Of(c.Ints(prefix + "_int64s")...)
	case c.Has(prefix + "_floats"):
		return tensor.Of(convert.Narrow(c.Floats(prefix + "_floats"))...)
	case c.Has(prefix + "_strings"):
		list := c.Strings(prefix + "_strings")
		return c.StringTensor([]int64{int64(len(list))}, list...)
	}
	return nil
}

// withDefault returns values with the default appended: the value for elements that equal no key.
func withDefault(c *convert.Call, values *tensor.Tensor) *tensor.Tensor {
	t, err := tensor.New(values.DType(), values.Len()+1)
	if err != nil {
		c.Fail(err)
	}
	set := func(to int64, from *tensor.Tensor, i int64) {
		if t.DType().IsFloat() {
			t.SetFloat(to, from.Float(i))
		} else {
			t.SetInt(to, from.Int(i))
		}
	}
	for i := range values.Len() {
		set(i, values, i)
	}
	end := values.Len()
	given := c.Tensor("default_tensor")
	switch {
	case c.Has("values_tensor") && given != nil:
		if given.DType() != t.DType() || given.Len() != 1 {
			c.Fault("the default is %s%v, it must be one %s", given.DType(), given.Shape(), t.DType())
		}
		set(end, given, 0)
	case t.DType().IsFloat():
		t.SetFloat(end, c.Float("default_float", math.Copysign(0, -1)))
	case t.DType() == dtype.I64:
		t.SetInt(end, c.Int("default_int64", -1))
	}
	return t
}

// linear returns input 0 times a row of coefficients for each of count results, plus the intercepts.
func linear(c *convert.Call, count int64) *ir.Value {
	b, x := c.Builder, matrix(c)
	rows, intercepts := c.Floats("coefficients"), c.Floats("intercepts")
	if count < 1 || int64(len(rows))%count != 0 || intercepts != nil && int64(len(intercepts)) != count &&
		len(intercepts) != 0 {
		c.Fault("%d coefficients and %d intercepts for %d results", len(rows), len(intercepts), count)
	}
	dt, width := x.Type.DType, int64(len(rows))/count
	c.Condition(sym.Cond{A: x.Type.Shape[1], Rel: sym.EQ, B: sym.Const(width)}, "as many coefficients as features")
	weights := ops.Reshape(b, reals(c, dt, rows), sym.Const(count), sym.Const(width))
	y := ops.MatMul(b, x, weights, false, true)
	if len(intercepts) > 0 {
		y = ops.Binary(b, ops.Add, y, reals(c, dt, intercepts))
	}
	return y
}

// linearRegressor converts LinearRegressor; the results are f32.
func linearRegressor(c *convert.Call) []*ir.Value {
	y := linear(c, c.Int("targets", 1))
	return convert.One(ops.Cast(c.Builder, transformed(c, y, c.StringAttribute("post_transform", "NONE")), dtype.F32))
}

// linearClassifier converts LinearClassifier. If there are two labels but only one row of coefficients, the row scores
// the second label.
func linearClassifier(c *convert.Call) []*ir.Value {
	labels, post := labelsOf(c, "classlabels_ints"), c.StringAttribute("post_transform", "NONE")
	count := int64(len(c.Floats("intercepts")))
	if count == 0 {
		count = max(labels.count, 1)
	}
	scores := linear(c, count)
	if count > 1 || labels.count != 2 {
		return classified(c, scores, labels, post)
	}
	zero := c.Scalar(scores.Type.DType, 0)
	label := labelled(c, ops.Cast(c.Builder, ops.Reshape(c.Builder, ops.Binary(c.Builder, ops.Gt, scores, zero),
		scores.Type.Shape[0]), dtype.I64), labels)
	return []*ir.Value{label, classified(c, twoClasses(c, scores, true, post), labels, post)[1]}
}

// classLabels are the labels that a classifier returns: integers, strings, or none, if the class's index is the label.
type classLabels struct {
	ints    []int64
	strings []string
	count   int64
}

// labelsOf reads the labels of a classifier; ints names the attribute that holds integers. It is a fault to have both
// kinds.
func labelsOf(c *convert.Call, ints string) classLabels {
	l := classLabels{ints: c.Ints(ints), strings: c.Strings("classlabels_strings")}
	if len(l.ints) > 0 && len(l.strings) > 0 {
		c.Fault("some labels are integers and others are strings")
	}
	l.count = int64(max(len(l.ints), len(l.strings)))
	return l
}

// labelled returns the label at each index.
func labelled(c *convert.Call, index *ir.Value, l classLabels) *ir.Value {
	if len(l.strings) > 0 {
		return sequence.Picked(c, sequence.Table(c, l.strings...), index)
	}
	if len(l.ints) == 0 {
		return index
	}
	return ops.Gather(c.Builder, c.Builder.Constant("labels", tensor.Of(l.ints...)), index, 0)
}

// classified returns the label of each row's greatest score, the first of equal scores, and the transformed scores as
// f32. If there is a single score, its label is returned if the score is above 0; otherwise 0 or an empty string.
func classified(c *convert.Call, scores *ir.Value, l classLabels, post string) []*ir.Value {
	b := c.Builder
	width, _ := scores.Type.Shape[1].Const()
	out := ops.Cast(b, transformed(c, scores, post), dtype.F32)
	if width == 1 && l.count <= 1 {
		above := ops.Cast(b, ops.Reshape(b, ops.Binary(b, ops.Gt, scores, c.Scalar(scores.Type.DType, 0)),
			scores.Type.Shape[0]), dtype.I64)
		two := classLabels{ints: []int64{0, 1}}
		switch {
		case len(l.ints) == 1:
			two.ints[1] = l.ints[0]
		case len(l.strings) == 1:
			two = classLabels{strings: []string{"", l.strings[0]}}
		}
		return []*ir.Value{labelled(c, above, two), out}
	}
	if l.count > 0 && l.count < width {
		c.Fault("%d labels for %d scores", l.count, width)
	}
	return []*ir.Value{labelled(c, ops.ArgMax(b, scores, 1, false, false, false), l), out}
}

// twoClasses returns [rows, 2]: the score of the other class before the given score in [rows, 1]. The other score is 1
// − score if shares is true and the transform leaves shares as they are; otherwise −score.
func twoClasses(c *convert.Call, score *ir.Value, shares bool, post string) *ir.Value {
	b := c.Builder
	other := ops.Unary(b, ops.Neg, score)
	if shares && (post == "NONE" || post == "PROBIT") {
		other = ops.Binary(b, ops.Sub, c.Scalar(score.Type.DType, 1), score)
	}
	return ops.Concat(b, 1, other, score)
}

// transforms are the functions that may follow scores. TreeEnsemble names them by their index in this list.
var transforms = []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}

// transformed applies the transform of the given name to scores.
func transformed(c *convert.Call, x *ir.Value, name string) *ir.Value {
	b := c.Builder
	switch name {
	case "NONE":
		return x
	case "SOFTMAX":
		return ops.Softmax(b, x, 1)
	case "LOGISTIC":
		return ops.Unary(b, ops.Sigmoid, x)
	case "SOFTMAX_ZERO":
		return softmaxZero(c, x)
	case "PROBIT":
		return probit(c, x)
	}
	c.Fault("post_transform is %q", name)
	return nil
}

// softmaxZero is a softmax in which scores of 0 have no share; a row whose scores are all 0 gets 0.5 everywhere.
func softmaxZero(c *convert.Call, x *ir.Value) *ir.Value {
	b, dt := c.Builder, x.Type.DType
	most := ops.ReduceMax(b, x, true, 1)
	share := ops.Unary(b, ops.Exp, ops.Binary(b, ops.Sub, x, most))
	rest := ops.Binary(b, ops.Mul, x, ops.Unary(b, ops.Exp, ops.Unary(b, ops.Neg, most)))
	share = ops.Where(b, ops.Binary(b, ops.Gt, ops.Unary(b, ops.Abs, x), c.Scalar(dt, 1e-7)), share, rest)
	sum := ops.ReduceSum(b, share, true, 1)
	none := ops.Binary(b, ops.Eq, sum, c.Scalar(dt, 0))
	return ops.Where(b, none, c.Scalar(dt, 0.5), ops.Binary(b, ops.Div, share, sum))
}

// probit returns √2 times the inverse error function of 2x − 1, by Winitzki's formula, as runtimes do (A handy
// approximation for the error function and its inverse, 2008).
func probit(c *convert.Call, x *ir.Value) *ir.Value {
	b, wide := c.Builder, dtype.F64
	number := func(v float64) *ir.Value { return c.Scalar(wide, v) }
	binary := func(f ops.BinaryFunction, x, y *ir.Value) *ir.Value { return ops.Binary(b, f, x, y) }
	y := binary(ops.Sub, binary(ops.Mul, ops.Cast(b, x, wide), number(2)), number(1))
	logarithm := ops.Unary(b, ops.Log, binary(ops.Mul, binary(ops.Sub, number(1), y), binary(ops.Add, number(1), y)))
	v := binary(ops.Add, number(2/(math.Pi*0.147)), binary(ops.Mul, logarithm, number(0.5)))
	root := ops.Unary(b, ops.Sqrt, binary(ops.Sub, binary(ops.Mul, v, v), binary(ops.Mul, logarithm, number(1/0.147))))
	inverse := binary(ops.Mul, ops.Unary(b, ops.Sign, y), ops.Unary(b, ops.Sqrt, binary(ops.Sub, root, v)))
	return ops.Cast(b, binary(ops.Mul, inverse, number(1.41421356)), x.Type.DType)
}
