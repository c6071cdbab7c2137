--- npy: NumPy's files of one array.

local hidden = require "optlua.core".hidden

local npy = {}

--- Reads the array in a .npy file (versions 1.0 and 2.0). float32, float64, int64 and uint8 stay what
--- they are, booleans become uint8 and other integers int64; arrays in Fortran's order are transposed.
--- Raises for big-endian or structured data and for files that are malformed or too short.
---@type fun(path: string): optlua.Tensor
npy.load = hidden.npy_load

--- Writes a tensor to a .npy file, whole or not at all: until the new file is complete, an old one of
--- that name stays. bfloat16, which NumPy does not have, raises.
---@type fun(path: string, tensor: optlua.Tensor)
npy.save = hidden.npy_save

return npy
