//go:build unix

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestOTLP: the spans of requests reach a collector, at the latest when the command ends.
func TestOTLP(t *testing.T) {
	var mu sync.Mutex
	var got []byte
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, body...)
	}))
	defer collector.Close()
	p := serveFolder(t, digitsFolder(t), "--otlp", collector.URL+"/v1/traces")
	a, err := http.Post("http://"+p.address+"/v2/models/digits/infer", "application/json", strings.NewReader(
		`{"inputs":[{"name":"image","shape":[1,1,8,8],"datatype":"FP32","data":[`+strings.Repeat("1,", 63)+`1]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	p.signal(syscall.SIGTERM)
	if err, _ := p.end(); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"inference", "weir-serve", "digits", "compute"} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("the collector got no %q in %d bytes", want, len(got))
		}
	}
}

// TestOTLPAddress: what is no address is refused when the command starts.
func TestOTLPAddress(t *testing.T) {
	for _, address := range []string{"collector:4318", "ftp://x", "http://", "%"} {
		if _, err := (&settings{otlp: address}).trace(t.Context()); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
}
