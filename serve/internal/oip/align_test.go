package oip

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weirml/weir"
)

// TestAlign moves random inputs in buffers with and without room behind them: each keeps its bytes, and with room all
// are
// aligned.
func TestAlign(t *testing.T) {
	random := rand.New(rand.NewPCG(38, 3))
	types := []weir.DType{weir.Bool, weir.U8, weir.F16, weir.I32, weir.F32, weir.I64, weir.F64, weir.C128, weir.StringType}
	moved := 0
	for range 20000 {
		buffer := make([]byte, random.IntN(600)+1)
		r := &Request{}
		var before [][]byte
		for at := random.IntN(20); at < len(buffer) && random.IntN(8) > 0; at += random.IntN(4) {
			dt := types[random.IntN(len(types))]
			n := random.IntN(5) * max(1, dt.Size())
			if at+n > len(buffer) {
				break
			}
			data := buffer[at : at+n]
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			before = append(before, bytes.Clone(data))
			r.Inputs = append(r.Inputs, Tensor{DType: dt, Data: data})
			at += n
		}
		room := 0
		if n := len(r.Inputs); n > 0 {
			if last := r.Inputs[n-1].Data; len(last) > 0 {
				room = len(buffer) - int(uintptr(unsafe.Pointer(&last[len(last)-1]))-uintptr(unsafe.Pointer(&buffer[0]))) - 1
			}
		}
		r.Align(buffer)
		for i, in := range r.Inputs {
			if !bytes.Equal(in.Data, before[i]) {
				t.Fatalf("input %d of %d is %x, and was %x", i, len(r.Inputs), in.Data, before[i])
			}
			if len(in.Data) == 0 || room < 16*len(r.Inputs) {
				continue
			}
			moved++
			if at := uintptr(unsafe.Pointer(&in.Data[0])); at%uintptr(max(1, in.DType.Size())) != 0 {
				t.Fatalf("input %d is %v at %#x, with %d bytes of room", i, in.DType, at, room)
			}
		}
	}
	if moved < 1000 {
		t.Errorf("only %d inputs had room", moved)
	}
}
