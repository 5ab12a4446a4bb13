package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirml/weir/examples/digits/data"
)

// TestMain is the service itself if TestTerminated starts it.
func TestMain(m *testing.M) {
	if os.Getenv("WEIR_TEST_SERVICE") == "" {
		os.Exit(m.Run())
	}
	s := settings{calls: 2, batch: 16, deadline: 20 * time.Second, log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if err := listenAndServe("localhost:0", s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestTerminated sends SIGTERM to a service during a request: it stops listening, answers that request, and ends with
// exit code 0.
func TestTerminated(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		t.Skip("this system sends no SIGTERM")
	}
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), "WEIR_TEST_SERVICE=1")
	stderr, err := process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	log := bufio.NewScanner(stderr)
	address := ""
	for address == "" && log.Scan() {
		if strings.Contains(log.Text(), "msg=listening") {
			_, address, _ = strings.Cut(log.Text(), "address=")
		}
	}
	body, err := json.Marshal(request{Images: [][]byte{data.Pictures()[3].PNG}})
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	half := len(body) / 2
	fmt.Fprintf(connection, "POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		len(body))
	reader := bufio.NewReader(connection)
	// the handler is reading the body
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("%q, %v", line, err)
	}
	connection.Write(body[:half])
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for log.Scan() && !strings.Contains(log.Text(), "msg=ending") {
	}
	for give := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		other, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		other.Close()
		if time.Now().After(give) {
			t.Fatal("the service still listens")
		}
	}
	connection.Write(body[half:])
	if line, err := reader.ReadString('\n'); err != nil || strings.TrimSpace(line) != "" {
		t.Fatalf("after 100 Continue: %q, %v", line, err)
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var guesses []guess
	if err := json.NewDecoder(response.Body).Decode(&guesses); err != nil || len(guesses) != 1 ||
		guesses[0].Digit != data.Pictures()[3].Label {
		t.Errorf("status %d, %v, %v", response.StatusCode, guesses, err)
	}
	var rest bytes.Buffer
	for log.Scan() {
		rest.WriteString(log.Text() + "\n")
	}
	if err := process.Wait(); err != nil {
		t.Errorf("the service ended with %v: %s", err, rest.String())
	}
}

// TestEnd: an open result does not keep the service from ending, which reports it.
func TestEnd(t *testing.T) {
	s := defaults()
	s.log = slog.New(slog.DiscardHandler)
	v, err := newService(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	release := occupy(t, v)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := v.end(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "service_test.go:") {
		t.Errorf("with results open it ends with %v", err)
	}
	release()
	if err := v.end(t.Context()); err != nil {
		t.Error(err)
	}
}
