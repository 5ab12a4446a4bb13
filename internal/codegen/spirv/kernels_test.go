package spirv

import (
	"errors"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/portable"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// machines are those that modules are checked for: all profiles, with bounded dimensions where integers have 32 bits.
func machines(t testing.TB) (list []target.Machine) {
	for _, name := range append(target.Profiles(), "desktop,keeps-special,keeps-subnormal,fused",
		"mobile,-storage8,-int8,-storage16,-int16") {
		m, err := target.ParseLimits(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// compileFor compiles a kernel for a machine; nil if that refuses it.
func compileFor(t testing.TB, k *loop.Kernel, machine target.Machine) *target.Binary {
	t.Helper()
	m := &loop.Module{Kernels: []*loop.Kernel{k}, Dims: sym.NewDims()}
	for _, name := range k.Dims {
		m.Dims.Set(name, sym.Range{Max: 1 << 10})
	}
	code, err := Compile(m, machine)
	refused := Refuses(k, m, machine)
	if (err == nil) != (refused == nil) {
		t.Fatalf("compiling says %v, and asking %v\n%s", err, refused, k)
	}
	if errors.Is(err, diag.ErrUnsupported) {
		return nil
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, k)
	}
	return code.Kernels[0].(target.Blocks).Binary()
}

// TestModules has Khronos's tools look at a part of the modules of the suites, for one machine after another, and
// computes the kernels portably.
func TestModules(t *testing.T) {
	list, asked, checked, refused := machines(t), 0, 0, 0
	h := kerneltest.Harness{Machine: target.Portable(1),
		Compile: func(m *loop.Module, machine target.Machine) (*target.Code, error) {
			if b := compileFor(t, m.Kernels[0], list[checked%len(list)]); b != nil {
				validate(t, b.Words)
			} else {
				refused++
			}
			checked++
			return portable.Compile(m, target.Portable(1))
		}}
	every := 0
	h.Take = func() bool { asked++; return asked%every < 2 }
	for _, c := range []struct {
		suite func(h kerneltest.Harness, t *testing.T)
		every int
	}{
		{kerneltest.Harness.Functions, 151}, {kerneltest.Harness.Conversions, 31}, {kerneltest.Harness.Specials, 501},
		{kerneltest.Harness.Quantisations, 17},
		{kerneltest.Harness.FewBits, 17}, {kerneltest.Harness.Checks, 1}, {kerneltest.Harness.Contractions, 61},
		{kerneltest.Harness.Divisions, 17},
		{kerneltest.Harness.Lanes, 61}, {kerneltest.Harness.Borders, 17},
	} {
		every = c.every
		c.suite(h, t)
	}
	for seed := range int64(20) {
		every = 1
		h.Random(t, seed, false)
	}
	t.Logf("%d modules, %d refused", checked, refused)
}

// TestSharedBytes checks kernels of blocks, for every machine, and that a module's shared memory is what its entries
// say.
func TestSharedBytes(t *testing.T) {
	for _, k := range kerneltest.BlockKernels(t) {
		for _, machine := range machines(t) {
			b := compileFor(t, k.Kernel, machine)
			if b == nil {
				continue
			}
			validate(t, b.Words)
			want := int64(0)
			for _, e := range b.Entries {
				want += e.Shared
				if e.Threads < 1 || e.Threads > machine.Limits.Invocations || e.Shared > machine.Limits.Shared {
					t.Errorf("@%s has blocks of %d threads and %d bytes for limits %+v", k.Name, e.Threads, e.Shared, machine.Limits)
				}
			}
			if got := workgroupBytes(b.Words); got != want {
				t.Errorf("@%s shares %d bytes, and says %d, for %v", k.Name, got, want, machine.Features)
			}
		}
	}
}

// workgroupBytes adds up a module's variables of workgroup memory, by the types that the words declare.
func workgroupBytes(words []uint32) (total int64) {
	size, constants := map[uint32]int64{}, map[uint32]int64{}
	for rest := words[5:]; len(rest) > 0; rest = rest[rest[0]>>16:] {
		switch opcode(rest[0]) {
		case opTypeInt, opTypeFloat:
			size[rest[1]] = int64(rest[2] / 8)
		case opTypeVector:
			size[rest[1]] = size[rest[2]] * int64(rest[3])
		case opTypeArray:
			size[rest[1]] = size[rest[2]] * constants[rest[3]]
		case opTypePointer:
			size[rest[1]] = size[rest[3]]
		case opConstant:
			constants[rest[2]] = int64(rest[3])
		case opVariable:
			if rest[3] == storageClassWorkgroup {
				total += size[rest[1]]
			}
		}
	}
	return total
}
