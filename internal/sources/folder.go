package sources

import (
	"context"
	"io/fs"

	"github.com/weirml/weir/internal/importer/transformers"
)

// OpenFolder reads the model in a folder of transformers or of sentence-transformers.
func OpenFolder(ctx context.Context, name string) (Model, error) {
	f, err := transformers.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return folder(f)
}

// OpenFolderIn is OpenFolder in a file system.
func OpenFolderIn(ctx context.Context, files fs.FS, name string) (Model, error) {
	return folder(transformers.OpenFS(ctx, files, name))
}

// folder reads the model in an open folder, which it owns.
func folder(f *transformers.Folder) (m Model, err error) {
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	module, err := transformers.Parse(f)
	if err != nil {
		return nil, err
	}
	f.Settled()
	t, err := built("transformers, safetensors", module)
	if err != nil {
		return nil, err
	}
	t.held = f
	return t, nil
}
