package loop

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// parseModule parses and verifies a module.
func parseModule(t *testing.T, source string) *Module {
	t.Helper()
	m, err := Parse(source, ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyModule(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// array returns a tensor of a shape and elements.
func array[T tensor.Element](shape []int64, x ...T) *tensor.Tensor {
	return tensor.Must(tensor.FromSlice(x, shape...))
}

// viewsAndData computes y = [−x, x·2] through two views of y; the rows where x's first column is positive are counted
// by a host operator, and as many zeros are made.
const viewsAndData = `weir 1
loop @main {
  dim n in [1, 64]
  dim k in [0, inf] limit n
  require n != 5 from "node 3"
  require k + 1 <= n from "node 4"
  buffer %x: f32[n, 2] input
  buffer %two: f32[1] weight = [2]
  buffer %y: f32[n, 4] output
  buffer %left: f32[n, 2] temp view %y offset 0 strides [4, 1]
  buffer %right: f32[n, 2] temp view %y offset 2 strides [4, 1]
  buffer %count: i64[] temp
  buffer %rows: i64[k] output
  buffer %zeros: f32[k, 2] output
  kernel @negate(%x: f32[n, 2] read, %y: f32[n, 2] strides [4, 1] write) dims(n) {
    each i < n { each j < 2 { store %y[i, j] = neg(load %x[i, j]) } }
  }
  kernel @scale(%x: f32[2*n] read, %s: f32[1] read, %y: f32[n, 2] strides [4, 1] write) dims(n) {
    each i < n { each j < 2 { store %y[i, j] = mul(load %x[2*i + j], load %s[0]) } }
  }
  kernel @clear(%y: f32[k, 2] write) dims(k) { each i < k { each j < 2 { store %y[i, j] = 0 } } }
  body {
    launch @negate(%x, %left)
    launch @scale(%x, %two, %right)
    host "Positive"(%left) -> (%rows) {sign = int -1}
    launch @clear(%zeros)
  }
}`

// positive returns the rows whose first element times sign is positive.
func positive(s *Host, in []*tensor.Tensor, _ func(sym.Name) (int64, bool)) ([]*tensor.Tensor, error) {
	rows := []int64{}
	for i := range in[0].Shape()[0] {
		if in[0].Float(2*i)*float64(s.Attrs["sign"].(int64)) > 0 {
			rows = append(rows, i)
		}
	}
	return []*tensor.Tensor{tensor.Must(tensor.FromSlice(rows, int64(len(rows))))}, nil
}

// TestRunViewsAndData: the results of viewsAndData, the calls of After, and the results of reversed loops.
func TestRunViewsAndData(t *testing.T) {
	m := parseModule(t, viewsAndData)
	steps := 0
	r := &Runner{Host: positive, After: func(s Step, get func(*Buffer) (*tensor.Tensor, error)) {
		steps++
		if l, ok := s.(*Launch); ok && l.Kernel.Name == "negate" {
			got, err := get(l.Args[1])
			if err != nil || got.Float(0) != -1 {
				t.Errorf("after @negate: %v, %v", got, err)
			}
		}
	}}
	got, err := r.Run(m, map[string]*tensor.Tensor{"x": array[float32]([]int64{3, 2}, 1, 2, -3, 4, 5, 6)})
	if err != nil {
		t.Fatal(err)
	}
	if want := array[float32]([]int64{3, 4}, -1, -2, 2, 4, 3, -4, -6, 8, -5, -6, 10, 12); !got["y"].Equal(want) {
		t.Errorf("y = %v", got["y"])
	}
	if want := array[int64]([]int64{2}, 0, 2); !got["rows"].Equal(want) {
		t.Errorf("rows = %v", got["rows"])
	}
	if want := array[float32]([]int64{2, 2}, 0, 0, 0, 0); !got["zeros"].Equal(want) || steps != 4 {
		t.Errorf("zeros = %v after %d steps", got["zeros"], steps)
	}
	r.Reversed = true
	again, err := r.Run(m, map[string]*tensor.Tensor{"x": array[float32]([]int64{3, 2}, 1, 2, -3, 4, 5, 6)})
	if err != nil || !again["y"].Equal(got["y"]) {
		t.Errorf("with loops run backward, y = %v, %v", again["y"], err)
	}
	if m.Buffers[1].Data.Float(0) != 2 {
		t.Error("a weight changed")
	}
}

// TestRunRefusesInputs: inputs of a wrong type, rank, extent or range, and data beyond a limit, are input errors.
func TestRunRefusesInputs(t *testing.T) {
	m := parseModule(t, viewsAndData)
	five := tensor.Must(tensor.New(dtype.F32, 5, 2))
	for want, inputs := range map[string]map[string]*tensor.Tensor{
		"the input is missing":      {},
		"is i64, want f32":          {"x": array[int64]([]int64{1, 2}, 1, 2)},
		"rank 1, want 2":            {"x": array[float32]([]int64{2}, 1, 2)},
		"axis 1 has 3 elements":     {"x": array[float32]([]int64{1, 3}, 1, 2, 3)},
		"0 is outside [1, 64]":      {"x": tensor.Must(tensor.New(dtype.F32, 0, 2))},
		"the inputs must meet":      {"x": five},
		"no host operators are giv": {"x": array[float32]([]int64{1, 2}, 1, 2)},
	} {
		_, err := (&Runner{}).Run(m, inputs)
		var e *diag.Error
		if err == nil || !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// A condition on a data dimension is checked when the dimension is bound.
	_, err := (&Runner{Host: positive}).Run(m, map[string]*tensor.Tensor{"x": array[float32]([]int64{2, 2}, 1, 2, 3, 4)})
	if !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), "k + 1 <= n") {
		t.Errorf("every row is positive: %v", err)
	}
	// A data dimension must not exceed its limit.
	all := func(*Host, []*tensor.Tensor, func(sym.Name) (int64, bool)) ([]*tensor.Tensor, error) {
		return []*tensor.Tensor{tensor.Must(tensor.New(dtype.I64, 9))}, nil
	}
	if _, err := (&Runner{Host: all}).Run(m, map[string]*tensor.Tensor{"x": array[float32]([]int64{1, 2}, 1,
		2)}); !errors.Is(err, diag.ErrInput) {
		t.Errorf("more rows than the limit: %v", err)
	}
}

// doubling is a loop that doubles a carried value until it is large, and keeps each value in a row of its own.
const doubling = `weir 1
loop @main {
  dim k in [0, 20]
  dim done in [0, inf] limit k
  buffer %trip: i64[] input
  buffer %start: f32[1] input
  buffer %limits: i8[k] input
  buffer %flag: bool[] input
  buffer %i: i64[] temp
  buffer %go: bool[] temp
  buffer %x: f32[1] temp
  buffer %all: f32[done, 1] output
  buffer %row: f32[1] temp view %all offset done - 1 strides [1]
  buffer %last: f32[1] output
  kernel @twice(%x: f32[1] update, %i: i64[] read, %go: bool[] write, %row: f32[1] write) dims() {
    store %row[0] = add(load %x[0], cast(f32, load %i[]))
    let %y = mul(load %x[0], 2)
    store %x[0] = %y
    store %go[] = lt(%y, 100)
  }
  kernel @true(%go: bool[] write) dims() { store %go[] = true }
  body {
    copy %x = %start
    launch @true(%go)
    loop trip %trip cond %go index %i count done { launch @twice(%x, %i, %go, %row) }
    if %flag { copy %last = %x } else { copy %last = %start }
  }
}`

// TestRunLoop: a loop that ends by its trip count, and a loop that ends by its condition, give the expected values of
// doubling.
func TestRunLoop(t *testing.T) {
	m := parseModule(t, doubling)
	run := func(trip int64, flag bool) (all, last *tensor.Tensor) {
		t.Helper()
		truth := tensor.Must(tensor.New(dtype.Bool))
		if flag {
			truth.SetInt(0, 1)
		}
		got, err := (&Runner{}).Run(m, map[string]*tensor.Tensor{"trip": array[int64](nil, trip),
			"start": array[float32]([]int64{1}, 3), "limits": tensor.Must(tensor.New(dtype.I8, 10)), "flag": truth})
		if err != nil {
			t.Fatal(err)
		}
		return got["all"], got["last"]
	}
	all, last := run(4, true)
	if want := array[float32]([]int64{4, 1}, 3, 7, 14, 27); !all.Equal(want) || last.Float(0) != 48 {
		t.Errorf("four rounds give %v and %v", all, last)
	}
	all, last = run(9, false)
	if want := array[float32]([]int64{6, 1}, 3, 7, 14, 27, 52, 101); !all.Equal(want) || last.Float(0) != 3 {
		t.Errorf("rounds until 100 give %v and %v", all, last)
	}
}

// TestElements: an input's elements bind dimensions, within their ranges, and must agree with the shapes.
func TestElements(t *testing.T) {
	const sizes, row = "  buffer %sizes: i64[2] input elements (n, k)\n", "  buffer %x: f32[k] input\n"
	testElements(t, sizes+row, "axis 0 has 2 elements, want k = 1")
	testElements(t, row+sizes, "element 1 is 1, want 2")
}

// testElements runs a module with the inputs sizes and x, and then with an extent outside its range and with inputs
// that disagree, which are errors.
func testElements(t *testing.T, inputs, disagree string) {
	m := parseModule(t, `weir 1
loop @main {
  dim k in [0, 9]
  dim n in [0, 9]
`+inputs+`  buffer %y: f32[n, k] output
  kernel @rows(%x: f32[k] read, %y: f32[n, k] write) dims(n, k) { each i < n { each j < k { store %y[i, j] = load %x[j] } } }
  body { launch @rows(%x, %y) }
}`)
	run := func(n, k int64) (*tensor.Tensor, error) {
		out, err := (&Runner{}).Run(m, map[string]*tensor.Tensor{"sizes": array([]int64{2}, n, k),
			"x": array([]int64{2}, float32(1), 2)})
		return out["y"], err
	}
	y, err := run(3, 2)
	if err != nil || tensor.Compare(y, array([]int64{3, 2}, float32(1), 2, 1, 2, 1, 2), 0, 0) != nil {
		t.Errorf("%v, %v", y, err)
	}
	for _, c := range []struct {
		n, k int64
		want string
	}{{10, 2, "10"}, {3, 1, disagree}} {
		if _, err := run(c.n, c.k); !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d, %d: %v", c.n, c.k, err)
		}
	}
}
