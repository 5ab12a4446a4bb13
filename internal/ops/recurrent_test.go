package ops

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// TestRecurrentSteps: a layer with lengths multiplies in no step after the last sequence's end: each loop over steps
// has an extent that a check of the lengths names. One without lengths has all steps.
func TestRecurrentSteps(t *testing.T) {
	found, _ := ir.Lookup("recurrent")
	def := found.(*Def)
	seen := map[bool]int{}
	for i, s := range def.Samples(rand.New(rand.NewSource(1))) {
		x := newSampled(s, false)
		n, err := x.node(def, s)
		if err != nil {
			t.Fatal(err)
		}
		k := &Nest{Builder: loop.NewBuilder("k")}
		for at, in := range n.Inputs {
			k.In = append(k.In, nil)
			if in != nil {
				k.In[at] = k.Param("x", loop.Read, in.Type.DType, in.Type.Shape)
			}
		}
		for _, out := range n.Outputs {
			k.Out = append(k.Out, k.Param("y", loop.Write, out.Type.DType, out.Type.Shape))
		}
		def.Lowerings[0].Lower(k, n)
		kernel := k.Finish()
		var checked []sym.Name
		loop.Walk(kernel.Body, func(s loop.Stmt) bool {
			if c, ok := s.(*loop.Check); ok {
				checked = append(checked, c.Name)
			}
			return true
		})
		lengths := s.Inputs[recurrentLengths] != nil
		loop.Walk(kernel.Body, func(s loop.Stmt) bool {
			f, ok := s.(*loop.For)
			if !ok || !multiplies(f.Body) || f.Kind != loop.Serial {
				return true
			}
			seen[lengths]++
			bound := slices.ContainsFunc(f.Extent.Vars(), func(name sym.Name) bool { return slices.Contains(checked, name) })
			if bound != lengths {
				t.Errorf("sample %d, with lengths %v: a loop over %v steps", i, lengths, f.Extent)
			}
			return true
		})
	}
	if seen[false] < 9 || seen[true] < 9 {
		t.Errorf("loops over steps without and with lengths: %v", seen)
	}
}

// multiplies reports whether a body has a product of tiles.
func multiplies(body []loop.Stmt) (has bool) {
	loop.Walk(body, func(s loop.Stmt) bool {
		_, is := s.(*loop.Contract)
		has = has || is
		return true
	})
	return has
}
