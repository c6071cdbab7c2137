--- file: a module's parameters and buffers in safetensors files.
local options = require "optlua.options"
local blame = require "optlua.blame"
local loading = require "optlua.nn.loading"
local members = require "optlua.nn.members"
local safetensors = require "optlua.safetensors"
local uninterrupted = require("optlua.core").hidden.uninterrupted

local methods = {} -- of modules

local saved = { parameter = true, buffer = true }

--- Writes all parameters and persistent buffers to a safetensors file, whole or not at all: until the
--- new file is complete, an old one of that name stays. A tied parameter is written once, under its
--- first name; the metadata has the others.
---@param path string
---@param metadata? table<string, string>
function methods:save(path, metadata)
  local names, tensors = {}, {}
  for name, tensor in members.each(members.tensors(self, saved, true)) do
    names[#names + 1], tensors[#names + 1] = name, tensor
  end
  safetensors.write("save", path, names, tensors, metadata)
end

--- Reads a safetensors file into the module's own parameters and buffers. What is missing in the file,
--- unexpected in it, or differs in shape or dtype is listed in one error, and then nothing is changed.
--- One name of a tied parameter is enough; when several are there they must agree. `rename` gives the
--- module's name for a name in the file: nil: the same, false: it is left out. With strict = false missing
--- and unexpected names are allowed. `dtype` converts as in optlua.load.
---
---     local optlua = require "optlua"
---     local model, path = optlua.nn.Linear(2, 1), os.tmpname()
---     optlua.save(path, { ["model.weight"] = optlua.ones(1, 2), ["model.bias"] = optlua.zeros(1) })
---     model:load(path, { rename = function(name) return (name:gsub("^model%.", "")) end })
---     print(model(optlua.ones(1, 2)):item()) --> 2.0
---     os.remove(path)
---@param path string
---@param opts? { rename?: function|table, strict?: boolean, dtype?: optlua.dtype|table }
---@return { missing: string[], unexpected: string[] } report
---@return table<string, string> metadata
function methods:load(path, opts)
  opts = options.check("load", opts, {
    rename = { required = false, type = "callable|table" }, strict = true,
    dtype = { required = false, type = "string|table" },
  })
  safetensors.check_dtype("load", opts.dtype)
  local reader <close> = safetensors.open(path)
  local problem, found, commit = loading.prepare(self, reader, opts)
  if problem then blame(problem) end
  uninterrupted(commit)
  return { missing = found.missing, unexpected = found.unexpected }, reader.metadata
end

return methods
