package pass

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ir/irtest"
)

// TestTransposed applies Layout to transposed convolutions of random geometry, with extents that are numbers or named:
// all are computed by other convolutions, and the results stay the same.
func TestTransposed(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	separate, joined, columns := 0, 0, 0
	for i := range 160 {
		source := transposedModel(r, i%2 == 0)
		head := fmt.Sprintf("case %d", i)
		before, after := irtest.Parse(t, head, source, nil), irtest.Parse(t, head, source, nil)
		run := weighed(Layout)
		if i%4 == 1 {
			run = weighed(LayoutWithoutHoles)
		}
		for _, pass := range []func(*ir.Module) error{run, Dead} {
			if err := pass(after); err != nil {
				t.Fatalf("%s: %v", head, err)
			}
		}
		if err := ir.Verify(after); err != nil {
			t.Fatalf("%s: %v\n%s", head, err, after)
		}
		text := after.String()
		if strings.Contains(text, "convolution_transpose") {
			t.Fatalf("%s: a transposed convolution is left\n%s", head, after)
		}
		if strings.Contains(text, "concat") {
			separate++
		}
		if strings.Contains(text, "holes") {
			joined++
			if i%4 == 1 {
				t.Errorf("%s: holes, although none are allowed\n%s", head, after)
			}
		}
		if strings.Contains(text, "= pad(") {
			columns++
		}
		for seed := range uint64(2) {
			if err := sameResults(before, after, seed); err != nil {
				t.Fatalf("%s: seed %d: %v\n%s\n%s", head, seed, err, before, after)
			}
		}
	}
	if separate < 40 || joined < 10 || columns < 5 {
		t.Errorf("%d separate, %d joined, %d by columns", separate, joined, columns)
	}
}

// transposedModel draws a transposed convolution and functions of single elements after it; of named sizes if asked.
func transposedModel(r *rand.Rand, named bool) string {
	axes := 1 + r.IntN(3)
	groups := int64(1 + r.IntN(3)/2)
	inner, filters := 1+r.Int64N(3), []int64{1, 3, 8, 17}[r.IntN(4)]
	if r.IntN(4) == 0 { // from many channels to few
		groups, inner, filters = 1, onCPU.Lanes(), 1+r.Int64N(onCPU.Lanes()/4)
	}
	var kernel, strides, dilations, begin, end, in, out []string
	count := groups * inner * filters
	dims := "dim n in [0, inf]\n"
	for i := range axes {
		k, s, d := 1+r.Int64N([]int64{7, 4, 3}[axes-1]), 1+r.Int64N(3), 1+r.Int64N(5)/4
		reach := (k-1)*d + 1
		p, q := r.Int64N(min(reach, 4)), r.Int64N(min(reach, 4))-r.Int64N(s)
		if p+q >= reach {
			p, q = 0, 0
		}
		rest := reach - s - p - q // out = s · in + rest
		size := fmt.Sprint(3 + r.Int64N(3))
		if named {
			size = string(rune('a' + i))
			dims += fmt.Sprintf("dim %s in [3, inf]\n", size)
		}
		in = append(in, size)
		out = append(out, fmt.Sprintf("%d * %s + %d", s, size, rest))
		if !named {
			var extent int64
			fmt.Sscan(size, &extent)
			out[i] = fmt.Sprint(s*extent + rest)
		}
		kernel, strides, dilations = append(kernel, fmt.Sprint(k)), append(strides, fmt.Sprint(s)),
			append(dilations, fmt.Sprint(d))
		begin, end = append(begin, fmt.Sprint(p)), append(end, fmt.Sprint(q))
		count *= k
	}
	elements := func(n int64) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprint(r.IntN(9) - 4)
		}
		return strings.Join(list, ", ")
	}
	list := func(l []string) string { return strings.Join(l, ", ") }
	all := filters * groups
	x := list(append([]string{"n", fmt.Sprint(groups * inner)}, in...))
	y := list(append([]string{"n", fmt.Sprint(all)}, out...))
	w := list(append([]string{fmt.Sprint(groups * inner), fmt.Sprint(filters)}, kernel...))
	one := list(append([]string{fmt.Sprint(all)}, slices.Repeat([]string{"1"}, axes)...))
	weights, shift := fmt.Sprintf("f32[%s] = [%s]", w, elements(count)), fmt.Sprintf("f32[%d] = [%s]", all, elements(all))
	constants, given := "const %w: "+weights+"\nconst %b: "+shift, ""
	if r.IntN(3) == 0 { // weights and bias are computed
		constants, given = "", fmt.Sprintf(", %%w: f32[%s], %%b: f32[%d]", w, all)
	}
	text := fmt.Sprintf(`%smain @main(%%x: f32[%s]%s) {
%s
const %%f: f32[%s] = [%s]
`, dims, x, given, constants, one, elements(all))
	bias := ""
	if r.IntN(2) == 0 {
		bias = ", %b"
	}
	text += fmt.Sprintf("%%t: f32[%s] = convolution_transpose(%%x, %%w%s) {begin = syms [%s], dilations = ints [%s], "+
		"end = syms [%s], groups = int %d, kernel = ints [%s], strides = ints [%s]}\n",
		y, bias, list(begin), list(dilations), list(end), groups, list(kernel), list(strides))
	results := []string{"%t", "%s, %t", "%m", "%m, %s"}[r.IntN(4)]
	text += fmt.Sprintf("%%s: f32[%s] = sigmoid(%%t)\n%%m: f32[%s] = mul(%%s, %%t)\n%%a: f32[%s] = add(%%m, "+
		"%%f)\nreturn %s, %%a\n}", y, y, y, results)
	return text
}
