package command

import (
	"cmp"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// modelEndings are the endings of model files, in the order in which weir-serve prefers them.
var modelEndings = []string{".onnx", ".pt2", ".weir"}

// deepestModel is the depth of folders below which no models are looked for.
const deepestModel = 8

// foundModel is a model of a folder that weir pack reads.
type foundModel struct {
	name string // its path below the folder, without a plain file's ending
	path string // the same with it
	file string // its newest version's file
	rows int    // max_batch_size of its config.pbtxt; 0 if there is none
	err  error  // why there is no file
}

// finder looks for models in a folder, as weir-serve does, and in folders of folders.
type finder struct {
	root  string // without links
	found map[string]*foundModel
}

// findModels returns the models of a folder by name: folders in Triton's layout, folders with one model file, and model
// files. Names that begin with a dot are passed over. A link that leads out of the folder is not followed.
func findModels(folder string) ([]*foundModel, error) {
	info, err := os.Stat(folder)
	if err != nil {
		return nil, named(diag.Inputf("it cannot be read").AtFile(folder).WithCause(err))
	}
	if !info.IsDir() {
		return nil, diag.Inputf("it is no folder").AtFile(folder).WithFix("for one model there is weir plan --kubernetes")
	}
	root, err := filepath.Abs(folder)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return nil, diag.Inputf("it cannot be read").AtFile(folder).WithCause(err)
	}
	f := &finder{root: root, found: map[string]*foundModel{}}
	if err := f.folder("", 0); err != nil {
		return nil, err
	}
	all := make([]*foundModel, 0, len(f.found))
	for _, m := range f.found {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *foundModel) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// folder finds the models of a folder, given by its path below the root.
func (f *finder) folder(below string, depth int) error {
	entries, err := os.ReadDir(filepath.Join(f.root, filepath.FromSlash(below)))
	if err != nil {
		return diag.Inputf("it cannot be read").AtFile(filepath.Join(f.root, below)).WithCause(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		at := path.Join(below, e.Name())
		full := filepath.Join(f.root, filepath.FromSlash(at))
		ending := filepath.Ext(e.Name())
		isModel := slices.Contains(modelEndings, ending)
		if err := f.inside(full); err != nil {
			f.add(&foundModel{name: strings.TrimSuffix(at, modelEnding(ending)), path: at, err: err})
			continue
		}
		info, err := os.Stat(full)
		switch {
		case err != nil:
			f.add(&foundModel{name: at, path: at, err: diag.Inputf("it cannot be read").AtFile(full).WithCause(err)})
		case info.IsDir():
			if m := f.model(full, at); m != nil {
				f.add(m)
			} else if depth < deepestModel {
				if err := f.folder(at, depth+1); err != nil {
					f.add(&foundModel{name: at, path: at, err: err})
				}
			}
		case isModel:
			f.add(&foundModel{name: strings.TrimSuffix(at, ending), path: at, file: full})
		}
	}
	return nil
}

// modelEnding returns an ending if it is one of models.
func modelEnding(ending string) string {
	if slices.Contains(modelEndings, ending) {
		return ending
	}
	return ""
}

// add adds a model. Two models of one name are an error of both, since one server cannot have them.
func (f *finder) add(m *foundModel) {
	other := f.found[m.name]
	if other == nil {
		f.found[m.name] = m
		return
	}
	if other.err == nil {
		other.err = diag.Inputf("the folder has the model twice: %q and %q", other.path, m.path).WithFix("rename one of them")
	}
}

// inside returns an error if a path leads through links out of the root, or in a circle.
func (f *finder) inside(full string) error {
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		return diag.Inputf("it cannot be read").AtFile(full).WithCause(err)
	}
	if rest, err := filepath.Rel(f.root, real); err != nil || !filepath.IsLocal(rest) || rest == "." {
		return diag.Inputf("a link leads out of the folder").AtFile(full).WithFix("copy the model into the folder")
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil || strings.HasPrefix(parent+string(filepath.Separator), real+string(filepath.Separator)) {
		return diag.Inputf("a link leads to a folder that it lies in").AtFile(full)
	}
	return nil
}

// model returns the model that a folder is, nil if it is none.
func (f *finder) model(full, at string) *foundModel {
	m := &foundModel{name: at, path: at}
	entries, err := os.ReadDir(full)
	if err != nil {
		m.err = diag.Inputf("it cannot be read").AtFile(full).WithCause(err)
		return m
	}
	newest := int64(0)
	configured, folders := false, false
	for _, e := range entries {
		n, _ := strconv.ParseInt(e.Name(), 10, 64)
		if info, err := os.Stat(filepath.Join(full, e.Name())); err == nil && info.IsDir() {
			if folders = true; isVersion(e.Name()) {
				newest = max(newest, n)
			}
		}
		configured = configured || e.Name() == "config.pbtxt"
	}
	m.rows = maxBatchSize(filepath.Join(full, "config.pbtxt"))
	if newest > 0 {
		m.file, m.err = f.version(filepath.Join(full, strconv.FormatInt(newest, 10)))
		return m
	}
	m.file, m.err = f.version(full)
	isNamed := strings.HasPrefix(filepath.Base(m.file), "model.")
	if !configured && (m.err != nil || folders && !isNamed) {
		return nil // a folder of models
	}
	return m
}

// isVersion reports whether a folder's name is the number of a version.
func isVersion(name string) bool {
	n, err := strconv.ParseInt(name, 10, 64)
	return err == nil && n > 0 && strconv.FormatInt(n, 10) == name
}

// version returns the model file in a folder: model.onnx, model.pt2, model.weir, or the only one of these kinds.
func (f *finder) version(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", diag.Inputf("it cannot be read").AtFile(folder).WithCause(err)
	}
	var models []string
	for _, e := range entries {
		if slices.Contains(modelEndings, filepath.Ext(e.Name())) && !strings.HasPrefix(e.Name(), ".") {
			models = append(models, e.Name())
		}
	}
	for _, ending := range modelEndings {
		if slices.Contains(models, "model"+ending) {
			models = []string{"model" + ending}
			break
		}
	}
	if len(models) != 1 {
		return "", diag.Inputf("it has %d files of .onnx, .pt2 and .weir, and none is named model", len(models)).
			AtFile(folder)
	}
	file := filepath.Join(folder, models[0])
	return file, f.inside(file)
}

// batchLine matches the line of config.pbtxt with the most rows of a request.
var batchLine = regexp.MustCompile(`(?m)^\s*max_batch_size\s*:\s*([0-9]+)`)

// maxBatchSize returns max_batch_size of a config.pbtxt, 0 if there is none.
func maxBatchSize(file string) int {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	opened, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer opened.Close()
	text, err := io.ReadAll(io.LimitReader(opened, 1<<20))
	if err != nil {
		return 0
	}
	parts := batchLine.FindSubmatch(text)
	if parts == nil {
		return 0
	}
	n, err := strconv.ParseInt(string(parts[1]), 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}
