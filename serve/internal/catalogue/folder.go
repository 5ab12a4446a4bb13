// Package catalogue finds models in a folder, loads and unloads their versions under a ledger, and replaces a version
// by its successor without a failed request.
package catalogue

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/weirml/weir/serve/internal/oip"
)

// endings are the endings of model files, the preferred one first.
var endings = []string{".onnx", ".pt2", ".weir"}

// found is a model in the folder.
type found struct {
	name     string
	config   *oip.ModelConfig // never nil
	versions map[int64]source
	err      error // the reason why the model cannot be served
}

// source is a version's file, and a text that changes if the file, or one beside it, changes.
type source struct {
	path, state string
	texts       bool // the folder of path is a model of texts
}

// newest returns the numbers of the versions, newest first.
func (f *found) newest() []int64 {
	var all []int64
	for n := range f.versions {
		all = append(all, n)
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all
}

// served returns the numbers of the versions that the model's policy selects: the newest one if it has no policy.
func (f *found) served() []int64 {
	all := f.newest()
	switch p := f.config.GetVersionPolicy().GetPolicyChoice().(type) {
	case *oip.ModelVersionPolicy_All_:
		return all
	case *oip.ModelVersionPolicy_Specific_:
		return slices.DeleteFunc(all, func(n int64) bool { return !slices.Contains(p.Specific.GetVersions(), n) })
	case *oip.ModelVersionPolicy_Latest_:
		return all[:min(len(all), int(max(1, p.Latest.GetNumVersions())))]
	}
	return all[:min(len(all), 1)]
}

// scan lists the models of a folder: folders in Triton's layout, folders with one model file, and model files. Names
// that begin with a dot, and files of other kinds, are passed over.
func scan(folder string) (map[string]*found, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	all := map[string]*found{}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		path := filepath.Join(folder, name)
		info, err := os.Stat(path) // through a link
		if err != nil {
			all[name] = &found{name: name, config: &oip.ModelConfig{Name: name}, err: err}
			continue
		}
		var f *found
		switch {
		case info.IsDir():
			f = scanModel(path, name)
		case slices.Contains(endings, filepath.Ext(name)):
			name = strings.TrimSuffix(name, filepath.Ext(name))
			f = &found{name: name, config: &oip.ModelConfig{Name: name}}
			s, err := sourceOf(path, []string{path})
			f.versions, f.err = map[int64]source{1: s}, err
		}
		switch {
		case f == nil:
		case all[name] != nil:
			all[name].err = fmt.Errorf("the folder has %s twice: %s, and a file or folder of that name", name, e.Name())
		default:
			all[name] = f
		}
	}
	return all, nil
}

// scanModel returns the model in a folder, nil if there is none.
func scanModel(folder, name string) *found {
	f := &found{name: name, config: &oip.ModelConfig{}, versions: map[int64]source{}}
	configured := false
	if text, err := os.ReadFile(filepath.Join(folder, "config.pbtxt")); err == nil {
		configured = true
		if err := prototext.Unmarshal(text, f.config); err != nil {
			f.err = fmt.Errorf("config.pbtxt: %w", err)
		}
	} else if !os.IsNotExist(err) {
		f.err = err
	}
	if f.config.Name == "" {
		f.config.Name = name
	}
	if f.err == nil && f.config.Name != name {
		f.err = fmt.Errorf("config.pbtxt names the model %q, and its folder is %q", f.config.Name, name)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		f.err = err
		return f
	}
	for _, e := range entries {
		number, err := strconv.ParseInt(e.Name(), 10, 64)
		path := filepath.Join(folder, e.Name())
		if info, statErr := os.Stat(path); err != nil || number < 1 || e.Name()[0] == '+' || statErr != nil || !info.IsDir() {
			continue
		}
		if s, err := versionIn(path, f.config); err == nil {
			f.versions[number] = s
		} else if f.err == nil {
			f.err = fmt.Errorf("version %d: %w", number, err)
		}
	}
	if len(f.versions) > 0 || f.err != nil {
		return f
	}
	s, err := versionIn(folder, f.config)
	switch {
	case err == nil:
		f.versions[1] = s
	case !configured:
		return nil // a folder of something else
	default:
		f.err = err
	}
	return f
}

// versionIn returns the model in a folder: a model of texts, or the model file that is named, or model.onnx, model.pt2,
// model.weir, or the only one of these kinds.
func versionIn(folder string, config *oip.ModelConfig) (s source, err error) {
	if main := textsIn(folder, config); main != "" {
		return sourceOfTexts(folder, main)
	}
	name := config.DefaultModelFilename
	entries, err := os.ReadDir(folder)
	if err != nil {
		return s, err
	}
	var files, models []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		files = append(files, filepath.Join(folder, e.Name()))
		if slices.Contains(endings, filepath.Ext(e.Name())) {
			models = append(models, e.Name())
		}
	}
	if name != "" {
		if !slices.Contains(models, name) {
			return s, fmt.Errorf("default_model_filename is %q, and there is no such model file", name)
		}
		models = []string{name}
	}
	for _, ending := range endings {
		if slices.Contains(models, "model"+ending) {
			models = []string{"model" + ending}
			break
		}
	}
	if len(models) != 1 {
		return s, fmt.Errorf("it has %d files of .onnx, .pt2 and .weir, and none is named model", len(models))
	}
	return sourceOf(filepath.Join(folder, models[0]), files)
}

// sourceOf describes a model file. Its state consists of the sizes and times of the files, its own and those with its
// weights.
func sourceOf(path string, files []string) (source, error) {
	s := source{path: path}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return s, err
		}
		if info.Mode().IsRegular() {
			s.state += stateOf(file, info)
		}
	}
	return s, nil
}

func stateOf(file string, info fs.FileInfo) string {
	return fmt.Sprintf("%q %d %s\n", filepath.Base(file), info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano))
}
