//go:build cgo

// Command libweir is Weir as a C library, for Python and other languages: weir.h documents its functions.
//
//	go build -buildmode=c-shared -o libweir.so ./cmd/libweir
package main

// #include "bridge.h"
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/embed"
	"github.com/weirml/weir/internal/diag"
)

func main() {} // a library does not run it

// objects maps handles to objects. A handle is never reused.
var objects = struct {
	sync.RWMutex
	of   map[C.uint64_t]any
	last C.uint64_t
}{of: map[C.uint64_t]any{}}

// add makes a handle of an object.
func add(object any) C.uint64_t {
	objects.Lock()
	defer objects.Unlock()
	objects.last++
	objects.of[objects.last] = object
	return objects.last
}

// take ends a handle, and returns its object; nil if there is none.
func take(handle C.uint64_t) any {
	objects.Lock()
	defer objects.Unlock()
	object := objects.of[handle]
	delete(objects.of, handle)
	return object
}

// find returns a handle's object; what names the expected kind in errors.
func find[T any](handle C.uint64_t, what string) (object T, err error) {
	objects.RLock()
	defer objects.RUnlock()
	found, ok := objects.of[handle]
	if object, ok := found.(T); ok {
		return object, nil
	}
	if !ok {
		return object, fault(weir.ErrClosed, "", "handle %d is closed, or was never given", handle)
	}
	return object, fault(weir.ErrInput, "", "handle %d is no %s", handle, what)
}

// holders is the number of holders of an object. The last one closes it.
type holders struct{ atomic.Int64 }

// hold adds a holder. It returns false if the object is closed, or is being given to a run for good.
func (h *holders) hold() bool {
	for {
		n := h.Load()
		if n <= 0 {
			return false
		}
		if h.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// fault returns an error of this interface.
func fault(kind error, fix, format string, args ...any) error {
	return &weir.Error{Kind: kind, Detail: fmt.Sprintf(format, args...), Fix: fix}
}

// messageOf returns an error's fields as weir.h describes them.
func messageOf(err error) map[string]string {
	m := map[string]string{"file": "", "node": "", "op": "", "tensor": "", "dim": "", "detail": err.Error(), "fix": ""}
	var e *weir.Error
	if errors.As(err, &e) {
		text, failed := json.Marshal(e)
		if failed == nil {
			failed = json.Unmarshal(text, &m)
		}
		if failed != nil {
			panic(failed)
		}
	}
	m["kind"], m["message"] = diag.KindName(err), err.Error()
	if errors.Is(err, context.Canceled) {
		m["kind"] = "interrupted"
	}
	return m
}

// edge runs a function of the interface, and returns its error as JSON, or nil. A panic becomes an error too.
func edge(do func() error) (text *C.char) {
	var err error
	defer func() {
		if err != nil {
			text = textOf(messageOf(err))
		}
	}()
	defer diag.Recover(&err, "calling weir")
	err = do()
	return nil
}

// textOf returns a value as JSON in C's memory.
func textOf(value any) *C.char {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return C.CString(string(text))
}

// goClose implements weir_close.
//
//export goClose
func goClose(handle C.uint64_t) *C.char {
	return edge(func() error {
		switch object := take(handle).(type) {
		case nil:
			if handle != 0 {
				return fault(weir.ErrClosed, "", "handle %d is closed, or was never given", handle)
			}
		case *tensor:
			return object.drop()
		case *list:
			return object.close()
		case *model:
			return object.drop()
		case *program:
			return object.close()
		case *embed.Model:
			return object.Close()
		}
		return nil
	})
}

// goUsage implements weir_usage.
//
//export goUsage
func goUsage(text **C.char) *C.char {
	return edge(func() error {
		u := weir.Usage()
		objects.RLock()
		handles := len(objects.of)
		objects.RUnlock()
		*text = textOf(map[string]any{
			"weights_bytes": u.Weights, "arenas_bytes": u.Arenas, "outputs_bytes": u.Outputs, "scratch_bytes": u.Scratch,
			"code_bytes":    u.Code,
			"tensors_bytes": u.Tensors, "files_bytes": u.Files, "current_bytes": u.Current, "peak_bytes": u.Peak,
			"cached_bytes":  u.Cached,
			"foreign_bytes": u.Foreign, "handles": handles, "exported": exported.Load(),
		})
		return nil
	})
}

// trimming is held while the limit of compiled operations is 0.
var trimming sync.Mutex

// goTrim implements weir_trim.
//
//export goTrim
func goTrim() C.int64_t {
	trimming.Lock()
	defer trimming.Unlock()
	mapped := func() int64 {
		u := weir.Usage()
		return u.Current + u.Cached
	}
	before := mapped()
	array.CacheLimit(array.CacheLimit(0))
	weir.Trim()
	debug.FreeOSMemory() // descriptions of programs lie in Go's heap
	return C.int64_t(max(before-mapped(), 0))
}

// goSetLimit implements weir_set_limit.
//
//export goSetLimit
func goSetLimit(bytes C.int64_t) C.int64_t { return C.int64_t(weir.SetLimit(int64(bytes))) }

// sizesOf returns extents passed from C.
func sizesOf(shape *C.int64_t, rank C.int32_t) ([]int, error) {
	if rank < 0 || rank > mostRank || rank > 0 && shape == nil {
		return nil, fault(weir.ErrInput, "", "a tensor of rank %d; it is 0 to %d, with a shape", rank, mostRank)
	}
	sizes := make([]int, rank)
	for i, e := range unsafe.Slice(shape, rank) {
		sizes[i] = int(e)
	}
	return sizes, nil
}

// listOf returns an array passed from C; a negative count, and a count without an array, are an ErrInput.
func listOf[T any](first *T, count C.int32_t) ([]T, error) {
	if count < 0 || count > 0 && first == nil {
		return nil, fault(weir.ErrInput, "", "the count of a list is %d, or its address is null; the count must be at "+
			"least 0, and the address not null unless the count is 0", count)
	}
	return unsafe.Slice(first, count), nil
}

// mostRank is the maximum rank of a tensor.
const mostRank = 64
