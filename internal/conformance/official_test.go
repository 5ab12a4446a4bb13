package conformance

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// official is the folder onnx/backend/test/data of the Python package onnx, which is not part of this repository.
func official(t *testing.T) string {
	data := os.Getenv("WEIR_ONNX_DATA")
	if data == "" {
		t.Skip("WEIR_ONNX_DATA is not set: it names the folder onnx/backend/test/data of the Python package onnx, which is not part of this repository")
	}
	return data
}

// knownFaults are the official cases that fail or take other memory than predicted, by a prefix of their names, and why. A case that ends well takes
// its row away.
var knownFaults = map[string]string{
	"test_constantofshape_": "sizes that are inputs of the model, with a bound that memory does not hold",
}

func knownFault(name string) (prefix string, ok bool) {
	for p := range knownFaults {
		if strings.HasPrefix(name, p) && len(p) > len(prefix) {
			prefix, ok = p, true
		}
	}
	return prefix, ok
}

// TestOfficial runs ONNX's own cases of single operators and small graphs. What is not supported is refused, and counted by operator.
func TestOfficial(t *testing.T) {
	data := official(t)
	var dirs []string
	for _, kind := range []string{"node", "simple", "pytorch-operator", "pytorch-converted"} {
		dirs = append(dirs, filepath.Join(data, kind))
	}
	cases, err := Find(dirs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		cases[i].Measure = true
	}
	count, exact, bounded := map[Verdict]int{}, 0, 0
	met := map[string]bool{}
	byOp := map[string]map[Verdict]int{}
	for _, r := range runAll(t, cases, weir.Options{Target: weir.Portable}) {
		count[r.Verdict]++
		for _, op := range r.Ops {
			if byOp[op] == nil {
				byOp[op] = map[Verdict]int{}
			}
			byOp[op][r.Verdict]++
		}
		fault := memoryFault(r)
		if r.Verdict == Fail {
			fault = r.Why
		}
		if prefix, ok := knownFault(r.Name); ok {
			met[prefix] = met[prefix] || fault != ""
			t.Logf("known: %s: %s", r.Name, fault)
			continue
		}
		switch {
		case fault != "":
			t.Errorf("%s: %s", r.Name, fault)
		case r.DataDecide:
			bounded++
		case r.Verdict == Pass:
			exact++
		}
	}
	for prefix := range knownFaults {
		if !met[prefix] {
			t.Errorf("no case that begins with %s goes wrong: take it off the list of known faults", prefix)
		}
	}
	t.Logf("%d cases: %d pass, %d fail, %d refused; predicted = measured for %d, measured ≤ predicted for %d whose data decide", len(cases), count[Pass], count[Fail], count[Refused], exact, bounded)
	t.Log("\n" + operatorTable(byOp))
}

// operatorTable lists the operators that some case of is refused or fails.
func operatorTable(byOp map[string]map[Verdict]int) string {
	var ops []string
	clean := 0
	for op, n := range byOp {
		if n[Fail]+n[Refused] == 0 {
			clean++
		} else {
			ops = append(ops, op)
		}
	}
	sort.Strings(ops)
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %5s %5s %8s\n", "operator", "pass", "fail", "refused")
	for _, op := range ops {
		fmt.Fprintf(&b, "%-28s %5d %5d %8d\n", op, byOp[op][Pass], byOp[op][Fail], byOp[op][Refused])
	}
	fmt.Fprintf(&b, "%-28d operators pass all their cases\n", clean)
	return b.String()
}

// light are the nets of ONNX's official data whose weights their files compute, with their relative tolerances.
var light = []struct {
	name string
	rtol float64
}{
	{"bvlc_alexnet", 1e-3}, {"densenet121", 2e-3}, {"inception_v1", 1e-3}, {"inception_v2", 1e-3}, {"resnet50", 1e-3}, {"shufflenet", 1e-3},
	{"squeezenet", 1e-3}, {"vgg19", 1e-3}, {"zfnet512", 1e-3},
}

// TestLightNets runs whole networks, and shows the arena beside its lower bound, and what a run took beside what was predicted.
func TestLightNets(t *testing.T) {
	data := official(t)
	for _, net := range light {
		t.Run(net.name, func(t *testing.T) {
			path := filepath.Join(data, "light", "light_"+net.name)
			m, err := weir.Load(path + ".onnx")
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			p, err := weir.Compile(t.Context(), m, weir.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			in := ramps(t, p)
			r, err := p.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for i := range p.Outputs() {
				want, err := read(fmt.Sprintf("%s_output_%d.pb", path, i))
				if err != nil {
					t.Fatal(err)
				}
				got, err := values.FromWeir(r.At(i))
				if err != nil {
					t.Fatal(err)
				}
				if err := tensor.Compare(got, want, net.rtol, Absolute); err != nil {
					t.Error(err)
				}
			}
			memory, err := MemoryOf(t.Context(), p, in)
			if err != nil {
				t.Fatal(err)
			}
			arena, err := p.Memory().Arena.Max()
			if err != nil {
				t.Fatal(err)
			}
			bound, err := p.Memory().LowerBound.Max()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("arena %d, lower bound %d, gap %d; predicted %d, measured %d", arena, bound, arena-bound, memory.Predicted, memory.Measured)
			if memory.Predicted != memory.Measured {
				t.Errorf("predicted %d bytes, measured %d", memory.Predicted, memory.Measured)
			}
		})
	}
}

// ramps fills each input as ONNX's own runner does for these nets: the element's index over the number of elements.
func ramps(t *testing.T, p *weir.Program) weir.Inputs {
	in := weir.Inputs{}
	for _, info := range p.Inputs() {
		count := 1
		var shape []int
		for _, e := range info.Shape {
			if e.Dim != "" || e.Size > math.MaxInt32 {
				t.Fatalf("input %s", info)
			}
			shape, count = append(shape, int(e.Size)), count*int(e.Size)
		}
		ramp := make([]float32, count)
		for i := range ramp {
			ramp[i] = float32(float64(i) / float64(count))
		}
		x, err := weir.FromSlice(ramp, shape...)
		if err != nil {
			t.Fatal(err)
		}
		in[info.Name] = x
	}
	return in
}
