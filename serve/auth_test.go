package serve_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirml/weir/serve"
	"github.com/weirml/weir/serve/internal/oip"
)

// TestTokens: with tokens every call but health needs one, in REST and in gRPC.
func TestTokens(t *testing.T) {
	_, h := start(t, serve.Options{Folder: folder(t, map[string]string{"digits.onnx": digits}), Tokens: []string{"one",
		"two"}})
	get := func(path, token string) int {
		r, err := http.NewRequest("GET", h.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", token)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	for _, path := range []string{"/v2", "/v2/models/digits", "/metrics", "/v2/weir/status", "/debug/pprof/",
		"/v2/logging",
		"/v2/models/digits/ready"} {
		for token, want := range map[string]int{"": 401, "Bearer three": 401, "one": 401, "Basic one": 401, "Bearer ": 401,
			"Bearer one": 200, "bearer two": 200} {
			if got := get(path, token); got != want {
				t.Errorf("%s with %q: status %d, not %d", path, token, got, want)
			}
		}
	}
	if status := get("/v2/health/live", "") + get("/v2/health/ready", ""); status != 400 {
		t.Errorf("health needs a token: %d", status)
	}
	c, err := grpc.NewClient(strings.TrimPrefix(h.URL, "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client := oip.NewGRPCInferenceServiceClient(c)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer one")
	if _, err := client.ServerLive(t.Context(), &oip.ServerLiveRequest{}); err != nil {
		t.Errorf("health needs a token: %v", err)
	}
	if _, err := client.ServerMetadata(ctx, &oip.ServerMetadataRequest{}); err != nil {
		t.Error(err)
	}
	request := &oip.ModelInferRequest{ModelName: "digits"}
	_, err1 := client.ServerMetadata(t.Context(), &oip.ServerMetadataRequest{})
	_, err2 := client.ModelInfer(t.Context(), request)
	_, err3 := client.ModelInfer(ctx, request)
	if status.Code(err1) != codes.Unauthenticated || status.Code(err2) != codes.Unauthenticated ||
		status.Code(err3) != codes.InvalidArgument {
		t.Errorf("%v; %v; %v", err1, err2, err3)
	}
	r, err := http.NewRequest("GET", h.URL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer one")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if want := `weir_requests_failed_total{reason="token"} 37`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the metrics lack %s: %v", want, err)
	}
}

// TestManage: management calls on another listener are refused on the first.
func TestManage(t *testing.T) {
	_, h := start(t, serve.Options{Folder: folder(t, map[string]string{"digits.onnx": digits}), Manage: true})
	for path, want := range map[string]int{"/v2/repository/models/digits/unload": 403,
		"/v2/repository/models/digits/load":        403,
		"/v2/systemsharedmemory/region/r/register": 403, "/v2/repository/index": 200} {
		if status, _, body := post(t, h.URL+path, nil, nil); status != want {
			t.Errorf("%s: status %d, %s", path, status, body)
		}
	}
	if status, _, _ := post(t, h.URL+"/v2/logging", nil, []byte(`{"log_info":false}`)); status != 403 {
		t.Errorf("settings: status %d", status)
	}
	a, err := http.Get(h.URL + "/debug/pprof/")
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode == 200 {
		t.Error("pprof is answered")
	}
	if status, text := inferRows(t, h.URL, "digits", "", 1); status != 200 {
		t.Errorf("status %d, %s", status, text)
	}
}
