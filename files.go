package weir

import (
	"sync/atomic"
	"time"

	"github.com/weirml/weir/internal/mem"
)

// files are the model's mapped files that runs of a program read weights from.
type files struct {
	blocks []*mem.Block
	seen   atomic.Int64 // when they were last found unchanged, in nanoseconds since began
}

// fresh is for how long files that were found unchanged are not looked at again.
const fresh = time.Millisecond

var began = time.Now()

// readInPlace are the weights that runs read where they lie in the model's files.
func (p *Program) readInPlace() (list [][]byte) {
	for _, w := range p.compiled.Program.Weights {
		if w.Paged || !p.options.Private {
			list = append(list, w.Data)
		}
	}
	return list
}

// unchanged returns an error if a file that weights are read from was changed since it was loaded, as far as its
// size and its time of modification tell.
func (p *Program) unchanged() error {
	if len(p.files.blocks) == 0 {
		return nil
	}
	now := int64(time.Since(began))
	if seen := p.files.seen.Load(); seen > 0 && now-seen < int64(fresh) {
		return nil
	}
	for _, b := range p.files.blocks {
		if err := b.Unchanged(); err != nil {
			return inFile(err, p.model.file)
		}
	}
	p.files.seen.Store(now)
	return nil
}
