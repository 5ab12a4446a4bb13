package torch_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// TestBagsOutside: indices of bags do not count from the end, nor do offsets, and the first bag begins at 0, as in
// torch: all else is an error of the run.
func TestBagsOutside(t *testing.T) {
	named := func(name, text string) string { return strings.ReplaceAll(text, `"y"`, `"`+name+`"`) }
	given := named("v", node("aten.view.default", self+`, {"name": "size", "arg": {"as_ints": [-1]}}`))
	zeros := named("z", node("aten.full.default",
		`{"name": "size", "arg": {"as_ints": [4]}}, {"name": "fill_value", "arg": {"as_int": 0}}, `+
			`{"name": "dtype", "arg": {"as_scalar_type": 5}}`))
	bags := func(indices, offsets string) string {
		return given + "," + zeros + "," + node("aten._embedding_bag.default",
			`{"name": "weight", "arg": {"as_tensor": {"name": "x"}}}, {"name": "indices", "arg": {"as_tensor": {"name": "`+indices+
				`"}}}, {"name": "offsets", "arg": {"as_tensor": {"name": "`+offsets+`"}}}`)
	}
	for _, c := range []struct {
		indices, offsets string
		x                []int64
		outside          bool
	}{
		{"v", "z", []int64{0, 1, 0, 1}, false}, {"v", "z", []int64{0, 1, -1, 1}, true}, {"v", "z", []int64{0, 2, 0, 1}, true},
		{"z", "v", []int64{0, 0, 1, 4}, false}, {"z", "v", []int64{0, 0, -1, 4}, true}, {"z", "v", []int64{0, 0, 5, 5}, true},
		{"z", "v", []int64{1, 2, 3, 4}, true},
	} {
		text := bytes.Replace(program(bags(c.indices, c.offsets), "", ""), []byte(`"dtype": 7`), []byte(`"dtype": 5`), 1)
		m, err := parseGraph(text)
		if err != nil {
			t.Fatal(err)
		}
		x := tensor.Must(tensor.FromSlice(append(c.x, make([]int64, 4)...), 2, 4))
		if c.offsets == "v" { // as many offsets as elements: those of the second row are the first row's last one
			for i := range int64(4) {
				x.SetInt(4+i, max(c.x[3], 0))
			}
		}
		_, err = ir.Evaluate(m, []*tensor.Tensor{x}, nil)
		if outside := errors.Is(err, diag.ErrInput); outside != c.outside || err != nil && !outside {
			t.Errorf("indices %s, offsets %s, %v: %v", c.indices, c.offsets, c.x, err)
		}
	}
}
