"""Cases about pictures: samples between elements, regions, boxes, columns and grids."""
import numpy as np
from make_models import Case, case, ints, normal


@case
def grid_samples(rng):
    """GridSample in two dimensions with every mode and padding, and of volumes; the grids reach beyond the edges"""
    lines, outputs = [], []
    for mode in "bilinear", "nearest", "bicubic":
        for padding in "zeros", "border", "reflection":
            for align in 0, 1:
                name = f"{mode}_{padding}_{align}"
                kind = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
                lines.append(f'{name} = GridSample <mode = "{kind}", padding_mode = "{padding}", align_corners = {align}> (x, grid)')
                outputs.append(f"float[n,c,p,q] {name}")
    lines += ['v = GridSample <padding_mode = "border"> (volume, places)', 'w = GridSample <mode = "nearest", align_corners = 1> (volume, places)']
    return Case("g (float[n,c,h,w] x, float[n,p,q,2] grid, float[n,c,d,h,w] volume, float[n,p,q,d,3] places) => (\n  "
                + ", ".join(outputs) + ",\n  float[n,c,p,q,d] v, float[n,c,p,q,d] w) {\n  " + "\n  ".join(lines) + "\n}",
                data=[{"x": normal(rng, n, c, h, w), "grid": normal(rng, n, p, q, 2, scale=1.4), "volume": normal(rng, n, c, d, h, w),
                       "places": normal(rng, n, p, q, d, 3, scale=0.9)} for n, c, h, w, p, q, d in ((2, 3, 5, 6, 3, 2, 4), (1, 1, 2, 3, 1, 4, 2))])


@case
def regions(rng):
    """RoiAlign of both poolings, with a fixed number of samples and with as many as a bin needs; MaxRoiPool with bins that lie outside"""
    corner = rng.uniform(-1, 6, (6, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(0.5, 7, (6, 2))], 1).astype(np.float32)
    images = ints(rng, 0, 2, 6)
    pooled = np.concatenate([images[:, None], boxes], 1).astype(np.float32)
    return Case("""
g (float[n,c,h,w] x, float[r,4] boxes, int64[r] images, float[r,5] numbered)
  => (float[r,c,2,3] mean, float[r,c,2,3] most, float[r,c,1,1] plain, float[r,c,3,2] pool) {
  mean = RoiAlign <output_height = 2, output_width = 3, sampling_ratio = 2, spatial_scale = 0.5> (x, boxes, images)
  most = RoiAlign <mode = "max", output_height = 2, output_width = 3, coordinate_transformation_mode = "output_half_pixel"> (x, boxes, images)
  plain = RoiAlign (x, boxes, images)
  pool = MaxRoiPool <pooled_shape = [3, 2], spatial_scale = 0.75> (x, numbered)
}""", data=[{"x": normal(rng, 2, 3, 7, 8), "boxes": boxes, "images": images, "numbered": pooled}])


@case
def detections(rng):
    """NonMaxSuppression with a limit that the run gives (more than there are boxes, and none), and what a detector does behind it: gathers by its rows"""
    def boxes(n, b):
        first = rng.random((n, b, 2))
        return np.concatenate([first, first + rng.random((n, b, 2)) * 0.5], -1).astype(np.float32)
    return Case("""
g (float[n,b,4] boxes, float[n,c,b] scores, int64 limit) => (int64[k,3] rows, float[k,4] kept, float[k] kept_scores, int64[m,3] centered) {
  rows = NonMaxSuppression (boxes, scores, limit, overlap, threshold)
  image = Gather <axis = 1> (rows, first)  place = Gather <axis = 1> (rows, third)
  pair = Concat <axis = 1> (image, place)
  kept = GatherND (boxes, pair)  kept_scores = GatherND (scores, rows)
  centered = NonMaxSuppression <center_point_box = 1> (boxes, scores, limit, overlap)
}""", {"overlap": np.array([0.3], np.float32), "threshold": np.array([0.1], np.float32), "first": np.array([0]), "third": np.array([2])},
        [{"boxes": boxes(n, b), "scores": rng.random((n, c, b)).astype(np.float32), "limit": np.int64(limit)}
         for n, c, b, limit in ((2, 3, 20, 4), (1, 2, 7, 2**63 - 1), (1, 1, 3, 0))])


@case
def deformed(rng):
    """DeformConv with groups of channels and of offsets, strides, padding, a mask and a bias, and with none of them"""
    return Case("""
g (float[n,4,h,w] x, float[n,36,p,q] offset, float[n,18,p,q] mask, float[n,18,s,t] plain_offset) => (float[n,6,p,q] y, float[n,2,s,t] plain) {
  y = DeformConv <kernel_shape = [3, 3], group = 2, offset_group = 2, strides = [2, 1], pads = [1, 0, 1, 2], dilations = [1, 2]> (x, w, offset, bias, mask)
  plain = DeformConv <kernel_shape = [3, 3]> (x, v, plain_offset)
}""", {"w": normal(rng, 6, 2, 3, 3), "bias": normal(rng, 6), "v": normal(rng, 2, 4, 3, 3)},
        [{"x": normal(rng, n, 4, h, w), "offset": normal(rng, n, 36, (h - 1) // 2 + 1, w - 2, scale=0.7), "mask": normal(rng, n, 18, (h - 1) // 2 + 1, w - 2),
          "plain_offset": normal(rng, n, 18, h - 2, w - 2)} for n, h, w in ((2, 7, 6), (1, 3, 4))])


@case
def columns_and_grids(rng):
    """Col2Im with overlapping, dilated and padded blocks; AffineGrid into GridSample; Det of stacks of matrices"""
    return Case("""
g (float[n,12,28] x, float[n,2,3] maps, float[n,c,h,w] picture, float[a,b,4,4] matrices) => (float[n,2,8,9] y, float[n,c,4,5] moved, float[a,b] det) {
  y = Col2Im <pads = [1, 0, 0, 1], strides = [1, 2], dilations = [2, 1]> (x, shape, block)
  grid = AffineGrid <align_corners = 1> (maps, size)
  moved = GridSample <align_corners = 1> (picture, grid)
  det = Det (matrices)
}""", {"shape": np.array([8, 9]), "block": np.array([2, 3]), "size": np.array([2, 3, 4, 5])},
        [{"x": normal(rng, 2, 12, 28), "maps": normal(rng, 2, 2, 3, scale=0.6), "picture": normal(rng, 2, 3, 6, 5), "matrices": normal(rng, 2, 3, 4, 4)}])
