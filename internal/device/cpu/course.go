package cpu

import (
	"time"

	"github.com/weirml/weir/internal/target"
)

// stageWorth is the least time of a stage's tiles on one worker for which several workers pay: about three times the
// cost of dividing a stage.
const stageWorth = 3 * time.Microsecond

// quota is the tiles of a stage that one worker runs. A worker has the same tiles in each step, so that their operands
// are in its processor's caches.
type quota struct {
	from, to int64
	tile     float64 // estimated nanoseconds of a tile
	given    bool    // the worker accepted it
	_        [39]byte
}

// follow runs the tiles of a job with a course, stage by stage, each on the entire team if that is expected to pay.
func (t *Team) follow(before *job, scratch [][]byte) error {
	j := t.job
	if len(j.stages) != len(j.Course.Stages) {
		j.stages = make([]pace, len(j.Course.Stages))
	}
	t.scratch, t.err, t.staged, t.wake = scratch, nil, true, false
	defer func() { t.staged = false }()
	if t.width > 1 {
		total := j.handed()
		t.foresee(before, total)
		if t.wake = total >= waken; t.wake {
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
		return t.betweenStages()
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

// handed returns the estimated time on one worker of the stages for which several workers pay.
func (j *job) handed() time.Duration {
	sum := 0.0
	for i, n := range j.Course.Stages {
		if took := j.stages[i].tile() * float64(n); n > 1 && took >= float64(stageWorth) {
			if i >= j.Course.First && i < j.Course.End {
				took *= float64(j.Course.Steps)
			}
			sum += took
		}
	}
	return time.Duration(min(sum, 1e18))
}

// betweenStages pauses a run that follows a course: it returns ErrStopped if the run must end, and lets others compute.
// It gets helpers back that the team gave up, if there are slots.
func (t *Team) betweenStages() error {
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

// stage runs the n tiles of a stage from number first on.
func (t *Team) stage(p *pace, first, n int64) error {
	if p.tile() == 0 { // the time of one tile shows whether helpers pay
		if t.alone(p, first, 1); t.err != nil || n == 1 {
			return t.err
		}
		first, n = first+1, n-1
	}
	tile := p.tile()
	workers := int64(1)
	if n > 1 && tile*float64(n) >= float64(stageWorth) {
		workers = min(n, int64(1+len(t.helpers)))
	}
	if workers == 1 {
		t.alone(p, first, n)
		return t.err
	}
	if int64(len(t.quotas)) < workers {
		t.quotas = make([]quota, max(workers, int64(t.width)))
	}
	for w := int64(1); w < workers; w++ {
		t.quotas[w] = quota{from: first + n*w/workers, to: first + n*(w+1)/workers, tile: tile}
		t.quotas[w].given = t.helpers[w-1].offer(t, t.wake)
	}
	t.alone(p, first, n/workers)
	for w := int64(1); w < workers; w++ {
		if !t.quotas[w].given || !t.helpers[w-1].finish() { // the helper is parked, or has not begun
			t.runQuota(0, &t.quotas[w])
		}
	}
	t.shared = time.Now()
	return t.err
}

// alone runs tiles of a stage on worker 0, and records their time.
func (t *Team) alone(p *pace, first, n int64) {
	begin := time.Now()
	t.runQuota(0, &quota{from: first, to: first + n, tile: p.tile()})
	took := time.Since(begin)
	p.learn(n, took)
	t.ran += took
}

// runQuota runs a worker's quota, in pieces of at most the time large.
func (t *Team) runQuota(worker int, q *quota) {
	piece := q.to - q.from
	if q.tile*float64(piece) > float64(large) {
		piece = max(1, int64(float64(large)/q.tile))
	}
	for from := q.from; from < q.to; from += piece {
		if err := t.job.run(from, min(from+piece, q.to), t.scratch[worker]); err != nil {
			t.fail(from, err)
			return
		}
		if worker == 0 && from+piece < q.to && t.stop.Ended() {
			t.fail(from, target.ErrStopped)
			return
		}
	}
}
