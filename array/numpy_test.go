package array_test

import (
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/tensor"
)

// op is a function of arrays of a scope.
type op func(s *array.Scope, in ...*array.Array) *array.Array

// entry is an operation with the equivalent NumPy expression.
type entry struct {
	expr   string // of x, y, z in Python
	f      op
	types  string  // of the operands: a key of typeSets
	shape  [][]int // of each operand; nil: elementwise shapes
	limits [2]float64
	error  float64 // relative; 0: 4 ulp
	index  []int   // the bounds of operands that are indices, i64; 0: no index
	// data, if not nil, returns the elements of the operands in place of random ones.
	data func(dt weir.DType, operand int) []float64
	// signed says that the signs of zeros are compared too.
	signed bool
}

var typeSets = map[string][]weir.DType{
	"float":  {weir.F32, weir.F64, weir.F16},
	"int":    {weir.I8, weir.U8, weir.I16, weir.U16, weir.I32, weir.U32, weir.I64, weir.U64},
	"number": {weir.F32, weir.F64, weir.F16, weir.I8, weir.U8, weir.I16, weir.U16, weir.I32, weir.U32, weir.I64, weir.U64},
	"any": {weir.F32, weir.F64, weir.F16, weir.I8, weir.U8, weir.I16, weir.U16, weir.I32, weir.U32, weir.I64, weir.U64,
		weir.Bool},
	"bits":   {weir.I8, weir.U8, weir.I32, weir.U64, weir.I64, weir.Bool},
	"bool":   {weir.Bool},
	"f32":    {weir.F32, weir.F64},
	"signed": {weir.F32, weir.F64, weir.F16, weir.I8, weir.I16, weir.I32, weir.I64},
}

// sample returns a tensor of random elements, some of them extreme.
func sample(r *rand.Rand, dt weir.DType, low, high float64, extreme bool, shape ...int) *tensor.Tensor {
	sizes := make([]int64, len(shape))
	for i, e := range shape {
		sizes[i] = int64(e)
	}
	t := tensor.Must(tensor.New(dt, sizes...))
	odd := []float64{math.Inf(1), math.Inf(-1), math.NaN(), 0, math.Copysign(0, -1), 3e4, -3e4, 1e-4}
	for i := range t.Len() {
		switch {
		case dt == weir.Bool:
			t.SetInt(i, int64(r.Intn(2)))
		case dt.IsFloat():
			// two roundings on every processor, because the golden file depends on these numbers
			x := low + float64((high-low)*r.Float64())
			if extreme && r.Intn(5) == 0 {
				x = odd[r.Intn(len(odd))]
			}
			t.SetFloat(i, x)
		default:
			x := int64(math.Round(low + float64((high-low)*r.Float64())))
			if extreme && r.Intn(6) == 0 {
				x = []int64{dt.MinInt(), int64(dt.MaxInt()), 0, 1}[r.Intn(4)]
			}
			if dt.IsUnsigned() && x < 0 && !(extreme && dt == weir.U64) {
				x = -x
			}
			t.SetInt(i, x)
		}
	}
	return t
}

type npInput struct {
	Type  string  `json:"type"`
	Shape []int64 `json:"shape"`
	Data  string  `json:"data"`
}

type npCase struct {
	Expr   string    `json:"expr"`
	Inputs []npInput `json:"inputs"`
}

type npResult struct {
	Error string `json:"error"`
	Kind  string `json:"kind"`
	Bits  int    `json:"bits"`
	Shape []int  `json:"shape"`
	Data  []byte `json:"data"`
}

// pending is a case that waits for NumPy's result.
type pending struct {
	entry  entry
	in     []*tensor.Tensor
	got    *tensor.Tensor
	failed error
}

// arraysOf returns arrays with the elements of tensors.
func arraysOf(s *array.Scope, list []*tensor.Tensor) []*array.Array {
	out := make([]*array.Array, len(list))
	for i, t := range list {
		shape := make([]int, t.Rank())
		for k, e := range t.Shape() {
			shape[k] = int(e)
		}
		out[i] = s.Zeros(t.DType(), shape...)
		if out[i].Tensor() != nil {
			copy(out[i].Tensor().Bytes(), t.Bytes())
		}
	}
	return out
}

// both runs an operation eagerly and compiled, and compares the results to the bit.
func both(t *testing.T, what string, f op, in []*tensor.Tensor) (*tensor.Tensor, error) {
	t.Helper()
	return compiledFor(t, what, f, in, weir.Best)
}

// compiledFor is both with the compiled operation for a target.
func compiledFor(t *testing.T, what string, f op, in []*tensor.Tensor, target weir.Target) (*tensor.Tensor, error) {
	t.Helper()
	how := ""
	if target != weir.Best {
		how = " for " + string(target)
	}
	s := array.NewScope("case")
	defer s.Close()
	args := arraysOf(s, in)
	y := f(s, args...)
	err := s.Err()
	c, jit := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{f(s, in...)}
	}, array.Options{Name: "case", Compile: weir.Options{Target: target}})
	if jit != nil {
		t.Fatal(jit)
	}
	defer c.Close()
	inner := array.NewScope("jit")
	defer inner.Close()
	z := c.Call(inner, args...)
	if (err == nil) != (inner.Err() == nil) {
		t.Errorf("%s: at once: %v; compiled%s: %v", what, err, how, inner.Err())
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if y.String() != z[0].String() {
		t.Errorf("%s: %v at once, %v compiled%s", what, y, z[0], how)
	} else if d := differ(y.Tensor(), z[0].Tensor(), target); d != "" {
		t.Errorf("%s: at once and compiled%s differ: %s", what, how, d)
	}
	sizes := make([]int64, y.Rank())
	for i, e := range y.Shape() {
		sizes[i] = int64(e)
	}
	return tensor.Must(tensor.Over(y.DType(), sizes, append([]byte(nil), y.Tensor().Bytes()...))), nil
}

// differ returns where two tensors of one type differ by more than some roundings, or "". Sums of the portable target
// may have more roundings.
func differ(x, y *weir.Tensor, target weir.Target) string {
	roundings := 16.0
	if target == weir.Portable {
		roundings = 128
	}
	if bytes.Equal(x.Bytes(), y.Bytes()) {
		return ""
	}
	for i := range int64(x.Len()) {
		a, b := at(x, i), at(y, i)
		if a != b && !(a != a && b != b) && math.Abs(a-b) > ulps(x.DType(), roundings)*max(1, math.Abs(a), math.Abs(b)) {
			return fmt.Sprintf("element %d: %v and %v", i, a, b)
		}
	}
	return ""
}

func at(t *weir.Tensor, i int64) float64 {
	u := tensor.Must(tensor.Over(t.DType(), []int64{int64(t.Len())}, t.Bytes()))
	if t.DType().IsFloat() {
		return u.Float(i)
	}
	return float64(u.Int(i))
}

func ulps(dt weir.DType, n float64) float64 {
	switch dt {
	case weir.F64:
		return n * 0x1p-52
	case weir.F16:
		return n * 0x1p-10
	}
	return n * 0x1p-23
}

var elementwiseShapes = [][][]int{{{}, {}, {}}, {{5}, {5}, {5}}, {{3, 1}, {1, 4}, {3, 4}}, {{0}, {1}, {}},
	{{2, 3, 37}, {37}, {3, 1}}, {{33}, {}, {1}}}

// operands returns the number of operands that the expression names.
func operands(e entry, shape [][]int) int {
	expr := strings.NewReplacer("np.exp", "", "max", "", "axis", "", "axes", "", "index", "", "indexing", "").
		Replace(e.expr)
	n := 0
	for n < len(shape) && strings.Contains(expr, "xyz"[n:n+1]) {
		n++
	}
	return n
}

// operand returns an operand: a random one, or of the entry's data.
func (e entry) operand(r *rand.Rand, dt weir.DType, i int, shape []int) *tensor.Tensor {
	if e.data != nil {
		return tensorOf(dt, e.data(dt, i), shape...)
	}
	if i < len(e.index) && e.index[i] > 0 {
		return sample(r, weir.I64, -float64(e.index[i]), float64(e.index[i]-1), false, shape...)
	}
	if strings.HasPrefix(e.expr, "np.where(x,") && i == 0 {
		dt = weir.Bool
	}
	low, high, limited := -4.0, 4.0, e.limits != [2]float64{}
	if limited {
		low, high = e.limits[0], e.limits[1]
	}
	return sample(r, dt, low, high, e.shape == nil && !limited, shape...)
}

var rewrite = flag.Bool("rewrite", false, "write testdata/numpy.gz anew, by the NumPy that WEIR_NUMPY names")

// TestNumPy compares every operation of entries with NumPy on random cases, and specials on theirs: eager, compiled,
// and compiled for the portable target. testdata/numpy.gz has NumPy's results; -rewrite writes it. If WEIR_NUMPY is a
// Python that has NumPy, the test asks it.
func TestNumPy(t *testing.T) {
	var cases []npCase
	var list []pending
	for n, e := range slices.Concat(entries, specials) {
		r := rand.New(rand.NewSource(int64(n)))
		for _, dt := range typeSets[e.types] {
			shapes := [][][]int{e.shape}
			if e.shape == nil {
				shapes = elementwiseShapes
			}
			for _, shape := range shapes {
				p := pending{entry: e}
				for i := range operands(e, shape) {
					p.in = append(p.in, e.operand(r, dt, i, shape[i]))
				}
				c := npCase{Expr: e.expr}
				for _, in := range p.in {
					c.Inputs = append(c.Inputs, npInput{in.DType().String(), append([]int64{}, in.Shape()...),
						base64.StdEncoding.EncodeToString(in.Bytes())})
				}
				cases, list = append(cases, c), append(list, p)
			}
		}
	}
	results := npResults(t, cases)
	part := 1
	if testing.Short() {
		part = 5
	}
	for i, p := range list {
		if i%part != 0 {
			continue
		}
		what := fmt.Sprint(cases[i].Expr, " of ", p.types())
		p.got, p.failed = both(t, what, p.entry.f, p.in)
		if p.failed == nil && i%3 == 0 {
			compiledFor(t, what, p.entry.f, p.in, weir.Portable)
		}
		p.compare(t, what, results[i])
	}
	t.Logf("%d cases", len(list))
}

// types returns the names of the operands' types.
func (p pending) types() (types []string) {
	for _, in := range p.in {
		types = append(types, fmt.Sprint(in.DType(), in.Shape()))
	}
	return types
}

// compare compares a result with NumPy's.
func (p pending) compare(t *testing.T, what string, want npResult) {
	switch {
	case want.Error != "" && p.failed != nil:
		return
	case want.Error != "":
		t.Logf("%s: NumPy refuses: %s", what, want.Error)
		return
	case p.failed != nil:
		t.Errorf("%s: %v", what, p.failed)
		return
	}
	if fmt.Sprint(p.got.Shape()) != fmt.Sprint(want.Shape) {
		t.Errorf("%s: shape %v, NumPy has %v", what, p.got.Shape(), want.Shape)
		return
	}
	dt := p.got.DType()
	kind := map[bool]string{true: "f"}[dt.IsFloat()]
	switch {
	case dt == weir.Bool:
		kind = "b"
	case dt.IsSigned() && dt.IsInt():
		kind = "i"
	case dt.IsUnsigned():
		kind = "u"
	}
	if kind != want.Kind || kind != "f" && dt != weir.Bool && dt.Bits() != want.Bits {
		t.Errorf("%s: %v, NumPy has %s%d", what, dt, want.Kind, want.Bits)
		return
	}
	e := ulps(dt, 8)
	if p.entry.error > 0 {
		e = max(e, p.entry.error)
	}
	wide := map[string]weir.DType{"f": weir.F64, "i": weir.I64, "u": weir.U64, "b": weir.Bool}[kind]
	w, err := tensor.Over(wide, p.got.Shape(), want.Data)
	if err != nil {
		t.Fatal(what, err)
	}
	bad := 0
	for i := range p.got.Len() {
		if kind != "f" {
			if p.got.Int(i) != w.Int(i) {
				if bad++; bad < 3 {
					t.Errorf("%s: element %d is %d, NumPy has %d %s", what, i, p.got.Int(i), w.Int(i), p.elements(i))
				}
			}
			continue
		}
		a, b := p.got.Float(i), w.Float(i)
		if a == b && !(p.entry.signed && a == 0 && math.Signbit(a) != math.Signbit(b)) || a != a && b != b {
			continue
		}
		if dt == weir.F16 && math.Abs(b) > 65504 && math.IsInf(a, 0) || dt == weir.F32 && math.Abs(b) > math.MaxFloat32 &&
			math.IsInf(a, 0) {
			continue
		}
		if d := math.Abs(a - b); !(d <= e*math.Max(1e-3, math.Abs(b))) || math.IsInf(b, 0) {
			if bad++; bad < 3 {
				t.Errorf("%s: element %d is %v, NumPy has %v %s", what, i, a, b, p.elements(i))
			}
		}
	}
}

// elements returns the operands' elements at the position of a result's element, if they have the result's shape.
func (p pending) elements(i int64) string {
	var out []string
	for _, in := range p.in {
		k := i
		if in.Len() == 1 {
			k = 0
		}
		if in.Len() != 1 && in.Len() != p.got.Len() {
			return ""
		}
		if in.DType().IsFloat() {
			out = append(out, fmt.Sprint(in.Float(k)))
		} else {
			out = append(out, fmt.Sprint(in.Int(k)))
		}
	}
	return "of " + strings.Join(out, ", ")
}
