package texts

import (
	"bytes"

	"github.com/weirml/weir/serve/internal/oip"
)

// nativeOptions are fields that requests to several endpoints of text-embeddings-inference have. Model is Weir's.
type nativeOptions struct {
	Model     string `json:"model"`
	Inputs    span   `json:"inputs"`
	Truncate  *bool  `json:"truncate"` // nil: true, as the server's default has it
	Direction string `json:"truncation_direction"`
	Prompt    string `json:"prompt_name"`
	Raw       bool   `json:"raw_scores"`
}

// request returns the request that the fields make.
func (o *nativeOptions) request(field string) (*Embeddings, error) {
	switch o.Direction {
	case "", "Right", "right":
	default:
		return nil, oip.Errorf("truncation_direction is %q; texts are truncated on the side that the model's tokenizer "+
			"says: leave it out", o.Direction)
	}
	e := &Embeddings{Model: o.Model, Field: field, Prompt: o.Prompt, Scores: Probabilities}
	if o.Raw {
		e.Scores = Logits
	}
	e.Whole = o.Truncate != nil && !*o.Truncate
	return e, nil
}

// DecodeEmbed reads a request to text-embeddings-inference's /embed, with at most so many texts. It replaces escapes in
// the body.
func DecodeEmbed(body []byte, most int, allocate oip.Allocate) (*Embeddings, error) {
	var r struct {
		nativeOptions
		Normalize  *bool  `json:"normalize"`
		Dimensions *int64 `json:"dimensions"`
	}
	if err := decode(body, &r); err != nil {
		return nil, err
	}
	e, err := r.request("inputs")
	if err != nil {
		return nil, err
	}
	e.Unit = r.Normalize == nil || *r.Normalize
	if d := r.Dimensions; d != nil {
		if *d < 1 || *d > 1<<30 {
			return nil, oip.Errorf("dimensions is %d", *d)
		}
		e.Dimensions = int(*d)
	}
	e.Input, err = readInput("inputs", r.Inputs, most, allocate)
	return e, err
}

// DecodeSimilarity reads a request to text-embeddings-inference's /similarity: the first of the texts is the one that
// the others are compared with.
func DecodeSimilarity(body []byte, most int, allocate oip.Allocate) (*Embeddings, error) {
	var r struct {
		Model  string `json:"model"`
		Inputs struct {
			Source    span `json:"source_sentence"`
			Sentences span `json:"sentences"`
		} `json:"inputs"`
		Parameters nativeOptions `json:"parameters"`
	}
	if err := decode(body, &r); err != nil {
		return nil, err
	}
	source := reader{text: r.Inputs.Source}
	if source.next() != '"' {
		return nil, oip.Errorf("inputs.source_sentence is no string")
	}
	r.Parameters.Model = r.Model
	e, err := r.Parameters.request("inputs.sentences")
	if err != nil {
		return nil, err
	}
	list, err := readTexts("inputs.sentences", r.Inputs.Sentences, most, allocate)
	if err != nil {
		return nil, err
	}
	if e.Texts, err = room[string](1+len(list), allocate); err != nil {
		return nil, err
	}
	copy(e.Texts[1:], list)
	e.Texts[0] = source.string()
	e.Unit, e.Compares = true, true
	return e, nil
}

// DecodeRerank reads a request to text-embeddings-inference's /rerank, with at most so many texts. It replaces escapes
// in the body.
func DecodeRerank(body []byte, most int, allocate oip.Allocate) (*Embeddings, error) {
	var r struct {
		nativeOptions
		Query  string `json:"query"`
		Texts  span   `json:"texts"`
		Return bool   `json:"return_text"`
	}
	if err := decode(body, &r); err != nil {
		return nil, err
	}
	e, err := r.request("texts")
	if err != nil {
		return nil, err
	}
	if e.Ranks, e.Query, e.Return = true, r.Query, r.Return; e.Query == "" {
		return nil, oip.Errorf("query is missing or empty")
	}
	e.Texts, err = readTexts("texts", r.Texts, most, allocate)
	return e, err
}

// readTexts reads an array of strings.
func readTexts(field string, text span, most int, allocate oip.Allocate) ([]string, error) {
	r := reader{text: text}
	if r.next() != '[' {
		return nil, oip.Errorf("%s is no array of strings", field)
	}
	r.at++
	list, err := r.strings(field, most, allocate)
	if err == nil && len(list) == 0 {
		err = &EmptyError{field}
	}
	return list, err
}

// DecodePredict reads a request to text-embeddings-inference's /predict: a text, a pair of texts, or a list of arrays
// of one or two texts. It replaces escapes in the body.
func DecodePredict(body []byte, most int, allocate oip.Allocate) (*Embeddings, error) {
	var o nativeOptions
	if err := decode(body, &o); err != nil {
		return nil, err
	}
	e, err := o.request("inputs")
	if err != nil {
		return nil, err
	}
	e.Predicts = true
	const says = "inputs is no string, array of one or two strings, or array of such arrays"
	r := reader{text: o.Inputs}
	switch r.next() {
	case '"':
		e.Input = Input{Texts: []string{r.string()}, Alone: true}
		return e, nil
	case '[':
		r.at++
	default:
		return nil, oip.Errorf(says)
	}
	switch r.next() {
	case ']':
		return nil, &EmptyError{"inputs"}
	case '"':
		e.Alone = true
	case '[':
	default:
		return nil, oip.Errorf(says)
	}
	list := 1 // an upper bound
	if !e.Alone {
		list = min(most, bytes.Count(r.text[r.at:], []byte{'['}))
	}
	if e.Texts, err = room[string](list, allocate); err != nil {
		return nil, err
	}
	if e.Second, err = room[string](list, allocate); err != nil {
		return nil, err
	}
	n := 0
	for ; e.Alone && n == 0 || r.next() == '['; n++ {
		if n == most {
			return nil, &TooManyError{most}
		}
		if !e.Alone {
			r.at++
		}
		at, texts := e.Place(n, 0), 0
		for ; r.next() == '"'; texts++ {
			switch one := r.string(); texts {
			case 0:
				e.Texts[n] = one
			case 1:
				e.Second[n] = one
			default:
				return nil, oip.Errorf("%s has more than two texts", at)
			}
		}
		if texts == 0 || r.next() != ']' {
			return nil, oip.Errorf("%s is no array of one or two strings", at)
		}
		r.at++
	}
	if !e.Alone && r.next() != ']' {
		return nil, oip.Errorf("%s is no array of one or two strings", e.Place(n, 0))
	}
	e.Texts, e.Second = e.Texts[:n], e.Second[:n]
	return e, nil
}

// Tokens is a request for the tokens of texts, or for the texts of tokens: one of Input's fields is there.
type Tokens struct {
	Embeddings
	Special bool // tokens are added to texts, or kept in them
}

// DecodeTokenize reads a request to text-embeddings-inference's /tokenize, with at most so many texts. It replaces
// escapes in the body.
func DecodeTokenize(body []byte, most int, allocate oip.Allocate) (*Tokens, error) {
	var r struct {
		nativeOptions
		Special *bool `json:"add_special_tokens"`
	}
	if err := decode(body, &r); err != nil {
		return nil, err
	}
	t := &Tokens{Special: r.Special == nil || *r.Special}
	t.Model, t.Prompt, t.Field = r.Model, r.Prompt, "inputs"
	var err error
	if t.Input, err = readInput("inputs", r.Inputs, most, allocate); err == nil && t.Texts == nil {
		err = oip.Errorf("inputs has ids, which are tokens already; send strings")
	}
	return t, err
}

// DecodeDecode reads a request to text-embeddings-inference's /decode, with at most so many texts.
func DecodeDecode(body []byte, most int, allocate oip.Allocate) (*Tokens, error) {
	var r struct {
		Model string `json:"model"`
		IDs   span   `json:"ids"`
		Skip  *bool  `json:"skip_special_tokens"`
	}
	if err := decode(body, &r); err != nil {
		return nil, err
	}
	t := &Tokens{Special: r.Skip != nil && !*r.Skip}
	t.Model, t.Field = r.Model, "ids"
	var err error
	if t.Input, err = readInput("ids", r.IDs, most, allocate); err == nil && t.IDs == nil {
		err = oip.Errorf("ids has strings, and not ids of tokens")
	}
	return t, err
}
