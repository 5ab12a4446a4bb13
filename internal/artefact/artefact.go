// Package artefact reads artefacts: files with a compiled program and a description of the model that it was compiled
// from.
package artefact

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/tensor"
)

// About describes, in an artefact, the model that it was compiled from. The type arguments are the public types
// weir.Description, weir.Condition and weir.Saving, which this package cannot import.
type About[Description, Condition, Saving any] struct {
	Target      string               `json:"target"`
	Description Description          `json:"description"`
	Metadata    map[string]string    `json:"metadata"`
	Proved      []Condition          `json:"proved"`
	Extents     [][]signature.Extent `json:"extents"` // of the outputs, as the model declares them
	Inputs      []signature.Edge     `json:"inputs"`  // as the user sees them, with the program's ports
	Outputs     []signature.Edge     `json:"outputs"`
	Savings     []Saving             `json:"savings,omitempty"`
	Exhausted   bool                 `json:"exhausted,omitempty"` // see weir.Memory
	// Initial are the first values of states, by input; values that are all zeros are left out.
	Initial map[string][]byte `json:"initial,omitempty"`
	// Joined has an element for each dimension that is the first axis of an input, by its label; nil in artefacts that do
	// not say.
	Joined map[string]Joining `json:"joined,omitempty"`
}

// Joining is where rows come to depend on each other, or on their number; the zero value: nowhere.
type Joining struct {
	Node   string `json:"node,omitempty"`
	Op     string `json:"op,omitempty"`
	Tensor string `json:"tensor,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// File is an artefact that was read.
type File[Description, Condition, Saving any] struct {
	*compiler.Artefact
	About About[Description, Condition, Saving]
	block *mem.Block // the file's mapping, or nil
}

// Open reads the artefact in a block, which it owns; it closes the block if it cannot read it. It ends with the
// context's error if the context ends meanwhile.
func Open[D, C, S any](ctx context.Context, block *mem.Block) (*File[D, C, S], error) {
	a, err := read[D, C, S](ctx, block.Bytes())
	if err != nil {
		block.Close()
		return nil, err
	}
	a.block = block
	return a, nil
}

// Read reads an artefact from memory that it borrows. An artefact that is not consistent is ErrInput.
func Read[D, C, S any](data []byte) (*File[D, C, S], error) {
	return read[D, C, S](context.Background(), data)
}

// read is Read until the context ends.
func read[D, C, S any](ctx context.Context, data []byte) (a *File[D, C, S], err error) {
	claim := mem.NewClaim(ctx, int64(len(data)))
	err = mem.CatchFaults(func() error {
		read, err := compiler.ReadArtefact(claim, data)
		if err != nil {
			return err
		}
		a = &File[D, C, S]{Artefact: read}
		about := &a.About
		if err := claim.JSON(read.About); err != nil {
			return err
		}
		if err := json.Unmarshal(read.About, about); err != nil {
			return diag.Inputf("the artefact's description of its model: %v", err)
		}
		if err := signature.Check(about.Inputs, read.Program.Inputs, read.Program.Tensors); err != nil {
			return err
		}
		if err := signature.Check(about.Outputs, read.Program.Outputs, read.Program.Tensors); err != nil {
			return err
		}
		if err := a.checkInitial(); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Inputs returns the inputs. The shapes of tensors of numbers, and the states, are the program's.
func (a *File[D, C, S]) Inputs() []signature.Edge {
	list := signature.Typed(a.About.Inputs, a.Program.Inputs, a.Program.Tensors)
	for i, e := range a.About.Inputs {
		if o := a.Program.NewValue(e.Parts[0]); o >= 0 {
			list[i].Info.State = a.About.Outputs[slices.IndexFunc(a.About.Outputs, func(e signature.Edge) bool {
				return slices.Contains(e.Parts, o)
			})].Info.Name
		}
	}
	return list
}

// Outputs returns the outputs. The shapes of tensors of numbers are the program's.
func (a *File[D, C, S]) Outputs() []signature.Edge {
	return signature.Typed(a.About.Outputs, a.Program.Outputs, a.Program.Tensors)
}

// Declared describes the outputs as the model declares them.
func (a *File[D, C, S]) Declared() []signature.Info {
	out := signature.Infos(a.Outputs())
	for i := range out {
		if i < len(a.About.Extents) && len(a.About.Extents[i]) == len(out[i].Shape) {
			out[i].Shape = slices.Clone(a.About.Extents[i])
		}
	}
	return out
}

// Metadata returns a copy of the model's metadata.
func (a *File[D, C, S]) Metadata() map[string]string { return maps.Clone(a.About.Metadata) }

// Blocks returns the file's mapping, if it is mapped.
func (a *File[D, C, S]) Blocks() []*mem.Block {
	if a.block == nil {
		return nil
	}
	return []*mem.Block{a.block}
}

// Close unmaps the file.
func (a *File[D, C, S]) Close() error {
	if a.block == nil {
		return nil
	}
	return a.block.Close()
}

// Fixed returns false: an artefact does not record which inputs had a value in the model's file.
func (a *File[D, C, S]) Fixed(string) bool { return false }

// First writes a state's first value into a tensor of zeros; it writes nothing if the artefact leaves the value out.
func (a *File[D, C, S]) First(input string, to *tensor.Tensor) error {
	copy(to.Bytes(), a.About.Initial[input])
	return nil
}

// checkInitial returns an error unless each first value in an artefact belongs to an input that has one, of a fixed
// shape, and has the input's size.
func (a *File[D, C, S]) checkInitial() error {
	found := 0
	for _, e := range a.Inputs() {
		data, given := a.About.Initial[e.Info.Name]
		if !e.Info.Initial {
			continue
		}
		open := func(x signature.Extent) bool { return x.Dim != "" || x.Size < 0 }
		if !e.Info.Simple() || slices.ContainsFunc(e.Info.Shape, open) {
			return diag.Inputf("a first value of %s, whose shape differs between runs", e.Info).AtTensor(e.Info.Name)
		}
		size, err := strided.BytesOf(e.Info.DType, e.Info.Fixed())
		if err != nil {
			return err
		}
		if given {
			found++
			if int64(len(data)) != size {
				return diag.Inputf("a first value of %d bytes for %s of %d", len(data), e.Info, size).AtTensor(e.Info.Name)
			}
		}
	}
	if found != len(a.About.Initial) {
		return diag.Inputf("%d first values, of which %d are of inputs that have one", len(a.About.Initial), found)
	}
	return nil
}
