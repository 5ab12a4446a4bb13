# Makes the pictures of this folder, and sums.txt: name, width, height and the first half of the SHA-256 of the pixels that Pillow decodes them to.
# Run here with Pillow 13 and NumPy: python make.py
import hashlib
import glob
import io

import numpy
from PIL import Image

WIDTH, HEIGHT = 19, 13
random = numpy.random.RandomState(7)
lines = []


def picture(channels=3):
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    a = numpy.stack([(x * 9 + y * 5 * k + 40 * k) % 256 for k in range(1, channels + 1)], -1) + random.randn(HEIGHT, WIDTH, channels) * 12
    a[HEIGHT // 3:HEIGHT // 2 + 1, WIDTH // 4:WIDTH // 2 + 1] = random.randint(0, 256, channels)
    return numpy.clip(a, 0, 255).astype("u1")


def put(name, data):
    image = Image.open(io.BytesIO(data))
    if image.mode == "I;16":
        # Pillow cuts these off at 255; the pixels of colors it rounds to 8 bits, and so do we.
        rgb = numpy.repeat(numpy.minimum((numpy.array(image).astype(int) + 128) >> 8, 255).astype("u1")[..., None], 3, -1)
    else:
        rgb = numpy.array(image.convert("RGB"))
    open(name, "wb").write(data)
    lines.append(f"{name} {image.width} {image.height} {hashlib.sha256(rgb.tobytes()).hexdigest()[:32]}\n")


def save(name, image, **settings):
    file = io.BytesIO()
    image.save(file, **settings)
    put(name, file.getvalue())


rgb, rgba = Image.fromarray(picture()), Image.fromarray(picture(4))
gray, bits, palette = rgb.convert("L"), rgb.convert("1"), rgb.quantize(11)
for sampling in 0, 1, 2:
    for progressive in False, True:
        save(f"jpeg-s{sampling}-{'progressive' if progressive else 'sequential'}.jpg", rgb, format="JPEG", subsampling=sampling, progressive=progressive)
save("jpeg-gray.jpg", gray, format="JPEG")
save("jpeg-gray-progressive.jpg", gray, format="JPEG", progressive=True)
save("jpeg-restart.jpg", rgb, format="JPEG", restart_marker_blocks=2)
save("jpeg-restart-progressive.jpg", rgb, format="JPEG", restart_marker_blocks=1, progressive=True)
save("jpeg-optimize.jpg", rgb, format="JPEG", optimize=True, quality=100)
save("jpeg-cmyk.jpg", rgb.convert("CMYK"), format="JPEG")
save("jpeg-rgb.jpg", rgb, format="JPEG", keep_rgb=True)
for name, image in ("rgb", rgb), ("palette", palette), ("bits", bits), ("gray", gray), ("rgba", rgba):
    save(f"png-{name}.png", image, format="PNG")
    save(f"bmp-{name}.bmp", image, format="BMP")
for compression in "raw", "tiff_lzw", "tiff_adobe_deflate", "packbits":
    save(f"tiff-{compression}.tiff", rgb, format="TIFF", compression=compression)
for name, image in ("gray", gray), ("bits", bits), ("palette", palette):
    save(f"tiff-{name}.tiff", image, format="TIFF")
save("tiff-group4.tiff", bits, format="TIFF", compression="group4")
save("webp-lossy.webp", rgb, format="WEBP")
save("webp-lossless.webp", rgb, format="WEBP", lossless=True)
save("webp-rgba.webp", rgba, format="WEBP")
save("webp-rgba-lossless.webp", rgba, format="WEBP", lossless=True)
save("pnm-p6.ppm", rgb, format="PPM")
save("pnm-p5.pgm", gray, format="PPM")
save("pnm-p4.pbm", bits, format="PPM")
a = numpy.array(rgb)
put("pnm-p3.ppm", (f"P3 # text\n{WIDTH} {HEIGHT}\n255\n" + " ".join(map(str, a.ravel()))).encode())
put("pnm-p2.pgm", (f"P2\n{WIDTH} {HEIGHT}\n99\n" + " ".join(map(str, a[..., 0].ravel() % 100))).encode())
put("pnm-p1.pbm", (f"P1\n{WIDTH} {HEIGHT}\n" + "".join(map(str, a[..., 0].ravel() % 2))).encode())
put("pnm-p6-16.ppm", f"P6\n{WIDTH} {HEIGHT}\n1000\n".encode() + (a.astype("u2") * 3 % 1001).astype(">u2").tobytes())
for irreversible in False, True:
    for mixed in 0, 1:
        save(f"jp2-{'97' if irreversible else '53'}-{'mixed' if mixed else 'plain'}.jp2", rgb, format="JPEG2000", irreversible=irreversible, mct=mixed, num_resolutions=3)
for order in "LRCP", "RLCP", "RPCL", "PCRL", "CPRL":
    save(f"jp2-{order.lower()}.jp2", rgb, format="JPEG2000", progression=order, num_resolutions=3, precinct_size=(16, 16), codeblock_size=(8, 8), tile_size=(17, 11))
save("jp2-gray.jp2", gray, format="JPEG2000", num_resolutions=2)
save("jp2-rgba.jp2", rgba, format="JPEG2000", num_resolutions=1)
save("jp2-offset.jp2", rgb, format="JPEG2000", num_resolutions=2, tile_size=(10, 9), offset=(7, 5), tile_offset=(3, 2))
save("jp2-layers.jp2", rgb, format="JPEG2000", quality_mode="rates", quality_layers=[20, 10, 5], irreversible=True, num_resolutions=2)
save("jp2-bare.j2k", rgb, format="JPEG2000", quality_mode="dB", quality_layers=[30, 40], num_resolutions=2, no_jp2=True)
save("jp2-16.jp2", Image.fromarray(picture(1)[..., 0].astype("u2") * 257), format="JPEG2000", num_resolutions=2)
# Pillow does not offer what these use; OpenJPEG's own encoder made them.
for name in sorted(glob.glob("openjpeg-*.jp2")):
    put(name, open(name, "rb").read())
open("sums.txt", "w").writelines(lines)
