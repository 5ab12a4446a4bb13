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

// machines returns the machines for which modules are checked: all profiles, and some with other features.
func machines(t testing.TB) (list []target.Machine) {
	for _, name := range append(target.Profiles(), "desktop,keeps-special,keeps-subnormal,fused",
		"desktop,shuffle", "mobile,shuffle,keeps-special", "gfx942,shuffle", "desktop,shuffle,subgroup=8",
		"mobile,-storage8,-int8,-storage16,-int16") {
		m, err := target.ParseLimits(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// compileFor compiles a kernel, with dimensions of at most 1024; nil if the machine cannot run it. Refuses must agree.
func compileFor(t testing.TB, k *loop.Kernel, machine target.Machine) *target.Binary {
	t.Helper()
	m := &loop.Module{Kernels: []*loop.Kernel{k}, Dims: sym.NewDims()}
	for _, name := range k.Dims {
		m.Dims.Set(name, sym.Range{Max: 1 << 10})
	}
	code, err := Compile(m, machine)
	_, refused := Refuses(k, m, machine)
	if (err == nil) != (refused == nil) {
		t.Fatalf("Compile returns %v, and Refuses %v\n%s", err, refused, k)
	}
	if errors.Is(err, diag.ErrUnsupported) {
		return nil
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, k)
	}
	return code.Kernels[0].(target.Blocks).Binary()
}

// TestModules compiles a sample of the kernels of kerneltest's suites, for one machine after another, and validates the
// modules with Khronos's tools. The kernels themselves run as portable code.
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

// TestSharedBytes compiles kernels of blocks for every machine: a module's variables of shared memory must have as many
// bytes as its entries report, within the limits.
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
					t.Errorf("@%s has blocks of %d threads and %d bytes, and the limits are %+v", k.Name, e.Threads, e.Shared,
						machine.Limits)
				}
			}
			if got := workgroupBytes(b.Words); got != want {
				t.Errorf("@%s shares %d bytes, and reports %d, for %v", k.Name, got, want, machine.Features)
			}
		}
	}
}

// workgroupBytes returns the size of a module's variables of shared memory, by the types that its words declare.
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
