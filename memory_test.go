package weir

import (
	"context"
	"testing"

	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
)

// TestCertificateOfTwoDimensions evaluates the printed formula of a model with two free dimensions at ten bindings. It
// equals, to the byte, the bytes that a measured run used and those that the ledger holds while four runs have results.
func TestCertificateOfTwoDimensions(t *testing.T) {
	ctx := context.Background()
	for _, file := range []string{"testdata/onnx/two_dims/model.onnx", "testdata/onnx/attention_two_dims/model.onnx"} {
		m, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(ctx, m, Options{Calls: 4, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		names := p.Dims()
		if len(names) != 2 {
			t.Fatalf("%s has dimensions %v", file, names)
		}
		one, err := sym.Parse(p.Memory().Formula(1).String())
		if err != nil {
			t.Fatal(err)
		}
		four, err := sym.Parse(p.Memory().Formula(4).String())
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range [][2]int64{{1, 1}, {1, 7}, {2, 3}, {3, 64}, {5, 5}, {8, 31}, {16, 17}, {33, 2}, {64, 64},
			{7, 200}} {
			d := Dims{names[0].Name: at[0], names[1].Name: at[1]}
			get := func(name sym.Name) (int64, bool) { v, ok := d[name.Text()]; return v, ok }
			in := Inputs{}
			for _, info := range p.Inputs() {
				shape := make([]int, len(info.Shape))
				for i, e := range info.Shape {
					if shape[i] = int(e.Size); e.Dim != "" {
						shape[i] = int(d[e.Dim])
					}
				}
				x, err := New(info.DType, shape...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { x.Close() })
				in[info.Name] = x
			}
			want, err := one.Eval(get)
			if err != nil {
				t.Fatal(err)
			}
			seen, err := p.Measure(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			if seen.Peak(1) != want {
				t.Errorf("%s at %v: %s is %d, measured %d", file, at, one, want, seen.Peak(1))
			}
			var open []*Results
			for range 4 {
				r, err := p.Run(ctx, in)
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, r)
			}
			held := mem.Usage()
			all, err := four.Eval(get)
			if err != nil {
				t.Fatal(err)
			}
			var got int64
			for _, kind := range []mem.Kind{mem.Arena, mem.Outputs, mem.Scratch} {
				got += held.Current[kind]
			}
			if got+seen.Weights+seen.Code != all || seen.Peak(4) != all {
				t.Errorf("%s at %v: four calls are to take %d, hold %d, measured %d", file, at, all, got+seen.Weights+seen.Code,
					seen.Peak(4))
			}
			for _, r := range open {
				r.Close()
			}
		}
		p.Close()
		m.Close()
	}
}
