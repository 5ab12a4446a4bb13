package values

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// Array is a host array.
type Array = tensor.Tensor

// ShapeString returns an array's shape as a string.
func ShapeString(t *Array) string { return tensor.ShapeString(t.Shape()) }

// FormatBytes formats a size as GOMEMLIMIT is written.
func FormatBytes(n int64) string { return mem.FormatBytes(n) }

// ParseBytes parses a size in the format of FormatBytes.
func ParseBytes(s string) (int64, error) { return mem.ParseBytes(s) }

// PageSize returns the system's page size in bytes.
func PageSize() int64 { return mem.PageSize() }

// OutsideHeap reports whether tensors lie outside Go's heap on this system.
func OutsideHeap() bool { return mem.OutsideHeap() }

// ProcessPeak begins watching the process's memory. The function that it returns ends that, and returns the growth of
// the peaks of the resident size and of anonymous memory, in bytes. Anonymous memory is sampled every few milliseconds,
// and includes mapped files on a tmpfs. Both are 0 if the system does not tell.
func ProcessPeak() func() (resident, anonymous int64) {
	base, _ := mem.ProcessBytes()
	before := base.Resident
	if !mem.ResetProcessPeak() {
		before = base.Peak
	}
	most := atomic.Int64{}
	look := func() mem.Process {
		p, _ := mem.ProcessBytes()
		most.Store(max(most.Load(), p.Anonymous))
		return p
	}
	ticks := time.NewTicker(5 * time.Millisecond)
	end, ended := make(chan bool), make(chan bool)
	diag.Go("watching the process's memory", func() error {
		for {
			select {
			case <-ticks.C:
				look()
			case <-end:
				return nil
			}
		}
	}, func(error) { close(ended) })
	return sync.OnceValues(func() (int64, int64) {
		ticks.Stop()
		close(end)
		<-ended
		return max(0, look().Peak-before), max(0, most.Load()-base.Anonymous)
	})
}

// Summary is the printed summary of a result.
type Summary struct {
	DType string   `json:"dtype"`
	Shape []int64  `json:"shape"`
	Min   *float64 `json:"min,omitempty"` // absent if a value is not finite, or the type has no order
	Max   *float64 `json:"max,omitempty"`
	Mean  *float64 `json:"mean,omitempty"`
	First []string `json:"first"`
	// Values are all elements in order, if requested; an element that JSON cannot write as a number is a string.
	Values []json.RawMessage `json:"values,omitempty"`
}

// WithValues returns the summary with all elements of t.
func (s Summary) WithValues(t *Array) Summary {
	s.Values = make([]json.RawMessage, t.Len())
	for i := range s.Values {
		text := t.Format(int64(i))
		if json.Valid([]byte(text)) {
			s.Values[i] = json.RawMessage(text)
			continue
		}
		if strings := t.Strings(); strings != nil {
			text = strings[i]
		}
		quoted, _ := json.Marshal(text)
		s.Values[i] = quoted
	}
	return s
}

// Summarise computes the summary of all elements.
func Summarise(t *Array) Summary {
	s := Summary{DType: t.DType().String(), Shape: t.Shape(), First: []string{}}
	for i := int64(0); i < min(t.Len(), 8); i++ {
		s.First = append(s.First, t.Format(i))
	}
	if t.Len() == 0 || t.Strings() != nil || t.DType().IsComplex() {
		return s
	}
	lo, hi, sum := math.Inf(1), math.Inf(-1), 0.0
	for i := int64(0); i < t.Len(); i++ {
		v := t.Float(i)
		lo, hi, sum = min(lo, v), max(hi, v), sum+v
	}
	if mean := sum / float64(t.Len()); !math.IsNaN(mean) && !math.IsInf(mean, 0) {
		s.Min, s.Max, s.Mean = &lo, &hi, &mean
	}
	return s
}

// Rank lists the largest elements of each row along the last axis, one row a line.
func Rank(name string, t *Array, top int) string {
	var b strings.Builder
	width := t.Shape()[t.Rank()-1]
	for row := int64(0); width > 0 && row < t.Len()/width; row++ {
		order := make([]int64, width)
		for i := range order {
			order[i] = int64(i)
		}
		sort.SliceStable(order, func(a, b int) bool { return t.Float(row*width+order[a]) > t.Float(row*width+order[b]) })
		fmt.Fprintf(&b, "%s[%d]:", name, row)
		for _, i := range order[:min(int64(top), width)] {
			fmt.Fprintf(&b, "  %d (%.6g)", i, t.Float(row*width+i))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
