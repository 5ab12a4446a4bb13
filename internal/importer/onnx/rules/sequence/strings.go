package sequence

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/rules/core"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// broadcast broadcasts the strings of inputs 0 and 1 to one shape.
func broadcast(c *convert.Call) (x, y ops.Text) {
	x, y = c.StringInput(0), c.StringInput(1)
	x.Spans = ops.Expand(c.Builder, x.Spans, y.Spans.Type.Shape...)
	y.Spans = ops.Expand(c.Builder, y.Spans, x.Spans.Type.Shape...)
	return x, y
}

// stringEqual converts Equal of strings.
func stringEqual(c *convert.Call) []*ir.Value {
	x, y := broadcast(c)
	return convert.One(ops.TextEqual(c.Builder, x, y))
}

// stringConcat converts StringConcat.
func stringConcat(c *convert.Call) []*ir.Value {
	x, y := broadcast(c)
	return convert.One(c.Scope.StringValue(ops.TextConcat(c.Builder, x, y)))
}

// stringSplit converts StringSplit. Without a delimiter, or with an empty one, it cuts strings at white space.
func stringSplit(c *convert.Call) []*ir.Value {
	most := int64(-1)
	if c.Has("maxsplit") {
		if most = c.Int("maxsplit", 0); most < 0 {
			c.Fault("at most %d cuts", most)
		}
	}
	pieces, counts := ops.TextSplit(c.Builder, c.StringInput(0), c.StringAttribute("delimiter", ""), most)
	return []*ir.Value{c.Scope.StringValue(pieces), counts}
}

// stringNormalizer converts StringNormalizer.
func stringNormalizer(c *convert.Call) []*ir.Value {
	x := c.StringInput(0)
	shape := x.Spans.Type.Shape
	if rank := len(shape); rank != 1 && rank != 2 {
		c.Fault("strings of rank %d, it must be a vector or a matrix of one row", rank)
	}
	if len(shape) == 2 {
		c.Condition(sym.Cond{A: shape[0], Rel: sym.EQ, B: sym.Const(1)}, "a matrix of one row")
	}
	to := strings.ToLower(c.StringAttribute("case_change_action", "NONE"))
	if to != "lower" && to != "upper" && to != "none" {
		c.Fault("case_change_action %q, it must be LOWER, UPPER or NONE", c.StringAttribute("case_change_action", ""))
	}
	caseSensitive, stops := c.Int("is_case_sensitive", 0) != 0, c.Strings("stopwords")
	if !caseSensitive {
		for i := range stops {
			stops[i] = ops.TextLower(stops[i])
		}
	}
	return convert.One(c.Scope.StringValue(ops.TextNormalize(c.Builder, x, ascending(c, stops), to, caseSensitive)))
}

// ascending returns a constant of the distinct strings of a list, sorted.
func ascending(c *convert.Call, list []string) ops.Text {
	list = slices.Clone(list)
	slices.Sort(list)
	list = slices.Compact(list)
	return c.Scope.StringComponents(Table(c, list...))
}

// Table returns a constant vector of strings.
func Table(c *convert.Call, list ...string) *ir.Value {
	t, err := tensor.OverStrings([]int64{int64(len(list))}, list)
	if err != nil {
		c.Fail(err)
	}
	return c.Scope.Constant(c.Source, t)
}

// IndexOf returns the index among keys of each string of the i-th input: the first if a key is repeated, and the number
// of keys if the string is no key. Gathering from a table by this index is a look-up with a default.
func IndexOf(c *convert.Call, i int, keys []string) *ir.Value {
	sorted := slices.Clone(keys)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	indices := make([]int64, 0, len(sorted)+1)
	for _, key := range sorted {
		indices = append(indices, int64(slices.Index(keys, key)))
	}
	index := ops.TextIndex(c.Builder, c.StringInput(i), ascending(c, sorted))
	return ops.Gather(c.Builder, c.Builder.Constant("places", tensor.Of(append(indices, int64(len(keys)))...)), index, 0)
}

// Picked gathers from a vector, of numbers or strings, by indices.
func Picked(c *convert.Call, table, indices *ir.Value) *ir.Value {
	if !c.Scope.IsStrings(table) {
		return ops.Gather(c.Builder, table, indices, 0)
	}
	t := c.Scope.StringComponents(table)
	return c.Scope.StringValue(ops.Text{Spans: ops.Gather(c.Builder, t.Spans, indices, 0), Pool: t.Pool})
}

// regexFullMatch converts RegexFullMatch.
func regexFullMatch(c *convert.Call) []*ir.Value {
	pattern := c.StringAttribute("pattern", "")
	if err := ops.CheckPattern(pattern); err != nil {
		c.Fault("pattern %q: %v", pattern, err)
	}
	return convert.One(ops.TextMatch(c.Builder, c.StringInput(0), pattern))
}

// stringCast converts Cast of strings.
func stringCast(c *convert.Call) []*ir.Value {
	to := c.Type("to")
	if to == dtype.Invalid {
		c.Fault("attribute to is missing")
	}
	return convert.One(stringTo(c, to))
}

// stringCastLike converts CastLike of or to strings.
func stringCastLike(c *convert.Call) []*ir.Value {
	to := dtype.String
	if !c.IsStrings(1) {
		to = c.Input(1).Type.DType
	}
	if !c.IsStrings(0) {
		return convert.One(core.CastTo(c, to))
	}
	return convert.One(stringTo(c, to))
}

// stringTo converts the strings of the first input to a type.
func stringTo(c *convert.Call, to dtype.DType) *ir.Value {
	if to == dtype.String {
		return c.In[0]
	}
	return ops.TextParse(c.Builder, c.StringInput(0), to)
}

// stringUnique converts Unique of strings: it finds the distinct ranks, which have the order of the strings.
func stringUnique(c *convert.Call) []*ir.Value {
	x, axis := c.StringInput(0), int64(0)
	if c.Has("axis") {
		axis = c.Axis(c.Int("axis", 0), len(x.Spans.Type.Shape))
	} else {
		x.Spans = c.Flat(x.Spans)
	}
	_, indices, inverse, counts := ops.Unique(c.Builder, ops.TextRank(c.Builder, x), axis, c.Int("sorted", 1) != 0)
	x.Spans = ops.Gather(c.Builder, x.Spans, indices, axis)
	return []*ir.Value{c.Scope.StringValue(x), indices, inverse, counts}
}

// stringOneHot converts OneHot with strings as values: it gathers from the two values by a one-hot tensor of indices.
func stringOneHot(c *convert.Call) []*ir.Value {
	if len(c.In) != 3 || c.IsStrings(0) || c.IsStrings(1) {
		c.Fault("indices or a depth that are strings")
	}
	values := c.In[2]
	c.In = []*ir.Value{c.In[0], c.In[1], c.Builder.Constant("places", tensor.Of[int64](0, 1))}
	return convert.One(Picked(c, values, core.OneHot(c)[0]))
}

// tfIdfVectorizer converts TfIdfVectorizer, which counts n-grams of integers or strings; strings become their indices
// in the vocabulary.
func tfIdfVectorizer(c *convert.Call) []*ir.Value {
	var x *ir.Value
	pool := c.Ints("pool_int64s")
	if words := c.Strings("pool_strings"); c.IsStrings(0) {
		vocabulary := slices.Clone(words)
		slices.Sort(vocabulary)
		vocabulary = slices.Compact(vocabulary)
		x = ops.TextIndex(c.Builder, c.StringInput(0), ascending(c, vocabulary))
		pool = nil
		for _, word := range words {
			at, _ := slices.BinarySearch(vocabulary, word)
			pool = append(pool, int64(at))
		}
	} else {
		x = ops.Cast(c.Builder, c.Input(0), dtype.I64)
	}
	if rank := len(x.Type.Shape); rank != 1 && rank != 2 {
		c.Fault("a tensor of rank %d, it must be a vector or a matrix", rank)
	}
	weighted := map[string]bool{"TF": false, "IDF": true, "TFIDF": true}
	mode := c.StringAttribute("mode", "")
	useWeights, ok := weighted[mode]
	if !ok {
		c.Fault("mode %q, it must be TF, IDF or TFIDF", mode)
	}
	var weights []float64
	if useWeights {
		weights = c.Floats("weights")
	}
	table, width := ngrams(c, pool, weights)
	least, most, skip := c.Int("min_gram_length", 0), c.Int("max_gram_length", 0), c.Int("max_skip_count", 0)
	if least < 1 || most < least || skip < 0 {
		c.Fault("n-grams of %d to %d elements, with gaps of up to %d", least, most, skip)
	}
	return convert.One(ops.NGrams(c.Builder, x, table, least, most, skip, width, mode == "IDF"))
}

// ngrams reads the table of n-grams: those of each length in ascending order, each with its column and its weight.
func ngrams(c *convert.Call, pool []int64, weights []float64) (t ops.NGramTable, width int64) {
	counts, columns := c.Ints("ngram_counts"), c.Ints("ngram_indexes")
	for _, column := range columns {
		if column < 0 || column >= 1<<31 {
			c.Fault("column %d", column)
		}
		width = max(width, column+1)
	}
	type gram struct {
		elements []int64
		column   int64
		weight   float32
	}
	var elements, indices []int64
	var amounts []float32
	t.Starts = []int64{0}
	for n := 1; n <= len(counts); n++ {
		end := int64(len(pool))
		if n < len(counts) {
			end = counts[n]
		}
		begin := counts[n-1]
		if begin < 0 || end < begin || end > int64(len(pool)) || (end-begin)%int64(n) != 0 {
			c.Fault("the n-grams of %d elements are elements %d to %d of a pool of %d", n, begin, end, len(pool))
		}
		var grams []gram
		for at := begin; at < end; at += int64(n) {
			k := len(indices) + len(grams)
			if k >= len(columns) || weights != nil && k >= len(weights) {
				c.Fault("n-gram %d has no column or no weight", k)
			}
			g := gram{pool[at : at+int64(n)], columns[k], 1}
			if weights != nil {
				g.weight = float32(weights[k])
			}
			grams = append(grams, g)
		}
		slices.SortStableFunc(grams, func(a, b gram) int { return slices.CompareFunc(a.elements, b.elements, cmp.Compare) })
		for _, g := range grams {
			elements, indices, amounts = append(elements, g.elements...), append(indices, g.column), append(amounts, g.weight)
		}
		t.Starts = append(t.Starts, int64(len(indices)))
	}
	t.Elements, t.Columns = c.Builder.Constant("ngrams", tensor.Of(elements...)),
		c.Builder.Constant("columns", tensor.Of(indices...))
	t.Weights = c.Builder.Constant("weights", tensor.Of(amounts...))
	return t, width
}
