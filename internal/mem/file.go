package mem

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/weirml/weir/internal/diag"
)

// Open opens a regular file for reading. A pipe, a device, a socket or a directory is an ErrInput that says so: it is
// refused before it is opened, since opening a pipe waits for its writer, and opening a device may act on it. If the
// process may open no more files, the error is an ErrMemory, else an ErrInput; all name the file.
func Open(path string) (*os.File, error) {
	return opened(path, func() (*os.File, error) {
		return ifRegular(path, func() (fs.FileInfo, error) { return os.Stat(path) },
			func() (*os.File, error) { return os.Open(path) })
	})
}

// ReadFile reads an entire regular file into Go's memory, with the errors of Open.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, diag.Inputf("%v", err).AtFile(path).WithCause(err)
	}
	return data, nil
}

// OpenIn is Open in a folder; paths cannot lead out of it.
func OpenIn(folder *os.Root, path string) (*os.File, error) {
	return opened(path, func() (*os.File, error) {
		return ifRegular(path, func() (fs.FileInfo, error) { return folder.Stat(path) },
			func() (*os.File, error) { return folder.Open(path) })
	})
}

// ifRegular opens a file if stat describes a regular one.
func ifRegular[T any](path string, stat func() (fs.FileInfo, error), open func() (T, error)) (t T, err error) {
	info, err := stat()
	if err != nil {
		return t, err
	}
	if err := irregular(info, path); err != nil {
		return t, err
	}
	return open()
}

// irregular returns an ErrInput that says what a file is, unless it is a regular one.
func irregular(info fs.FileInfo, path string) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return diag.Inputf("is %s, not a regular file", describe(info.Mode())).AtFile(path)
}

// OpenRoot opens a folder, as Open opens a file.
func OpenRoot(folder string) (*os.Root, error) {
	return opened(folder, func() (*os.Root, error) { return os.OpenRoot(folder) })
}

// OpenFS is Open in a file system. An entry of a zip file that would unpack to more than its packed bytes may claim is
// an ErrInput.
func OpenFS(files fs.FS, path string) (fs.File, error) {
	return opened(path, func() (fs.File, error) {
		return ifRegular(path, func() (fs.FileInfo, error) {
			info, err := fs.Stat(files, path)
			if err == nil {
				err = unpacks(info)
			}
			return info, err
		}, func() (fs.File, error) { return files.Open(path) })
	})
}

// unpacks returns an ErrInput for an entry of a zip file that states more bytes than its packed ones may claim.
func unpacks(info fs.FileInfo) error {
	h, ok := info.Sys().(*zip.FileHeader)
	if !ok || h.UncompressedSize64 <= uint64(Claimable(int64(min(h.CompressedSize64, math.MaxInt64)))) {
		return nil
	}
	return diag.Inputf("its %d bytes would unpack to %d, far more than they are", h.CompressedSize64, h.UncompressedSize64)
}

// CheckUnpacked returns an ErrInput for an open entry of a zip file that states more bytes than its packed ones may
// claim. Other files pass.
func CheckUnpacked(f fs.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return unpacks(info)
}

// MapFS is MapFile for an open file of any file system. A file that is not one of the operating system's is read into a
// block of kind File, which gets its pages as the bytes come: the size that the file states need not be true.
func MapFS(f fs.File, label string) (*Block, error) {
	if file, ok := f.(*os.File); ok {
		return MapFile(file, label)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, diag.Inputf("cannot be read").AtFile(label).WithCause(err)
	}
	if err := errors.Join(irregular(info, label), unpacks(info)); err != nil {
		return nil, err
	}
	b, err := MapGrowing(File, false, "", label, info.Size())
	if err != nil {
		return nil, err
	}
	if err := b.readFrom(f); err != nil {
		b.Close()
		if e := diag.As(err, diag.ErrInput); e.File == "" {
			return nil, e.AtFile(label)
		}
		return nil, err
	}
	return b, nil
}

// readFrom fills a growing block, which the file's bytes must fill exactly.
func (b *Block) readFrom(r io.Reader) error {
	data := b.Bytes()
	for at := 0; at < len(data); {
		step := data[at:min(len(data), at+readStep)]
		if err := b.Grow(int64(at + len(step))); err != nil {
			return err
		}
		n, err := io.ReadFull(r, step)
		if at += n; err != nil {
			return diag.Inputf("cannot be read at byte %d of %d: %w", at, len(data), err)
		}
	}
	switch n, err := io.ReadFull(r, make([]byte, 1)); {
	case n > 0:
		return diag.Inputf("it goes on after the %d bytes that it states", len(data))
	case err != io.EOF: // such as a wrong checksum
		return diag.Inputf("cannot be read: %w", err)
	}
	return nil
}

// opened counts the opening of a file, calls open, and gives its error a kind and the path.
func opened[T any](path string, open func() (T, error)) (t T, err error) {
	if Failing(Opening) {
		err = errInjected
	} else if t, err = open(); err == nil {
		return t, nil
	}
	if err == errInjected || tooMany(err) {
		return t, diag.New(diag.ErrMemory, "cannot be opened: %v", err).AtFile(path).WithCause(err).
			WithFix("close models and programs that are not needed, or let the process open more files")
	}
	if e := (*diag.Error)(nil); errors.As(err, &e) {
		if e.File == "" {
			e = e.AtFile(path)
		}
		return t, e
	}
	return t, diag.Inputf("%v", err).AtFile(path).WithCause(err)
}

// MapFile returns an entire regular file as a read-only block of kind File, shared with every other process that maps
// it. A device, a pipe or a directory is an ErrInput. The file may be closed afterwards; the package's comment says
// what happens when it changes. With WEIR_MAP=off in the environment, and on systems that cannot map, the file is read
// into memory instead.
func MapFile(f *os.File, label string) (*Block, error) {
	bytes, err := regular(f, label)
	if err != nil {
		return nil, err
	}
	if bytes == 0 || !outsideHeap || os.Getenv("WEIR_MAP") == "off" {
		return readFile(f, label, bytes)
	}
	b := &Block{kind: File, label: label, size: bytes, callers: callers(), reclaimable: !inMemory(f)}
	if Failing(Mapping) {
		return nil, refusal(b, errInjected)
	}
	if bytes > math.MaxInt-4*pageSize {
		return nil, refusal(b, errAddressSpace)
	}
	system, err := b.claimed(bytes, func() (mapping, error) { return mapFile(f, int(bytes), false) })
	if errors.Is(err, errors.ErrUnsupported) {
		return readFile(f, label, bytes)
	}
	if err != nil {
		return nil, refusal(b, err)
	}
	defer b.unclaimPages(roundUp(bytes))
	b.adopt(system)
	b.keep = newKeeper(b, f)
	enter(b)
	return b, nil
}

// regular returns the size of a regular file; an ErrInput for anything else.
func regular(f *os.File, label string) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, diag.Inputf("cannot be read").AtFile(label).WithCause(err)
	}
	return info.Size(), irregular(info, label)
}

// describe names a kind of file, for errors.
func describe(mode os.FileMode) string {
	for _, row := range []struct {
		bits os.FileMode
		name string
	}{{os.ModeDir, "a directory"}, {os.ModeNamedPipe, "a pipe"}, {os.ModeSocket, "a socket"},
		{os.ModeDevice, "a device"}} {
		if mode&row.bits != 0 {
			return row.name
		}
	}
	return "a special file"
}

// readFile returns a file's contents in memory of their own.
func readFile(f *os.File, label string, bytes int64) (*Block, error) {
	b, err := Map(File, label, bytes)
	if err != nil {
		return nil, err
	}
	err = b.ReadAt(f, 0, 0, bytes)
	if err == nil {
		err = b.Protect(true)
	}
	if err != nil {
		b.Close()
		var e *diag.Error
		if errors.As(err, &e) {
			return nil, e.AtFile(label)
		}
		return nil, err
	}
	return b, nil
}

// readStep is the number of bytes that ReadAt asks for at once, so that a failing read ends soon.
const readStep = 8 << 20

// ReadAt fills bytes [at, at+n) of the block with bytes [off, off+n) of a file, by reads at a position: no page of the
// file is mapped, so none counts as the process's own. A file that ends before is an ErrInput. The block must be
// writable, and the range inside it.
func (b *Block) ReadAt(f io.ReaderAt, at, off, n int64) error {
	if at < 0 || n < 0 || at > b.size || n > b.size-at {
		panic(diag.Internalf("mem: reading %d bytes to %d of a block of %d", n, at, b.size))
	}
	if off < 0 || off > math.MaxInt64-n {
		return diag.Inputf("the range of %d bytes at %d lies outside any file", n, off)
	}
	data := b.Bytes()
	if int64(len(data)) != b.size {
		return diag.New(diag.ErrClosed, "the memory of %s %s was given back", b.kind, b.label)
	}
	data = data[at : at+n]
	for len(data) > 0 {
		step := data[:min(len(data), readStep)]
		got, err := f.ReadAt(step, off)
		if got < len(step) {
			if err == nil || err == io.EOF {
				return diag.Inputf("the file ends at byte %d, %d bytes short", off+int64(got), len(data)-got)
			}
			return diag.Inputf("cannot be read at byte %d", off+int64(got)).WithCause(fmt.Errorf("%w", err))
		}
		data = data[got:]
		off += int64(got)
	}
	return nil
}
