package executor

import (
	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/target"
)

// splitter runs pieces of a host function's work on the workers of a run, as tiles of a kernel.
type splitter struct {
	target.Kernel // a team calls only Run
	do            func(c *hostop.Call, from, to int64) error
	ask           func() error
	job           device.Job // remembers how long a tile takes
}

// Run does tiles [from, to).
func (s *splitter) Run(_ *target.Args, from, to int64, _ []byte) error {
	return s.do(&hostop.Call{Ask: s.ask}, from, to)
}

// split implements hostop.Call.Split.
func (s *splitter) split(c *Call, count int64, do func(c *hostop.Call, from, to int64) error) error {
	s.do, s.ask = do, c.ctx.Err
	defer func() { s.do, s.ask = nil, nil }()
	s.job.Kernel, s.job.Tiles = s, count
	return c.team.Launch(&s.job, make([][]byte, c.x.threads))
}
