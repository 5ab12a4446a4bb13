package batch

import (
	"math"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// shape is the batcher's description of a program.
type shape struct {
	dim             string // the name of the dimension of the rows
	most            int    // the upper bound of dim
	unbounded       error  // the reason why sizes have no upper bound, nil if they have
	inputs, outputs []weir.Info
	names           []string    // of the outputs
	inputRow        int64       // the bytes of one row of all inputs together, at the other dimensions' upper bounds
	sizes           []weir.Size // by output: its bytes
	outputRows      []int64     // by output: the bytes of one row at the other dimensions' upper bounds
}

// shapeOf finds the dimension along which requests of p are joined, and the sizes of a row. It returns ErrInput or
// ErrUnsupported if there is no such dimension or, unless an account decides about memory, a size has no upper bound.
func shapeOf(p *weir.Program, account bool) (*shape, error) {
	s := &shape{inputs: p.Inputs(), outputs: p.Outputs()}
	if len(s.inputs) == 0 || len(s.outputs) == 0 {
		return nil, diag.Unsupportedf("a batcher for a program without inputs or outputs")
	}
	if data := p.Decided(); len(data) > 0 {
		return nil, diag.Unsupportedf("a batcher for a program with sizes that data decide").AtDim(data[0].Name)
	}
	ranges := map[string]weir.Dimension{}
	for _, d := range p.Dims() {
		ranges[d.Name] = d
	}
	if first := s.inputs[0].Shape; len(first) > 0 {
		s.dim = first[0].Dim
	}
	for _, info := range slices.Concat(s.inputs, s.outputs) {
		if err := s.joins(info); err != nil {
			return nil, err
		}
	}
	rows, ok := ranges[s.dim]
	if !ok {
		return nil, diag.Inputf("the first axis of %s is no dimension that a request may choose", s.inputs[0]).
			AtTensor(s.inputs[0].Name).WithFix("export the model with a dynamic first axis")
	}
	for _, d := range ranges {
		if d.Max == weir.Unbounded {
			s.unbounded = diag.Inputf("it has no upper bound").AtDim(d.Name).
				WithFix("compile the program with Options.Dims{%q: {Min: 1, Max: …}}", d.Name)
		}
	}
	s.most = int(min(rows.Max, math.MaxInt32))
	for _, info := range s.outputs {
		size, err := p.Memory().Of(info.Name)
		if err != nil {
			return nil, err
		}
		s.names, s.sizes = append(s.names, info.Name), append(s.sizes, size)
	}
	if s.unbounded != nil {
		if account {
			return s, nil
		}
		return nil, s.unbounded
	}
	for _, info := range s.inputs {
		count := int64(1)
		for axis, e := range info.Shape[1:] {
			size := e.Size
			if d, named := ranges[e.Dim]; named {
				size = d.Max
			} else if e.Dim != "" {
				return nil, diag.Unsupportedf("a batcher for an input whose axis %d is %s", axis+1, e.Dim).AtTensor(info.Name)
			}
			if count = product(count, size); count < 0 {
				return nil, tooLarge(info.Name)
			}
		}
		bytes, err := info.DType.Bytes(count)
		if err != nil {
			return nil, err
		}
		if s.inputRow += bytes; s.inputRow < 0 {
			return nil, tooLarge(info.Name)
		}
	}
	for _, size := range s.sizes {
		bytes, err := size.Max()
		if err != nil {
			return nil, err
		}
		s.outputRows = append(s.outputRows, bytes/rows.Max)
	}
	return s, nil
}

// product returns a × b of two numbers that are not negative; −1 if the product exceeds 64 bits.
func product(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return -1
	}
	return a * b
}

// tooLarge returns the error that the batcher's memory for a tensor exceeds 64 bits.
func tooLarge(tensor string) error {
	return diag.Inputf("what the batcher would hold is more bytes than 64 bits count").AtTensor(tensor).
		WithFix("narrow the dimensions by weir.Options.Dims, or the rows in flight")
}

// joins returns an error unless an input's or output's first axis is the rows and its elements can be joined.
func (s *shape) joins(info weir.Info) error {
	switch {
	case info.Kind != weir.TensorKind || info.DType == weir.StringType || info.DType.IsSubByte():
		return diag.Unsupportedf("a batcher joins tensors of numbers of whole bytes; there is %s", info).AtTensor(info.Name)
	case info.Shape == nil:
		return diag.Unsupportedf("a batcher for an output whose rank a run decides: %s", info).AtTensor(info.Name).
			WithFix("compile the program with Options.Dims{%q: {Min: 2, Max: …}}", s.dim)
	case info.State != "":
		return diag.Unsupportedf("a batcher for a program with states").AtTensor(info.Name)
	case info.Layout != "":
		return diag.Unsupportedf("a batcher for an input with a layout than in row-major order").AtTensor(info.Name)
	case len(info.Shape) == 0 || info.Shape[0].Dim == "" || info.Shape[0].Dim != s.dim:
		return diag.Inputf("%s does not have the rows of %s first", info, s.inputs[0]).AtTensor(info.Name).
			WithFix("name the first axis of all inputs alike when the model is exported, and leave out outputs by " +
				"Options.Outputs")
	}
	return nil
}

// Memory is a batcher's memory in bytes, at the upper bounds of the program's dimensions. A batcher that is full takes
// exactly this much. The requests' own inputs belong to their callers and are not counted.
type Memory struct {
	Program int64 // the program's certificate, for all of its calls
	Inputs  int64 // the joined inputs of one run per call
	Results int64 // the results of all rows in flight
}

// Peak returns the sum, in bytes.
func (m Memory) Peak() int64 { return m.Program + m.Inputs + m.Results }

// Memory returns the batcher's certificate. It is zero if the sizes have no upper bounds, which Options.Account allows.
func (b *Batcher) Memory() Memory { return b.memory }

// Limit returns the value for weir.SetLimit, in bytes, that suffices to load and compile the program and to use the
// batcher, if the process holds nothing else and the inputs lie in Go's memory.
func (b *Batcher) Limit() (int64, error) { return b.limit, b.blocked }

// certify computes Memory and Limit.
func (b *Batcher) certify() (err error) {
	if b.blocked = b.shape.unbounded; b.blocked != nil {
		return nil
	}
	if b.memory.Program, err = b.program.Memory().Max(b.calls); err != nil {
		return err
	}
	if b.memory.Inputs = product(product(int64(b.calls), int64(b.rows)), b.shape.inputRow); b.memory.Inputs < 0 {
		return tooLarge("")
	}
	pages := mem.PooledPages(1)
	for i, bytes := range b.shape.outputRows {
		all := product(int64(b.room.left), mem.WholePages(bytes))
		if all < 0 || pages > math.MaxInt64/2-all {
			return tooLarge(b.shape.names[i])
		}
		pages += all
		b.memory.Results += int64(b.room.left) * bytes
	}
	// The program's own limit has room for arguments made by weir.New. The joined inputs are such arguments.
	if b.limit, b.blocked = b.program.Memory().Limit(b.calls); b.blocked == nil {
		b.limit += pages
	}
	return nil
}
