package memplan_test

import (
	"fmt"

	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/sym"
)

// Three layers in a row, with a free batch: the third result reuses the first one's bytes.
func ExamplePlan() {
	n := sym.Dim("n")
	dims := sym.NewDims()
	dims.Set(sym.User("n"), sym.Range{Min: 1, Max: 64})
	s, err := memplan.Plan(memplan.Problem{Dims: dims, Steps: 4, Buffers: []memplan.Buffer{
		{Name: "a", Size: n.Mul(sym.Const(4096)), First: 0, Last: 1},
		{Name: "b", Size: n.Mul(sym.Const(1024)), First: 1, Last: 2},
		{Name: "c", Size: n.Mul(sym.Const(2048)), First: 2, Last: 3},
	}}, memplan.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("arena", s.Arena, "of which the least is", s.Bound, "proved:", s.Proven)

	e, err := s.Evaluator([]sym.Name{sym.User("n")})
	if err != nil {
		fmt.Println(err)
		return
	}
	offsets := make([]int64, 3)
	arena, _, err := e.Eval([]int64{10}, offsets)
	fmt.Println("at n = 10:", arena, "bytes, offsets", offsets, err)

	c, err := s.Certify(func(sym.Name) (int64, bool) { return 10, true })
	fmt.Println("peak at step", c.Step, "with", c.Alive[0].Name, "and", c.Alive[1].Name, err)
	// Output:
	// arena 5120*n of which the least is 5120*n proved: true
	// at n = 10: 51200 bytes, offsets [0 40960 0] <nil>
	// peak at step 1 with a and b <nil>
}
