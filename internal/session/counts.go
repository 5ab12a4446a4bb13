package session

import (
	"sync/atomic"
	"time"

	"github.com/weirml/weir/internal/mem"
)

// Counts are the counters behind weir.Stats.
type Counts struct {
	Runs, Errors, Waits, Waiting, Running atomic.Int64 // Waiting and Running are in nanoseconds
}

// Ended counts a run as failed if *err is not nil, as succeeded otherwise. Defer it with the address of the result.
func (c *Counts) Ended(err *error) {
	if *err != nil {
		c.Errors.Add(1)
	} else {
		c.Runs.Add(1)
	}
}

// busy adds the duration of a run that began at begin.
func (c *Counts) busy(begin time.Time) { c.Running.Add(int64(time.Since(begin))) }

// waited counts a wait for a call that began at begin.
func (c *Counts) waited(begin time.Time) {
	c.Waits.Add(1)
	c.Waiting.Add(int64(time.Since(begin)))
}

// files are the mapped files of the model from which runs of a program read weights.
type files struct {
	blocks []*mem.Block
	seen   atomic.Int64 // the last check that found them unchanged, in nanoseconds since began; 0: none
}

// fresh is the time after a check of files in which they are not checked again.
const fresh = time.Millisecond

// began is the origin of files.seen.
var began = time.Now()

// Watch sets the files of the model that runs read weights from. The next run checks them.
func (s *Session) Watch(files []*mem.Block) {
	s.files.blocks = files
	s.files.seen.Store(0)
}

// Watched returns the files of the last Watch.
func (s *Session) Watched() []*mem.Block { return s.files.blocks }

// Unchanged returns an error if the size or modification time of a watched file has changed since it was loaded. It
// relies on a check that is younger than fresh.
func (s *Session) Unchanged() error {
	if len(s.files.blocks) == 0 {
		return nil
	}
	now := int64(time.Since(began))
	if seen := s.files.seen.Load(); seen > 0 && now-seen < int64(fresh) {
		return nil
	}
	for _, b := range s.files.blocks {
		if err := b.Unchanged(); err != nil {
			return s.options.InFile(err)
		}
	}
	s.files.seen.Store(now)
	return nil
}
