package serve

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/serve/internal/catalogue"
	"github.com/weirml/weir/serve/internal/conns"
	"github.com/weirml/weir/serve/internal/oip"
	"github.com/weirml/weir/serve/internal/texts"
)

// textREST adds OpenAI's API for models of texts.
func (s *Server) textREST(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/embeddings", s.embeddings)
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
}

// objectOf describes a version. Its ID is the model's name, which stands for the newest version.
func objectOf(v *catalogue.Version) modelObject {
	return modelObject{ID: label(v.Model), Object: "model", Created: v.Loaded.Unix(), Owner: "weir", Version: v.Name()}
}

// named returns the model and the version that a name of OpenAI's API means: NAME, or NAME:VERSION.
func (s *Server) named(name string) (model, version string) {
	if at := strings.LastIndexByte(name, ':'); at > 0 && !slices.Contains(s.catalogue.Names(), name) {
		return name[:at], name[at+1:]
	}
	return name, ""
}

// embeddings answers a request for vectors.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	x := s.exchangeOf(r)
	defer x.close()
	response, err := x.readEmbeddings(w, r)
	if err != nil {
		s.replyOpenAI(w, err)
		return
	}
	if err := x.writeEmbeddings(w, r, response); err != nil {
		s.log.Debug("response not written", "client", x.from, "error", err)
	}
}

// readEmbeddings reads a request for vectors, and answers it.
func (x *exchange) readEmbeddings(w http.ResponseWriter, r *http.Request) (*oip.Response, error) {
	body, err := x.readBody(w, r, -1)
	if err != nil {
		return nil, err
	}
	if x.asked, err = texts.DecodeOpenAI(body, x.server.options.MostTexts, x.more); err != nil {
		return nil, err
	}
	request := &oip.Request{Inputs: []oip.Tensor{{Name: catalogue.TextInput, Shape: []int{x.asked.Len()}}}}
	request.Model, request.Version = x.server.named(x.asked.Model)
	return x.answer(r.Context(), request)
}

// writeEmbeddings writes vectors as OpenAI's API does.
func (x *exchange) writeEmbeddings(w http.ResponseWriter, r *http.Request, response *oip.Response) (err error) {
	t := &response.Outputs[0]
	control := http.NewResponseController(w)
	each := len(t.Data) / t.Shape[0]
	whole := int64(t.Shape[0]) * int64(64+base64.StdEncoding.EncodedLen(each))
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
		if err == nil {
			err = end()
		} else {
			end()
		}
		control.Flush()
	}()
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
	_, err = to.Write(append(strconv.AppendInt(text, x.tokens, 10), "}}\n"...))
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
