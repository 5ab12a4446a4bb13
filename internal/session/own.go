package session

import (
	"errors"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/tensor"
)

// held is the program's own tensor for a state: runs without an argument for the state use it. Its memory counts as
// weights.
type held struct {
	tensor *Tensor
	block  *mem.Block
}

// Initial returns a new tensor with the first value that the model's file has for a state, as weir.Program.Initial
// does.
func (s *Session) Initial(input string) (t *Tensor, err error) {
	defer diag.Recover(&err, "making a state")
	i, ok := s.Input(input)
	if !ok {
		return nil, s.NoInput(input)
	}
	info := s.Inputs[i].Info
	if !info.Initial {
		return nil, diag.Inputf("the model's file has no first value of it").AtTensor(input).WithFix("make a tensor of %s",
			info)
	}
	if _, err := s.Enter(); err != nil {
		return nil, err
	}
	defer s.Leave()
	if t, err = NewTensor(info.DType, info.Fixed()); err != nil {
		return nil, err
	}
	inner, err := t.Enter()
	if err != nil {
		return nil, err
	}
	defer t.Leave()
	done, err := s.options.Read()
	if err != nil {
		t.Close()
		return nil, err
	}
	defer done()
	if err := s.first(input, inner); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// first writes the first value of a state into a tensor.
func (s *Session) first(input string, to *tensor.Tensor) error {
	return mem.CatchFaults(func() error { return s.options.First(input, to) })
}

// makeOwn makes the program's own tensors, for states with a first value.
func (s *Session) makeOwn() error {
	if !slices.ContainsFunc(s.Inputs, func(e signature.Edge) bool { return e.Info.Initial }) {
		return nil
	}
	done, err := s.options.Read()
	if err != nil {
		return err
	}
	defer done()
	s.own = make([]held, len(s.Inputs))
	for i, e := range s.Inputs {
		info := e.Info
		if !info.Initial {
			continue
		}
		sizes := info.Fixed()
		size, err := strided.BytesOf(info.DType, sizes)
		if err != nil {
			return err
		}
		block, err := mem.Map(mem.Weights, info.Name, size)
		if err != nil {
			return err
		}
		inner, err := tensor.Over(info.DType, sizes, block.Bytes())
		if err == nil {
			err = s.first(info.Name, inner)
		}
		if err != nil {
			block.Close()
			return err
		}
		t := newTensor(inner, nil, nil) // its memory is the program's: Close leaves it alone
		t.stays = &resident{}
		t.data.Set(inner, func() { t.failed = errors.Join(block.Close(), t.stays.drop()) })
		s.own[i] = held{t, block}
	}
	return nil
}

// CloseOwn releases the program's own states.
func (s *Session) CloseOwn() (err error) {
	for _, h := range s.own {
		if h.block == nil {
			continue
		}
		if h.tensor.data.Shut(); h.tensor.data.Inside() == 0 && h.tensor.failed != nil {
			err = h.tensor.failed
		}
	}
	s.own = nil
	return err
}

// ownState returns the program's own tensor for an input, as an argument; the zero Argument if there is none.
func (s *Session) ownState(i int) Argument {
	if s.own == nil || s.own[i].tensor == nil {
		return Argument{}
	}
	if s.Inputs[i].Info.State != "" {
		return Update(s.own[i].tensor)
	}
	return Lend(s.own[i].tensor)
}

// OwnBytes returns the bytes that the program's own states take.
func (s *Session) OwnBytes() (sum int64) {
	for _, h := range s.own {
		if h.block != nil {
			sum += h.block.Size()
		}
	}
	return sum
}

// OwnPages returns the bytes of full pages that the program's own states take.
func (s *Session) OwnPages() (sum int64) {
	for _, h := range s.own {
		if h.block != nil {
			sum += h.block.Mapped()
		}
	}
	return sum
}

// ChargeOwn makes the account get back the pages of the program's own states when they are freed. It has granted them.
func (s *Session) ChargeOwn() {
	for _, h := range s.own {
		if h.block != nil {
			h.block.Charge(s.options.Account)
		}
	}
}

// FirstValues returns the first values of states for an artefact, by input. It leaves out values that are all zeros.
func (s *Session) FirstValues() (list map[string][]byte, err error) {
	if s.own == nil {
		return nil, nil
	}
	done, err := s.options.Read()
	if err != nil {
		return nil, err
	}
	defer done()
	for _, e := range s.Inputs {
		info := e.Info
		if !info.Initial {
			continue
		}
		t, err := tensor.New(info.DType, info.Fixed()...)
		if err != nil {
			return nil, err
		}
		if err := s.first(info.Name, t); err != nil {
			return nil, err
		}
		if sources.AllZero(t.Bytes()) {
			continue
		}
		if list == nil {
			list = map[string][]byte{}
		}
		list[info.Name] = t.Bytes()
	}
	return list, nil
}
