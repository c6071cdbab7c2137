--- loading: how tensors from a file, or from elsewhere, get into a module: by name, all or nothing.
--
-- They come from a reader: its fields `path`, `entry` (by name: what is there, with `stored` and `shape`) and `names`, and its
-- methods target, hint and read are those of optlua.safetensors.
local optlua = require "optlua"
local blame = require "optlua.blame"
local members = require "optlua.nn.members"
local options = require "optlua.options"
local describe = require("optlua.shape").describe

local loading = {}

local saved = { parameter = true, buffer = true }

-- The entries of a file by the module's names.
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

-- The module's tensors, each once with all its names, in the order of definition.
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

-- What is wrong with an entry for a tensor, or nil.
local function mismatch(reader, entry, tensor, dtype)
  local target = reader:target(entry, dtype)
  local got = describe(target or entry.stored, entry.shape)
  if got == describe(tensor.dtype, tensor.shape) then return nil end
  local hint = target and "" or "; " .. reader:hint(entry)
  if target and target ~= tensor.dtype then hint = ('; dtype = "%s" converts'):format(tensor.dtype) end
  return ("%s expected, got %s%s"):format(describe(tensor.dtype, tensor.shape), got, hint)
end

-- Finds the entry of a slot among those of its names; notes what is wrong.
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

-- What is wrong, in words, or nil.
local function report(self, path, problems, strict)
  local lines = {}
  for _, kind in ipairs(strict and { "missing", "unexpected" } or {}) do
    if #problems[kind] > 0 then lines[#lines + 1] = ("  %s: %s"):format(kind, table.concat(problems[kind], ", ")) end
  end
  for _, line in ipairs(problems.differing) do lines[#lines + 1] = "  differing: " .. line end
  if #lines == 0 then return nil end
  return ("%s: %s does not fit; nothing was loaded\n%s"):format(self:type(), path, table.concat(lines, "\n"))
end

local function copy_all(slots)
  optlua.no_grad(function()
    for _, slot in ipairs(slots) do
      if slot.value then slot.tensor:copy_(slot.value) end
    end
  end)
end

--- Reads what a module needs and changes nothing: what is wrong, in words, by kind, and a function that loads it, to be called
--- when nothing is wrong.
---@param self nn.Module
---@param reader table
---@param opts { rename?: function|table, strict?: boolean, dtype?: optlua.dtype|table }
---@return string? problem
---@return { missing: string[], unexpected: string[], differing: string[] } found
---@return fun() commit
function loading.prepare(self, reader, opts)
  local entries, slots = renamed(reader, opts.rename), slots_of(self)
  local found = { missing = {}, differing = {} }
  for _, slot in ipairs(slots) do fill(reader, slot, entries, opts.dtype, found) end
  found.unexpected = options.names(entries) -- those that no slot took
  local problem = report(self, reader.path, found, opts.strict)
  for _, slot in ipairs(problem and {} or slots) do -- all is read before anything is changed
    slot.value = slot.entry and reader:read(slot.entry, opts.dtype)
  end
  return problem, found, function() copy_all(slots) end
end

return loading
