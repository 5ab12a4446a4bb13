package onnx

import (
	"errors"
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

	claim *mem.Claim // of the model and these files

	lock    sync.Mutex
	files   map[string]*mem.Block                 // by clean location
	charged map[*wire.TensorProto]bool            // the tensors that were charged to the claim
	copies  map[wire.ExternalEntry]*tensor.Tensor // of truth values that are not all 0 or 1
}

// externalIn finds external data in a folder, which is opened when the first tensor is read.
func externalIn(claim *mem.Claim, folder string) *external {
	var root *os.Root
	return &external{
		claim: claim,
		open: func(location string) (*mem.Block, error) {
			if root == nil {
				var err error
				if root, err = mem.OpenRoot(folder); err != nil {
					return nil, err
				}
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
func externalFS(claim *mem.Claim, fsys fs.FS, name string) *external {
	return &external{
		claim: claim,
		open: func(location string) (*mem.Block, error) {
			location = path.Join(path.Dir(name), location)
			f, err := mem.OpenFS(fsys, location)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			return mem.MapFS(f, location)
		},
		done: func() error { return nil },
	}
}

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
		known := diag.As(err, diag.ErrInput)
		if known.Kind != diag.ErrInput { // memory that ran out
			return nil, known.AtFile(location)
		}
		reason := known.Err
		if reason == nil {
			reason = errors.New(known.Detail)
		}
		return nil, diag.Inputf("external data: %w", reason).AtFile(location).
			WithFix("keep the file beside the model, or below, where no link leads out")
	}
	if x.files == nil {
		x.files = map[string]*mem.Block{}
	}
	x.files[location] = block
	x.claim.Extend(block.Size())
	return block, nil
}

// Tensor returns a tensor whose data is in another file: a view of the mapped file, aligned or not, which ends with
// Close. A location that is refused or missing, an offset or length outside the file, a length that differs from what
// the shape needs, and tensors that together claim far more than the files have are ErrInput.
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
	if err := x.charge(t, size); err != nil {
		return nil, err
	}
	data := block.Bytes()[entry.Offset : entry.Offset+size]
	if dt != dtype.Bool {
		return tensor.Over(dt, t.Dims, data)
	}
	return x.truths(t, wire.ExternalEntry{Location: location, Offset: entry.Offset, Length: size}, data)
}

// charge charges a tensor's bytes to the claim, once for each tensor: tensors may share bytes of a file, and a program
// has memory for each.
func (x *external) charge(t *wire.TensorProto, size int64) error {
	x.lock.Lock()
	defer x.lock.Unlock()
	if x.charged[t] {
		return nil
	}
	if err := x.claim.TakeFor(t.Name, size); err != nil {
		return err
	}
	if x.charged == nil {
		x.charged = map[*wire.TensorProto]bool{}
	}
	x.charged[t] = true
	return nil
}

// truths returns truth values: a view, or a copy of the ledger's memory if some are neither 0 nor 1.
func (x *external) truths(t *wire.TensorProto, at wire.ExternalEntry, data []byte) (*tensor.Tensor, error) {
	x.lock.Lock()
	defer x.lock.Unlock()
	if c := x.copies[at]; c != nil {
		return tensor.Over(dtype.Bool, t.Dims, c.Bytes())
	}
	result, borrowed, err := t.OverIn(data, func(bytes int64) ([]byte, error) {
		copied, err := x.claim.Map(mem.Weights, t.Name, bytes)
		if err != nil {
			return nil, err
		}
		return copied.Bytes(), nil
	})
	if err == nil && !borrowed {
		if x.copies == nil {
			x.copies = map[wire.ExternalEntry]*tensor.Tensor{}
		}
		x.copies[at] = result
	}
	return result, err
}

// blocks returns the open files.
func (x *external) blocks() (list []*mem.Block) {
	x.lock.Lock()
	defer x.lock.Unlock()
	for _, block := range x.files {
		list = append(list, block)
	}
	return list
}

// Close releases every file. The tensors must not be used after it.
func (x *external) Close() error {
	x.lock.Lock()
	defer x.lock.Unlock()
	var all []error
	for _, block := range x.files {
		all = append(all, block.Close())
	}
	x.files, x.copies = nil, nil
	return errors.Join(append(all, x.done())...)
}
