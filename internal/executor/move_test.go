package executor

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// TestMove: copies of all sizes and strides, in one tile or shared by workers, move each element once and nothing else.
func TestMove(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	type geometry struct {
		shape    []int64
		to, from []int64 // the axes from outermost to innermost in memory; nil for a contiguous copy
		gap      int64   // elements left out after each of the outermost axis
	}
	for _, g := range []geometry{
		{shape: []int64{0}}, {shape: []int64{1}}, {shape: []int64{tileBytes / 4}}, {shape: []int64{tileBytes/4 + 1}},
		{shape: []int64{700, 901}},
		{shape: []int64{0, 3}, to: []int64{0, 1}, from: []int64{1, 0}},
		{shape: []int64{5, 0}, to: []int64{0, 1}, from: []int64{1, 0}},
		{shape: []int64{}, to: []int64{}, from: []int64{}},
		{shape: []int64{7, 1, 9}, to: []int64{0, 1, 2}, from: []int64{2, 1, 0}, gap: 3},
		{shape: []int64{3, 300, 257}, to: []int64{0, 1, 2}, from: []int64{1, 0, 2}},
		{shape: []int64{3, 300, 257}, to: []int64{2, 0, 1}, from: []int64{0, 1, 2}, gap: 1},
		{shape: []int64{5, 40001}, to: []int64{0, 1}, from: []int64{0, 1}, gap: 11},
		{shape: []int64{2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 1}, to: []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
			from: []int64{1, 0, 2, 3, 4, 5, 6, 8, 7, 9, 10}},
	} {
		for _, threads := range []int{1, 4} {
			t.Run(fmt.Sprintf("%v to %v from %v gap %d, %d threads", g.shape, g.to, g.from, g.gap, threads), func(t *testing.T) {
				c := chain(t, 1, Options{Threads: threads}, func(name string) target.Kernel { return &nothing{name, 1} })
				c.ctx = t.Context()
				if err := c.team.Enter(threads, target.Stop{}); err != nil {
					t.Fatal(err)
				}
				defer c.team.Leave()
				st, sf := gapped(g.shape, g.to, g.gap), gapped(g.shape, g.from, g.gap)
				to, from := make([]byte, 4*reach(g.shape, st)), make([]byte, 4*reach(g.shape, sf))
				for i := range from {
					from[i] = byte(r.Uint32())
				}
				want := bytes.Clone(to)
				tensor.Each(g.shape, func(at []int64) {
					a, b := 4*tensor.Offset(st, at), 4*tensor.Offset(sf, at)
					copy(want[a:a+4], from[b:b+4])
				})
				if g.to == nil {
					st, sf = nil, nil
				}
				place := func(data []byte) target.Operand {
					return target.Operand{Base: unsafe.Pointer(unsafe.SliceData(data)), Bytes: int64(len(data))}
				}
				if err := c.move(place(to), place(from), g.shape, st, sf, 4); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(to, want) {
					t.Error("elements differ, or others were written")
				}
				if n, _ := tensor.Count(g.shape); 4*n > tileBytes && c.mover.job.Tiles < 2 {
					t.Errorf("%d bytes are one tile, which no other worker can share", 4*n)
				}
			})
		}
	}
}

// gapped returns the strides of a tensor whose axes lie in memory in an order, with a gap after each element of the
// outermost axis.
func gapped(shape, order []int64, gap int64) []int64 {
	if order == nil {
		return tensor.Strides(shape)
	}
	out, step := make([]int64, len(shape)), int64(1)
	for i := len(order) - 1; i >= 0; i-- {
		if i == 0 {
			step += gap
		}
		out[order[i]] = step
		step *= shape[order[i]]
	}
	return out
}

// reach returns the number of elements from a tensor's first to its end.
func reach(shape, strides []int64) int64 {
	n := int64(1)
	for i := range shape {
		if shape[i] == 0 {
			return 0
		}
		n += (shape[i] - 1) * strides[i]
	}
	return n
}

// TestMoveEnds: a copy returns an error if the context of its run has ended.
func TestMoveEnds(t *testing.T) {
	c := chain(t, 1, Options{Threads: 2}, func(name string) target.Kernel { return &nothing{name, 1} })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.ctx = ctx
	data := make([]byte, 8)
	o := target.Operand{Base: unsafe.Pointer(&data[0]), Bytes: 8}
	if err := copyTensor(c, &program.Copy{}, o, target.Operand{Base: unsafe.Pointer(&make([]byte, 8)[0]),
		Bytes: 8}); err == nil {
		t.Error("it copied")
	}
}
