package conformance

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// maxSettings is the greatest size of a data.json.
const maxSettings = 1 << 16

// localPrefix begins the url of a model in the same tree as its case.
const localPrefix = "onnx/backend/test/data/"

// settings is a case's data.json.
type settings struct {
	URL  string   `json:"url"`
	Rtol *float64 `json:"rtol"`
	Atol *float64 `json:"atol"`
}

// Find lists the cases at and below the places, by path. A place is a folder, or a zip file such as a wheel, whose
// entries are read in place: nothing is unpacked to disk. A case is a folder with a model.onnx, or with a data.json
// that gives its model's path in the same tree.
func Find(places []string) ([]Case, error) {
	var cases []Case
	for _, place := range places {
		found, err := findIn(place)
		if err != nil {
			if e := diag.As(err, diag.ErrInput); e != nil && e.File == "" {
				return nil, e.AtFile(place)
			}
			return nil, err
		}
		cases = append(cases, found...)
	}
	if len(cases) == 0 {
		return nil, diag.Inputf("nothing at or below %s is a case", strings.Join(places, ", ")).
			WithFix("a case is a folder with a model.onnx, and with folders test_data_set_0 and so on beside it")
	}
	sort.SliceStable(cases, func(i, j int) bool { return cases[i].Dir < cases[j].Dir })
	return cases, nil
}

// findIn lists the cases of a folder or zip file.
func findIn(place string) ([]Case, error) {
	info, err := os.Stat(place)
	if err != nil {
		return nil, diag.Inputf("%v", err).WithCause(err)
	}
	if info.Mode().IsRegular() {
		files, err := openArchive(place, info.Size())
		if err != nil {
			return nil, err
		}
		return walk(files, func(dir string) Case {
			c := Case{Name: path.Base(dir), Dir: place + ":" + dir, files: files, folder: dir}
			if dir == "." {
				c.Name = filepath.Base(place)
			}
			c.load = func(model string) (*weir.Model, error) { return weir.LoadFS(files, model) }
			return c
		})
	}
	if !info.IsDir() {
		return nil, diag.Inputf("it is neither a folder nor a zip file")
	}
	place, err = filepath.Abs(place)
	if err != nil {
		return nil, diag.Inputf("%v", err)
	}
	return walk(os.DirFS(place), func(dir string) Case {
		full := filepath.Join(place, filepath.FromSlash(dir))
		// A case of a whole network refers to a folder beside its parent, so a case's file system begins there.
		root := filepath.Dir(filepath.Dir(full))
		c := Case{Name: filepath.Base(full), Dir: full, files: os.DirFS(root), folder: "."}
		if below, err := filepath.Rel(root, full); err == nil {
			c.folder = filepath.ToSlash(below)
		}
		c.load = func(model string) (*weir.Model, error) {
			return weir.Load(filepath.Join(root, filepath.FromSlash(model)))
		}
		return c
	})
}

// walk finds the folders that are cases, and calls at for each.
func walk(files fs.FS, at func(dir string) Case) ([]Case, error) {
	var cases []Case
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if !d.IsDir() && (d.Name() == "model.onnx" || d.Name() == "data.json" && elsewhere(files, dir)) {
			cases = append(cases, at(dir))
		}
		return nil
	})
	if err != nil {
		return nil, diag.Inputf("%v", err).WithCause(err)
	}
	return cases, nil
}

// elsewhere reports whether a folder's data.json says that its model lies in another folder.
func elsewhere(files fs.FS, dir string) bool {
	if _, err := fs.Stat(files, path.Join(dir, "model.onnx")); err == nil {
		return false
	}
	text, err := fs.ReadFile(files, path.Join(dir, "data.json"))
	var s settings
	return err == nil && json.Unmarshal(text, &s) == nil && s.URL != ""
}

// configure reads the case's data.json, if it has one: its tolerances, and the path of its model.
func (c *Case) configure() error {
	c.model = path.Join(c.folder, "model.onnx")
	f, err := c.files.Open(path.Join(c.folder, "data.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diag.Inputf("%v", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSettings))
	if err != nil {
		return diag.Inputf("data.json: %v", err)
	}
	var s settings
	if err := json.Unmarshal(text, &s); err != nil {
		return diag.Inputf("data.json: %v", err)
	}
	for _, given := range []struct{ from, to *float64 }{{s.Rtol, &c.Rtol}, {s.Atol, &c.Atol}} {
		if given.from != nil && *given.to == 0 {
			*given.to = *given.from
		}
	}
	if _, err := fs.Stat(c.files, c.model); err == nil {
		return nil
	}
	below, local := strings.CutPrefix(s.URL, localPrefix)
	// The folder of a case of this kind lies two below that of the data: data/real/test_name.
	c.model = path.Join(c.folder, "..", "..", below)
	if !local || !fs.ValidPath(below) || !fs.ValidPath(c.model) {
		return diag.Unsupportedf("its model is at %.200q; nothing is downloaded", s.URL)
	}
	if _, err := fs.Stat(c.files, c.model); err != nil {
		return diag.Inputf("its model is at %.200q, and there is no %.200q", s.URL, c.model)
	}
	c.ramps = true
	return nil
}

// archive is the entries of a zip file. None may unpack to more than its packed bytes may claim (see mem.Claim). A path
// that leaves the archive names no entry.
type archive struct{ entries *zip.Reader }

// openArchive opens a zip file of size bytes.
func openArchive(name string, size int64) (fs.FS, error) {
	f, err := mem.Open(name)
	if err != nil {
		return nil, err
	}
	entries, err := zip.NewReader(f, size) // it stays open as long as the cases are in use
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		f.Close()
		return nil, diag.Inputf("it is neither a folder nor a zip file: %v", err).
			WithFix("name a folder with a model.onnx; weir run takes a model's file")
	}
	return archive{entries}, nil
}

// Open opens an entry; an entry that would unpack to more than the limit is refused before it is read.
func (a archive) Open(name string) (fs.File, error) {
	f, err := a.entries.Open(name)
	if err != nil {
		return nil, err
	}
	if err := mem.CheckUnpacked(f); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f, nil
}
