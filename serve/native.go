package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/weirml/weir/serve/internal/catalogue"
	"github.com/weirml/weir/serve/internal/ledger"
	"github.com/weirml/weir/serve/internal/oip"
	"github.com/weirml/weir/serve/internal/texts"
	"github.com/weirml/weir/tokenizer"
)

// nativePaths are the paths of text-embeddings-inference that the server alone has.
var nativePaths = []string{"/embed", "/embed_all", "/embed_sparse", "/similarity", "/predict", "/rerank", "/tokenize",
	"/decode", "/info"}

// nativeREST adds the endpoints of text-embeddings-inference. Its servers have one model: a request is for the only
// model of the server that can answer it, unless its field model names another.
func (s *Server) nativeREST(mux *http.ServeMux) {
	for path, decode := range map[string]func([]byte, int, oip.Allocate) (*texts.Embeddings, error){
		"/embed": texts.DecodeEmbed, "/similarity": texts.DecodeSimilarity, "/predict": texts.DecodePredict,
		"/rerank": texts.DecodeRerank, "/{$}": s.decodeNative} {
		chosen := func(body []byte, most int, allocate oip.Allocate) (*texts.Embeddings, error) {
			asked, err := decode(body, most, allocate)
			if err == nil && asked.Model == "" {
				asked.Model, err = s.only(asked)
			}
			return asked, err
		}
		mux.HandleFunc("POST "+path, s.textCall(chosen, (*exchange).writeNative, s.replyNative))
	}
	for path, lacks := range map[string]string{"/embed_sparse": "models of sparse vectors (SPLADE)",
		"/embed_all": "the vectors of single tokens"} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, _ *http.Request) {
			s.replyNative(w, notSupported("the server does not have %s; /embed gives a vector for each text", lacks))
		})
	}
	mux.HandleFunc("POST /tokenize", s.tokenCall(texts.DecodeTokenize, (*exchange).tokenize))
	mux.HandleFunc("POST /decode", s.tokenCall(texts.DecodeDecode, (*exchange).decode))
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, _ *http.Request) {
		v, err := s.onlyTexts("")
		if err != nil {
			s.replyNative(w, err)
			return
		}
		defer v.Leave()
		s.object(w, s.infoOf(v))
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if !s.Ready() {
			s.replyNative(w, &refusal{http.StatusServiceUnavailable, codes.Unavailable, "models are being loaded"})
		}
	})
}

// decodeNative reads a request to the path that is for whatever the model does.
func (s *Server) decodeNative(body []byte, most int, allocate oip.Allocate) (*texts.Embeddings, error) {
	var r struct{ Texts, Query json.RawMessage }
	embedders, _ := s.able(func(t *catalogue.Texts) bool { return t.Embedder != nil })
	switch err := json.Unmarshal(body, &r); {
	case err == nil && (r.Texts != nil || r.Query != nil):
		return texts.DecodeRerank(body, most, allocate)
	case len(embedders) > 0:
		return texts.DecodeEmbed(body, most, allocate)
	}
	return texts.DecodePredict(body, most, allocate)
}

// able returns the names of the models of texts that are able, and the number of all.
func (s *Server) able(is func(t *catalogue.Texts) bool) (names []string, all int) {
	for _, v := range s.catalogue.Loaded() {
		if v.Texts == nil {
			continue
		}
		if all++; is(v.Texts) && !slices.Contains(names, v.Model) {
			names = append(names, v.Model)
		}
	}
	return names, all
}

// only returns the name of the one model that can answer a request.
func (s *Server) only(asked *texts.Embeddings) (string, error) {
	what, path := "makes vectors of texts", "/v1/embeddings"
	is := func(t *catalogue.Texts) bool { return t.Embedder != nil }
	switch {
	case asked.Predicts:
		what, path = "labels texts", "the Open Inference Protocol"
		is = func(t *catalogue.Texts) bool { return t.Classifier != nil }
	case asked.Ranks:
		what, path = "ranks texts (with a single label)", "/v1/rerank"
		is = func(t *catalogue.Texts) bool { return t.Classifier != nil && len(t.Classifier.Labels()) == 1 }
	}
	return s.one(is, what, path)
}

// one returns the name of the one model of texts that is as asked for: what it does, and the API that names models.
func (s *Server) one(is func(t *catalogue.Texts) bool, what, path string) (string, error) {
	switch names, all := s.able(is); {
	case len(names) == 0:
		return "", &refusal{http.StatusFailedDependency, codes.FailedPrecondition,
			fmt.Sprintf("none of the server's %d models of texts %s", all, what)}
	case len(names) > 1:
		return "", oip.Errorf("%d models %s: %q; name one in the field model, here or in %s", len(names), what, names,
			path)
	default:
		return names[0], nil
	}
}

// onlyTexts returns the model of texts of a name, or the only one if the name is empty. The caller leaves it.
func (s *Server) onlyTexts(name string) (v *catalogue.Version, err error) {
	if name == "" {
		if name, err = s.one(func(*catalogue.Texts) bool { return true }, "read texts", "/v1"); err != nil {
			return nil, err
		}
	}
	if v, err = s.catalogue.Use(s.named(name)); err == nil && v.Texts == nil {
		v.Leave()
		return nil, oip.Errorf("model %s does not read texts", name)
	}
	return v, err
}

// writeNative writes vectors, similarities, labels or documents, as text-embeddings-inference does.
func (x *exchange) writeNative(to io.Writer, response *oip.Response) error {
	data, n := response.Outputs[0].Data, response.Outputs[0].Shape[0]
	list, each := elements(response)
	asked := x.asked
	switch {
	case asked.Ranks:
		order := x.ranked(response)
		return writeList(to, "[", len(order), func(text []byte, at int) []byte {
			i := order[at]
			text = strconv.AppendInt(append(text, `{"index":`...), int64(i), 10)
			if asked.Return {
				text = oip.AppendJSON(append(text, `,"text":`...), asked.Texts[i])
			}
			return append(oip.AppendFloats(append(text, `,"score":`...), data[4*i:4*i+4]), '}')
		}, "]\n")
	case asked.Predicts:
		order := make([]int, each)
		begin, end := "[", "]\n"
		if asked.Alone {
			begin, end = "", "\n"
		}
		return writeList(to, begin, n, func(text []byte, i int) []byte {
			for k := range order {
				order[k] = i*each + k
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[b], list[a]) })
			for k, at := range order {
				text = append(text, `[,`[min(k, 1)])
				text = oip.AppendFloats(append(text, `{"score":`...), data[4*at:4*at+4])
				text = append(oip.AppendJSON(append(text, `,"label":`...), x.labels[at-i*each]), '}')
			}
			return append(text, ']')
		}, end)
	case asked.Compares:
		return writeList(to, "[", n-1, func(text []byte, i int) []byte {
			sum := float32(0)
			for k, y := range list[(i+1)*each : (i+2)*each] {
				sum += list[k] * y
			}
			return strconv.AppendFloat(text, float64(sum), 'g', -1, 32)
		}, "]\n")
	}
	return writeList(to, "[", n, func(text []byte, i int) []byte {
		return append(oip.AppendFloats(append(text, '['), data[4*i*each:4*(i+1)*each]), ']')
	}, "]\n")
}

// tokenCall returns the handler of a call about tokens: decode reads its body, and answer returns what writes the
// answer.
func (s *Server) tokenCall(decode func(body []byte, most int, allocate oip.Allocate) (*texts.Tokens, error),
	answer func(x *exchange, ctx context.Context, v *catalogue.Version, asked *texts.Tokens) (func(to io.Writer) error,
		error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := s.exchangeOf(r)
		defer x.close()
		var asked *texts.Tokens
		var v *catalogue.Version
		var write func(to io.Writer) error
		body, err := x.readBody(w, r, -1)
		if err == nil {
			asked, err = decode(body, s.options.MostTexts, x.more)
		}
		if err == nil {
			v, err = s.onlyTexts(asked.Model)
		}
		if err == nil {
			defer v.Leave()
			defer x.closeInputs()
			write, err = answer(x, r.Context(), v, asked)
		}
		if err != nil {
			s.replyNative(w, err)
			return
		}
		if err := x.writePaced(w, r, 16*int64(len(body)), true, write); err != nil {
			s.log.Debug("response not written", "client", x.from, "error", err)
		}
	}
}

// The bytes of Go's heap that an answer takes, besides the tokens of a text, each of which takes as many as follow.
const (
	heapOfAnswer = 64 << 10
	heapOfFound  = 256
)

// heap takes bytes of Go's heap for an answer, until closeInputs.
func (x *exchange) heap(ctx context.Context, v *catalogue.Version, bytes int64) error {
	if err := x.share(ctx, x.server.joining, ledger.Joined, &x.joined, bytes); err != nil {
		return err
	}
	if err := v.TakeJoined(ctx, bytes); err != nil {
		return err
	}
	x.leave = append(x.leave, func() { v.GiveJoined(bytes) })
	return nil
}

// tokenize finds the tokens of texts. They are found twice, so that only those of one text are held at a time, and an
// error comes before the answer.
func (x *exchange) tokenize(ctx context.Context, v *catalogue.Version, asked *texts.Tokens) (func(to io.Writer) error,
	error) {
	t, prompt, longest := v.Texts.Tokenizer(), "", 0
	if asked.Prompt != "" {
		var prompts map[string]string
		if v.Texts.Embedder != nil {
			prompts = v.Texts.Embedder.Prompts()
		}
		var ok bool
		if prompt, ok = prompts[asked.Prompt]; !ok {
			return nil, oip.Errorf("the model has no prompt %q", asked.Prompt)
		}
	}
	for _, text := range asked.Texts {
		longest = max(longest, len(text))
	}
	if err := x.heap(ctx, v, heapOfByte*int64(len(prompt)+longest)+heapOfAnswer); err != nil {
		return nil, err
	}
	o := tokenizer.Options{NoSpecial: !asked.Special, Truncation: &tokenizer.Truncation{Off: true},
		Padding: &tokenizer.Padding{Off: true}}
	var ids []int32
	most := 0
	for i, text := range asked.Texts {
		err := ctx.Err()
		if err == nil {
			ids, err = t.AppendIDs(ids[:0], prompt+text, o)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", asked.Place(i, 0), cause(ctx, err))
		}
		most = max(most, len(ids))
	}
	if err := x.heap(now, v, heapOfFound*int64(most)); err != nil { // at once: nothing waits for what it holds already
		return nil, err
	}
	return func(to io.Writer) (failed error) {
		err := writeList(to, "[", len(asked.Texts), func(text []byte, i int) []byte {
			whole := prompt + asked.Texts[i]
			e, err := t.Encode(whole, o)
			if err != nil || ctx.Err() != nil {
				failed = errors.Join(failed, err, ctx.Err())
				return text
			}
			text = append(text, '[')
			for k, id := range e.IDs {
				if k > 0 {
					text = append(text, ',')
				}
				text = strconv.AppendInt(append(text, `{"id":`...), int64(id), 10)
				if token, _ := t.Token(id); e.Special[k] {
					text = oip.AppendJSON(append(text, `,"text":`...), strings.ToValidUTF8(token, "\uFFFD"))
					text = append(text, `,"special":true,"start":null,"stop":null}`...)
					continue
				}
				at := e.Offsets[k]
				text = oip.AppendJSON(append(text, `,"text":`...), strings.ToValidUTF8(whole[at.Begin:at.End], "\uFFFD"))
				text = strconv.AppendInt(append(text, `,"special":false,"start":`...), int64(at.Begin), 10)
				text = append(strconv.AppendInt(append(text, `,"stop":`...), int64(at.End), 10), '}')
			}
			return append(text, ']')
		}, "]\n")
		return errors.Join(failed, err)
	}, nil
}

// decode finds the texts of tokens.
func (x *exchange) decode(ctx context.Context, v *catalogue.Version, asked *texts.Tokens) (func(to io.Writer) error,
	error) {
	t, most := v.Texts.Tokenizer(), int64(0)
	for i, ids := range asked.IDs {
		bytes := int64(0)
		for k, id := range ids {
			token, ok := t.Token(id)
			if !ok {
				return nil, oip.Errorf("%s[%d] is %d, and the model's tokenizer has no such token", asked.Place(i, 0), k, id)
			}
			bytes += 64 + 16*int64(len(token)) // a string in a list, and its text in some steps
		}
		most = max(most, bytes)
	}
	if err := x.heap(ctx, v, most+heapOfAnswer); err != nil {
		return nil, err
	}
	decode := t.Decode
	if asked.Special {
		decode = t.DecodeSpecial
	}
	return func(to io.Writer) error {
		return writeList(to, "[", len(asked.IDs), func(text []byte, i int) []byte {
			return oip.AppendJSON(text, strings.ToValidUTF8(decode(asked.IDs[i]), "\uFFFD"))
		}, "]\n")
	}, nil
}

// nativeInfo describes a model as text-embeddings-inference does.
type nativeInfo struct {
	ID       string         `json:"model_id"`
	Hash     *string        `json:"model_sha"`
	DType    string         `json:"model_dtype"`
	Name     string         `json:"served_model_name"`
	Type     map[string]any `json:"model_type"`
	Requests int            `json:"max_concurrent_requests"`
	Input    int            `json:"max_input_length"`
	Tokens   int            `json:"max_batch_tokens"`
	Batch    *int           `json:"max_batch_requests"`
	Client   int            `json:"max_client_batch_size"`
	Truncate bool           `json:"auto_truncate"`
	Workers  int            `json:"tokenization_workers"`
	Version  string         `json:"version"`
	SHA      *string        `json:"sha"`
	Docker   *string        `json:"docker_label"`
}

// infoOf describes a version.
func (s *Server) infoOf(v *catalogue.Version) nativeInfo {
	kind := map[string]any{"embedding": map[string]string{"pooling": "as the folder says"}}
	if c := v.Texts.Classifier; c != nil {
		names, numbers := map[string]string{}, map[string]int{}
		for i, label := range c.Labels() {
			names[strconv.Itoa(i)], numbers[label] = label, i
		}
		name := "classifier"
		if len(names) == 1 {
			name = "reranker"
		}
		kind = map[string]any{name: map[string]any{"id2label": names, "label2id": numbers}}
	}
	return nativeInfo{ID: label(v.Model), DType: "float32", Name: label(v.Model), Type: kind, Requests: s.options.Requests,
		Input: v.Texts.MaxTokens(), Tokens: max(catalogue.TokensTogether, v.Texts.MaxTokens()), Client: s.options.MostTexts,
		Truncate: true, Workers: runtime.GOMAXPROCS(0), Version: "weir " + v.Name()}
}

// replyNative answers with an error as text-embeddings-inference has it, with the numbers beside it.
func (s *Server) replyNative(w http.ResponseWriter, err error) {
	s.early.add(err)
	f := failureOf(err)
	kind := "Validation"
	_, empty := errors.AsType[*texts.EmptyError](err)
	switch {
	case empty:
		kind = "Empty"
	case f.Kind == "unsupported" || f.status == http.StatusFailedDependency || f.status == http.StatusNotImplemented:
		kind, f.status = "Backend", http.StatusFailedDependency
	case f.status == http.StatusBadRequest:
		f.status = http.StatusUnprocessableEntity
	case f.status == http.StatusTooManyRequests:
		kind = "Overloaded"
	case f.status == http.StatusServiceUnavailable:
		kind = "Unhealthy"
	case f.status >= 499:
		kind = "Backend"
	}
	f.headers(w.Header())
	w.WriteHeader(f.status)
	json.NewEncoder(w).Encode(struct {
		*failure
		Type string `json:"error_type"`
	}{f, kind})
}
