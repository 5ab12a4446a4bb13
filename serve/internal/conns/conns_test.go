package conns

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"
)

// dial connects to a listener from an address of this machine, and returns the connection's two ends.
func dial(t *testing.T, l net.Listener, from string) (client net.Conn, server *conn) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client, err := d.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Skipf("%s is no address here: %v", from, err)
	}
	t.Cleanup(func() { client.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return client, accepted.(*conn)
}

// gone reports whether the other end has closed a connection.
func gone(c net.Conn) bool {
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	var timeout net.Error
	return !errors.As(err, &timeout) || !timeout.Timeout()
}

// TestBound: connections that are in progress stay; of the others, the client with most loses its oldest.
func TestBound(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bound := NewBound(4)
	l := bound.Listener(inner)
	defer l.Close()
	busy, server := dial(t, l, "127.0.0.2")
	State(server, http.StateActive)
	honest, _ := dial(t, l, "127.0.0.3")
	first, _ := dial(t, l, "127.0.0.2")
	second, slow := dial(t, l, "127.0.0.2")
	State(slow, http.StateActive)
	done := Transfer(Context(context.Background(), slow))
	fourth, _ := dial(t, l, "127.0.0.4")
	if !gone(first) || gone(second) || gone(busy) || gone(honest) {
		t.Errorf("closed: the oldest of the client with most %v, its second %v, its busy one %v, another's %v",
			gone(first), gone(second), gone(busy), gone(honest))
	}
	greedy, _ := dial(t, l, "127.0.0.2") // which has most, and none that may go
	if !gone(greedy) || gone(second) || gone(busy) || gone(honest) || gone(fourth) {
		t.Errorf("closed: the new one %v, those in progress %v and %v, of others %v and %v", gone(greedy), gone(second),
			gone(busy), gone(honest), gone(fourth))
	}
	bound.mu.Lock()
	slow.since = slow.since.Add(-2 * time.Second)
	bound.mu.Unlock()
	dial(t, l, "127.0.0.5")
	if !gone(second) || gone(busy) || gone(honest) || len(bound.open) != 4 {
		t.Errorf("closed: the slow one %v, the busy one %v, another's %v; %d are open", gone(second), gone(busy),
			gone(honest), len(bound.open))
	}
	done()
}

// TestIdle: connections that are idle for long are closed, and no others.
func TestIdle(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bound := NewBound(4)
	l := bound.Listener(inner)
	defer l.Close()
	idle, _ := dial(t, l, "127.0.0.1")
	busy, server := dial(t, l, "127.0.0.1")
	State(server, http.StateActive)
	slow, receiving := dial(t, l, "127.0.0.1")
	State(receiving, http.StateActive)
	defer Transfer(Context(context.Background(), receiving))()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	bound.Idle(ctx, 100*time.Millisecond)
	if !gone(idle) || gone(busy) || gone(slow) {
		t.Errorf("closed: idle %v, busy %v, slow %v", gone(idle), gone(busy), gone(slow))
	}
}

// TestBoundWaits: if all connections are in progress, the next one waits for an end, and Close ends the wait.
func TestBoundWaits(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewBound(1).Listener(inner)
	_, server := dial(t, l, "127.0.0.1")
	State(server, http.StateActive)
	accepted := make(chan error, 2)
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	go func() {
		for range 2 {
			c, err := l.Accept()
			if err == nil {
				State(c, http.StateActive)
			}
			accepted <- err
		}
	}()
	select {
	case <-accepted:
		t.Fatal("a connection was accepted beside the only one")
	case <-time.After(50 * time.Millisecond):
	}
	server.Close()
	if err := <-accepted; err != nil {
		t.Error(err)
	}
	l.Close()
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
