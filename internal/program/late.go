package program

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// Late reports whether a data dimension has no limit.
func (d *Dim) Late() bool { return d.Data && sym.IsUnlimited(d.Limit) }

// AwaitsData reports whether a dimension has no bound before the run gives it, or a dimension in its limit, a value.
func (p *Program) AwaitsData(dim int) bool {
	d := &p.Dims[dim]
	return d.Data && (d.Late() || slices.ContainsFunc(d.Limit.Vars(), func(name sym.Name) bool {
		return slices.ContainsFunc(p.Dims, func(other Dim) bool { return other.Name == name && other.Late() })
	}))
}

// evaluated evaluates the lets of late storage, adds them to values, and returns the size in bytes.
func (s *Storage) evaluated(values map[sym.Name]int64) (int64, error) {
	for _, l := range s.Lets {
		x, err := l.X.Eval(lookup(values))
		if err != nil {
			return 0, err
		}
		values[l.Name] = x
	}
	return s.Size.Eval(lookup(values))
}

// LateDims returns, for each storage, the indices of the data dimensions that its size, its lets and its tensors'
// offsets depend on; nil for storage that is not late.
func (p *Program) LateDims() [][]int {
	index := map[sym.Name]int{}
	for i, d := range p.Dims {
		if d.Data {
			index[d.Name] = i
		}
	}
	out := make([][]int, len(p.Storages))
	for i, s := range p.Storages {
		if !s.Late {
			continue
		}
		names := map[int]bool{}
		add := func(list ...sym.Expr) {
			for _, e := range list {
				for _, name := range e.Vars() {
					if d, ok := index[name]; ok {
						names[d] = true
					}
				}
			}
		}
		add(s.Size)
		for _, l := range s.Lets {
			add(l.X)
		}
		for _, t := range p.Tensors {
			if t.Class == Carved && t.Of == i {
				add(t.Offset)
			}
		}
		out[i] = slices.Sorted(maps.Keys(names))
	}
	return out
}

// Alone returns, for each late storage that holds one tensor only, that tensor; −1 for each other storage.
func (p *Program) Alone() []int {
	out, count := make([]int, len(p.Storages)), make([]int, len(p.Storages))
	for i := range out {
		out[i] = -1
	}
	for t := range p.Tensors {
		if x := &p.Tensors[t]; x.Class == Carved && x.Of >= 0 && x.Of < len(out) && p.Storages[x.Of].Late {
			out[x.Of] = t
			count[x.Of]++
		}
	}
	for i := range out {
		if count[i] != 1 {
			out[i] = -1
		}
	}
	return out
}

// lateness holds, for each storage, LateDims and Alone, for the verifier and the interpreter.
type lateness struct {
	dims  [][]int
	alone []int
}

// lateness computes both lists once for a run or a check.
func (p *Program) lateness() lateness { return lateness{p.LateDims(), p.Alone()} }

// changed removes from taken the late storages that depend on a dimension with a new value.
func (l *lateness) changed(dim int, taken map[int]bool) {
	for s, dims := range l.dims {
		if slices.Contains(dims, dim) {
			delete(taken, s)
		}
	}
}

// storages checks the declarations of storages.
func (v *verifier) storages() error {
	for i := range v.p.Storages {
		s := &v.p.Storages[i]
		if s.Align < 1 || s.Align&(s.Align-1) != 0 {
			return diag.Inputf("storage %s is aligned to %d", s.Name, s.Align)
		}
		if s.Device != "" && s.Kind != Arena {
			return diag.Inputf("storage %s lies in the memory of %s, and results and spill files are the host's",
				s.Name, memoryWord(s.Device))
		}
		if s.Lets != nil && !s.Late {
			return diag.Inputf("storage %s has names of its own and is not late", s.Name)
		}
		for _, l := range s.Lets {
			if !l.Name.Planned() || v.lets[l.Name] {
				return diag.Inputf("storage %s defines %s, which is defined already, or is no name of a plan", s.Name, l.Name)
			}
			if err := v.named("the value of "+l.Name.String(), true, l.X); err != nil {
				return err
			}
			v.lets[l.Name] = true
		}
		if err := v.named("the size of "+s.Name, true, s.Size); err != nil {
			return err
		}
		if !s.Late {
			if err := v.early("the size of "+s.Name, s.Size); err != nil {
				return err
			}
		}
		if err := v.holds(sym.Cond{A: sym.Const(0), B: s.Size}, "storage "+s.Name+" has no negative size"); err != nil {
			return err
		}
	}
	return nil
}

// early returns an error, which begins with what, if an expression has a dimension without a bound before the run.
func (v *verifier) early(what string, list ...sym.Expr) error {
	for _, e := range list {
		for _, name := range e.Vars() {
			if i, data := v.data[name]; data && v.p.AwaitsData(i) {
				return diag.Inputf("%s names %s, which has no limit", what, name).AtDim(name.Text())
			}
		}
	}
	return nil
}

// take checks that the dimensions of late storage have values, and marks the tensors live in it as lost.
func (v *verifier) take(s *Take) error {
	if s.Storage < 0 || s.Storage >= len(v.p.Storages) || !v.p.Storages[s.Storage].Late {
		return diag.Inputf("there is no late storage %d", s.Storage)
	}
	for _, d := range v.late.dims[s.Storage] {
		if err := v.known(sym.Var(v.p.Dims[d].Name)); err != nil {
			return err
		}
	}
	v.taken[s.Storage] = true
	for t := range v.live {
		if x := &v.p.Tensors[t]; x.Class == Carved && x.Of == s.Storage {
			v.lost[t] = true
		}
	}
	return nil
}

// binds notes that a dimension has a new value.
func (v *verifier) binds(dim int) {
	v.bound[v.p.Dims[dim].Name] = true
	v.late.changed(dim, v.taken)
}

// takesResult takes the late storage of a host operator's result if the result is alone in it.
func (v *verifier) takesResult(t int) error {
	x := &v.p.Tensors[v.p.Root(t)]
	if x.Class == Carved && v.p.Storages[x.Of].Late && v.late.alone[x.Of] >= 0 && !v.taken[x.Of] {
		return v.take(&Take{x.Of})
	}
	return nil
}

// take resizes late storage to the dimensions' values and clears its contents.
func (r *run) take(s *Take) error {
	storage := &r.p.Storages[s.Storage]
	size, err := storage.evaluated(r.values)
	if err != nil {
		return err
	}
	if size < 0 {
		return diag.Inputf("late storage %s has %d bytes", storage.Name, size)
	}
	if at := r.storages[s.Storage]; size > at.size {
		if r.storages[s.Storage], err = fresh(storage.Name, storage.Device, size); err != nil {
			return err
		}
	} else {
		at.forget()
	}
	r.taken[s.Storage] = true
	return nil
}

// takesResult takes the late storage of a host operator's result, before it is written, if the result is alone in it.
func (r *run) takesResult(t int) error {
	x := &r.p.Tensors[r.p.Root(t)]
	if x.Class == Carved && r.p.Storages[x.Of].Late && r.late.alone[x.Of] >= 0 && !r.taken[x.Of] {
		return r.take(&Take{x.Of})
	}
	return nil
}
