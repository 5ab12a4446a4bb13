package command

import (
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// TestRegion: every row of a region fits, and nothing larger in either dimension does; without rows, the smallest sizes
// do not fit.
func TestRegion(t *testing.T) {
	for _, c := range []struct {
		model         string
		dims          map[string]weir.Range
		first, second string
	}{
		{"two_dims", nil, "m", "n"},
		{"two_dims", map[string]weir.Range{"n": {Min: 3, Max: 100}}, "m", "n"},
		{"two_dims", map[string]weir.Range{"m": {Min: 5, Max: 7}}, "m", "n"},
		{"attention_two_dims", nil, "batch", "seq"},
		{"lstm_bidirectional", nil, "n", "t"},
		{"casts", nil, "k", "n"},
	} {
		m, err := weir.Load(models + c.model + "/model.onnx")
		if err != nil {
			t.Fatal(err)
		}
		p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 2, Dims: c.dims})
		if err != nil {
			t.Fatal(err)
		}
		var free [2]weir.Dimension
		for _, d := range p.Dims() {
			switch d.Name {
			case c.first:
				free[0] = d
			case c.second:
				free[1] = d
			}
		}
		for _, budget := range []int64{1, 40832, 60000, 1 << 20, 1<<30 + 7, 1 << 50} {
			f := newFitting(p.Memory(), 1, nil, budget)
			fits := func(first, second int64) bool {
				peak, err := p.Memory().Peak(1, weir.Dims{c.first: first, c.second: second})
				return err == nil && peak <= budget && first <= free[0].Max && second <= free[1].Max
			}
			rows := f.region(free[0], free[1])
			if len(rows) == 0 && fits(some(free[0]), some(free[1])) {
				t.Errorf("%s, %d: nothing fits", c.model, budget)
			}
			for i, r := range rows {
				switch {
				case r.Max == nil && !fits(farthest, r.Size):
					t.Errorf("%s, %d: %s does not fit", c.model, budget, r)
				case r.Max != nil && (!fits(*r.Max, r.Size) || fits(*r.Max+1, r.Size)):
					t.Errorf("%s, %d: %s is not the largest that fits", c.model, budget, r)
				case i == len(rows)-1 && r.Size < farthest && fits(some(free[0]), r.Size+1):
					t.Errorf("%s, %d: the last row is %s, and more fits", c.model, budget, r)
				}
			}
			if len(rows) > mostRows {
				t.Errorf("%s, %d: %d rows", c.model, budget, len(rows))
			}
		}
		p.Close()
		m.Close()
	}
}

// TestRegionTold compares the output of weir plan --budget for free dimensions.
func TestRegionTold(t *testing.T) {
	for _, c := range [][2]string{
		{"gather_negative --budget 1MiB --dim k=5..7", "fit k ≤ 7 at n 4096, k ≤ 5 at n 7"},
		{"two_dims --budget 1KiB", "and m = 1, n = 1 does not fit (fix: --budget "},
		{"training_step --budget 1KiB", "and n = 0 does not fit (fix: --budget "},
		{"kv_cache --budget 1MiB", "bind all but two of batch, past, step"},
		{"if_in_loop --budget 1MiB", "fits --dim n=0.."},
	} {
		name, rest, _ := strings.Cut(c[0], " ")
		args := append([]string{"plan", models + name + "/model.onnx", "--threads", "2", "--cpu", "portable"},
			strings.Fields(rest)...)
		if r := weirRun(t, args...); r.code != 1 || !strings.Contains(r.err, c[1]) {
			t.Errorf("%s: exit %d, %s", c[0], r.code, r.err)
		}
	}
}
