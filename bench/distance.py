"""Prints the largest error of FOLDER's expected outputs y*.npy against those of the same names in OUT, relative to the largest output.

Usage: distance.py FOLDER OUT
"""
import pathlib
import sys

import numpy as np

from engine import error

folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
files = sorted(folder.glob("y*.npy"))
print(error([np.load(out / f.name) for f in files], [np.load(f) for f in files]))
