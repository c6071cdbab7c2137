--- file: a module's parameters and buffers in safetensors files.
local optlua = require "optlua"
local options = require "optlua.options"
local blame = require "optlua.blame"
local members = require "optlua.nn.members"
local safetensors = require "optlua.safetensors"
local describe = require("optlua.shape").describe

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

-- Loading -------------------------------------------------------------------------------------------------

--- The entries of a file by the module's names.
local function renamed(reader, rename)
  local entries, from = {}, {}
  for name in pairs(type(rename) == "table" and rename or {}) do
    if not reader.entry[name] then blame(("load: rename: %s has no tensor %q"):format(reader.path, tostring(name))) end
  end
  for _, name in ipairs(reader.names) do
    local new
    if type(rename) == "table" then new = rename[name] elseif rename then new = rename(name) end
    if new == nil then new = name end
    if new and type(new) ~= "string" then
      blame(("load: rename: a name or false expected for %q, got %s"):format(name, type(new)))
    end
    if new and entries[new] then
      blame(("load: rename: %q and %q both become %q"):format(from[new], name, new))
    end
    if new then entries[new], from[new] = reader.entry[name], name end
  end
  return entries
end

--- The module's tensors, each once with all its names, in the order of definition.
local function slots_of(self)
  local slots, by_tensor = {}, {}
  for name, tensor in members.each(members.tensors(self, saved, true)) do
    local slot = by_tensor[tensor]
    if not slot then
      slot = { tensor = tensor, names = {} }
      by_tensor[tensor], slots[#slots + 1] = slot, slot
    end
    table.insert(slot.names, name)
  end
  return slots
end

--- What is wrong with an entry for a tensor, or nil.
local function mismatch(reader, entry, tensor, dtype)
  local target = reader:target(entry, dtype)
  local got = describe(target or entry.stored, entry.shape)
  if got == describe(tensor.dtype, tensor.shape) then return nil end
  local hint = target and "" or "; " .. reader:hint(entry)
  if target and target ~= tensor.dtype then hint = ('; dtype = "%s" converts'):format(tensor.dtype) end
  return ("%s expected, got %s%s"):format(describe(tensor.dtype, tensor.shape), got, hint)
end

--- Finds the entry of a slot among those of its names; notes what is wrong.
local function fill(reader, slot, entries, dtype, problems)
  for _, name in ipairs(slot.names) do
    local entry = entries[name]
    local wrong = entry and mismatch(reader, entry, slot.tensor, dtype)
    if wrong then
      table.insert(problems.differing, ("%s: %s"):format(name, wrong))
    elseif entry and not slot.entry then
      slot.entry, slot.from = entry, name
    elseif entry and entry ~= slot.entry and not reader:read(entry, dtype):equal(reader:read(slot.entry, dtype)) then
      table.insert(problems.differing, ("%s: is tied to %s, but differs from it in the file"):format(name, slot.from))
    end
    slot.seen = slot.seen or entry ~= nil
    entries[name] = nil
  end
  if not slot.seen then
    for _, name in ipairs(slot.names) do table.insert(problems.missing, name) end
  end
end

local function report(self, path, problems)
  local lines = { ("%s: %s does not fit; nothing was loaded"):format(self:type(), path) }
  for _, kind in ipairs { "missing", "unexpected" } do
    if #problems[kind] > 0 then lines[#lines + 1] = ("  %s: %s"):format(kind, table.concat(problems[kind], ", ")) end
  end
  for _, line in ipairs(problems.differing) do lines[#lines + 1] = "  differing: " .. line end
  return table.concat(lines, "\n")
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
  local entries, slots = renamed(reader, opts.rename), slots_of(self)
  local problems = { missing = {}, differing = {} }
  for _, slot in ipairs(slots) do fill(reader, slot, entries, opts.dtype, problems) end
  problems.unexpected = options.names(entries) -- those that no slot took
  if #problems.differing > 0 or (opts.strict and #problems.missing + #problems.unexpected > 0) then
    blame(report(self, path, problems))
  end
  for _, slot in ipairs(slots) do -- all is read before anything is changed
    slot.value = slot.entry and reader:read(slot.entry, opts.dtype)
  end
  optlua.no_grad(function()
    for _, slot in ipairs(slots) do
      if slot.value then slot.tensor:copy_(slot.value) end
    end
  end)
  return { missing = problems.missing, unexpected = problems.unexpected }, reader.metadata
end

return methods
