package encoder

import (
	"context"
	"slices"
	"sort"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// job is a text of a request.
type job struct {
	of   *request
	text Text
	out  []float32 // where its part of the output belongs
}

// tokens returns the number of the text's tokens.
func (j job) tokens() int { return len(j.text.IDs) }

// request is the texts of a call of Run that have not been taken for a run, and how the others end.
type request struct {
	ctx    context.Context
	prompt int64 // the tokens of the prompt
	jobs   []job // by their number of tokens, the longest last
	groups []int // where the groups of jobs end that are computed together; the last is the number of jobs
	left   int   // the texts whose results are not written
	done   chan struct{}
	err    error
	runs   []*active // in which texts of it are being computed
}

// active is a run in progress. It ends when no request waits for it any more.
type active struct {
	requests int
	cancel   context.CancelFunc
}

// queue has the requests that wait. Its workers are goroutines that exist while there is work.
type queue struct {
	of *Model

	mu       sync.Mutex
	requests []*request // that have jobs left
	next     int        // the index of the request whose turn is next
	workers  int
	idle     *sync.Cond // no worker is left
	closed   bool
}

// errClosed is the error of texts that a closed model does not compute.
func errClosed() error { return diag.New(diag.ErrClosed, "the model is closed") }

// add adds a request with at least one job.
func (q *queue) add(r *request) error {
	slices.SortStableFunc(r.jobs, func(a, b job) int { return a.tokens() - b.tokens() })
	r.groups = q.of.layout.groups(len(r.jobs), func(i int) int { return r.jobs[i].tokens() })
	r.left, r.done = len(r.jobs), make(chan struct{})
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed()
	}
	q.requests = append(q.requests, r)
	q.hire()
	return nil
}

// hire starts a worker if there may be another, under the lock.
func (q *queue) hire() {
	if q.workers < q.of.memory.Calls {
		q.workers++
		diag.Go("computing texts", func() error { q.work(); return nil }, func(error) {})
	}
}

// wait waits until a request has ended, or its context. Its texts that are being computed then end without it.
func (q *queue) wait(r *request) error {
	select {
	case <-r.done:
		return r.err
	case <-r.ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.left > 0 {
		q.end(r, context.Cause(r.ctx))
		for _, run := range r.runs {
			if run.requests--; run.requests == 0 {
				run.cancel()
			}
		}
	}
	return r.err
}

// end ends a request whose texts are not all computed, under the lock.
func (q *queue) end(r *request, err error) {
	if r.left == 0 {
		return
	}
	r.err, r.left, r.jobs = err, 0, nil
	q.drop(r)
	close(r.done)
}

// drop removes a request that has no jobs left, under the lock.
func (q *queue) drop(r *request) {
	if i := slices.Index(q.requests, r); i >= 0 {
		q.requests = slices.Delete(q.requests, i, i+1)
		if q.next > i {
			q.next--
		}
	}
}

// work runs groups of jobs until none is left.
func (q *queue) work() {
	a := &arguments{}
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() {
		if q.workers--; q.workers == 0 {
			q.idle.Broadcast()
		}
	}()
	for {
		group := q.group()
		if len(group) == 0 {
			return
		}
		if len(q.requests) > 0 {
			q.hire()
		}
		ctx, cancel := context.WithCancel(context.Background())
		run := &active{cancel: cancel}
		for _, j := range group {
			if r := j.of; !slices.Contains(r.runs, run) {
				r.runs = append(r.runs, run)
				run.requests++
			}
		}
		q.mu.Unlock()
		q.compute(ctx, a, group)
		cancel()
		q.mu.Lock()
		for _, j := range group {
			if at := slices.Index(j.of.runs, run); at >= 0 {
				j.of.runs = slices.Delete(j.of.runs, at, at+1)
			}
		}
	}
}

// compute runs a group, and tells its requests. A group that fails is run in halves, without the requests that have
// ended: other texts may be why there is not enough memory for one, or one text may be why the others fail.
func (q *queue) compute(ctx context.Context, a *arguments, group []job) {
	if len(group) == 0 {
		return
	}
	err := q.of.run(ctx, a, group)
	if n := len(group); n > 1 && err != nil && ctx.Err() == nil {
		q.compute(ctx, a, q.waiting(group[:n/2]))
		q.compute(ctx, a, q.waiting(group[n/2:]))
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range group {
		switch r := j.of; {
		case err != nil:
			q.end(r, err)
		case r.left > 0:
			if r.left--; r.left == 0 {
				close(r.done)
			}
		}
	}
}

// waiting returns the jobs whose requests wait for them.
func (q *queue) waiting(group []job) (list []job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range group {
		if j.of.left > 0 {
			list = append(list, j)
		}
	}
	return list
}

// group takes jobs that are computed together, under the lock: the longest texts of the request whose turn it is and,
// if there is room for more, texts of other requests that are about as long. It is empty if nothing waits.
func (q *queue) group() (group []job) {
	if len(q.requests) == 0 {
		return nil
	}
	if q.next >= len(q.requests) {
		q.next = 0
	}
	all := slices.Concat(q.requests[q.next:], q.requests[:q.next])
	q.next++
	bytes := q.of.layout.bytes
	if room := q.of.options.Room; room != nil {
		bytes = min(bytes, room())
	}
	end := len(all[0].jobs)
	longest := all[0].jobs[end-1].tokens()
	most := q.of.layout.most(longest, bytes)
	begin := max(0, end-most)
	if n := len(all[0].groups); n > 1 {
		begin = max(begin, all[0].groups[n-2])
	}
	group = q.take(group, all[0], begin, end)
	for _, r := range all[1:] {
		if len(group) >= most {
			break
		}
		if r.prompt != all[0].prompt || len(r.groups) > 1 { // texts of more than one group have others of their length
			continue
		}
		end := sort.Search(len(r.jobs), func(k int) bool { return r.jobs[k].tokens() > longest })
		begin := end
		for begin > 0 && len(group)+end-begin < most && longest-r.jobs[begin-1].tokens() <= runCost {
			begin--
		}
		group = q.take(group, r, begin, end)
	}
	return group
}

// take moves jobs of a request into a group, under the lock.
func (q *queue) take(group []job, r *request, begin, end int) []job {
	group = append(group, r.jobs[begin:end]...)
	if r.jobs = slices.Delete(r.jobs, begin, end); len(r.jobs) == 0 {
		q.drop(r)
		return group
	}
	for n := len(r.groups); n > 1 && r.groups[n-2] >= len(r.jobs); n-- {
		r.groups = r.groups[:n-1]
	}
	r.groups[len(r.groups)-1] = len(r.jobs)
	return group
}

// close refuses further requests, ends those that wait, and waits for the workers.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for len(q.requests) > 0 {
		q.end(q.requests[0], errClosed())
	}
	for q.workers > 0 {
		q.idle.Wait()
	}
}

// arguments are a worker's memory for the inputs of its runs.
type arguments struct{ ids, mask, types []int64 }

// fill writes a group's ids, mask and types, padded to columns.
func (a *arguments) fill(group []job, rows, columns int) {
	for _, data := range []*[]int64{&a.ids, &a.mask, &a.types} {
		if n := rows * columns; n > len(*data) {
			*data = make([]int64, max(n, mostTogether))
		} else {
			clear((*data)[:n])
		}
	}
	for i, j := range group {
		at := i * columns
		for k, id := range j.text.IDs {
			a.ids[at+k], a.mask[at+k] = int64(id), 1
		}
		for k, t := range j.text.Types {
			a.types[at+k] = int64(t)
		}
	}
}

// run computes a group, and writes its results.
func (m *Model) run(ctx context.Context, a *arguments, group []job) (err error) {
	defer diag.Recover(&err, "computing texts")
	longest := 0
	for _, j := range group {
		longest = max(longest, j.tokens())
	}
	l := &m.layout
	rows, columns := l.shape(len(group), longest)
	a.fill(group, rows, columns)
	in := weir.Inputs{}
	for _, input := range l.inputs {
		data, shape := a.ids[:rows*columns], []int{rows, columns}
		switch input.role {
		case mask:
			data = a.mask[:rows*columns]
		case types:
			data = a.types[:rows*columns]
		case prompt:
			data, shape = []int64{group[0].of.prompt}, []int{1}
		}
		t, err := weir.FromSlice(data, shape...)
		if err != nil {
			return err
		}
		in[input.name] = t
	}
	out, err := m.program.Run(ctx, in)
	if err != nil {
		return err
	}
	defer out.Close()
	data, err := weir.View[float32](out.At(0))
	if err != nil {
		return err
	}
	each := len(data) / rows
	m.queue.mu.Lock()
	defer m.queue.mu.Unlock()
	for i, j := range group {
		if j.of.left > 0 { // otherwise the memory is its caller's again
			copy(j.out, data[i*each:(i+1)*each])
		}
	}
	return nil
}
