package mem

import (
	"math"

	"github.com/weirml/weir/internal/diag"
)

// MapGrowing is Map, and MapPages if inPages, for a block that is filled from its first byte on: it has no pages, and
// counts none, until Grow gives it some. On systems that cannot do so, it has all of them at once.
func MapGrowing(kind Kind, inPages bool, folder, label string, bytes int64) (*Block, error) {
	switch {
	case bytes < 0 || kind >= Kinds:
		panic(diag.Internalf("mem: a growing block of kind %d and %d bytes", kind, bytes))
	case !inParts && inPages:
		return MapPages(folder, label, bytes)
	case !inParts || bytes == 0:
		return Map(kind, label, bytes)
	}
	b := &Block{kind: kind, label: label, size: bytes, callers: callers(), grows: true}
	if bytes > math.MaxInt-4*pageSize {
		return nil, refusal(b, errAddressSpace)
	}
	if Failing(Pages) {
		return nil, refusal(b, errInjected)
	}
	if inPages {
		b.kind = File
		s, err := newPages(folder, label, bytes)
		if err != nil {
			return nil, err
		}
		b.pages, b.reclaimable = s, !inMemory(s.file)
	}
	system, err := reserve(int(bytes))
	if err != nil {
		if b.pages != nil {
			_ = b.pages.remove()
		}
		return nil, refusal(b, err)
	}
	system.file = inPages
	b.adopt(system)
	enter(b)
	return b, nil
}

// Grow gives a block of MapGrowing the pages of its first to bytes, as far as it lacks them. Goroutines must not
// grow a block at the same time.
func (b *Block) Grow(to int64) error {
	if !b.grows || b.closed.Load() {
		return nil
	}
	from := b.Mapped()
	to = roundUp(min(to, b.size))
	if to <= from {
		return nil
	}
	if err := b.claimPages(to - from); err != nil {
		return err
	}
	defer b.unclaimPages(to - from)
	var err error
	if b.pages != nil {
		err = b.system.show(b.pages.file, int(from), int(to), readWrite)
	} else {
		err = b.system.open(int(from), int(to), name(b.kind, b.label))
	}
	if err != nil {
		return refusal(b, err)
	}
	recount(b, b.size, to)
	if to == b.mapped && b.pages != nil {
		if b.keep = newKeeper(b, b.pages.file); b.keep != nil {
			b.keep.own = true
		}
	}
	return nil
}
