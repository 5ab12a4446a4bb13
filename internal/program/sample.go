package program

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// sampleCount is the number of random bindings, beside the corners, at which conditions that are not proved are
// evaluated.
const sampleCount = 6

// dataSamples is the number of values of the data dimensions for each binding, besides those of choices: the limits, as
// storage is planned, and the lower ends.
const dataSamples = 2

// largest is the distance of the largest sample from a dimension's lower end.
const largest = 1000

// samples evaluates the program at bindings that it admits: extents, carves within their storage, and live carves
// against each other. Data dimensions are at their limits, then at their lower ends.
func (v *verifier) samples() error {
	seed := uint64(1)
	for i := range 3 + sampleCount {
		values := map[sym.Name]int64{}
		for _, d := range v.p.Dims {
			high := d.Range.Max
			if high-largest > d.Range.Min {
				high = d.Range.Min + largest
			}
			seed = seed*6364136223846793005 + 1442695040888963407
			switch i {
			case 0:
				values[d.Name] = d.Range.Min
			case 1:
				values[d.Name] = high
			case 2:
				values[d.Name] = min(high, d.Range.Min+1)
			default:
				values[d.Name] = d.Range.Min + int64(seed>>33)%(high-d.Range.Min+1)
			}
		}
		err := v.sample(values)
		if errors.Is(err, sym.ErrDivide) {
			err = diag.Inputf("a formula divides by zero, %s", v.p.binding(values))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// binding formats the values at which an error was found.
func (p *Program) binding(values map[sym.Name]int64) string {
	var words []string
	for _, d := range p.Dims {
		words = append(words, fmt.Sprintf("%s = %d", d.Name, values[d.Name]))
	}
	if words == nil {
		return "always"
	}
	return "at " + strings.Join(words, ", ")
}

// lookup returns the function that finds names in values.
func lookup(values map[sym.Name]int64) func(name sym.Name) (int64, bool) {
	return func(name sym.Name) (int64, bool) { x, ok := values[name]; return x, ok }
}

// errNotAdmitted is the error of a binding that breaks one of the program's conditions.
var errNotAdmitted = errors.New("a binding that the program does not admit")

// entry adds to values, which has the inputs' dimensions, the data dimensions at their limits, except those without
// one, and the names of the plan that applies. It returns errNotAdmitted if a value is out of range or a condition does
// not hold.
func (p *Program) entry(values map[sym.Name]int64) error {
	at := lookup(values)
	for _, d := range p.Dims {
		if x := values[d.Name]; !d.Data && (x < d.Range.Min || x > d.Range.Max) {
			return fmt.Errorf("%w: %s is %d, outside %s", errNotAdmitted, d.Name, x, d.Range)
		}
	}
	for _, r := range p.Requires {
		if p.waits(r, nil) {
			continue // the run checks it
		}
		if ok, err := r.Cond.Eval(at); err != nil || !ok {
			return fmt.Errorf("%w: %s does not hold (from %s)", errNotAdmitted, r.Cond, r.From)
		}
	}
	for i, d := range p.Dims {
		if d.Data && !d.Late() {
			if p.AwaitsData(i) && slices.ContainsFunc(d.Limit.Vars(), func(name sym.Name) bool {
				_, known := values[name]
				return !known
			}) {
				continue
			}
			x, err := d.Limit.Eval(at)
			if err != nil {
				return err
			}
			values[d.Name] = min(x, d.Range.Max)
		}
	}
	for _, plan := range p.Plans {
		applies := true
		for _, c := range plan.When {
			ok, err := c.Eval(at)
			if err != nil {
				return err
			}
			applies = applies && ok
		}
		if !applies {
			continue
		}
		for _, l := range plan.Lets {
			x, err := l.X.Eval(at)
			if err != nil {
				return err
			}
			values[l.Name] = x
		}
		return nil
	}
	return diag.Inputf("no plan applies %s", p.binding(values))
}

// likely reports whether the conditions on dimensions without limits hold; storage that depends on them exists only
// then.
func (p *Program) likely(values map[sym.Name]int64) bool {
	limited := map[sym.Name]bool{}
	for _, d := range p.Dims {
		limited[d.Name] = !d.Late()
	}
	return p.admits(values, func(r Require) bool { return p.waits(r, limited) })
}

// admits reports whether the program's conditions hold, among those for which asked returns true; nil asks for all.
func (p *Program) admits(values map[sym.Name]int64, asked func(Require) bool) bool {
	for _, r := range p.Requires {
		if asked != nil && !asked(r) {
			continue
		}
		if ok, err := r.Cond.Eval(lookup(values)); err != nil || !ok {
			return false
		}
	}
	return true
}

// waits reports whether a condition names a data dimension that is not in decided.
func (p *Program) waits(r Require, decided map[sym.Name]bool) bool {
	for _, e := range []sym.Expr{r.Cond.A, r.Cond.B} {
		for _, name := range e.Vars() {
			for _, d := range p.Dims {
				if d.Data && d.Name == name && !decided[name] {
					return true
				}
			}
		}
	}
	return false
}

// byteRange is the bytes of a carve or a view at a binding, relative to its storage or tensor.
type byteRange struct{ begin, end int64 }

// sample evaluates the program at one binding, with the data dimensions at each of dataSamples values; nil if the
// program does not admit the binding.
func (v *verifier) sample(values map[sym.Name]int64) error {
	p := v.p
	if err := p.entry(values); errors.Is(err, errNotAdmitted) || errors.Is(err, sym.ErrOverflow) {
		return nil
	} else if err != nil {
		return err
	}
	if !p.likely(values) {
		return nil
	}
	most, choices := maps.Clone(values), p.choices()
	for i := range dataSamples + len(choices) {
		for _, d := range p.Dims {
			switch limit := most[d.Name]; {
			case !d.Data || i == 0:
			case i > 1:
				values[d.Name] = limit
				if x, chosen := choices[i-dataSamples][d.Name]; chosen {
					if v, err := x.Eval(lookup(most)); err == nil {
						values[d.Name] = min(v, limit)
					}
				}
			default:
				values[d.Name] = min(d.Range.Min, limit)
			}
		}
		certain := p.admits(values, nil) // if not, no run gets here, but storage is still planned at the limits
		if (i > 0 || len(choices) > 0) && !certain {
			continue
		}
		sizes, err := p.sizes(values, true)
		var ranges []byteRange
		if err == nil {
			ranges, err = p.byteRanges(values, sizes)
		}
		switch {
		case err == nil:
			if err := p.disjoint(p.Steps, ranges, map[int]bool{}, values); err != nil {
				return err
			}
		case v.strict && certain && !errors.Is(err, sym.ErrOverflow):
			return err
		}
		if len(v.data) == 0 {
			break
		}
	}
	return nil
}

// choices returns values of the data dimensions that conditions allow only together: each choice at its first case,
// each at its second, and so on.
func (p *Program) choices() (samples []map[sym.Name]sym.Expr) {
	all, most := p.Chosen(), 0
	for _, c := range all {
		most = max(most, len(c.Cases))
	}
	for at := range min(most, sym.MostCases) {
		sample := map[sym.Name]sym.Expr{}
		for _, c := range all {
			for i, name := range c.Names {
				sample[name] = c.Cases[at%len(c.Cases)][i]
			}
		}
		samples = append(samples, sample)
	}
	return samples
}

// sizes returns the storages' sizes in bytes at a binding. Sizes of late storages are computed, and their lets added to
// values, only if late is true.
func (p *Program) sizes(values map[sym.Name]int64, late bool) ([]int64, error) {
	sizes := make([]int64, len(p.Storages))
	for i := range p.Storages {
		s := &p.Storages[i]
		if s.Late && !late {
			continue
		}
		size, err := s.evaluated(values)
		if err != nil {
			return nil, err
		}
		if size < 0 {
			return nil, diag.Inputf("storage %s has %d bytes %s", s.Name, size, p.binding(values))
		}
		sizes[i] = size
	}
	return sizes, nil
}

// bytes returns a tensor's size in bytes at a binding; an error if an extent is negative.
func (t *Tensor) bytes(values map[sym.Name]int64) (int64, error) {
	for axis, e := range t.Shape {
		x, err := e.Eval(lookup(values))
		if err != nil {
			return 0, err
		}
		if x < 0 {
			return 0, diag.Inputf("axis %d, %s, has extent %d", axis, e, x).AtTensor(t.Name)
		}
	}
	return t.Bytes().Eval(lookup(values))
}

// byteRanges returns, by tensor, the bytes of carves and views at a binding; an error if they leave their storage.
func (p *Program) byteRanges(values map[sym.Name]int64, sizes []int64) ([]byteRange, error) {
	ranges := make([]byteRange, len(p.Tensors))
	for i := range p.Tensors {
		t := &p.Tensors[i]
		size, err := t.bytes(values)
		if err != nil {
			return nil, err
		}
		if t.Class != Carved && t.Class != View {
			continue
		}
		at, err := t.Offset.Eval(lookup(values))
		if err != nil {
			return nil, err
		}
		var room int64
		if t.Class == Carved {
			room = sizes[t.Of]
		} else if p.awaits(i) {
			continue // its offset depends on data: the run checks it
		} else if room, err = p.Tensors[t.Of].bytes(values); err != nil {
			return nil, err
		}
		if size > 0 && (at < 0 || size > room-at) {
			return nil, diag.Inputf("%d bytes at %d leave the %d bytes that it lies in, %s", size, at, room, p.binding(values)).
				AtTensor(t.Name)
		}
		ranges[i] = byteRange{at, at + size}
	}
	return ranges, nil
}

// awaits reports whether a view's offset or size depends on a data dimension.
func (p *Program) awaits(i int) bool {
	t := &p.Tensors[i]
	for _, name := range append(t.Offset.Vars(), t.Bytes().Vars()...) {
		for _, d := range p.Dims {
			if d.Data && d.Name == name {
				return true
			}
		}
	}
	return false
}

// disjoint returns an error unless each carve's bytes are disjoint from those of all live tensors, except the ones it
// may overlap.
func (p *Program) disjoint(steps []Step, ranges []byteRange, live map[int]bool, values map[sym.Name]int64) error {
	for _, step := range steps {
		switch s := step.(type) {
		case *Carve:
			if err := p.clash(s, ranges, live, values); err != nil {
				return err
			}
			live[s.Tensor] = true
		case *Release:
			for _, t := range s.Tensors {
				delete(live, t)
			}
		case *If:
			other := map[int]bool{}
			for t := range live {
				other[t] = true
			}
			if err := p.disjoint(s.Then, ranges, other, values); err != nil {
				return err
			}
			if err := p.disjoint(s.Else, ranges, live, values); err != nil {
				return err
			}
		case *Loop:
			if err := p.disjoint(s.Body, ranges, live, values); err != nil {
				return err
			}
		}
	}
	return nil
}

// clash returns an error if a carve's bytes overlap those of a live tensor that it may not overlap.
func (p *Program) clash(s *Carve, ranges []byteRange, live map[int]bool, values map[sym.Name]int64) error {
	own := ranges[s.Tensor]
	if own.begin == own.end {
		return nil
	}
	var clashes []int
	for t := range live {
		over := false
		for _, x := range s.Over {
			over = over || x == t
		}
		if !over && p.Tensors[t].Of == p.Tensors[s.Tensor].Of && ranges[t].begin < own.end && own.begin < ranges[t].end {
			clashes = append(clashes, t)
		}
	}
	if clashes == nil {
		return nil
	}
	sort.Ints(clashes)
	other := ranges[clashes[0]]
	return diag.Inputf("bytes %d to %d are carved while %s has %d to %d, %s", own.begin, own.end,
		p.Tensors[clashes[0]].Name,
		other.begin, other.end,
		p.binding(values)).AtTensor(p.Tensors[s.Tensor].Name)
}
