package session

import (
	"context"
	"time"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
)

// StepTime is the number of executions of a step in one run, and their duration.
type StepTime struct {
	Count int
	Time  time.Duration
}

// Times runs the program runs times. It returns the sizes of the program's dimensions, and for each run a map from the
// steps that ran to their times. Donated and consumed arguments stay with the caller.
func (s *Session) Times(ctx context.Context, in Arguments, runs int) (dims []int64, list []map[program.Step]StepTime,
	err error) {
	defer diag.Recover(&err, "profiling")
	args, dims, err := s.bindInputs(ctx, in)
	defer args.release()
	if err != nil {
		return nil, nil, err
	}
	b, err := s.acquire(ctx, dims)
	if err != nil {
		return nil, nil, err
	}
	defer s.release(b)
	if err := args.copyAll(s); err != nil {
		return nil, nil, err
	}
	if err := s.Unchanged(); err != nil {
		return nil, nil, err
	}
	defer b.call.Time(nil)
	for range runs {
		times := map[program.Step]StepTime{}
		b.call.Time(func(step program.Step, took time.Duration) {
			t := times[step]
			times[step] = StepTime{t.Count + 1, t.Time + took}
		})
		if err := s.run(ctx, b.call, args.parts, args.states); err != nil {
			return nil, nil, err
		}
		list = append(list, times)
	}
	return dims, list, nil
}
