//go:build cgo

package main

// #include "bridge.h"
import "C"

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/dlpack"
)

// tensor is a tensor held by its handles and by the structures exported from it.
type tensor struct {
	*weir.Tensor
	holders holders
	view    atomic.Pointer[C.weir_dl_versioned]
}

// exported is the number of exported structures that are not deleted yet.
var exported atomic.Int64

// heldBy returns a tensor with one holder, which owns it.
func heldBy(t *weir.Tensor) *tensor {
	held := &tensor{Tensor: t}
	held.holders.Store(1)
	return held
}

// addTensor makes a handle of a tensor, which the handle owns.
func addTensor(t *weir.Tensor) C.uint64_t { return add(heldBy(t)) }

// parting is the number of holders of a tensor that is being given to a run for good.
const parting = -1 << 40

// part ends the caller's hold while a run takes the tensor. A tensor with other holders is an error, because exported
// structures read its memory.
func (t *tensor) part() error {
	if !t.holders.CompareAndSwap(1, parting) {
		return fault(weir.ErrInput, "lend it, or delete what was made of it first",
			"%s is held by others too, and cannot be given to a run for good", t.Tensor)
	}
	return nil
}

// keep undoes part, unless the run took the tensor.
func (t *tensor) keep() {
	if t.Bytes() != nil || t.Len() == 0 {
		t.holders.CompareAndSwap(parting, 1)
	}
}

// errGone returns the error of a tensor without holders.
func errGone() error { return fault(weir.ErrClosed, "", "the tensor is closed, or was given to a run") }

// holding is find for a tensor, with a hold that the caller must drop.
func holding(handle C.uint64_t) (*tensor, error) {
	t, err := find[*tensor](handle, "tensor")
	if err != nil {
		return nil, err
	}
	if !t.holders.hold() {
		return nil, errGone()
	}
	return t, nil
}

// drop ends a hold. The last one closes the tensor.
func (t *tensor) drop() error {
	if t.holders.Add(-1) > 0 {
		return nil
	}
	if v := t.view.Swap(nil); v != nil {
		C.free(unsafe.Pointer(v))
	}
	return t.Close()
}

// list is a sequence of tensors.
type list struct{ items []*tensor }

// close drops the list's holds on its tensors.
func (l *list) close() (err error) {
	for _, t := range l.items {
		err = errors.Join(err, t.drop())
	}
	return err
}

// goTake implements weir_take.
//
//export goTake
func goTake(managed unsafe.Pointer, versioned, copying C.int32_t, handle *C.uint64_t) *C.char {
	return edge(func() error {
		if managed == nil {
			return fault(weir.ErrInput, "", "there is no tensor to take")
		}
		var t *weir.Tensor
		var err error
		if versioned != 0 {
			free := func() { C.weir_bridge_delete_versioned((*C.weir_dl_versioned)(managed)) }
			t, err = (*dlpack.Versioned)(managed).Import(free, dlpack.Copying(copying))
		} else {
			free := func() { C.weir_bridge_delete_legacy((*C.weir_dl_legacy)(managed)) }
			t, err = (*dlpack.Legacy)(managed).Import(free, dlpack.Copying(copying))
		}
		if err == nil {
			*handle = addTensor(t)
		}
		return err
	})
}

// goGive implements weir_give.
//
//export goGive
func goGive(handle C.uint64_t, versioned, copying C.int32_t, managed *unsafe.Pointer) *C.char {
	return edge(func() error {
		t, err := holding(handle)
		if err != nil {
			return err
		}
		var flags C.uint64_t
		if dlpack.Copying(copying) == dlpack.Always {
			copied, err := copyOf(t.Tensor)
			if err = errors.Join(err, t.drop()); err != nil {
				return err
			}
			t, flags = heldBy(copied), dlpack.IsCopied
		} else if t.Fixed() {
			if flags = dlpack.ReadOnly; versioned == 0 {
				err := fault(weir.ErrUnsupported, "ask for DLPack 1, or for a copy",
					"a tensor that may only be read, in a structure that cannot say so")
				return errors.Join(err, t.drop())
			}
		}
		m, err := structure(t, versioned != 0, flags)
		if err != nil {
			return errors.Join(err, t.drop())
		}
		exported.Add(1)
		*managed = m
		return nil
	})
}

// copyOf returns a copy of a tensor.
func copyOf(t *weir.Tensor) (*weir.Tensor, error) {
	var d dlpack.Tensor
	shape, strides := make([]int64, len(t.Shape())), make([]int64, len(t.Shape()))
	if err := d.Fill(t, shape, strides); err != nil {
		return nil, err
	}
	return d.Borrow(dlpack.Always, weir.ReadOnly)
}

// structure describes a tensor in C's memory; the structure takes over the caller's hold.
func structure(t *tensor, versioned bool, flags C.uint64_t) (unsafe.Pointer, error) {
	rank := len(t.Shape())
	object := add(t)
	var extents *C.int64_t
	var m unsafe.Pointer
	var into *C.struct_DLTensor
	if versioned {
		v := C.weir_bridge_versioned(C.int32_t(rank), object, &extents)
		if m = unsafe.Pointer(v); v != nil {
			into, v.flags = &v.tensor, flags
		}
	} else if l := C.weir_bridge_legacy(C.int32_t(rank), object, &extents); l != nil {
		m, into = unsafe.Pointer(l), &l.tensor
	}
	if m == nil {
		take(object)
		return nil, fault(weir.ErrMemory, "", "the system refused memory for a tensor's extents")
	}
	if err := fill(into, t.Tensor, extents, rank); err != nil {
		take(object)
		C.free(m)
		return nil, err
	}
	return m, nil
}

// fill describes a tensor. extents has room for the extents, followed by the strides.
func fill(into *C.struct_DLTensor, t *weir.Tensor, extents *C.int64_t, rank int) error {
	room := unsafe.Slice((*int64)(extents), 2*rank)
	return (*dlpack.Tensor)(unsafe.Pointer(into)).Fill(t, room[:rank], room[rank:])
}

// weir_bridge_release is what the deleter of a structure that was given away calls.
//
//export weir_bridge_release
func weir_bridge_release(object C.uint64_t) {
	if t, ok := take(object).(*tensor); ok {
		exported.Add(-1)
		t.drop()
	}
}

// described returns the tensor as a DLTensor, in memory that is valid while the tensor has a holder. The caller holds
// it.
func (t *tensor) described() (*C.struct_DLTensor, error) {
	if v := t.view.Load(); v != nil && t.Bytes() != nil {
		return &v.tensor, nil
	}
	rank := len(t.Shape())
	var extents *C.int64_t
	v := C.weir_bridge_versioned(C.int32_t(rank), 0, &extents)
	if v == nil {
		return nil, fault(weir.ErrMemory, "", "the system refused memory for a tensor's extents")
	}
	if err := fill(&v.tensor, t.Tensor, extents, rank); err != nil {
		C.free(unsafe.Pointer(v))
		return nil, err
	}
	if !t.view.CompareAndSwap(nil, v) { // another thread was first
		C.free(unsafe.Pointer(v))
	}
	return &t.view.Load().tensor, nil
}

// goView implements weir_view.
//
//export goView
func goView(handle C.uint64_t, view **C.struct_DLTensor) *C.char {
	return edge(func() error {
		t, err := holding(handle)
		if err != nil {
			return err
		}
		defer t.drop()
		v, err := t.described()
		if err == nil {
			*view = v
		}
		return err
	})
}

// goShare implements weir_share.
//
//export goShare
func goShare(handle C.uint64_t, share *C.uint64_t, view **C.struct_DLTensor) *C.char {
	return edge(func() error {
		t, err := holding(handle)
		if err != nil {
			return err
		}
		v, err := t.described()
		if err != nil {
			return errors.Join(err, t.drop())
		}
		*share, *view = add(t), v
		return nil
	})
}

// goType implements weir_type.
//
//export goType
func goType(handle C.uint64_t, name **C.char, fixed *C.int32_t) *C.char {
	return edge(func() error {
		t, err := find[*tensor](handle, "tensor")
		if err != nil {
			return err
		}
		if *fixed = 0; t.Fixed() {
			*fixed = 1
		}
		*name = C.CString(t.DType().String())
		return nil
	})
}

// goZeros implements weir_zeros.
//
//export goZeros
func goZeros(name *C.char, shape *C.int64_t, rank C.int32_t, handle *C.uint64_t) *C.char {
	return edge(func() error {
		sizes, err := sizesOf(shape, rank)
		if err != nil {
			return err
		}
		var dt weir.DType
		if err := dt.UnmarshalText([]byte(C.GoString(name))); err != nil {
			return fault(weir.ErrInput, "", "%v", err)
		}
		t, err := weir.New(dt, sizes...)
		if err == nil {
			*handle = addTensor(t)
		}
		return err
	})
}

// goStrings implements weir_strings.
//
//export goStrings
func goStrings(text *C.char, shape *C.int64_t, rank C.int32_t, handle *C.uint64_t) *C.char {
	return edge(func() error {
		sizes, err := sizesOf(shape, rank)
		if err != nil {
			return err
		}
		var words []string
		if err := json.Unmarshal([]byte(C.GoString(text)), &words); err != nil {
			return fault(weir.ErrInput, "", "the strings are no JSON list of strings: %v", err)
		}
		t, err := weir.FromSlice(words, sizes...)
		if err == nil {
			*handle = addTensor(t)
		}
		return err
	})
}

// goText implements weir_text.
//
//export goText
func goText(handle C.uint64_t, text **C.char, shape *C.int64_t, rank *C.int32_t) *C.char {
	return edge(func() error {
		t, err := find[*tensor](handle, "tensor")
		if err != nil {
			return err
		}
		words, err := weir.Copy[string](t.Tensor)
		if err != nil {
			return err
		}
		for i, e := range t.Shape() {
			unsafe.Slice(shape, mostRank)[i] = C.int64_t(e)
		}
		*rank, *text = C.int32_t(len(t.Shape())), textOf(words)
		return nil
	})
}

// goList implements weir_list.
//
//export goList
func goList(handles *C.uint64_t, count C.int32_t, handle *C.uint64_t) *C.char {
	return edge(func() error {
		given, err := listOf(handles, count)
		if err != nil {
			return err
		}
		l := &list{}
		for _, h := range given {
			t, err := holding(h)
			if err != nil {
				return errors.Join(err, l.close())
			}
			l.items = append(l.items, t)
		}
		*handle = add(l)
		return nil
	})
}

// goItems implements weir_items.
//
//export goItems
func goItems(handle C.uint64_t, items *C.uint64_t, count *C.int32_t) *C.char {
	return edge(func() error {
		l, err := find[*list](handle, "list")
		if err != nil {
			return err
		}
		if *count = C.int32_t(len(l.items)); items == nil {
			return nil
		}
		for i, t := range l.items {
			if !t.holders.hold() {
				return errGone()
			}
			unsafe.Slice(items, len(l.items))[i] = add(t)
		}
		return nil
	})
}
