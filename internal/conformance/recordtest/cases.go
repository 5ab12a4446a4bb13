package main

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sources"
)

// aCase is a model; open opens it.
type aCase struct {
	name string
	open func(ctx context.Context) (model, error)
}

// model is an open model. build makes a new module at each call.
type model struct {
	build   func(ctx context.Context) (m *ir.Module, results []string, err error)
	written bool // see compiler.Options.Written
	close   func() error
}

// find returns the selected cases: constructed models, those of the repository, the official ones, popular models, and
// those of further folders, whose names begin with the folder's.
func find(root string, folders []string, f filter) (cases []aCase, err error) {
	for _, name := range slices.Sorted(maps.Keys(conformancetest.LevelModels)) {
		cases = append(cases, constructed(name, "any size", 0), constructed(name, "19", 19))
	}
	places := map[string]string{"onnx": os.Getenv("WEIR_ONNX_DATA"), "models": os.Getenv("WEIR_MODELS"), "weir": root}
	for _, folder := range folders {
		name := filepath.Base(folder)
		if places[name] != "" {
			return nil, diag.Inputf("two folders are called %s", name).WithFix("give them different names, with a link")
		}
		places[name] = folder
	}
	for _, name := range slices.Sorted(maps.Keys(places)) {
		if places[name] == "" {
			continue
		}
		found, err := walk(name, places[name])
		if err != nil {
			return nil, err
		}
		cases = append(cases, found...)
	}
	cases = slices.DeleteFunc(cases, func(c aCase) bool { return !f.name.MatchString(c.name) })
	if len(cases) == 0 {
		return nil, diag.Inputf("no case has a name with %s", f.name)
	}
	return cases, nil
}

// constructed returns a model of conformancetest with dimensions of a size.
func constructed(name, what string, size int64) aCase {
	return aCase{name: "levels/" + name + ", " + what, open: func(context.Context) (model, error) {
		return ofText(conformancetest.LevelModels[name], size), nil
	}}
}

// ofText returns the model of a text, with dimensions of a size.
func ofText(text string, size int64) model {
	return model{close: func() error { return nil }, build: func(context.Context) (*ir.Module, []string, error) {
		m, err := conformancetest.LevelModule(text, size)
		return m, nil, err
	}}
}

// walk returns the models in a folder: files of ONNX, torch.export and Weir, and folders of transformers and of
// sentence-transformers. Folders whose names begin with a dot are left out.
func walk(name, folder string) (cases []aCase, err error) {
	folder, err = filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, diag.Inputf("%v", err)
	}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		at := name + "/" + strings.TrimSuffix(filepath.ToSlash(below), "/model.onnx")
		switch {
		case d.IsDir() && below != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() && isModel(path):
			cases = append(cases, ofFile(at, path))
			return fs.SkipDir
		case !d.IsDir() && slices.Contains([]string{".onnx", ".pt2", ".weir"}, filepath.Ext(path)):
			cases = append(cases, ofFile(at, path))
		}
		return nil
	})
	if err != nil {
		return nil, diag.Inputf("%v", err)
	}
	return cases, nil
}

// isModel reports whether a folder is a model: one of sentence-transformers, or of transformers with weights.
func isModel(folder string) bool {
	has := func(pattern string) bool {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		return err == nil && len(found) > 0
	}
	return has("modules.json") || has("config.json") && has("*.safetensors")
}

// ofFile returns the model in a file or folder.
func ofFile(name, path string) aCase {
	return aCase{name: name, open: func(ctx context.Context) (model, error) {
		m, err := sources.OpenPath(ctx, path)
		if err != nil {
			return model{}, err
		}
		return model{written: m.Written(), close: m.Close,
			build: func(ctx context.Context) (*ir.Module, []string, error) {
				built, err := m.Build(ctx, sources.Asked{})
				if err != nil {
					return nil, nil, err
				}
				return built.Module, built.Results, nil
			}}, nil
	}}
}
