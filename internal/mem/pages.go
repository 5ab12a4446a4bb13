package mem

import (
	"math"
	"os"

	"github.com/weirml/weir/internal/diag"
)

// MapPages returns a block of kind File, of zeros, whose pages lie in the process's own file, in a folder as NewSpill
// takes it. It can be written until Protect makes it read-only; written pages need not stay in memory, and are not
// counted as the process's anonymous memory. The file has all of its room from the start: writing to the block needs no
// more. Close removes the file. Errors are NewSpill's, and an ErrMemory if the block cannot be mapped. On systems that
// do not map files, the block is memory.
func MapPages(folder, label string, bytes int64) (*Block, error) {
	if bytes == 0 || !outsideHeap {
		return Map(File, label, bytes)
	}
	s, err := newPages(folder, label, bytes)
	if err != nil {
		return nil, err
	}
	b := &Block{kind: File, label: label, size: bytes, callers: callers(), pages: s, reclaimable: !inMemory(s.file)}
	if Failing(Mapping) {
		_ = s.remove()
		return nil, refusal(b, errInjected)
	}
	if bytes > math.MaxInt-4*pageSize {
		_ = s.remove()
		return nil, refusal(b, errAddressSpace)
	}
	system, err := b.claimed(bytes, func() (mapping, error) { return mapFile(s.file, int(bytes), true) })
	if err != nil {
		_ = s.remove()
		return nil, refusal(b, err)
	}
	defer b.unclaimPages(roundUp(bytes))
	b.adopt(system)
	if b.keep = newKeeper(b, s.file); b.keep != nil {
		b.keep.own = true
	}
	enter(b)
	return b, nil
}

// newPages makes a file that has all of its room.
func newPages(folder, label string, bytes int64) (*SpillFile, error) {
	s, err := newFile(folder, label, bytes)
	if err != nil {
		return nil, err
	}
	if err := refusedOr(Room, func() error { return s.sized(allocateOrWrite) }); err != nil {
		_ = s.remove()
		return nil, s.refused(err)
	}
	return s, nil
}

// InPages reports whether the block's pages lie in the process's own file.
func (b *Block) InPages() bool { return b.pages != nil }

// keepRoom gives back the disk room of the pages that Keep left out of the process's own file; their contents are lost.
func (b *Block) keepRoom(want []byteRange) {
	if b.pages == nil || b.pages.file == nil {
		return
	}
	for _, s := range without([]byteRange{{0, roundUp(b.size)}}, want) {
		punch(b.pages.file, s.first, s.last-s.first)
	}
}

// zeros is the number of bytes written at once to give a file its room, if the system has no call for that.
const zeros = 1 << 20

// allocateOrWrite calls allocate, or writes zeros if the system has no such call.
func allocateOrWrite(f *os.File, bytes int64) error {
	err := allocate(f, bytes)
	if err == nil || !isUnsupported(err) {
		return err
	}
	empty := make([]byte, min(zeros, bytes))
	for at := int64(0); at < bytes; at += zeros {
		if _, err := f.WriteAt(empty[:min(zeros, bytes-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// cutShort returns the error of a fault in a mapped file.
func (b *Block) cutShort() *diag.Error {
	if b.pages != nil {
		return diag.New(diag.ErrMemory, "the system could not read or write the file of %s (%d bytes) in %s", b.label, b.size,
			b.pages.folder).
			WithFix("look at its disk, or name another folder: --page-folder, Options.PageFolder, TMPDIR")
	}
	return diag.Inputf("the file was cut short after it was opened").AtFile(b.label).
		WithFix("replace a model by renaming a new file over it, or set WEIR_MAP=off")
}
