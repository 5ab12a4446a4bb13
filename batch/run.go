package batch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/traced"
)

// execute runs requests as one. If that fails, it runs each by itself, and each gets its own results or error. Then the
// call is free for the next run.
func (b *Batcher) execute(list []*request) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.finish(len(list))
	}()
	if len(list) > 1 {
		if b.together(list) == nil {
			return
		}
		b.counts.retries.Add(1)
	}
	for _, r := range list {
		r.mu.Lock() // its caller stays while its inputs are read
		if r.state == left {
			b.room.give(r.rows)
		} else {
			outputs, err := b.single(r)
			b.end(r, outputs, err)
		}
		r.mu.Unlock()
	}
}

// failRun ends the requests of a run that a bug of the batcher has ended, if err is one.
func (b *Batcher) failRun(list []*request, err error) {
	if err == nil {
		return
	}
	for _, r := range list {
		r.mu.Lock()
		if r.state == waiting {
			b.end(r, nil, err)
		}
		r.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = cmp.Or(b.failed, err)
}

// end gives a request its outputs or its error, and reports whether its caller still waits for them. The caller holds
// the request's lock.
func (b *Batcher) end(r *request, outputs []*weir.Tensor, err error) bool {
	if r.state == left {
		closeAll(outputs)
		b.room.give(r.rows)
		return false
	}
	if r.state, r.err = made, err; err == nil && !r.lent {
		r.results = &Results{names: b.shape.names, tensors: outputs, close: sync.OnceValue(func() error {
			defer b.room.give(r.rows)
			return closeAll(outputs)
		})}
	} else {
		b.room.give(r.rows)
	}
	close(r.done)
	return true
}

// single runs a request by itself. It reads the caller's memory, and stops when the caller's context ends.
func (b *Batcher) single(r *request) (outputs []*weir.Tensor, err error) {
	defer diag.Recover(&err, "running a request")
	in := weir.Inputs{}
	for i, info := range b.shape.inputs {
		in[info.Name] = r.in[i]
	}
	g, err := b.ask(r.ctx, []*request{r}, false)
	if err != nil {
		return nil, err
	}
	defer g.end()
	begun := time.Now()
	out, err := b.program.Run(r.ctx, in)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	b.counts.rows.add(int64(r.rows), 1)
	b.measured([]*request{r}, time.Since(begun))
	if r.use != nil {
		r.lent = true
		return nil, r.use(out)
	}
	return b.rowsOf(g, out, 0, r.rows, r.rows, false)
}

// together runs requests as one. It ends all of them if it succeeds, and none if it returns an error.
func (b *Batcher) together(list []*request) (err error) {
	defer diag.Recover(&err, "running a batch")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.depart(list, cancel)
	g, err := b.ask(ctx, list, true)
	if err != nil {
		return err
	}
	defer g.end()
	begun := time.Now()
	in, err := b.join(g, list)
	defer func() {
		for _, a := range in {
			a.(*weir.Tensor).Close()
		}
	}()
	if err != nil {
		return err
	}
	out, err := b.program.Run(ctx, in)
	if err != nil {
		return err
	}
	defer out.Close()
	rows := 0
	for _, r := range list {
		rows += r.rows
	}
	b.counts.rows.add(int64(rows), 1)
	b.measured(list, time.Since(begun))
	slices, at := make([][]*weir.Tensor, len(list)), 0
	for i, r := range list {
		if slices[i], err = b.rowsOf(g, out, at, at+r.rows, rows, r.use != nil); err != nil {
			for _, s := range slices {
				closeAll(s)
			}
			return err
		}
		at += r.rows
	}
	for i, r := range list {
		r.mu.Lock()
		if b.end(r, slices[i], nil) && r.use != nil {
			defer func() { <-r.used }() // before out is closed
		}
		r.mu.Unlock()
	}
	return nil
}

// depart makes requests a joint run. cancel is called once all callers have left.
func (b *Batcher) depart(list []*request, cancel context.CancelFunc) {
	run := &joint{cancel: cancel}
	for _, r := range list {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.run = run; r.state != left {
			run.callers.Add(1)
		}
	}
	if run.callers.Load() == 0 {
		cancel()
	}
}

// join copies the inputs of requests, one after the other, into tensors that the caller must close, even after an
// error.
func (b *Batcher) join(g *grant, list []*request) (in weir.Inputs, err error) {
	rows := 0
	for _, r := range list {
		r.mu.Lock()
		defer r.mu.Unlock()
		rows += r.rows
	}
	in = weir.Inputs{}
	for i, info := range b.shape.inputs {
		shape := list[0].in[i].Shape()
		shape[0] = rows
		t, err := g.tensor(info.DType, shape)
		if err != nil {
			return in, err
		}
		in[info.Name] = t
		data, at := t.Bytes(), 0
		for _, r := range list {
			if r.state == left { // its inputs are its caller's again
				at += len(data) / rows * r.rows
				continue
			}
			from, leave, err := traced.Enter(r.in[i])
			if err != nil {
				return in, err
			}
			at += copy(data[at:], from)
			leave()
		}
		if at != len(data) {
			return in, diag.Internalf("%d bytes of the %d of %s are joined", at, len(data), info)
		}
	}
	return in, nil
}

// rowsOf copies, into granted memory, rows [from, to) of outputs that have the given number of rows; or, if they are
// lent, it returns them in the memory of out.
func (b *Batcher) rowsOf(g *grant, out *weir.Results, from, to, rows int, lent bool) (outputs []*weir.Tensor,
	err error) {
	defer func() {
		if err != nil {
			closeAll(outputs)
			outputs = nil
		}
	}()
	for i, info := range b.shape.outputs {
		output := out.At(i)
		shape, data := output.Shape(), output.Bytes()
		if shape[0] != rows {
			return outputs, diag.Internalf("output %s is %s, of %d rows", info.Name, output, rows)
		}
		shape[0] = to - from
		each := len(data) / rows
		data = data[from*each : to*each]
		if lent && len(data) > 0 {
			t, err := weir.Foreign(output.DType(), unsafe.Pointer(&data[0]), weir.ReadOnly, nil, shape...)
			if err != nil {
				return outputs, err
			}
			outputs = append(outputs, t)
			continue
		}
		t, err := g.tensor(output.DType(), shape)
		if err != nil {
			return outputs, err
		}
		outputs = append(outputs, t)
		copy(t.Bytes(), data)
	}
	return outputs, nil
}

// closeAll closes tensors and returns their errors joined.
func closeAll(list []*weir.Tensor) error {
	var all []error
	for _, t := range list {
		all = append(all, t.Close())
	}
	return errors.Join(all...)
}
