package kerneltest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// Limits of one execution.
const (
	fewIterations     = 64    // the usual limit of iterations
	hostileIterations = 4_000 // the largest limit of iterations
	hostileElements   = 500   // of an operand
	hostileScratch    = 1 << 16
)

// Hostile runs kernels with odd names, extents and coefficients near powers of two, and empty and negative ranges. A
// kernel that the verifier accepts runs on each generator for several values of its dimensions, between pages that
// fault, and must give the results of the interpreter, whose integers never wrap. It is not safe for concurrent use.
type Hostile struct {
	Count    HostileCount
	Bindings int // number of values of a kernel's dimensions
	Data     int // number of sets of data for each

	t           testing.TB
	generators  []Harness
	slots       [2][]*mem.Block // for each operand: a block that begins with it, and one that ends with it
	want        [][]byte
	unused      []byte // the contents of memory around operands
	scratch     []byte
	scratches   []byte // of the interpreter
	pools       map[dtype.DType]*[2][]byte
	seed        int64
	kernel      *loop.Kernel
	interpreter *loop.Interpreter
}

// NewHostile returns a Hostile for some generators, with the memory in which kernels run.
func NewHostile(t testing.TB, generators ...Harness) *Hostile {
	x := &Hostile{Bindings: 16, Data: 4, t: t, generators: generators, pools: map[dtype.DType]*[2][]byte{}}
	x.scratches = make([]byte, hostileScratch)
	x.Count.reset()
	x.unused = bytes.Repeat([]byte{0xA5}, int((hostileElements*8+mem.PageSize())/mem.PageSize()*mem.PageSize()))
	x.scratch, _ = ScratchOf(hostileScratch + 256)
	t.Cleanup(func() {
		for _, list := range x.slots {
			for _, b := range list {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	return x
}

// failed is the panic that ends the work on a kernel.
type failed struct{}

// fail reports a fault of a kernel, or of its code if v is not nil, and panics with failed.
func (x *Hostile) fail(v *variant, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if v != nil {
		what += fmt.Sprintf("\n%s, dims %v\n%s\n%s", v.name, v.values, x.kernel, v.kernel)
	}
	x.t.Errorf("seed %d: %s", x.seed, what)
	panic(failed{})
}

// slot returns the memory of operand i, between pages that fault; end is an index of slots.
func (x *Hostile) slot(end, i int) []byte {
	for len(x.slots[end]) <= i {
		b, err := mem.Map(mem.Tensors, "hostile", int64(len(x.unused)))
		if err != nil {
			x.t.Fatal(err)
		}
		x.slots[end] = append(x.slots[end], b)
	}
	return x.slots[end][i].Bytes()
}

// pool returns elements of a type, from which operands are taken. If integral, floats are integers from −3 to 3.
func (x *Hostile) pool(dt dtype.DType, integral bool) []byte {
	const elements = 1 << 14
	p := x.pools[dt]
	if p == nil {
		p = &[2][]byte{}
		r := rand.New(rand.NewSource(int64(dt)))
		for i := range p {
			list := tensor.Must(tensor.New(dt, elements))
			Fill(r, list)
			for j := int64(0); i == 1 && dt.IsFloat() && j < elements; j++ {
				list.SetFloat(j, float64(r.Intn(7)-3))
			}
			p[i] = list.Bytes()
		}
		x.pools[dt] = p
	}
	if integral {
		return p[1]
	}
	return p[0]
}

// variant is a kernel as it was written, or after scheduling, and its code by one generator.
type variant struct {
	name     string
	loose    bool // scheduled before guards were added: an index beyond an axis may reach another element of the buffer
	slow     bool // runs only with one of four sets of data
	kernel   *loop.Kernel
	compiled target.Kernel
	values   []int64 // of the kernel's dimensions
	tiles    int64
	args     [2]target.Args
	scratch  int64
}

// Kernel writes the kernel of a seed, and runs it with each generator, as it is and scheduled.
func (x *Hostile) Kernel(seed int64) {
	defer func() {
		if r := recover(); r != nil && r != (failed{}) {
			panic(r)
		}
	}()
	x.seed = seed
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	written, a := hostileKernel(seed)
	x.Count.Kernels++
	if again, err := loop.ParseKernel(written.String()); err != nil || again.String() != written.String() {
		x.fail(nil, "the text is not read back: %v\n%s", err, written)
	} else if a.Intn(2) == 0 {
		written = again
	}
	m, values := hostileModule(a, written, x.Bindings)
	unguarded := written.Clone()
	guards, err := loop.Prove(m)
	if err != nil {
		x.Count.Refused["kernels: "+reason(err)]++
		return
	}
	if guards[0] > 0 {
		x.Count.Guarded++
	}
	interpreted := m.Kernels[0]
	x.kernel, x.interpreter = interpreted, loop.NewInterpreter(interpreted)
	var list []*variant
	loose := a.Intn(2) == 0
	for _, h := range x.generators {
		from := interpreted
		if loose {
			from = unguarded
		}
		for which, k := range []*loop.Kernel{interpreted, x.scheduled(from, m, h.Machine)} {
			code, err := h.Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, h.Machine)
			if err != nil {
				if !errors.Is(err, diag.ErrInput) {
					x.fail(nil, "compiling: %v\n%s", err, k)
				}
				x.Count.Refused["code"]++
				continue
			}
			if code.Release != nil {
				defer code.Release()
			}
			for _, left := range code.Left {
				x.Count.Refused["code of its own: "+general(left.Reason)]++
				if left.Fault != nil {
					x.fail(nil, "%v\n%s", left.Fault, k)
				}
			}
			list = append(list, &variant{
				name:     fmt.Sprintf("%s %s, %d of 2", h.Machine.Name, h.Machine.CPU, 1+which),
				loose:    loose && which == 1,
				slow:     len(x.generators) > 1 && h.Machine.VectorBytes == 0,
				kernel:   k,
				compiled: code.Kernels[0],
			})
		}
	}
	ran := false
	for _, v := range values {
		x.Count.Bindings++
		ran = x.binding(list, interpreted, v, a) || ran
	}
	if ran {
		x.reached(interpreted)
	}
}

// hostileModule returns a module of one kernel, and values of its dimensions within the module's ranges.
func hostileModule(a *hostile, k *loop.Kernel, bindings int) (*loop.Module, [][]int64) {
	values := make([][]int64, bindings)
	for i := range values {
		values[i] = make([]int64, len(k.Dims))
		small := hostileSmall
		if a.Intn(3) > 0 {
			small = small[:12]
		}
		for j := range values[i] {
			values[i][j] = small[a.Intn(len(small))]
			if a.Intn(16) == 0 {
				values[i][j] = hostileIntegers[a.Intn(len(hostileIntegers))]
			}
		}
	}
	m := &loop.Module{Name: "main", Dims: sym.NewDims(), Kernels: []*loop.Kernel{k}}
	for j, name := range k.Dims {
		r := sym.Range{Min: 0, Max: sym.NoMax}
		if a.Intn(3) == 0 {
			r.Min, r.Max = math.MaxInt64, 0
			for _, v := range values {
				r.Min, r.Max = min(r.Min, v[j]), max(r.Max, v[j])
			}
		}
		m.Dims.Set(name, r)
	}
	return m, values
}

// reason returns an error's message without names and numbers, or a phrase that identifies it.
func reason(err error) string {
	for _, phrase := range []string{"in every iteration", "cannot be guarded", "is below 0", "is not below", "to differ"} {
		if strings.Contains(err.Error(), phrase) {
			return phrase
		}
	}
	return general(err.Error())
}

// particular matches names and numbers.
var particular = regexp.MustCompile(`"[^"]*"|%[^ ]*|[$@][^ ]*|-?\b[0-9]+\b`)

// general returns a message without names and numbers.
func general(reason string) string {
	return strings.TrimSpace(particular.ReplaceAllString(reason, "…"))
}

// scheduled returns a kernel scheduled for a machine, and then guarded.
func (x *Hostile) scheduled(k *loop.Kernel, m *loop.Module, machine target.Machine) *loop.Kernel {
	other := &loop.Module{Name: "main", Dims: m.Dims.Clone(), Kernels: []*loop.Kernel{k.Clone()}}
	if err := schedule.RunWith(other, machine, schedule.Options{Without: schedule.Simplest}); err != nil {
		x.fail(nil, "scheduling: %v\n%s", err, k)
	}
	if _, err := loop.Prove(other); err != nil {
		x.fail(nil, "after scheduling: %v\n%s\n%s", err, k, other.Kernels[0])
	}
	return other.Kernels[0]
}

// iterations returns an upper bound of the number of iterations of a kernel's loops; any number above hostileIterations
// if there are more than that.
func iterations(k *loop.Kernel, values []int64) int64 {
	dims := sym.NewDims()
	for i, name := range k.Dims {
		dims.Set(name, sym.Range{Min: values[i], Max: values[i]})
	}
	var walk func(body []loop.Stmt, around int64) int64
	walk = func(body []loop.Stmt, around int64) (total int64) {
		for _, s := range body {
			inner := around
			switch s := s.(type) {
			case *loop.For:
				_, high := dims.Bounds(s.Extent)
				dims.Set(s.Var, sym.Range{Min: 0, Max: max(high, 1) - 1})
				if high > hostileIterations {
					return hostileIterations + 1
				}
				inner *= max(high, 0)
			case *loop.Check:
				low, _ := dims.Bounds(s.Min)
				_, high := dims.Bounds(s.Max)
				dims.Set(s.Name, sym.Range{Min: low, Max: max(low, high)})
			case *loop.Contract:
				for _, e := range []sym.Expr{s.M, s.N, s.K} {
					_, high := dims.Bounds(e)
					inner *= max(min(high, hostileIterations), 0)
				}
			}
			total += inner
			for _, b := range loop.Bodies(s) {
				total += walk(*b, inner)
			}
			if total > hostileIterations {
				return total
			}
		}
		return total
	}
	return walk(k.Body, 1)
}

// binding runs a kernel's variants for one set of dimensions, with several sets of data, and with operands at the
// beginning and at the end of blocks. It reports whether any ran.
func (x *Hostile) binding(all []*variant, k *loop.Kernel, values []int64, a *hostile) bool {
	var list []*variant
	dims := map[sym.Name]int64{}
	for i, name := range k.Dims {
		dims[name] = values[i]
	}
	for _, v := range all {
		v.values = v.values[:0] // scheduling may remove a dimension
		for _, name := range v.kernel.Dims {
			v.values = append(v.values, dims[name])
		}
		var err error
		if v.tiles, err = v.compiled.Tiles(v.values); err != nil {
			if !errors.Is(err, diag.ErrInput) {
				x.fail(v, "%v", err)
			}
			x.Count.Refused["bindings: integers beyond 64 bits"]++
			continue
		}
		list = append(list, v)
	}
	if len(list) == 0 {
		return false
	}
	most := int64(fewIterations)
	switch a.Intn(32) {
	case 0:
		most = hostileIterations
	case 1, 2, 3, 4:
		most *= 4
	}
	if iterations(k, values) > most || !fits(k, dims) {
		x.Count.Refused["bindings: too large for a test"]++
		return false
	}
	scratch, err := x.interpreter.Scratch(values)
	if err != nil || scratch > hostileScratch {
		x.Count.Refused["bindings: too large for a test"]++
		return false
	}
	sizes := x.layOut(k, dims)
	list = slices.DeleteFunc(list, func(v *variant) bool {
		if v.scratch, err = v.compiled.Scratch(v.values); err != nil {
			x.fail(v, "%v", err)
		}
		return v.scratch > hostileScratch || !x.arguments(v, k, sizes, dims)
	})
	data := make([]loop.Data, len(k.Params))
	before := make([][]byte, len(k.Params))
	for set := range x.Data {
		for i, p := range k.Params {
			pool := x.pool(p.DType, a.integral)
			from := a.Intn(len(pool)-sizes[i]+1) &^ 7
			before[i] = pool[from : from+sizes[i]]
			data[i] = loop.Data{DType: p.DType, Bytes: append(x.want[i][:0], before[i]...)}
			x.want[i] = data[i].Bytes
			for end := range x.slots {
				copy(x.operand(end, i, sizes[i]), before[i])
			}
		}
		wantErr := x.interpreter.Run(data, values, x.scratches[:scratch])
		if wantErr != nil && !errors.Is(wantErr, diag.ErrInput) {
			x.fail(nil, "dims %v: the interpreter: %v\n%s", dims, wantErr, k)
		}
		for _, v := range list {
			if v.slow && set%4 != 0 {
				continue
			}
			for end := range x.slots {
				for i, p := range k.Params {
					if p.Access != loop.Read {
						copy(x.operand(end, i, sizes[i]), before[i])
					}
				}
				x.compare(v, k, end, sizes, before, x.launch(v, end, a), wantErr)
			}
		}
	}
	return len(list) > 0
}

// operand returns the memory of operand i, of a size in bytes; end is an index of slots.
func (x *Hostile) operand(end, i, size int) []byte {
	memory := x.slot(end, i)
	if end == 1 {
		return memory[len(memory)-size:]
	}
	return memory[:size]
}

// layOut fills the memory around a kernel's operands, and returns their sizes in bytes.
func (x *Hostile) layOut(k *loop.Kernel, dims map[sym.Name]int64) (sizes []int) {
	for i, p := range k.Params {
		sizes = append(sizes, len(Operand(x.t, p, dims).Bytes()))
		if len(x.want) <= i {
			x.want = append(x.want, nil)
		}
		for end := range x.slots {
			copy(x.slot(end, i), x.unused)
		}
	}
	return sizes
}

// arguments prepares the arguments of a variant. It returns false if a parameter that scheduling added is too large.
func (x *Hostile) arguments(v *variant, k *loop.Kernel, sizes []int, dims map[sym.Name]int64) bool {
	for end := range v.args {
		args := &v.args[end]
		args.Dims, args.Operands = v.values, args.Operands[:0]
		for i, p := range v.kernel.Params {
			var memory []byte
			if i < len(k.Params) {
				memory = x.operand(end, i, sizes[i])
			} else if !fits(&loop.Kernel{Params: []*loop.Param{p}}, dims) {
				return false
			} else {
				memory = x.operand(end, i, len(Operand(x.t, p, dims).Bytes()))
			}
			o := target.Operand{Bytes: int64(len(memory))}
			if len(memory) > 0 {
				o.Base = unsafe.Pointer(&memory[0])
			}
			args.Operands = append(args.Operands, o)
		}
	}
	return true
}

// launch runs a variant's code, with its tiles divided among several calls. A page fault fails the test.
func (x *Hostile) launch(v *variant, end int, a *hostile) error {
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			x.fail(v, "the kernel touches %#x, which is not its own", fault.Addr())
		default:
			panic(fault)
		}
	}()
	x.Count.Executions++
	scratch, guard := x.scratch[:v.scratch:v.scratch], x.scratch[v.scratch:v.scratch+256]
	copy(guard, x.unused)
	split := max(v.tiles, 1)
	if a.Intn(4) == 0 {
		split = 1 + a.Int63n(split)
	}
	for begin := int64(0); begin < v.tiles; begin += split {
		if err := v.compiled.Run(&v.args[end], begin, min(begin+split, v.tiles), scratch); err != nil {
			return err
		}
	}
	if !bytes.Equal(guard, x.unused[:len(guard)]) {
		x.fail(v, "the kernel writes beyond its scratch of %d bytes", v.scratch)
	}
	return nil
}

// compare compares the memory and the error of a variant's run with those of the interpreter.
func (x *Hostile) compare(v *variant, k *loop.Kernel, end int, sizes []int, before [][]byte, gotErr, wantErr error) {
	if wantErr != nil {
		x.Count.Stopped++
		if v.loose && gotErr == nil && strings.Contains(wantErr.Error(), "accesses outside %") {
			x.Count.Loose++
			gotErr = wantErr
		}
	}
	if (gotErr == nil) != (wantErr == nil) {
		x.fail(v, "error %v, want %v", gotErr, wantErr)
	}
	for i, p := range k.Params {
		got, rest := x.operand(end, i, sizes[i]), x.slot(end, i)
		if end == 0 {
			rest = rest[sizes[i]:]
		} else {
			rest = rest[:len(rest)-sizes[i]]
		}
		if p.Access == loop.Read && !bytes.Equal(got, before[i]) {
			x.fail(v, "%%%s is read only, and is written", p.Name)
		}
		if !bytes.Equal(rest, x.unused[:len(rest)]) {
			x.fail(v, "the kernel writes outside %%%s", p.Name)
		}
		if wantErr == nil && !bytes.Equal(got, x.want[i]) {
			n := int64(sizes[i]) * 8 / int64(p.DType.Bits())
			shape := []int64{n}
			want := tensor.Must(tensor.Over(p.DType, shape, x.want[i]))
			err := tensor.Compare(tensor.Must(tensor.Over(p.DType, shape, got)), want, 0, 0)
			if err != nil {
				x.fail(v, "%%%s: %v", p.Name, err)
			}
		}
	}
}

// fits reports whether no operand has more than hostileElements elements.
func fits(k *loop.Kernel, dims map[sym.Name]int64) bool {
	for _, p := range k.Params {
		n := int64(1)
		for _, e := range p.Shape {
			extent, err := e.Eval(func(name sym.Name) (int64, bool) { v, ok := dims[name]; return v, ok })
			if err != nil || extent < 0 || extent > hostileElements {
				return false
			}
			if n *= extent; n > hostileElements {
				return false
			}
		}
	}
	return true
}

// reached counts the element types, statements and expressions of a kernel.
func (x *Hostile) reached(k *loop.Kernel) {
	for _, p := range k.Params {
		x.Count.Reached[fmt.Sprintf("%s %s", []string{"read", "write", "update", "work"}[p.Access], p.DType)]++
	}
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", s), "*loop."))
		switch s := s.(type) {
		case *loop.For:
			name = "loop, " + []string{"each", "serial", "parallel", "vector", "block", "thread"}[s.Kind]
		case *loop.Reduce:
			name += " " + s.Op.String()
		case *loop.Store:
			if s.Mask != nil {
				name += " where"
			}
		}
		x.Count.Reached[name]++
		return true
	})
	loop.WalkValues(k.Body, func(e loop.Expr) {
		name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "*loop."))
		switch e := e.(type) {
		case *loop.Unary:
			name = e.Op.String()
		case *loop.Binary:
			name = e.Op.String()
		case *loop.Load:
			if e.Mask != nil {
				name += " if"
			}
		case *loop.Cast:
			name = fmt.Sprintf("cast to %s", e.Type)
		}
		x.Count.Reached[name]++
	})
}
