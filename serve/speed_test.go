package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve"
	"github.com/weirml/weir/serve/internal/oip"
)

// BenchmarkInfer measures a request of one client for a small model, client included: REST with binary data on a
// connection of its own, gRPC by Handler, gRPC by Register on grpc-go's own server, and a bare run of the same model.
func BenchmarkInfer(b *testing.B) {
	image, _ := picture(b, 1)
	data := floats(image)
	b.Run("bare", func(b *testing.B) {
		m, err := weir.Load(digits)
		if err != nil {
			b.Fatal(err)
		}
		defer m.Close()
		p, err := weir.Compile(b.Context(), m, weir.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		x, err := weir.FromSlice(image, 1, 1, 8, 8)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			out, err := p.Run(b.Context(), weir.Inputs{"image": x})
			if err != nil {
				b.Fatal(err)
			}
			out.Close()
		}
	})
	s, h := start(b, serve.Options{Folder: folder(b, map[string]string{"digits.onnx": digits})})
	b.Run("rest", func(b *testing.B) { benchREST(b, h, data) })
	b.Run("grpc", func(b *testing.B) { benchGRPC(b, h.Listener.Addr().String(), data) })
	b.Run("grpc-go", func(b *testing.B) {
		g := grpc.NewServer()
		s.Register(g)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		go g.Serve(l)
		defer g.Stop()
		benchGRPC(b, l.Addr().String(), data)
	})
}

func benchREST(b *testing.B, h *httptest.Server, data []byte) {
	c, err := net.Dial("tcp", h.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	text := fmt.Sprintf(`{"inputs":[{"name":"image","shape":[1,1,8,8],"datatype":"FP32","parameters":{"binary_data_size":%d}}],`+
		`"parameters":{"binary_data_output":true}}`, len(data))
	body := fmt.Appendf(nil, "POST /v2/models/digits/infer HTTP/1.1\r\nHost: h\r\nInference-Header-Content-Length: %d\r\n"+
		"Content-Length: %d\r\n\r\n%s%s", len(text), len(text)+len(data), text, data)
	in := bufio.NewReader(c)
	for b.Loop() {
		if _, err := c.Write(body); err != nil {
			b.Fatal(err)
		}
		a, err := http.ReadResponse(in, nil)
		if err != nil {
			b.Fatal(err)
		}
		if answer, err := io.ReadAll(a.Body); err != nil || a.StatusCode != http.StatusOK {
			b.Fatal(err, string(answer))
		}
	}
}

func benchGRPC(b *testing.B, address string, data []byte) {
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	client := oip.NewGRPCInferenceServiceClient(c)
	request := &oip.ModelInferRequest{ModelName: "digits", RawInputContents: [][]byte{data},
		Inputs: []*oip.ModelInferRequest_InferInputTensor{{Name: "image", Datatype: "FP32", Shape: []int64{1, 1, 8, 8}}}}
	for b.Loop() {
		if _, err := client.ModelInfer(context.Background(), request); err != nil {
			b.Fatal(err)
		}
	}
}
