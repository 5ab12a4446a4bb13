package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/weirml/weir"
	"github.com/weirml/weir/embed"
)

const (
	most     = 256     // the maximum number of texts in a request
	mostBody = 4 << 20 // the maximum number of bytes of a request
)

// service is the service's handler.
type service struct{ model *embed.Model }

// request is the body that a client sends.
type request struct {
	Texts  []string `json:"texts"`
	Prompt string   `json:"prompt,omitempty"` // the name of one of the model's prompts
}

// answer has a vector for each text.
type answer struct {
	Embeddings [][]float32 `json:"embeddings"`
}

// ServeHTTP answers POST /embed.
func (s service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/embed" || r.Method != http.MethodPost {
		http.Error(w, "this service has POST /embed", http.StatusNotFound)
		return
	}
	var body request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody)).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), deadline)
	defer cancel()
	vectors, err := s.embed(ctx, body)
	switch {
	case errors.Is(err, weir.ErrInput):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil: // too many requests for this machine, or the service ends
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer{vectors})
	}
}

// embed returns the vectors of a request's texts, which share runs with those of other requests.
func (s service) embed(ctx context.Context, r request) ([][]float32, error) {
	if len(r.Texts) == 0 || len(r.Texts) > most {
		return nil, fmt.Errorf("%d texts, a request has 1 to %d: %w", len(r.Texts), most, weir.ErrInput)
	}
	if r.Prompt != "" {
		return s.model.EmbedAs(ctx, r.Prompt, r.Texts)
	}
	return s.model.Embed(ctx, r.Texts)
}
