package memplan_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/memplan/validator"
	"github.com/weirml/weir/internal/sym"
)

// readMinimalloc reads a benchmark instance: id,lower,upper,size, alive in the half-open interval [lower, upper).
func readMinimalloc(t testing.TB, name string) memplan.Problem {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	p := memplan.Problem{}
	for _, row := range rows[1:] {
		var v [3]int64
		for i := range v {
			if v[i], err = strconv.ParseInt(row[i+1], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		p.Buffers = append(p.Buffers, memplan.Buffer{Name: row[0], Size: sym.Const(v[2]), Align: 1, First: int(v[0]), Last: int(v[1]) - 1})
		p.Steps = max(p.Steps, int(v[1]))
	}
	return p
}

// TestMinimalloc holds the portfolio to what it reaches today on instances made to defeat greedy planners; the bounds are those published with the data. With
// WEIR_MINIMALLOC naming a folder it reports every instance in there instead.
func TestMinimalloc(t *testing.T) {
	known := map[string]struct{ bound, most int64 }{
		"A.1048576.csv": {1048576, 1180000},
		"C.1048576.csv": {1039360, 1330000},
		"K.1048576.csv": {1048576, 1270000},
		"input.12.csv":  {12, 12},
	}
	folder := "testdata/minimalloc"
	if other := os.Getenv("WEIR_MINIMALLOC"); other != "" {
		folder = other
	}
	names, err := filepath.Glob(folder + "/*.csv")
	if err != nil || len(names) == 0 {
		t.Fatalf("no instances: %v", err)
	}
	for _, name := range names {
		p := readMinimalloc(t, name)
		s, err := memplan.Plan(p, memplan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := validator.Verify(claim(p, s), 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c, err := s.Certify(bind(nil))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d buffers, bound %d, arena %d, gap %.1f %%, found by %s", filepath.Base(name), len(p.Buffers), c.Bound, c.Arena, 100*c.Gap, s.Layouts[0].Found)
		if want, ok := known[filepath.Base(name)]; ok && (c.Bound != want.bound || c.Arena > want.most) {
			t.Errorf("%s: bound %d, want %d; arena %d, want at most %d", name, c.Bound, want.bound, c.Arena, want.most)
		}
	}
}
