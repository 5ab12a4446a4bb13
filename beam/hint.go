package beamweir

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"

	"github.com/weirml/weir/internal/diag"
)

// hinted is the hint that Hint has made.
var hinted struct {
	sync.Mutex
	bytes int64
	text  string
}

// Hint returns the bytes with which a process can load, compile and run the model of Model.Path: twice as much if
// there are versions, since a version is loaded before the one before is released. It loads the model here to find
// them. Go's own heap, with the elements and Beam, comes on top.
//
// Hint adds the bytes to the pipeline's resource hint min_ram, which Beam's Go SDK has for entire pipelines only,
// unless the flag --resource_hints has one already that Hint has not made. Call it for each model of a pipeline,
// between beam.Init and the pipeline's run. Runners that know no hints ignore it.
func Hint(ctx context.Context, m Model, o Options) (needed int64, err error) {
	codec := m.Codec
	if codec == nil {
		codec = Floats{}
	}
	w, err := openerOf(codec)
	if err != nil {
		return 0, err
	}
	if m.Path == "" {
		return 0, diag.Inputf("no Model.Path to find the bytes of")
	}
	if _, err := specOf(m, o); err != nil {
		return 0, err
	}
	r, err := opened(ctx, w, m.Path, o)
	if err != nil {
		return 0, err
	}
	defer r.close()
	if needed, err = r.needs(); err != nil {
		return 0, err
	}
	if m.Versions.IsValid() {
		needed *= 2
	}
	hinted.Lock()
	defer hinted.Unlock()
	list := jobopts.ResourceHints[:0:0]
	for _, h := range jobopts.ResourceHints {
		if h == hinted.text {
			continue
		}
		if strings.HasPrefix(h, "min_ram=") || strings.HasPrefix(h, "beam:resources:min_ram_bytes:v1=") {
			return needed, nil
		}
		list = append(list, h)
	}
	hinted.bytes += needed
	hinted.text = fmt.Sprintf("min_ram=%dB", hinted.bytes)
	jobopts.ResourceHints = append(list, hinted.text)
	return needed, nil
}
