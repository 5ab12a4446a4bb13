package cpu

import (
	"time"

	"github.com/weirml/weir/internal/target"
)

// apart is what the tiles of a stage take, on one worker, for them to be handed over: about three times what a stage
// costs more on several workers.
const apart = 3 * time.Microsecond

// part is the tiles of a stage that one worker does. A worker has the same in each step, so that it finds what they
// read in its processor's caches.
type part struct {
	from, to int64
	tile     float64 // nanoseconds that one takes
	given    bool    // to the worker
	_        [39]byte
}

// follow does the tiles of a job that has a course, stage by stage: each by the whole team where that is expected to
// pay.
func (t *Team) follow(before *job, scratch [][]byte) error {
	j := t.job
	if len(j.stages) != len(j.Course.Stages) {
		j.stages = make([]pace, len(j.Course.Stages))
	}
	t.scratch, t.err, t.staged, t.wake = scratch, nil, true, false
	defer func() { t.staged = false }()
	if t.width > 1 {
		whole := j.handed()
		t.foresee(before, whole)
		if t.wake = whole >= waken; t.wake {
			t.gather()
		}
	}
	first := int64(0)
	stage := func(i int) error {
		n := j.Course.Stages[i]
		if n == 0 {
			return nil
		}
		if err := t.stage(&j.stages[i], first, n); err != nil {
			return err
		}
		first += n
		return t.breathe()
	}
	c := j.Course
	for i := 0; i < c.First; i++ {
		if err := stage(i); err != nil {
			return err
		}
	}
	for range c.Steps {
		for i := c.First; i < c.End; i++ {
			if err := stage(i); err != nil {
				return err
			}
		}
	}
	for i := c.End; i < len(c.Stages); i++ {
		if err := stage(i); err != nil {
			return err
		}
	}
	return nil
}

// handed is how long the stages take, on one worker, that are worth handing over.
func (j *job) handed() time.Duration {
	sum := 0.0
	for i, n := range j.Course.Stages {
		if took := j.stages[i].tile() * float64(n); n > 1 && took >= float64(apart) {
			if i >= j.Course.First && i < j.Course.End {
				took *= float64(j.Course.Steps)
			}
			sum += took
		}
	}
	return time.Duration(min(sum, 1e18))
}

// breathe is where a run that follows a course, between two stages, ends if it must and lets others compute. Helpers
// that it has given up come back when there are places.
func (t *Team) breathe() error {
	if t.ran <= slice && pool.waiting.Load() == 0 {
		return nil
	}
	if err := t.pause(); err != nil {
		return err
	}
	if t.wake && len(t.helpers) < t.width-1 && pool.waiting.Load() == 0 {
		t.gather()
	}
	return nil
}

// stage does n tiles from the one numbered first on.
func (t *Team) stage(p *pace, first, n int64) error {
	if p.tile() == 0 { // one tile tells whether there is work for helpers
		if t.alone(p, first, 1); t.err != nil || n == 1 {
			return t.err
		}
		first, n = first+1, n-1
	}
	tile := p.tile()
	workers := int64(1)
	if n > 1 && tile*float64(n) >= float64(apart) {
		workers = min(n, int64(1+len(t.helpers)))
	}
	if workers == 1 {
		t.alone(p, first, n)
		return t.err
	}
	if int64(len(t.parts)) < workers {
		t.parts = make([]part, max(workers, int64(t.width)))
	}
	for w := int64(1); w < workers; w++ {
		t.parts[w] = part{from: first + n*w/workers, to: first + n*(w+1)/workers, tile: tile}
		t.parts[w].given = t.helpers[w-1].offer(t, t.wake)
	}
	t.alone(p, first, n/workers)
	for w := int64(1); w < workers; w++ {
		if !t.parts[w].given || !t.helpers[w-1].finish() { // it sleeps, or has not begun
			t.part(0, &t.parts[w])
		}
	}
	t.shared = time.Now()
	return t.err
}

// alone does tiles of a stage on worker 0, and takes note of how long they took.
func (t *Team) alone(p *pace, first, n int64) {
	begin := time.Now()
	t.part(0, &part{from: first, to: first + n, tile: p.tile()})
	took := time.Since(begin)
	p.learn(n, took)
	t.ran += took
}

// part does a worker's part, in pieces that are not too long.
func (t *Team) part(worker int, p *part) {
	piece := p.to - p.from
	if p.tile*float64(piece) > float64(large) {
		piece = max(1, int64(float64(large)/p.tile))
	}
	for from := p.from; from < p.to; from += piece {
		if err := t.job.run(from, min(from+piece, p.to), t.scratch[worker]); err != nil {
			t.fail(from, err)
			return
		}
		if worker == 0 && from+piece < p.to && t.stop.Ended() {
			t.fail(from, target.ErrStopped)
			return
		}
	}
}
