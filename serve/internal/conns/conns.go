// Package conns bounds the connections of a server. When all are taken, a new one takes the place of one that keeps the
// server waiting: it is
// idle, or its client is slow to send or to read. Connections whose requests are being answered stay.
package conns

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Bound is a bound on the connections of several listeners together.
type Bound struct {
	most int

	mu     sync.Mutex
	open   map[*conn]bool
	change *sync.Cond // of open, of a connection's state, or of a listener's end
}

// listener is a listener whose connections are bounded.
type listener struct {
	net.Listener
	of     *Bound
	closed bool // under the bound's lock
}

// conn is a connection of a listener.
type conn struct {
	net.Conn
	of   *Bound
	from string       // the client
	asks atomic.Int64 // requests in progress
	// The other fields are under the bound's lock.
	waits bool // the server waits for the client
	busy  bool // a request is in progress
	since time.Time
}

// NewBound returns a bound of a number of connections at a time. If none of them can go, further ones wait.
func NewBound(most int) *Bound {
	b := &Bound{most: max(1, most), open: map[*conn]bool{}}
	b.change = sync.NewCond(&b.mu)
	return b
}

// Listener returns a listener within the bound. State and Context belong into its http.Server.
func (b *Bound) Listener(l net.Listener) net.Listener { return &listener{Listener: l, of: b} }

// Accept accepts a connection, and closes another one or waits if there are as many as there may be.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	b := l.of
	c := &conn{Conn: accepted, of: b, from: Client(accepted.RemoteAddr().String()), waits: true, since: time.Now()}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.open) >= b.most && !l.closed {
		v, over := b.victim(c.from)
		switch {
		case v != nil:
			delete(b.open, v)
			v.Conn.Close()
		case over:
			accepted.Close()
			return c, nil // whose first read tells that it is closed
		default:
			again := time.AfterFunc(slow/4, b.change.Broadcast)
			b.change.Wait()
			again.Stop()
		}
	}
	if l.closed {
		accepted.Close()
		return nil, net.ErrClosed
	}
	b.open[c] = true
	return c, nil
}

// victim returns the connection that goes for a new one of a client: of the clients with no fewer connections than this
// one, that with most loses the one that has kept the server waiting for the longest time. If none has such a
// connection, over says whether the new client has more than its share beside others. It is called under the lock.
func (b *Bound) victim(from string) (v *conn, over bool) {
	all := map[string]int{}
	for c := range b.open {
		all[c.from]++
	}
	for c := range b.open {
		if c.mayGo() && all[c.from] >= all[from] && (v == nil || all[c.from] > all[v.from] ||
			all[c.from] == all[v.from] && c.since.Before(v.since)) {
			v = c
		}
	}
	return v, len(all) > 1 && all[from] > b.most/(len(all)+1)
}

// slow is the time for which the client of a request in progress may keep the server waiting when others want its
// connection.
const slow = time.Second

// mayGo reports whether a connection may be closed for another, under the lock.
func (c *conn) mayGo() bool { return c.waits && (!c.busy || time.Since(c.since) > slow) }

// Client returns the name of the client at an address, host:port: an address of IPv4, or a network of 64 bits of IPv6,
// of which one machine has all addresses. Connections of a client share what is divided among clients.
func Client(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	host := at.Addr().Unmap().WithZone("")
	if host.Is4() {
		return host.String()
	}
	network, _ := host.Prefix(64)
	return network.String()
}

// Close stops Accept.
func (l *listener) Close() error {
	l.of.mu.Lock()
	l.closed = true
	l.of.change.Broadcast()
	l.of.mu.Unlock()
	return l.Listener.Close()
}

// State is an http.Server's ConnState.
func State(c net.Conn, s http.ConnState) {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok { // of TLS
		c = secure.NetConn()
	}
	if b, ok := c.(*conn); ok {
		b.wait(s != http.StateActive, false)
	}
}

// wait sets whether the server waits for the client, in a request or for one.
func (c *conn) wait(waits, busy bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.waits, c.busy, c.since = waits, busy, time.Now()
	if waits {
		c.of.change.Broadcast()
	}
}

// key is the key of a connection in the contexts of its requests.
type key struct{}

// Context is an http.Server's ConnContext.
func Context(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, key{}, c)
}

// Enter tells that a request is in progress until the returned function is called.
func Enter(ctx context.Context) (leave func()) {
	c, ok := ctx.Value(key{}).(*conn)
	if !ok {
		return func() {}
	}
	c.asks.Add(1)
	return func() { c.asks.Add(-1) }
}

// Idle closes connections that are idle for a time, until ctx ends. An http.Server's IdleTimeout would keep the memory
// of each connection of HTTP/2 that ends with open streams for that time.
func (b *Bound) Idle(ctx context.Context, most time.Duration) {
	tick := time.NewTicker(most / 16)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b.mu.Lock()
		for c := range b.open {
			if c.waits && !c.busy && time.Since(c.since) > most {
				c.Conn.Close()
			}
		}
		b.mu.Unlock()
	}
}

// Guard keeps a process at a number of goroutines until ctx ends: streams of HTTP/2 have some before anybody can refuse
// them. If there are more, it closes the connections of the client with the most connections and requests.
func (b *Bound) Guard(ctx context.Context, most int, report func(client string, goroutines int)) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n := runtime.NumGoroutine(); n > most {
			if client := b.shed(most / 8); client != "" {
				report(client, n)
			}
		}
	}
}

// shed closes the connections of the client with the most connections and requests, if these are more than a number,
// and returns its name.
func (b *Bound) shed(least int) (client string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	load := map[string]int64{}
	worst := ""
	for c := range b.open {
		if load[c.from] += 1 + c.asks.Load(); load[c.from] > load[worst] {
			worst = c.from
		}
	}
	if load[worst] <= int64(least) {
		return ""
	}
	for c := range b.open {
		if c.from == worst {
			c.Conn.Close()
			delete(b.open, c)
		}
	}
	b.change.Broadcast()
	return worst
}

// Transfer tells that a request's body is read, or its answer written, until the returned function is called. Its
// connection has no other request.
func Transfer(ctx context.Context) (done func()) {
	c, ok := ctx.Value(key{}).(*conn)
	if !ok {
		return func() {}
	}
	c.wait(true, true)
	return func() { c.wait(false, true) }
}

// Close closes the connection, and makes room for another.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.open, c)
	c.of.change.Broadcast()
	return err
}
