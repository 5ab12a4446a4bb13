package embed

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// TestTextError: the error of a text names it by its number in the call.
func TestTextError(t *testing.T) {
	m := must(t, bert, Options{})
	ids, out := make([][]int32, 30), make([][]float32, 30)
	for i := range ids {
		ids[i], out[i] = make([]int32, 30-i), make([]float32, m.Dimensions())
	}
	for _, at := range []int{0, 13, 29} {
		ids[at][0] = 1 << 20
		err := m.EmbedTokens(t.Context(), 0, ids, out)
		ids[at][0] = 0
		if e, ok := errors.AsType[*TextError](err); !ok || e.Index != at || !errors.Is(err, weir.ErrInput) ||
			!strings.HasPrefix(err.Error(), fmt.Sprintf("text %d: input_ids", at)) {
			t.Errorf("the ids of text %d: %v", at, err)
		}
	}
}
