package weir

import (
	"testing"

	"github.com/weirml/weir/internal/sym"
)

// TestLabels: no two dimensions have one label, a dimension of the model's own has its name, and what texts write is
// found too.
func TestLabels(t *testing.T) {
	var dims []sym.Name
	for _, text := range []string{"k", "k'", "?k", "", "n"} {
		dims = append(dims, sym.Made(text), sym.User(text))
	}
	l := newLabels(dims)
	for _, name := range dims {
		label := l.of[name]
		if back, ok := l.find(label); !ok || back != name {
			t.Errorf("%s has the label %q, which is %s", name, label, back)
		}
		if name.User() && label != name.Text() {
			t.Errorf("%s has the label %q", name, label)
		}
	}
	if _, ok := l.find("nobody"); ok {
		t.Error("a dimension that is not there is found")
	}
	if name, ok := newLabels([]sym.Name{sym.Made("k"), sym.User("k")}).find("?k"); !ok || !name.Made() {
		t.Error("a label as texts write it is not found")
	}
}
