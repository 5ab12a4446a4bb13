package cpu

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/target"
)

// slow is a kernel whose tiles take a time; only its Run may be called.
type slow struct {
	target.Kernel
	tile time.Duration
	runs atomic.Int64
	fail int64 // the tile that fails; −1: none
}

var errTile = errors.New("a tile")

func (k *slow) Run(_ *target.Args, begin, end int64, _ []byte) error {
	for i := begin; i < end; i++ {
		k.runs.Add(1)
		if i == k.fail {
			return errTile
		}
		time.Sleep(k.tile)
	}
	return nil
}

// TestStop: a launch of many tiles ends soon after Stop is closed, on one worker and on several, and without it runs
// each tile once.
func TestStop(t *testing.T) {
	for _, width := range []int{1, 2} {
		var team Team
		if err := team.Enter(width, target.Stop{}); err != nil {
			t.Fatal(err)
		}
		scratch := make([][]byte, 2)
		for _, tiles := range []int64{1, 2, 1000} {
			k := &slow{fail: -1}
			stop := make(chan struct{})
			team.stop.Done = stop
			if err := team.Launch(&device.Job{Kernel: k, Tiles: tiles}, scratch); err != nil || k.runs.Load() != tiles {
				t.Errorf("%d workers ran %d of %d tiles: %v", width, k.runs.Load(), tiles, err)
			}
		}
		k := &slow{tile: time.Millisecond, fail: -1}
		stop := make(chan struct{})
		team.stop.Done = stop
		time.AfterFunc(5*time.Millisecond, func() { close(stop) })
		begin := time.Now()
		if err := team.Launch(&device.Job{Kernel: k, Tiles: 1 << 40}, scratch); err != target.ErrStopped {
			t.Errorf("%d workers: %v", width, err)
		}
		if took := time.Since(begin); took > 500*time.Millisecond {
			t.Errorf("%d workers stopped after %v", width, took)
		}
		team.stop.Done = make(chan struct{})
		if err := team.Launch(&device.Job{Kernel: &slow{fail: 7}, Tiles: 100}, scratch); err != errTile {
			t.Errorf("%d workers: %v", width, err)
		}
		team.Leave()
	}
}
