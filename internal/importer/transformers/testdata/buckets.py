"""Prints the rows of TestBuckets, in a Python with PyTorch and transformers 5.23.0."""

import zlib

import torch
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.t5.modeling_t5 import T5Attention

distances = torch.arange(-1100, 1101)
for buckets, most in [(32, 128), (32, 256), (64, 128), (16, 40), (8, 64), (10, 33), (256, 512), (256, 1024), (512, 512), (128, 512), (320, 800)]:
    t5 = T5Attention._relative_position_bucket(distances, True, buckets, most)
    deberta = torch.clamp(make_log_bucket_position(distances, buckets, most).long() + buckets, 0, 2 * buckets - 1)
    sums = (zlib.crc32("".join(f"{x} " for x in v.tolist()).encode()) for v in (t5, deberta))
    print(f"\t\t{{{buckets}, {most}, " + ", ".join(f"{x:#010x}" for x in sums) + "},")
