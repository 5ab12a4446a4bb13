package session

import (
	"context"

	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/tensor"
)

// Ports calls use with the tensors of the program's input ports, in row-major order, as the model declares them. They
// are valid until use returns.
func (s *Session) Ports(in Arguments, use func(ports []*tensor.Tensor) error) error {
	args, _, err := s.bindInputs(context.Background(), in)
	defer args.release()
	if err != nil {
		return err
	}
	if err := args.copyAll(s); err != nil {
		return err
	}
	if err := args.fetchStates(); err != nil {
		return err
	}
	ports, err := s.unlaid(args, in)
	if err != nil {
		return err
	}
	return use(ports)
}

// Values runs the program, and returns copies of its results.
func (s *Session) Values(ctx context.Context, in Arguments) (list []sources.Value, err error) {
	r, err := s.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	ports := make([]*tensor.Tensor, len(r.ports))
	for i, t := range r.ports {
		if ports[i], err = t.EnterToRead(); err != nil {
			return nil, err
		}
		defer t.Leave()
	}
	for _, e := range s.Outputs {
		v, err := e.Port().ValueOf(ports)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}
