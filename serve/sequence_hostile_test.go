package serve_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/big"
	random "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve"
	"github.com/weirml/weir/serve/internal/oip"
)

// sequenceRequest returns a step as a request of either protocol.
func sequenceRequest(t testing.TB, rpc bool, model string, id any, start, end bool, x float32) *message {
	if !rpc {
		return &message{path: "/v2/models/" + model + "/infer", header: http.Header{}, body: fmt.Appendf(nil,
			`{"parameters":{"sequence_id":%s,"sequence_start":%v,"sequence_end":%v},"inputs":[{"name":"x","shape":[1],`+
				`"datatype":"FP32","data":[%v]}]}`, oip.AppendJSON(nil, id), start, end, x)}
	}
	encoded, err := proto.Marshal(&oip.ModelInferRequest{ModelName: model, Parameters: map[string]*oip.InferParameter{
		"sequence_id": oip.ParameterOf(id), "sequence_start": oip.ParameterOf(start), "sequence_end": oip.ParameterOf(end)},
		Inputs:           []*oip.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{1}}},
		RawInputContents: [][]byte{floats([]float32{x})}})
	if err != nil {
		t.Fatal(err)
	}
	return &message{grpc: true, path: "/inference.GRPCInferenceService/ModelInfer",
		header: http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}},
		body:   append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(encoded))), encoded...)}
}

// TestHostileSequences sends steps that differ from good ones in a few bytes, between the steps of another client. The
// other client's sequence has its own sum, its number is in no other answer, and the server's memory does not grow.
func TestHostileSequences(t *testing.T) {
	s, _ := start(t, serve.Options{Folder: stateful(t, 50*time.Millisecond), Limit: 64 << 20})
	patient, _ := start(t, serve.Options{Folder: stateful(t, time.Minute), Limit: 64 << 20})
	r := random.New(random.NewPCG(38, 6))
	const own = "a sequence that nobody else knows"
	if status, text := call(patient, sequenceRequest(t, false, "sum_f32", own, true, false, canary)); status != 200 {
		t.Fatalf("status %d, %s", status, text)
	}
	statuses, held := map[int]int{}, int64(0)
	for i := range *hostile / 2 {
		if i%50 == 0 {
			status, text := call(patient, sequenceRequest(t, false, "sum_f32", own, false, false, 0))
			if status != 200 || !strings.Contains(string(text), "1.2345678e-") {
				t.Fatalf("request %d: status %d, %s", i, status, text)
			}
		}
		model, id := []string{"sum_f32", "list"}[r.IntN(2)], any(int64(r.IntN(20)))
		if r.IntN(2) == 0 {
			id = strings.Repeat("i", r.IntN(5))
		}
		bad := sequenceRequest(t, r.IntN(2) == 0, model, id, r.IntN(2) == 0, r.IntN(8) == 0, 7)
		if r.IntN(4) > 0 {
			bad.mutate(r)
		}
		for _, server := range []*serve.Server{s, patient} {
			status, text := call(server, bad)
			statuses[status]++
			if status == 500 || strings.Contains(string(text), "1.2345678e-") ||
				strings.Contains(string(text), string(floats([]float32{canary}))) {
				t.Fatalf("request %d: status %d, %.300q\n%q", i, status, text, bad.body)
			}
		}
		if now := weir.Usage().Held; i == *hostile/4 {
			held = now
		} else if i > *hostile/4 && now > held+8<<20 {
			t.Fatalf("request %d: %d bytes are held, %d were before", i, now, held)
		}
	}
	if t.Logf("statuses: %v", statuses); statuses[200] == 0 || statuses[400] == 0 {
		t.Errorf("the requests are not of all kinds: %v", statuses)
	}
}

// TestSequenceOwners: an ID belongs to the token also in calls that a *grpc.Server carries, and to the certificate of a
// client that has one.
func TestSequenceOwners(t *testing.T) {
	s, _ := start(t, serve.Options{Folder: stateful(t, time.Minute), Tokens: []string{"one", "two"}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	s.Register(g)
	go g.Serve(l)
	defer g.Stop()
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client, got := oip.NewGRPCInferenceServiceClient(c), ""
	for _, token := range []string{"one", "two", "one"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		step := overGRPC(func(r *oip.ModelInferRequest) (*oip.ModelInferResponse, error) { return client.ModelInfer(ctx, r) })
		y, err := step("sum_f32", 1, !strings.Contains(got, token), false, 1)
		got += fmt.Sprint(token, " ", y, err, "; ")
	}
	if want := "one 1 <nil>; two 1 <nil>; one 2 <nil>; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	open, _ := start(t, serve.Options{Folder: stateful(t, time.Minute)})
	got = ""
	keys := []*tls.ConnectionState{nil, certified(t), certified(t)}
	for i, key := range append(keys, keys...) {
		m := sequenceRequest(t, false, "sum_f32", int64(1), i < 3, false, 1)
		r := httptest.NewRequestWithContext(context.Background(), "POST", m.path, strings.NewReader(string(m.body)))
		r.TLS = key
		w := httptest.NewRecorder()
		open.Handler().ServeHTTP(w, r)
		_, y, _ := strings.Cut(w.Body.String(), `"data":`)
		got += y
	}
	if want := "[1]}]}[1]}]}[1]}]}[2]}]}[2]}]}[2]}]}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// certified returns the state of a connection whose client has a certificate of its own.
func certified(t *testing.T) *tls.ConnectionState {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{c}}}
}
