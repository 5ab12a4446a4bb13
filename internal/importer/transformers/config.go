package transformers

import (
	"path"

	"github.com/weirml/weir/internal/diag"
)

// config is config.json. Families give the same setting different names: settle writes them into one field.
type config struct {
	Type          string            `json:"model_type"`
	Architectures []string          `json:"architectures"`
	Version       string            `json:"transformers_version"`
	Labels        map[string]string `json:"id2label"`

	Hidden    int64   `json:"hidden_size"`
	Layers    int64   `json:"num_hidden_layers"`
	Heads     int64   `json:"num_attention_heads"`
	Act       string  `json:"hidden_act"`
	Epsilon   float64 `json:"layer_norm_eps"`
	Positions int64   `json:"max_position_embeddings"`
	Types     int64   `json:"type_vocab_size"`
	Padding   *int64  `json:"pad_token_id"`
	Decoder   bool    `json:"is_decoder"`

	HeadSize   int64     `json:"head_dim"`
	Ropes      *turnings `json:"rope_parameters"` // transformers 5
	OldRopes   *turnings `json:"rope_scaling"`
	Theta      float64   `json:"rope_theta"`
	Partial    float64   `json:"partial_rotary_factor"`
	LayerTypes []string  `json:"layer_types"`

	Quantized  map[string]any `json:"quantization_config"`
	Compressed map[string]any `json:"compression_config"`

	ClassifierFrom string `json:"classifier_pooling"` // ModernBERT, EuroBERT

	// What families alone have:
	decoderConfig
	modernConfig
	nomicConfig
	debertaConfig

	PositionType string `json:"position_embedding_type"` // BERT: absolute; relative_key and relative_key_query
	Groups       int64  `json:"num_hidden_groups"`       // ALBERT
	Inner        int64  `json:"inner_group_num"`         // ALBERT
	Buckets      int64  `json:"relative_attention_num_buckets"`
	Tasks        bool   `json:"use_task_id"` // ERNIE

	Normalize bool `json:"normalize"` // model2vec

	// Other names of the settings above, and of numbers that T5 alone has:
	DModel      int64   `json:"d_model"`
	NEmbd       int64   `json:"n_embd"`
	Dim         int64   `json:"dim"`
	NLayer      int64   `json:"n_layer"`
	NLayers     int64   `json:"n_layers"`
	NumLayers   int64   `json:"num_layers"`
	NHead       int64   `json:"n_head"`
	NHeads      int64   `json:"n_heads"`
	NumHeads    int64   `json:"num_heads"`
	Activation  string  `json:"activation"`
	HiddenAct   string  `json:"hidden_activation"`
	FeedForward string  `json:"feed_forward_proj"`
	Epsilon2    float64 `json:"layer_norm_epsilon"`
	Epsilon3    float64 `json:"rms_norm_eps"`
	Epsilon4    float64 `json:"norm_eps"`
	MostFar     int64   `json:"relative_attention_max_distance"`
}

// configIn reads the config.json in a folder of the model.
func configIn(f *Folder, within string) (*config, error) {
	c := &config{}
	name := path.Join(within, "config.json")
	found, err := f.JSON(name, c)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, diag.Inputf("the folder has no config.json").AtFile(path.Join(f.name, within)).
			WithFix("name a folder that save_pretrained or SentenceTransformer.save wrote")
	}
	c.settle()
	return c, nil
}

// familyDefaults are what a family's configuration has by default.
type familyDefaults struct {
	act     string
	epsilon float64
}

var defaultsOf = map[string]familyDefaults{
	"modernbert": {"gelu", 1e-5}, "nomic_bert": {"silu", 1e-12}, "t5": {"relu", 1e-6}, "mt5": {"gated-gelu", 1e-6},
	"umt5": {"gated-gelu", 1e-6}, "llama": {"silu", 1e-6}, "mistral": {"silu", 1e-6}, "qwen2": {"silu", 1e-6},
	"qwen3": {"silu", 1e-6}, "eurobert": {"silu", 1e-5}, "gemma": {"gelu_pytorch_tanh", 1e-6},
	"gemma2": {"gelu_pytorch_tanh", 1e-6}, "gemma3_text": {"gelu_pytorch_tanh", 1e-6},
	"deberta": {"gelu", 1e-7}, "deberta-v2": {"gelu", 1e-7}, "xlm-roberta-xl": {"gelu", 1e-5},
}

// settle gives settings the values that families have by default, from the fields that they name differently.
func (c *config) settle() {
	d, ok := defaultsOf[c.Type]
	if !ok {
		d = familyDefaults{"gelu", 1e-12}
	}
	if c.Type == "distilbert" {
		c.Hidden, c.Layers, c.Heads = or(c.Dim, 768), or(c.NLayers, 6), or(c.NHeads, 12)
		c.Act, c.Epsilon = c.Activation, 1e-12
	}
	c.Hidden = nonzero(c.Hidden, c.DModel, c.NEmbd, 768)
	c.Layers = nonzero(c.Layers, c.NumLayers, c.NLayer, 12)
	c.Heads = nonzero(c.Heads, c.NumHeads, c.NHead, 12)
	c.Epsilon = nonzero(c.Epsilon, c.Epsilon2, c.Epsilon3, c.Epsilon4, d.epsilon)
	c.Act = nonzero(c.HiddenAct, c.Act, c.FeedForward, gates[c.ActFunction], c.ActFunction, d.act)
	if c.Type == "gemma" && c.Act == "gelu" { // which means the other one
		c.Act = "gelu_pytorch_tanh"
	}
	c.Groups, c.Inner, c.Buckets, c.MostFar = or(c.Groups, 1), or(c.Inner, 1), or(c.Buckets, 32), or(c.MostFar, 128)
}

// gates are the activations of gated linear layers, by the names of Nomic BERT's own code.
var gates = map[string]string{"swiglu": "silu", "geglu": "gelu"}

// or returns x, or y if x is zero.
func or[T comparable](x, y T) T { return nonzero(x, y) }

// nonzero returns the first value that is not zero.
func nonzero[T comparable](list ...T) (zero T) {
	for _, v := range list {
		if v != zero {
			return v
		}
	}
	return zero
}

// padding returns the id of the token that pads.
func (c *config) padding(otherwise int64) int64 {
	if c.Padding == nil {
		return otherwise
	}
	return *c.Padding
}
