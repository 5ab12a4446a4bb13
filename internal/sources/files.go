package sources

import (
	"slices"
	"sync"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// Files are a model's files. It counts their users: the model until Shut, and each program compiled from it. Between
// compilations, only the bytes that programs read in place are mapped.
type Files struct {
	of interface {
		Blocks() []*mem.Block
		Close() error
	}
	mu      sync.Mutex
	users   int
	shut    bool
	readers int              // the number of users that may now read all bytes of the files
	partial bool             // the only reader has unmapped some bytes
	settled bool             // a program was compiled; until then all files stay mapped in full
	views   map[any][][]byte // the bytes that programs read in place
	pinned  map[any][][]byte // the share of views that every run may read, which a limit counts
}

// Mapped counts the bytes of the files that are mapped after a compilation, in full pages. Limits count all pages of
// files that lie in memory; of other files, whose pages the system may take back, they count Pinned alone.
type Mapped struct {
	All    int64 // that a limit counts when all files are mapped in full
	Left   int64 // that a limit counts at the end of the compilation, without Pinned
	Views  int64 // for the program alone
	Pinned int64 // the share of Views that a limit counts
	Copies int64 // copies of constants that are not aligned in a file
}

// NewFiles returns the files of a model, which uses them until Shut.
func NewFiles(of interface {
	Blocks() []*mem.Block
	Close() error
}) *Files {
	return &Files{of: of, users: 1, views: map[any][][]byte{}, pinned: map[any][][]byte{}}
}

// Shut ends the model's own use. Calling it twice is allowed.
func (f *Files) Shut() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return nil
	}
	f.shut = true
	return f.leave()
}

// Retain keeps the files for a program until Release, all mapped until Settle.
func (f *Files) Retain() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return diag.New(diag.ErrClosed, "the model is closed")
	}
	if err := f.open(); err != nil {
		return err
	}
	f.users++
	return nil
}

// Read maps all of the files until done is called.
func (f *Files) Read() (done func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return nil, err
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.endUse()
	}, nil
}

// Whole returns the bytes of the files that a limit counts when all of them are mapped.
func (f *Files) Whole() (bytes int64) {
	for _, b := range f.Blocks() {
		if !b.Reclaimable() {
			bytes += mem.WholePages(b.Size())
		}
	}
	return bytes
}

// Pinned returns the bytes that Settle will make a limit count for these data.
func (f *Files) Pinned(data [][]byte) (bytes int64) {
	for _, b := range f.Blocks() {
		if b.Kind() == mem.File && b.Reclaimable() {
			bytes += b.Kept(data)
		}
	}
	return bytes
}

// open maps all files in full for one more reader.
func (f *Files) open() error {
	if f.readers == 0 || f.partial {
		if err := f.mapAll(); err != nil {
			return err
		}
	}
	f.readers++
	return nil
}

// mapAll maps all files in full.
func (f *Files) mapAll() error {
	for _, b := range f.of.Blocks() {
		if err := b.KeepAll(); err != nil {
			if f.readers == 0 && f.settled {
				f.keep(nil)
			}
			return err
		}
	}
	f.partial = false
	return nil
}

// endUse ends the use that open began, and unmaps the bytes that no program reads in place.
func (f *Files) endUse() {
	if f.readers--; f.readers == 0 && f.settled {
		f.keep(nil)
	}
}

// keep unmaps the files except data and the programs' bytes.
func (f *Files) keep(data [][]byte) {
	data = slices.Clone(data)
	for _, list := range f.views {
		data = append(data, list...)
	}
	for _, b := range f.of.Blocks() {
		_ = b.Keep(data) // the system may keep pages mapped
	}
}

// Settle records the bytes that a compiled program reads in place, and those of them that a limit counts.
func (f *Files) Settle(program any, views, pinned [][]byte) (m Mapped) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.of.Blocks() {
		if !b.Reclaimable() {
			m.Left += b.Mapped()
			m.All += mem.WholePages(b.Size())
		}
		switch {
		case b.Kind() != mem.File:
			m.Copies += b.Mapped()
		case b.Reclaimable():
			m.Views += b.Kept(views)
			m.Pinned += b.Kept(pinned)
		default:
			m.Views += b.Kept(views)
			m.Pinned += b.Kept(views)
		}
	}
	f.views[program], f.pinned[program], f.settled = views, pinned, true
	f.pin()
	f.endUse()
	return m
}

// pin makes limits count the bytes that programs' runs read in place.
func (f *Files) pin() {
	var data [][]byte
	for _, list := range f.pinned {
		data = append(data, list...)
	}
	for _, b := range f.of.Blocks() {
		b.Pin(data)
	}
}

// Keep unmaps the files except data and the programs' bytes, during a compilation that has retained them. It does
// nothing if another reader uses the files.
func (f *Files) Keep(data [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers == 1 {
		f.partial = true
		f.keep(data)
	}
}

// Held returns the bytes of the files that a limit counts.
func (f *Files) Held() (bytes int64) {
	for _, b := range f.Blocks() {
		bytes += b.Held()
	}
	return bytes
}

// Release ends a program's use of the files, settled or not.
func (f *Files) Release(program any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, settled := f.views[program]; settled {
		delete(f.views, program)
		delete(f.pinned, program)
		f.pin()
		if f.readers == 0 {
			f.keep(nil)
		}
	} else {
		f.endUse()
	}
	return f.leave()
}

// Blocks returns the files, mapped or read.
func (f *Files) Blocks() []*mem.Block {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of.Blocks()
}

// leave ends one use; the last one closes the files.
func (f *Files) leave() error {
	if f.users--; f.users > 0 {
		return nil
	}
	return f.of.Close()
}
