package mem

import (
	"cmp"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
)

// keeper lets some ranges of a mapped file stay mapped: the other pages keep their addresses, are in no count, and
// fault when they are read.
type keeper struct {
	lock     sync.Mutex
	file     *os.File // the mapped file, opened once more
	bytes    int64
	modified time.Time
	kept     []byteRange // sorted and disjoint
	own      bool        // it is the process's own file, which nobody else changes
	stat     stat        // room for the system's answer
}

// byteRange is bytes [first, last) of a file.
type byteRange struct{ first, last int64 }

// newKeeper returns nil if the system cannot map ranges of a file, or has no room for another open file.
func newKeeper(b *Block, f *os.File) *keeper {
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	file := again(f)
	if file == nil {
		return nil
	}
	return &keeper{file: file, bytes: info.Size(), modified: info.ModTime(), kept: []byteRange{{0, roundUp(b.size)}}}
}

// close closes the keeper's file.
func (k *keeper) close() {
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.file != nil {
		k.file.Close()
		k.file = nil
	}
}

// KeepAll maps the entire file again after Keep; a limit may refuse it. A file that was changed meanwhile is an
// ErrInput. It does nothing to other blocks.
func (b *Block) KeepAll() error { return b.keepOnly([]byteRange{{0, roundUp(b.size)}}) }

// Keep leaves only the pages of a mapped file that hold these data mapped; data outside the file are ignored. Other
// bytes of the file must not be read before KeepAll, or before a Keep that names them. It does nothing to other blocks,
// nor on systems that cannot map ranges of a file.
func (b *Block) Keep(data [][]byte) error {
	if b.keep == nil {
		return nil
	}
	return b.keepOnly(b.pageRanges(data))
}

// Kept returns the value that Mapped would have after Keep.
func (b *Block) Kept(data [][]byte) int64 {
	if b.keep == nil {
		return b.Mapped()
	}
	return total(joined(b.pageRanges(data)))
}

// pageRanges returns the pages of the block that hold data.
func (b *Block) pageRanges(data [][]byte) (want []byteRange) {
	base := uintptr(b.Pointer())
	for _, d := range data {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(d)))
		if len(d) == 0 || base == 0 || at < base || at-base >= uintptr(b.size) {
			continue
		}
		first := int64(at - base)
		want = append(want, byteRange{first / pageSize * pageSize, roundUp(min(first+int64(len(d)), b.size))})
	}
	return want
}

// keepOnly maps the wanted ranges that are not mapped, and unmaps all others.
func (b *Block) keepOnly(want []byteRange) error {
	k := b.keep
	if k == nil || b.closed.Load() {
		return nil
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.file == nil {
		return nil
	}
	want = joined(want)
	come, gone := without(want, k.kept), without(k.kept, want)
	if more := total(come); more > 0 {
		if !k.own && !k.unchanged() {
			return b.changed()
		}
		if err := b.claimPages(more); err != nil {
			return err
		}
		defer b.unclaimPages(more)
	}
	for i, s := range come {
		if err := b.system.show(k.file, int(s.first), int(s.last), readOnly); err != nil {
			for _, shown := range come[:i] {
				_ = b.system.hide(int(shown.first), int(shown.last))
			}
			return diag.New(diag.ErrMemory, "the system did not map a file again: %v", err).AtFile(b.label).WithCause(err)
		}
	}
	for _, s := range gone {
		if b.system.hide(int(s.first), int(s.last)) != nil { // the system allows no further mapping: these pages stay
			want = joined(append(want, s))
		}
	}
	k.kept = want
	b.keepRoom(want)
	recount(b, min(total(want), b.size), total(want))
	return nil
}

// Unchanged returns an ErrInput if a mapped file has another size or time of modification than when it was mapped; nil
// for other blocks, and on systems that do not copy descriptors. It allocates nothing and takes less than a
// microsecond.
func (b *Block) Unchanged() error {
	k := b.keep
	if k == nil {
		return nil
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.file != nil && !k.own && !k.unchanged() {
		return b.changed()
	}
	return nil
}

// changed returns the error of a file that was changed.
func (b *Block) changed() error {
	return diag.Inputf("the file was changed after it was loaded").AtFile(b.label).
		WithFix("load it again; replace a model by renaming a new file over it, or compile it with Options.Private")
}

// unclaimPages takes back what claimPages asked for.
func (b *Block) unclaimPages(bytes int64) {
	if !b.reclaimable {
		unclaim(bytes)
	}
}

// claimPages asks the limit for more pages of the block, unless the system may take them back.
func (b *Block) claimPages(bytes int64) error {
	if b.reclaimable {
		return nil
	}
	err := claim(bytes)
	if err != nil && Trim() > 0 {
		err = claim(bytes)
	}
	if err != nil {
		return refusal(&Block{kind: b.kind, label: b.label, size: bytes, callers: callers()}, err)
	}
	return nil
}

// joined sorts ranges and joins those that touch.
func joined(list []byteRange) (out []byteRange) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b byteRange) int { return cmp.Compare(a.first, b.first) })
	for _, s := range list {
		if n := len(out); n > 0 && s.first <= out[n-1].last {
			out[n-1].last = max(out[n-1].last, s.last)
		} else if s.first < s.last {
			out = append(out, s)
		}
	}
	return out
}

// without returns the bytes of list's ranges that lie in none of others; both are sorted and disjoint.
func without(list, others []byteRange) (out []byteRange) {
	for _, s := range list {
		for _, o := range others {
			if o.last <= s.first || o.first >= s.last {
				continue
			}
			if o.first > s.first {
				out = append(out, byteRange{s.first, o.first})
			}
			s.first = o.last
		}
		if s.first < s.last {
			out = append(out, s)
		}
	}
	return out
}

// total returns the sum of the ranges' sizes.
func total(list []byteRange) (bytes int64) {
	for _, s := range list {
		bytes += s.last - s.first
	}
	return bytes
}

// InFile reports whether data lie in a mapped file, or in one that was read instead.
func InFile(data []byte) bool {
	file, _ := fileOf(data)
	return file != nil
}
