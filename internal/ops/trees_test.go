package ops

import (
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/tensor"
)

// leafOf is where a sample ends in a tree, by the forest's own tables.
func leafOf[T float32 | float64](f *Forest, x []T, at int32) int32 {
	for at >= 0 {
		v, s := x[f.Features[at]], T(f.Splits[at])
		met := map[uint8]bool{treeLE: v <= s, treeLT: v < s, treeGE: v >= s, treeGT: v > s, treeEQ: v == s,
			treeNE: v != s}[f.Modes[at]&^TreeMissing]
		if f.Modes[at]&TreeMissing != 0 && v != v {
			met = true
		}
		child := f.Children[2*at+1]
		if met {
			child = f.Children[2*at]
		}
		at = child
	}
	return ^at
}

// TestTreesPacked compares with a walk down the forest's own tables: all comparisons, special numbers on both sides,
// subtrees that have several parents, all aggregates, few rows and many.
func TestTreesPacked(t *testing.T) {
	t.Run("f32", treesPacked[float32])
	t.Run("f64", treesPacked[float64])
}

func treesPacked[T float32 | float64](t *testing.T) {
	r := rand.New(rand.NewSource(11))
	inf := math.Inf(1)
	specials := []float64{0, math.Copysign(0, -1), inf, -inf, math.NaN(), math.MaxFloat32, -math.MaxFloat32,
		math.SmallestNonzeroFloat32, 1, -1, 0.1, math.MaxFloat64, -math.MaxFloat64}
	draw := func() float64 {
		if r.Intn(3) == 0 {
			return specials[r.Intn(len(specials))]
		}
		return math.Round(2*r.NormFloat64()) / 2
	}
	dt := dtype.F32
	if _, ok := any(T(0)).(float64); ok {
		dt = dtype.F64
	}
	for trial := range 300 {
		targets := 1 + r.Intn(3)
		f := sampleForest(r, r.Intn(20), 3, targets)
		for i := range f.Splits {
			f.Splits[i] = draw()
			if r.Intn(8) == 0 && i+1 < len(f.Splits) {
				f.Children[2*i+r.Intn(2)] = int32(i + 1 + r.Intn(len(f.Splits)-i-1))
			}
		}
		if trial%2 == 0 { // each leaf gives to all
			leaves := len(f.Begins) - 1
			f.Targets, f.Weights, f.Begins = nil, nil, []int32{0}
			for range leaves {
				for to := range targets {
					f.Targets, f.Weights = append(f.Targets, int32(to)), append(f.Weights, r.NormFloat64())
				}
				f.Begins = append(f.Begins, int32(len(f.Targets)))
			}
		}
		rows := []int{0, 1, 7, 8, 9, 130, 300}[r.Intn(7)]
		x := make([]T, rows*3)
		nans := r.Intn(2) == 0
		for i := range x {
			for x[i] = T(draw()); !nans && x[i] != x[i]; x[i] = T(draw()) {
			}
		}
		aggregate := []string{"sum", "average", "min", "max"}[r.Intn(4)]
		var base []float64
		if r.Intn(2) == 0 {
			base = make([]float64, targets)
			base[0] = 2.5
		}
		samples := tensor.Must(tensor.New(dt, int64(rows), 3))
		for i, v := range x {
			samples.SetFloat(int64(i), float64(v))
		}
		out, err := hostop.Apply("trees", map[string]any{"targets": int64(targets), "aggregate": aggregate},
			append([]*tensor.Tensor{samples}, forestTables(dt, f, int64(targets), base)...), []dtype.DType{dt})
		if err != nil {
			t.Fatal(err)
		}
		for row := range rows {
			want, given := make([]T, targets), make([]bool, targets)
			for _, root := range f.Roots {
				leaf := leafOf(f, x[row*3:row*3+3], root)
				for i := f.Begins[leaf]; i < f.Begins[leaf+1]; i++ {
					to, w := f.Targets[i], T(f.Weights[i])
					switch {
					case !given[to]:
						want[to], given[to] = w, true
					case aggregate == "min":
						want[to] = min(want[to], w)
					case aggregate == "max":
						want[to] = max(want[to], w)
					default:
						want[to] += w
					}
				}
			}
			for to := range want {
				if aggregate == "average" {
					want[to] /= T(len(f.Roots))
				}
				if base != nil {
					want[to] += T(base[to])
				}
				got := T(out[0].Float(int64(row*targets + to)))
				if got != want[to] && !(got != got && want[to] != want[to]) {
					t.Fatalf("trial %d, %s, row %d of %d, target %d of %d: %v, want %v", trial, aggregate, row, rows, to, targets, got,
						want[to])
				}
			}
		}
	}
}
