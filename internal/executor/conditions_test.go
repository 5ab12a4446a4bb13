package executor

import (
	"context"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/device/cpu"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/target"
)

// TestConditionsAfterBind: a run ends with an error before a launch whose kernel's proofs use a condition on two
// dimensions, if one of them was bound again and the condition not yet checked again. The launch runs if both were
// bound, or if the kernel uses only one of them.
func TestConditionsAfterBind(t *testing.T) {
	for text, refused := range map[string]bool{
		"bind b = 2 loop trip %trip { bind a = a + 6 launch @k(%x) dims (a, b) source \"node\" bind b = 8 }": true,
		"bind b = 2 loop trip %trip { bind a = a + 6 bind b = 8 launch @k(%x) dims (a, b) source \"node\" }": false,
		"bind b = 2 loop trip %trip { bind a = a + 6 launch @k(%x) dims (a) source \"node\" bind b = 8 }":    false,
	} {
		p, err := program.Parse(`weir 1 program @p { dim a in [0, 9] data limit 9 dim b in [0, 9] data limit 9 require a <= b from "the model" plan { }
			tensor %trip: i64[] constant weight "t" %trip = [1] tensor %x: f32[3] argument kernel @k input "x" = %x borrow
			body { bind a = 1 `+text+` } }`, program.ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := New(p, &target.Code{Kernels: []target.Kernel{&nothing{"k", 1}}}, Options{Host: cpu.Host{}, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		c, err := x.Bind(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Run(t.Context())
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "a") {
			t.Errorf("%s: %v, refused: %v", text, err, refused)
		}
		if err != nil {
			t.Log(err)
		}
		c.Close()
		x.Close()
	}
}
