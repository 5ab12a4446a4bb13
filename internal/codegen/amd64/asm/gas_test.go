package asm

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/codegen/codetest"
)

// gas assembles a text per instruction with GNU as and returns the bytes of each. It skips the test if there is no as.
func gas(t testing.TB, texts []string) [][]byte {
	t.Helper()
	program, err := exec.LookPath("as")
	if err != nil {
		t.Skip("GNU as, which encodings are compared with, is not installed")
	}
	return codetest.Assembled(t, texts, ".intel_syntax noprefix\n.text\n", program, "--64", "-msyntax=intel",
		"-mnaked-reg", "-O0")
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

// gasText returns the instruction as GNU as is to assemble it. Of two ways to encode a move between vector registers we
// take the one that loads, and so would it if that is not a byte longer.
func gasText(i Inst) string {
	switch f := find(&i); {
	case f.prefix == legacy:
		return i.String()
	case f.features&AVXVNNI != 0: // of two encodings of one name the other is taken otherwise
		return "{vex} " + i.String()
	}
	return "{load} " + i.String()
}

// TestGas compares every form with GNU as, on random operands.
func TestGas(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var insts []Inst
	var texts []string
	const count = 12
	used := map[*form]bool{}
	for _, f := range allForms() {
		if f.op.Jumps() {
			continue
		}
		for range count {
			i := randomInst(random, f)
			if find(&i) == nil {
				t.Fatalf("no form: %s", i.unknown())
			}
			used[find(&i)] = true
			insts = append(insts, i)
			texts = append(texts, gasText(i))
		}
	}
	for _, f := range allForms() {
		if !used[f] && !f.op.Jumps() {
			t.Errorf("a form of %s is never chosen: %+v", f.op, *f)
		}
	}
	compare(t, insts, texts)
}

// FuzzGas compares instructions that the seed draws with GNU as.
func FuzzGas(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		all := allForms()
		var insts []Inst
		var texts []string
		for range 2000 {
			f := all[random.IntN(len(all))]
			if f.op.Jumps() {
				continue
			}
			insts = append(insts, randomInst(random, f))
			texts = append(texts, gasText(insts[len(insts)-1]))
		}
		compare(t, insts, texts)
	})
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

func compare(t testing.TB, insts []Inst, texts []string) {
	wants := gas(t, texts)
	wrong := 0
	for n, want := range wants {
		if have := encoding(t, insts[n]); !bytes.Equal(have, want) {
			if wrong++; wrong < 40 {
				t.Errorf("%s: %x, GNU as: %x", texts[n], have, want)
			}
		}
	}
	t.Logf("%d instructions compared, %d wrong", len(insts), wrong)
}

// randomInst draws operands that a form takes.
func randomInst(random *rand.Rand, f *form) Inst {
	i := Inst{Op: f.op}
	var widths []uint16
	for b := uint16(8); b <= 512; b *= 2 {
		if f.bits&b != 0 {
			widths = append(widths, b)
		}
	}
	if len(widths) > 0 {
		i.Bits = widths[random.IntN(len(widths))]
	}
	inMemory := f.signatures[0] != f.signatures[1] && random.IntN(2) == 0
	vectors := 16
	if f.prefix == evex {
		vectors = 32
	}
	for n := range int(f.count - f.implicit) {
		o := &f.operands[n]
		switch class := Class(f.signatures[b2i(inMemory)] >> (4 * n) & 15); {
		case o.place == 'I':
			i.Imm = randomImmediate(random, o.kind, int(i.Bits))
		case class == classes:
			i.Args[n] = Memory
			i.Mem = randomMem(random, o.index, vectors, int(i.Bits))
		case o.place == 'A':
			i.Args[n] = RAX
		case class == General:
			i.Args[n] = G(random.IntN(16))
		case class == Tile: // those of one instruction must differ
			i.Args[n] = T(3*n + random.IntN(2+n%2))
		case class == Opmask:
			i.Args[n] = K(random.IntN(8))
		default:
			i.Args[n] = V(random.IntN(vectors))
		}
	}
	if f.prefix != evex {
		return i.apart(f, 16)
	}
	if slices.Contains(i.Args[:], Memory) && f.broadcast != 0 && random.IntN(2) == 0 {
		i.Broadcast = true
	}
	if f.flags&noMask == 0 && (f.flags&gathers != 0 || random.IntN(2) == 0) {
		i.Mask = K(1 + random.IntN(7))
		i.Zero = true
		i.Zero = f.takes(&i) && random.IntN(2) == 0
	}
	return i.apart(f, 32)
}

// apart makes the vector registers of a gather distinct, as the machine demands.
func (i Inst) apart(f *form, vectors int) Inst {
	if f.flags&gathers != 0 {
		n := i.Mem.Index.Number()
		for k, r := range i.Args {
			if r.Class() == Vector {
				n = (n + 1) % vectors
				i.Args[k] = V(n)
			}
		}
	}
	return i
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// randomMem draws an address, its index a vector where the form wants one.
func randomMem(random *rand.Rand, index byte, vectors, bits int) Mem {
	m := Mem{Base: G(random.IntN(16)), Scale: 1 << random.IntN(4)}
	switch random.IntN(4) {
	case 0:
		m.Disp = int32(random.IntN(256)-128) * int32(1<<random.IntN(7))
	case 1:
		m.Disp = int32(random.Uint32())
	case 2:
		m.Disp = int32(random.IntN(300) - 150)
	}
	switch {
	case index == 'v' || index == 'h':
		m.Index = V(random.IntN(vectors))
	case index == 'l' || random.IntN(2) == 0:
		for m.Index = RSP; m.Index == RSP; {
			m.Index = G(random.IntN(16))
		}
	}
	if m.Index != NoReg && random.IntN(6) == 0 {
		m.Base = NoReg
		m.Scale = 1 << (1 + random.IntN(3))
	}
	return m
}

func randomImmediate(random *rand.Rand, kind byte, bits int) int64 {
	switch kind {
	case '1':
		return 1
	case '8':
		return int64(random.IntN(256))
	case 's':
		return int64(int8(random.Uint32()))
	case 'z':
		return int64(int32(random.Uint32())) >> max(0, 32-bits)
	}
	return int64(random.Uint64())
}
