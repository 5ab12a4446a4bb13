package memplan_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/memplan/validator"
	"github.com/weirml/weir/internal/sym"
)

// readMinimalloc reads a benchmark instance.
func readMinimalloc(t testing.TB, name string) memplan.Problem {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := memplan.ReadCSV(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// minimalloc lists the instances: their bounds, as published with the data, and a height that the search must reach
// with an amount of work. The capacity of all is 1048576.
var minimalloc = map[string]struct {
	bound, most int64
	work        int64
}{
	"A.1048576.csv": {1048576, 1048576, 1 << 28},
	"B.1048576.csv": {1048576, 1048576, 1 << 28},
	"C.1048576.csv": {1039360, 1039360, 1 << 28},
	"D.1048576.csv": {986112, 986112, 3 << 30},
	"E.1048576.csv": {1048576, 1048576, 1 << 28},
	"F.1048576.csv": {1048576, 1048576, 1 << 28},
	"G.1048576.csv": {1048576, 1048576, 1 << 28},
	"H.1048576.csv": {1048576, 1048576, 1 << 28},
	"I.1048576.csv": {1048576, 1048576, 1 << 28},
	"J.1048576.csv": {989184, 1048576, 1 << 30},
	"K.1048576.csv": {1048576, 1048576, 1 << 28},
	"input.12.csv":  {12, 12, 0},
}

// TestMinimalloc solves instances that were made to defeat greedy planners: all within their capacity, and all but one
// at their bounds, below which no plan exists. A second run of a smaller one must give the same plan.
func TestMinimalloc(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(minimalloc)) {
		want := minimalloc[name]
		if testing.Short() && want.work > 1<<28 {
			continue
		}
		p := readMinimalloc(t, filepath.Join("testdata/minimalloc", name))
		start := time.Now()
		s, err := memplan.Plan(p, memplan.Options{Work: want.work})
		if err != nil {
			t.Fatal(err)
		}
		taken := time.Since(start)
		if _, err := validator.Verify(claim(p, s), 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c, err := s.Certify(bind(nil))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d buffers, bound %d, arena %d, gap %.1f %%, found by %s in %v", name, len(p.Buffers), c.Bound, c.Arena,
			100*c.Gap, s.Layouts[0].Found, taken.Round(time.Millisecond))
		if c.Bound != want.bound || c.Arena > want.most || s.Proven != (c.Arena == leastOf(s)) || leastOf(s) < c.Bound ||
			leastOf(s) > c.Arena {
			t.Errorf("%s: bound %d, want %d; arena %d, want at most %d; at least %s, proven %v", name, c.Bound, want.bound,
				c.Arena, want.most, s.Least, s.Proven)
		}
		if want.work > 1<<28 {
			continue
		}
		if again, err := memplan.Plan(p, memplan.Options{Work: want.work}); err != nil ||
			!slices.EqualFunc(again.Offsets, s.Offsets, sym.Expr.Equal) {
			t.Errorf("%s: a second run gives another plan, %v", name, err)
		}
	}
}
