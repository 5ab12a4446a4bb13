//go:build cgo

package main

// #include "bridge.h"
import "C"

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/weirml/weir"
	"github.com/weirml/weir/embed"
)

// embedOptions are the options of weir_load_embedder as JSON.
type embedOptions struct {
	Prompt     string `json:"prompt"`
	PromptName string `json:"prompt_name"`
	NoPrompt   bool   `json:"no_prompt"`
	MaxTokens  int    `json:"max_tokens"`
	Dimensions int    `json:"dimensions"`
	Normalize  bool   `json:"normalize"`
	Artefact   string `json:"artefact"`
	options
}

// goLoadEmbedder implements weir_load_embedder.
//
//export goLoadEmbedder
func goLoadEmbedder(path, text *C.char, poll C.weir_poll, handle *C.uint64_t) *C.char {
	return edge(func() error {
		var o embedOptions
		if err := readOptions(text, &o); err != nil {
			return err
		}
		compile, err := o.compile()
		if err != nil {
			return err
		}
		var m *embed.Model
		err = polled(poll, func(ctx context.Context) (err error) {
			m, err = embed.Load(ctx, C.GoString(path), embed.Options{Prompt: o.Prompt, PromptName: o.PromptName,
				NoPrompt: o.NoPrompt, MaxTokens: o.MaxTokens, Dimensions: o.Dimensions, Normalize: o.Normalize,
				Artefact: o.Artefact, Compile: compile})
			return err
		})
		if err == nil {
			*handle = add(m)
		}
		return err
	})
}

// goEmbed implements weir_embed.
//
//export goEmbed
func goEmbed(handle C.uint64_t, list, promptName *C.char, poll C.weir_poll, vectors *C.uint64_t) *C.char {
	return edge(func() error {
		m, err := find[*embed.Model](handle, "embedder")
		if err != nil {
			return err
		}
		var texts []string
		if err := json.Unmarshal([]byte(C.GoString(list)), &texts); err != nil {
			return fault(weir.ErrInput, "", "the texts are no JSON list of strings: %v", err)
		}
		var rows [][]float32
		err = polled(poll, func(ctx context.Context) (err error) {
			if promptName == nil {
				rows, err = m.Embed(ctx, texts)
			} else {
				rows, err = m.EmbedAs(ctx, C.GoString(promptName), texts)
			}
			return err
		})
		if err != nil {
			return err
		}
		t, err := weir.New(weir.F32, len(rows), m.Dimensions())
		if err != nil {
			return err
		}
		elements, err := weir.View[float32](t)
		if err != nil {
			return errors.Join(err, t.Close())
		}
		for i, row := range rows {
			copy(elements[i*m.Dimensions():], row)
		}
		*vectors = addTensor(t)
		return nil
	})
}

// describe returns what weir_describe tells of a model of texts.
func describe(m *embed.Model) map[string]any {
	memory := m.Memory()
	prompts := m.Prompts()
	if prompts == nil {
		prompts = map[string]string{}
	}
	return map[string]any{"dimensions": m.Dimensions(), "max_tokens": m.MaxTokens(), "prompts": prompts,
		"memory": map[string]int64{"held": memory.Held(), "weights": memory.Weights, "files": memory.Files,
			"call": memory.Call, "calls": int64(memory.Calls), "arguments": memory.Arguments,
			"tokenizer": m.Tokenizer().Bytes()}}
}
