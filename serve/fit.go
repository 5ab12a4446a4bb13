package serve

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/catalogue"
	"github.com/weirml/weir/serve/internal/ledger"
)

// sizes adds the sizes that fit to the error of a request that never does: for each dimension, its greatest value
// beside the request's other dimensions.
func (x *exchange) sizes(v *catalogue.Version, dims weir.Dims, err error) error {
	refused, ok := errors.AsType[*ledger.Refused](err)
	if !ok || !refused.Never || refused.Kind == ledger.Model {
		return err
	}
	var fit []string
	for _, d := range v.Program.Dims() {
		low, high := max(d.Min, 0), dims[d.Name]
		if !x.fits(v, with(dims, d.Name, low)) {
			continue
		}
		for low+1 < high { // it fits at low, and not at high
			middle := low + (high-low)/2
			if x.fits(v, with(dims, d.Name, middle)) {
				low = middle
			} else {
				high = middle
			}
		}
		fit = append(fit, fmt.Sprintf("%s at most %d", d.Name, low))
	}
	if fit == nil {
		return &sized{err, "no smaller size fits; raise the limit, or unload a model"}
	}
	slices.Sort(fit)
	return &sized{err, "send " + strings.Join(fit, ", or ")}
}

// with returns dims with another value of one dimension.
func with(dims weir.Dims, name string, value int64) weir.Dims {
	dims = maps.Clone(dims)
	dims[name] = value
	return dims
}

// fits reports whether a request of these dimensions fits if nothing else runs.
func (x *exchange) fits(v *catalogue.Version, dims weir.Dims) bool {
	call, err := v.CallBytes(dims)
	if err != nil || call > x.server.ledger.Most(ledger.Call) {
		return false
	}
	outputs := int64(0)
	for i := range v.Outputs {
		bytes, ok := v.OutputBytes(i, dims)
		if !ok {
			continue
		}
		outputs = min(outputs+min(bytes, mostOutput), mostOutput)
	}
	return ledger.Whole(outputs) <= x.server.ledger.Most(ledger.Response)
}
