//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain makes the test's program be the command, if a test starts it as such.
func TestMain(m *testing.M) {
	if os.Getenv("WEIR_TEST_SERVE") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is the command while it runs.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string // of REST
	ended   chan error
	log     chan map[string]any
}

// serveFolder starts the command on a folder, and waits until it is ready.
func serveFolder(t *testing.T, folder string, flags ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, ended: make(chan error, 1), log: make(chan map[string]any, 1000)}
	p.cmd = exec.Command(exe, append([]string{folder, "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cache", "",
		"--log-json", "--limit", "256MiB"}, flags...)...)
	p.cmd.Env = append(os.Environ(), "WEIR_TEST_SERVE=1")
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.log)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			record := map[string]any{}
			if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
				record["msg"] = lines.Text()
			}
			p.log <- record
		}
		p.ended <- p.cmd.Wait()
	}()
	t.Cleanup(func() { p.cmd.Process.Kill() })
	for ready := false; p.address == "" || !ready; {
		r := p.await("listening", "ready")
		if ready = ready || r["msg"] == "ready"; r["for"] == "rest" {
			p.address = r["address"].(string)
		}
	}
	return p
}

// await returns the next record of the log with one of the messages.
func (p *process) await(messages ...string) map[string]any {
	p.t.Helper()
	for limit := time.After(20 * time.Second); ; {
		select {
		case r, ok := <-p.log:
			if !ok {
				p.t.Fatalf("the command ended before it said %q", messages)
			}
			if text, _ := r["msg"].(string); slices.Contains(messages, text) {
				return r
			}
		case <-limit:
			p.t.Fatalf("the command does not say %q", messages)
		}
	}
}

// signal sends a signal.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end waits until the process has ended, and returns its error and how long it took.
func (p *process) end() (error, time.Duration) {
	p.t.Helper()
	began := time.Now()
	go func() {
		for range p.log {
		}
	}()
	select {
	case err := <-p.ended:
		return err, time.Since(began)
	case <-time.After(20 * time.Second):
		p.t.Fatal("the command does not end")
	}
	return nil, 0
}

// half begins a request for the digits, and returns the connection and the rest of the body.
func (p *process) half() (net.Conn, string) {
	p.t.Helper()
	c, err := net.Dial("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	body := `{"inputs":[{"name":"image","shape":[1,1,8,8],"datatype":"FP32","data":[` + strings.Repeat("1,", 63) + `1]}]}`
	fmt.Fprintf(c, "POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body),
		body[:50])
	return c, body[50:]
}

// digitsFolder returns a folder with the digits.
func digitsFolder(t *testing.T) string {
	dir := t.TempDir()
	copyDigits(t, filepath.Join(dir, "digits.onnx"))
	return dir
}

// copyDigits copies the digits to a file.
func copyDigits(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile("../../../examples/digits/data/digits.onnx")
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestStopAnswers: a request that was begun before SIGTERM is answered, no further one is accepted, and the command
// ends without an error.
func TestStopAnswers(t *testing.T) {
	p := serveFolder(t, digitsFolder(t))
	c, rest := p.half()
	time.Sleep(100 * time.Millisecond) // the request is in progress once its header was read
	p.signal(syscall.SIGTERM)
	p.await("ending")
	for give := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		other, err := net.Dial("tcp", p.address)
		if err != nil {
			break
		}
		other.Close()
		if time.Now().After(give) {
			t.Fatal("connections are accepted after SIGTERM")
		}
	}
	io.WriteString(c, rest)
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 || !strings.Contains(string(body), "scores") {
		t.Errorf("status %d, %v: %s", a.StatusCode, err, body)
	}
	if err, took := p.end(); err != nil || took > 5*time.Second {
		t.Errorf("the command ended after %v with %v", took, err)
	}
}

// TestStopDeadline: a client that does not send the rest of its request holds the command no longer than --drain; a
// second signal ends it at once.
func TestStopDeadline(t *testing.T) {
	p := serveFolder(t, digitsFolder(t), "--drain", "500ms")
	p.half()
	time.Sleep(100 * time.Millisecond)
	p.signal(syscall.SIGTERM)
	if err, took := p.end(); err == nil || took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("with --drain 500ms the command ended after %v with %v", took, err)
	}
	p = serveFolder(t, digitsFolder(t), "--drain", "1m")
	p.half()
	time.Sleep(100 * time.Millisecond)
	p.signal(syscall.SIGTERM)
	p.await("ending")
	p.signal(syscall.SIGTERM)
	if err, took := p.end(); err == nil || took > 5*time.Second {
		t.Errorf("after a second signal the command ended after %v with %v", took, err)
	}
}

// TestHangup: SIGHUP makes the command read its folder again.
func TestHangup(t *testing.T) {
	dir := digitsFolder(t)
	p := serveFolder(t, dir)
	copyDigits(t, filepath.Join(dir, "more.onnx"))
	if err := os.Remove(filepath.Join(dir, "digits.onnx")); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.await("model unloaded")
	if r := p.await("model loaded"); r["model"] != "more" || r["certificate"] == "" {
		t.Errorf("the log has %v", r)
	}
	a, err := http.Get("http://" + p.address + "/v2/models/more/ready")
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != 200 {
		t.Errorf("status %d", a.StatusCode)
	}
	p.signal(syscall.SIGTERM)
	if err, _ := p.end(); err != nil {
		t.Error(err)
	}
}
