package sources

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/importer/transformers"
	"github.com/weirml/weir/internal/mem"
)

// OpenFolder reads the model in a folder of transformers or of sentence-transformers: its safetensors files or, if it
// has none, its ONNX file.
func OpenFolder(ctx context.Context, name string) (Model, error) {
	f, err := transformers.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return folder(ctx, f)
}

// OpenPath reads the model in a file, as Open does, or in a folder, as OpenFolder does.
func OpenPath(ctx context.Context, path string) (Model, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return OpenFolder(ctx, path)
	}
	file, err := mem.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	block, err := mem.MapFile(file, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	return Open(ctx, block, filepath.Dir(path))
}

// OpenFolderIn is OpenFolder in a file system.
func OpenFolderIn(ctx context.Context, files fs.FS, name string) (Model, error) {
	return folder(ctx, transformers.OpenFS(ctx, files, name))
}

// folder reads the model in an open folder, which it owns.
func folder(ctx context.Context, f *transformers.Folder) (m Model, err error) {
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if file := f.ONNX(); file != "" {
		return vectors(ctx, f, file)
	}
	module, err := transformers.Parse(f)
	if err != nil {
		return nil, err
	}
	f.Settled()
	t := built("transformers, safetensors", module)
	t.held = f
	return t, nil
}

// vectorModel is an ONNX model of the states of tokens, with what sentence-transformers computes from them.
type vectorModel struct {
	onnxModel
	folder *transformers.Folder
	states string // the output that has the states; "" if the model itself computes the vectors
	made   Port
}

// vectors reads the ONNX file of a folder of sentence-transformers.
func vectors(ctx context.Context, f *transformers.Folder, file string) (Model, error) {
	block, err := f.Take(file)
	if err != nil {
		return nil, err
	}
	files, err := f.Sub()
	if err != nil {
		block.Close()
		return nil, err
	}
	of, err := onnx.OpenIn(ctx, block, files, file)
	if err != nil {
		return nil, diag.As(err, diag.ErrInput).AtFile(file)
	}
	m := &vectorModel{onnxModel: onnxModel{of}, folder: f}
	for _, o := range m.onnxModel.Outputs() {
		switch {
		case o.Name == transformers.Sentence || o.Name == transformers.Logits:
			m.states = ""
			return m, nil
		case m.states == "" && o.Kind == Tensor && len(o.Type.Shape) == 3 && o.Type.DType.IsFloat():
			m.states = o.Name
		}
	}
	if m.states == "" {
		return m, nil
	}
	f.Settled()
	b, err := m.Build(ctx, Asked{})
	if err != nil {
		of.Close()
		return nil, err
	}
	m.made = b.Outputs[0]
	return m, nil
}

// Outputs returns the vectors; the file's own outputs can be asked for by name.
func (m *vectorModel) Outputs() []Port {
	if m.states == "" {
		return m.onnxModel.Outputs()
	}
	return []Port{m.made}
}

// Build converts the file, and computes the vectors unless other outputs are asked for.
func (m *vectorModel) Build(ctx context.Context, a Asked) (*Built, error) {
	extended := m.states != "" && (a.Outputs == nil || slices.Equal(a.Outputs, []string{transformers.Sentence}))
	if extended {
		a.Outputs = []string{m.states}
	}
	b, err := m.onnxModel.Build(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := transformers.Bound(b.Module); err != nil {
		return nil, err
	}
	if !extended {
		return b, nil
	}
	if err := transformers.Extend(m.folder, b.Module); err != nil {
		return nil, err
	}
	// The inputs that pooling adds come after the file's.
	for i := len(b.Inputs); i < len(b.Module.Main.Body.Params); i++ {
		port := PortsOf(b.Module.Main.Body.Params[i : i+1])[0]
		port.Components = []int{i}
		b.Inputs = append(b.Inputs, port)
	}
	b.Outputs = PortsOf(b.Module.Main.Body.Results)
	b.Results = []string{transformers.Sentence}
	return b, nil
}

// Blocks returns the files, and the copies of their contents.
func (m *vectorModel) Blocks() []*mem.Block {
	return append(m.onnxModel.Blocks(), m.folder.Blocks()...)
}

// Close releases the file and the folder.
func (m *vectorModel) Close() error {
	err := m.onnxModel.Close()
	if err2 := m.folder.Close(); err == nil {
		err = err2
	}
	return err
}
