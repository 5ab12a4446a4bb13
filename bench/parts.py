"""The parts of the benchmark's document, with their models, engines and tolerances."""
import typing

CORE = ["resnet50", "resnet50_b8", "mobilenet_v2", "vgg16", "vit_b_16", "bert_base_s128", "bert_base_s128_b8",
        "gpt2_prefill_s128", "gpt2_decode_p127", "unet_64", "lstm_s64", "mlp_b1", "mlp_b256"]
EXTRA = ["resnet18", "densenet121", "squeezenet1_1", "mobilenet_v2_b8", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny",
         "distilbert_s128", "minilm_s32", "gru_s64"]  # of models.py too, on request

SWEEP = ["shufflenet_v2", "googlenet", "resnext50", "efficientnet_v2_s", "resnet18_dyn_hw", "fcn_resnet50", "yolov8n_dyn", "yolov8n_nms",
         "pose_resnet18", "r3d_18", "autoencoder_dyn", "esrgan_dyn", "sd_unet_block_dyn", "mlp_mixer", "resize_bicubic",
         "distilbert_dyn", "roberta_dyn", "t5_small_enc_dyn", "bart_base", "clip_vision_b32", "llama_gqa_decode_dyn", "mamba_scan",
         "linear_attention", "moe_layer", "fnet", "beam_topk",
         "wav2vec2_dyn", "conv_tasnet_dyn", "gru_dyn", "lstm_b32", "gnn_scatter", "dlrm_dyn"]
TREES = [f"{name}_b{rows}" for name in ("sk_forest", "sk_svc", "sk_kmeans", "lightgbm") for rows in (1, 1000)]
QUANTISED = {"q8_resnet18": "resnet18_dyn_hw", "q8_bert": "distilbert_dyn", "q8dyn_bert": "distilbert_dyn",
             "int4_distilbert": "distilbert_dyn", "f16_resnet18": "resnet18_dyn_hw",
             "gpt2_decode_int4": "gpt2_decode_p127"}  # each made of the other

BUDGET = 0.4  # the share of a training step's bytes, besides its states
STEPS = ["step_mlp", "step_cnn", "step_transformer", "step_lstm", "step_embedding"]  # of steps.py, steps and gomlx/steps

TOLERANCE = {"q8_resnet18": 0.05, "q8_bert": 0.1, "q8dyn_bert": 0.1, "int4_distilbert": 0.1, "f16_resnet18": 0.02,
             "gpt2_decode_int4": 0.1}  # of results in few bits: engines round in different positions


class Part(typing.NamedTuple):
    """Tables of the document: models timed by engines. The first engine is Weir; the others are its rivals."""

    name: str
    title: str
    about: str
    models: list
    engines: list
    tolerance: float = 1e-3  # of the largest difference, relative to the largest output

    def tolerance_of(self, model):
        return max(self.tolerance, TOLERANCE.get(model, 0))


PARTS = [
    Part("exported", "Exported models, f32", "Models with fixed sizes.", CORE, ["weir", "ort", "openvino", "ncnn", "iree"]),
    Part("sweep", "The sweep", "Models of many kinds, most with named sizes (dyn): eight of scikit-learn and LightGBM, for one row and for a "
         "thousand, five quantised or narrow ones, and the others in f32. Every run has the same rows: ONNX Runtime, which branches at each node "
         "of a tree, finds its branches predicted, as those of other rows would not be; Weir's trees have no branches.",
         [*SWEEP, *TREES, *list(QUANTISED)[:5]], ["weir", "ort", "openvino"]),
    Part("bf16", "bf16", "Weir with `--precision bf16`, and OpenVINO with bf16 arithmetic.",
         ["resnet50", "mobilenet_v2", "vgg16", "vit_b_16", "bert_base_s128", "gpt2_prefill_s128", "gpt2_decode_p127", "unet_64"],
         ["weir_bf16", "openvino_bf16"], 0.1),
    Part("int8", "int8", "Weir with `--precision int8`, and rivals that run the model after dynamic quantisation by ONNX Runtime; weights "
         "of four bits stay, and all engines quantise the activations of their products.",
         ["resnet50", "vit_b_16", "bert_base_s128", "gpt2_prefill_s128", "int4_distilbert"], ["weir_int8", "ort_int8", "openvino_int8"], 0.5),
    Part("decode", "Decoding a token", "A token is one run of GPT-2 small with 127 positions in its cache (int4: with MatMulNBits), or of a "
         "Llama of 8 layers with 200. The tables give tokens a second, and for Weir the share of the memory's speed: the bytes that the "
         "model's plan moves in a second, relative to the bytes that the probe reads from memory in a second.",
         ["gpt2_decode_p127", "gpt2_decode_int4", "llama_gqa_decode_dyn"], ["weir", "weir_bf16", "weir_int8", "ort", "openvino", "openvino_bf16",
                                                                          "ort_int8", "openvino_int8"], 0.5),
    Part("training", "Training", "A step is forward, loss, backward and the optimiser's update, on the same batch every time; the models are those of bench/steps.py. Each engine begins "
         "with weights of its own; the tests of nn and train compare losses and derivatives with PyTorch's. PyTorch inductor is torch.compile of the "
         f"whole step. The budget of Weir with a budget is {100 * BUDGET:.0f} % of the bytes of a step without one, not counting parameters and the optimiser's memory; if that is refused, "
         "it is the smallest budget that works. The time of GoMLX's step, on one thread, is its processor time.",
         STEPS, ["weir", "weir_budget", "torch", "inductor", "gomlx"]),
]
