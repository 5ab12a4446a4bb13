package command

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/planpage"
	"github.com/weirml/weir/internal/values"
)

// writePageTo writes the page into a file, which is complete or absent.
func writePageTo(path, title string, data planpage.Data) error {
	err := values.WriteAtomic(path, func(w io.Writer) error { return planpage.Write(w, title, data) })
	if err != nil {
		return diag.Inputf("cannot be written").AtFile(path).WithCause(err)
	}
	return nil
}

// shortName returns the page's name for a model.
func shortName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if folder := filepath.Base(filepath.Dir(path)); name == "model" && len(folder) > 2 {
		return folder // the model has a folder of its own
	}
	return name
}
