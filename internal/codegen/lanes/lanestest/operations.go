package lanestest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// Operation is one operation of lanes.Vectors, as a function of two vectors.
type Operation struct {
	Name   string
	Result dtype.DType // of the result's lanes
	Emit   func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg
}

// adds adds an operation to a list.
type adds func(name string, dt dtype.DType, emit func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg)

// Operations returns the operations of a machine, whose vectors have so many lanes. An operand for which an operation
// leaves its result open is replaced by another first.
func Operations(of lanes.Machine, count int) (list []Operation) {
	add := func(name string, dt dtype.DType, emit func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg) {
		list = append(list, Operation{fmt.Sprintf("%s of %s", name, dt), dt, emit})
	}
	arithmetic(of, add)
	masks := []loop.BinaryOp{loop.And, loop.Or, loop.Xor}
	for _, op := range masks {
		add("masks' "+op.String(), dtype.I32, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
			zero := m.Repeated(dtype.I32, 0)
			mask := m.Masks(op, m.Test(loop.Gt, dtype.I32, x, zero), m.Test(loop.Gt, dtype.I32, y, zero))
			return m.Select(dtype.I32, m.MaskNot(mask), x, y)
		})
	}
	add("halves of masks, joined", dtype.I32, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
		lo, hi := m.HalfMasks(m.Test(loop.Gt, dtype.I32, x, y))
		return m.Select(dtype.I32, m.JoinMasks(hi, lo), x, y)
	})
	conversions(of, add)
	add("lanes taken", dtype.I32, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg { return m.TakeLanes(x, y) })
	if of.TakesOfTwo() {
		add("lanes of two taken", dtype.I32, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
			r := m.NewVector()
			m.TakeLanesOfTwo(r, m.Binary(loop.Add, dtype.I32, x, y), x, y)
			return r
		})
	}
	for n := 1; n < count; n *= 2 {
		add(fmt.Sprint("groups exchanged, ", n), dtype.I32, func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg {
			return m.Exchanged(x, n)
		})
	}
	for entries := 2; entries <= of.Entries(); entries *= 2 {
		table := make([]uint32, entries)
		for i := range table {
			table[i] = uint32(i*i + 7)
		}
		add(fmt.Sprint("entries of ", entries), dtype.I32, func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg {
			return m.Lookup(table, m.Binary(loop.And, dtype.I32, x, m.Repeated(dtype.I32, uint64(entries-1))))
		})
	}
	for lane := range count {
		add(fmt.Sprint("a lane's number, ", lane), dtype.I32, func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg {
			return m.Broadcast(dtype.I32, m.LaneNumber(dtype.I32, x, lane))
		})
	}
	return list
}

// signless are the operations to which the sign of a type does not matter: they are asked for by signed types.
var signless = map[loop.BinaryOp]bool{loop.Add: true, loop.Sub: true, loop.Mul: true, loop.And: true, loop.Or: true,
	loop.Xor: true, loop.Shl: true}

// arithmetic adds the operations on one type.
func arithmetic(of lanes.Machine, add adds) {
	core := []dtype.DType{dtype.I32, dtype.U32, dtype.I64, dtype.U64, dtype.F32, dtype.F64}
	for _, dt := range core {
		size, float, bits := uint64(dt.Bits()), dt.IsFloat(), dtype.I32
		if size == 64 {
			bits = dtype.I64
		}
		for op := loop.Add; op <= loop.Ge; op++ {
			switch {
			case !of.Has(op, dt), signless[op] && (dt == dtype.U32 || dt == dtype.U64):
			case op >= loop.Eq && !float:
				add(op.String(), dt, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
					return m.Select(dt, m.Test(op, dt, x, y), x, y)
				})
			case op == loop.Shl || op == loop.Shr:
				add(op.String(), dt, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg { // of counts to twice the size
					return m.Binary(op, dt, x, m.Binary(loop.And, bits, y, m.Repeated(dt, 2*size-1)))
				})
				for n := range int64(size) {
					add(fmt.Sprintf("%s by %d", op, n), dt, func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg {
						return m.ShiftBy(op, dt, x, n)
					})
				}
			case op < loop.Eq:
				add(op.String(), dt, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg { return m.Binary(op, dt, x, y) })
			}
		}
		unary := []loop.UnaryOp{loop.Neg, loop.Abs, loop.Sqrt, loop.Floor, loop.Ceil, loop.Round, loop.Trunc}
		if !float {
			unary = []loop.UnaryOp{loop.Neg, loop.BitNot}
		}
		for _, op := range unary {
			if dt == dtype.U32 || dt == dtype.U64 {
				break
			}
			add(op.String(), dt, func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg { return m.Unary(op, dt, x) })
		}
		if !float {
			continue
		}
		for p := mathematics.Equal; p <= mathematics.Greater; p++ {
			add(fmt.Sprintf("comparison %d", p), dt, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
				return m.Select(dt, m.Compare(p, dt, x, y), m.Repeated(dt, 1), m.Repeated(dt, 2))
			})
		}
		for form := lanes.ProductPlus; form <= lanes.ProductMinus; form++ {
			add(fmt.Sprintf("fused %d", form), dt, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
				return m.Fused(form, dt, x, y, m.BroadcastFirst(dt, x))
			})
		}
		add("lesser", dt, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg { return m.Lesser(dt, x, y) })
		add("greater", dt, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg { return m.Greater(dt, x, y) })
		add("product where", dt, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
			finite := m.Lesser(dt, m.Unary(loop.Abs, dt, y), m.Repeated(dt, loop.FromFloat(dt, math.MaxFloat32)))
			return m.MulWhere(dt, m.Compare(mathematics.Less, dt, x, y), x, finite)
		})
	}
}

// conversions adds the conversions of a machine.
func conversions(of lanes.Machine, add adds) {
	add("nearest integer", dtype.I32, func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg { return m.ToInt(x) })
	for from, to := range map[dtype.DType]dtype.DType{dtype.I32: dtype.F32, dtype.F32: dtype.I32, dtype.I64: dtype.F64,
		dtype.F64: dtype.I64} {
		if of.Converts(from, to) {
			add("conversion to "+to.String(), to, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
				if from.IsFloat() { // within ±1e9
					x = m.Greater(from, m.Lesser(from, x, m.Repeated(from, loop.FromFloat(from, 1e9))),
						m.Repeated(from, loop.FromFloat(from, -1e9)))
				}
				return m.Convert(from, to, x)
			})
		}
	}
	for _, c := range [][2]dtype.DType{{dtype.F32, dtype.I32}, {dtype.F64, dtype.I64}, {dtype.F64, dtype.U64}} {
		add("truncation to "+c[1].String(), c[1], func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg {
			return m.Truncated(c[0], c[1], x)
		})
	}
	add("truncation of halves", dtype.I32, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
		return m.TruncatedHalves(x, y)
	})
	add("f64 of i64", dtype.F64, func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg { return m.ToDouble(dtype.I64, x) })
	add("f64 of u64", dtype.F64, func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg { return m.ToDouble(dtype.U64, x) })
	for _, c := range [][2]dtype.DType{{dtype.F32, dtype.F64}, {dtype.I32, dtype.F64}, {dtype.I32, dtype.I64},
		{dtype.U32, dtype.I64}} {
		for _, high := range []bool{false, true} {
			add(fmt.Sprintf("%s widened, high %v", c[0], high), c[1], func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg {
				return m.Widen(c[0], c[1], x, high)
			})
		}
	}
	add("f64 narrowed", dtype.F32, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
		return m.Narrow(dtype.F64, dtype.F32, x, y)
	})
	add("i64 narrowed", dtype.I32, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
		return m.Narrow(dtype.I64, dtype.I32, x, y)
	})
	add("f64 narrowed to i32", dtype.I32, func(m lanes.Machine, x, y regalloc.Reg) regalloc.Reg {
		within := func(x regalloc.Reg) regalloc.Reg { // in −2³¹ to 2³¹
			low := m.Repeated(dtype.F64, math.Float64bits(-1<<31))
			return m.Greater(dtype.F64, m.Lesser(dtype.F64, x, m.Repeated(dtype.F64, math.Float64bits(1<<31))), low)
		}
		return m.Narrow(dtype.F64, dtype.I32, within(x), within(y))
	})
	add("f16", dtype.F32, func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg { return m.RoundF16(x) })
	add("bits of f16", dtype.I32, func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg { // of numbers
		number := m.Compare(mathematics.Equal, dtype.F32, x, x)
		return m.ToF16(m.Select(dtype.F32, number, x, m.Repeated(dtype.F32, 0)))
	})
	add("number of f16", dtype.F32, func(m lanes.Machine, x, _ regalloc.Reg) regalloc.Reg { return m.FromF16(x) })
}

// Run returns an operation's results for operands of full vectors, by the meaning of this package.
func (o Operation) Run(count int, x, y []uint32) []uint32 {
	return o.RunOn(Machine{Lanes: count, Most: true}, x, y)
}

// RunOn returns an operation's results on a machine.
func (o Operation) RunOn(of Machine, x, y []uint32) []uint32 {
	m, count := NewModel(of), of.Lanes
	a, b := m.NewVector(), m.NewVector()
	m.first, m.end = m.General(), m.General()
	result := m.NewVector()
	var out []uint32
	var in int
	m.emit(func(s *state) { copy(s.vectors[a.Number()], x[in:]); copy(s.vectors[b.Number()], y[in:]) })
	m.Assign(result, o.Emit(of.machine(m), a, b))
	m.emit(func(s *state) { out = append(out, s.vectors[result.Number()]...) })
	m.Return(0)
	m.Finish(0)
	for in = 0; in < len(x); in += count {
		m.run(nil, 0, 0, 1)
	}
	return out
}

// Operands returns numbers to try operations with: n words, or half as many numbers of 64 bits.
func Operands(seed uint64, n int) []uint32 {
	r := rand.New(rand.NewPCG(seed, 1))
	odd := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 1.5, 2.5, math.NaN(), math.Inf(1), math.Inf(-1), 1e-40,
		1 << 31, -1 << 31, 1<<31 - 1, 1 << 32, 1 << 63, -1 << 63, 1 << 64, 3e38, 1e300, 65504, 65520, 6e-8}
	words := make([]uint32, n)
	for i := 0; i < n; i += 2 {
		v := odd[r.IntN(len(odd))]
		switch r.IntN(6) {
		case 0: // f32
			words[i], words[i+1] = math.Float32bits(float32(v)), math.Float32bits(float32(r.NormFloat64()*1000))
		case 1: // f64
			words[i], words[i+1] = uint32(math.Float64bits(v)), uint32(math.Float64bits(v)>>32)
		case 2:
			bits := math.Float64bits(math.Ldexp(r.NormFloat64(), r.IntN(140)-70))
			words[i], words[i+1] = uint32(bits), uint32(bits>>32)
		case 3: // integers
			bits := uint64(r.Int64()) >> r.IntN(64) * uint64(1-2*r.IntN(2))
			words[i], words[i+1] = uint32(bits), uint32(bits>>32)
		case 4:
			words[i], words[i+1] = 1<<31-uint32(r.IntN(2)), uint32(-r.IntN(3))
		default:
			words[i], words[i+1] = r.Uint32(), r.Uint32()
		}
	}
	return words
}

// Differ returns the first word of an operation's results that differs from the wanted one; ok is false if there is
// none. Every NaN counts as equal.
func (o Operation) Differ(got, want []uint32) (at int, ok bool) {
	for i := range want {
		if got[i] == want[i] || o.Result == dtype.F32 && isNaN32(got[i]) && isNaN32(want[i]) {
			continue
		}
		if o.Result == dtype.F64 && isNaN64(got, i) && isNaN64(want, i) {
			continue
		}
		return i, true
	}
	return 0, false
}

// isNaN32 and isNaN64 report whether a word, or the two that it belongs to, is NaN.
func isNaN32(word uint32) bool { return math.IsNaN(float64(math.Float32frombits(word))) }
func isNaN64(words []uint32, i int) bool {
	return math.IsNaN(math.Float64frombits(uint64(words[i&^1]) | uint64(words[i|1])<<32))
}
