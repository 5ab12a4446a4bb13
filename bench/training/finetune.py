"""Writes a MobileNetV2 of random weights as ONNX, by both of PyTorch's exporters, and what five steps of its SGD do.

    python bench/training/finetune.py FOLDER [SIZE [THREADS]]

Needs torch, torchvision and onnxscript. WEIR_FINETUNE=FOLDER go test ./train -run TestFinetune -v compares with it. Batch
normalisation computes by its running statistics, those of random images, as it does in a model that was imported.
"""
import json, pathlib, sys, time
import torch, torchvision

folder, size = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 64
torch.manual_seed(0)
torch.set_num_threads(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
folder.mkdir(parents=True, exist_ok=True)
net = torchvision.models.mobilenet_v2(weights=None, num_classes=10, dropout=0.0)
net.train()
with torch.no_grad():
    for _ in range(12):
        net(torch.randn(16, 3, 64, 64))
net.eval()
x, y = torch.randn(8, 3, size, size), torch.arange(8) % 10
names = dict(input_names=["x"], output_names=["y"])
torch.onnx.export(net, (x,), folder / "script.onnx", dynamo=False, opset_version=17, do_constant_folding=False,
                  training=torch.onnx.TrainingMode.PRESERVE, dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, **names)
torch.onnx.export(net, (x,), folder / "dynamo.onnx", dynamo=True, optimize=False, external_data=True,
                  dynamic_shapes={"x": {0: torch.export.Dim("batch")}}, **names)
x.numpy().tofile(folder / "x.bin")
y.to(torch.int32).numpy().tofile(folder / "y.bin")
begin, told = {k: v.clone() for k, v in net.state_dict().items()}, {"size": size}
for what, trained in ("head", net.classifier), ("whole", net):
    net.load_state_dict(begin)
    for p in net.parameters():
        p.requires_grad_(False)
    for p in trained.parameters():
        p.requires_grad_(True)
    optimiser, losses, times = torch.optim.SGD(trained.parameters(), lr=0.01), [], []
    for _ in range(15):
        start = time.perf_counter()
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimiser.step()
        times.append(time.perf_counter() - start)
        losses.append(loss.item())
    told[what] = {"losses": losses[:5], "milliseconds": min(times) * 1e3}
(folder / "told.json").write_text(json.dumps(told))
print(told)
