package array

import (
	"math"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Key determines random numbers: the same key gives the same numbers on every machine. There is no state: for other
// numbers, take another key from Split.
//
//	keys := array.Key(7).Split(2)
//	w := s.Normal(keys[0], weir.F32, 0, 0.1, 784, 10)
//
// In a compiled function a Key is part of the code: every call draws the same numbers. To draw other numbers in each
// call, make the key an input of the function: an array made by Scope.Key.
type Key uint64

// Random is a Key, or an array of u64[2] that holds one.
type Random interface{ key(s *Scope) (*Array, bool) }

func (k Key) key(s *Scope) (*Array, bool) { return s.Key(k), true }

func (a *Array) key(*Scope) (*Array, bool) { return a, false }

// Split returns n keys that differ from k and from each other.
func (k Key) Split(n int) []Key {
	out := make([]Key, n)
	for i := range out {
		out[i] = Key(mixed(mixed(uint64(k)) + uint64(i+1)*golden))
	}
	return out
}

// The constants of SplitMix64 (Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014).
const (
	golden   = 0x9e3779b97f4a7c15
	mixFirst = 0xbf58476d1ce4e5b9
	mixLast  = 0x94d049bb133111eb
)

// mixed mixes the bits of z, as in SplitMix64.
func mixed(z uint64) uint64 {
	z = (z ^ z>>30) * mixFirst
	z = (z ^ z>>27) * mixLast
	return z ^ z>>31
}

// Key makes an array of a key, u64[2]: the key, and the number of the draw, which is 0.
func (s *Scope) Key(k Key) *Array { return From(s, []uint64{uint64(k), 0}, 2) }

// draw is planSet with a key as the first operand.
func (s *Scope) draw(name string, k Random, in []*Array, prepare func() (operation, setBuilder, error)) *Array {
	if s.stopped() {
		return s.none(1)[0]
	}
	if k == nil {
		return s.refuse(name, diag.Inputf("no key"))
	}
	key, own := k.key(s)
	if own {
		defer key.Close()
	}
	return s.planSet(name, append([]*Array{key}, in...), prepare)
}

// drawn is draw for a float type and a shape, with settings list.
func (s *Scope) drawn(name string, k Random, dt weir.DType, shape []int, list []float64,
	build func(c calc, key *ir.Value, shape []sym.Expr, numbers []number) *ir.Value) *Array {
	return s.draw(name, k, nil, func() (operation, setBuilder, error) {
		o := operation{ints: []int{int(dt)}, settings: settings{sizes: shape, numbers: list}}
		return o, func(b *ir.Builder, v []*ir.Value, sizes []sym.Expr, numbers []number) *ir.Value {
			return ops.Cast(b, build(calc{b}, v[0], sizes, numbers), dt)
		}, s.drawable(dt, shape)
	})
}

// drawable returns an error unless random numbers of the type and shape can be drawn.
func (s *Scope) drawable(dt weir.DType, shape []int) error {
	_, err := s.extents(shape)
	if err == nil && !dt.IsFloat() {
		err = diag.Inputf("random numbers of %v; a float type is needed", dt)
	}
	return err
}

// uniform draws numbers from [low, high).
func uniform(b *ir.Builder, key *ir.Value, dt weir.DType, low, high float64, shape ...sym.Expr) *ir.Value {
	y, _ := ops.RandomUniform(b, key, dt, low, high, shape...)
	return y
}

// uniformBetween is uniform with bounds that may be operands.
func uniformBetween(b *ir.Builder, key *ir.Value, dt weir.DType, low, high number, shape ...sym.Expr) *ir.Value {
	if low.fixed() && high.fixed() {
		return uniform(b, key, dt, low.x, high.x, shape...)
	}
	return ops.RandomUniformBetween(b, key, low.as(b, weir.F64), high.as(b, weir.F64), dt, shape...)
}

// drawType returns the float type in which numbers of a type are drawn.
func drawType(dt weir.DType) weir.DType {
	if dt == weir.F64 {
		return dt
	}
	return weir.F32
}

// Uniform draws numbers of a float type from the uniform distribution on [low, high).
func (s *Scope) Uniform(k Random, dt weir.DType, low, high float64, shape ...int) *Array {
	return s.drawn("uniform", k, dt, shape, []float64{low, high},
		func(c calc, key *ir.Value, shape []sym.Expr, numbers []number) *ir.Value {
			return uniformBetween(c.b, key, drawType(dt), numbers[0], numbers[1], shape...)
		})
}

// Normal draws numbers of a float type from the normal distribution with a mean and a standard deviation.
func (s *Scope) Normal(k Random, dt weir.DType, mean, deviation float64, shape ...int) *Array {
	if s.stopped() {
		return s.none(1)[0]
	}
	wide := drawType(dt)
	return s.draw("normal", k, []*Array{s.passing(wide, mean), s.passing(wide, deviation)},
		func() (operation, setBuilder, error) {
			o := operation{ints: []int{int(dt)}, settings: settings{sizes: shape}}
			return o, func(b *ir.Builder, v []*ir.Value, sizes []sym.Expr, _ []number) *ir.Value {
				c := calc{b}
				z := normal(c, v[0], wide, sizes)
				return ops.Cast(b, c.add(c.mul(z, v[2]), v[1]), dt)
			}, s.drawable(dt, shape)
		})
}

// normal draws standard normal numbers by the Box–Muller method: each from a radius and an angle.
func normal(c calc, key *ir.Value, dt weir.DType, shape []sym.Expr) *ir.Value {
	u := uniform(c.b, key, dt, 0, 1, append([]sym.Expr{sym.Const(2)}, shape...)...)
	part := func(i int64) *ir.Value {
		return ops.Reshape(c.b, ops.SliceAxis(c.b, u, 0, sym.Const(i), one), shape...)
	}
	radius := c.f(ops.Sqrt, c.mul(numeral(c.b, u, -2), c.f(ops.Log, c.sub(numeral(c.b, u, 1), part(0)))))
	return c.mul(radius, c.f(ops.Cos, c.mul(numeral(c.b, u, 2*math.Pi), part(1))))
}

// TruncatedNormal draws from the standard normal distribution, restricted to the range from low to high.
func (s *Scope) TruncatedNormal(k Random, dt weir.DType, low, high float64, shape ...int) *Array {
	list := []float64{low, high, math.Erf(low / math.Sqrt2), math.Erf(high / math.Sqrt2)}
	return s.drawn("truncated_normal", k, dt, shape, list, func(c calc, key *ir.Value, shape []sym.Expr,
		numbers []number) *ir.Value {
		u := uniformBetween(c.b, key, drawType(dt), numbers[2], numbers[3], shape...)
		z := c.mul(erfinv(c, u), numeral(c.b, u, math.Sqrt2))
		return c.g(ops.Min, c.g(ops.Max, z, numbers[0].like(c.b, u)), numbers[1].like(c.b, u))
	})
}

// Bernoulli draws bools that are true with probability p, a number or an array that is broadcast to the shape.
func (s *Scope) Bernoulli(k Random, p *Array, shape ...int) *Array {
	return s.draw("bernoulli", k, []*Array{p}, func() (operation, setBuilder, error) {
		_, err := s.extents(shape)
		if err == nil {
			err = checkBroadcast(p, shape)
		}
		o := operation{settings: settings{sizes: shape}}
		return o, func(b *ir.Builder, v []*ir.Value, sizes []sym.Expr, _ []number) *ir.Value {
			p := asFloat(b, v[1])
			dt := drawType(p.Type.DType)
			return ops.Binary(b, ops.Lt, uniform(b, v[0], dt, 0, 1, sizes...), ops.Cast(b, p, dt))
		}, err
	})
}

// RandInt draws integers of an integer type from low to high − 1.
func (s *Scope) RandInt(k Random, dt weir.DType, low, high int64, shape ...int) *Array {
	return s.draw("rand_int", k, nil, func() (operation, setBuilder, error) {
		_, err := s.extents(shape)
		switch {
		case err != nil:
		case !dt.IsInt():
			err = diag.Inputf("random integers of %v", dt)
		case high <= low || high-low < 0 || high-low > 1<<53:
			err = diag.Inputf("integers from %d on, below %d: at least one is needed, and at most 2⁵³", low, high)
		case low < dt.MinInt() || high-1 > 0 && uint64(high-1) > dt.MaxInt():
			err = diag.Inputf("integers from %d on, below %d, of %v", low, high, dt)
		}
		list := []float64{float64(high - low), float64(high - low - 1), float64(low >> 32), float64(uint32(low))}
		o := operation{ints: []int{int(dt)}, settings: settings{sizes: shape, numbers: list}}
		return o, func(b *ir.Builder, v []*ir.Value, sizes []sym.Expr, numbers []number) *ir.Value {
			c := calc{b}
			u := uniformBetween(b, v[0], weir.F64, number{}, numbers[0], sizes...)
			offset := ops.Cast(b, c.g(ops.Min, c.f(ops.Floor, u), numbers[1].like(b, u)), weir.I64)
			from := integer(b, low)
			if !numbers[2].fixed() || !numbers[3].fixed() { // the halves of low
				from = c.add(c.mul(numbers[2].as(b, weir.I64), integer(b, 1<<32)), numbers[3].as(b, weir.I64))
			}
			return ops.Cast(b, c.add(offset, from), dt)
		}, err
	})
}

// integer returns a constant i64.
func integer(b *ir.Builder, x int64) *ir.Value {
	return b.Constant("c", tensor.Must(tensor.FromSlice([]int64{x})))
}

// word returns a constant u64.
func word(b *ir.Builder, x uint64) *ir.Value {
	return b.Constant("c", tensor.Must(tensor.FromSlice([]uint64{x})))
}

// Permutation returns 0, 1, … n − 1 in random order, i64.
func (s *Scope) Permutation(k Random, n int) *Array {
	return s.draw("permutation", k, nil, func() (operation, setBuilder, error) {
		_, err := s.extents([]int{n})
		o := operation{settings: settings{sizes: []int{n}}}
		return o, func(b *ir.Builder, v []*ir.Value, sizes []sym.Expr, _ []number) *ir.Value {
			return permutation(b, v[0], sizes[0])
		}, err
	})
}

// permutation builds Permutation.
func permutation(b *ir.Builder, key *ir.Value, n sym.Expr) *ir.Value {
	_, order := ops.TopK(b, uniform(b, key, weir.F64, 0, 1, n), n, 0, false)
	return order
}

// Shuffle puts the slices along an axis in random order.
func (s *Scope) Shuffle(k Random, x *Array, axis int) *Array {
	return s.draw("shuffle", k, []*Array{x}, func() (operation, setBuilder, error) {
		i, err := axisOf(x, axis)
		return operation{ints: []int{int(i)}}, func(b *ir.Builder, v []*ir.Value, _ []sym.Expr, _ []number) *ir.Value {
			return ops.Gather(b, v[1], permutation(b, v[0], v[1].Type.Shape[i]), i)
		}, err
	})
}

// Categorical draws one class, i64, for each row of logits along the last axis, with the probabilities of the row's
// softmax. A class with logit −∞ is never drawn.
func (s *Scope) Categorical(k Random, logits *Array) *Array {
	return s.draw("categorical", k, []*Array{logits}, func() (operation, setBuilder, error) {
		if len(logits.shape) == 0 {
			return operation{}, nil, diag.Inputf("logits %v without an axis of classes", logits)
		}
		return operation{}, func(b *ir.Builder, v []*ir.Value, _ []sym.Expr, _ []number) *ir.Value {
			c, x := calc{b}, asFloat(b, v[1])
			x = ops.Cast(b, x, drawType(x.Type.DType))
			u := c.sub(numeral(b, x, 1), uniform(b, v[0], x.Type.DType, 0, 1, x.Type.Shape...)) // from (0, 1]
			tiny := numeral(b, x, 1e-30)
			noise := c.f(ops.Log, c.g(ops.Max, c.f(ops.Neg, c.f(ops.Log, u)), tiny))
			return ops.ArgMax(b, c.sub(x, noise), int64(len(logits.shape)-1), false, false, false)
		}, nil
	})
}

// Dropout sets elements of x, floats, to 0 with probability rate, and divides the others by 1 − rate.
func (s *Scope) Dropout(k Random, x *Array, rate float64) *Array {
	if s.stopped() {
		return s.none(1)[0]
	}
	keep := 1.0
	if rate < 1 {
		keep = 1 / (1 - rate)
	}
	return s.draw("dropout", k, []*Array{x, s.passing(weir.F32, rate), s.passing(weir.F64, keep)},
		func() (operation, setBuilder, error) {
			var err error
			if rate < 0 || rate >= 1 || rate != rate {
				err = diag.Inputf("a rate of %v; it is at least 0 and below 1", rate)
			}
			return operation{}, func(b *ir.Builder, v []*ir.Value, _ []sym.Expr, _ []number) *ir.Value {
				c, x := calc{b}, asFloat(b, v[1])
				u := uniform(b, v[0], weir.F32, 0, 1, x.Type.Shape...)
				kept := c.g(ops.Ge, u, v[2])
				return c.where(kept, c.mul(x, ops.Cast(b, v[3], x.Type.DType)), numeral(b, x, 0))
			}, err
		})
}

// SplitKey returns n keys, arrays of u64[2], derived from a key. For a key made by Scope.Key they equal Key.Split's.
func (s *Scope) SplitKey(k Random, n int) []*Array {
	if s.stopped() || k == nil || n < 1 || n > mostKeys {
		if !s.stopped() {
			s.failAt("split_key", diag.Inputf("%d keys of %v: 1 to %d can be made at once", n, k, mostKeys))
		}
		return s.none(min(max(n, 0), mostKeys))
	}
	key, own := k.key(s)
	if own {
		defer key.Close()
	}
	if !s.ready("split_key", []*Array{key}) {
		return s.none(n)
	}
	return s.many(operation{name: "split_key", ints: []int{n}, build: func(b *ir.Builder, v []*ir.Value) []*ir.Value {
		if t := v[0].Type; t.DType != weir.U64 || len(t.Shape) != 1 {
			b.Failf("a key of %v, it is u64[2]", t)
		}
		return splitKey(calc{b}, v[0], n)
	}}, n, key)
}

// mostKeys is the maximum number of keys of SplitKey: each adds code to the program.
const mostKeys = 1 << 12

// splitKey mixes a key as Key.Split does; the number of the draw is mixed in too.
func splitKey(c calc, key *ir.Value, n int) []*ir.Value {
	half := func(i int64) *ir.Value { return ops.SliceAxis(c.b, key, 0, sym.Const(i), one) }
	mix := func(z *ir.Value) *ir.Value {
		for _, r := range []struct{ shift, factor uint64 }{{30, mixFirst}, {27, mixLast}} {
			z = c.mul(c.g(ops.Xor, z, c.g(ops.Shr, z, word(c.b, r.shift))), word(c.b, r.factor))
		}
		return c.g(ops.Xor, z, c.g(ops.Shr, z, word(c.b, 31)))
	}
	seed := c.add(mix(half(0)), c.mul(half(1), word(c.b, mixFirst)))
	zero := ops.Expand(c.b, word(c.b, 0), one)
	out := make([]*ir.Value, n)
	for i := range out {
		out[i] = ops.Concat(c.b, 0, mix(c.add(seed, word(c.b, uint64(i+1)*golden))), zero)
	}
	return out
}

// NextKey returns the key of the next draw. A compiled step returns it as the new value of its key.
func (s *Scope) NextKey(k *Array) *Array {
	return s.op("next_key", nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		one := b.Constant("c", tensor.Must(tensor.FromSlice([]uint64{0, 1}, 2)))
		return ops.Binary(b, ops.Add, v[0], one)
	}, k)
}
