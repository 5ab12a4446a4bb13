package weir

import (
	"testing"

	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/sym"
)

// TestLabels: no two dimensions have the same label, a dimension of the model's own has its name, and names that only
// texts declare are found too.
func TestLabels(t *testing.T) {
	var dims []sym.Name
	for _, text := range []string{"k", "k'", "?k", "", "n"} {
		dims = append(dims, sym.Made(text), sym.User(text))
	}
	l := report.NewLabels(dims)
	for _, name := range dims {
		label := l.Of[name]
		if back, ok := l.Find(label); !ok || back != name {
			t.Errorf("%s has the label %q, which is %s", name, label, back)
		}
		if name.User() && label != name.Text() {
			t.Errorf("%s has the label %q", name, label)
		}
	}
	if _, ok := l.Find("nobody"); ok {
		t.Error("a dimension that is not there is found")
	}
	if name, ok := report.NewLabels([]sym.Name{sym.Made("k"), sym.User("k")}).Find("?k"); !ok || !name.Made() {
		t.Error("a label as texts write it is not found")
	}
}
