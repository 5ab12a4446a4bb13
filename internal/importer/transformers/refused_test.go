package transformers

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weirml/weir/internal/diag"
)

// TestRefused reads folders with settings that are not supported, or make no sense. The error names the setting.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		folder  string
		changes map[string]any
		want    string // in the error
		kind    error
	}{
		{"nomic", map[string]any{"model_type": "xlnet"}, `the model type "xlnet"`, diag.ErrUnsupported},
		{"ernie", map[string]any{"is_decoder": true}, "is_decoder", diag.ErrUnsupported},
		{"ernie", map[string]any{"position_embedding_type": "alibi"}, `position_embedding_type "alibi"`,
			diag.ErrUnsupported},
		{"ernie", map[string]any{"hidden_act": "elephant"}, `the activation "elephant"`, diag.ErrUnsupported},
		{"ernie", map[string]any{"architectures": []string{"ErnieForQuestionAnswering"}}, "ErnieForQuestionAnswering",
			diag.ErrUnsupported},
		{"ernie", map[string]any{"num_attention_heads": 3}, "3 heads of 16 elements", diag.ErrInput},
		{"ernie", map[string]any{"num_hidden_layers": 3}, "encoder.layer.2.", diag.ErrInput},
		{"ernie", map[string]any{"num_hidden_layers": -1}, "-1 layers", diag.ErrInput},
		{"ernie", map[string]any{"quantization_config": map[string]any{"bits": 4}}, "quantization_config",
			diag.ErrUnsupported},
		{"nomic", map[string]any{"num_experts": 8}, "num_experts", diag.ErrUnsupported},
		{"nomic", map[string]any{"prenorm": true}, "prenorm", diag.ErrUnsupported},
		{"nomic", map[string]any{"rotary_emb_interleaved": true}, "rotary_emb_interleaved", diag.ErrUnsupported},
		{"new", map[string]any{"rope_scaling": map[string]any{"type": "ntk", "factor": 2, "mixed_b": 0.5}},
			`the type "ntk"`, diag.ErrUnsupported},
		{"llama_scaled", map[string]any{"rope_parameters": map[string]any{"rope_type": "dynamic", "factor": 2}},
			`the type "dynamic"`, diag.ErrUnsupported},
		{"llama_scaled", map[string]any{"rope_parameters": map[string]any{"rope_type": "yarn"}},
			"the factor 0", diag.ErrInput},
		{"llama_scaled", map[string]any{"head_dim": 5}, "of 5 elements", diag.ErrInput},
		{"llama_scaled", map[string]any{"num_key_value_heads": 3}, "heads", diag.ErrInput},
		{"gemma", map[string]any{"use_bidirectional_attention": true}, "use_bidirectional_attention",
			diag.ErrUnsupported},
		{"gemma2", map[string]any{"attn_logit_softcapping": nil}, "attn_logit_softcapping", diag.ErrUnsupported},
		{"gemma2", map[string]any{"layer_types": []string{"full_attention"}}, "1 layer_types of 2 layers", diag.ErrInput},
		{"gemma2", map[string]any{"layer_types": []string{"linear_attention", "full_attention"}}, "linear_attention",
			diag.ErrUnsupported},
		{"deberta_1", map[string]any{"talking_head": true}, "talking_head", diag.ErrUnsupported},
		{"deberta_1", map[string]any{"pos_att_type": "p2p"}, "p2p", diag.ErrUnsupported},
		{"mt5", map[string]any{"relative_attention_max_distance": 3}, "distances up to 3", diag.ErrInput},
		{"mt5", map[string]any{"architectures": []string{"T5ForSequenceClassification"}}, "T5ForSequenceClassification",
			diag.ErrUnsupported},
		{"modern_texts", map[string]any{"classifier_pooling": "max"}, `the classifier_pooling "max"`, diag.ErrUnsupported},
		{"modern_texts", map[string]any{"local_attention": -4}, "local_attention", diag.ErrInput},
	} {
		files := overlaid(t, "testdata/models/"+c.folder, nil)
		var settings map[string]any
		if err := json.Unmarshal(files["config.json"].Data, &settings); err != nil {
			t.Fatal(err)
		}
		for name, v := range c.changes {
			settings[name] = v
		}
		files["config.json"] = &fstest.MapFile{Data: marshalled(settings)}
		f := OpenFS(t.Context(), files, ".")
		_, err := Parse(f)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %v: %v; it should be %v, of %q", c.folder, c.changes, err, c.kind, c.want)
		}
		f.Close()
	}
}
