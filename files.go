package weir

import (
	"sync/atomic"
	"time"

	"github.com/weirml/weir/internal/mem"
)

// files are the mapped files of the model from which runs of a program read weights.
type files struct {
	blocks []*mem.Block
	seen   atomic.Int64 // the time of the last check that found them unchanged, in nanoseconds since began
}

// fresh is the time after a check of files in which they are not checked again.
const fresh = time.Millisecond

var began = time.Now()

// readInPlace returns the weights that runs read directly from the mapping of the model's files.
func (p *Program) readInPlace() (list [][]byte) {
	for _, w := range p.compiled.Program.Weights {
		if w.Paged || !p.options.Private {
			list = append(list, w.Data)
		}
	}
	return list
}

// unchanged returns an error if the size or modification time of a file with weights has changed since it was loaded.
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
