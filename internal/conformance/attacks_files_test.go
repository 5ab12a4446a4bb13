package conformance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// foreignFiles are models whose weights lie outside their folder, or do not fit the model.
var foreignFiles = []struct {
	attack string
	place  func(t *testing.T) string
}{
	{"the folder above", beside("../secret", "", "", nil)},
	{"the folder above, later in the path", beside("sub/../../secret", "", "", nil)},
	{"an absolute path", beside("/etc/hostname", "", "", nil)},
	{"a device by its path", beside("/dev/zero", "", "", nil)},
	{"a path with a NUL", beside("w\x00", "", "", nil)},
	{"an empty path", beside("", "", "", nil)},
	{"the folder itself", beside(".", "", "", nil)},
	{"a folder", beside("sub", "", "", nil)},
	{"a backslash", beside(`..\secret`, "", "", nil)},
	{"nothing there", beside("nothing", "", "", nil)},
	{"a link out of the folder", beside("link", "", "", func(dir string) error {
		return os.Symlink(filepath.Join(dir, "..", "secret"), filepath.Join(dir, "link"))
	})},
	{"a relative link out of the folder", beside("link", "", "", func(dir string) error {
		return os.Symlink("../secret", filepath.Join(dir, "link"))
	})},
	{"a linked folder", beside("linked/secret", "", "", func(dir string) error {
		return os.Symlink("..", filepath.Join(dir, "linked"))
	})},
	{"a link to a device", beside("link", "", "", func(dir string) error {
		return os.Symlink("/dev/zero", filepath.Join(dir, "link"))
	})},
	{"a link to itself", beside("link", "", "", func(dir string) error {
		return os.Symlink("link", filepath.Join(dir, "link"))
	})},
	{"a pipe", beside("pipe", "", "", pipe)},
	{"an offset past the end", beside("w", "64", "24", nil)},
	{"the greatest offset", beside("w", "9223372036854775807", "24", nil)},
	{"an offset past 64 bits", beside("w", "18446744073709551616", "24", nil)},
	{"a negative offset", beside("w", "-8", "24", nil)},
	{"an offset that is no number", beside("w", "1e3", "24", nil)},
	{"a length past the end", beside("w", "0", "1099511627776", nil)},
	{"a length of another shape", beside("w", "0", "12", nil)},
	{"a negative length", beside("w", "0", "-1", nil)},
	{"the end before the data's", beside("w", "16", "", nil)},
	{"an empty file", beside("empty", "", "", nil)},
	{"a file that is right", beside("w", "", "", nil)},
}

// beside places a model in a folder of its own, with files in it and above, and returns its path.
func beside(location, offset, length string, prepare func(dir string) error) func(t *testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		above := t.TempDir()
		dir := filepath.Join(above, "model")
		w := &wire.TensorProto{Name: "w", DataType: 1, Dims: []int64{2, 3}, DataLocation: 1, RawOffset: -1}
		for _, e := range [][2]string{{"location", location}, {"offset", offset}, {"length", length}} {
			if e[1] != "" || e[0] == "location" {
				w.ExternalData = append(w.ExternalData, &wire.StringStringEntryProto{Key: e[0], Value: e[1]})
			}
		}
		m := attackModel(nil, attackNode("Add", []string{"x", "w"}, "y"))
		m.Graph.Initializer = []*wire.TensorProto{w}
		path := filepath.Join(dir, "model.onnx")
		err := os.MkdirAll(filepath.Join(dir, "sub"), 0o777)
		for name, data := range map[string][]byte{path: m.Marshal(), filepath.Join(above, "secret"): make([]byte, 24),
			filepath.Join(dir, "w"): make([]byte, 24), filepath.Join(dir, "empty"): nil} {
			if err == nil {
				err = os.WriteFile(name, data, 0o666)
			}
		}
		if err == nil && prepare != nil {
			err = prepare(dir)
		}
		if err != nil {
			t.Skipf("this system cannot hold the attack: %v", err)
		}
		return path
	}
}
