//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificate writes a certificate that signs itself, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	public, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: public},
		"key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert"), filepath.Join(dir, "key")
}

// TestStalledHandshakes: more clients than there may be connections begin a handshake of TLS and stop; others are
// answered.
func TestStalledHandshakes(t *testing.T) {
	cert, key := certificate(t)
	p := launch(t, echoFolder(t), "--tls-cert", cert, "--tls-key", key, "--connections", "50")
	for range 120 {
		c, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3})
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for range 20 {
		a, err := client.Get("https://" + p.address + "/v2/models/echo/ready")
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != 200 {
			t.Errorf("status %d", a.StatusCode)
		}
	}
}
