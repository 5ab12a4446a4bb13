package texts

import (
	"cmp"
	"fmt"

	"github.com/weirml/weir/serve/internal/oip"
)

// Embeddings is a request for vectors or, if Ranks is true, for the scores of documents.
type Embeddings struct {
	Model string
	Input
	Field      string // of the request that has the texts
	Base64     bool   // vectors are little-endian elements in base 64
	Dimensions int    // of a vector, the first ones; 0: all
	Prompt     string // the name of the model's prompt

	Ranks  bool     // Texts are documents, to be scored for Query
	Query  string   // not empty if Ranks is true
	Top    int      // the number of best documents to return; 0: all
	Return bool     // the answer has the documents
	Second []string // of pairs, whose first texts are Texts; an empty one stands for no second text

	Compares bool   // the first vector is compared with the others
	Predicts bool   // Texts and pairs get the scores of all labels
	Scores   Scores // of Ranks and Predicts
	Unit     bool   // vectors are scaled to length 1
	Whole    bool   // texts that are too long are refused, rather than truncated
}

// Scores says which numbers scores are.
type Scores int

// The numbers: what the model's folder says, probabilities (softmax, or the sigmoid if there is one label), or logits.
const (
	FolderScores Scores = iota
	Probabilities
	Logits
)

// Place returns where in a request a text is: of pairs, part 1 or 2 is one of its texts, and 0 the pair as a whole.
func (e *Embeddings) Place(i, part int) string {
	at := e.Field
	switch {
	case e.Ranks && part == 1:
		return "query"
	case e.Compares && i == 0:
		return "inputs.source_sentence"
	case e.Compares:
		at = fmt.Sprintf("%s[%d]", at, i-1)
	case !e.Alone:
		at = fmt.Sprintf("%s[%d]", at, i)
	}
	if e.Second != nil && part > 0 {
		at = fmt.Sprintf("%s[%d]", at, part-1)
	}
	return at
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
	e := &Embeddings{Model: r.Model, Field: "input", Base64: r.Format == "base64", Prompt: r.Prompt}
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

// DecodeRanking reads a request to rank documents, as Cohere's and Jina's APIs have it, with at most so many documents.
// It replaces escapes in the body.
func DecodeRanking(body []byte, most int, allocate oip.Allocate) (*Embeddings, error) {
	var r struct {
		Model     string `json:"model"`
		Query     string `json:"query"`
		Documents span   `json:"documents"`
		Top       *int64 `json:"top_n"`
		Return    bool   `json:"return_documents"`
	}
	if err := decode(body, &r); err != nil {
		return nil, err
	}
	e := &Embeddings{Model: r.Model, Field: "documents", Ranks: true, Query: r.Query, Return: r.Return}
	if r.Top != nil {
		if *r.Top < 1 {
			return nil, oip.Errorf("top_n is %d", *r.Top)
		}
		e.Top = int(min(*r.Top, int64(most)))
	}
	if r.Query == "" {
		return nil, oip.Errorf("query is missing or empty")
	}
	d := reader{text: r.Documents}
	if d.next() != '[' {
		return nil, oip.Errorf("documents is no array of strings, or of objects with a text")
	}
	d.at++
	var err error
	if e.Texts, err = d.strings("documents", most, allocate); err != nil {
		return nil, err
	}
	if len(e.Texts) == 0 {
		return nil, &EmptyError{"documents"}
	}
	return e, nil
}
