package device

import "slices"

// shared is a device that several programs use.
type shared struct {
	Device
	kind   string
	number int
	users  int
}

// Share opens a device of a kind, or is the one that is open already, unless that is lost. Each use is ended by Leave.
func Share(kind string, number int) (Device, error) {
	k, err := Lookup(kind)
	if err != nil {
		return nil, err
	}
	kinds.Lock()
	defer kinds.Unlock()
	for _, s := range kinds.open {
		if s.kind == kind && s.number == number && !s.Lost() {
			s.users++
			return s.Device, nil
		}
	}
	d, err := k.Open(number)
	if err != nil {
		return nil, err
	}
	kinds.open = append(kinds.open, &shared{d, kind, number, 1})
	return d, nil
}

// Use begins a further use of a device that is open; false if it is not shared. Leave ends it.
func Use(d Device) bool {
	kinds.Lock()
	defer kinds.Unlock()
	i := slices.IndexFunc(kinds.open, func(s *shared) bool { return s.Device == d })
	if i >= 0 {
		kinds.open[i].users++
	}
	return i >= 0
}

// Leave ends a use of a shared device. The last one closes it.
func Leave(d Device) error {
	kinds.Lock()
	defer kinds.Unlock()
	i := slices.IndexFunc(kinds.open, func(s *shared) bool { return s.Device == d })
	if i < 0 {
		return nil
	}
	if kinds.open[i].users--; kinds.open[i].users > 0 {
		return nil
	}
	kinds.open = slices.Delete(kinds.open, i, i+1)
	return d.Close()
}
