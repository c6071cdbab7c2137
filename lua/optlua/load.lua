--- load: reads named tensors from a file.
local options = require "optlua.options"
local blame = require "optlua.blame"
local safetensors = require "optlua.safetensors"

--- The names that are wanted; all problems with them in one error.
local function wanted(reader, names, dtype)
  local problems = {}
  for _, name in ipairs(names or reader.names) do
    local entry = reader.entry[name]
    if not entry then
      local near = options.nearest(tostring(name), reader.names)
      problems[#problems + 1] = ("no tensor is named %q%s"):format(tostring(name),
        near and (" (did you mean %q?)"):format(near) or "")
    elseif not reader:target(entry, dtype) then
      problems[#problems + 1] = ("%s: %s"):format(name, reader:hint(entry))
    end
  end
  if #problems > 0 then blame(("%s: %s"):format(reader.path, table.concat(problems, "\n  "))) end
  return names or reader.names
end

--- Reads the tensors of a safetensors file by name, and its metadata. float32, float64, bfloat16, int64
--- and uint8 come as they are, booleans as uint8. Other types (F16, the F8 kinds, I32 …) raise unless
--- they are converted: with `dtype` a float, all floats and the integers of types that tensors do not
--- have become it; with "int64", those integers; a table says it for each type:
--- `dtype = { F16 = "float32", I32 = "int64" }`. Every part of the file is checked first. PyTorch's
--- pickles (.pt, .pth, .bin) are refused with the command that converts them.
---@param path string
---@param opts? { dtype?: optlua.dtype|table<string, optlua.dtype>, names?: string[] } names: only these
---@return table<string, optlua.Tensor> tensors tied ones are one tensor under several names
---@return table<string, string> metadata
local function load(path, opts)
  opts = options.check("optlua.load", opts, {
    dtype = { required = false, type = "string|table" }, names = { required = false, type = "list" },
  })
  safetensors.check_dtype("optlua.load", opts.dtype)
  local reader <close> = safetensors.open(path)
  local tensors = {}
  for _, name in ipairs(wanted(reader, opts.names, opts.dtype)) do
    tensors[name] = reader:read(reader.entry[name], opts.dtype)
  end
  return tensors, reader.metadata
end

return load
