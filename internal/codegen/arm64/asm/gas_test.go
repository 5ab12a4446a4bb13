package asm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/codegen/codetest"
)

// everything is what GNU as is told of a processor with all features of this package.
const everything = "armv8.2-a+fp16+dotprod+i8mm+bf16"

// assembler returns the path of GNU as for AArch64. It skips the test if there is none.
func assembler(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"aarch64-linux-gnu-as", "as"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, err := exec.Command(program, "--version").Output()
		if err == nil && bytes.Contains(version, []byte("aarch64")) {
			return program
		}
	}
	t.Skip("GNU as for AArch64, which encodings are compared with, is not installed " +
		"(Debian: binutils-aarch64-linux-gnu)")
	return ""
}

// assemble runs GNU as for a processor on a text, and returns the object file and what as says.
func assemble(t testing.TB, processor, source string) (object string, out []byte, err error) {
	t.Helper()
	return codetest.Assemble(t, source, assembler(t), "-march="+processor)
}

// gas assembles a text per instruction and returns the bytes of each.
func gas(t testing.TB, texts []string) [][]byte {
	t.Helper()
	return codetest.Assembled(t, texts, ".text\n", assembler(t), "-march="+everything)
}

// encoding returns the bytes that Code makes of one instruction.
func encoding(t testing.TB, i Inst) []byte {
	t.Helper()
	var c Code
	c.Emit(i)
	b, err := c.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGas compares every form with GNU as, on random operands, in all its shapes.
func TestGas(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var insts []Inst
	used, seen := map[*form]int{}, map[*form]uint32{}
	count := 60
	if testing.Short() {
		count = 12
	}
	for _, f := range allForms() {
		if f.distant() {
			continue
		}
		for n := 0; n < count || seen[f] != f.shapes; n++ {
			i := randomInst(random, f)
			seen[f] |= f.shapes & bit(i.Shape)
			if find(&i) == nil {
				t.Fatalf("no form: %s", i.unknown())
			}
			used[find(&i)]++
			insts = append(insts, i)
		}
	}
	for _, f := range allForms() {
		if used[f] == 0 && !f.distant() {
			t.Errorf("a form of %s is never chosen: %+v", f.op, *f)
		}
	}
	compare(t, insts)
}

// FuzzGas compares instructions that the seed draws with GNU as.
func FuzzGas(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		all := slices.DeleteFunc(allForms(), (*form).distant)
		var insts []Inst
		for range 2000 {
			insts = append(insts, randomInst(random, all[random.IntN(len(all))]))
		}
		compare(t, insts)
	})
}

// TestNeeds checks the features of every form: GNU as takes exactly those that need none for a processor without any.
func TestNeeds(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var source strings.Builder
	var insts []Inst
	for _, f := range allForms() {
		if f.distant() {
			continue
		}
		for range 8 {
			i := randomInst(random, f)
			insts = append(insts, i)
			fmt.Fprintln(&source, i)
		}
	}
	_, out, _ := assemble(t, "armv8-a", source.String())
	refused := map[int]bool{}
	for line := range strings.Lines(string(out)) {
		var at int
		if _, err := fmt.Sscanf(line, "{standard input}:%d: Error: selected processor does not support", &at); err == nil {
			refused[at-1] = true
		} else if strings.Contains(line, "Error") {
			t.Error(line)
		}
	}
	for n, i := range insts {
		if has := i.Features() != 0; has != refused[n] {
			t.Errorf("%s: needs features: %t, GNU as: %t", i, has, refused[n])
		}
	}
	for _, test := range []struct {
		inst Inst
		want Features
	}{
		{Inst{Op: SDOT, Shape: S4, Args: [6]Reg{V(0), V(1), V(2)}}, DotProducts},
		{Inst{Op: USDOT, Shape: S4, Args: [6]Reg{V(0), V(1), V(2)}}, Int8Matrix},
		{Inst{Op: SMMLA, Shape: S4, Args: [6]Reg{V(0), V(1), V(2)}}, Int8Matrix},
		{Inst{Op: BFMMLA, Shape: S4, Args: [6]Reg{V(0), V(1), V(2)}}, BFloat16},
		{Inst{Op: FADD, Shape: H, Args: [6]Reg{V(0), V(1), V(2)}}, Float16},
		{Inst{Op: FADD, Shape: S, Args: [6]Reg{V(0), V(1), V(2)}}, 0},
		{Inst{Op: FCVTZS, Shape: W32, From: H, Args: [6]Reg{X(0), V(1)}}, Float16},
	} {
		if have := test.inst.Features(); have != test.want {
			t.Errorf("%s: %b, want %b", test.inst, have, test.want)
		}
	}
}

// allForms returns the table's forms, in its order.
func allForms() []*form {
	var all []*form
	for o := range Op(len(offsets)) {
		rows := table.Forms(int(o))
		for n := range rows {
			all = append(all, &rows[n])
		}
	}
	return all
}

// distant reports whether the form has a distance in the code, for which TestCode is.
func (f *form) distant() bool { return f.count > 0 && f.operands[f.count-1].kind.reach > 0 }

func compare(t testing.TB, insts []Inst) {
	t.Helper()
	texts := make([]string, len(insts))
	for n, i := range insts {
		texts[n] = i.String()
	}
	wants := gas(t, texts)
	wrong := 0
	for n, want := range wants {
		if have := encoding(t, insts[n]); !bytes.Equal(have, want) {
			if wrong++; wrong < 40 {
				t.Errorf("%s: %08x, GNU as: %08x", texts[n], binary.LittleEndian.Uint32(have), binary.LittleEndian.Uint32(want))
			}
		}
	}
	t.Logf("%d instructions compared, %d wrong", len(insts), wrong)
}

// pick draws one of a set of shapes.
func pick(random *rand.Rand, set uint32) Shape {
	if set == 0 {
		return NoShape
	}
	for {
		if s := Shape(random.IntN(32)); set&bit(s) != 0 {
			return s
		}
	}
}

// names are the names of kinds.
var names = func() map[*kind]string {
	all := map[*kind]string{}
	for name, k := range kinds {
		all[k] = name
	}
	return all
}()

// randomInst draws operands that a form takes, and that no form before it takes.
func randomInst(random *rand.Rand, f *form) Inst {
	for range 10_000 {
		i := Inst{Op: f.op, Shape: pick(random, f.shapes), From: pick(random, f.from)}
		at := 0
		for n := range int(f.count) {
			o := &f.operands[n]
			switch name := names[o.kind]; o.kind.class {
			case General:
				i.Args[at] = X(random.IntN(32))
				if name == "sp" && (i.Args[at] == ZR || random.IntN(16) == 0) {
					i.Args[at] = SP
				}
			case Vector:
				i.Args[at] = V(random.IntN(32))
				if o.place == 'L' {
					i.Args[at] = V((i.Args[at-1].Number() + 1) % 32)
				}
				drawLane(random, &i, o, name)
			case classes:
				i.Args[at], i.Mem = Memory, randomMem(random, &i, o)
			case NoClass:
				draw, ok := draws[name]
				if !ok {
					panic("no draw of " + name)
				}
				draw(random, &i)
			}
			if o.kind.class != NoClass {
				at++
			}
		}
		if find(&i) == f {
			return i
		}
	}
	panic(fmt.Sprintf("no operands were drawn that only this form of %s takes: %+v", f.op, *f))
}

// drawLane draws the index of an element, and a low register if only such can be named.
func drawLane(random *rand.Rand, i *Inst, o *operand, name string) {
	switch name {
	case "elem", "any", "lane":
		i.Lane = uint8(random.IntN(16 >> layouts[o.element(i)].log))
	case "quad", "duo":
		i.Lane = uint8(random.IntN(4))
	}
}

// draws draw immediates of each kind.
var draws = map[string]func(random *rand.Rand, i *Inst){
	"#add": func(r *rand.Rand, i *Inst) { i.Imm = r.Int64N(1<<12) << (12 * r.IntN(2)) },
	"#bits": func(r *rand.Rand, i *Inst) {
		size := 2 << r.IntN(6)
		if i.Shape == W32 {
			size = min(size, 32)
		}
		ones := 1 + r.IntN(size-1)
		value := uint64(1)<<ones - 1
		for s := size; s < 64; s *= 2 {
			value |= value << s
		}
		value = bits.RotateLeft64(value, r.IntN(64))
		if i.Imm = int64(value); i.Shape == W32 {
			i.Imm = int64(uint32(value))
		}
	},
	"#wide":   func(r *rand.Rand, i *Inst) { i.Imm, i.Lane = r.Int64N(1<<16), uint8(r.IntN(i.Shape.Bits()/16)) },
	"#shift":  drawInWidth,
	"#lsl":    drawInWidth,
	"#lsr":    drawInWidth,
	"#small":  func(r *rand.Rand, i *Inst) { i.Imm, i.Lane = r.Int64N(32), uint8(r.IntN(16)) },
	"#flags":  func(r *rand.Rand, i *Inst) { i.Lane = uint8(r.IntN(16)) },
	"#if":     func(r *rand.Rand, i *Inst) { i.If = Condition(r.IntN(15)) },
	"#udf":    func(r *rand.Rand, i *Inst) { i.Imm = r.Int64N(1 << 16) },
	"#hint":   func(r *rand.Rand, i *Inst) { i.Imm = r.Int64N(32) },
	"#byte":   func(r *rand.Rand, i *Inst) { i.Imm = r.Int64N(256) },
	"#mask16": func(r *rand.Rand, i *Inst) { i.Imm = r.Int64N(256) << (8 * r.IntN(2)) },
	"#mask32": func(r *rand.Rand, i *Inst) { i.Imm = r.Int64N(256) << (8 * r.IntN(4)) },
	"#bytes": func(r *rand.Rand, i *Inst) {
		for range 8 {
			i.Imm = i.Imm<<8 | 255*r.Int64N(2)
		}
	},
	"#float":  drawFloat,
	"#floats": drawFloat,
	"#left":   func(r *rand.Rand, i *Inst) { i.Imm = r.Int64N(int64(i.Shape.Bits())) },
	"#right":  func(r *rand.Rand, i *Inst) { i.Imm = 1 + r.Int64N(int64(i.Shape.Bits())) },
	"#whole":  func(_ *rand.Rand, i *Inst) { i.Imm = int64(i.Shape.Bits()) },
	"#from":   func(r *rand.Rand, i *Inst) { i.Imm = r.Int64N(int64(i.Shape.Bytes())) },
	"#0":      func(*rand.Rand, *Inst) {},
	"#0.0":    func(*rand.Rand, *Inst) {},
}

func drawInWidth(r *rand.Rand, i *Inst) { i.Imm = r.Int64N(int64(i.Shape.Bits())) }

func drawFloat(r *rand.Rand, i *Inst) {
	value := float64(16+r.IntN(16)) / 16 * math.Ldexp(1, r.IntN(8)-3)
	if r.IntN(2) == 0 {
		value = -value
	}
	i.Imm = int64(math.Float64bits(value))
}

// randomMem draws an address of the kind.
func randomMem(random *rand.Rand, i *Inst, o *operand) Mem {
	m := Mem{Base: X(random.IntN(31))}
	if random.IntN(16) == 0 {
		m.Base = SP
	}
	if name := names[o.kind]; name != "m" && name != "prefetch" {
		return m
	}
	bytes := int32(o.bytes(i))
	switch random.IntN(3) {
	case 0:
		m.Disp = random.Int32N(1<<12) * bytes
	case 1:
		m.Disp = random.Int32N(512) - 256
	case 2:
		m.Index, m.Scale = X(random.IntN(32)), uint8(bytes)
		if random.IntN(2) == 0 {
			m.Scale = 1
		}
	}
	return m
}

// TestNames checks that every kind of operand is used, and drawn by tests.
func TestNames(t *testing.T) {
	used := map[string]bool{}
	for _, f := range allForms() {
		for n := range int(f.count) {
			used[names[f.operands[n].kind]] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		if !used[name] {
			t.Errorf("no form has an operand %s", name)
		}
	}
}
