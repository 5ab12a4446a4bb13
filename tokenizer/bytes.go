package tokenizer

import (
	"reflect"
	"unsafe"
)

// Bytes returns the most bytes of Go's heap that the tokenizer keeps: it counts its tables, and takes each map to be as
// empty as maps of Go ever are. Texts that are being encoded take more.
func (t *Tokenizer) Bytes() int64 {
	c := counter{seen: map[unsafe.Pointer]bool{}}
	c.pointer(reflect.ValueOf(t))
	return c.bytes
}

// counter counts the bytes of memory that a value keeps, once for each pointer.
type counter struct {
	seen  map[unsafe.Pointer]bool
	bytes int64
}

// block counts a block of memory, unless it is counted already; it reports whether it was.
func (c *counter) block(at unsafe.Pointer, bytes int64) bool {
	if at == nil || bytes == 0 || c.seen[at] {
		return false
	}
	c.seen[at] = true
	c.bytes += blockOf(bytes)
	return true
}

// blockOf returns the most bytes that Go takes for a block of so many.
func blockOf(bytes int64) int64 {
	switch {
	case bytes <= 1024:
		return (bytes + 15) / 16 * 16 * 9 / 8
	case bytes <= 32<<10:
		return bytes * 9 / 8
	}
	return (bytes + 8<<10 - 1) &^ (8<<10 - 1)
}

// pointer counts what a pointer points to.
func (c *counter) pointer(v reflect.Value) {
	if !v.IsNil() && c.block(v.UnsafePointer(), int64(v.Type().Elem().Size())) {
		c.within(v.Elem())
	}
}

// within counts what a value keeps beside its own memory.
func (c *counter) within(v reflect.Value) {
	if !points(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		c.pointer(v)
	case reflect.String:
		c.text(v.String())
	case reflect.Slice:
		if c.block(v.UnsafePointer(), int64(v.Cap())*int64(v.Type().Elem().Size())) && points(v.Type().Elem()) {
			c.elements(v)
		}
	case reflect.Array:
		c.elements(v)
	case reflect.Struct:
		for i := range v.NumField() {
			c.within(v.Field(i))
		}
	case reflect.Interface:
		if e := v.Elem(); e.IsValid() {
			if e.Kind() != reflect.Pointer {
				c.bytes += blockOf(int64(e.Type().Size()))
			}
			c.within(e)
		}
	case reflect.Map:
		c.table(v)
	}
}

// text counts a string.
func (c *counter) text(s string) { c.block(unsafe.Pointer(unsafe.StringData(s)), int64(len(s))) }

// elements counts what the elements of a slice or an array keep.
func (c *counter) elements(v reflect.Value) {
	if v.Kind() == reflect.Slice && v.Type() == reflect.TypeFor[[]string]() { // tokens by id: the same, but faster
		for _, s := range unsafe.Slice((*string)(v.UnsafePointer()), v.Len()) {
			c.text(s)
		}
		return
	}
	for i := range v.Len() {
		c.within(v.Index(i))
	}
}

// table counts a map: Go has groups of eight places, of which at least 7 in 16 are taken, and a byte for each place.
func (c *counter) table(v reflect.Value) {
	key, value := v.Type().Key(), v.Type().Elem()
	if v.IsNil() || !c.block(v.UnsafePointer(), 64) {
		return
	}
	place := (int64(key.Size()+value.Size())+7)&^7 + 1
	groups := (int64(v.Len())*16/7 + 15) / 8
	c.bytes += blockOf(groups * 8 * place * 9 / 8)
	if !points(key) && !points(value) {
		return
	}
	if v.CanAddr() && v.Type() == reflect.TypeFor[map[string]int32]() { // ids by token: the same, but faster
		for s := range *(*map[string]int32)(v.Addr().UnsafePointer()) {
			c.text(s)
		}
		return
	}
	for all := v.MapRange(); all.Next(); {
		c.within(all.Key())
		c.within(all.Value())
	}
}

// points reports whether values of a type keep other memory. Pools and functions are left out: the pool has the memory
// of texts.
func points(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.String, reflect.Slice, reflect.Interface, reflect.Map:
		return true
	case reflect.Array:
		return points(t.Elem())
	case reflect.Struct:
		if t.PkgPath() == "sync" {
			return false
		}
		for i := range t.NumField() {
			if points(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}
