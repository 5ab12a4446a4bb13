package onnx

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// external finds the data that a model keeps in other files. Each file is opened once, when its first tensor is asked
// for, and stays mapped until Close.
//
// A model may come from anywhere, so its locations are confined to the model's own folder: no absolute path, no "..",
// no symbolic link that leaves the folder, and only regular files. A folder is searched through os.Root, which enforces
// this even while others change the folder.
type external struct {
	open func(location string) (*mem.Block, error) // location is clean, relative, with slashes
	done func() error

	lock   sync.Mutex
	files  map[string]*mem.Block // by clean location
	copies []*mem.Block          // of tensors that are not aligned in their file
}

// externalIn finds external data in a folder, which is opened when the first tensor is read.
func externalIn(folder string) *external {
	var root *os.Root
	return &external{
		open: func(location string) (*mem.Block, error) {
			if root == nil {
				var err error
				if root, err = mem.OpenRoot(folder); err != nil {
					return nil, err
				}
			}
			// Opening a pipe would wait for its writer, so the file's kind is checked first.
			info, err := root.Stat(location)
			if err != nil {
				return nil, err
			}
			if !info.Mode().IsRegular() {
				return nil, errNotRegular
			}
			f, err := mem.OpenIn(root, location)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			return mem.MapFile(f, location)
		},
		done: func() error {
			if root == nil {
				return nil
			}
			return root.Close()
		},
	}
}

// externalFS finds external data in the folder of the file name of a file system, which itself decides where symbolic
// links lead. A file that is not one of the operating system's is read into memory of the ledger.
func externalFS(fsys fs.FS, name string) *external {
	return &external{
		open: func(location string) (*mem.Block, error) {
			location = path.Join(path.Dir(name), location)
			info, err := fs.Stat(fsys, location)
			if err != nil {
				return nil, err
			}
			if !info.Mode().IsRegular() {
				return nil, errNotRegular
			}
			f, err := mem.OpenFS(fsys, location)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			if file, ok := f.(*os.File); ok {
				return mem.MapFile(file, location)
			}
			block, err := mem.Map(mem.Weights, location, info.Size())
			if err != nil {
				return nil, err
			}
			if _, err := io.ReadFull(f, block.Bytes()); err != nil {
				block.Close()
				return nil, err
			}
			return block, nil
		},
		done: func() error { return nil },
	}
}

var errNotRegular = errors.New("it is not a regular file")

// clean returns a location without "." and doubled slashes; a location that is not allowed is an ErrInput.
func clean(location string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", diag.Inputf("external data at %.80q: %s", location, why).
			WithFix("keep the file beside the model, or below")
	}
	switch {
	case location == "":
		return refuse("the location is empty")
	case strings.ContainsRune(location, 0):
		return refuse("the location holds a NUL")
	case path.IsAbs(location):
		return refuse("the path is absolute")
	}
	for part := range strings.SplitSeq(location, "/") {
		if part == ".." {
			return refuse(`the path holds ".."`)
		}
	}
	location = path.Clean(location)
	if !fs.ValidPath(location) || !filepath.IsLocal(filepath.FromSlash(location)) || location == "." {
		return refuse("the path names no file of the model's folder")
	}
	return location, nil
}

// file returns the opened file at a clean location.
func (x *external) file(location string) (*mem.Block, error) {
	x.lock.Lock()
	defer x.lock.Unlock()
	if block := x.files[location]; block != nil {
		return block, nil
	}
	block, err := x.open(location)
	if err != nil {
		var known *diag.Error
		if errors.As(err, &known) { // memory that ran out, or a device that only the open file showed to be one
			return nil, known.AtFile(location)
		}
		return nil, diag.Inputf("external data: %w", err).AtFile(location).
			WithFix("keep the file beside the model, or below, where no link leads out")
	}
	if x.files == nil {
		x.files = map[string]*mem.Block{}
	}
	x.files[location] = block
	return block, nil
}

// Tensor returns a tensor whose data is in another file: a view of the mapped file if the bytes are aligned, otherwise
// a copy in the ledger's memory, of kind Weights. Both end with Close. A location that is refused or missing, an offset
// or length outside the file, and a length that differs from what the shape needs are ErrInput.
func (x *external) Tensor(t *wire.TensorProto) (*tensor.Tensor, error) {
	dt, err := t.ElementType()
	if err != nil {
		return nil, err
	}
	if dt == dtype.String {
		return nil, diag.Inputf("strings cannot lie in another file").AtTensor(t.Name)
	}
	entry, err := t.ExternalEntry()
	if err != nil {
		return nil, err
	}
	location, err := clean(entry.Location)
	if err != nil {
		return nil, diag.As(err, diag.ErrInput).AtTensor(t.Name)
	}
	size, err := t.Size()
	if err != nil {
		return nil, err
	}
	if entry.Length >= 0 && entry.Length != size {
		return nil, diag.Inputf("external data: the length is %d bytes where %s%s needs %d", entry.Length, dt,
			tensor.ShapeString(t.Dims), size).
			AtFile(location).AtTensor(t.Name)
	}
	block, err := x.file(location)
	if err != nil {
		return nil, diag.As(err, diag.ErrInput).AtTensor(t.Name)
	}
	if entry.Offset > block.Size() || size > block.Size()-entry.Offset {
		return nil, diag.Inputf("external data: %d bytes at offset %d do not lie in the file, which has %d", size,
			entry.Offset, block.Size()).
			AtFile(location).AtTensor(t.Name)
	}
	result, _, err := t.OverIn(block.Bytes()[entry.Offset:entry.Offset+size], func(bytes int64) ([]byte, error) {
		copied, err := mem.Map(mem.Weights, t.Name, bytes)
		if err != nil {
			return nil, err
		}
		x.lock.Lock()
		defer x.lock.Unlock()
		x.copies = append(x.copies, copied)
		return copied.Bytes(), nil
	})
	return result, err
}

// blocks returns the open files and the copies.
func (x *external) blocks() (list []*mem.Block) {
	x.lock.Lock()
	defer x.lock.Unlock()
	for _, block := range x.files {
		list = append(list, block)
	}
	return append(list, x.copies...)
}

// Close releases every file and copy. The tensors must not be used after it.
func (x *external) Close() error {
	x.lock.Lock()
	defer x.lock.Unlock()
	var all []error
	for _, block := range x.files {
		all = append(all, block.Close())
	}
	for _, block := range x.copies {
		all = append(all, block.Close())
	}
	x.files, x.copies = nil, nil
	return errors.Join(append(all, x.done())...)
}
