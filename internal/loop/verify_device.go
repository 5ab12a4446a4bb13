package loop

import "slices"

// This file checks that the operands of a step lie in the memory of the device that runs it.

// Memory returns the name of the device in whose memory a buffer lies; "" is the host.
func (b *Buffer) Memory() string { return b.Root().Device }

// lies checks that only a Temp, a Weight or a state names a device, that a view does not, and that a state's new value
// lies where the state does.
func (v *moduleVerifier) lies(b *Buffer) {
	if b.State != nil && b.Device != b.State.Device {
		v.fail("buffer %%%s lies in the memory of %s, and the state that it replaces in that of %s", b.Name,
			deviceWord(b.Device), deviceWord(b.State.Device))
	}
	if b.Device == "" || b.View == nil && !b.Paged && (b.Kind == Temp || b.Kind == Weight || b.State != nil) {
		return
	}
	replaced := slices.ContainsFunc(v.module.Buffers, func(o *Buffer) bool { return o.State == b })
	if b.View != nil || b.Paged || !replaced {
		v.fail("buffer %%%s lies in the memory of %s: only a temp, a weight or a state may, and a view lies with the "+
			"viewed buffer", b.Name, b.Device)
	}
}

// reaches checks that all buffers lie in the device's memory.
func (v *moduleVerifier) reaches(device, where string, list ...*Buffer) {
	for _, b := range list {
		if b != nil && b.Memory() != device {
			v.fail("%s runs on %s and uses %%%s in the memory of %s", where, deviceWord(device), b.Name,
				deviceWord(b.Memory()))
		}
	}
}

// across checks a copy from one memory to another: both buffers are row-major.
func (v *moduleVerifier) across(s *Copy) {
	if s.Pick != nil {
		v.reaches("", "a copy of rows", s.From, s.To, s.Pick.Index)
		return
	}
	if s.From.Memory() == "" && s.To.Memory() == "" {
		return
	}
	for _, b := range []*Buffer{s.From, s.To} {
		if b.Away() || b.View != nil && b.View.Strides != nil && !v.equal(b.View.Strides, RowMajor(b.Shape)) {
			v.fail("a copy between %s and %s of %%%s, whose elements are not contiguous",
				deviceWord(s.From.Memory()), deviceWord(s.To.Memory()), b.Name)
		}
	}
}

// onDevices checks one step's operands, without those of inner steps.
func (v *moduleVerifier) onDevices(s Step) {
	switch s := s.(type) {
	case *Launch:
		v.reaches(s.Device, "the launch of @"+s.Kernel.Name, s.Args...)
	case *Copy:
		v.across(s)
	case *Host:
		v.reaches("", "host operator "+s.Op, slices.Concat(s.In, s.Out)...)
	case *Bind:
		v.reaches("", "the bind of "+s.Dim.String(), s.From)
	case *If:
		v.reaches("", "an if", s.Cond)
	case *Loop:
		v.reaches("", "a loop", s.Trip, s.Cond, s.Index)
	}
}

// deviceWord returns a device's name as errors print it.
func deviceWord(device string) string {
	if device == "" {
		return "the host"
	}
	return device
}
