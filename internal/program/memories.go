package program

import (
	"fmt"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// Every tensor lies in one memory: the host's, a device's, or a file. A step uses tensors in the memory of its own
// device; only a copy may have one end in another memory. A copy to or from a device is a step of a stream of that
// device, so the host never touches memory that a device may be using.

// inFile stands for the device of a tensor in a file. No device has this name.
const inFile = "\x00file"

// deviceOf returns the device whose memory holds a tensor; "" is the host.
func (v *verifier) deviceOf(i int) string {
	root := v.p.Root(i)
	switch t := &v.p.Tensors[root]; {
	case t.Class == Carved && v.p.Storages[t.Of].Kind == Spill, v.paged[root]:
		return inFile
	case t.Class == Carved:
		return v.p.Storages[t.Of].Device
	}
	return v.given[root]
}

// runsOn returns the device that runs a stream's steps; "" is the host.
func (v *verifier) runsOn(stream int) (string, error) {
	if stream < 0 || stream > len(v.p.Streams) {
		return "", diag.Inputf("there is no stream %d", stream)
	}
	if stream == 0 {
		return "", nil
	}
	return v.p.Streams[stream-1].Device, nil
}

// lieOn checks that tensors lie in the memory of a device; −1 stands for none.
func (v *verifier) lieOn(device string, tensors ...int) error {
	for _, t := range tensors {
		if t < 0 {
			continue
		}
		switch d := v.deviceOf(t); {
		case d == inFile:
			return v.elsewhere(t)
		case d != device:
			return diag.Inputf("it lies in the memory of %s, its reader or writer runs on %s", memoryWord(d),
				memoryWord(device)).AtTensor(v.p.Tensors[t].Name).WithFix("copy it there first")
		}
	}
	return nil
}

// onDevice checks that tensors lie in the memory of the device that runs a stream.
func (v *verifier) onDevice(stream int, tensors ...int) error {
	where, err := v.runsOn(stream)
	if err != nil {
		return err
	}
	return v.lieOn(where, tensors...)
}

// elsewhere returns the error of a step that uses a tensor in a file as if it were in memory.
func (v *verifier) elsewhere(t int) error {
	return diag.Inputf("it lies in a file").AtTensor(v.p.Tensors[t].Name).WithFix("copy it into memory first")
}

// memoryWord names a device in an error.
func memoryWord(device string) string {
	if device == "" {
		return "the host"
	}
	return fmt.Sprintf("device %q", device)
}

// across checks which stream does a copy: within one memory, a stream of its owner; between the host and a device, a
// stream of the device; between memory and a file, the host. A device copies only tensors whose elements are
// contiguous.
func (v *verifier) across(s *Copy) error {
	where, err := v.runsOn(s.Stream)
	if err != nil {
		return err
	}
	to, from := v.deviceOf(s.To), v.deviceOf(s.From)
	switch {
	case from == inFile && (to == inFile || where != ""):
		return v.elsewhere(s.From)
	case from == inFile:
		return v.lieOn("", s.To)
	case to == inFile && where != "":
		return v.elsewhere(s.To)
	case to == inFile:
		return v.lieOn("", s.From)
	case to == from || to == "" || from == "":
		if owner := to + from; to != from && where != owner || to == from && where != to {
			return diag.Inputf("it is copied from the memory of %s to that of %s by a stream of %s", memoryWord(from),
				memoryWord(to), memoryWord(where)).AtTensor(v.p.Tensors[s.From].Name)
		}
	default:
		return diag.Inputf("it is copied from %s to %s", memoryWord(from), memoryWord(to)).
			AtTensor(v.p.Tensors[s.From].Name).WithFix("copy it to the host first")
	}
	if to == "" && from == "" {
		return nil
	}
	for _, t := range []int{s.To, s.From} {
		if !v.dense(t) {
			return diag.Inputf("a device copies it, and its elements do not lie side by side").
				AtTensor(v.p.Tensors[t].Name)
		}
	}
	return nil
}

// dense reports whether a tensor is proved to be contiguous in row-major order.
func (v *verifier) dense(t int) bool {
	x := &v.p.Tensors[t]
	if x.Strides == nil {
		return true
	}
	step := sym.Const(1)
	for axis := len(x.Shape) - 1; axis >= 0; axis-- {
		if v.dims.EQ(x.Strides[axis], step) != sym.Yes {
			return false
		}
		step = step.Mul(x.Shape[axis])
	}
	return true
}
