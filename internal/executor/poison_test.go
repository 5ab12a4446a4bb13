package executor

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/target"
)

// adds is a kernel that adds one to each element.
type adds struct{ nothing }

// Run writes operand 0 plus one to operand 2.
func (k *adds) Run(a *target.Args, _, _ int64, _ []byte) error {
	to := unsafe.Slice((*float32)(a.Operands[2].Base), a.Operands[2].Bytes/4)
	for i, v := range unsafe.Slice((*float32)(a.Operands[0].Base), a.Operands[0].Bytes/4) {
		to[i] = v + 1
	}
	return nil
}

// TestReleasedIsPoisoned: with Poison a read after the release gives wrong results, unless another tensor has the
// bytes.
func TestReleasedIsPoisoned(t *testing.T) {
	for _, c := range []struct {
		what           string
		poison, over   bool
		between, right bool // the release comes before the reader; the result is right
	}{
		{"without poison", false, false, true, true},
		{"released after it was read", true, false, false, true},
		{"released before it is read", true, false, true, false},
		{"released before it is read, but another tensor has its bytes", true, true, true, true},
	} {
		call := chain(t, 2, Options{Threads: 1, Poison: c.poison}, func(name string) target.Kernel {
			return &adds{nothing{name, 1}}
		})
		p := call.x.program
		first := p.Steps[1].(*program.Launch).Args[2]
		release := &program.Release{Tensors: []int{first}}
		at := len(p.Steps)
		if c.between {
			at = 3 // after the second carve
		}
		if c.over {
			p.Steps[2].(*program.Carve).Over = []int{first}
		}
		p.Steps, call.own = slices.Insert(p.Steps, at, program.Step(release)), slices.Insert(call.own, at, nil)
		if err := call.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, data, err := call.Output(0)
		if err != nil {
			t.Fatal(err)
		}
		got := unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), 4)
		if slices.Equal(got, []float32{3, 4, 5, 6}) != c.right {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
