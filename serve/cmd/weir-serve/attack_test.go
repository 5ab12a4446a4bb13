//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir/serve/internal/oip"
)

var (
	attackers = flag.Int("attackers", 200, "connections that each attack of TestAttacks uses")
	each      = flag.Duration("each", 150*time.Millisecond, "how long each attack lasts")
)

// attack is something that hostile clients do on a connection. It ends when its connection fails, or by itself.
type attack struct {
	name  string
	share int  // of the attackers' connections, in percent
	h2    bool // the connection is an HTTP/2 one whose preface was sent
	do    func(c net.Conn, random *rand.Rand) error
}

var attacks = []attack{
	{"idle", 100, false, func(c net.Conn, _ *rand.Rand) error { return rest(c) }},
	{"a header byte by byte", 100, false, func(c net.Conn, _ *rand.Rand) error {
		return drip(c, "GET /v2/models/echo HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 1<<20))
	}},
	{"a body byte by byte", 100, false, func(c net.Conn, _ *rand.Rand) error {
		return drip(c, fmt.Sprintf("POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 1<<20),
			strings.Repeat(" ", 1<<20))
	}},
	{"a chunked body byte by byte", 50, false, func(c net.Conn, _ *rand.Rand) error {
		return drip(c, "POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
			strings.Repeat("1\r\n \r\n", 1<<20))
	}},
	{"an answer that nobody reads", 25, false, func(c net.Conn, _ *rand.Rand) error {
		return send(c, rest, echoREST(1<<18, ""))
	}},
	{"a compressed answer that nobody reads", 50, false, func(c net.Conn, _ *rand.Rand) error {
		return send(c, rest, echoREST(1<<18, "Accept-Encoding: gzip\r\n"))
	}},
	{"connect and vanish", 2500, false, func(c net.Conn, random *rand.Rand) error {
		switch random.IntN(3) {
		case 0:
			c.(*net.TCPConn).SetLinger(0) // a reset
		case 1:
			io.WriteString(c, "POST /v2/models/echo/infer HTT")
		}
		return io.EOF
	}},
	{"wrong lengths", 100, false, func(c net.Conn, random *rand.Rand) error {
		return send(c, answer, "POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\n"+[]string{"Content-Length: -1",
			"Content-Length: 5\r\nContent-Length: 6", "Content-Length: 99999999999999999999", "Content-Length: 4294967296",
			"Transfer-Encoding: chunked\r\nContent-Length: 3", "Transfer-Encoding: x",
			"Inference-Header-Content-Length: 9999999\r\nContent-Length: 2"}[random.IntN(7)]+"\r\n\r\n{}FFFFFFFFFFFFFFFFF\r\n")
	}},
	{"pipelined requests", 10, false, func(c net.Conn, _ *rand.Rand) error {
		return send(c, rest, strings.Repeat(echoREST(16, ""), 2000))
	}},
	{"a bomb", 10, false, func(c net.Conn, _ *rand.Rand) error {
		return send(c, answer, fmt.Sprintf("POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"+
			"Content-Length: %d\r\n\r\n%s", len(bomb()), bomb()))
	}},
	{"large texts for management", 25, false, func(c net.Conn, _ *rand.Rand) error {
		text := `{"ready":[` + strings.Repeat("[],", 330000) + `0]}`
		return send(c, answer, fmt.Sprintf("POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s",
			len(text), text))
	}},
	{"streams that rest", 10, true, func(c net.Conn, _ *rand.Rand) error {
		f := framer(c)
		for id := uint32(1); id < 512; id += 2 {
			if err := begin(f, id, "/v2/models/echo/infer"); err != nil {
				return err
			}
		}
		return rest(c)
	}},
	{"streams that are reset", 10, true, func(c net.Conn, _ *rand.Rand) error {
		f := framer(c)
		go io.Copy(io.Discard, c)
		for id := uint32(1); id < 100000; id += 2 {
			if err := errors.Join(begin(f, id, "/v2/models/echo/infer"), f.WriteRSTStream(id, http2.ErrCodeCancel)); err != nil {
				return err
			}
		}
		return nil
	}},
	{"continuations without end", 10, true, func(c net.Conn, _ *rand.Rand) error {
		f := framer(c)
		go io.Copy(io.Discard, c)
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields(":method", "POST")}); err != nil {
			return err
		}
		for range 100000 {
			if err := f.WriteContinuation(1, false, fields("x", strings.Repeat("y", 8000))); err != nil {
				return err
			}
		}
		return nil
	}},
	{"a header that refers to itself", 10, true, func(c net.Conn, _ *rand.Rand) error {
		f := framer(c)
		go io.Copy(io.Discard, c)
		block := append(fields("x", strings.Repeat("y", 4000)), bytes.Repeat([]byte{0xbe}, 10000)...) // the field again
		for id := uint32(1); id < 200; id += 2 {
			if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}); err != nil {
				return err
			}
			block = bytes.Repeat([]byte{0xbe}, 16000)
		}
		return rest(c)
	}},
	{"a window that stays shut", 10, true, func(c net.Conn, _ *rand.Rand) error {
		f := framer(c)
		f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for id := uint32(1); id < 200; id += 2 {
			if err := errors.Join(begin(f, id, "/inference.GRPCInferenceService/ModelInfer"),
				f.WriteData(id, true, echoGRPC(1000))); err != nil {
				return err
			}
		}
		return rest(c)
	}},
	{"data that nobody asked for", 10, true, func(c net.Conn, _ *rand.Rand) error {
		f := framer(c)
		go io.Copy(io.Discard, c)
		for id := uint32(1); id < 200; id += 2 { // 4 GiB, it says
			if err := errors.Join(begin(f, id, "/inference.GRPCInferenceService/ModelInfer"),
				f.WriteData(id, false, append([]byte{0, 255, 255, 255, 255}, make([]byte, 1000)...))); err != nil {
				return err
			}
		}
		return rest(c)
	}},
	{"a compressed message's bomb", 10, true, func(c net.Conn, _ *rand.Rand) error {
		f := framer(c)
		go io.Copy(io.Discard, c)
		data := bomb()[:60000]
		return errors.Join(begin(f, 1, "/inference.GRPCInferenceService/ModelInfer", "grpc-encoding", "gzip"),
			f.WriteData(1, false, binary.BigEndian.AppendUint32([]byte{1}, uint32(len(data)))),
			f.WriteData(1, true, []byte(data[:16000])), rest(c))
	}},
	{"pings whose answers nobody reads", 10, true, func(c net.Conn, _ *rand.Rand) error {
		f := framer(c)
		for range 1 << 20 {
			if err := f.WritePing(false, [8]byte{}); err != nil {
				return err
			}
		}
		return rest(c)
	}},
}

// rest waits until the server closes the connection, and reads nothing.
func rest(c net.Conn) error {
	for {
		time.Sleep(50 * time.Millisecond)
		if err := c.SetDeadline(time.Now().Add(time.Hour)); err != nil {
			return err // closed at this end
		}
		if closed(c) {
			return io.EOF
		}
	}
}

// closed reports whether the other end has closed a connection.
func closed(c net.Conn) bool {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		state, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO) // its first byte
		gone = err != nil || state&0xff != established
	})
	return gone || err != nil
}

const established = 1 // the state of an open connection

// answer reads until the server closes the connection, for at most a second.
func answer(c net.Conn) error {
	c.SetReadDeadline(time.Now().Add(time.Second))
	_, err := io.Copy(io.Discard, c)
	return errors.Join(err, io.EOF)
}

// send writes texts, and goes on.
func send(c net.Conn, then func(net.Conn) error, text string) error {
	c.SetWriteDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	return then(c)
}

// drip writes the first texts at once, and the last one byte by byte.
func drip(c net.Conn, texts ...string) error {
	last := len(texts) - 1
	if _, err := io.WriteString(c, strings.Join(texts[:last], "")); err != nil {
		return err
	}
	for i := range texts[last] {
		if _, err := io.WriteString(c, texts[last][i:i+1]); err != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
	return nil
}

// bomb is 128 MiB of zeros as gzip: more than all bodies may have.
var bomb = sync.OnceValue(func() string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range 1 << 7 {
		z.Write(make([]byte, 1<<20))
	}
	z.Close()
	return b.String()
})

// echoREST returns a request for the echo of n numbers.
func echoREST(n int, header string) string {
	head := fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d],"datatype":"FP32",`+
		`"parameters":{"binary_data_size":%d}}]}`, n, 4*n)
	return fmt.Sprintf("POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\n%sInference-Header-Content-Length: %d\r\n"+
		"Content-Length: %d\r\n\r\n%s%s", header, len(head), len(head)+4*n, head, make([]byte, 4*n))
}

// echoGRPC returns a request for the echo of n numbers, framed.
func echoGRPC(n int) []byte {
	m, err := proto.Marshal(&oip.ModelInferRequest{ModelName: "echo",
		Inputs:           []*oip.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{int64(n)}}},
		RawInputContents: [][]byte{make([]byte, 4*n)}})
	if err != nil {
		panic(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

// framer returns a framer that writes to a connection.
func framer(c net.Conn) *http2.Framer {
	f := http2.NewFramer(c, nil)
	f.AllowIllegalWrites = true
	return f
}

// fields encodes header fields.
func fields(pairs ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(pairs); i += 2 {
		e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return b.Bytes()
}

// begin opens a stream for a call.
func begin(f *http2.Framer, id uint32, path string, more ...string) error {
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, BlockFragment: fields(append([]string{
		":method", "POST", ":scheme", "http", ":authority", "x", ":path", path, "content-type", "application/grpc", "te",
		"trailers"}, more...)...)})
}

// run attacks an address from hostile addresses until ctx ends, with a number of connections at a time.
func (a *attack) run(ctx context.Context, address string, connections int) (made int64) {
	var wait sync.WaitGroup
	var opened atomic.Int64
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		for c := range open {
			c.Close()
		}
	})
	for i := range connections {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%3))}}
		random := rand.New(rand.NewPCG(38, uint64(i)))
		wait.Go(func() {
			for ctx.Err() == nil {
				c, err := dialer.DialContext(ctx, "tcp", address)
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				opened.Add(1)
				mu.Lock()
				open[c] = true
				mu.Unlock()
				if ctx.Err() == nil {
					if a.h2 {
						io.WriteString(c, http2.ClientPreface)
						framer(c).WriteSettings()
					}
					a.do(c, random)
				}
				mu.Lock()
				delete(open, c)
				mu.Unlock()
				c.Close()
				time.Sleep(time.Millisecond)
			}
		})
	}
	wait.Wait()
	return opened.Load()
}

// honest is a client that asks again and again, and keeps the longest time that an answer took.
type honest struct {
	name    string
	client  *http.Client
	url     string
	header  http.Header
	body    []byte
	asked   int
	longest time.Duration
}

// ask asks once.
func (h *honest) ask() error {
	r, err := http.NewRequest("POST", h.url, bytes.NewReader(h.body))
	if err != nil {
		return err
	}
	r.Header = h.header
	began := time.Now()
	a, err := h.client.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	h.asked, h.longest = h.asked+1, max(h.longest, time.Since(began))
	if err != nil || a.StatusCode != 200 || len(body) < 64 || a.Trailer.Get("Grpc-Status") > "0" {
		return fmt.Errorf("status %d, %v, %v: %.200q", a.StatusCode, err, a.Trailer, body)
	}
	return nil
}

// honestClients returns clients with a connection of their own, and such as make a connection for each request.
func (p *served) honestClients() []*honest {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	old := func(keep bool) *http.Client {
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: !keep}, Timeout: patience}
	}
	text := strings.SplitN(echoREST(16, ""), "\r\n\r\n", 2)[1]
	rest := http.Header{"Inference-Header-Content-Length": {fmt.Sprint(len(text) - 64)}}
	path := "http://" + p.address + "/v2/models/echo/infer"
	rpc := "http://" + p.address + "/inference.GRPCInferenceService/ModelInfer"
	return []*honest{{name: "REST", client: old(true), url: path, header: rest, body: []byte(text)},
		{name: "REST, new connections", client: old(false), url: path, header: rest, body: []byte(text)},
		{name: "gRPC", client: &http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: patience}, url: rpc,
			header: http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}, body: echoGRPC(16)}}
}

// patience is how long an honest client waits for its answer.
const patience = 5 * time.Second

// quiet is what a server has when nothing is in progress.
type quiet struct{ goroutines, files, ledger, measured, heap float64 }

// rests returns what the server has after its garbage is collected: twice, since what pools hold outlives one
// collection.
func (p *served) rests(t testing.TB) quiet {
	for range 2 {
		if _, _, err := p.call("GET", "/debug/pprof/heap?gc=1", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	return quiet{p.metric(t, "go_goroutines"), p.metric(t, "process_open_fds"), p.metric(t, "weir_ledger_bytes"),
		p.metric(t, "weir_measured_bytes"), p.metric(t, "go_memstats_heap_alloc_bytes")}
}

// echoFolder returns a folder with a model that returns its input.
func echoFolder(t *testing.T) string {
	dir := t.TempDir()
	echo, err := os.ReadFile("../../testdata/echo.weir")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "echo.weir"), echo, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAttacks: while hostile clients do what they can, honest ones get their answers in time; the process stays within
// its limit; and afterwards it has the goroutines, files and memory that it had.
func TestAttacks(t *testing.T) {
	dir := echoFolder(t)
	const limit = 256 << 20
	p := launch(t, dir, "--stall", "2s", "--limit", fmt.Sprint(limit))
	t.Logf("in a cgroup: %v", p.confine(limit))
	for _, h := range p.honestClients() {
		if err := h.ask(); err != nil {
			t.Fatal(h.name, err)
		}
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { p.under(t, &a, *each, limit) })
	}
	select {
	case fault := <-p.faults:
		t.Error(fault)
	default:
	}
	p.cmd.Process.Signal(os.Interrupt)
	if err, _ := p.end(); err != nil {
		t.Error(err)
	}
}

// under attacks the server for a time.
func (p *served) under(t *testing.T, a *attack, span time.Duration, limit int64) {
	before := p.rests(t)
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	var wait sync.WaitGroup
	made, most, goroutines := int64(0), int64(0), 0.
	wait.Go(func() { made = a.run(ctx, p.address, max(1, *attackers*min(a.share, 100)/100)) })
	clients := p.honestClients()
	for _, h := range clients {
		wait.Go(func() {
			for ctx.Err() == nil {
				if err := h.ask(); err != nil {
					t.Errorf("%s, after %d answers: %v", h.name, h.asked, err)
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
			h.client.CloseIdleConnections()
		})
	}
	wait.Go(func() {
		for ctx.Err() == nil {
			most = max(most, p.anonymous())
			time.Sleep(5 * time.Millisecond)
		}
	})
	time.Sleep(span * 3 / 4)
	goroutines = p.metric(t, "go_goroutines")
	wait.Wait()
	text := ""
	for _, h := range clients {
		text += fmt.Sprintf("; %s: %d, at most %v", h.name, h.asked, h.longest.Round(time.Millisecond))
	}
	var after quiet
	for give := time.Now().Add(15 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		after = p.rests(t)
		if after.goroutines <= before.goroutines+2 && after.files <= before.files+1 && after.ledger == after.measured &&
			after.heap < before.heap+2<<20 {
			break
		}
		if time.Now().After(give) {
			t.Errorf("before %+v, after %+v", before, after)
			break
		}
	}
	if most > limit {
		t.Errorf("the process had %d bytes, and its limit is %d", most, limit)
	}
	t.Logf("%d connections, %.0f goroutines, %d MiB at most%s; before %+v, after %+v", made, goroutines, most>>20, text,
		before, after)
}
