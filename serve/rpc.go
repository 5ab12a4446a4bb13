package serve

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir/serve/internal/oip"
)

// gRPC's calls with tensors are answered here rather than by grpc-go, which has read a message before it says how large
// it is: here the ledger grants the memory first. The framing is that of gRPC over HTTP/2: five bytes, then the
// message; the status is in the trailer.

// isGRPC reports whether a request is gRPC's.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// endGRPC ends a call with the status of an error, nil for success.
func endGRPC(w http.ResponseWriter, err error) {
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	if err == nil {
		h.Set(http.TrailerPrefix+"Grpc-Status", "0")
		return
	}
	st := failureOf(err).grpc()
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(st.Code())))
	h.Set(http.TrailerPrefix+"Grpc-Message", percent(st.Message()))
	if details, err := proto.Marshal(st.Proto()); err == nil {
		h.Set(http.TrailerPrefix+"Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
	}
	w.WriteHeader(http.StatusOK)
}

// percent encodes a status message: bytes outside of printable ASCII, and %, become %XX.
func percent(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(string(strconv.AppendUint([]byte(nil), uint64(c)|0x100, 16)[1:])))
		}
	}
	return b.String()
}

// deadline returns the call's context with its timeout.
func deadline(r *http.Request) (context.Context, context.CancelFunc, error) {
	text := r.Header.Get("Grpc-Timeout")
	if text == "" {
		ctx, cancel := context.WithCancel(r.Context())
		return ctx, cancel, nil
	}
	units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond,
		'u': time.Microsecond, 'n': time.Nanosecond}
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	unit, ok := units[text[len(text)-1]]
	if err != nil || !ok || len(text) > 9 {
		return nil, nil, oip.Errorf("grpc-timeout is %q", text)
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), time.Duration(min(n, uint64(1<<62/unit)))*unit, errTimeout)
	return ctx, cancel, nil
}

// grpcCall returns the handler of a call, which gets a context with the call's timeout. The call ends with the error.
func (s *Server) grpcCall(call func(ctx context.Context, w http.ResponseWriter,
	r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !isGRPC(r) {
			http.Error(w, "this path is gRPC's, which needs HTTP/2 and a content type application/grpc",
				http.StatusUnsupportedMediaType)
			return
		}
		ctx, cancel, err := deadline(r)
		if err == nil {
			defer cancel()
			err = call(ctx, w, r)
		}
		s.early.add(err)
		endGRPC(w, err)
	}
}

// inferGRPC answers ModelInfer.
func (s *Server) inferGRPC(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	x := s.exchangeOf(r)
	defer x.close()
	message, err := x.readMessage(ctx, w, r, true)
	if errors.Is(err, io.EOF) {
		return oip.Errorf("the call has no message")
	}
	if err != nil {
		return err
	}
	_, response, err := x.answerProto(ctx, message)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/grpc")
	return x.writeMessage(w, r, response.EncodeProto(), nil)
}

// answerProto answers an encoded request. With an error the request is nil if nothing of it could be decoded.
func (x *exchange) answerProto(ctx context.Context, message []byte) (*oip.Request, *oip.Response, error) {
	request, err := oip.DecodeProto(message, x.more)
	if err != nil {
		return request, nil, err
	}
	request.Align(message[:cap(message)])
	response, err := x.answer(ctx, request)
	return request, response, err
}

// readMessage reads a message into the ledger's memory; io.EOF if there is none. The client may let it rest before it
// begins, unless it is due.
func (x *exchange) readMessage(ctx context.Context, w http.ResponseWriter, r *http.Request, due bool) ([]byte, error) {
	deadline := newReading(w, r)
	defer deadline.end()
	if due {
		deadline.set(time.Now().Add(x.server.options.Stall))
	}
	var head [5]byte
	if _, err := io.ReadFull(r.Body, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, oip.Errorf("the message's five bytes of framing are missing: %v", err)
	}
	size := int64(binary.BigEndian.Uint32(head[1:]))
	waiting, cancel := context.WithTimeoutCause(ctx, x.server.options.Stall, errTimeout)
	defer cancel()
	memory, err := x.body(waiting, size+slack)
	if err != nil {
		return nil, err
	}
	message := memory[:size]
	from := &pacedReader{newPace(deadline.set, x.server.options.Stall, size), r.Body}
	begun, err := io.ReadFull(from, message[:min(size, peeked)])
	if pad := -oip.RawStart(message[:begun]) & (alignment - 1); err == nil && head[0] == 0 && pad > 0 {
		copy(memory[pad:], message[:begun]) // the rest is read to where its elements are aligned
		message = memory[pad : int64(pad)+size]
	}
	if err == nil {
		_, err = io.ReadFull(from, message[begun:])
	}
	switch {
	case err != nil:
		return nil, oip.Errorf("the message has %d bytes by its length, and ends early: %v", size, err)
	case head[0] == 0:
		x.received()
		return message, nil
	}
	packed := bytes.NewReader(message)
	var plain io.Reader
	switch coding := r.Header.Get("Grpc-Encoding"); coding {
	case "gzip":
		plain, err = gzip.NewReader(packed)
	case "deflate":
		plain, err = zlib.NewReader(packed)
	default:
		return nil, notSupported("grpc-encoding %q is none of identity, gzip, deflate", coding)
	}
	if err != nil {
		return nil, oip.Errorf("the message is not compressed as its grpc-encoding says: %v", err)
	}
	return x.readAll(now, plain)
}

const (
	peeked = 4 << 10 // the beginning of a message, with everything but the elements
	slack  = 1 << 10 // bytes beside a message, to align its elements in
)

// writeMessage writes a message in pieces, and leaves the stream's deadline for writing set: the end of the message is
// in a buffer until the call ends or flushes. wrap is a field that the message is wrapped in, nil if it is not.
func (x *exchange) writeMessage(w http.ResponseWriter, r *http.Request, pieces [][]byte,
	wrap func(size int64) []byte) error {
	size := int64(0)
	for _, p := range pieces {
		size += int64(len(p))
	}
	var outer []byte
	if wrap != nil {
		outer = wrap(size)
	}
	whole := size + int64(len(outer))
	if whole > 1<<32-1 {
		return oip.Errorf("the response has %d bytes, more than a message of gRPC", whole)
	}
	control := http.NewResponseController(w)
	to := &pacedWriter{newPace(whileOpen(r, control.SetWriteDeadline), x.server.options.Stall, whole+5), w}
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(whole))
	if len(pieces) > 0 { // one write for the frame and the first piece
		pieces[0] = append(append(head, outer...), pieces[0]...)
	} else {
		pieces = [][]byte{append(head, outer...)}
	}
	for _, p := range pieces {
		if _, err := to.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// streamGRPC answers ModelStreamInfer: a response, or an error, for each request, in their order.
func (s *Server) streamGRPC(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/grpc")
	control := http.NewResponseController(w)
	control.EnableFullDuplex()
	w.WriteHeader(http.StatusOK)
	for {
		control.Flush()
		control.SetWriteDeadline(time.Time{}) // the stream may rest until its next request
		if err := s.streamOne(ctx, w, r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// streamOne answers one request of a stream. An error ends the stream; those of the request itself are answered.
func (s *Server) streamOne(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	x := s.exchangeOf(r)
	defer x.close()
	message, err := x.readMessage(ctx, w, r, false)
	if err != nil {
		return err
	}
	request, response, err := x.answerProto(ctx, message)
	if err != nil {
		s.early.add(err)
		answer := &oip.ModelStreamInferResponse{ErrorMessage: failureOf(err).Text,
			InferResponse: &oip.ModelInferResponse{}}
		if request != nil {
			answer.InferResponse = &oip.ModelInferResponse{ModelName: request.Model, ModelVersion: request.Version,
				Id: request.ID}
		}
		encoded, err := proto.Marshal(answer)
		if err != nil {
			return err
		}
		return x.writeMessage(w, r, [][]byte{encoded}, nil)
	}
	if last, _ := request.Parameters.Flag("triton_enable_empty_final_response"); last {
		response.Parameters = oip.Parameters{"triton_final_response": true}
	}
	return x.writeMessage(w, r, response.EncodeProto(), func(size int64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.BytesType), uint64(size))
	})
}
