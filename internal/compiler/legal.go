package compiler

import (
	"math"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Legal returns the range of an integer input's elements that the checks of all kernels allow, from 0 on, for the given
// dimensions; ok is false if no kernel checks the elements.
func (c *Compiled) Legal(input string, value func(name sym.Name) (int64, bool)) (lo, hi int64, ok bool) {
	hi = math.MaxInt64
	live.Each(c.Loop.Body, func(l *loop.Launch) {
		for i, arg := range l.Args {
			if root := arg.Root(); root.Kind != loop.Input || root.Source != input {
				continue
			}
			lets := map[string]loop.Expr{}
			loop.Walk(l.Kernel.Body, func(s loop.Stmt) bool {
				if let, is := s.(*loop.Let); is {
					lets[let.Name] = let.X
				}
				check, is := s.(*loop.Check)
				if !is || !loads(check.X, l.Kernel.Params[i].Name, lets) {
					return true
				}
				low, err1 := check.Min.Eval(value)
				high, err2 := check.Max.Eval(value)
				if err1 == nil && err2 == nil {
					lo, hi, ok = max(lo, low), min(hi, high), true
				}
				return true
			})
		}
	})
	return lo, hi, ok && lo <= hi
}

// loads reports whether an expression is an element of a parameter, converted or counted from the end if it is
// negative; lets has the values of names.
func loads(x loop.Expr, param string, lets map[string]loop.Expr) bool {
	switch x := x.(type) {
	case *loop.Load:
		return x.From == param
	case *loop.Ref:
		value := lets[x.Name]
		return value != nil && loads(value, param, lets)
	case *loop.Cast:
		return loads(x.X, param, lets)
	case *loop.Select:
		return loads(x.Y, param, lets)
	}
	return false
}
