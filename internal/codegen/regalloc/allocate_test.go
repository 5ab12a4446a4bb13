package regalloc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// inst is an instruction of a small machine that exists only here: op a, b, c with a number, a label or an address.
type inst struct {
	op   string
	args [3]Reg
	imm  int64
	at   Mem
	to   Label
}

// machine has a number of registers in each class. With folds, the last operand of an addition may lie in memory.
type machine struct {
	registers int
	folds     bool
}

func register(c Class, n int) Reg { return Reg(c)<<ClassShift + Reg(n) }

const memory = Reg(Classes) << ClassShift // among the operands

var frame = register(General, 100)

func (m *machine) Frame() Reg { return frame }

func (m *machine) Bank(c Class) Bank {
	b := Bank{Bytes: 8}
	for n := range m.registers {
		b.Free = append(b.Free, register(c, n))
	}
	b.Temporaries = slices.Clone(b.Free[m.registers-3:])
	if c == General { // besides those that values may have
		b.Temporaries = []Reg{register(c, 50), register(c, 51), register(c, 52)}
	}
	return b
}

func (m *machine) Flow(in *inst) (Flow, Label) {
	switch in.op {
	case "label":
		return Binds, in.to
	case "less":
		return Branches, in.to
	case "jump":
		return Jumps, in.to
	case "end":
		return Ends, 0
	case "spoil":
		return Spoils, 0
	}
	return Next, 0
}

// roles are what the operations do to their operands.
var roles = map[string][3]Role{
	"set": {Write}, "move": {Write, Read}, "add": {Write, Read, Read}, "more": {ReadWrite, Read}, "early": {Write, Read},
	"less": {Read, Read}, "out": {Read}, "load": {Write}, "store": {Read},
}

func (m *machine) Visit(in *inst, do func(r *Reg, role Role)) {
	for n, role := range roles[in.op] {
		if role != 0 && in.args[n] != memory {
			do(&in.args[n], role)
		}
	}
}

func (m *machine) Move(in *inst) (to, from Reg, ok bool) {
	return in.args[0], in.args[1], in.op == "move"
}

func (m *machine) Overlaps(in *inst) bool { return in.op == "early" }

func (m *machine) Fold(in *inst, place func(r Reg) (Mem, bool)) {
	named := slices.Contains(in.args[:2], in.args[2])
	if at, ok := place(in.args[2]); ok && m.folds && in.op == "add" && !named {
		in.args[2], in.at = memory, at
	}
}

func (m *machine) Load(r Reg, from Mem) inst { return inst{op: "load", args: [3]Reg{r}, at: from} }
func (m *machine) Store(to Mem, r Reg) inst  { return inst{op: "store", args: [3]Reg{r}, at: to} }
func (m *machine) Text(in *inst) string      { return fmt.Sprintf("%+v", *in) }

// run interprets instructions and returns what they put out. pool has the constants; given has registers' first values.
func run(t *testing.T, insts []inst, pool []int64, given map[Reg]int64) (out []int64) {
	t.Helper()
	registers, words := map[Reg]int64{}, map[int32]int64{}
	for r, v := range given {
		registers[r] = v
	}
	read := func(at Mem) int64 {
		if at.Pool != 0 {
			return pool[at.Pool-1]
		}
		if at.Base != frame {
			t.Fatalf("an address outside the frame: %+v", at)
		}
		return words[at.Disp]
	}
	labels := map[Label]int{}
	for i, in := range insts {
		if in.op == "label" {
			labels[in.to] = i
		}
	}
	for i, steps := 0, 0; i < len(insts); i, steps = i+1, steps+1 {
		if steps > 1<<16 {
			t.Fatal("the program does not end")
		}
		in := insts[i]
		value := func(n int) int64 {
			if in.args[n] == memory {
				return read(in.at)
			}
			return registers[in.args[n]]
		}
		switch in.op {
		case "set":
			registers[in.args[0]] = in.imm
		case "move":
			registers[in.args[0]] = value(1)
		case "add":
			registers[in.args[0]] = value(1)*3 + value(2)
		case "more":
			registers[in.args[0]] = value(0)*5 + value(1)
		case "early":
			registers[in.args[0]] = -1
			registers[in.args[0]] = value(1) + 7
		case "less":
			if value(0) < value(1) {
				i = labels[in.to]
			}
		case "jump":
			i = labels[in.to]
		case "out":
			out = append(out, value(0))
		case "load":
			registers[in.args[0]] = read(in.at)
		case "store":
			words[in.at.Disp] = value(0)
		case "spoil":
			for r := range registers {
				if r.Class() == Vector && !r.Virtual() {
					registers[r] = -12345
				}
			}
		case "end":
			return out
		}
	}
	t.Fatal("the program runs past its end")
	return nil
}

// program is a random program under construction.
type program struct {
	Routine[inst]
	random *rand.Rand
	values [Classes][]Reg
	label  Label
	pool   []int64
}

func (p *program) any(c Class) Reg { return p.values[c][p.random.IntN(len(p.values[c]))] }

// body emits random instructions, with loops and branches inside one another.
func (p *program) body(depth int) {
	for range 1 + p.random.IntN(6) {
		c := General + Class(p.random.IntN(int(Classes-General)))
		a, b, x := p.any(c), p.any(c), p.any(c)
		switch p.random.IntN(9) {
		case 0:
			p.Emit(inst{op: "set", args: [3]Reg{a}, imm: p.random.Int64N(100)})
		case 1:
			p.Emit(inst{op: "move", args: [3]Reg{a, b}})
		case 2:
			p.Emit(inst{op: "more", args: [3]Reg{a, b}})
		case 3:
			if a != b {
				p.Emit(inst{op: "early", args: [3]Reg{a, b}})
			}
		case 4:
			p.Emit(inst{op: "out", args: [3]Reg{a}})
		case 5:
			p.Emit(inst{op: "spoil"})
		case 6:
			if depth > 0 {
				p.loop(depth)
			}
		case 7:
			if depth > 0 {
				p.branch(depth, a, b)
			}
		default:
			p.Emit(inst{op: "add", args: [3]Reg{a, b, x}})
		}
	}
}

func (p *program) loop(depth int) {
	i, n, one := p.Register(General), p.Register(General), p.Register(General)
	p.label++
	again := p.label
	p.Emit(inst{op: "set", args: [3]Reg{i}, imm: 0})
	p.Emit(inst{op: "set", args: [3]Reg{n}, imm: 3})
	p.Emit(inst{op: "label", to: again})
	p.body(depth - 1)
	p.Emit(inst{op: "set", args: [3]Reg{one}, imm: 1})
	p.Emit(inst{op: "add", args: [3]Reg{i, i, one}})
	p.Emit(inst{op: "less", args: [3]Reg{i, n}, to: again})
}

func (p *program) branch(depth int, a, b Reg) {
	p.label += 2
	over, done := p.label-1, p.label
	p.Emit(inst{op: "less", args: [3]Reg{a, b}, to: over})
	p.body(depth - 1)
	p.Emit(inst{op: "jump", to: done})
	p.Emit(inst{op: "label", to: over})
	p.body(depth - 1)
	p.Emit(inst{op: "label", to: done})
}

// TestAllocate runs random programs over virtual registers, and with registers of machines with many and with few of
// them: their results must be the same.
func TestAllocate(t *testing.T) {
	work := &Workspace[inst]{}
	spilled := 0
	for seed := range uint64(400) {
		p := &program{Routine: work.Routine(), random: rand.New(rand.NewPCG(seed, 1))}
		given := map[Reg]int64{}
		for c := General; c < Classes; c++ {
			for range 2 + p.random.IntN(8) {
				r := p.Register(c)
				p.Emit(inst{op: "set", args: [3]Reg{r}, imm: p.random.Int64N(100)})
				p.values[c] = append(p.values[c], r)
			}
		}
		var constants []Reg
		for range p.random.IntN(4) {
			r := p.Register(Vector)
			p.pool = append(p.pool, p.random.Int64N(100))
			p.Constants[r], given[r] = int32(len(p.pool)), p.pool[len(p.pool)-1]
			constants = append(constants, r)
		}
		p.body(3)
		for _, r := range constants {
			p.Emit(inst{op: "add", args: [3]Reg{p.values[Vector][0], p.values[Vector][0], r}})
		}
		for c := General; c < Classes; c++ {
			for _, r := range p.values[c] {
				p.Emit(inst{op: "out", args: [3]Reg{r}})
			}
		}
		p.Emit(inst{op: "end"})
		want := run(t, p.Insts, p.pool, given)
		for _, m := range []*machine{{registers: 40}, {registers: 4}, {registers: 4, folds: true}, {registers: 7}} {
			insts, end := p.Allocate(m, 64)
			if end > 64 {
				spilled++
			}
			if have := run(t, insts, p.pool, nil); !slices.Equal(have, want) {
				var text strings.Builder
				for i := range insts {
					fmt.Fprintln(&text, m.Text(&insts[i]))
				}
				t.Fatalf("seed %d, %d registers: %v, want %v\n%s", seed, m.registers, have, want, &text)
			}
			for _, in := range insts {
				m.Visit(&in, func(r *Reg, _ Role) {
					if r.Virtual() {
						t.Fatalf("seed %d: %v stays", seed, *r)
					}
				})
			}
		}
		p.Free(p.Insts)
	}
	if spilled < 400 {
		t.Errorf("only %d programs spilled values", spilled)
	}
}

// TestUnwritten checks that a register that is read before it is written is a bug that the allocator reports.
func TestUnwritten(t *testing.T) {
	work := &Workspace[inst]{}
	r := work.Routine()
	a := r.Register(General)
	r.Emit(inst{op: "out", args: [3]Reg{a}})
	r.Emit(inst{op: "end"})
	defer func() {
		if fault := fmt.Sprint(recover()); !strings.Contains(fault, "g0 is read before it is written") {
			t.Error(fault)
		}
	}()
	r.Allocate(&machine{registers: 4}, 0)
}
