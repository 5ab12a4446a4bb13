package compiler

import (
	"slices"
	"testing"

	"github.com/weirml/weir/internal/loop"
)

// TestOrderAroundUpdates shows that a step which reads and writes one buffer, or writes two views of one buffer, is
// ordered like any other step.
func TestOrderAroundUpdates(t *testing.T) {
	m, err := loop.Parse(`weir 1 loop @m {
		buffer %x: f32[1024] input
		buffer %a: f32[1024] temp
		buffer %b: f32[1024] temp
		buffer %s: f32[2] temp
		buffer %t: f32[2] temp
		buffer %u: f32[2] output
		buffer %p: f32[4] output
		buffer %q: f32[2] temp view %p offset 0
		buffer %r: f32[2] temp view %p offset 2
		kernel @grow(%a: f32[1024] read, %b: f32[1024] write) dims () { each i < 1024 { store %b[i] = neg(load %a[i]) } }
		kernel @shrink(%a: f32[1024] read, %b: f32[2] write) dims () { each i < 2 { store %b[i] = load %a[i] } }
		kernel @add(%a: f32[2] read, %b: f32[2] update) dims () { each i < 2 { store %b[i] = add(load %a[i], load %b[i]) } }
		kernel @both(%a: f32[2] read, %b: f32[2] write, %c: f32[2] write) dims () { each i < 2 { store %b[i] = load %a[i] store %c[i] = neg(load %a[i]) } }
		body {
			launch @grow(%x, %a)
			launch @grow(%x, %b)
			launch @shrink(%a, %s)
			launch @shrink(%b, %t)
			copy %u = %t
			launch @add(%s, %u)
			launch @both(%s, %q, %r)
		} }`, loop.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loop.VerifyModule(m); err != nil {
		t.Fatal(err)
	}
	given := slices.Clone(m.Body)
	got := fewerAlive(m, 0)
	if want := []loop.Step{given[0], given[2], given[1], given[3], given[4], given[5], given[6]}; !slices.Equal(got,
		want) && !slices.Equal(got, []loop.Step{given[1], given[3], given[4], given[0], given[2], given[5], given[6]}) {
		t.Errorf("the order is %v; each branch must be contiguous", got)
	}
}
