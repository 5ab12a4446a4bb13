package weir

import (
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
)

// Consume gives a tensor to a run for good: its memory is given back inside the run, after the last step that reads it, or when the run fails. The tensor is dead from the call of Run
// on, unless that refuses its arguments. It must have memory of its own, as New makes it, or be an output that an earlier run gave: when all tensors of its Results
// are consumed or closed, those are closed, and their program has its call back.
func Consume(t *Tensor) Arg {
	return given{kind: TensorKind, tensors: []*Tensor{t}, owner: program.Consume}
}

// parted is an argument that its caller parts with.
type parted struct {
	t     *Tensor
	port  int
	taken bool // from the caller, and not given back yet
}

// mayPart checks that what callers part with is theirs, and given once; it notes it in args.
func (p *Program) mayPart(args *packing, list []given) error {
	for i, g := range list {
		if g.owner == program.Borrow {
			continue
		}
		name, t := p.inputs[i].Name, g.tensors[0]
		if !p.inputs[i].simple() {
			return diag.Inputf("%s is no tensor of numbers, and only those can be consumed", p.inputs[i]).AtTensor(name).WithFix("lend it")
		}
		if t.block == nil && (t.of == nil || t.t.DType() == StringType) {
			return diag.Inputf("its memory is not its own: it is borrowed, and cannot be consumed").AtTensor(name).WithFix("copy it into a tensor made by weir.New first")
		}
		if t.of != nil && t.of.program == p {
			return diag.Inputf("it is a result of the same program, which would wait for its own call").AtTensor(name).WithFix("copy it into a tensor made by weir.New first")
		}
		for k, other := range args.parts {
			if k != p.takes[i].Parts[0] && overlap(t, other) {
				return diag.Inputf("it is consumed, and given for %s too", p.owner(k).Name).AtTensor(name).WithFix("lend it to both")
			}
		}
		args.parted = append(args.parted, &parted{t: t, port: p.takes[i].Parts[0]})
	}
	return nil
}

// overlap reports whether two tensors share memory.
func overlap(a, b *Tensor) bool {
	x, y := a.t.Bytes(), b.t.Bytes()
	if len(x) == 0 || len(y) == 0 {
		return a == b
	}
	at, other := uintptr(unsafe.Pointer(unsafe.SliceData(x))), uintptr(unsafe.Pointer(unsafe.SliceData(y)))
	return at < other+uintptr(len(y)) && other < at+uintptr(len(x))
}

// part takes from the caller what it parts with: all of it, or nothing and an error.
func (p *packing) part() error {
	for i, a := range p.parted {
		if a.t.of != nil {
			a.taken = a.t.of.take(a.t)
		} else {
			a.taken = !a.t.gone.Swap(true)
		}
		if !a.taken {
			for _, b := range p.parted[:i] {
				b.back()
			}
			return diag.New(ErrClosed, "the tensor is closed, or was given away")
		}
	}
	return nil
}

// back returns a tensor that was taken.
func (a *parted) back() {
	a.taken = false
	if a.t.of != nil {
		a.t.of.back(a.t)
		return
	}
	a.t.gone.Store(false)
}

// done gives a tensor's memory back, once.
func (a *parted) done() error {
	if !a.taken {
		return nil
	}
	a.taken = false
	if a.t.of != nil {
		return a.t.of.give()
	}
	return a.t.block.Close()
}
