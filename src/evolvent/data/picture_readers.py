"""How one JPEG or PNG file becomes an array of bytes of a wanted size: stretched to it, or cut from its centre."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evolvent._core.errors import DataError, ModelFileError
from evolvent.data.formats.arrays import parsing

SUFFIXES = (".jpg", ".jpeg", ".png")
_MARGIN = 1 / 16  # left out on each side of the largest centred square
MODES = {1: "L", 3: "RGB"}
_GREY, _DEEP = ("1", "L", "LA"), ("I", "F")
_MOST_BITS = 8
_PNG, _BIT_DEPTH = b"\x89PNG", 24  # how a PNG begins, and where it has its number of bits
_STRETCH = {2: 85, 4: 17}  # by which Pillow multiplies grey levels of so many bits
_ORIENTATION, _FIRST_TURNED = 0x0112, 5  # the EXIF tag, and the first of its values that swap height and width


class PictureForm(NamedTuple):
    """Channels, height and width of the image in a file, as it is seen."""

    channels: int
    height: int
    width: int


@dataclass(frozen=True)
class Stretched:
    """Reads an image as grey or RGB and resizes it, with antialiasing, unless it has the wanted size already.

    Photographs are turned as their EXIF data say; transparency is dropped.
    """

    channels: int
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.height, self.width

    def decode(self, path: Path) -> np.ndarray:
        """The pixels of a file, uint8 (channels, height, width)."""
        from PIL import Image, ImageOps

        if self.channels not in MODES:
            raise DataError(f"images of {self.channels} channels are not read from files such as {path}; give arrays.")
        with opened(path) as image:
            upright = ImageOps.exif_transpose(image).convert(MODES[self.channels])
            if upright.size != (self.width, self.height):
                upright = upright.resize((self.width, self.height), Image.Resampling.BILINEAR)
            pixels = np.array(upright)
        return pixels[None] if self.channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def reduced(self, factor: int) -> Stretched:
        """The same for images whose sides are so many times shorter."""
        return replace(self, height=self.height // factor, width=self.width // factor)

    def describe(self) -> dict[str, Any]:
        """What :func:`picture_reader` makes the same reader of."""
        return {"kind": "stretched", "shape": list(self.shape)}


@dataclass(frozen=True)
class CentredSquare:
    """Reads an image as RGB, cut to its largest centred square without a sixteenth on each side, then resized.

    For 224 pixels this is the usual reduction to 256 and central crop.
    """

    side: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return 3, self.side, self.side

    def decode(self, path: Path) -> np.ndarray:
        """The pixels of a file, uint8 (3, side, side)."""
        from PIL import Image, ImageOps

        needed = round(self.side / (1 - 2 * _MARGIN))
        with opened(path) as image:
            image.draft("RGB", (needed, needed))  # lets a JPEG be decoded at a lower resolution that is enough
            square = (self.side, self.side)
            fitted = ImageOps.fit(image.convert("RGB"), square, Image.Resampling.BILINEAR, bleed=_MARGIN)
            return np.ascontiguousarray(np.asarray(fitted).transpose(2, 0, 1))

    def reduced(self, factor: int) -> CentredSquare:
        """The same for images whose sides are so many times shorter."""
        return CentredSquare(self.side // factor)

    def describe(self) -> dict[str, Any]:
        """What :func:`picture_reader` makes the same reader of."""
        return {"kind": "centred", "shape": list(self.shape)}


PictureReader = Stretched | CentredSquare


def picture_reader(description: Any) -> PictureReader:
    """The reader that described itself so.

    >>> picture_reader(Stretched(1, 40, 56).describe())
    Stretched(channels=1, height=40, width=56)
    """
    match description:
        case {"kind": "stretched", "shape": [int(channels), int(height), int(width)]}:
            return Stretched(channels, height, width)
        case {"kind": "centred", "shape": [3, int(side), int()]}:
            return CentredSquare(side)
    raise ModelFileError(f"{description!r} does not say how images are read. Train the network again.")


def picture_form(path: Path) -> PictureForm:
    """What the header of an image file says: nothing is decoded.

    Raises:
        DataError: if the file is neither JPEG nor PNG, or has more than 8 bits a channel.
    """
    with opened(path) as image:
        width, height = image.size
        turned = image.getexif().get(_ORIENTATION, 1) >= _FIRST_TURNED
        channels = picture_channels(image, path)
    height, width = (width, height) if turned else (height, width)
    return PictureForm(channels, height, width)


def picture_channels(image: Any, what: object) -> int:
    """1 of a grey Pillow image, else 3; deeper ones are refused, since Pillow would clip their values."""
    if image.mode.startswith(_DEEP):
        raise _too_deep(what)
    return 1 if image.mode in _GREY else 3


def read_mask(path: Path, height: int, width: int) -> np.ndarray:
    """The labels of a PNG, uint8 (height, width); resized, where needed, without mixing labels."""
    from PIL import Image

    with opened(path) as image:
        if image.mode not in ("1", "L", "P"):
            raise DataError(f"{path} is not a mask: it must be a grey or palette PNG of labels 0 ... 255, not colour.")
        labels = image.convert("L") if image.mode == "1" else image
        if labels.size != (width, height):
            labels = labels.resize((width, height), Image.Resampling.NEAREST)
        stretch = _STRETCH.get(_bits(path), 1) if image.mode == "L" else 1
        return np.array(labels, dtype=np.uint8) // stretch


def _bits(path: Path) -> int:
    """Bits a channel, which Pillow keeps for itself: a PNG has them in its header, a JPEG has 8."""
    with path.open("rb") as file:
        head = file.read(_BIT_DEPTH + 1)
    return head[_BIT_DEPTH] if head.startswith(_PNG) else _MOST_BITS


def _too_deep(what: object) -> DataError:
    return DataError(f"{what} has more than 8 bits a channel; convert it to 8-bit grey or RGB.")


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An image file, with its header read; whatever fails inside names the file and says what to do."""
    from PIL import Image

    try:
        with parsing(path), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's opinion of a file that can be read
            with Image.open(path, formats=("JPEG", "PNG")) as image:
                if _bits(path) > _MOST_BITS:
                    raise _too_deep(path)
                picture_channels(image, path)
                yield image
    except DataError as error:
        if "damaged or unreadable" not in str(error):
            raise
        raise DataError(f"{error} Replace the file by a JPEG or PNG, or take it away.") from error
