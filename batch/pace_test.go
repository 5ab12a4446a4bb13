package batch

import (
	"fmt"
	"testing"
	"time"
)

// TestPaces: runs have as many rows as pay by their times, of requests of any number of rows, and follow the times when
// these change.
func TestPaces(t *testing.T) {
	for _, row := range []struct {
		fixed, each float64 // microseconds of a run, and of a row
		want        int
	}{
		{0, 100, 1}, {2, 100, 1}, {100, 1, 24}, {100, 100, 16}, {1000, 1000, 16}, {20, 100, 2}, {0, 0, 1},
	} {
		for _, each := range []int{1, 3} {
			t.Run(fmt.Sprintf("%v+%v×%d", row.fixed, row.each, each), func(t *testing.T) {
				b := &Batcher{rows: 24, paces: &paces{}}
				r := &request{rowBytes: 400, rows: each, full: true}
				run := func(fixed, each float64) (rows int) {
					for range again - 1 {
						rows = r.rows
						list := []*request{r}
						for rows+r.rows <= b.mostRows(r) {
							rows += r.rows
							list = append(list, r)
						}
						b.measured(list, time.Duration(1000*(fixed+each*float64(rows))))
					}
					return rows
				}
				for range 20 {
					if rows := run(row.fixed, row.each); each == 1 && (rows < row.want || rows > 2*row.want) {
						t.Fatalf("%d rows, want %d", rows, row.want)
					}
				}
				if run(100, 1); run(100, 1) < 16 {
					t.Errorf("the runs stay small when larger ones pay: %d", b.mostRows(r))
				}
				run(0, 100)
				if rows := run(0, 100); each == 1 && rows > 2 {
					t.Errorf("the runs stay large when they do not pay any more: %d", rows)
				}
			})
		}
	}
}
