package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Options say how to schedule; the zero value has all steps.
type Options struct {
	Without []string // steps that are left out, by name: see OptionalSteps
	// After, where not nil, is given the module's text after each step that is not left out.
	After func(step string, text func() string)

	// Arena is how many bytes of arena the module needs, as it is now, at some bindings of the dimensions. Nil: nobody
	// counts them.
	Arena func() ([]int64, error)
	// Kept, where not nil, is given why parts are moved to where they are put together, for Copies.
	Kept map[string]string

	// Pack is given the weights that are laid out anew, once; it replaces their Data. Nil: they are packed on Go's heap.
	Pack func(list []*Pack) error

	// Choice is asked for each kernel of products in registers, by the model's nodes that it computes. Nil: all is as the
	// table says.
	Choice func(nodes string) Choice

	// Refuses says why a machine of blocks cannot run a kernel; nil: it can. What it refuses is scheduled for Host, which
	// then runs it. Nil: nobody is asked.
	Refuses func(k *loop.Kernel) error
	Host    target.Machine

	Check func() error // where not nil, asked before each kernel; its error ends the work
}

// Run schedules a module in place, with every step.
func Run(m *loop.Module, machine target.Machine) error { return RunWith(m, machine, Options{}) }

// step is one transformation: of a module as a whole, or of each of its kernels.
type step struct {
	name, why string   // and why it stands where it does
	parts     []string // of it that can be left out by themselves
	needed    bool     // it cannot be left out
	module    func(s *scheduler) error
	// kernel changes k, its own copy, and reports whether it did. Machines with blocks of threads take none of these:
	// they have recipes (block_*.go).
	kernel func(s *scheduler, k *loop.Kernel) bool
}

// steps are done in this order: those of the module that come first, then those of each kernel, then the rest.
var steps = []step{
	{name: "constants", why: "first: what one element of a constant decides is known to all other steps",
		module: always((*scheduler).constants)},
	{name: "idle", why: "before anything looks at loops", needed: true, module: always((*scheduler).dropIdle)},
	{name: "fuse", why: "before what changes loops: maps go where results are read, and where they are stored",
		needed: true,
		parts:  []string{"inline", "epilogue"}, module: always((*scheduler).fuse)},
	{name: "parts", why: "after fuse, which leaves few kernels, before their loops are changed",
		module: (*scheduler).putParts},
	{name: "contractions", why: "after parts, which change where operands lie", needed: true, parts: []string{"pack"},
		module: (*scheduler).contractions},
	{name: "rejoin", why: "before variables are taken apart further", kernel: rejoin},
	{name: "cut-contractions", why: "then: it recognises nests as lowering wrote them", kernel: cutContractions},
	{name: "finish", why: "after contractions, whose sums stay in registers from nest to nest", kernel: finishWhereStored},
	{name: "flatten", why: "before vectors: it makes loops long", kernel: flatten},
	{name: "vectors", why: "before tiles: which loops are left depends on it", kernel: chooseVectors},
	{name: "lanes", why: "after vectors: it changes where they are", kernel: keepInLanes},
	{name: "transpositions", why: "after vectors, which it looks for", kernel: blockTranspositions},
	{name: "tiles", why: "after what changes which loops there are", kernel: chooseTiles},
	{name: "functions-once", why: "last of a kernel: names for parts of what is stored hide what nests are from the " +
		"others", kernel: functionsOnce},
	{name: "courses", why: "after tiles, whose number decides whether workers have enough to do",
		module: always((*scheduler).inSteps)},
	{name: "outside", why: "last: what still does not fit", needed: true, module: always((*scheduler).moveOut)},
}

// always is a step that does not fail.
func always(do func(s *scheduler)) func(s *scheduler) error {
	return func(s *scheduler) error { do(s); return nil }
}

// OptionalSteps are the names of the steps that can be left out. What is scheduled without one is right, and slower.
func OptionalSteps() (names []string) {
	for _, s := range steps {
		if names = append(names, s.parts...); !s.needed {
			names = append(names, s.name)
		}
	}
	return names
}

// Simplest are the steps that the simplest way to schedule does without: no kernel is joined to another.
var Simplest = []string{"constants", "inline", "epilogue", "finish"}

// RunWith schedules a module in place. Kernels and launches are replaced and removed; buffers that no step uses any
// more are dropped, unless they are inputs or outputs. An error means that the module was not well formed.
func RunWith(m *loop.Module, machine target.Machine, o Options) error {
	s := &scheduler{module: m, machine: machine, options: o, dims: m.Dims}
	if s.dims == nil {
		s.dims = sym.NewDims()
	}
	kernels := false // whether their steps are done
	for _, step := range steps {
		if step.kernel != nil && !kernels {
			kernels = true
			if err := s.kernels(); err != nil {
				return err
			}
		}
		if step.module == nil || s.off(step.name) {
			continue
		}
		if err := step.module(s); err != nil {
			return err
		}
		s.told(step.name, m.Kernels)
	}
	return nil
}

// off reports whether a step is left out.
func (s *scheduler) off(step string) bool { return slices.Contains(s.options.Without, step) }

// told tells what a module is with some kernels in the place of its own, which have the same names.
func (s *scheduler) told(step string, kernels []*loop.Kernel) {
	if s.options.After == nil || s.off(step) {
		return
	}
	m := *s.module
	m.Kernels = kernels
	s.options.After(step, m.String)
}

// dropIdle drops loops without iterations.
func (s *scheduler) dropIdle() {
	for _, k := range s.module.Kernels {
		dropIdle(k)
	}
}

// kernels schedules each kernel.
func (s *scheduler) kernels() error {
	s.texts = map[string][]*loop.Kernel{}
	for i, k := range s.module.Kernels {
		if s.options.Check != nil {
			if err := s.options.Check(); err != nil {
				return err
			}
		}
		if better := s.kernel(k); better != k {
			*s.module.Kernels[i] = *better
		}
	}
	if s.options.After != nil {
		for _, step := range steps {
			if list := s.texts[step.name]; len(list) > 0 {
				s.told(step.name, list)
			}
		}
	}
	return nil
}

// scheduler is the state of one run.
type scheduler struct {
	module  *loop.Module
	machine target.Machine
	options Options
	dims    *sym.Dims
	uses    map[*loop.Buffer]*usage // by the buffers that own storage
	shared  map[*loop.Kernel]bool   // by whether several steps launch it
	free    []sym.Name              // the dimensions of the kernel at hand
	offsets loop.Offsets            // of accesses that estimates look at

	texts map[string][]*loop.Kernel // if somebody asks for them: the kernels after each step of theirs

	halvings int // of tiles that did not fit: see smaller

	kept     map[string]string     // why parts are moved, by keptKey
	laid     map[*loop.Buffer]bool // buffers that became parts, and those that hold parts
	tooLarge map[string]bool       // kernels of whose parts the arena would grow
}

// kernel is a kernel with its loops scheduled. Each step works on a copy that is kept where it fits.
func (s *scheduler) kernel(k *loop.Kernel) *loop.Kernel {
	s.free = k.Dims
	asItIs := forBlocks(k) || neverRuns(k)
	if !asItIs && s.machine.HasBlocks() {
		return s.blockKernel(k)
	}
	for _, step := range steps {
		if step.kernel == nil || s.off(step.name) {
			continue
		}
		if !asItIs {
			k = s.stepped(k, step)
		}
		if s.options.After != nil {
			s.texts[step.name] = append(s.texts[step.name], k)
		}
	}
	return k
}

// stepped is a kernel after a step of its own; as it was, if the step does nothing or the result does not fit.
func (s *scheduler) stepped(k *loop.Kernel, step step) *loop.Kernel {
	next := k.Clone()
	if !step.kernel(s, next) {
		return k
	}
	if next.Dims = dimsOf(next, k); !s.commits(next, k) {
		return k
	}
	return next
}

// blockKernel is a kernel for blocks of threads; or as it was, for a thread an iteration; or one for the host, if the
// machine can run neither.
func (s *scheduler) blockKernel(k *loop.Kernel) *loop.Kernel {
	for _, recipe := range []func(k *loop.Kernel) *loop.Kernel{s.blockOnline, s.blockDirect, s.blockProduct, s.blockSlices,
		s.blockColumns, s.blockRows, s.blockBody, s.blockTurned} {
		if next := recipe(k); next != nil && !s.refuses(next) {
			return next
		}
	}
	if !s.refuses(k) {
		return k
	}
	host := *s
	host.machine, host.options.After = s.options.Host, nil
	return host.kernel(k)
}

// refuses reports whether the generator does not take a kernel.
func (s *scheduler) refuses(k *loop.Kernel) bool {
	return s.options.Refuses != nil && s.options.Refuses(k) != nil
}

// forBlocks reports whether a kernel is written for blocks of threads, and so is scheduled already.
func forBlocks(k *loop.Kernel) bool {
	found := false
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		f, is := s.(*loop.For)
		found = found || is && (f.Kind == loop.Block || f.Kind == loop.Thread)
		return !found
	})
	return found
}

// dimsOf keeps the order of the dimensions that a kernel had, and adds what is new.
func dimsOf(k, before *loop.Kernel) []sym.Name {
	free := loop.FreeDims(k)
	var dims []sym.Name
	for _, name := range before.Dims {
		if slices.Contains(free, name) {
			dims = append(dims, name)
		}
	}
	for _, name := range free {
		if !slices.Contains(dims, name) {
			dims = append(dims, name)
		}
	}
	return dims
}

// namer makes names that a kernel does not use.
type namer struct{ taken map[string]bool }

func (s *scheduler) newNamer(k *loop.Kernel) *namer {
	n := &namer{map[string]bool{}}
	for _, p := range k.Params {
		n.taken[p.Name] = true
	}
	for _, name := range declared(k.Body) {
		n.taken[name] = true
	}
	for _, name := range bound(k.Body) {
		n.taken[name.Text()] = true
	}
	return n
}

func (n *namer) name(hint string) string {
	name := hint
	for i := 1; n.taken[name]; i++ {
		name = hint + "_" + decimal(i)
	}
	n.taken[name] = true
	return name
}

// bound is a name for a loop's variable or a checked value.
func (n *namer) bound(hint string) sym.Name { return sym.Bound(n.name(hint)) }

// renaming gives values other names: statements that are written twice declare each name once.
type renaming struct {
	names *namer
	given map[string]string
}

// anew renames what a body declares.
func (n *namer) anew(body []loop.Stmt) *renaming {
	r := &renaming{n, map[string]string{}}
	for _, name := range declared(body) {
		r.to(name)
	}
	return r
}

// to is the name that stands for a name.
func (r *renaming) to(name string) string {
	if r.given[name] == "" {
		r.given[name] = r.names.name(name)
	}
	return r.given[name]
}

func (r *renaming) rewrite() *loop.Rewrite {
	return &loop.Rewrite{Name: func(name string) string {
		if to, ok := r.given[name]; ok {
			return to
		}
		return name
	}}
}

func (r *renaming) body(body []loop.Stmt) []loop.Stmt { return r.rewrite().Body(body) }

func decimal(i int) string {
	if i < 10 {
		return string(rune('0' + i))
	}
	return decimal(i/10) + string(rune('0'+i%10))
}

// dropIdle removes the loops that have no iterations for any binding, unless nothing else is in the kernel.
func dropIdle(k *loop.Kernel) {
	if !neverRuns(k) {
		return
	}
	r := &loop.Rewrite{Stmt: func(stmt loop.Stmt) []loop.Stmt {
		if f, ok := stmt.(*loop.For); ok {
			if n, constant := f.Extent.Const(); constant && n <= 0 || len(f.Body) == 0 {
				return nil
			}
		}
		return []loop.Stmt{stmt}
	}}
	if body := r.Body(k.Clone().Body); len(body) > 0 {
		k.Body = body
	}
}

// neverRuns reports whether some loop of a kernel has no iterations for any binding: such a kernel is left as it is.
func neverRuns(k *loop.Kernel) bool {
	found := false
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		if f, ok := s.(*loop.For); ok {
			extent, constant := f.Extent.Const()
			found = found || constant && extent <= 0
		}
		return !found
	})
	return found
}

// declared lists the names of the scalars and buffers that a body declares, at any depth.
func declared(body []loop.Stmt) []string {
	var names []string
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Let:
			names = append(names, s.Name)
		case *loop.Var:
			names = append(names, s.Name)
		case *loop.Local:
			names = append(names, s.Name)
		}
		return true
	})
	return names
}

// bound lists the names of the integers that a body declares, at any depth.
func bound(body []loop.Stmt) []sym.Name {
	var names []sym.Name
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.For:
			names = append(names, s.Var)
		case *loop.Check:
			names = append(names, s.Name)
		}
		return true
	})
	return names
}

// equal reports whether two expressions are the same for every binding of the dimensions, as far as can be proved.
func (s *scheduler) equal(a, b sym.Expr) bool {
	return a.Equal(b) || s.dims.EQ(a, b) == sym.Yes
}

func mentions(e sym.Expr, name sym.Name) bool { return slices.Contains(e.Vars(), name) }

func anyMentions(list []sym.Expr, name sym.Name) bool {
	return slices.ContainsFunc(list, func(e sym.Expr) bool { return mentions(e, name) })
}

var (
	zero = sym.Const(0)
	one  = sym.Const(1)
)

func isZero(e sym.Expr) bool { v, ok := e.Const(); return ok && v == 0 }

func isOne(e sym.Expr) bool { v, ok := e.Const(); return ok && v == 1 }

// isVar reports whether e is the variable of that name.
func isVar(e sym.Expr, name sym.Name) bool { v, ok := e.Name(); return ok && v == name }

func bug(k *loop.Kernel, detail string) {
	panic(diag.Internalf("schedule: kernel @%s: %s\n%s", k.Name, detail, k))
}
