package loop_test

import (
	"fmt"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// A kernel is built, verified and printed.
func ExampleBuilder() {
	n := sym.Dim("n")
	b := loop.NewBuilder("prefix")
	x, y := b.Param("x", loop.Read, dtype.F32, []sym.Expr{n}), b.Param("y", loop.Write, dtype.F32, []sym.Expr{n})
	sum := b.Var("sum", loop.Number(dtype.F32, 0))
	b.Serial("i", n, func(i sym.Expr) {
		b.Reduce(sum, loop.Add, x.Load(i))
		b.Store(y, []sym.Expr{i}, sum)
	})
	k := b.Finish()
	unproved, err := loop.Verify(k, nil)
	fmt.Print(unproved, err, "\n", k)
	// Output:
	// [] <nil>
	// kernel @prefix(%x: f32[n] read, %y: f32[n] write) dims(n) {
	//   var %sum: f32 = 0
	//   for $i < n {
	//     %sum add= load %x[$i]
	//     store %y[$i] = %sum
	//   }
	// }
}

// A module is read from its text and interpreted.
func ExampleParse() {
	m, err := loop.Parse(`weir 1
loop @main {
  dim n in [1, 64]
  buffer %x: f32[n, 2] input
  buffer %y: f32[n, 2] output
  kernel @softmax(%x: f32[n, 2] read, %y: f32[n, 2] write) dims(n) {
    parallel i < n {
      var %m: f32 = -inf
      for k < 2 { %m max= load %x[i, k] }
      var %s: f32 = 0
      for k1 < 2 { %s add= exp(sub(load %x[i, k1], %m)) }
      vector k2 < 2 { store %y[i, k2] = div(exp(sub(load %x[i, k2], %m)), %s) }
    }
  }
  body { launch @softmax(%x, %y) }
}`, loop.ParseOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	x, _ := tensor.FromSlice([]float32{0, 0, 5, -5}, 2, 2)
	results, err := (&loop.Runner{}).Run(m, map[string]*tensor.Tensor{"x": x})
	fmt.Println(results["y"], err)
	// Output:
	// f32[2,2]{0.5, 0.5, 0.9999546, 4.539787e-05} <nil>
}
