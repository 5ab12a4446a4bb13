package vulkan_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// TestArtefacts: an artefact of a program for the device computes the same as the program, to the bit, with the same
// device memory.
func TestArtefacts(t *testing.T) {
	available(t)
	for seed := range uint64(30) {
		n := randomNetwork(seed)
		p, err := compile(t, n.model(), weir.Options{Target: weir.Vulkan, Limits: driverLimits(t, seed)})
		if err != nil {
			t.Fatal(err)
		}
		inputs := n.randomInputs()
		want, plan := results(t, p, inputs), p.Memory().Device.Formula(1).String()
		q := reread(t, p)
		got := results(t, q, inputs)
		for i := range want {
			if !bytes.Equal(got[i].Bytes(), want[i].Bytes()) {
				t.Errorf("seed %d, output %d: the artefact's differs", seed, i)
			}
		}
		if now := q.Memory().Device.Formula(1).String(); now != plan {
			t.Errorf("seed %d: the artefact takes %s, and the program %s", seed, now, plan)
		}
		q.Close()
	}
}

// TestAbsentArtefact: an artefact for a device that is not present can be read and written, but neither run nor
// compiled for another target.
func TestAbsentArtefact(t *testing.T) {
	p, err := compile(t, randomNetwork(1).model(), weir.Options{Target: weir.Vulkan, Limits: "gfx942,keeps-subnormal"})
	if err != nil {
		t.Fatal(err)
	}
	limits, kernels := p.DeviceKernels()
	q := reread(t, p)
	defer q.Close()
	if now, list := q.DeviceKernels(); now.Shared != limits.Shared || len(list) != len(kernels) {
		t.Errorf("%d kernels and %d shared bytes, and the program has %d and %d", len(list), now.Shared, len(kernels),
			limits.Shared)
	}
	if _, err := q.NewCall(weir.Dims{"n": 2}); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("a call: %v", err)
	}
	var file bytes.Buffer
	if _, err := q.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	m, err := weir.LoadBytes(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, o := range []weir.Options{{Target: weir.CPU}, {Target: weir.Reference},
		{Target: weir.Vulkan, Limits: "desktop"}} {
		if p, err := weir.Compile(t.Context(), m, o); !errors.Is(err, weir.ErrUnsupported) {
			t.Errorf("%+v: %v", o, err)
			p.Close()
		}
	}
}

// reread closes a program, and returns one from its artefact.
func reread(t *testing.T, p *weir.Program) *weir.Program {
	t.Helper()
	var file bytes.Buffer
	if _, err := p.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	p.Close()
	m, err := weir.LoadBytes(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	q, err := weir.Compile(t.Context(), m, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestMutatedArtefacts: an artefact with a few changed digits and a valid checksum is refused with a typed error, or
// runs without faults.
func TestMutatedArtefacts(t *testing.T) {
	available(t)
	refused, ran := 0, 0
	for seed := range uint64(72) {
		n := randomNetwork(seed % 12)
		p, err := compile(t, n.model(), weir.Options{Target: weir.Vulkan, Limits: driverLimits(t, seed%5)})
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if _, err := p.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		p.Close()
		err = runArtefact(t, mutatedDigits(file.Bytes(), rand.New(rand.NewPCG(seed, 21))), n)
		switch {
		case err == nil:
			ran++
		case errors.Is(err, weir.ErrInternal) || !errors.As(err, new(*weir.Error)):
			t.Errorf("seed %d: %v", seed, err)
		default:
			refused++
		}
	}
	t.Logf("%d refused, %d ran", refused, ran)
}

// mutatedDigits changes one to three digits in the texts of an artefact.
func mutatedDigits(data []byte, r *rand.Rand) []byte {
	data = bytes.Clone(data)
	size := int64(0)
	for i := range 3 {
		size += int64(binary.LittleEndian.Uint64(data[16+8*i:]))
	}
	texts := data[64 : 64+size]
	for range 1 + r.IntN(3) {
		for {
			if at := r.Int64N(size); texts[at] >= '0' && texts[at] <= '9' {
				texts[at] = byte('0' + r.IntN(10))
				break
			}
		}
	}
	binary.LittleEndian.PutUint32(data[12:], crc32.Checksum(texts, crc32.MakeTable(crc32.Castagnoli)))
	return data
}

// runArtefact reads an artefact and runs it once.
func runArtefact(t *testing.T, data []byte, n *network) error {
	t.Helper()
	m, err := weir.LoadBytes(data)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	in := weir.Inputs{}
	for _, info := range p.Inputs() {
		shape := n.inputs["x"]
		if len(info.Shape) != len(shape) {
			return nil
		}
		x, err := values.ToWeir(tensor.Must(tensor.New(dtype.F32, shape...)))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		in[info.Name] = x
	}
	r, err := p.Run(t.Context(), in)
	if err != nil {
		return err
	}
	return r.Close()
}
