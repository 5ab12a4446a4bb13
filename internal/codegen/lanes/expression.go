package lanes

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// kind is the form of an element type's values in registers.
type kind uint8

const (
	noKind   kind = iota
	Floats        // f32 lanes: f32, and narrower floats as f32 that hold only values of their type
	Integers      // i32 lanes: integers of up to 32 bits, extended by their type's sign
	Flags         // a mask
	Doubles       // two registers of f64 lanes
	Longs         // two registers of i64 lanes
)

var Kinds = map[dtype.DType]kind{
	dtype.F32: Floats, dtype.F16: Floats, dtype.BF16: Floats, dtype.F64: Doubles, dtype.Bool: Flags,
	dtype.I8: Integers, dtype.U8: Integers, dtype.I16: Integers, dtype.U16: Integers, dtype.I32: Integers,
	dtype.U32: Integers,
	dtype.I64: Longs, dtype.U64: Longs,
	dtype.I2: Integers, dtype.U2: Integers, dtype.I4: Integers, dtype.U4: Integers,
	dtype.F4E2M1: Floats, dtype.F8E4M3FN: Floats, dtype.F8E4M3FNUZ: Floats, dtype.F8E5M2: Floats, dtype.F8E5M2FNUZ: Floats,
	dtype.F8E8M0: Floats,
}

// KindOf returns an element type's kind; it refuses types without one.
func KindOf(dt dtype.DType) kind {
	k, ok := Kinds[dt]
	if !ok {
		Refuse("elements of %s", dt)
	}
	return k
}

// Wide reports whether values take two registers.
func (k kind) Wide() bool { return k == Doubles || k == Longs }

// BytesOf returns an element's size in bytes; it refuses types without a kind.
func BytesOf(dt dtype.DType) int64 {
	if dt.Bits() < 8 {
		Refuse("elements of %s", dt)
	}
	return int64(dt.Bits() / 8)
}

// Value is an expression's value: a number in each lane. For kinds of 64 bits, lo holds the lower half of the lanes and
// hi the higher. A uniform value is the same in all lanes. The registers must not be changed.
type Value struct {
	DType   dtype.DType
	Lo, Hi  regalloc.Reg
	Uniform bool
}

// Kind returns the kind of the value's type.
func (v Value) Kind() kind { return Kinds[v.DType] }

// binding is the value of a scalar's name.
type binding struct {
	Value
	depth   int // of the scope that declares it
	mutable bool
	narrow  dtype.DType // the type of which the value is a conversion that changes no number; see narrowOf
}

// vectorLoop is the vector loop whose body is being written.
type vectorLoop struct {
	Depth    int          // of its scope
	original sym.Name     // its variable
	Variable sym.Name     // lane 0's iteration or, in expressions that differ by lane, each lane's
	lane0    sym.Name     // lane 0's iteration, for all lanes
	number   sym.Name     // a lane's number
	tail     regalloc.Reg // the mask of an incomplete strip's lanes; NoReg: all
}

// Value emits an expression, in the outermost scope in which its value is the same.
func (e *Emitter) Value(x loop.Expr) Value {
	depth, ok := e.outside(x)
	if !ok {
		return e.expression(x)
	}
	return e.Once(depth, fmt.Sprintf("v%p", x)+e.replacements(x), func() Ready {
		v := e.Strip
		if v != nil && depth < v.Depth {
			e.Strip = nil
		}
		r := e.expression(x)
		e.Strip = v
		return Ready{Value: r}
	}).Value
}

// outside returns the depth of the outermost scope in which an expression can be computed just before the scope inside
// it; false if that is the scope at hand, or the expression costs nothing.
func (e *Emitter) outside(x loop.Expr) (depth int, ok bool) {
	switch x.(type) {
	case *loop.Const, *loop.Ref, *loop.Index:
		return 0, false
	}
	here := e.DepthHere()
	if e.Override != nil || here == 0 {
		return 0, false
	}
	depth, ok = e.needs(x)
	if !ok || depth >= here {
		return 0, false
	}
	// Memory may be read only if the loops would read it. The head of a scope runs only if its body does.
	for d := e.here.Depth; d > depth+1; d-- {
		if !e.scopes[d].Certain {
			depth = d - 1
			break
		}
	}
	for d := here; d > depth; d-- {
		if e.scopes[d].checked && reads(x) {
			depth = d
			break
		}
	}
	return depth, depth < here
}

// reads reports whether an expression reads memory.
func reads(x loop.Expr) (found bool) {
	loop.WalkExpr(x, func(x loop.Expr) {
		if _, ok := x.(*loop.Load); ok {
			found = true
		}
	})
	return found
}

// needs returns the depth of the innermost scope that an expression's value depends on; false if it must stay where it
// is.
func (e *Emitter) needs(x loop.Expr) (depth int, ok bool) {
	index := func(s sym.Expr) { depth = max(depth, e.DepthOf(e.Resolve(s))) }
	changed := func(name string, of func(s *scope) []string) {
		for _, s := range e.scopes {
			if s.Depth > depth && slices.Contains(of(s), name) {
				depth = s.Depth
			}
		}
	}
	switch x := x.(type) {
	case *loop.Const:
		return 0, true
	case *loop.Ref:
		b := e.bound[x.Name]
		depth = b.depth
		changed(x.Name, func(s *scope) []string { return s.assigned })
		return depth, true
	case *loop.Index:
		index(x.X)
		return depth, true
	case *loop.Load:
		if x.Mask != nil {
			return 0, false
		}
		for _, s := range x.Index {
			index(s)
		}
		changed(x.From, func(s *scope) []string { return s.stored })
		return depth, true
	}
	for _, y := range loop.Operands(x) {
		d, ok := e.needs(y)
		if !ok {
			return 0, false
		}
		depth = max(depth, d)
	}
	return depth, true
}

// replacements returns a key of the values of the unrolled loops' variables in an expression: the expression has a
// value for each key.
func (e *Emitter) replacements(x loop.Expr) (list string) {
	add := func(s sym.Expr) {
		for _, n := range s.Vars() {
			if b := e.Names[n]; b.replaced {
				list += " " + n.String() + "=" + b.value.Key()
			}
		}
	}
	switch x := x.(type) {
	case *loop.Index:
		add(x.X)
	case *loop.Load:
		for _, s := range x.Index {
			add(s)
		}
	}
	for _, y := range loop.Operands(x) {
		list += e.replacements(y)
	}
	return list
}

// expression emits an expression in the present scope.
func (e *Emitter) expression(x loop.Expr) Value {
	r, ok := x.(*loop.Ref)
	if !ok {
		return e.compute(x)
	}
	b, ok := e.bound[r.Name]
	if !ok {
		e.Kernel.Bug("%s is not declared", r.Name)
	}
	return b.Value
}

// Each applies an operation to the one or two registers of a value.
func (e *Emitter) Each(v Value, do func(x regalloc.Reg) regalloc.Reg) Value {
	r := Value{DType: v.DType, Uniform: v.Uniform, Lo: do(v.Lo)}
	if v.Kind().Wide() {
		if r.Hi = r.Lo; !v.Uniform {
			r.Hi = do(v.Hi)
		}
	}
	return r
}

// Packs reports whether elements of a type share bytes.
func Packs(dt dtype.DType) bool { return dt.Bits() < 8 }
