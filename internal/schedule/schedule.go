package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Options say how to schedule. The zero value runs all steps.
type Options struct {
	Without []string // names of the steps that are left out; see OptionalSteps
	// After, if not nil, is called after each step that runs, with a function that prints the module.
	After func(step string, text func() string)
	// Progress, if not nil, is called with the number of a row of the table, below Steps, when it is reached. The kernel
	// steps take turns for each kernel: their rows are reached as kernels are done, under the name "kernels".
	Progress func(row int, step string)

	// Arena returns the bytes of arena that the present module needs, at some bindings of the dimensions. Nil: they are
	// not counted.
	Arena func() ([]int64, error)
	// Kept, if not nil, receives the reason why each piece is copied to the buffer that holds it, for Copies.
	Kept map[string]string

	// Pack, if not nil, receives each weight that gets another layout. Its Data are deferred.
	Pack func(p *Pack)

	// Choice returns the tuned tile of each kernel of products in registers, by the model's nodes that it computes.
	// Nil: the defaults.
	Choice func(nodes string) Choice

	// Refuses returns why a machine of blocks cannot run a kernel, or nil if it can. A refused kernel is scheduled for
	// Host, which then runs it. Nil: nothing is refused.
	Refuses func(k *loop.Kernel) error
	Host    target.Machine

	Check func() error // if not nil, called before each kernel; an error ends scheduling
}

// Run schedules a module in place, by every step.
func Run(m *loop.Module, machine target.Machine) error { return RunWith(m, machine, Options{}) }

// step is one transformation, of the entire module or of each kernel.
type step struct {
	name, why  string   // why says why the step is at its position in the table
	components []string // names of those of the step's components that can be left out separately
	needed     bool     // the step itself cannot be left out
	module     func(s *scheduler) error
	// kernel changes k, a copy that it owns, and reports whether it did. Machines with blocks of threads run recipes
	// instead (block_*.go).
	kernel func(s *scheduler, k *loop.Kernel) bool
	// when, if not nil, is a quick test: if it is false of a kernel, the step does nothing to it, and no copy is made.
	when func(s *scheduler, k *loop.Kernel) bool
}

// steps run in this order: module steps up to the first kernel step, then all kernel steps for each kernel in turn,
// then the other module steps.
var steps = []step{
	{name: "meanings", why: "first: steps that change loops need not know what a kernel computes", needed: true,
		components: []string{"recipes"}, module: always((*scheduler).useRecipes)},
	{name: "constants", why: "early: all steps that follow then know the values of constants with one element",
		module: always((*scheduler).constants)},
	{name: "idle", why: "before anything looks at loops", needed: true, module: always((*scheduler).dropIdle)},
	{name: "fuse", why: "before steps that change loops: it recognises maps as lowering wrote them", needed: true,
		components: []string{"inline", "epilogue"}, module: always((*scheduler).fuse)},
	{name: "parts", why: "after fuse, which leaves few kernels, before their loops are changed",
		module: (*scheduler).putParts},
	{name: "contractions", why: "after parts, which changes the strides of operands", needed: true,
		components: []string{"pack"}, module: (*scheduler).contractions},
	{name: "rejoin", why: "before other steps replace loop variables by sums of several", kernel: rejoin,
		when: splitsIndices},
	{name: "cut-contractions", why: "before flatten: it recognises nests as lowering wrote them", kernel: cutContractions,
		when: withoutRegisterTiles},
	{name: "finish", why: "after contractions, whose sums stay in registers from nest to nest", kernel: finishWhereStored,
		when: hasLocals},
	{name: "flatten", why: "before vectors: it makes loops long", kernel: flatten},
	{name: "vectors", why: "before tiles: it exchanges loops", kernel: chooseVectors},
	{name: "lanes", why: "after vectors: it moves vector loops outward", kernel: keepInLanes,
		when: hasNests},
	{name: "transpositions", why: "after vectors, whose loops it cuts", kernel: cutTranspositions, when: hasNests},
	{name: "tiles", why: "after the steps that add, merge or exchange loops", kernel: chooseTiles},
	{name: "widen", why: "after tiles: it repeats statements for many rows and for few", kernel: widenPanels,
		when: hasLocals},
	{name: "functions-once", why: "last of a kernel: the names that it adds hide the form of nests from other steps",
		kernel: functionsOnce},
	{name: "repeats-apart", why: "after the steps that choose loops and change their indices", kernel: splitRepeats,
		when: repeats},
	{name: "courses", why: "after tiles, whose number decides whether workers have enough to do",
		module: always((*scheduler).inSteps)},
	{name: "rotations", why: "after courses, whose workers each keep panels of their own",
		module: always((*scheduler).rotatePanels)},
	{name: "outside", why: "last: for kernels that still do not fit", needed: true, module: always((*scheduler).moveOut)},
}

// Steps is the number of rows of the table.
var Steps = len(steps)

// always makes a step that cannot fail.
func always(do func(s *scheduler)) func(s *scheduler) error {
	return func(s *scheduler) error { do(s); return nil }
}

// OptionalSteps returns the names of the steps that can be left out. The module is correct without any of them, but
// slower.
func OptionalSteps() (names []string) {
	for _, s := range steps {
		if names = append(names, s.components...); !s.needed {
			names = append(names, s.name)
		}
	}
	return names
}

// Simplest are the steps to leave out for the simplest schedule, which joins no kernels.
var Simplest = []string{"constants", "inline", "epilogue", "finish"}

// RunWith schedules a module in place. It replaces and removes kernels and launches, and drops buffers that no step
// uses any more, unless they are inputs or outputs. An error means that the module was not well formed, or comes from
// Options.
func RunWith(m *loop.Module, machine target.Machine, o Options) error {
	s := &scheduler{module: m, machine: machine, options: o, dims: m.Dims}
	if s.dims == nil {
		s.dims = sym.NewDims()
	}
	kernels := false // whether the kernel steps have run
	for row, step := range steps {
		if step.kernel != nil && !kernels {
			kernels = true
			if err := s.kernels(row); err != nil {
				return err
			}
		}
		if step.module == nil || s.off(step.name) {
			continue
		}
		s.reached(row, step.name)
		if err := step.module(s); err != nil {
			return err
		}
		s.report(step.name, m.Kernels)
	}
	return nil
}

// off reports whether a step is left out.
func (s *scheduler) off(step string) bool { return slices.Contains(s.options.Without, step) }

// report calls Options.After for the module with these kernels instead of its own; their names are the same.
func (s *scheduler) report(step string, kernels []*loop.Kernel) {
	if s.options.After == nil || s.off(step) {
		return
	}
	m := *s.module
	m.Kernels = kernels
	s.options.After(step, m.String)
}

// reached calls Options.Progress.
func (s *scheduler) reached(row int, step string) {
	if s.options.Progress != nil {
		s.options.Progress(row, step)
	}
}

// dropIdle drops loops without iterations from all kernels.
func (s *scheduler) dropIdle() {
	for _, k := range s.module.Kernels {
		dropIdle(k)
	}
}

// kernels runs the kernel steps, whose rows begin at first, on each kernel. Of kernels that differ in name, source and
// work only, it runs them on the first, and the others are copies of the result.
func (s *scheduler) kernels(first int) error {
	s.snapshots = map[string][]*loop.Kernel{}
	alike := s.alike()
	rows, last := 0, -1
	for _, step := range steps {
		if step.kernel != nil {
			rows++
		}
	}
	for i, k := range s.module.Kernels {
		if row := first + i*rows/len(s.module.Kernels); row > last {
			last = row
			s.reached(row, "kernels")
		}
		if s.options.Check != nil {
			if err := s.options.Check(); err != nil {
				return err
			}
		}
		if alike != nil && alike[i] != i {
			*k = *copyFor(k, s.module.Kernels[alike[i]])
		} else if better := s.kernel(k); better != k {
			*k = *better
		}
	}
	if s.options.After != nil {
		for _, step := range steps {
			if list := s.snapshots[step.name]; len(list) > 0 {
				s.report(step.name, list)
			}
		}
	}
	return nil
}

// alike returns, for each kernel, the index of the first kernel with the same loops and choice; nil if the steps of
// each kernel are reported, or each kernel is shown to Options.Refuses.
func (s *scheduler) alike() []int {
	if s.options.After != nil || s.options.Refuses != nil {
		return nil
	}
	kernels := s.module.Kernels
	_, which := loop.Distinct(kernels)
	type kind struct {
		loops  int
		choice Choice
	}
	firsts, alike := map[kind]int{}, make([]int, len(kernels))
	for i, k := range kernels {
		now := kind{which[i], s.choice(k)}
		if _, known := firsts[now]; !known {
			firsts[now] = i
		}
		alike[i] = firsts[now]
	}
	return alike
}

// copyFor returns a copy of a scheduled kernel with the name, source and work of k.
func copyFor(k, scheduled *loop.Kernel) *loop.Kernel {
	c := scheduled.Clone()
	c.Name, c.Source, c.Work = k.Name, k.Source, k.Work
	return c
}

// scheduler is the state of one RunWith.
type scheduler struct {
	module  *loop.Module
	machine target.Machine
	options Options
	dims    *sym.Dims
	uses    map[*loop.Buffer]*usage // by the buffer that owns the storage
	shared  map[*loop.Kernel]bool   // kernels that several steps launch
	free    []sym.Name              // the dimensions of the present kernel
	offsets loop.Offsets            // of accesses that estimates look at

	snapshots map[string][]*loop.Kernel // for Options.After: the kernels after each kernel step

	halvings int // of tiles that did not fit; see smaller

	kept     map[string]string     // why pieces are copied, by keptKey
	laid     map[*loop.Buffer]bool // buffers that became pieces of others, and buffers that hold pieces
	tooLarge map[string]bool       // kernels whose pieces would enlarge the arena
}

// kernel returns a kernel with its loops scheduled. The result of each step is kept only if it fits.
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
			s.snapshots[step.name] = append(s.snapshots[step.name], k)
		}
	}
	return k
}

// stepped returns a copy of the kernel after a step; the kernel itself if the step does nothing or its result does not
// fit.
func (s *scheduler) stepped(k *loop.Kernel, step step) *loop.Kernel {
	if step.when != nil && !step.when(s, k) {
		return k
	}
	next := k.Clone()
	if !step.kernel(s, next) {
		return k
	}
	if next.Dims = dimsOf(next, k); !s.commits(next, k) {
		return k
	}
	return next
}

// blockKernel returns a kernel for blocks of threads by the first recipe that applies; the kernel itself, of which each
// iteration is a thread, if none does; or a kernel for the host, if the machine cannot run that.
func (s *scheduler) blockKernel(k *loop.Kernel) *loop.Kernel {
	for _, recipe := range []func(k *loop.Kernel) *loop.Kernel{s.blockOnline, s.blockDirect, s.blockProduct, s.blockSlices,
		s.blockColumns, s.blockRows, s.blockSteps, s.blockBody, s.blockTranspose} {
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

// refuses reports whether the code generator refuses a kernel.
func (s *scheduler) refuses(k *loop.Kernel) bool {
	return s.options.Refuses != nil && s.options.Refuses(k) != nil
}

// forBlocks reports whether a kernel has loops over blocks or threads, so that it is already scheduled.
func forBlocks(k *loop.Kernel) bool {
	found := false
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		f, is := s.(*loop.For)
		found = found || is && (f.Kind == loop.Block || f.Kind == loop.Thread)
		return !found
	})
	return found
}

// dimsOf returns the dimensions of k: those that before had, in its order, then the new ones.
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

// newNamer returns a namer for a kernel.
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
	for _, name := range k.Dims {
		if name == sym.Bound(name.Text()) { // of a loop around a part of a kernel that is scheduled alone
			n.taken[name.Text()] = true
		}
	}
	return n
}

// name returns a new name, made from hint.
func (n *namer) name(hint string) string {
	name := hint
	for i := 1; n.taken[name]; i++ {
		name = hint + "_" + decimal(i)
	}
	n.taken[name] = true
	return name
}

// bound returns a new name for a loop variable or a checked value.
func (n *namer) bound(hint string) sym.Name { return sym.Bound(n.name(hint)) }

// renaming gives new names to the declarations of statements that are written twice.
type renaming struct {
	names *namer
	given map[string]string
}

// again returns a copy of statements, whose names and loops' variables are new.
func (n *namer) again(body []loop.Stmt) []loop.Stmt {
	loops := map[sym.Name]sym.Name{}
	for _, name := range bound(body) {
		loops[name] = n.bound(name.Text())
	}
	return loop.Rename(n.anew(body).body(body), loops)
}

// anew returns a renaming of all that a body declares.
func (n *namer) anew(body []loop.Stmt) *renaming {
	r := &renaming{n, map[string]string{}}
	for _, name := range declared(body) {
		r.to(name)
	}
	return r
}

// to returns the new name of a declaration.
func (r *renaming) to(name string) string {
	if r.given[name] == "" {
		r.given[name] = r.names.name(name)
	}
	return r.given[name]
}

// rewrite returns the renaming as a Rewrite.
func (r *renaming) rewrite() *loop.Rewrite {
	return &loop.Rewrite{Name: func(name string) string {
		if to, ok := r.given[name]; ok {
			return to
		}
		return name
	}}
}

// body returns a renamed copy of a list of statements.
func (r *renaming) body(body []loop.Stmt) []loop.Stmt { return r.rewrite().Body(body) }

// decimal returns i, which is not negative, in decimal.
func decimal(i int) string {
	if i < 10 {
		return string(rune('0' + i))
	}
	return decimal(i/10) + string(rune('0'+i%10))
}

// dropIdle removes the loops without iterations in every run, unless the kernel has no other statements.
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

// neverRuns reports whether some loop of a kernel has no iterations in any run. Such a kernel is not scheduled.
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

// equal reports whether two expressions are proved to be equal for every binding of the dimensions.
func (s *scheduler) equal(a, b sym.Expr) bool {
	return a.Equal(b) || s.dims.EQ(a, b) == sym.Yes
}

// mentions reports whether e contains the name.
func mentions(e sym.Expr, name sym.Name) bool { return slices.Contains(e.Vars(), name) }

// anyMentions reports whether one of the expressions contains the name.
func anyMentions(list []sym.Expr, name sym.Name) bool {
	return slices.ContainsFunc(list, func(e sym.Expr) bool { return mentions(e, name) })
}

var (
	zero = sym.Const(0)
	one  = sym.Const(1)
)

// isZero reports whether e is the constant 0.
func isZero(e sym.Expr) bool { v, ok := e.Const(); return ok && v == 0 }

// isOne reports whether e is the constant 1.
func isOne(e sym.Expr) bool { v, ok := e.Const(); return ok && v == 1 }

// isVar reports whether e is exactly the variable of that name.
func isVar(e sym.Expr, name sym.Name) bool { v, ok := e.Name(); return ok && v == name }

// bug panics with a message and the kernel's text.
func bug(k *loop.Kernel, detail string) {
	panic(diag.Internalf("schedule: kernel @%s: %s\n%s", k.Name, detail, k))
}
