package sources

import (
	"slices"
	"sync"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// Files are a model's files. It counts who reads them: the model until Shut, and each program compiled from it. Between
// compilations only what programs read of the files in place is mapped.
type Files struct {
	of interface {
		Blocks() []*mem.Block
		Close() error
	}
	mu      sync.Mutex
	users   int
	shut    bool
	readers int              // who may read all of the files now
	partial bool             // the one that reads them let go of some
	settled bool             // a program was compiled: until then all of the files stay mapped
	views   map[any][][]byte // what programs read in place
}

// Mapped is what is mapped of files once a program is compiled, in bytes of whole pages.
type Mapped struct {
	All    int64 // of all files, if they are mapped whole
	Left   int64 // in the end of the compilation
	Views  int64 // for the program alone
	Copies int64 // of copies of what does not lie aligned in a file
}

// NewFiles are the files of a model, which uses them.
func NewFiles(of interface {
	Blocks() []*mem.Block
	Close() error
}) *Files {
	return &Files{of: of, users: 1, views: map[any][][]byte{}}
}

// Shut ends the model's own use. Twice is fine.
func (f *Files) Shut() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return nil
	}
	f.shut = true
	return f.leave()
}

// Retain keeps the files for a program, with all of them mapped until Settle; Release ends that.
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

// Read has all of the files mapped until done is called.
func (f *Files) Read() (done func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return nil, err
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.rest()
	}, nil
}

// open has all of the files mapped for one more reader.
func (f *Files) open() error {
	if f.readers == 0 || f.partial {
		if err := f.whole(); err != nil {
			return err
		}
	}
	f.readers++
	return nil
}

// whole has all of the files mapped.
func (f *Files) whole() error {
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

// rest ends what open began. What no program reads in place is mapped no more.
func (f *Files) rest() {
	if f.readers--; f.readers == 0 && f.settled {
		f.keep(nil)
	}
}

// keep lets go of what neither data nor programs lie in.
func (f *Files) keep(data [][]byte) {
	data = slices.Clone(data)
	for _, list := range f.views {
		data = append(data, list...)
	}
	for _, b := range f.of.Blocks() {
		_ = b.Keep(data) // what the system does not take back stays
	}
}

// Settle says what a program reads of the files in place, now that it is compiled.
func (f *Files) Settle(program any, views [][]byte) (m Mapped) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.of.Blocks() {
		m.Left += b.Mapped()
		m.All += mem.WholePages(b.Size())
		if b.Kind() == mem.File {
			m.Views += b.Kept(views)
		} else {
			m.Copies += b.Mapped()
		}
	}
	f.views[program], f.settled = views, true
	f.rest()
	return m
}

// Keep lets go, for a compilation that has retained the files, of what neither data nor programs lie in, unless
// somebody else reads the files now.
func (f *Files) Keep(data [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers == 1 {
		f.partial = true
		f.keep(data)
	}
}

// All has, for a compilation, all of the files mapped again.
func (f *Files) All() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.whole()
}

// Mapped is what is mapped of the files.
func (f *Files) Mapped() (bytes int64) {
	for _, b := range f.Blocks() {
		bytes += b.Mapped()
	}
	return bytes
}

// Release ends a program's use of the files. It may not have settled.
func (f *Files) Release(program any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, settled := f.views[program]; settled {
		delete(f.views, program)
		if f.readers == 0 {
			f.keep(nil)
		}
	} else {
		f.rest()
	}
	return f.leave()
}

// Blocks are the files, mapped or read.
func (f *Files) Blocks() []*mem.Block {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of.Blocks()
}

func (f *Files) leave() error {
	if f.users--; f.users > 0 {
		return nil
	}
	return f.of.Close()
}
