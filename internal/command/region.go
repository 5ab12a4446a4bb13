package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

// fitRow says that if dimension At has size Size, Dim may be up to Max; null: any size.
type fitRow struct {
	Dim  string `json:"dim"`
	Max  *int64 `json:"max"`
	At   string `json:"at"`
	Size int64  `json:"size"`
}

// String returns the row for a person.
func (r fitRow) String() string {
	if r.Max == nil {
		return fmt.Sprintf("any %s at %s %d", r.Dim, r.At, r.Size)
	}
	return fmt.Sprintf("%s ≤ %d at %s %d", r.Dim, *r.Max, r.At, r.Size)
}

// farthest is the largest size that is tried: if it fits, any size does.
const farthest = 1 << 40

// mostRows is the number of rows of a region that are printed.
const mostRows = 12

// fitting finds the sizes of free dimensions at which the peak fits a budget. A peak never shrinks if a dimension
// grows.
type fitting struct {
	peak   weir.Size
	at     weir.Dims // the others, and, while it searches, the free ones
	budget int64
}

// newFitting returns a search with the bound dimensions.
func newFitting(m *weir.Memory, calls int, bound weir.Dims, budget int64) *fitting {
	at := maps.Clone(bound)
	if at == nil {
		at = weir.Dims{}
	}
	return &fitting{m.Formula(calls), at, budget}
}

// matter lists the dimensions that the peak depends on.
func (f *fitting) matter(free []weir.Dimension) []weir.Dimension {
	named := f.peak.Dims()
	return slices.DeleteFunc(slices.Clone(free), func(d weir.Dimension) bool { return !slices.Contains(named, d.Name) })
}

// largest returns the largest size of a dimension, not less than least, that fits; nil if none does.
func (f *fitting) largest(free weir.Dimension, least int64) *int64 {
	defer delete(f.at, free.Name)
	fits := func(v int64) bool {
		f.at[free.Name] = v
		peak, err := f.peak.At(f.at)
		return err == nil && peak <= f.budget
	}
	lo, hi := least, min(free.Max, farthest)
	if lo > hi || !fits(lo) {
		return nil
	}
	for lo < hi {
		middle := lo + (hi-lo+1)/2
		if fits(middle) {
			lo = middle
		} else {
			hi = middle - 1
		}
	}
	return &lo
}

// some returns the smallest non-empty size of a dimension.
func some(d weir.Dimension) int64 { return max(1, d.Min) }

// region returns the largest size of the first dimension for sizes of the second, which double up to their largest. Of
// sizes with equal results it keeps the last.
func (f *fitting) region(first, second weir.Dimension) (rows []fitRow) {
	add := func(size int64) bool {
		f.at[second.Name] = size
		defer delete(f.at, second.Name)
		most := f.largest(first, some(first))
		if most == nil {
			return false
		}
		if *most == farthest && first.Max > farthest {
			most = nil
		}
		if n := len(rows); n > 0 && (rows[n-1].Max == most || most != nil && rows[n-1].Max != nil &&
			*rows[n-1].Max == *most) {
			rows = rows[:n-1]
		}
		rows = append(rows, fitRow{first.Name, most, second.Name, size})
		return true
	}
	last := int64(0)
	for size := some(second); size <= min(second.Max, farthest) && add(size); size *= 2 {
		last = size
	}
	f.at[first.Name] = some(first)
	end := f.largest(second, some(second))
	if delete(f.at, first.Name); end != nil && *end > last {
		add(*end)
	}
	if n := len(rows); n > mostRows {
		thin := make([]fitRow, mostRows)
		for i := range thin {
			thin[i] = rows[i*(n-1)/(mostRows-1)]
		}
		rows = thin
	}
	return rows
}

// explain adds the sizes that fit to the error of a peak that does not.
func (f *fitting) explain(e *weir.Error, p *planned, free []weir.Dimension) {
	within := "within " + values.FormatBytes(f.budget)
	switch {
	case len(p.Region) > 0:
		var list []string
		for _, r := range p.Region {
			list = append(list, r.String())
		}
		e.Fix = within + " fit " + strings.Join(list, ", ")
	case p.Fits != nil:
		e.Dim = free[0].Name
		e.Fix = fmt.Sprintf("%s fits --dim %s=%d..%d", within, e.Dim, free[0].Min, *p.Fits)
	case len(free) > 2:
		var names []string
		for _, d := range free {
			names = append(names, d.Name)
		}
		e.Fix = fmt.Sprintf("bind all but two of %s with --dim, and what fits is told", strings.Join(names, ", "))
	case len(free) > 0:
		var sizes []string
		for _, d := range free {
			least := d.Min
			if len(free) > 1 {
				least = some(d)
			}
			f.at[d.Name] = least
			sizes = append(sizes, fmt.Sprintf("%s = %d", d.Name, least))
		}
		if len(free) == 1 {
			e.Dim = free[0].Name
		}
		e.Detail += fmt.Sprintf(", and %s does not fit", strings.Join(sizes, ", "))
		if peak, err := f.peak.At(f.at); err == nil {
			e.Fix = fmt.Sprintf("--budget %d is the smallest that works there", peak)
		}
	}
}
