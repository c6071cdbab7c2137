--- safetensors: files of named tensors, as optlua.save, optlua.load, module:save and module:load share
-- them.
--
-- Tensors that are tied are in a file once; its metadata gives the other names, as
-- `safetensors.torch.save_model` does: key = another name, value = the name in the file.
local core = require "optlua.core"
local options = require "optlua.options"
local blame = require "optlua.blame"

local hidden = core.hidden

local safetensors = {}

-- Reading -----------------------------------------------------------------------------------------------

---@class optlua.safetensors.Entry
---@field name string in the file
---@field stored string the type in the file: "F32", "F16", "BOOL" …
---@field dtype optlua.dtype|nil what it is as a tensor; nil: it must be converted
---@field shape integer[]

---@class optlua.safetensors.Reader
---@field path string
---@field entry table<string, optlua.safetensors.Entry> by each name, aliases too
---@field names string[] the keys of entry, sorted
---@field metadata table<string, string> without aliases
local Reader = {}
Reader.__index = Reader

function Reader:__close() hidden.safetensors_close(self.file) end

--- Opens a file and checks its header; to be closed: `local reader <close> = safetensors.open(path)`.
---@param path string
---@return optlua.safetensors.Reader
function safetensors.open(path)
  local file = hidden.safetensors_open(path)
  local entries, metadata = hidden.safetensors_list(file)
  local self = setmetatable({ path = path, file = file, entry = {}, metadata = metadata, done = {} }, Reader)
  for at, entry in ipairs(entries) do
    entry.at = at
    self.entry[entry.name] = entry
  end
  local aliases = {}
  for key, value in pairs(metadata) do
    if self.entry[value] and not self.entry[key] then aliases[key] = self.entry[value] end
  end
  for name, entry in pairs(aliases) do
    self.entry[name], metadata[name] = entry, nil
  end
  self.names = options.names(self.entry)
  return self
end

local dtypes = require("optlua.shape").element_bytes

local function check_dtype(what, dtype)
  if not dtypes[dtype] then blame(options.unknown("dtype", dtype, options.names(dtypes)):gsub("^", what .. ": ")) end
end

--- Checks the option `dtype` of loading.
---@param what string begins messages
---@param dtype optlua.dtype|table<string, optlua.dtype>|nil
function safetensors.check_dtype(what, dtype)
  if type(dtype) ~= "table" then
    if dtype ~= nil then check_dtype(what, dtype) end
    return
  end
  for stored, wanted in pairs(dtype) do
    check_dtype(what, wanted)
    local converts = type(stored) == "string" and hidden.safetensors_converts(stored, wanted)
    if converts == false then blame(("%s: %s cannot become %s"):format(what, stored, wanted)) end
    if not converts then blame(("%s: dtype: files have no type %q"):format(what, tostring(stored))) end
  end
end

--- What an entry becomes: a float the dtype that was asked for if that is a float, an integer of a type
--- that tensors do not have likewise or int64; a table says it for each type in files. nil: it must be
--- converted, and that was not asked for.
---@param entry optlua.safetensors.Entry
---@param dtype optlua.dtype|table<string, optlua.dtype>|nil
---@return optlua.dtype|nil
function Reader.target(_, entry, dtype)
  if type(dtype) == "table" then return dtype[entry.stored] or entry.dtype end
  local wanted = dtype and (not entry.dtype or entry.dtype:find "float")
    and hidden.safetensors_converts(entry.stored, dtype)
  return wanted and dtype or entry.dtype
end

--- Why an entry that has no target cannot be loaded.
---@param entry optlua.safetensors.Entry
---@return string
function Reader.hint(_, entry)
  if not hidden.safetensors_converts(entry.stored, "float32") then return entry.stored .. " cannot be converted" end
  return entry.stored .. ' must be converted: dtype = "float32"'
end

--- Reads an entry as its target; once, so that aliases give the same tensor.
---@param entry optlua.safetensors.Entry
---@param dtype optlua.dtype|table<string, optlua.dtype>|nil
---@return optlua.Tensor
function Reader:read(entry, dtype)
  if not self.done[entry] then
    self.done[entry] = hidden.safetensors_read(self.file, entry.at, self:target(entry, dtype))
  end
  return self.done[entry]
end

--- What is in a file, without reading it: each tensor's name, type and shape, in the order of their
--- places; then the metadata.
---@param path string
---@return { name: string, stored: string, dtype: optlua.dtype|nil, shape: integer[] }[]
---@return table<string, string>
function safetensors.list(path)
  local file = hidden.safetensors_open(path)
  local entries, metadata = hidden.safetensors_list(file)
  hidden.safetensors_close(file)
  return entries, metadata
end

-- Writing -----------------------------------------------------------------------------------------------

--- Writes a list of tensors under a list of names; tied ones once, under the first.
---@param what string begins messages
---@param path string
---@param names string[]
---@param tensors optlua.Tensor[]
---@param metadata table<string, string>|nil
function safetensors.write(what, path, names, tensors, metadata)
  local is_name, keys, values = {}, {}, {}
  for _, name in ipairs(names) do is_name[name] = true end
  for key, value in pairs(options.argument(what, "metadata", metadata or {}, { required = true, type = "table" })) do
    if type(key) ~= "string" or type(value) ~= "string" then
      blame(("%s: metadata: strings by name expected, got %s = %s"):format(what, tostring(key), tostring(value)))
    end
    if is_name[value] then
      blame(("%s: metadata %q: its value is the name of a tensor, of which it would be read as another name"):format(what, key))
    end
    keys[#keys + 1], values[#keys + 1] = key, value
  end
  hidden.safetensors_write(path, names, tensors, keys, values)
end

return safetensors
