"""Prints the largest error of FOLDER's expected outputs y0.npy … against those that `weir run` wrote into OUT, in their order, relative to the largest output.

Usage: distance.py FOLDER OUT
"""
import json
import pathlib
import sys

import numpy as np

from engine import arrays, error

folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
files = json.loads((out / "outputs.json").read_text()).values()
print(error([np.load(out / f) for f in files], arrays(folder, "y")))
