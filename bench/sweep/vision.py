"""Pictures and video: classifiers, dense prediction, detection, generation."""
import torch
import torchvision
from torch import nn
from torch.nn import functional

from case import BATCH, DYNAMIC, IMAGE, Case, Function, attention, heads, image

vision = torchvision.models


def conv(inputs, outputs, size=1, stride=1):
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight)  # keeps the pictures' differences to the end: no two boxes have nearly equal scores
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.SiLU())


def twice(x):
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


class CrossStage(nn.Module):
    """YOLOv8's C2f: the result of each block is kept, and all are joined at the end."""

    def __init__(self, inputs, outputs, blocks=1, add=True):
        super().__init__()
        half, self.add = outputs // 2, add
        self.first, self.last = conv(inputs, outputs), conv((2 + blocks) * half, outputs)
        self.blocks = nn.ModuleList(nn.Sequential(conv(half, half, 3), conv(half, half, 3)) for _ in range(blocks))

    def forward(self, x):
        kept = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            y = block(kept[-1])
            kept.append(kept[-1] + y if self.add else y)
        return self.last(torch.cat(kept, 1))


class Yolo(nn.Module):
    """YOLOv8n: backbone, pyramid pooling, neck, distribution focal head with decoded boxes; suppression if asked."""

    def __init__(self, suppress, classes=80):
        super().__init__()
        self.suppress, self.classes = suppress, classes
        self.stage1 = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), CrossStage(32, 32), conv(32, 64, 3, 2),
                                    CrossStage(64, 64, 2))
        self.stage2 = nn.Sequential(conv(64, 128, 3, 2), CrossStage(128, 128, 2))
        self.stage3 = nn.Sequential(conv(128, 256, 3, 2), CrossStage(256, 256))
        self.narrow, self.pooled = conv(256, 128), conv(512, 256)
        self.up2, self.up1 = CrossStage(384, 128, add=False), CrossStage(192, 64, add=False)
        self.shrink1, self.shrink2 = conv(64, 64, 3, 2), conv(128, 128, 3, 2)
        self.down2, self.down3 = CrossStage(192, 128, add=False), CrossStage(384, 256, add=False)
        self.boxes = nn.ModuleList(self.head(c, 64, 64) for c in (64, 128, 256))
        self.scores = nn.ModuleList(self.head(c, 80, classes) for c in (64, 128, 256))

    @staticmethod
    def head(inputs, inner, outputs):
        return nn.Sequential(conv(inputs, inner, 3), conv(inner, inner, 3), nn.Conv2d(inner, outputs, 1))

    def features(self, x):
        a = self.stage1(x)
        b = self.stage2(a)
        c = [self.narrow(self.stage3(b))]
        for _ in range(3):
            c.append(functional.max_pool2d(c[-1], 5, 1, 2))
        c = self.pooled(torch.cat(c, 1))
        b = self.up2(torch.cat([twice(c), b], 1))
        a = self.up1(torch.cat([twice(b), a], 1))
        b = self.down2(torch.cat([self.shrink1(a), b], 1))
        return a, b, self.down3(torch.cat([self.shrink2(b), c], 1))

    def forward(self, x):
        boxes, scores = [], []
        for level, (t, stride) in enumerate(zip(self.features(x), (8, 16, 32))):
            batch, _, rows, columns = t.shape
            sides = self.boxes[level](t).reshape(batch, 4, 16, rows * columns).softmax(2)
            sides = (sides * torch.arange(16.0).view(1, 1, 16, 1)).sum(2)
            y, x = torch.meshgrid(torch.arange(rows) + 0.5, torch.arange(columns) + 0.5, indexing="ij")
            centres = torch.stack([x, y]).reshape(1, 2, rows * columns)
            boxes.append(torch.cat([centres - sides[:, :2], centres + sides[:, 2:]], 1) * stride)
            scores.append(self.scores[level](t).reshape(batch, self.classes, rows * columns))
        boxes, scores = torch.cat(boxes, 2), torch.cat(scores, 2).sigmoid()
        if not self.suppress:
            return boxes, scores
        boxes, best = boxes[0].t(), scores[0].amax(0)
        kept = torchvision.ops.nms(boxes, best, 0.5)
        return boxes[kept], best[kept]


class Dense(nn.Module):
    """A residual dense block of ESRGAN."""

    def __init__(self, width=64, growth=32):
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Conv2d(width + i * growth, growth if i < 4 else width, 3, padding=1) for i in range(5))

    def forward(self, x):
        kept = [x]
        for part in self.parts[:4]:
            kept.append(functional.leaky_relu(part(torch.cat(kept, 1)), 0.2))
        return x + 0.2 * self.parts[4](torch.cat(kept, 1))


class SuperResolution(nn.Module):
    """A short ESRGAN: four times as many rows and columns."""

    def __init__(self):
        super().__init__()
        self.first, self.blocks = nn.Conv2d(3, 64, 3, padding=1), nn.Sequential(Dense(), Dense(), Dense())
        self.up1, self.up2, self.last = (nn.Conv2d(64, width, 3, padding=1) for width in (64, 64, 3))

    def forward(self, x):
        x = self.first(x)
        x = x + 0.2 * self.blocks(x)
        for up in (self.up1, self.up2):
            x = functional.leaky_relu(up(twice(x)), 0.2)
        return self.last(x)


class Diffusion(nn.Module):
    """A block of a diffusion model: time, a residual part, and a transformer over positions with gated units."""

    def __init__(self, width=320, context=768, count=8):
        super().__init__()
        self.count = count
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.first, self.last = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(32, width), nn.GroupNorm(32, width)
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.shift = nn.Linear(4 * width, width)
        self.norm, self.enter, self.leave = nn.GroupNorm(32, width, 1e-6), nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(4))
        self.cross = nn.ModuleList(nn.Linear(n, width, bias=False) for n in (width, context, context, width))
        self.gated, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.register_buffer("waves", torch.exp(torch.arange(width // 2) * (-9.210340371976184 / (width // 2))))

    def attend(self, layers, x, context):
        q, k, v, out = layers
        return out(attention(heads(q(x), self.count), heads(k(context), self.count), heads(v(context), self.count)))

    def forward(self, x, time, context):
        time = time[:, None] * self.waves
        time = self.time(torch.cat([time.cos(), time.sin()], 1))
        x = self.first(x)
        y = self.conv1(functional.silu(self.norm1(x))) + self.shift(functional.silu(time))[:, :, None, None]
        x = x + self.conv2(functional.silu(self.norm2(y)))
        batch, width, rows, columns = x.shape
        y = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        z = self.norms[0](y)
        y = y + self.attend(self.own, z, z)
        y = y + self.attend(self.cross, self.norms[1](y), context)
        up, gate = self.gated(self.norms[2](y)).chunk(2, -1)
        y = y + self.down(up * functional.gelu(gate))
        return self.last(x + self.leave(y.transpose(1, 2).reshape(batch, width, rows, columns)))


class Mixer(nn.Module):
    """A block of an MLP mixer: over positions, then over channels."""

    def __init__(self, positions=196, width=512):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.positions = nn.Sequential(nn.Linear(positions, 256), nn.GELU(), nn.Linear(256, positions))
        self.channels = nn.Sequential(nn.Linear(width, 2048), nn.GELU(), nn.Linear(2048, width))

    def forward(self, x):
        x = x + self.positions(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


def pose():
    body = nn.Sequential(*list(vision.resnet18().children())[:-2])
    layers = []
    for inputs in (512, 256, 256):
        layers += [nn.ConvTranspose2d(inputs, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU()]

    def joints(body, head, x):
        y = head(body(x))
        return y, y.flatten(2).argmax(2)

    return Function(joints, body, nn.Sequential(*layers, nn.Conv2d(256, 17, 1)))


def segmentation():
    model = vision.segmentation.fcn_resnet50(weights=None, weights_backbone=None)
    return Function(lambda model, x: model(x)["out"], model)


def autoencoder():
    down = [nn.Conv2d(3, 32, 3, 2, 1), nn.Conv2d(32, 64, 3, 2, 1), nn.Conv2d(64, 128, 3, 2, 1)]
    up = [nn.ConvTranspose2d(128, 64, 3, 2, 1, 1), nn.ConvTranspose2d(64, 32, 3, 2, 1, 1)]
    layers = [layer for part in down + up for layer in (part, nn.ReLU())]
    return nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 3, 2, 1, 1), nn.Sigmoid())


def mixer():
    return Function(lambda patches, blocks, x: blocks(patches(x).flatten(2).transpose(1, 2)).mean(1),
                    nn.Conv2d(3, 512, 16, 16), nn.Sequential(*(Mixer() for _ in range(4))))


def resized():
    def resize(layer, x):
        return functional.interpolate(functional.interpolate(layer(x), size=(300, 300), mode="bilinear"), size=(128, 128),
                                      mode="bicubic")

    return Function(resize, nn.Conv2d(3, 8, 3, padding=1))


CASES = {
    "shufflenet_v2": lambda: Case(vision.shufflenet_v2_x1_0(), (image(),), (BATCH,)),
    "googlenet": lambda: Case(vision.googlenet(aux_logits=False, init_weights=False), (image(),)),
    "resnext50": lambda: Case(vision.resnext50_32x4d(), (image(),), (BATCH,)),
    "efficientnet_v2_s": lambda: Case(vision.efficientnet_v2_s(), (image(),), (BATCH,)),
    "resnet18_dyn_hw": lambda: Case(vision.resnet18(), (image(1, 200, 264),), (IMAGE,)),
    "fcn_resnet50": lambda: Case(segmentation(), (image(1, 128),)),
    "yolov8n_dyn": lambda: Case(Yolo(False), (image(1, 320),), (IMAGE,)),
    "yolov8n_nms": lambda: Case(Yolo(True), (image(1, 256),)),
    "pose_resnet18": lambda: Case(pose(), (image(1, 256, 192),), (BATCH,)),
    "r3d_18": lambda: Case(vision.video.r3d_18(), (torch.randn(1, 3, 8, 80, 80),), (BATCH,)),
    "autoencoder_dyn": lambda: Case(autoencoder(), (image(1, 128),), (IMAGE,)),
    "esrgan_dyn": lambda: Case(SuperResolution(), (image(1, 48),), (IMAGE,)),
    "sd_unet_block_dyn": lambda: Case(Diffusion(), (torch.randn(1, 4, 24, 32), torch.tensor([37.0]), torch.randn(1, 77, 768)),
                                      ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}, BATCH, BATCH)),
    "mlp_mixer": lambda: Case(mixer(), (image(),), (BATCH,)),
    "resize_bicubic": lambda: Case(resized(), (image(1, 128),)),
}
