package compiler

import (
	"fmt"
	"hash/fnv"
	"os"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// pretend returns a machine with memory of its own that refuses some kernels, which depend on the seed.
func pretend(t *testing.T, seed int) target.Machine {
	const name = "pretend"
	generators[name] = generators[target.PortableName]
	refusals[name] = func(k *loop.Kernel, _ *loop.Module, _ target.Machine) ([]sym.Cond, error) {
		h := fnv.New32()
		fmt.Fprint(h, k.Name, seed)
		if h.Sum32()%3 == 0 && seed > 0 {
			return nil, diag.Unsupportedf("a kernel whose name begins with %q", k.Name[:1])
		}
		return nil, nil
	}
	t.Cleanup(func() {
		delete(generators, name)
		delete(refusals, name)
	})
	m := target.Portable(1)
	m.Name = name
	return m
}

// TestDivided compiles texts for a device with memory of its own that refuses some kernels, and runs the programs in
// program's interpreter. The interpreter finds reads of contents that the other side wrote and no copy brought, memory
// that two sides use at once, and copies that no step waits for.
func TestDivided(t *testing.T) {
	row := func(x ...float32) *tensor.Tensor { return tensor.Must(tensor.FromSlice(x, int64(len(x)))) }
	yes := tensor.Must(tensor.New(dtype.Bool))
	yes.SetInt(0, 1)
	no := tensor.Must(tensor.New(dtype.Bool))
	six := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
	for _, c := range []struct {
		name   string
		inputs []*tensor.Tensor
	}{
		{"regions", []*tensor.Tensor{six, yes}}, {"regions", []*tensor.Tensor{six, no}},
		{"state", []*tensor.Tensor{row(1, 2, 3), row(4, 5, 6), tensor.Must(tensor.FromSlice([]uint64{9, 3}, 2))}},
		{"call", []*tensor.Tensor{row(1, 2), row(3, 4, 5, 6, 7)}},
		{"growing", []*tensor.Tensor{tensor.Must(tensor.FromSlice([]int64{3})), row(1, 2), row(3, 4), row(5)}},
	} {
		source, err := os.ReadFile("../ops/testdata/proofs/" + c.name + ".weir")
		if err != nil {
			t.Fatal(err)
		}
		read := func() *ir.Module {
			m, err := ir.Parse(string(source), ir.ParseOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		want, err := ir.Evaluate(read(), c.inputs, nil)
		if err != nil {
			t.Fatal(err)
		}
		launched := 0
		for seed := range 8 {
			compiled, err := Compile(read(), Options{Machine: pretend(t, seed)})
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			for _, s := range compiled.Program.Storages {
				if s.Device != "" && s.Size.String() != "0" {
					launched++
				}
			}
			var inputs []*tensor.Tensor // states are updated where they lie
			for _, x := range c.inputs {
				inputs = append(inputs, x.Clone())
			}
			got, err := interpreter(compiled).Run(compiled.Program, inputs)
			if err != nil {
				t.Errorf("%s, seed %d: %v\n%s", c.name, seed, err, compiled.Program)
				continue
			}
			for i := range want {
				if err := tensor.Compare(got[i], want[i], 1e-6, 1e-6); err != nil {
					t.Errorf("%s, seed %d, result %d: %v\n%s", c.name, seed, i, err, compiled.Program)
				}
			}
			again, err := program.Parse(compiled.Program.String(), program.ParseOptions{})
			if err != nil || again.String() != compiled.Program.String() {
				t.Errorf("%s: the program's text is read back otherwise (%v)", c.name, err)
			}
			if text, err := loop.Parse(compiled.Loop.String(), loop.ParseOptions{}); err != nil ||
				text.String() != compiled.Loop.String() {
				t.Errorf("%s: the loops' text is read back otherwise (%v)", c.name, err)
			}
		}
		if launched == 0 {
			t.Errorf("%s: no program has anything on the device", c.name)
		}
	}
}
