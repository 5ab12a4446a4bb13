package transformers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// mostJSON is the largest file of settings that is read, in bytes. Names of 200,000 labels fit.
const mostJSON = 16 << 20

// Folder is a model's folder. Its files are mapped when they are first needed, and live until Close. No path and no
// link leads out of it; links within a Hugging Face cache are followed.
type Folder struct {
	name  string // for errors
	files fs.FS
	at    string    // the folder in files
	of    io.Closer // what files reads from; nil if the caller owns it
	claim *mem.Claim
	maps  map[string]*mem.Block
}

// Open opens the folder of a path.
func Open(ctx context.Context, name string) (*Folder, error) {
	full, err := filepath.Abs(name)
	if err != nil {
		return nil, &diag.Error{Kind: diag.ErrInput, File: name, Err: err}
	}
	at := "."
	// A cache has snapshots/REVISION/config.json as a link to ../../blobs/HASH.
	if snapshots := filepath.Dir(full); filepath.Base(snapshots) == "snapshots" {
		at, full = "snapshots/"+filepath.Base(full), filepath.Dir(snapshots)
	}
	root, err := mem.OpenRoot(full)
	if err != nil {
		return nil, err
	}
	return &Folder{name: name, files: root.FS(), at: at, of: root, claim: mem.NewClaim(ctx, 0),
		maps: map[string]*mem.Block{}}, nil
}

// OpenFS opens a folder of a file system.
func OpenFS(ctx context.Context, files fs.FS, name string) *Folder {
	return &Folder{name: name, files: files, at: path.Clean(name), claim: mem.NewClaim(ctx, 0),
		maps: map[string]*mem.Block{}}
}

// Name returns the folder's name, as it was opened.
func (f *Folder) Name() string { return f.name }

// path returns the path of a file in files, or an ErrInput for one that is not of the folder.
func (f *Folder) path(name string) (string, error) {
	if !fs.ValidPath(name) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", diag.Inputf("the path names no file of the model's folder").AtFile(path.Join(f.name, name))
	}
	return path.Join(f.at, name), nil
}

// Has reports whether the folder has a file.
func (f *Folder) Has(name string) bool {
	at, err := f.path(name)
	if err != nil {
		return false
	}
	info, err := fs.Stat(f.files, at)
	return err == nil && !info.IsDir()
}

// Names returns the names of the files in the folder, or in one within it, that have an extension, in order.
func (f *Folder) Names(within, extension string) (names []string) {
	at, err := f.path(within)
	if err != nil {
		return nil
	}
	list, _ := fs.ReadDir(f.files, at)
	for _, e := range list {
		if !e.IsDir() && path.Ext(e.Name()) == extension {
			names = append(names, path.Join(within, e.Name()))
		}
	}
	return names
}

// Sub returns the file system of the folder, which ends with Close.
func (f *Folder) Sub() (fs.FS, error) { return fs.Sub(f.files, f.at) }

// Read returns the contents of a small file.
func (f *Folder) Read(name string) ([]byte, error) {
	at, err := f.path(name)
	if err != nil {
		return nil, err
	}
	file, err := mem.OpenFS(f.files, at)
	if err != nil {
		return nil, f.in(name, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, mostJSON+1))
	if err != nil {
		return nil, f.in(name, diag.Inputf("reading it: %w", err))
	}
	if len(data) > mostJSON {
		return nil, f.in(name, diag.Unsupportedf("settings of more than %d bytes", mostJSON))
	}
	f.claim.Extend(int64(len(data)))
	if err := f.claim.JSON(data); err != nil {
		return nil, f.in(name, err)
	}
	return data, nil
}

// JSON decodes a file of settings. It reports whether there is such a file.
func (f *Folder) JSON(name string, to any) (found bool, err error) {
	if !f.Has(name) {
		return false, nil
	}
	data, err := f.Read(name)
	if err != nil {
		return true, err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return true, f.in(name, diag.Inputf("its JSON: %w", err))
	}
	return true, nil
}

// Map returns a file as a block, which the folder owns.
func (f *Folder) Map(name string) (*mem.Block, error) {
	if b := f.maps[name]; b != nil {
		return b, nil
	}
	at, err := f.path(name)
	if err != nil {
		return nil, err
	}
	file, err := mem.OpenFS(f.files, at)
	if err != nil {
		return nil, f.in(name, err)
	}
	defer file.Close()
	block, err := mem.MapFS(file, path.Base(name))
	if err != nil {
		return nil, f.in(name, err)
	}
	f.maps[name] = block
	f.claim.Extend(block.Size())
	return block, nil
}

// in adds a file's name to an error.
func (f *Folder) in(name string, err error) error {
	e := diag.As(err, diag.ErrInput)
	if e.File != "" && e.File != path.Base(name) && e.File != path.Join(f.at, name) {
		return e
	}
	return e.AtFile(path.Join(f.name, name))
}

// ONNX returns the name of the model's ONNX file if the folder has no safetensors files; "" if it has, or if it has not
// exactly one ONNX file that could be meant.
func (f *Folder) ONNX() string {
	list, err := f.Modules()
	at := ""
	if err == nil && len(list) > 0 {
		at = path.Clean(list[0].Path)
	}
	if hasCheckpoint(f, at) {
		return ""
	}
	for _, within := range []string{path.Join(at, "onnx"), path.Clean(at)} {
		if name := path.Join(within, "model.onnx"); f.Has(name) {
			return name
		}
		if names := f.Names(within, ".onnx"); len(names) == 1 {
			return names[0]
		}
	}
	return ""
}

// Take returns a file as a block that the caller owns.
func (f *Folder) Take(name string) (*mem.Block, error) {
	block, err := f.Map(name)
	delete(f.maps, name)
	return block, err
}

// Settled ends the reading: what is mapped stays, and the reading's context does not matter any more.
func (f *Folder) Settled() { f.claim.Alone() }

// Blocks returns the mapped files, and the copies of their contents.
func (f *Folder) Blocks() (list []*mem.Block) {
	list = f.claim.Blocks()
	for _, b := range f.maps {
		list = append(list, b)
	}
	return list
}

// Close releases the files. What was read from them must not be used after it.
func (f *Folder) Close() error {
	all := []error{f.claim.Close()}
	for _, b := range f.maps {
		all = append(all, b.Close())
	}
	f.maps = map[string]*mem.Block{}
	if f.of != nil {
		all = append(all, f.of.Close())
		f.of = nil
	}
	return errors.Join(all...)
}
