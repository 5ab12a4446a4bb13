package serve

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir/serve/internal/oip"
)

// regions are the shared memory that clients have registered.
type regions struct {
	mu  sync.Mutex
	all map[string]*region
}

// region is a mapping of shared memory. It is unmapped when it is not registered any more and no request uses it.
type region struct {
	name, key string
	offset    int64
	size      int64
	data      []byte
	users     int
	gone      bool
	unmap     func([]byte) error
}

// mostRegions bounds the registrations.
const mostRegions = 4096

// register maps shared memory under a name.
func (r *regions) register(name, key string, offset, size int64) error {
	bare := strings.TrimPrefix(key, "/")
	switch {
	case name == "":
		return oip.Errorf("a shared memory needs a name")
	case bare == "" || strings.ContainsAny(bare, "/\x00") || bare == "." || bare == "..":
		return oip.Errorf("the key %q is no name of a shared memory", key)
	case offset < 0 || size <= 0 || size > 1<<50 || offset > 1<<50:
		return oip.Errorf("shared memory %q: offset %d and size %d", name, offset, size)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[name] != nil {
		return oip.Errorf("shared memory %q is registered already", name)
	}
	if len(r.all) == mostRegions {
		return oip.Errorf("%d shared memories are registered, the most that there may be", mostRegions)
	}
	data, unmap, err := mapShared(bare, offset, size)
	if err != nil {
		return oip.Errorf("shared memory %q, key %q: %v", name, key, err)
	}
	r.all[name] = &region{name: name, key: key, offset: offset, size: size, data: data, unmap: unmap}
	return nil
}

// unregister forgets a shared memory, or all of them if name is empty.
func (r *regions) unregister(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name != "" && r.all[name] == nil {
		return nil // as Triton does
	}
	for _, g := range r.all {
		if name == "" || g.name == name {
			delete(r.all, g.name)
			g.gone = true
			g.end()
		}
	}
	return nil
}

// end unmaps the region if nothing uses it, under the lock.
func (g *region) end() {
	if g.gone && g.users == 0 && g.data != nil {
		g.unmap(g.data)
		g.data = nil
	}
}

// list returns the regions by name: all of them, or the one with a name.
func (r *regions) list(name string) (list []*region, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name != "" && r.all[name] == nil {
		return nil, oip.Errorf("shared memory %q is not registered", name)
	}
	for _, n := range slices.Sorted(maps.Keys(r.all)) {
		if name == "" || n == name {
			list = append(list, r.all[n])
		}
	}
	return list, nil
}

// use returns a range of a shared memory, which stays mapped until leave is called.
func (r *regions) use(at *oip.Region) (data []byte, leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.all[at.Name]
	if g == nil {
		return nil, nil, oip.Errorf("shared memory %q is not registered", at.Name)
	}
	if size := int64(len(g.data)); at.Offset < 0 || at.Size < 0 || at.Offset > size || at.Size > size-at.Offset {
		return nil, nil, oip.Errorf("shared memory %q has %d bytes; offset %d and size %d exceed it", at.Name, size,
			at.Offset,
			at.Size)
	}
	g.users++
	return g.data[at.Offset : at.Offset+at.Size : at.Offset+at.Size], func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		g.users--
		g.end()
	}, nil
}

// guarded calls a function that may read or write shared memory. A client may cut its memory short at any time, which
// makes the access a fault: the request ends with an error, and the server lives.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if _, fault := p.(interface{ Addr() uintptr }); !fault {
			panic(p)
		}
		err = oip.Errorf("a shared memory is shorter than its client registered it")
	}()
	return f()
}

// shortened returns an error if a shared memory with inputs of a request is shorter than its registration.
func shortened(r *oip.Request) error {
	return guarded(func() error {
		sum := byte(0)
		for _, t := range r.Inputs {
			for at := 0; t.Region != nil && at < len(t.Data); at += 4 << 10 {
				sum += t.Data[at]
			}
		}
		touched.Store(uint32(sum))
		return nil
	})
}

// touched keeps the reads of shortened.
var touched atomic.Uint32

// close unmaps everything.
func (r *regions) close() { r.unregister("") }
