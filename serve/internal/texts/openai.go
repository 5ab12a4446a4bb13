package texts

import (
	"cmp"

	"github.com/weirml/weir/serve/internal/oip"
)

// Embeddings is a request for vectors.
type Embeddings struct {
	Model string
	Input
	Base64     bool   // vectors are little-endian elements in base 64
	Dimensions int    // of a vector, the first ones; 0: all
	Prompt     string // the name of the model's prompt
}

// DecodeOpenAI reads a request to OpenAI's /v1/embeddings, with at most so many texts. It replaces escapes in the body.
func DecodeOpenAI(body []byte, most int, allocate oip.Allocate) (*Embeddings, error) {
	var r struct {
		Model      string `json:"model"`
		Input      span   `json:"input"`
		Format     string `json:"encoding_format"`
		Dimensions *int64 `json:"dimensions"`
		Prompt     string `json:"prompt_name"`
	}
	if err := decode(body, &r); err != nil {
		return nil, err
	}
	e := &Embeddings{Model: r.Model, Base64: r.Format == "base64", Prompt: r.Prompt}
	if f := cmp.Or(r.Format, "float"); f != "float" && f != "base64" {
		return nil, oip.Errorf("encoding_format is %q; it may be float or base64", f)
	}
	if d := r.Dimensions; d != nil {
		if *d < 1 || *d > 1<<30 {
			return nil, oip.Errorf("dimensions is %d", *d)
		}
		e.Dimensions = int(*d)
	}
	var err error
	if e.Input, err = readInput("input", r.Input, most, allocate); err != nil {
		return e, err
	}
	return e, nil
}
