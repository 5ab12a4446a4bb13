package train

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// Metric measures a network's results over batches. Evaluate passes it the results, as rows along the last axis, and
// one target per row: the class id, or of a target distribution the index of its greatest element.
type Metric interface {
	// Observe adds a batch.
	Observe(rows [][]float32, targets []float64) error
	// Value returns the measure over all batches so far.
	Value() float64
	// String returns the name and the value.
	String() string
}

// Mean is a weighted mean of values.
type Mean struct {
	sum, weight float64
}

// Add adds a value. A value of weight 0, such as the loss of a batch without examples, has no effect, even if it is
// NaN.
func (m *Mean) Add(x, weight float64) {
	if weight != 0 {
		m.sum, m.weight = m.sum+x*weight, m.weight+weight
	}
}

// Value returns the mean; 0 without values.
func (m *Mean) Value() float64 {
	if m.weight == 0 {
		return 0
	}
	return m.sum / m.weight
}

// Accuracy is the share of rows whose target is the greatest element; with K, is among the K greatest elements.
type Accuracy struct {
	K int // 0: 1

	right, seen int64
}

// Observe adds a batch.
func (a *Accuracy) Observe(rows [][]float32, targets []float64) error {
	for i, row := range rows {
		id := int(targets[i])
		if id < 0 || id >= len(row) {
			return diag.Inputf("class %d of %d", id, len(row))
		}
		before := 0
		for k, x := range row {
			if x > row[id] || x == row[id] && k < id {
				before++
			}
		}
		// A target whose score is NaN counts as wrong.
		if a.seen++; before < max(a.K, 1) && row[id] == row[id] {
			a.right++
		}
	}
	return nil
}

// Value returns the share, from 0 to 1.
func (a *Accuracy) Value() float64 { return float64(a.right) / float64(max(a.seen, 1)) }

// String returns text like "accuracy 0.9800".
func (a *Accuracy) String() string {
	if a.K > 1 {
		return fmt.Sprintf("top-%d accuracy %.4f", a.K, a.Value())
	}
	return fmt.Sprintf("accuracy %.4f", a.Value())
}

// Confusion is a confusion matrix: it counts answers by target.
type Confusion struct {
	Count [][]int64 // [target][answer]
}

// Observe adds a batch.
func (c *Confusion) Observe(rows [][]float32, targets []float64) error {
	for i, row := range rows {
		for len(c.Count) < len(row) {
			c.Count = append(c.Count, make([]int64, len(row)))
		}
		id := int(targets[i])
		if id < 0 || id >= len(row) {
			return diag.Inputf("class %d of %d", id, len(row))
		}
		best := slices.Index(row, slices.Max(row))
		c.Count[id][max(best, 0)]++
	}
	return nil
}

// Value returns the share of correct answers, from 0 to 1.
func (c *Confusion) Value() float64 {
	var right, seen int64
	for i, row := range c.Count {
		for k, n := range row {
			if seen += n; i == k {
				right += n
			}
		}
	}
	return float64(right) / float64(max(seen, 1))
}

// String returns the matrix, one line for each target.
func (c *Confusion) String() string {
	var b strings.Builder
	for _, row := range c.Count {
		for _, n := range row {
			fmt.Fprintf(&b, "%6d", n)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
