package ir

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/text"
)

// Viewer is an operator whose results may lie in the memory of an input, such as a reshape.
type Viewer interface {
	// LiesIn reports in which of the node's inputs a result lies; ok is false if it has memory of its own.
	LiesIn(n *Node, output int, d *sym.Dims) (input int, ok bool)
}

// mostLive limits the live carves of one storage, which are compared pairwise.
const mostLive = 1024

// CheckMemory checks a module's memory layout before passes rewrite it: a value and its views are used only while its
// carve is live, on every path; a carve lies in its storage, is aligned, and is disjoint from all other live carves.
// Each condition is proved for all dimensions and joins Proved; or it is refuted, which is an error with an example; or
// its simplest form joins Requires, unless others imply it. Sizes are the text's own and are not rounded. Assertions
// become conditions too. The module must have passed Verify.
func CheckMemory(m *Module) error {
	c := &memoryChecker{module: m, conditions: newConditions(m), alias: map[*Value]*Value{}, ended: map[*Storage]int{},
		dead: map[*Value]int{}, seen: map[*Storage]bool{},
		bound: map[sym.Name]bool{}}
	for _, f := range m.Funcs {
		if f != m.Main && says(f.Body) {
			return diag.Unsupportedf("function %s lays out memory; the main function may", text.GlobalName(f.Name))
		}
	}
	for _, p := range m.Main.Body.Params {
		for _, e := range p.Type.Shape {
			if name, ok := e.Name(); ok {
				c.bound[name] = true
			}
		}
		if p.Bound {
			c.decide(p.Known...)
		}
	}
	if err := c.block(m.Main.Body); err != nil {
		return err
	}
	c.conditions.finish()
	return nil
}

// says reports whether a block or an inner block lays out memory or asserts a condition.
func says(b *Block) bool {
	if len(b.Statements) > 0 {
		return true
	}
	for _, n := range b.Nodes {
		if slices.ContainsFunc(n.Outputs, func(v *Value) bool {
			return v.Carve != nil
		}) || slices.ContainsFunc(n.Regions, says) {
			return true
		}
	}
	return false
}

// memoryChecker walks a function in the order of its nodes.
type memoryChecker struct {
	module     *Module
	conditions *conditions
	seen       map[*Storage]bool // storages declared on every path to here, ended ones too
	ended      map[*Storage]int  // ended storages, with the line that ended them
	live       []*Value          // carved values that are not released, in order of their carves
	dead       map[*Value]int    // released values, with the line that released them
	alias      map[*Value]*Value // views, with the carved value that they lie in
	bound      map[sym.Name]bool // dimensions that have values here
	line       int
}

// decide marks dimensions that are entire extents as bound.
func (c *memoryChecker) decide(list ...sym.Expr) {
	for _, e := range list {
		if name, ok := e.Name(); ok {
			c.bound[name] = true
		}
	}
}

// known returns an error, which begins with what, if a dimension of an expression is not bound yet.
func (c *memoryChecker) known(what string, list ...sym.Expr) error {
	for _, e := range list {
		for _, name := range e.Vars() {
			if c.bound[name] {
				continue
			}
			e := diag.Inputf("%s needs the value of %s, which has none yet", what, name).AtDim(name.Text())
			if _, data := c.module.Limits[name]; data {
				return e.WithFix("move it after the node that decides %s", name)
			}
			return e.WithFix("let %s be the entire extent of an axis of an input", name)
		}
	}
	return nil
}

// block checks a block's statements and nodes in order.
func (c *memoryChecker) block(b *Block) error {
	said := b.Statements
	for i := 0; i <= len(b.Nodes); i++ {
		for len(said) > 0 && said[0].At <= i {
			c.line = said[0].Line
			if err := c.statement(said[0]); err != nil {
				return inLine(err, c.line)
			}
			said = said[1:]
		}
		if i == len(b.Nodes) {
			break
		}
		n := b.Nodes[i]
		if err := c.module.Ask(); err != nil {
			return err
		}
		c.line = n.Line
		if err := c.node(n); err != nil {
			return at(err, n)
		}
	}
	c.line = 0
	for _, v := range b.Results {
		if err := c.use(v); err != nil {
			return err
		}
	}
	return nil
}

// statement checks one statement.
func (c *memoryChecker) statement(s Statement) error {
	switch {
	case s.Storage != nil:
		return c.storage(s.Storage)
	case s.Release != nil:
		return c.release(s.Release)
	case s.End != nil:
		return c.end(s.End)
	}
	if err := c.known("the assertion", s.Assert.Cond.A, s.Assert.Cond.B); err != nil {
		return err
	}
	return c.conditions.assert(s.Assert.Cond, fmt.Sprintf("assert %q", s.Assert.From), s.Line)
}

// storage checks the declaration of a storage.
func (c *memoryChecker) storage(s *Storage) error {
	name := text.LocalName(s.Name)
	switch {
	case s.Align < 1 || s.Align&(s.Align-1) != 0:
		return diag.Inputf("storage %s is aligned to %d, which is not a power of two", name, s.Align)
	case s.Align > defaultAlign:
		return diag.Unsupportedf("storage %s is aligned to %d; up to %d is supported", name, s.Align, defaultAlign)
	case s.Device != "" && s.Device != "cpu":
		return diag.Unsupportedf("storage %s is on device %q; cpu is supported", name, s.Device)
	}
	if err := c.known("storage "+name, s.Bytes); err != nil {
		return err
	}
	c.seen[s] = true
	return c.conditions.need(need{cond: sym.Cond{B: s.Bytes}, from: "storage " + name, line: s.Line,
		fix: "storages have 0 bytes or more", silent: true})
}

// visible checks that a storage is declared on every path to this point, and has not ended.
func (c *memoryChecker) visible(s *Storage) error {
	if line, ended := c.ended[s]; ended {
		return diag.Inputf("storage %s has ended in line %d", text.LocalName(s.Name), line).
			WithFix("release it after its last use")
	}
	if !c.seen[s] {
		return diag.Inputf("storage %s is declared in line %d, which is later or in a block that does not contain this "+
			"line, so not every run has it here", text.LocalName(s.Name), s.Line).
			WithFix("declare it before the branch or loop, in the block around it")
	}
	return nil
}

// use checks that the carve a value lies in is live.
func (c *memoryChecker) use(v *Value) error {
	if v == nil {
		return nil
	}
	of := v
	if root := c.alias[v]; root != nil {
		of = root
	}
	if of.Carve == nil || slices.Contains(c.live, of) {
		return nil
	}
	line, released := c.dead[of]
	if !released {
		return diag.Inputf("%s is used outside the block in which it is carved", text.LocalName(v.Name)).AtTensor(v.Name)
	}
	if of != v {
		return diag.Inputf("%s lies in %s, and is used after the release of %[2]s in line %[3]d", text.LocalName(v.Name),
			text.LocalName(of.Name), line).AtTensor(v.Name).
			WithFix("release %s after the last use of the values in it", text.LocalName(of.Name))
	}
	return diag.Inputf("%s is used after its release in line %d", text.LocalName(v.Name), line).AtTensor(v.Name).
		WithFix("release it after its last use")
}

// release checks that a value is carved and live, and ends its live range.
func (c *memoryChecker) release(v *Value) error {
	name := text.LocalName(v.Name)
	if v.Carve == nil {
		if of := c.alias[v]; of != nil {
			return diag.Inputf("%s is not carved: it lies in %s", name, text.LocalName(of.Name)).AtTensor(v.Name).
				WithFix("release %s", text.LocalName(of.Name))
		}
		return diag.Inputf("%s is released, and is not carved", name).AtTensor(v.Name).
			WithFix("leave the release out, or carve %s from a storage", name)
	}
	if line, twice := c.dead[v]; twice {
		return diag.Inputf("%s is released twice, first in line %d", name, line).AtTensor(v.Name).
			WithFix("leave one release out")
	}
	at := slices.Index(c.live, v)
	if at < 0 {
		return diag.Inputf("%s is released outside the block in which it is carved", name).AtTensor(v.Name)
	}
	c.live = slices.Delete(c.live, at, at+1)
	c.dead[v] = c.line
	return nil
}

// end ends a storage and the carves in it.
func (c *memoryChecker) end(s *Storage) error {
	if line, twice := c.ended[s]; twice {
		return diag.Inputf("storage %s is released twice, first in line %d", text.LocalName(s.Name), line).
			WithFix("leave one release out")
	}
	if err := c.visible(s); err != nil {
		return err
	}
	c.ended[s] = c.line
	for _, v := range slices.Clone(c.live) {
		if v.Carve.Storage == s {
			if err := c.release(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// node checks a node's inputs, the carves of its results, and its regions, and records which results are views of
// carves.
func (c *memoryChecker) node(n *Node) error {
	if n.Op.Name() == PlaceOp {
		return diag.Inputf("%s is the compiler's own operator", PlaceOp).WithFix("write: carve %%storage at offset")
	}
	for _, v := range n.Inputs {
		if err := c.use(v); err != nil {
			return err
		}
	}
	for _, v := range n.Outputs {
		for _, e := range v.Type.Shape {
			for _, name := range e.Vars() {
				if _, data := c.module.Limits[name]; !data && !c.bound[name] {
					return c.known(text.LocalName(v.Name), e)
				}
			}
		}
	}
	// A result whose size the node itself decides is copied into its carve when the size is known.
	for _, v := range n.Outputs {
		c.decide(v.Type.Shape...)
		if v.Bound {
			c.decide(v.Known...)
		}
	}
	for _, v := range n.Outputs {
		if v.Carve != nil {
			if err := c.carve(v); err != nil {
				return err
			}
		}
	}
	if err := c.regions(n); err != nil {
		return err
	}
	viewer, views := n.Op.(Viewer)
	if len(c.live) == 0 || !views || !slices.ContainsFunc(n.Inputs, func(v *Value) bool { return c.carved(v) != nil }) {
		return nil
	}
	for i, v := range n.Outputs {
		if v.Carve != nil {
			continue
		}
		if input, ok := viewer.LiesIn(n, i, c.module.Dims); ok {
			if of := c.carved(n.Inputs[input]); of != nil {
				c.alias[v] = of
			}
		}
	}
	return nil
}

// carved returns the carved value in whose memory v lies; nil if there is none.
func (c *memoryChecker) carved(v *Value) *Value {
	switch {
	case v == nil:
		return nil
	case v.Carve != nil:
		return v
	}
	return c.alias[v]
}

// carve checks a value's carve and begins its live range.
func (c *memoryChecker) carve(v *Value) error {
	s, name := v.Carve.Storage, text.LocalName(v.Name)
	if err := c.visible(s); err != nil {
		return err.(*diag.Error).AtTensor(v.Name)
	}
	if v.Type.DType == dtype.String {
		return diag.Inputf("%s is %s, which does not lie in a storage", name, v.Type).AtTensor(v.Name)
	}
	if err := c.known("the carve of "+name, append([]sym.Expr{v.Carve.Offset}, v.Type.Shape...)...); err != nil {
		return err
	}
	from := fmt.Sprintf("carve %s of %s", name, text.LocalName(s.Name))
	about := need{from: from, line: c.line, tensor: v.Name, silent: true}
	with := func(a sym.Expr, rel sym.Rel, b sym.Expr, fix string) error {
		about.cond, about.fix = sym.Cond{A: a, Rel: rel, B: b}, fix
		return c.conditions.need(about)
	}
	for _, e := range v.Type.Shape {
		if err := with(sym.Const(0), sym.LE, e, "extents are 0 or more"); err != nil {
			return err
		}
	}
	begin, size := v.Carve.Offset, sizeOf(v)
	if err := with(sym.Const(0), sym.LE, begin, "offsets are 0 or more"); err != nil {
		return err
	}
	if unit := int64(v.Type.DType.Bits() / 8); unit > 1 {
		if s.Align < unit {
			return diag.Inputf("%s of %s is carved from %s, which is aligned to %d", name, v.Type.DType, text.LocalName(s.Name),
				s.Align).AtTensor(v.Name).WithFix("align %d", unit)
		}
		if err := with(begin.Mod(sym.Const(unit)), sym.EQ, sym.Const(0),
			fmt.Sprintf("elements of %s begin at multiples of %d", v.Type.DType, unit)); err != nil {
			return err
		}
	}
	end := begin.Add(size)
	about.silent = false
	about.shown = []sym.Cond{{A: c.module.Dims.Simplify(end), B: c.module.Dims.Simplify(s.Bytes)}}
	if err := with(end, sym.LE, s.Bytes, fmt.Sprintf("storage %s: %s bytes", text.LocalName(s.Name), end)); err != nil {
		return err
	}
	beside := 0
	for _, other := range c.live {
		if other.Carve.Storage != s {
			continue
		}
		if beside++; beside > mostLive {
			return diag.Unsupportedf("more than %d carves of %s at once", mostLive, text.LocalName(s.Name))
		}
		about := about
		about.from += " beside " + text.LocalName(other.Name)
		about.fix = fmt.Sprintf("release %s before, or carve %s elsewhere", text.LocalName(other.Name), name)
		about.cond = disjoint(begin, size, other.Carve.Offset, sizeOf(other))
		about.shown = []sym.Cond{{A: end, B: other.Carve.Offset}, {A: other.Carve.Offset.Add(sizeOf(other)), B: begin}}
		if err := c.conditions.need(about); err != nil {
			return err
		}
	}
	c.live = append(c.live, v)
	return nil
}

// sizeOf returns a value's size in bytes.
func sizeOf(v *Value) sym.Expr {
	count, bits := sym.Product(v.Type.Shape...), int64(v.Type.DType.Bits())
	if bits%8 == 0 {
		return count.Mul(sym.Const(bits / 8))
	}
	return count.Mul(sym.Const(bits)).CeilDiv(sym.Const(8))
}

// disjoint returns the condition that two ranges of bytes are disjoint.
func disjoint(begin, size, other, length sym.Expr) sym.Cond {
	return sym.Cond{B: sym.MaxOf(other.Sub(begin.Add(size)), begin.Sub(other.Add(length)), size.Neg(), length.Neg())}
}

// regions checks a node's inner blocks. Their storages and carves end with them. Branches must release the same outer
// carves; a body that may run any number of times must release none of them.
func (c *memoryChecker) regions(n *Node) error {
	if len(n.Regions) == 0 {
		return nil
	}
	live, line, branches := slices.Clone(c.live), c.line, n.Op.Name() == "if"
	type ending struct {
		live  []*Value
		dead  map[*Value]int
		ended map[*Storage]int
	}
	var first *ending
	dead, ended, seen, bound := copied(c.dead), copied(c.ended), copied(c.seen), copied(c.bound)
	for _, r := range n.Regions {
		c.live, c.dead, c.ended, c.seen, c.bound = slices.Clone(live), copied(dead), copied(ended), copied(seen),
			copied(bound)
		for _, p := range r.Params {
			c.decide(p.Type.Shape...)
			c.decide(p.Known...)
		}
		if err := c.block(r); err != nil {
			return err
		}
		c.line = line
		c.live = slices.DeleteFunc(c.live, func(v *Value) bool { return !slices.Contains(live, v) })
		for s := range c.ended {
			if !seen[s] {
				delete(c.ended, s)
			}
		}
		e := &ending{c.live, c.dead, c.ended}
		if first == nil {
			first = e
		}
		for _, v := range live {
			has, had := slices.Contains(e.live, v), slices.Contains(first.live, v)
			switch {
			case !branches && !has:
				return diag.Inputf("%s is released in line %d, in a body that may run any number of times", text.LocalName(v.Name),
					e.dead[v]).AtTensor(v.Name).
					WithFix("release it after the loop")
			case has != had:
				return diag.Inputf("%s is released in line %d, in one branch and not in the other", text.LocalName(v.Name),
					e.dead[v]+first.dead[v]).AtTensor(v.Name).
					WithFix("release it in both, or after them")
			}
		}
		for s := range seen {
			_, has := e.ended[s]
			_, had := first.ended[s]
			if _, before := ended[s]; !before && (has != had || has && !branches) {
				return diag.Inputf("storage %s is released in line %d, in one branch and not in every other, or in a body that "+
					"may run any number of times", text.LocalName(s.Name), e.ended[s]+first.ended[s]).
					WithFix("release it after them")
			}
		}
	}
	c.seen, c.bound = seen, bound
	return nil
}

// copied returns a copy of a map; of nil, an empty map.
func copied[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
