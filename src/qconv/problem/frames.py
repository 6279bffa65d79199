"""How the images of a convolution are made of the frames of volumes: a filter with three axes is one of images whose
channels are several frames."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from qconv.op import checked_size

# Places of frames are products of two of these numbers: int32 holds them.
LARGEST_FRAME = 2**15 - 1


class Frames(NamedTuple):
    """The frames of a volume that are the channels of its images: those of the first tap come first.

    Image `i` of a volume has, for tap `t`, frame `i * stride + t * dilation - before`. Frames that the volume does not
    have are padding."""

    images: int  # of a volume
    depth: int  # frames of a volume
    taps: int  # frames of an image
    stride: int
    dilation: int
    before: int  # frames of padding in front

    @classmethod
    def checked(cls, given: object) -> Frames:
        if not isinstance(given, (tuple, list)) or len(given) != len(cls._fields):
            raise ValueError(f"frames={given!r} must be {len(cls._fields)} integers: {', '.join(cls._fields)}")
        named = zip(cls._fields, given, strict=True)
        return cls(
            *(checked_size(f"frames.{name}", size, int(name != "before"), LARGEST_FRAME) for name, size in named)
        )

    def frame(self, image: int, tap: int) -> int | None:
        """Return the frame of an image's tap, or None for padding."""
        at = image * self.stride + tap * self.dilation - self.before
        return at if 0 <= at < self.depth else None

    @property
    def span(self) -> int:
        """Return the frames from an image's first tap to its last."""
        return (self.taps - 1) * self.dilation

    @property
    def behind(self) -> int:
        """Return the frames of padding behind the volume."""
        return max((self.images - 1) * self.stride + self.span - self.before + 1 - self.depth, 0)

    @property
    def pads(self) -> bool:
        """True where an image has a frame that the volume does not have."""
        return self.before > 0 or self.behind > 0

    @property
    def seen(self) -> int:
        """Return the frames of a volume that its images have."""
        return _seen(self)


@lru_cache(maxsize=256)
def _seen(frames: Frames) -> int:
    every = (frames.frame(image, tap) for image in range(frames.images) for tap in range(frames.taps))
    return len({frame for frame in every if frame is not None})
