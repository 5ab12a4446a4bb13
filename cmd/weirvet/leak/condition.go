package leak

import (
	"fmt"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// decide returns the outcome of a test on a path, if it is known: on a walked path the resource exists, and its error
// is nil.
func (s *state) decide(cond ssa.Value) (outcome, known bool) {
	switch m := s.of(cond); m.kind {
	case yes, no:
		return m.kind == yes, true
	case failing:
		return false, true
	}
	switch cond := cond.(type) {
	case *ssa.Const:
		return cond.Value != nil && cond.Value.String() == "true", true
	case *ssa.UnOp:
		if cond.Op == token.NOT {
			outcome, known = s.decide(cond.X)
			return !outcome, known
		}
	case *ssa.BinOp:
		return s.compare(cond)
	}
	return false, false
}

// compare decides comparisons of the resource or its error.
func (s *state) compare(test *ssa.BinOp) (outcome, known bool) {
	if x, ok := s.integer(test.X); ok {
		if y, ok := s.integer(test.Y); ok {
			return order(test.Op, x, y)
		}
	}
	if test.Op != token.EQL && test.Op != token.NEQ {
		return false, false
	}
	x, y := test.X, test.Y
	if isNil(x) {
		x, y = y, x
	}
	same := false
	switch s.of(x).kind {
	case failed:
		same = isNil(y)
	case itself:
		if !isNil(y) {
			return false, false
		}
	default:
		if s.of(y).kind != failed {
			return false, false
		}
	}
	return same == (test.Op == token.EQL), true
}

// assumable returns the keys of tests that a function makes more than once.
func assumable(f *ssa.Function) map[string]bool {
	count := map[string]int{}
	for _, b := range f.Blocks {
		if branch, ok := last(b).(*ssa.If); ok {
			key, _ := keyOfTest(branch.Cond)
			count[key]++
		}
	}
	list := map[string]bool{}
	for key, n := range count {
		if n > 1 {
			list[key] = true
		}
	}
	return list
}

// last returns the last instruction of a block.
func last(b *ssa.BasicBlock) ssa.Instruction {
	if len(b.Instrs) == 0 {
		return nil
	}
	return b.Instrs[len(b.Instrs)-1]
}

// keyOfTest returns a string that is equal for tests of the same variables and fields, and whether the test is negated.
func keyOfTest(cond ssa.Value) (key string, negated bool) {
	switch c := cond.(type) {
	case *ssa.UnOp:
		if c.Op == token.NOT {
			key, negated = keyOfTest(c.X)
			return key, !negated
		}
	case *ssa.BinOp:
		if c.Op == token.NEQ {
			return "(" + keyOf(c.X, 8) + "==" + keyOf(c.Y, 8) + ")", true
		}
	}
	return keyOf(cond, 8), false
}

// keyOf returns a string that is equal for equal expressions of variables and fields; "" if there is none.
func keyOf(v ssa.Value, depth int) string {
	if depth == 0 {
		return fmt.Sprintf("%p", v)
	}
	depth--
	switch v := v.(type) {
	case *ssa.Const:
		return v.String()
	case *ssa.UnOp:
		if v.Op != token.ARROW {
			return v.Op.String() + keyOf(v.X, depth)
		}
	case *ssa.BinOp:
		return "(" + keyOf(v.X, depth) + v.Op.String() + keyOf(v.Y, depth) + ")"
	case *ssa.FieldAddr:
		return keyOf(v.X, depth) + "." + fmt.Sprint(v.Field)
	case *ssa.Field:
		return keyOf(v.X, depth) + "." + fmt.Sprint(v.Field)
	case *ssa.IndexAddr:
		return keyOf(v.X, depth) + "[" + keyOf(v.Index, depth) + "]"
	case *ssa.Call:
		if b, ok := v.Call.Value.(*ssa.Builtin); ok && len(v.Call.Args) == 1 {
			return b.Name() + "(" + keyOf(v.Call.Args[0], depth) + ")"
		}
	}
	return fmt.Sprintf("%p", v)
}

// isBool reports whether a type's underlying type is bool.
func isBool(t types.Type) bool {
	b, ok := types.Unalias(t).Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// constant returns the mark of a bool constant in the source.
func constant(v ssa.Value) mark {
	c, ok := v.(*ssa.Const)
	if !ok || c.Value == nil || !isBool(c.Type()) {
		return mark{}
	}
	if c.Value.String() == "true" {
		return mark{kind: yes}
	}
	return mark{kind: no}
}

// integer returns the value of an integer that is known on this path.
func (s *state) integer(v ssa.Value) (int, bool) {
	if m := s.of(v); m.kind == number {
		return m.at, true
	}
	switch v := v.(type) {
	case *ssa.Const:
		if b, ok := v.Type().Underlying().(*types.Basic); ok && b.Info()&types.IsInteger != 0 && v.Value != nil {
			n := v.Int64()
			return int(n), n == int64(int32(n))
		}
	case *ssa.Call:
		if b, ok := v.Call.Value.(*ssa.Builtin); ok && b.Name() == "len" {
			return lengthOf(v.Call.Args[0])
		}
	case *ssa.BinOp:
		x, okX := s.integer(v.X)
		y, okY := s.integer(v.Y)
		return x + y, okX && okY && v.Op == token.ADD
	}
	return 0, false
}

// lengthOf returns the length of a list literal.
func lengthOf(v ssa.Value) (int, bool) {
	slice, ok := v.(*ssa.Slice)
	if !ok || slice.Low != nil || slice.High != nil {
		return 0, false
	}
	pointer, ok := slice.X.Type().Underlying().(*types.Pointer)
	if !ok {
		return 0, false
	}
	list, ok := pointer.Elem().Underlying().(*types.Array)
	if !ok {
		return 0, false
	}
	return int(list.Len()), true
}

// order returns the outcome of a comparison of integers.
func order(op token.Token, x, y int) (outcome, known bool) {
	switch op {
	case token.LSS:
		return x < y, true
	case token.LEQ:
		return x <= y, true
	case token.GTR:
		return x > y, true
	case token.GEQ:
		return x >= y, true
	case token.EQL:
		return x == y, true
	case token.NEQ:
		return x != y, true
	}
	return false, false
}
