package beamweir

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/internal/diag"
)

// The most rows of a run, and the longest time that an element waits for others, if options say nothing.
const (
	defaultRows = 32
	defaultWait = 5 * time.Millisecond
)

// tensors is a program whose runs the elements of all bundles share.
type tensors struct {
	program  *weir.Program
	batcher  *batch.Batcher
	rowShape []int // of the only input, for Floats
	places   chan struct{}
	held     int64
}

// openTensors loads and compiles a model.
func openTensors(ctx context.Context, path string, o Options) (t *tensors, err error) {
	m, err := load(ctx, path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	p, rows, err := compile(ctx, m, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	b, err := batch.New(p, batch.Options{Rows: rows, Wait: cmp.Or(o.Wait, defaultWait)})
	if err != nil {
		return nil, err
	}
	perRow, err := rowBytes(p)
	if err != nil {
		return nil, err
	}
	places := inProgress(rows, p.Stats().Calls)
	memory := b.Memory()
	return &tensors{program: p, batcher: b, places: make(chan struct{}, places),
		held: memory.Program + memory.Inputs + int64(places)*perRow}, nil
}

// inProgress returns the number of elements that are in progress at once, so that a run can be filled while others run.
func inProgress(rows, calls int) int { return 2 * rows * calls }

// load reads a model from the disk, or from a file system of Beam's.
func load(ctx context.Context, path string) (*weir.Model, error) {
	if !strings.Contains(path, "://") {
		return weir.LoadContext(ctx, path)
	}
	files, err := filesystem.New(ctx, path)
	if err != nil {
		return nil, diag.Inputf("no file system for it: %v", err).AtFile(path)
	}
	defer files.Close()
	size, err := files.Size(ctx, path)
	if err != nil {
		return nil, diag.Inputf("%v", err).AtFile(path)
	}
	file, err := files.OpenRead(ctx, path)
	if err != nil {
		return nil, diag.Inputf("%v", err).AtFile(path)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, size))
	if err != nil {
		return nil, diag.Inputf("%v", err).AtFile(path)
	}
	return weir.LoadBytes(data)
}

// compile compiles a model for the most rows that options allow, and returns their number.
func compile(ctx context.Context, m *weir.Model, o Options) (p *weir.Program, rows int, err error) {
	inputs := m.Inputs()
	if len(inputs) == 0 || len(inputs[0].Shape) == 0 || inputs[0].Shape[0].Dim == "" {
		return nil, 0, diag.Inputf("the first axis of the model's first input is no dimension that elements can share").
			WithFix("export the model with a dynamic first axis")
	}
	dim, options := inputs[0].Shape[0].Dim, o.Compile
	options.Dims, options.Budget = maps.Clone(options.Dims), 0
	if options.Dims == nil {
		options.Dims = map[string]weir.Range{}
	}
	r, given := options.Dims[dim]
	switch {
	case o.Rows > 0:
		rows = max(2, o.Rows) // with a bound of one, the rows would be no dimension
	case given:
		rows = int(min(r.Max, 1<<20))
	default:
		rows = defaultRows
	}
	budget := o.Compile.Budget
	for {
		options.Dims[dim] = weir.Range{Min: 1, Max: int64(rows)}
		if p, err = weir.Compile(ctx, m, options); err != nil {
			return nil, 0, err
		}
		if budget == 0 || options.Budget > 0 {
			return p, rows, nil
		}
		fit, left, err := fitting(p, dim, rows, budget)
		if err == nil && fit == rows {
			return p, rows, nil
		}
		p.Close()
		if err != nil {
			return nil, 0, err
		}
		if rows = max(fit, 2); fit < 2 { // the compiler makes two rows fit, or says what would
			options.Budget = left
		}
	}
}

// fitting returns the most rows, up to rows, with which everything fits a budget, and what is left of it for the
// program if there are two: with a bound of one, the rows would be no dimension.
func fitting(p *weir.Program, dim string, rows int, budget int64) (fit int, left int64, err error) {
	perRow, err := rowBytes(p)
	if err != nil {
		return 0, 0, err
	}
	calls, dims := p.Stats().Calls, weir.Dims{}
	for _, d := range p.Dims() {
		dims[d.Name] = d.Max
	}
	inputs := func(rows int) int64 { return perRow * int64(rows*calls+inProgress(rows, calls)) }
	if left = budget - inputs(2); left <= 0 {
		return 0, 0, &weir.Error{Kind: weir.ErrBudget, Detail: "the inputs of runs of two rows are larger than the budget",
			Fix: fmt.Sprintf("the inputs take %d bytes beside the program", inputs(2))}
	}
	for low, high := 0, rows; ; {
		if low == high {
			return low, left, nil
		}
		middle := (low + high + 1) / 2
		dims[dim] = int64(middle)
		peak, err := p.Memory().Peak(calls, dims)
		if err != nil {
			return 0, 0, err
		}
		if peak+inputs(middle) <= budget {
			low = middle
		} else {
			high = middle - 1
		}
	}
}

// rowBytes returns the bytes of one row of a program's inputs, at the upper bounds of the other dimensions.
func rowBytes(p *weir.Program) (sum int64, err error) {
	most := map[string]int64{}
	for _, d := range p.Dims() {
		most[d.Name] = d.Max
	}
	for _, info := range p.Inputs() {
		count := int64(1)
		for _, e := range info.Shape[min(1, len(info.Shape)):] {
			size := e.Size
			if e.Dim != "" {
				size = most[e.Dim]
			}
			if size < 0 || size == weir.Unbounded || size > 0 && count > 1<<50/size {
				return 0, diag.Inputf("it has no upper bound").AtTensor(info.Name).AtDim(e.Dim).
					WithFix("set Options.Compile.Dims")
			}
			count *= size
		}
		bytes, err := info.DType.Bytes(count)
		if err != nil {
			return 0, err
		}
		sum += bytes
	}
	return sum, nil
}

// onlyFloats checks that the program has one input and one output of f32, and finds the shape of a row.
func (t *tensors) onlyFloats() error {
	in, out := t.program.Inputs(), t.program.Outputs()
	if len(in) != 1 || len(out) != 1 || in[0].DType != weir.F32 || out[0].DType != weir.F32 {
		return diag.Unsupportedf("beamweir.Floats for a model that has not just one input and one output of f32").
			WithFix("write a codec, and register it by beamweir.Register")
	}
	t.rowShape = []int{1}
	for _, e := range in[0].Shape[1:] {
		if e.Dim != "" {
			return diag.Unsupportedf("beamweir.Floats for an input with dimensions besides the rows").AtTensor(in[0].Name).
				AtDim(e.Dim).WithFix("write a codec, and register it by beamweir.Register")
		}
		t.rowShape = append(t.rowShape, int(e.Size))
	}
	return nil
}

// run runs an element, together with elements of all bundles. The inputs are made when the process has room for them.
func (t *tensors) run(ctx context.Context, inputs func() (weir.Inputs, error),
	result func(weir.Outputs) error) error {
	select {
	case t.places <- struct{}{}:
		defer func() { <-t.places }()
	case <-ctx.Done():
		return ctx.Err()
	}
	in, err := inputs()
	defer func() {
		for _, x := range in {
			if x, ok := x.(*weir.Tensor); ok && x != nil {
				x.Close()
			}
		}
	}()
	if err != nil {
		return err
	}
	return t.batcher.RunWith(ctx, in, func(out weir.Outputs) (err error) {
		defer diag.Recover(&err, "a codec")
		return result(out)
	})
}

func (t *tensors) most() int             { return cap(t.places) }
func (t *tensors) bytes() int64          { return t.held }
func (t *tensors) needs() (int64, error) { return t.batcher.Limit() }

func (t *tensors) runs() (count int64, rows float64) {
	s := t.batcher.Stats()
	return s.RunRows.Count, s.RunRows.Sum
}

func (t *tensors) close() error {
	err := t.batcher.Close()
	if e := t.program.Close(); err == nil {
		err = e
	}
	return err
}
