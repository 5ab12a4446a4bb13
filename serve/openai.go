package serve

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/weirml/weir/serve/internal/catalogue"
	"github.com/weirml/weir/serve/internal/conns"
	"github.com/weirml/weir/serve/internal/oip"
	"github.com/weirml/weir/serve/internal/texts"
)

// textREST adds OpenAI's API for models of texts.
func (s *Server) textREST(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/embeddings", s.textCall(texts.DecodeOpenAI, (*exchange).writeEmbeddings))
	for _, path := range []string{"/v1/rerank", "/v2/rerank"} { // Jina's and Cohere's
		mux.HandleFunc("POST "+path, s.textCall(texts.DecodeRanking, (*exchange).writeRanking))
	}
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		list := []modelObject{}
		for _, v := range s.catalogue.Loaded() {
			if v.Texts != nil {
				list = append(list, objectOf(v))
			}
		}
		s.object(w, map[string]any{"object": "list", "data": list})
	})
	mux.HandleFunc("GET /v1/models/{model}", func(w http.ResponseWriter, r *http.Request) {
		v, err := s.catalogue.Use(s.named(r.PathValue("model")))
		if err != nil {
			s.replyOpenAI(w, err)
			return
		}
		defer v.Leave()
		s.object(w, objectOf(v))
	})
}

// object answers with a JSON object.
func (s *Server) object(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(object)
}

// modelObject is a model as OpenAI's API shows it.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
	Version string `json:"version"`

	Labels []string `json:"labels,omitempty"` // of a model that labels texts
}

// objectOf describes a version. Its ID is the model's name, which stands for the newest version.
func objectOf(v *catalogue.Version) modelObject {
	m := modelObject{ID: label(v.Model), Object: "model", Created: v.Loaded.Unix(), Owner: "weir", Version: v.Name()}
	if v.Texts != nil && v.Texts.Classifier != nil {
		m.Labels = v.Texts.Classifier.Labels()
	}
	return m
}

// named returns the model and the version that a name of OpenAI's API means: NAME, or NAME:VERSION.
func (s *Server) named(name string) (model, version string) {
	if at := strings.LastIndexByte(name, ':'); at > 0 && !slices.Contains(s.catalogue.Names(), name) {
		return name[:at], name[at+1:]
	}
	return name, ""
}

// textCall returns the handler of a call: decode reads its body, and write writes the answer.
func (s *Server) textCall(decode func(body []byte, most int, allocate oip.Allocate) (*texts.Embeddings, error),
	write func(x *exchange, to io.Writer, response *oip.Response) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := s.exchangeOf(r)
		defer x.close()
		body, err := x.readBody(w, r, -1)
		if err == nil {
			x.asked, err = decode(body, s.options.MostTexts, x.more)
		}
		var response *oip.Response
		if err == nil {
			request := &oip.Request{Inputs: []oip.Tensor{{Name: catalogue.TextInput, Shape: []int{x.asked.Len()}}}}
			request.Model, request.Version = s.named(x.asked.Model)
			response, err = x.answer(r.Context(), request)
		}
		if err != nil {
			s.replyOpenAI(w, err)
			return
		}
		if err := x.writeTexts(w, r, response, write); err != nil {
			s.log.Debug("response not written", "client", x.from, "error", err)
		}
	}
}

// writeTexts writes an answer within the server's pace, compressed if its client accepts that.
func (x *exchange) writeTexts(w http.ResponseWriter, r *http.Request, response *oip.Response,
	write func(x *exchange, to io.Writer, response *oip.Response) error) (err error) {
	control := http.NewResponseController(w)
	whole := int64(len(response.Outputs[0].Data))*2 + int64(64*x.asked.Len())
	paced := &pacedWriter{newPace(whileOpen(r, control.SetWriteDeadline), x.server.options.Stall, whole), w}
	if r.ProtoMajor == 1 {
		defer conns.Transfer(r.Context())()
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	to, end := io.Writer(paced), func() error { return nil }
	if !x.asked.Base64 { // which compression makes hardly smaller
		to, end = compressed(paced, h, r)
	}
	defer func() {
		err = errors.Join(err, end())
		control.Flush()
		control.SetWriteDeadline(time.Time{})
	}()
	return write(x, to, response)
}

// writeEmbeddings writes vectors as OpenAI's API does.
func (x *exchange) writeEmbeddings(to io.Writer, response *oip.Response) error {
	t := &response.Outputs[0]
	each := len(t.Data) / t.Shape[0]
	text := append(make([]byte, 0, 1<<14), `{"object":"list","data":[`...)
	for i := range t.Shape[0] {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, `{"object":"embedding","index":`...)
		text = append(strconv.AppendInt(text, int64(i), 10), `,"embedding":`...)
		vector := t.Data[i*each : (i+1)*each]
		if x.asked.Base64 {
			text = append(base64.StdEncoding.AppendEncode(append(text, '"'), vector), '"')
		} else {
			text = append(text, '[')
			text = append(oip.AppendFloats(text, vector), ']')
		}
		if text = append(text, '}'); len(text) > 1<<13 {
			if _, err := to.Write(text); err != nil {
				return err
			}
			text = text[:0]
		}
	}
	text = append(oip.AppendJSON(append(text, `],"model":`...), x.asked.Model), `,"usage":{"prompt_tokens":`...)
	text = append(strconv.AppendInt(text, x.tokens, 10), `,"total_tokens":`...)
	_, err := to.Write(append(strconv.AppendInt(text, x.tokens, 10), "}}\n"...))
	return err
}

// writeRanking writes documents, the best first, as Cohere's and Jina's APIs do.
func (x *exchange) writeRanking(to io.Writer, response *oip.Response) error {
	data := response.Outputs[0].Data
	scores := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/4)
	order := make([]int32, len(scores))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	if x.asked.Top > 0 {
		order = order[:min(len(order), x.asked.Top)]
	}
	text := oip.AppendJSON([]byte(`{"model":`), x.asked.Model)
	text = append(text, `,"results":[`...)
	for at, i := range order {
		if at > 0 {
			text = append(text, ',')
		}
		text = append(strconv.AppendInt(append(text, `{"index":`...), int64(i), 10), `,"relevance_score":`...)
		if text = oip.AppendFloats(text, data[4*i:4*i+4]); x.asked.Return {
			text = append(oip.AppendJSON(append(text, `,"document":{"text":`...), x.asked.Texts[i]), '}')
		}
		if text = append(text, '}'); len(text) > 1<<13 {
			if _, err := to.Write(text); err != nil {
				return err
			}
			text = text[:0]
		}
	}
	_, err := to.Write(append(text, "]}\n"...))
	return err
}

// openAIError is an error as OpenAI's API has it, with the numbers beside it.
type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	Need    int64   `json:"need,omitempty"`
	Limit   int64   `json:"limit,omitempty"`
	Held    int64   `json:"held,omitempty"`
	Fix     string  `json:"fix,omitempty"`
}

// replyOpenAI answers with an error as OpenAI's API has it.
func (s *Server) replyOpenAI(w http.ResponseWriter, err error) {
	s.early.add(err)
	f := failureOf(err)
	e := openAIError{Message: f.Text, Type: "invalid_request_error", Code: f.Kind, Need: f.Need, Limit: f.Limit,
		Held: f.Held, Fix: f.Fix}
	switch {
	case f.status == http.StatusTooManyRequests:
		e.Type, e.Code = "rate_limit_error", "rate_limit_exceeded"
	case f.status >= 500 || f.status == 499:
		e.Type = "server_error"
	case f.status == http.StatusUnauthorized:
		e.Code = "invalid_api_key"
	case f.status == http.StatusNotFound:
		e.Code = "model_not_found"
	}
	f.headers(w.Header())
	w.WriteHeader(f.status)
	json.NewEncoder(w).Encode(map[string]any{"error": e})
}
