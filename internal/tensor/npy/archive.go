package npy

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// Archive is an open .npz file: a zip file of .npy files, stored or deflated.
type Archive struct {
	size    int64
	claim   *mem.Claim // of all arrays, each once
	names   []string
	files   map[string]*zip.File
	charged map[string]bool
}

// Open reads the directory of a .npz file of size bytes. r must stay readable as long as the archive is used.
func Open(r io.ReaderAt, size int64) (*Archive, error) {
	directory, err := zip.NewReader(r, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // nothing is written to a path
		return nil, diag.Inputf("not a .npz file: %w", err)
	}
	a := &Archive{size: size, claim: mem.NewClaim(context.Background(), size), files: map[string]*zip.File{},
		charged: map[string]bool{}}
	for _, file := range directory.File {
		name, ok := strings.CutSuffix(file.Name, ".npy")
		if !ok {
			continue
		}
		if a.files[name] != nil {
			return nil, diag.Inputf("the archive holds %q twice", file.Name)
		}
		a.names = append(a.names, name)
		a.files[name] = file
	}
	return a, nil
}

// Names returns the arrays' names, in the order of the file. The caller must not change them.
func (a *Archive) Names() []string { return a.names }

// Read reads the array of the given name. A wrong checksum, and arrays that claim more than the
// file's bytes may (see mem.Claim), are ErrInput, a compression other than deflate ErrUnsupported.
func (a *Archive) Read(name string) (*tensor.Tensor, error) {
	file := a.files[name]
	if file == nil {
		return nil, diag.Inputf("the archive has no array %q", name).WithFix("it has: %s", strings.Join(a.names, ", "))
	}
	t, err := a.readMember(file)
	if err != nil {
		return nil, diag.As(err, diag.ErrInput).AtTensor(name)
	}
	return t, nil
}

// readMember reads the array in a member of the archive, which must end with the array.
func (a *Archive) readMember(file *zip.File) (*tensor.Tensor, error) {
	packed, size := file.CompressedSize64, file.UncompressedSize64
	if file.Method == zip.Store && packed != size || packed > uint64(a.size) {
		return nil, diag.Inputf("the archive does not have the %d bytes of this array", packed)
	}
	if size > math.MaxInt64 {
		return nil, diag.Inputf("an array of %d bytes", size)
	}
	take := func(bytes int64) error {
		if a.charged[file.Name] {
			return nil
		}
		err := a.claim.Take(bytes)
		a.charged[file.Name] = err == nil
		return err
	}
	member, err := open(file)
	if err != nil {
		return nil, err
	}
	defer member.Close()
	t, err := read(member, int64(size), take)
	if err != nil {
		return nil, err
	}
	// The checksum is compared at the end of the member.
	switch n, err := io.CopyN(io.Discard, member, 1); {
	case n > 0:
		return nil, diag.Inputf("the array does not end where its file ends")
	case !errors.Is(err, io.EOF):
		return nil, diag.Inputf("reading the archive: %w", err)
	}
	return t, nil
}

// open opens a member of an archive.
func open(file *zip.File) (io.ReadCloser, error) {
	member, err := file.Open()
	switch {
	case errors.Is(err, zip.ErrAlgorithm):
		return nil, diag.Unsupportedf("a .npz file with compression method %d", file.Method).
			WithFix("save it with numpy.savez or numpy.savez_compressed")
	case err != nil:
		return nil, diag.Inputf("reading the archive: %w", err)
	}
	return member, nil
}

// Rows opens the array of the given name, which the archive has, at its first row. Close member after the last.
func (a *Archive) Rows(name string) (rows *Rows, member io.Closer, err error) {
	from, err := open(a.files[name])
	if err == nil {
		if rows, err = NewRows(from); err == nil {
			return rows, from, nil
		}
		from.Close()
	}
	return nil, nil, diag.As(err, diag.ErrInput).AtTensor(name)
}

// WriteArchive writes a .npz file of arrays, uncompressed, in the order of names, which must be distinct.
func WriteArchive(w io.Writer, names []string, arrays []*tensor.Tensor) error {
	z := zip.NewWriter(w)
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return diag.Inputf("two arrays are called %q", name)
		}
		member, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
		if err != nil {
			return diag.Inputf("the array's name is none of a file in an archive: %w", err).AtTensor(name)
		}
		if err := Write(member, arrays[i]); err != nil {
			return err
		}
	}
	return z.Close()
}
