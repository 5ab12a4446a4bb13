package loop

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// VerifyModule checks a module: names; every kernel (see Verify); that views lie inside their buffers; that launches
// pass buffers of the right type, shape and strides; that every element is written before it is read; that inputs and
// weights are never written and outputs are; and that dimensions which depend on data are bound before their use. The
// error is a *VerifyError; unproved lists, with the kernel's or buffer's name, the properties that were neither proved
// nor refuted.
func VerifyModule(m *Module) (unproved []string, err error) {
	unproved, _, err = verifyModule(m, (*moduleVerifier).all)
	return unproved, err
}

// VerifySteps is VerifyModule without the bodies of kernels, which are known to be right.
func VerifySteps(m *Module) (unproved []string, err error) {
	unproved, _, err = verifyModule(m, (*moduleVerifier).withoutKernels)
	return unproved, err
}

// verifyModule runs check on a module and returns the unproved properties and the guarded accesses by kernel.
func verifyModule(m *Module, check func(v *moduleVerifier)) (unproved []string, counts []int, err error) {
	v := &moduleVerifier{module: m, names: map[string]bool{}, written: map[*Buffer]bool{}, partly: map[*Buffer]regions{},
		turns: map[sym.Name]bool{}, bound: map[sym.Name]bool{}, known: map[*Buffer]bool{}, kernels: map[*Kernel]bool{}}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*VerifyError)
			if !ok {
				panic(r)
			}
			unproved, counts, err = nil, nil, e
		}
	}()
	check(v)
	return v.unproved, v.counts, nil
}

type moduleVerifier struct {
	module   *Module
	names    map[string]bool
	known    map[*Buffer]bool
	kernels  map[*Kernel]bool
	written  map[*Buffer]bool // buffers that are not views
	partly   map[*Buffer]regions
	turns    map[sym.Name]bool // dimensions that loops bind again in each iteration
	depth    int               // number of enclosing loops
	bound    map[sym.Name]bool // dimensions
	unproved []string
	guards   bool  // unproved accesses of kernels are guarded
	counts   []int // of guarded accesses, by kernel
}

// fail ends the verification with an error.
func (v *moduleVerifier) fail(format string, args ...any) {
	panic(&VerifyError{v.module.Name, fmt.Sprintf(format, args...)})
}

// unique fails if a name is taken.
func (v *moduleVerifier) unique(name string) {
	if v.names[name] {
		v.fail("%s is declared twice", name)
	}
	v.names[name] = true
}

// all checks the entire module.
func (v *moduleVerifier) all() {
	v.kernelsOnly()
	v.withSteps()
}

// withoutKernels checks everything except the bodies of the kernels.
func (v *moduleVerifier) withoutKernels() {
	v.declarations()
	v.withSteps()
}

// kernelsOnly checks the kernels.
func (v *moduleVerifier) kernelsOnly() { v.verifyKernels(v.declarations()) }

// declarations checks dimensions and kernels' names, and returns the known conditions on dimensions.
func (v *moduleVerifier) declarations() (given []sym.Cond) {
	m := v.module
	if m.Dims == nil {
		v.fail("no dimensions, not even an empty set")
	}
	for name, limit := range m.Limits {
		v.dims("the limit of "+name.String(), []sym.Expr{sym.Var(name), limit})
		for _, other := range limit.Vars() {
			if own, decided := m.Limits[other]; decided && !sym.IsUnlimited(own) {
				v.fail("the limit of %s uses %s, which is a data dimension too", name, other)
			}
		}
	}
	for _, c := range m.Choices {
		if err := c.Check(sym.Limited(m.Limits)); err != nil {
			v.fail("%v", err)
		}
		for _, values := range c.Cases {
			v.dims("a choice", values)
		}
	}
	for _, r := range m.Requires {
		v.dims("a requirement", []sym.Expr{r.Cond.A, r.Cond.B})
		given = append(given, r.Cond)
	}
	for _, k := range m.Kernels {
		v.unique("@" + k.Name)
		v.kernels[k] = true
		for _, name := range k.Dims {
			v.dims("kernel @"+k.Name, []sym.Expr{sym.Var(name)})
		}
	}
	return given
}

// withSteps checks the buffers and the steps.
func (v *moduleVerifier) withSteps() {
	m := v.module
	for _, b := range m.Buffers {
		v.unique("%" + b.Name)
		v.known[b] = true
	}
	for _, b := range m.Buffers {
		v.buffer(b)
	}
	v.steps(m.Body)
	for _, b := range m.Buffers {
		if b.Kind == Output {
			v.complete(b, func() { v.fail("output %%%s is never written", b.Name) })
		}
	}
}

// verifyKernels verifies the kernels concurrently, and kernels that are alike only once.
func (v *moduleVerifier) verifyKernels(given []sym.Cond) {
	m := v.module
	unlike, which := Distinct(m.Kernels)
	unproved, errs := make([][]Unproved, len(unlike)), make([]error, len(unlike))
	concurrently(len(unlike), func(i int) {
		unproved[i], errs[i] = VerifyGiven(unlike[i], m.Dims, m.about(unlike[i], given))
	})
	for i := range m.Kernels {
		if err := errs[which[i]]; err != nil {
			panic(err)
		}
	}
	if v.guards {
		v.counts = make([]int, len(m.Kernels))
		bodies := v.guardAll(unlike, unproved, given)
		for i, k := range m.Kernels {
			if body := bodies[which[i]]; body != nil {
				k.Body, v.counts[i] = body, accessesOf(unproved[which[i]])
			}
		}
		return
	}
	for i, k := range m.Kernels {
		for _, u := range unproved[which[i]] {
			v.unproved = append(v.unproved, "@"+k.Name+": "+u.String())
		}
	}
}

// concurrently calls do for each i < n, on all processors. A panic in do is passed on to the caller.
func concurrently(n int, do func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers < 2 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var group diag.Group
	panics := make([]any, workers)
	for w := range workers {
		group.Go("verifying a kernel", func() error {
			defer func() { panics[w] = recover() }()
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		panic(err)
	}
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
}

// about returns the conditions without those on dimensions that depend on data and that the kernel does not mention:
// they prove nothing about it, and cost time.
func (m *Module) about(k *Kernel, given []sym.Cond) []sym.Cond {
	return slices.DeleteFunc(slices.Clone(given), func(c sym.Cond) bool {
		return slices.ContainsFunc(slices.Concat(c.A.Vars(), c.B.Vars()), func(name sym.Name) bool {
			_, decided := m.Limits[name]
			return decided && !slices.Contains(k.Dims, name)
		})
	})
}

// dims checks that the dimensions in symbolic integers have ranges.
func (v *moduleVerifier) dims(where string, list []sym.Expr) {
	for _, e := range list {
		for _, name := range e.Vars() {
			if _, ok := v.module.Dims.Get(name); !ok {
				v.fail("%s uses dimension %s, which has no range", where, name)
			}
		}
	}
}

// root returns the buffer that owns the storage of b.
func root(b *Buffer) *Buffer {
	for b.View != nil {
		b = b.View.Of
	}
	return b
}

// buffer checks the declaration of a buffer.
func (v *moduleVerifier) buffer(b *Buffer) {
	where := "buffer %" + b.Name
	v.dims(where, b.Shape)
	switch {
	case b.Kind > Spill:
		v.fail("%s: kind %d does not exist", where, b.Kind)
	case b.Paged && b.Kind != Weight:
		v.fail("%s is paged, and is not a weight", where)
	case b.View == nil:
		if b.Kind == Input || b.Kind == Weight {
			v.written[b] = true
		}
	default:
		v.view(b)
	}
	if b.Reserved && (b.Kind != Temp || b.DType != dtype.U8 || len(b.Shape) != 1 || b.View != nil) {
		v.fail("%s is reserved, and is not a temp of bytes", where)
	}
	v.state(b)
	v.lies(b)
	if len(b.Elements) > 0 && (b.Kind != Input || b.View != nil || !b.DType.IsInt()) {
		v.fail("%s has elements that are dimensions, and is not an input of integers", where)
	}
	for _, name := range b.Elements {
		v.dims(where, []sym.Expr{sym.Var(name)})
		v.bound[name] = true
	}
	if b.Kind == Input && b.View == nil {
		for _, extent := range b.Shape {
			for _, name := range extent.Vars() {
				v.bound[name] = true
			}
		}
	}
	if b.Data == nil {
		return
	}
	if b.Kind != Weight || b.View != nil || b.Data.DType() != b.DType || b.Data.Rank() != len(b.Shape) {
		v.fail("%s has contents of type %s and rank %d, which do not fit it", where, b.Data.DType(), b.Data.Rank())
	}
	for i, extent := range b.Data.Shape() {
		if n, ok := b.Shape[i].Const(); !ok || n != extent {
			v.fail("%s has contents of %d elements along axis %d, want %s", where, extent, i, b.Shape[i])
		}
	}
}

// state checks that a state is an input, replaced by one output of the same type and shape.
func (v *moduleVerifier) state(b *Buffer) {
	in := b.State
	if in == nil {
		return
	}
	if !v.known[in] || in.Kind != Input || in.View != nil || in.Elements != nil || b.Kind != Output || b.View != nil {
		v.fail("buffer %%%s replaces %%%s: only an entire output may replace an entire input", b.Name, in.Name)
	}
	if b.DType != in.DType || !slices.EqualFunc(b.Shape, in.Shape, sym.Expr.Equal) {
		v.fail("buffer %%%s, %s%s, replaces %%%s, %s%s", b.Name, b.DType, formatIndex(b.Shape), in.Name, in.DType,
			formatIndex(in.Shape))
	}
	for _, other := range v.module.Buffers {
		if other != b && other.State == in {
			v.fail("buffers %%%s and %%%s both replace %%%s", b.Name, other.Name, in.Name)
		}
	}
}

// view checks that a view lies inside its buffer.
func (v *moduleVerifier) view(b *Buffer) {
	where := "buffer %" + b.Name
	v.dims(where, append(slices.Clone(b.View.Strides), b.View.Offset))
	length := 0
	for of := b; of.View != nil; of = of.View.Of {
		if length++; length > len(v.module.Buffers) {
			v.fail("%s is a view of itself", where)
		}
		if !v.known[of.View.Of] {
			v.fail("%s is a view of a buffer that is not in the module", where)
		}
	}
	of := b.View.Of
	bytes := of.Reserved && b.DType.Bits() > 0
	if of.DType != b.DType && !bytes || len(stridesOf(b)) != len(b.Shape) {
		v.fail("%s is %s with %d axes and %d strides, in %%%s of %s", where, b.DType, len(b.Shape), len(b.View.Strides),
			of.Name, of.DType)
	}
	low, high := reach(b.Shape, stridesOf(b))
	_, room := reach(of.Shape, stridesOf(of))
	if bits := int64(b.DType.Bits()); bytes && bits != 8 {
		room = of.Shape[0].Mul(sym.Const(8)).FloorDiv(sym.Const(bits)).Sub(sym.Const(1)) // the last element that fits
	}
	v.atMost(where+" begins inside %"+of.Name, sym.Const(0), b.View.Offset.Add(low))
	v.atMost(where+" ends inside %"+of.Name, b.View.Offset.Add(high), room)
}

// stridesOf returns a buffer's strides, in elements.
func stridesOf(b *Buffer) []sym.Expr {
	if b.View != nil && b.View.Strides != nil {
		return b.View.Strides
	}
	return RowMajor(b.Shape)
}

// reach returns the least and the greatest offset of an element.
func reach(shape, strides []sym.Expr) (low, high sym.Expr) {
	for i, extent := range shape {
		end := extent.Sub(sym.Const(1)).Mul(strides[i])
		if step, ok := strides[i].Const(); ok && step < 0 {
			low = low.Add(end)
		} else {
			high = high.Add(end)
		}
	}
	return low, high
}

// atMost records a ≤ b as unproved unless it is proved. It refutes nothing, since an extent may be 0.
func (v *moduleVerifier) atMost(what string, a, b sym.Expr) {
	if v.module.Dims.LE(a, b) != sym.Yes {
		v.unproved = append(v.unproved, fmt.Sprintf("%s: %s <= %s", what, a, b))
	}
}

// equal reports whether two lists of symbolic integers are proved to be equal.
func (v *moduleVerifier) equal(a, b []sym.Expr) bool {
	return slices.EqualFunc(a, b, func(x, y sym.Expr) bool { return v.module.Dims.EQ(x, y) == sym.Yes })
}

// stepsAlike reports whether strides are proved to be the same along every axis of more than one element.
func (v *moduleVerifier) stepsAlike(shape, a, b []sym.Expr) bool {
	for i := range shape {
		if v.module.Dims.LE(shape[i], sym.Const(1)) != sym.Yes && v.module.Dims.EQ(a[i], b[i]) != sym.Yes {
			return false
		}
	}
	return true
}

// sameCount checks that two shapes have the same number of elements.
func (v *moduleVerifier) sameCount(what string, a, b []sym.Expr) {
	if verdict := v.module.Dims.EQ(sym.Product(a...), sym.Product(b...)); verdict != sym.Yes {
		v.differ(what, "elements", verdict, a, b)
	}
}

// differ fails if two shapes certainly differ, and records them as unproved otherwise.
func (v *moduleVerifier) differ(what, which string, verdict sym.Truth, have, want []sym.Expr) {
	if verdict == sym.No {
		v.fail("%s: %s %s, want %s", what, which, formatIndex(have), formatIndex(want))
	}
	v.unproved = append(v.unproved, fmt.Sprintf("%s: %s %s, want %s", what, which, formatIndex(have), formatIndex(want)))
}
