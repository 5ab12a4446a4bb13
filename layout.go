package weir

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/strided"
)

// Layout is the order of an input's axes in memory, from the outermost to the innermost, separated by commas: "0,2,3,1"
// is an image with adjacent channels, "1,0" a transposed matrix. An axis with "-" is reversed: its last element comes
// first. An axis with "*" repeats a single element, with a stride of 0. There are no gaps between elements. The empty
// layout is row-major order. See Options.Layouts.
type Layout string

// LayoutOf returns the layout of memory with these strides, in elements. Memory with gaps, such as every second column
// of a matrix, and memory that overlaps other than by strides of 0, is ErrUnsupported. The stride of an axis with one
// element only determines the position of the axis.
func LayoutOf(shape, strides []int) (Layout, error) {
	if len(shape) != len(strides) {
		return "", diag.Inputf("%d strides of %d axes", len(strides), len(shape))
	}
	order, err := strided.OrderOf(sizesOf(shape), sizesOf(strides))
	return Layout(order.String()), err
}

// Laid is an input that Options.Layouts declared.
type Laid struct {
	Input  string
	Layout Layout
	// Copied reports whether some kernel cannot read the input in place: a run then makes a copy in row-major order, of
	// Bytes bytes of the arena.
	Copied bool
	Bytes  Size
}

// Laid lists the inputs with layouts by Options.Layouts, in the order of the inputs.
func (p *Program) Laid() (list []Laid) {
	prog := p.compiled.Program
	for _, e := range p.session.Inputs {
		if e.Info.Layout != "" {
			list = append(list, Laid{e.Info.Name, Layout(e.Info.Layout), signature.Copied(prog, e.Info),
				p.memory.size(prog.Tensors[prog.Inputs[e.Parts[0]].Tensor].Bytes())})
		}
	}
	return list
}
