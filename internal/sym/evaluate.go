package sym

import (
	"errors"
	"fmt"
	"math"
)

// The errors of an evaluation, besides *UnboundError.
var (
	// ErrOverflow says that a value does not fit 64 bits.
	ErrOverflow = errors.New("integer overflow")
	// ErrDivide says that a divisor is zero.
	ErrDivide = errors.New("integer division by zero")
	// ErrTooLarge says that the expression exceeded its limits; it is an ErrOverflow too.
	ErrTooLarge = fmt.Errorf("expression too large: %w", ErrOverflow)
)

// UnboundError says that a name has no value.
type UnboundError struct{ Name Name }

func (e *UnboundError) Error() string { return fmt.Sprintf("no value for dimension %q", e.Name.Text()) }

// Eval computes the value for the given values of the names. Each product and each atom must fit 64 bits, as must the
// sum of the products, but not every partial sum. The errors are ErrOverflow, ErrTooLarge, ErrDivide and *UnboundError.
func (e Expr) Eval(value func(name Name) (int64, bool)) (int64, error) {
	if e.n == nil {
		return e.c, nil
	}
	var total wide
	total.add(e.c)
	for _, t := range e.n.terms {
		v := factors{value: t.coef}
		for _, a := range t.atoms {
			x, err := a.eval(value)
			if err != nil {
				return 0, err
			}
			v.times(x)
		}
		if v.overflow {
			return 0, ErrOverflow
		}
		total.add(v.value)
	}
	v, fits := total.int64()
	if !fits {
		return 0, ErrOverflow
	}
	return v, nil
}

// factors is a partial product; a factor of zero cancels an overflow.
type factors struct {
	value    int64
	overflow bool
}

// times multiplies the product by x.
func (f *factors) times(x int64) {
	if x == 0 || f.value == 0 {
		*f = factors{}
		return
	}
	v, ok := mulInts(f.value, x)
	if !ok {
		v = 1 // any value but zero
	}
	f.value, f.overflow = v, f.overflow || !ok
}

// eval computes the atom.
func (a *atom) eval(value func(name Name) (int64, bool)) (int64, error) {
	switch a.kind {
	case variable:
		if v, ok := value(a.name); ok {
			return v, nil
		}
		return 0, &UnboundError{a.name}
	case huge:
		return 0, ErrTooLarge
	case sum:
		var total wide
		for _, x := range a.args {
			v, err := x.Eval(value)
			if err != nil {
				return 0, err
			}
			total.add(v)
		}
		if v, fits := total.int64(); fits {
			return v, nil
		}
		return 0, ErrOverflow
	}
	v, err := a.args[0].Eval(value)
	if err != nil {
		return 0, err
	}
	for _, x := range a.args[1:] {
		w, err := x.Eval(value)
		if err != nil {
			return 0, err
		}
		if v, err = apply[a.kind](v, w); err != nil {
			return 0, err
		}
	}
	return v, nil
}

// apply has the operations of two operands, by kind.
var apply = [...]func(x, y int64) (int64, error){
	floorDiv: func(x, y int64) (int64, error) {
		if err := divisible(x, y); err != nil {
			return 0, err
		}
		return floorInts(x, y), nil
	},
	ceilDiv: func(x, y int64) (int64, error) {
		if err := divisible(x, y); err != nil {
			return 0, err
		}
		q := x / y
		if r := x % y; r != 0 && (r < 0) == (y < 0) {
			q++
		}
		return q, nil
	},
	modulo: func(x, y int64) (int64, error) {
		if y == 0 {
			return 0, ErrDivide
		}
		return modInts(x, y), nil
	},
	minimum: func(x, y int64) (int64, error) { return min(x, y), nil },
	maximum: func(x, y int64) (int64, error) { return max(x, y), nil },
	product: func(x, y int64) (int64, error) {
		if p, ok := mulInts(x, y); ok {
			return p, nil
		}
		return 0, ErrOverflow
	},
}

// divisible returns an error if x/y has no value that fits.
func divisible(x, y int64) error {
	switch {
	case y == 0:
		return ErrDivide
	case y == -1 && x == math.MinInt64:
		return ErrOverflow
	}
	return nil
}

// Subst returns e with names replaced, all at once: with returns a name's replacement, or false to keep it.
func (e Expr) Subst(with func(name Name) (Expr, bool)) Expr {
	s := substitution{with: with, done: map[*atom]Expr{}}
	return s.expr(e)
}

// substitution is the state of Subst.
type substitution struct {
	with func(Name) (Expr, bool)
	// settle returns what an atom of new arguments is equal to; nil, or ok false, if nothing is known.
	settle func(a *atom) (x Expr, ok bool)
	done   map[*atom]Expr // an absent atom is not visited; an atom that stays maps to itself
}

// expr returns e with its names replaced; e itself if nothing changes.
func (s *substitution) expr(e Expr) Expr {
	changed := false
	for _, t := range e.terms() {
		for _, a := range t.atoms {
			changed = s.atom(a) || changed
		}
	}
	if !changed {
		return e
	}
	list := make([]Expr, 0, len(e.n.terms)+1)
	for _, t := range e.n.terms {
		factors := []Expr{Const(t.coef)}
		for _, a := range t.atoms {
			factors = append(factors, s.done[a])
		}
		list = append(list, Product(factors...))
	}
	return Sum(append(list, Const(e.c))...)
}

// atom stores the atom's replacement in done and reports whether it differs from the atom.
func (s *substitution) atom(a *atom) bool {
	x, known := s.done[a]
	if !known {
		x = a.expr()
		if a.kind == variable {
			if y, ok := s.with(a.name); ok {
				x = y
			}
		} else if len(a.args) > 0 {
			args, changed := make([]Expr, len(a.args)), false
			for i, y := range a.args {
				args[i] = s.expr(y)
				changed = changed || args[i] != y
			}
			if changed {
				x = rebuild(a.kind, args)
				if b := x.atom(); b != nil && s.settle != nil {
					if y, ok := s.settle(b); ok {
						x = y
					}
				}
			}
		}
		s.done[a] = x
	}
	return x.n != &a.alone || x.c != 0
}

// rebuild applies an atom's operation to new arguments.
func rebuild(k kind, args []Expr) Expr {
	switch k {
	case floorDiv:
		return args[0].FloorDiv(args[1])
	case ceilDiv:
		return args[0].CeilDiv(args[1])
	case modulo:
		return args[0].Mod(args[1])
	case product:
		return args[0].Mul(args[1])
	case sum:
		return Sum(args...)
	}
	return extremum(k, args)
}
