"""Writes train/testdata/pytorch.json: what PyTorch's optimisers make of two parameters over twenty steps, and its losses.

    python bench/training/optimisers.py train/testdata

Needs torch. Lion is not in torch: its four lines stand here as its authors wrote them.
"""
import json, sys, pathlib
import torch
import torch.nn.functional as F

torch.manual_seed(3)
w0, b0 = torch.randn(3, 4) * 0.5, torch.randn(4) * 0.5
x, y = torch.randn(6, 3), torch.randn(6, 4)


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            b1, b2 = g["betas"]
            for p in g["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - g["lr"] * g["weight_decay"])
                p.add_(torch.sign(m * b1 + p.grad * (1 - b1)), alpha=-g["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


O = torch.optim
optimisers = {
    "sgd": lambda p: O.SGD(p, 0.05), "sgd_decay": lambda p: O.SGD(p, 0.05, weight_decay=0.1),
    "momentum": lambda p: O.SGD(p, 0.02, momentum=0.9), "nesterov": lambda p: O.SGD(p, 0.02, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: O.Adam(p, 0.01), "adam_decay": lambda p: O.Adam(p, 0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "adamw": lambda p: O.AdamW(p, 0.01), "adamw_decay": lambda p: O.AdamW(p, 0.01, weight_decay=0.3),
    "lion": lambda p: Lion(p, 0.003, weight_decay=0.1), "rmsprop": lambda p: O.RMSprop(p, 0.01),
    "rmsprop_all": lambda p: O.RMSprop(p, 0.01, alpha=0.9, momentum=0.9, centered=True, weight_decay=0.01),
    "adagrad": lambda p: O.Adagrad(p, 0.1), "adagrad_decay": lambda p: O.Adagrad(p, 0.1, lr_decay=0.1, weight_decay=0.05),
    "adafactor": lambda p: O.Adafactor(p, 0.05), "adafactor_decay": lambda p: O.Adafactor(p, 0.05, weight_decay=0.1),
    "clip_norm": lambda p: O.SGD(p, 0.05), "clip_value": lambda p: O.SGD(p, 0.05),
}
out = {"w": w0.flatten().tolist(), "b": b0.tolist(), "x": x.flatten().tolist(), "y": y.flatten().tolist(), "optimisers": {}}
for name, make in optimisers.items():
    w, b = w0.clone().requires_grad_(), b0.clone().requires_grad_()
    o, losses = make([w, b]), []
    for _ in range(20):
        o.zero_grad()
        loss = F.mse_loss(x @ w + b, y)
        loss.backward()
        if name == "clip_norm":
            torch.nn.utils.clip_grad_norm_([w, b], 0.5)
        if name == "clip_value":
            torch.nn.utils.clip_grad_value_([w, b], 0.1)
        o.step()
        losses.append(loss.item())
    out["optimisers"][name] = {"w": w.flatten().tolist(), "b": b.tolist(), "losses": losses}

ids = torch.tensor([0, 3, 1, 2, 3, 3])
signs = torch.sign(torch.randn(6, 4))
logits, shares = torch.randn(6, 4) * 2, torch.softmax(torch.randn(6, 4), -1)
weights = torch.tensor([0.5, 1.0, 2.0, 1.5])
triples = torch.randn(6, 3, 4)
sig = lambda a: torch.sigmoid(a)
losses = {
    "cross_entropy": (logits, lambda a: F.cross_entropy(a, ids)), "cross_entropy_shares": (logits, lambda a: F.cross_entropy(a, shares)),
    "smoothing": (logits, lambda a: F.cross_entropy(a, ids, label_smoothing=0.2)),
    "smoothing_shares": (logits, lambda a: F.cross_entropy(a, shares, label_smoothing=0.2)),
    "weights": (logits, lambda a: F.cross_entropy(a, ids, weight=weights)), "ignore": (logits, lambda a: F.cross_entropy(a, ids, ignore_index=3)),
    "all": (logits, lambda a: F.cross_entropy(a, ids, weight=weights, ignore_index=3, label_smoothing=0.1)),
    "weights_shares": (logits, lambda a: F.cross_entropy(a, shares, weight=weights)),
    "nll": (logits, lambda a: F.nll_loss(a, ids)), "mse": (logits, lambda a: F.mse_loss(a, y)), "l1": (logits, lambda a: F.l1_loss(a, y)),
    "huber": (logits, lambda a: F.huber_loss(a, y, delta=0.7)), "bce": (sig(logits), lambda a: F.binary_cross_entropy(a, shares)),
    "bce_logits": (logits * 10, lambda a: F.binary_cross_entropy_with_logits(a, shares)),
    "kl": (torch.log_softmax(logits, -1), lambda a: F.kl_div(a, shares, reduction="batchmean")),
    "cosine": (logits, lambda a: (1 - F.cosine_similarity(a, y)).mean()), "hinge": (logits, lambda a: F.relu(1.5 - signs * a).mean()),
    "triplet": (triples, lambda a: F.triplet_margin_loss(a[:, 0], a[:, 1], a[:, 2], margin=0.8)),
}
out["losses"] = {"ids": ids.tolist(), "signs": signs.flatten().tolist(), "shares": shares.flatten().tolist(), "class_weights": weights.tolist()}
for name, (a, f) in losses.items():
    a = a.clone().requires_grad_()
    loss = f(a)
    loss.backward()
    out["losses"][name] = {"x": a.flatten().tolist(), "loss": loss.item(), "gradient": a.grad.flatten().tolist()}
pathlib.Path(sys.argv[1], "pytorch.json").write_text(json.dumps(out))
