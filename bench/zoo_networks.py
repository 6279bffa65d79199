"""Networks of all usual kinds with seeded weights: of timm, of torchvision, and six of our own, for `zoo.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn.functional import interpolate, softmax


def conv(given: int, made: int, taps: int = 3, stride: int = 1, activation: type[nn.Module] = nn.SiLU) -> nn.Sequential:
    """Return a convolution with BatchNorm and an activation."""
    convolution = nn.Conv2d(given, made, taps, stride, taps // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(made), activation())


class Split(nn.Module):
    """A block of YOLOv8: two halves, residual blocks on one of them, and the concatenation of all that they give."""

    def __init__(self, given: int, made: int, blocks: int, adds: bool) -> None:
        super().__init__()
        half = made // 2
        self.adds, self.first = adds, conv(given, made, 1)
        self.blocks = nn.ModuleList(nn.Sequential(conv(half, half), conv(half, half)) for _ in range(blocks))
        self.last = conv(half * (2 + blocks), made, 1)

    def forward(self, x: Any) -> Any:
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            y = block(parts[-1])
            parts.append(parts[-1] + y if self.adds else y)
        return self.last(torch.cat(parts, 1))


class PooledPyramid(nn.Module):
    """A block of YOLOv8: three max pools behind each other, concatenated."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.last = conv(channels, channels // 2, 1), conv(2 * channels, channels, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Any) -> Any:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class DetectorHead(nn.Module):
    """A head of YOLOv8: distances to the four sides as distributions over BINS, and the scores of CLASSES."""

    BINS, CLASSES = 16, 80

    def __init__(self, widths: tuple[int, ...], strides: tuple[int, ...]) -> None:
        super().__init__()
        self.strides = strides
        self.boxes = nn.ModuleList(self._branch(width, 4 * self.BINS) for width in widths)
        self.classes = nn.ModuleList(self._branch(width, self.CLASSES) for width in widths)

    @staticmethod
    def _branch(width: int, made: int) -> nn.Sequential:
        return nn.Sequential(conv(width, 64), conv(64, 64), nn.Conv2d(64, made, 1))

    def forward(self, levels: list[Any]) -> tuple[Any, Any, Any]:
        """Return boxes as two corners in pixels, the best class's score and its number, for every cell. Nothing
        suppresses overlapping boxes."""
        boxes, scores, centres, strides = [], [], [], []
        for x, box, classes, stride in zip(levels, self.boxes, self.classes, self.strides, strict=True):
            height, width = x.shape[2:]
            rows, columns = torch.arange(height, device=x.device) + 0.5, torch.arange(width, device=x.device) + 0.5
            grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy")).flatten(1).to(x.dtype)
            centres.append(grid)
            strides.append(torch.full_like(grid[:1], stride))
            boxes.append(box(x).flatten(2))
            scores.append(classes(x).flatten(2))
        distribution = torch.cat(boxes, 2).unflatten(1, (4, self.BINS))
        bins = torch.arange(self.BINS, device=distribution.device, dtype=distribution.dtype).view(1, 1, self.BINS, 1)
        distances = (softmax(distribution, 2) * bins).sum(2)
        centre, stride_of_cell = torch.cat(centres, 1), torch.cat(strides, 1)
        corners = torch.cat((centre - distances[:, :2], centre + distances[:, 2:]), 1) * stride_of_cell
        score, number = torch.cat(scores, 2).sigmoid().max(1)
        return corners.transpose(1, 2), score, number


class Detector(nn.Module):
    """A network like YOLOv8n: backbone, feature pyramid in both directions, and decoded boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, stride=2), conv(16, 32, stride=2), Split(32, 32, 1, True))
        self.eighth = nn.Sequential(conv(32, 64, stride=2), Split(64, 64, 2, True))
        self.sixteenth = nn.Sequential(conv(64, 128, stride=2), Split(128, 128, 2, True))
        self.least = nn.Sequential(conv(128, 256, stride=2), Split(256, 256, 1, True), PooledPyramid(256))
        self.up = nn.Upsample(scale_factor=2.0, mode="nearest")
        self.up_sixteenth, self.up_eighth = Split(384, 128, 1, False), Split(192, 64, 1, False)
        self.down_eighth, self.down_sixteenth = conv(64, 64, stride=2), conv(128, 128, stride=2)
        self.on_sixteenth, self.on_least = Split(192, 128, 1, False), Split(384, 256, 1, False)
        self.head = DetectorHead((64, 128, 256), (8, 16, 32))

    def forward(self, x: Any) -> tuple[Any, Any, Any]:
        eighth = self.eighth(self.stem(x))
        sixteenth = self.sixteenth(eighth)
        least = self.least(sixteenth)
        middle = self.up_sixteenth(torch.cat((self.up(least), sixteenth), 1))
        fine = self.up_eighth(torch.cat((self.up(middle), eighth), 1))
        middle = self.on_sixteenth(torch.cat((self.down_eighth(fine), middle), 1))
        coarse = self.on_least(torch.cat((self.down_sixteenth(middle), least), 1))
        corners, score, number = self.head([fine, middle, coarse])
        return corners, score, number


class Residual(nn.Module):
    """A residual block with BatchNorm and ReLU."""

    def __init__(self, given: int, made: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(conv(given, made, 3, stride, nn.ReLU), conv(made, made, activation=nn.Identity))
        self.outer = conv(given, made, 1, stride, nn.Identity) if stride > 1 else nn.Identity()
        self.relu = nn.ReLU()

    def forward(self, x: Any) -> Any:
        return self.relu(self.inner(x) + self.outer(x))


class Pyramid(nn.Module):
    """A feature pyramid on a residual backbone, with a head that all levels share."""

    WIDTHS, LEVELS = (64, 128, 256, 512), 128

    def __init__(self) -> None:
        super().__init__()
        widths = (64, *self.WIDTHS)
        self.stem = nn.Sequential(conv(3, 64, 7, 2, nn.ReLU), nn.MaxPool2d(3, 2, 1))
        self.levels = nn.ModuleList(
            nn.Sequential(Residual(given, made, 2), Residual(made, made, 1))
            for given, made in zip(widths, self.WIDTHS, strict=False)
        )
        self.lateral = nn.ModuleList(nn.Conv2d(width, self.LEVELS, 1) for width in self.WIDTHS)
        self.smooth = nn.ModuleList(nn.Conv2d(self.LEVELS, self.LEVELS, 3, padding=1) for _ in self.WIDTHS)
        self.head = nn.Sequential(conv(self.LEVELS, self.LEVELS, activation=nn.ReLU), nn.Conv2d(self.LEVELS, 9, 1))

    def forward(self, x: Any) -> tuple[Any, ...]:
        x, found = self.stem(x), []
        for level, lateral in zip(self.levels, self.lateral, strict=True):
            x = level(x)
            found.append(lateral(x))
        for at in range(len(found) - 1, 0, -1):
            found[at - 1] = found[at - 1] + interpolate(found[at], size=found[at - 1].shape[-2:], mode="nearest")
        return tuple(self.head(smooth(level)) for smooth, level in zip(self.smooth, found, strict=True))


class SuperResolution(nn.Module):
    """A network like EDSR: residual blocks, and twice the resolution by PixelShuffle."""

    WIDTH, BLOCKS = 64, 8

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, self.WIDTH, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(self.WIDTH, self.WIDTH, 3, padding=1), nn.ReLU(), nn.Conv2d(self.WIDTH, self.WIDTH, 3, 1, 1)
            )
            for _ in range(self.BLOCKS)
        )
        self.up = nn.Sequential(nn.Conv2d(self.WIDTH, 4 * self.WIDTH, 3, padding=1), nn.PixelShuffle(2))
        self.last = nn.Conv2d(self.WIDTH, 3, 3, padding=1)

    def forward(self, x: Any) -> Any:
        x = y = self.first(x)
        for block in self.blocks:
            y = y + block(y)
        return self.last(self.up(x + y))


class NormalizedResidual(nn.Module):
    """A residual block with GroupNorm and SiLU."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        first = (nn.GroupNorm(32, given), nn.SiLU(), nn.Conv2d(given, made, 3, padding=1))
        self.inner = nn.Sequential(*first, nn.GroupNorm(32, made), nn.SiLU(), nn.Conv2d(made, made, 3, padding=1))
        self.outer = nn.Conv2d(given, made, 1) if given != made else nn.Identity()

    def forward(self, x: Any) -> Any:
        return self.outer(x) + self.inner(x)


class Attention(nn.Module):
    """Attention of all pixels to all others, with one head."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)
        self.given, self.made = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x: Any) -> Any:
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        query, key, value = self.given(pixels).chunk(3, 2)
        scores = softmax(query @ key.transpose(1, 2) * x.shape[1] ** -0.5, 2)
        return x + self.made(scores @ value).transpose(1, 2).unflatten(2, x.shape[2:])


class ImageDecoder(nn.Module):
    """The decoder of an image autoencoder, from latents of an eighth of the image's extents."""

    LATENT, WIDTHS = 4, (256, 256, 128, 64)

    def __init__(self) -> None:
        super().__init__()
        widest, *_, least = self.WIDTHS
        middle = (NormalizedResidual(widest, widest), Attention(widest), NormalizedResidual(widest, widest))
        self.first = nn.Sequential(nn.Conv2d(self.LATENT, widest, 3, padding=1), *middle)
        self.levels = nn.Sequential(
            *(self._level(given, made) for given, made in zip(self.WIDTHS, self.WIDTHS[1:], strict=False))
        )
        self.last = nn.Sequential(nn.GroupNorm(32, least), nn.SiLU(), nn.Conv2d(least, 3, 3, padding=1))

    @staticmethod
    def _level(given: int, made: int) -> nn.Sequential:
        up = (nn.Upsample(scale_factor=2.0, mode="nearest"), nn.Conv2d(given, given, 3, padding=1))
        return nn.Sequential(NormalizedResidual(given, given), *up, NormalizedResidual(given, made))

    def forward(self, x: Any) -> Any:
        return self.last(self.levels(self.first(x)))


class UNet(nn.Module):
    """A U-Net that grows by bilinear interpolation."""

    CHANNELS, MODE = 3, "bilinear"
    WIDTHS: tuple[int, ...] = (32, 64, 128, 256)
    POOL: type[nn.Module] = nn.MaxPool2d
    CONVOLUTION: type[nn.Module] = nn.Conv2d

    def __init__(self) -> None:
        super().__init__()
        self.pool = self.POOL(2)
        self.down = nn.ModuleList(
            self._pair(given, made) for given, made in zip((self.CHANNELS, *self.WIDTHS), self.WIDTHS, strict=False)
        )
        self.up = nn.ModuleList(
            self._pair(given + made, made) for given, made in zip(self.WIDTHS[:0:-1], self.WIDTHS[-2::-1], strict=True)
        )
        self.last = self.CONVOLUTION(self.WIDTHS[0], 2, 1)

    def _pair(self, given: int, made: int) -> nn.Sequential:
        return nn.Sequential(conv(given, made, activation=nn.ReLU), conv(made, made, activation=nn.ReLU))

    def forward(self, x: Any) -> Any:
        kept = []
        for at, block in enumerate(self.down):
            x = block(self.pool(x) if at else x)
            kept.append(x)
        for block, beside in zip(self.up, kept[-2::-1], strict=True):
            x = block(torch.cat((beside, interpolate(x, scale_factor=2.0, mode=self.MODE)), 1))
        return self.last(x)


class VolumeUNet(UNet):
    """A U-Net of volumes that grows by repeated voxels."""

    CHANNELS, MODE = 1, "nearest"
    WIDTHS = (32, 64, 128)
    POOL, CONVOLUTION = nn.MaxPool3d, nn.Conv3d

    def _pair(self, given: int, made: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for channels in (given, made):
            layers += [nn.Conv3d(channels, made, 3, padding=1, bias=False), nn.BatchNorm3d(made), nn.ReLU()]
        return nn.Sequential(*layers)


class Only(nn.Module):
    """A network of torchvision that gives a dictionary, of which it keeps one entry."""

    def __init__(self, network: Any, name: str) -> None:
        super().__init__()
        self.network, self.name = network, name

    def forward(self, x: Any) -> Any:
        return self.network(x)[self.name]


@dataclass(frozen=True)
class ZooNetwork:
    """A network of the zoo. Its input has `channels`, `frames` if it is of videos or volumes, and an extent of
    `size / reduction`. Smaller ones have fewer frames in proportion, at least 4."""

    kind: str
    make: Callable[[int], Any]  # from the size
    size: int = 224
    channels: int = 3
    reduction: int = 1
    frames: int = 0

    def shape(self, size: int) -> tuple[int, ...]:
        frames = (max(4, self.frames * size // self.size),) if self.frames else ()
        return (self.channels, *frames, size // self.reduction, size // self.reduction)


def of_torchvision(kind: str, name: str, size: int = 224, **given: Any) -> ZooNetwork:
    def make(_: int) -> Any:
        import torchvision

        return getattr(torchvision.models, name)(**given)

    return ZooNetwork(kind, make, size)


def of_videos(name: str) -> ZooNetwork:
    """Return a network of torchvision for clips of 16 frames."""

    def make(_: int) -> Any:
        from torchvision.models import video

        return getattr(video, name)()

    return ZooNetwork("video", make, 112, frames=16)


def segmenting(name: str, size: int) -> ZooNetwork:
    def make(_: int) -> Any:
        from torchvision.models import segmentation

        return Only(getattr(segmentation, name)(weights=None, weights_backbone=None), "out")

    return ZooNetwork("segmentation", make, size)


def of_timm(kind: str, name: str, size: int = 224, sized: bool = False) -> ZooNetwork:
    """Return a network of timm; one that is `sized` is made for one size of images."""

    def make(size: int) -> Any:
        import timm

        given: dict[str, Any] = {"img_size": size} if sized else {}
        return timm.create_model(name, pretrained=False, **given)

    return ZooNetwork(kind, make, size)


def of_ours(kind: str, network: Callable[[], Any], size: int, **given: int) -> ZooNetwork:
    return ZooNetwork(kind, lambda _: network(), size, **given)


# By name; those of our own last.
NETWORKS = {
    "resnet18": of_torchvision("plain", "resnet18"),
    "resnet50": of_torchvision("plain", "resnet50"),
    "mobilenet_v2": of_torchvision("plain", "mobilenet_v2"),
    "repvgg_a0": of_timm("plain", "repvgg_a0"),
    "efficientnet_b0": of_timm("squeeze-excite", "efficientnet_b0"),
    "mobilenet_v3_large": of_torchvision("squeeze-excite", "mobilenet_v3_large"),
    "regnet_y_800mf": of_torchvision("squeeze-excite", "regnet_y_800mf"),
    "ghostnet_100": of_timm("squeeze-excite", "ghostnet_100"),
    "shufflenet_v2_x1_0": of_torchvision("channel shuffle", "shufflenet_v2_x1_0"),
    "densenet121": of_torchvision("dense concatenation", "densenet121"),
    "googlenet": of_torchvision("dense concatenation", "googlenet", init_weights=False, aux_logits=False),
    "inception_v3": of_torchvision("dense concatenation", "inception_v3", 299, init_weights=False, aux_logits=False),
    "mobilevit_s": of_timm("hybrid with attention", "mobilevit_s", 256),
    "edgenext_small": of_timm("hybrid with attention", "edgenext_small", 256),
    "convnext_tiny": of_timm("LayerNorm", "convnext_tiny"),
    "poolformer_s12": of_timm("LayerNorm", "poolformer_s12"),
    "deit_tiny": of_timm("attention", "deit_tiny_patch16_224", sized=True),
    "swin_tiny": of_timm("attention", "swin_tiny_patch4_window7_224", sized=True),
    "levit_128s": of_timm("attention", "levit_128s"),
    "pvt_v2_b0": of_timm("attention", "pvt_v2_b0"),
    "efficientvit_b0": of_timm("hybrid with attention", "efficientvit_b0"),
    "fastvit_t8": of_timm("hybrid with attention", "fastvit_t8", 256),
    "starnet_s1": of_timm("products of branches", "starnet_s1"),
    "res2net50_26w_4s": of_timm("parts of channels", "res2net50_26w_4s"),
    "mixnet_s": of_timm("parts of channels", "mixnet_s"),
    "resnest14d": of_timm("parts of channels", "resnest14d"),
    "lraspp_mobilenet_v3_large": segmenting("lraspp_mobilenet_v3_large", 520),
    "deeplabv3_mobilenet_v3_large": segmenting("deeplabv3_mobilenet_v3_large", 520),
    "r3d_18": of_videos("r3d_18"),
    "r2plus1d_18": of_videos("r2plus1d_18"),
    "unet": of_ours("segmentation", UNet, 256),
    "volume_unet": of_ours("volumes", VolumeUNet, 64, channels=1, frames=64),
    "detector": of_ours("detection", Detector, 640),
    "pyramid": of_ours("detection", Pyramid, 512),
    "super_resolution": of_ours("super-resolution", SuperResolution, 180),
    "image_decoder": of_ours("generative", ImageDecoder, 256, channels=ImageDecoder.LATENT, reduction=8),
}


@cache
def brought(name: str) -> ZooNetwork:
    """Return a network of the zoo, or `timm.NAME`: any that timm makes, for images of its own size."""
    library, _, its_name = name.partition(".")
    if library != "timm":
        return NETWORKS[name]
    import timm

    found = timm.get_pretrained_cfg(its_name)
    if found is None:
        raise ValueError(f"timm has no network {its_name!r}")
    return of_timm("timm", its_name, found.input_size[-1])
