package mem

import (
	"runtime"
	"strings"
)

// Holding is a live block for a memory profile.
type Holding struct {
	Kind  Kind
	Label string
	Bytes int64 // logical size
	Owner any   // given to Own; nil if none was
	// Stack is the code that asked for it, the innermost call first. It begins with the user's line or, if there
	// is none, with the first line outside this package.
	Stack []runtime.Frame
}

// Own records the owner on whose behalf a block is held.
func (b *Block) Own(owner any) {
	ledger.Lock()
	defer ledger.Unlock()
	b.owner = owner
}

// Holdings returns the live blocks in the order they came; if owner is not nil, only those of that owner.
func Holdings(owner any) []Holding {
	var list []Holding
	for _, b := range live() {
		ledger.Lock()
		h := Holding{Kind: b.kind, Label: b.label, Bytes: b.size, Owner: b.owner}
		ledger.Unlock()
		if owner == nil || h.Owner == owner {
			h.Stack = Users(b.callers)
			list = append(list, h)
		}
	}
	return list
}

// Users turns a stack's addresses into frames from the user's line on: the innermost outside the library, tests among
// them. If all of it is the library's, it begins with the first frame outside this package.
func Users(callers []uintptr) []runtime.Frame {
	var all []runtime.Frame
	user, outside := -1, 0
	frames := runtime.CallersFrames(callers)
	for {
		f, more := frames.Next()
		if f.Function == "" || f.Function == "runtime.goexit" {
			if more {
				continue
			}
			break
		}
		test := strings.HasSuffix(f.File, "_test.go")
		if outside == len(all) && !test && strings.HasPrefix(f.Function, roomPrefix) {
			outside++
		}
		if user < 0 && (test || !inLibrary(f.Function)) && !strings.HasPrefix(f.Function, "runtime.") {
			user = len(all)
		}
		all = append(all, f)
		if !more {
			break
		}
	}
	if user >= 0 {
		return all[user:]
	}
	return all[min(outside, max(0, len(all)-1)):]
}
