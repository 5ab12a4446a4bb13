package ir

import (
	"sort"
	"sync"
)

var registry = struct {
	sync.RWMutex
	ops map[string]Op
}{ops: map[string]Op{}}

// Register registers an operator under its name, from an init function. It panics if the name is taken.
func Register(op Op) {
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.ops[op.Name()]; taken {
		panic("ir: operator " + op.Name() + " is registered twice")
	}
	registry.ops[op.Name()] = op
}

// Lookup finds an operator by name.
func Lookup(name string) (Op, bool) {
	registry.RLock()
	defer registry.RUnlock()
	op, ok := registry.ops[name]
	return op, ok
}

// Ops lists the registered operators by name.
func Ops() []Op {
	registry.RLock()
	defer registry.RUnlock()
	all := make([]Op, 0, len(registry.ops))
	for _, op := range registry.ops {
		all = append(all, op)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name() < all[j].Name() })
	return all
}
