package session

import (
	"errors"
	"sync"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/signature"
)

// setStates sets becomes and replaces, and Info.State of each input, from the program.
func (s *Session) setStates() {
	prog := s.prog
	s.becomes, s.replaces = make([]int, len(prog.Inputs)), make([]int, len(prog.Outputs))
	for o := range s.replaces {
		s.replaces[o] = -1
	}
	for i := range prog.Inputs {
		if s.becomes[i] = prog.NewValue(i); s.becomes[i] >= 0 {
			s.replaces[s.becomes[i]] = i
		}
	}
	for k, e := range s.Inputs {
		s.Inputs[k].Info.State = ""
		if e.Info.Simple() && s.becomes[e.Parts[0]] >= 0 {
			s.Inputs[k].Info.State = prog.Outputs[s.becomes[e.Parts[0]]].Name
		}
	}
}

// maySupply returns an error unless every state, and no other input, is passed as Update.
func (s *Session) maySupply(info signature.Info, g Argument) error {
	switch {
	case info.State != "" && g.owner != updating:
		return diag.Inputf("it is a state, which the run updates in place to %s, and is given as %s", info.State,
			ownerWords[g.owner]).AtTensor(info.Name).WithFix("give Update(t): t then holds the new value")
	case info.State == "" && g.owner == updating:
		return diag.Inputf("the run does not update it: it is no state").AtTensor(info.Name).WithFix("lend the tensor itself")
	}
	return nil
}

// ownerWords describe how a tensor is passed, for errors.
var ownerWords = map[ownership]string{lending: "a tensor that is lent", donating: "one that is donated",
	consuming: "one that is consumed", updating: "one to be updated"}

// updates are the byte ranges that runs of all sessions are updating.
var updates struct {
	sync.Mutex
	list [][]byte
}

// update reserves memory for one run, until updated is called. It returns an error, for the argument with this name, if
// another run is updating any of the bytes.
func update(data []byte, name string) error {
	if len(data) == 0 {
		return nil
	}
	updates.Lock()
	defer updates.Unlock()
	for _, other := range updates.list {
		if sharing(data, other) {
			return diag.Inputf("another run is updating the tensor, or one that shares its memory").AtTensor(name).
				WithFix("one run at a time updates a state; wait for the other to return")
		}
	}
	updates.list = append(updates.list, data)
	return nil
}

// updated ends a reservation by update.
func updated(data []byte) {
	if len(data) == 0 {
		return
	}
	updates.Lock()
	defer updates.Unlock()
	for i, other := range updates.list {
		if unsafe.SliceData(other) == unsafe.SliceData(data) {
			last := len(updates.list) - 1
			updates.list[i], updates.list[last] = updates.list[last], nil
			updates.list = updates.list[:last]
			return
		}
	}
}

// writable returns an error if memory cannot be written. The caller has reserved it by update.
func writable(data []byte, name string) error {
	if !mem.Writable(data) {
		return diag.Inputf("its memory may not be written: it is mapped read-only").AtTensor(name).
			WithFix("copy it into a tensor made by weir.New first")
	}
	return nil
}

// torn returns the error of a run that ended with err: by Options.Torn if the run had begun to write states, else err.
func (s *Session) torn(err error, c *executor.Call) error {
	if err == nil {
		return nil
	}
	var names []string
	for i, o := range s.becomes {
		if o >= 0 && c.Begun(i) {
			names = append(names, s.prog.Inputs[i].Name)
		}
	}
	if names == nil {
		return err
	}
	return s.options.Torn(names, s.full(err, c))
}

// full adds the name and shape of a state to an input error that names no tensor, if the last step was writing the
// state: its new elements may not fit.
func (s *Session) full(err error, c *executor.Call) error {
	e, is := err.(*diag.Error)
	if !is || !errors.Is(e, diag.ErrInput) || e.Tensor != "" || e.Fix != "" {
		return err
	}
	for i, o := range s.becomes {
		if o < 0 {
			continue
		}
		if shape := c.Writing(i); shape != nil {
			name := s.prog.Inputs[i].Name
			return e.AtTensor(name).WithFix("%s has the shape %d: give a longer one, or write where it has room", name, shape)
		}
	}
	return err
}
