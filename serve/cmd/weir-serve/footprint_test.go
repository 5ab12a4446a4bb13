//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// openings are what clients do so that a connection takes much memory.
var openings = map[string]func(c net.Conn) error{
	"idle": func(net.Conn) error { return nil },
	"kept": func(c net.Conn) error {
		io.WriteString(c, echoREST(16, ""))
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			_, err = io.Copy(io.Discard, a.Body)
		}
		return err
	},
	"long header": func(c net.Conn) error {
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 7))
		return err
	},
	"many short fields": func(c net.Conn) error {
		_, err := io.WriteString(c, "POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n"+
			strings.Repeat("A:\r\n", 1950)+"\r\n")
		return err
	},
	"many fields": func(c net.Conn) error {
		text := "POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n"
		for i := 0; len(text) < 7900; i++ {
			text += fmt.Sprintf("%c%c:\r\n", 'A'+i%26, 'A'+i/26%26)
		}
		_, err := io.WriteString(c, text)
		return err
	},
	"half a body": func(c net.Conn) error {
		text := echoREST(1024, "")
		_, err := io.WriteString(c, text[:len(text)-10])
		return err
	},
	"an answer unread": func(c net.Conn) error {
		_, err := io.WriteString(c, strings.Repeat(echoREST(32<<10, ""), 1))
		return err
	},
	"HTTP/2": func(c net.Conn) error {
		io.WriteString(c, http2.ClientPreface)
		return framer(c).WriteSettings()
	},
	"HTTP/2, streams": func(c net.Conn) error {
		io.WriteString(c, http2.ClientPreface)
		f := framer(c)
		f.WriteSettings()
		for id := uint32(1); id < 512; id += 2 {
			if err := begin(f, id, "/v2/models/echo/infer"); err != nil {
				return err
			}
		}
		return nil
	},
	"HTTP/2, data": func(c net.Conn) error {
		io.WriteString(c, http2.ClientPreface)
		f := framer(c)
		f.WriteSettings()
		for id := uint32(1); id < 128; id += 2 {
			if err := begin(f, id, "/v2/models/echo/infer", "content-length", "4000000"); err != nil {
				return err
			}
			f.WriteData(id, false, make([]byte, 15000))
		}
		return nil
	},
}

// footprint is the most that a connection may take of Go's heap, in bytes: docs/serving-operations.md tells it.
const footprint = 200 << 10

// TestFootprint: a connection takes no more memory beside the ledger than is told, whatever its client does with it.
func TestFootprint(t *testing.T) {
	const count, heap = 300, 128 << 20
	dir := echoFolder(t)
	for name, open := range openings {
		if testing.Short() && name != "many short fields" && name != "HTTP/2, streams" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p := launch(t, dir, "--limit", "1GiB", "--heap", fmt.Sprint(heap))
			before := p.live(t)
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
			for range count {
				c, err := dialer.Dial("tcp", p.address)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := open(c); err != nil && !strings.Contains(name, "streams") { // which may be closed for them
					t.Fatal(err)
				}
			}
			most := float64(footprint)
			if strings.Contains(name, "streams") { // which the number of goroutines bounds, not that of connections
				most = heap / count
			}
			each := 0.
			for give := time.Now().Add(5 * time.Second); ; { // until what was refused has ended
				time.Sleep(300 * time.Millisecond)
				if each = (p.live(t) - before) / count; each <= most || time.Now().After(give) {
					break
				}
			}
			t.Logf("%.0f KiB for each of %d connections, %.0f goroutines", each/1024, count, p.metric(t, "go_goroutines"))
			if each > most {
				t.Errorf("a connection takes %.0f KiB", each/1024)
			}
		})
	}
}

// live returns the bytes of the process's Go heap and stacks that are in use after a collection.
func (p *served) live(t testing.TB) float64 {
	for range 2 { // also what pools keep
		if _, _, err := p.call("GET", "/debug/pprof/heap?gc=1", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	return p.metric(t, "go_memstats_heap_alloc_bytes") + p.metric(t, "go_memstats_stack_inuse_bytes")
}
