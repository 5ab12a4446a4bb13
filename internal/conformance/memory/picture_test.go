package memory

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
)

// TestPictureWithinLimits decodes a picture, which Go's heap holds meanwhile, under limits and budgets: without space
// for it, the run is refused with the node's name, and the next run works.
func TestPictureWithinLimits(t *testing.T) {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 2000, 2000))); err != nil {
		t.Fatal(err)
	}
	x, err := weir.FromSlice(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	inputs := []*wire.ValueInfoProto{weirtest.Typed("x",
		weirtest.TensorType(wire.Uint8Type, &wire.Dimension{Param: "n"}))}
	outputs := []*wire.ValueInfoProto{weirtest.Typed("y",
		weirtest.TensorType(wire.Uint8Type, &wire.Dimension{}, &wire.Dimension{},
			wire.Size(3)))}
	p := weirtest.ProgramOf(t, weir.Options{}, inputs, outputs, weirtest.NodeOf("ImageDecoder x y"))
	defer p.Close()
	in := weir.Inputs{"x": x}
	weir.Trim()
	mem.ResetPeaks()
	r, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if u := mem.Usage(); u.Peak[mem.Scratch]-u.Current[mem.Scratch] < 4e6 {
		t.Errorf("decoding 4 million pixels counted %d bytes at most, and there are %d", u.Peak[mem.Scratch],
			u.Current[mem.Scratch])
	}
	u := mem.Usage()
	limit := weir.SetLimit(u.MappedAll + u.Cached + 1<<20)
	_, err = p.Run(t.Context(), in)
	weir.SetLimit(limit)
	if !errors.Is(err, weir.ErrMemory) {
		t.Errorf("with a limit that leaves a MiB: %v", err)
	}
	if r, err = p.Run(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if now := mem.Usage(); now.MappedAll != u.MappedAll {
		t.Errorf("%d bytes are left", now.MappedAll-u.MappedAll)
	}
	tight := weirtest.ProgramOf(t,
		weir.Options{Budget: 14 << 20, Dims: map[string]weir.Range{"n": {Min: 1, Max: 1 << 20}}}, inputs,
		outputs, weirtest.NodeOf("ImageDecoder x y"))
	defer tight.Close()
	if r, err := tight.Run(t.Context(), in); !errors.Is(err, weir.ErrBudget) {
		r.Close()
		t.Errorf("within 14 MiB, of which the picture takes 12: %v", err)
	}
}
