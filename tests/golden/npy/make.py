"""Writes the .npy files beside it.

    python tests/golden/npy/make.py        (needs NumPy)
"""
import os

import numpy as np
from numpy.lib import format as npy

here = os.path.dirname(os.path.abspath(__file__))


def save(name, array, version=(1, 0)):
    with open(os.path.join(here, name + ".npy"), "wb") as file:
        npy.write_array(file, array, version=version)


grid = np.arange(6).reshape(2, 3)
save("f4", grid.astype("<f4") / 4)
save("f8", grid.astype("<f8") / 3)
save("i8", np.array([2**63 - 1, -(2**63), 0]))
save("u1", np.array([0, 255], dtype="u1"))
save("b1", np.array([[True], [False]]))
save("i1", np.array([-128, 127], dtype="i1"))
save("i2", np.array([-32768, 32767], dtype="<i2"))
save("i4", np.array([-(2**31), 2**31 - 1], dtype="<i4"))
save("u4", np.array([0, 2**32 - 1], dtype="<u4"))
save("scalar", np.array(2.5))
save("empty", np.zeros((0, 3), dtype="<f4"))
save("fortran", np.asfortranarray(np.arange(24, dtype="<f4").reshape(2, 3, 4)))
save("fortran_i2", np.asfortranarray(grid.astype("<i2")))
save("version2", grid.astype("<f4"), version=(2, 0))
save("version3", grid.astype("<f4"), version=(3, 0))
save("big_endian", grid.astype(">f4"))
save("complex", grid.astype("<c8"))
save("half", grid.astype("<f2"))
save("text", np.array(["a", "bc"]))
save("structured", np.zeros(2, dtype=[("x", "<f4"), ("y", "<i4")]))
save("nine", np.zeros((1,) * 9, dtype="<f4"))
with open(os.path.join(here, "made_with.txt"), "w") as file:
    file.write(f"NumPy {np.__version__}\n")
