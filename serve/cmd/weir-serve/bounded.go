package main

import (
	"net"
	"sync"
)

// bounded returns a listener that accepts at most a number of connections at a time: further ones wait in the system's
// queue.
func bounded(l net.Listener, most int) net.Listener {
	return &boundedListener{Listener: l, slots: make(chan struct{}, max(1, most)), done: make(chan struct{})}
}

type boundedListener struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	once  sync.Once
}

// Accept waits for a slot, then for a connection.
func (b *boundedListener) Accept() (net.Conn, error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.done:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &boundedConn{Conn: c, slots: b.slots}, nil
}

// Close stops Accept.
func (b *boundedListener) Close() error {
	b.once.Do(func() { close(b.done) })
	return b.Listener.Close()
}

type boundedConn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

// Close closes the connection and frees its slot.
func (c *boundedConn) Close() error {
	defer c.once.Do(func() { <-c.slots })
	return c.Conn.Close()
}
