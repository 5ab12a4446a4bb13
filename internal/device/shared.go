package device

import "fmt"

// shared is a device that several programs use.
type shared struct {
	Device
	users int
}

// Share opens a device of a kind, or is the one that is open already. Each use is ended by Leave.
func Share(kind string, number int) (Device, error) {
	k, err := Lookup(kind)
	if err != nil {
		return nil, err
	}
	kinds.Lock()
	defer kinds.Unlock()
	name := fmt.Sprintf("%s:%d", kind, number)
	if s := kinds.open[name]; s != nil {
		s.users++
		return s.Device, nil
	}
	d, err := k.Open(number)
	if err != nil {
		return nil, err
	}
	if kinds.open == nil {
		kinds.open = map[string]*shared{}
	}
	kinds.open[name] = &shared{d, 1}
	return d, nil
}

// Leave ends a use of a shared device. The last one closes it. A device that is lost is not shared with anybody who comes after: see Forget.
func Leave(d Device) error {
	kinds.Lock()
	defer kinds.Unlock()
	for name, s := range kinds.open {
		if s.Device != d {
			continue
		}
		if s.users--; s.users > 0 {
			return nil
		}
		delete(kinds.open, name)
		return d.Close()
	}
	return nil
}

// Forget has the next Share open a device anew: the one that is open is lost. Its users still leave it.
func Forget(d Device) {
	kinds.Lock()
	defer kinds.Unlock()
	for name, s := range kinds.open {
		if s.Device == d {
			delete(kinds.open, name)
			kinds.open[name+" "+fmt.Sprintf("%p", s)] = s
			return
		}
	}
}
