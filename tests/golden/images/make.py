"""Writes images beside it, and as .npy the pixels (C, H, W) that are in them.

    python tests/golden/images/make.py        (needs Pillow and NumPy)
"""
import os
import struct
import zlib

import numpy as np
import PIL
from PIL import Image

here = os.path.dirname(os.path.abspath(__file__))
H, W = 9, 13
y, x = np.mgrid[0:H, 0:W]
red, green, blue = x * 19 % 256, y * 28 % 256, (x + y) * 11 % 256
rgb = np.stack([red, green, blue], 2).astype(np.uint8)
grey = ((x * 7 + y * 13) % 256).astype(np.uint8)
alpha = (x * y * 2 % 256).astype(np.uint8)


def path(name):
    return os.path.join(here, name)


def pixels(name, array):
    np.save(path(name + ".npy"), np.ascontiguousarray(array if array.ndim == 3 else array[None]))


def planes(array):
    return array.transpose(2, 0, 1)


def png(name, array, mode, expected, **options):
    Image.fromarray(array, mode).save(path(name + ".png"), **options)
    pixels(name, expected)


png("rgb", rgb, "RGB", planes(rgb))
png("grey", grey, "L", grey)
rgba = np.dstack([rgb, alpha])
png("rgba", rgba, "RGBA", planes(rgba))
la = np.dstack([grey, alpha])
png("grey_alpha", la, "LA", planes(la))
bits = grey > 100
Image.fromarray(grey).point(lambda v: 255 if v > 100 else 0).convert("1").save(path("bits.png"))
pixels("bits", (bits * 255).astype(np.uint8))
few = Image.fromarray(rgb).quantize(11)
few.save(path("palette.png"))
pixels("palette", planes(np.asarray(few.convert("RGB"))))
few.save(path("palette_alpha.png"), transparency=bytes(range(0, 220, 20)))
index = np.asarray(few)
pixels("palette_alpha", np.concatenate([planes(np.asarray(few.convert("RGB"))), (index * 20).astype(np.uint8)[None]]))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def raw(name, colour, samples, rows, depth=16, interlace=0, head=b""):
    header = struct.pack(">IIBBBBB", W, H, depth, colour, 0, 0, interlace)
    with open(path(name + ".png"), "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    pixels(name, samples)


def scaled(values):
    return ((values.astype(np.int64) * 255 + 32767) // 65535).astype(np.uint8)


wide = (x * 4999 + y * 301).astype(">u2")
raw("grey16", 0, scaled(wide), b"".join(b"\0" + row.tobytes() for row in wide))
wide3 = np.stack([wide, x * 17 + y * 7001, 65535 - x * 3000], 2).astype(">u2")
raw("rgb16", 2, planes(scaled(wide3)), b"".join(b"\0" + row.tobytes() for row in wide3))
# One colour is transparent.
mark = np.where((rgb == rgb[2, 3]).all(2), 0, 255).astype(np.uint8)
raw("rgb_mark", 2, np.concatenate([planes(rgb), mark[None]]), b"".join(b"\0" + row.tobytes() for row in rgb), depth=8,
    head=chunk(b"tRNS", struct.pack(">HHH", *(int(v) for v in rgb[2, 3]))))
# Adam7: seven passes.
passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
rows = b"".join(b"\0" + row.tobytes() for px, py, dx, dy in passes for row in rgb[py::dy, px::dx] if row.size)
raw("interlaced", 2, planes(rgb), rows, depth=8, interlace=1)


def jpeg(name, image, convert=None, **options):
    image.save(path(name + ".jpg"), quality=90, **options)
    back = Image.open(path(name + ".jpg"))
    array = np.asarray(back.convert(convert) if convert else back)
    pixels(name, planes(array) if array.ndim == 3 else array)


colour = Image.fromarray(rgb)
jpeg("jpeg", colour, subsampling=0)
jpeg("jpeg_420", colour, subsampling=2)
jpeg("jpeg_progressive", colour, progressive=True)
jpeg("jpeg_grey", Image.fromarray(grey))
jpeg("jpeg_cmyk", colour.convert("CMYK"), convert="RGB")

with open(path("made_with.txt"), "w") as file:
    file.write("Pillow %s, NumPy %s\n" % (PIL.__version__, np.__version__))
