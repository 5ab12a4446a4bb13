package session

import (
	"errors"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// Detach makes the outputs independent of their run, as weir.Results.Detach does.
func (r *Results) Detach() (err error) {
	defer diag.Recover(&err, "detaching results")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.detached != nil {
		return nil
	}
	b, ok := r.use.Enter()
	if !ok {
		return diag.New(diag.ErrClosed, "the results are closed")
	}
	defer r.use.Leave()
	moves := &detaching{r: r, b: b, made: map[*Tensor]*Tensor{}}
	if err := moves.prepare(); err != nil {
		moves.undo()
		return err
	}
	if err := moves.move(); err != nil {
		return err
	}
	r.closed.Store(true)
	r.use.Shut()
	return nil
}

// detaching is the state of one Detach.
type detaching struct {
	r     *Results
	b     *bound
	taken []*Tensor           // the outputs' tensors, which nobody else can enter now
	made  map[*Tensor]*Tensor // by a tensor in taken: its copy, or the new tensor of its storage
}

// outputs returns the tensors of the results, without states.
func (r *Results) outputs() (list []*Tensor) {
	for _, t := range slices.Concat(append(r.lists, r.tensors)...) {
		if t != nil && t.of == r {
			list = append(list, t)
		}
	}
	return list
}

// prepare takes the outputs from other readers, and copies the outputs without storage of their own. After an error the
// caller calls undo.
func (d *detaching) prepare() error {
	for _, t := range d.r.outputs() {
		inner, ok := t.data.Enter()
		if !ok {
			continue // it is closed, or a run has consumed it
		}
		if !t.data.Take(true) {
			t.data.Leave()
			return diag.Inputf("it is read, while the results are detached").AtTensor(d.r.nameOf(t)).
				WithFix("wait for the run or the copy that reads it")
		}
		d.taken = append(d.taken, t)
		if t.block != nil || t.port >= 0 && d.r.session.owns[t.port] {
			continue
		}
		copied, err := copyOf(d.r.session.options.Account, inner)
		if err != nil {
			return diag.As(err, diag.ErrMemory).AtTensor(d.r.nameOf(t))
		}
		d.made[t] = copied
	}
	return nil
}

// copyOf returns a copy of a tensor in memory of its own, for which it asks account; strings are copied to Go's heap.
func copyOf(account mem.Account, inner *tensor.Tensor) (*Tensor, error) {
	if inner.DType() == dtype.String {
		return newTensor(inner.Clone(), nil, nil), nil
	}
	bytes := inner.Bytes()
	take := mem.TakeAgain
	if account != nil { // which grants whole pages, and none that are free
		take = mem.Map
	}
	block, err := mem.Granted(mem.Now, account, int64(len(bytes)), func() (*mem.Block, error) {
		return take(mem.Outputs, "output", int64(len(bytes)))
	})
	if err != nil {
		return nil, err
	}
	copy(block.Bytes(), bytes)
	copied, err := tensor.Over(inner.DType(), inner.Shape(), block.Bytes())
	if err != nil {
		block.Close()
		return nil, err
	}
	return newTensor(copied, block, nil), nil
}

// undo returns the outputs to their readers, and closes the copies.
func (d *detaching) undo() {
	for _, t := range d.made {
		t.Close()
	}
	for _, t := range d.taken {
		t.data.Open()
		t.data.Leave()
	}
}

// move gives the outputs' storage to new tensors, and replaces the old ones in the results.
func (d *detaching) move() error {
	for _, t := range d.taken {
		if d.made[t] != nil {
			continue
		}
		block := t.block
		if t.block = nil; block == nil {
			block = d.b.call.TakeOutput(t.port)
		}
		if block == nil {
			return diag.Internalf("output %s has no storage to hand over", d.r.nameOf(t))
		}
		inner, err := tensor.Over(t.dtype, t.shape, block.Bytes())
		if err != nil {
			return err
		}
		d.made[t] = newTensor(inner, block, nil)
	}
	d.r.detached = []*Tensor{}
	for _, list := range append(d.r.lists, d.r.tensors) {
		for i, t := range list {
			if moved := d.made[t]; moved != nil {
				list[i] = moved
				d.r.detached = append(d.r.detached, moved)
			}
		}
	}
	for _, t := range d.taken {
		t.data.Leave()
	}
	return nil
}

// nameOf returns the name of the output that a tensor belongs to.
func (r *Results) nameOf(t *Tensor) string {
	for i, name := range r.names {
		if r.tensors[i] == t || slices.Contains(r.lists[i], t) {
			return name
		}
	}
	return ""
}

// closeAll closes tensors, and returns their errors joined.
func closeAll(list []*Tensor) (failed error) {
	for _, t := range list {
		failed = errors.Join(failed, t.Close())
	}
	return failed
}
