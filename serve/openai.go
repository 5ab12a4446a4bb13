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
	mux.HandleFunc("POST /v1/embeddings", s.textCall(texts.DecodeOpenAI, (*exchange).writeEmbeddings, s.replyOpenAI))
	for _, path := range []string{"/v1/rerank", "/v2/rerank"} { // Jina's and Cohere's
		mux.HandleFunc("POST "+path, s.textCall(texts.DecodeRanking, (*exchange).writeRanking, s.replyOpenAI))
	}
	s.nativeREST(mux)
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

// textCall returns the handler of a call: decode reads its body, write writes the answer, and reply an error.
func (s *Server) textCall(decode func(body []byte, most int, allocate oip.Allocate) (*texts.Embeddings, error),
	write func(x *exchange, to io.Writer, response *oip.Response) error,
	reply func(w http.ResponseWriter, err error)) http.HandlerFunc {
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
			reply(w, err)
			return
		}
		if err := x.writeTexts(w, r, response, write); err != nil {
			s.log.Debug("response not written", "client", x.from, "error", err)
		}
	}
}

// writeTexts writes an answer within the server's pace, compressed if its client accepts that.
func (x *exchange) writeTexts(w http.ResponseWriter, r *http.Request, response *oip.Response,
	write func(x *exchange, to io.Writer, response *oip.Response) error) error {
	whole := int64(len(response.Outputs[0].Data))*2 + int64(64*x.asked.Len())
	// base 64 is hardly smaller when it is compressed
	return x.writePaced(w, r, whole, !x.asked.Base64, func(to io.Writer) error { return write(x, to, response) })
}

// writePaced writes an answer of about so many bytes within the server's pace; it is compressed if that pays and its
// client accepts it.
func (x *exchange) writePaced(w http.ResponseWriter, r *http.Request, whole int64, pays bool,
	write func(to io.Writer) error) (err error) {
	control := http.NewResponseController(w)
	paced := &pacedWriter{newPace(whileOpen(r, control.SetWriteDeadline), x.server.options.Stall, whole), w}
	if r.ProtoMajor == 1 {
		defer conns.Transfer(r.Context())()
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	to, end := io.Writer(paced), func() error { return nil }
	if pays {
		to, end = compressed(paced, h, r)
	}
	defer func() {
		err = errors.Join(err, end())
		control.Flush()
		control.SetWriteDeadline(time.Time{})
	}()
	return write(to)
}

// writeList writes elements, with commas between them; one appends the element i.
func writeList(to io.Writer, begin string, n int, one func(text []byte, i int) []byte, end string) error {
	text := append(make([]byte, 0, 1<<14), begin...)
	for i := range n {
		if i > 0 {
			text = append(text, ',')
		}
		if text = one(text, i); len(text) > 1<<13 {
			if _, err := to.Write(text); err != nil {
				return err
			}
			text = text[:0]
		}
	}
	_, err := to.Write(append(text, end...))
	return err
}

// elements returns the elements of the one output of a model of texts, and how many each text has.
func elements(response *oip.Response) (list []float32, each int) {
	t := &response.Outputs[0]
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(t.Data))), len(t.Data)/4), len(t.Data) / 4 / t.Shape[0]
}

// ranked returns the indices of documents, the best first.
func (x *exchange) ranked(response *oip.Response) []int32 {
	scores, _ := elements(response)
	order := make([]int32, len(scores))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	if x.asked.Top > 0 {
		order = order[:min(len(order), x.asked.Top)]
	}
	return order
}

// writeEmbeddings writes vectors as OpenAI's API does.
func (x *exchange) writeEmbeddings(to io.Writer, response *oip.Response) error {
	data := response.Outputs[0].Data
	each := len(data) / response.Outputs[0].Shape[0]
	end := append(oip.AppendJSON([]byte(`],"model":`), x.asked.Model), `,"usage":{"prompt_tokens":`...)
	end = append(strconv.AppendInt(end, x.tokens, 10), `,"total_tokens":`...)
	end = append(strconv.AppendInt(end, x.tokens, 10), "}}\n"...)
	return writeList(to, `{"object":"list","data":[`, response.Outputs[0].Shape[0], func(text []byte, i int) []byte {
		text = append(text, `{"object":"embedding","index":`...)
		text = append(strconv.AppendInt(text, int64(i), 10), `,"embedding":`...)
		vector := data[i*each : (i+1)*each]
		if x.asked.Base64 {
			text = append(base64.StdEncoding.AppendEncode(append(text, '"'), vector), '"')
		} else {
			text = append(oip.AppendFloats(append(text, '['), vector), ']')
		}
		return append(text, '}')
	}, string(end))
}

// writeRanking writes documents, the best first, as Cohere's and Jina's APIs do.
func (x *exchange) writeRanking(to io.Writer, response *oip.Response) error {
	data, order := response.Outputs[0].Data, x.ranked(response)
	begin := append(oip.AppendJSON([]byte(`{"model":`), x.asked.Model), `,"results":[`...)
	return writeList(to, string(begin), len(order), func(text []byte, at int) []byte {
		i := order[at]
		text = append(strconv.AppendInt(append(text, `{"index":`...), int64(i), 10), `,"relevance_score":`...)
		if text = oip.AppendFloats(text, data[4*i:4*i+4]); x.asked.Return {
			text = append(oip.AppendJSON(append(text, `,"document":{"text":`...), x.asked.Texts[i]), '}')
		}
		return append(text, '}')
	}, "]}\n")
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
