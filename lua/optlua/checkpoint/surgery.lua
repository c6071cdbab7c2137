--- surgery: changes what a checkpoint holds on its way into a model that is another one: names and tensors, of weights and of
--- the states of optimizers alike.
local optlua = require "optlua"
local blame = require "optlua.blame"
local match = require "optlua.optim.match"
local options = require "optlua.options"
local shape_text = require("optlua.shape").text

---@class optlua.checkpoint.Surgery
---@field weights table<string, optlua.Tensor> parameters and buffers by name
---@field state table<string, any> that of the optimizer, as its state_dict gives it; the others follow changes of names
---@field frozen string[] names of parameters that slept
---@field strict boolean with false names may be missing (weights stay, states begin anew) or unexpected
local Surgery = {}
Surgery.__index = Surgery

-- Keys of states: what stands before the name, the name, and the slot: "state.0.weight.exp_avg", "scale.0.weight.exp_avg" of codes;
-- several optimizers begin with a name of their own and a slash.
local patterns = { "^(state%.)(.+)%.([^.]+)$", "^(scale%.)(.+)%.([^.]+)$", "^([^/]*/state%.)(.+)%.([^.]+)$",
  "^([^/]*/scale%.)(.+)%.([^.]+)$" }

local function parse(key)
  for _, pattern in ipairs(patterns) do
    local prefix, name, slot = key:match(pattern)
    if prefix then return prefix, name, slot end
  end
end

-- The keys of states, by parameter: lists of { key, prefix, slot }.
local function keys_of(self)
  local found = {}
  for _, key in ipairs(options.names(self.state)) do
    local prefix, name, slot = parse(key)
    if name then
      found[name] = found[name] or {}
      table.insert(found[name], { key = key, prefix = prefix, slot = slot })
    end
  end
  return found
end

-- All names, sorted: of weights and of what has a state.
local function names_of(self)
  local all = {}
  for name in pairs(self.weights) do all[name] = true end
  for name in pairs(keys_of(self)) do all[name] = true end
  for _, name in ipairs(self.frozen) do all[name] = true end
  return options.names(all)
end

local function known(self, what, name)
  if type(name) ~= "string" then blame(("surgery: %s: names expected, got a %s"):format(what, type(name))) end
  local names = names_of(self)
  for _, one in ipairs(names) do
    if one == name then return name end
  end
  blame(("surgery: %s: %s"):format(what, options.unknown("name", name, names)))
end

local function blame_unmatched(self, what, glob)
  local globs = type(glob) == "table" and table.concat(glob, ", ") or glob
  blame(("surgery: %s: nothing is called %s; there are: %s"):format(what, globs, table.concat(names_of(self), ", ")))
end

-- What a name becomes: itself, another one, or false.
local function new_names(self, what, fn)
  local becomes, from = {}, {}
  for _, name in ipairs(names_of(self)) do
    local new = fn(name)
    if new == nil then new = name end
    if new and type(new) ~= "string" then blame(("surgery: %s: a name or false expected for %q, got a %s"):format(what, name, type(new))) end
    if new and from[new] then blame(("surgery: %s: %q and %q both become %q"):format(what, from[new], name, new)) end
    becomes[name] = new
    if new then from[new] = name end
  end
  return becomes
end

local function replace(list, others)
  for key in pairs(list) do list[key] = nil end
  for key, value in pairs(others) do list[key] = value end
end

local function apply(self, becomes)
  local weights, state, frozen = {}, {}, {}
  for name, tensor in pairs(self.weights) do
    if becomes[name] then weights[becomes[name]] = tensor end
  end
  for key, value in pairs(self.state) do
    local prefix, name, slot = parse(key)
    local new = not name and key or becomes[name] and ("%s%s.%s"):format(prefix, becomes[name], slot)
    if new then state[new] = value end
  end
  for _, name in ipairs(self.frozen) do frozen[#frozen + 1] = becomes[name] or nil end
  replace(self.weights, weights)
  replace(self.state, state)
  replace(self.frozen, frozen)
end

--- Gives other names: one, or those that a function gives for names (nil: the same, false: it is dropped).
---@param from string|fun(name: string): string|false|nil
---@param to? string
function Surgery:rename(from, to)
  if options.is_callable(from) then return apply(self, new_names(self, "rename", from)) end
  if type(from) ~= "string" or type(to) ~= "string" then blame "surgery: rename: two names, or a function of a name, expected" end
  known(self, "rename", from)
  apply(self, new_names(self, "rename", function(name) return name == from and to or name end))
end

--- Drops names that a glob matches, as groups do: "head.*".
---@param glob string|string[]
---@return integer count
function Surgery:drop(glob)
  local matches, problem = match.compile(glob)
  if problem then blame("surgery: drop: " .. problem) end
  local count = 0
  apply(self, new_names(self, "drop", function(name)
    if not matches(name) then return name end
    count = count + 1
    return false
  end))
  if count == 0 then blame_unmatched(self, "drop", glob) end
  return count
end

--- Drops the optimizer's states of parameters that a glob matches: they begin anew.
---@param glob string|string[]
function Surgery:forget(glob)
  local matches, problem = match.compile(glob)
  if problem then blame("surgery: forget: " .. problem) end
  local found = false
  for name, keys in pairs(keys_of(self)) do
    for _, key in ipairs(matches(name) and keys or {}) do
      found, self.state[key.key] = true, nil
      if key.slot == "step" then self.state[key.key] = 0 end
    end
  end
  if not found then blame_unmatched(self, "forget", glob) end
end

-- The tensors of a parameter: its weight, and the states that are shaped like it, each as { tensor =, put = function(name, value) };
-- then what is copied, not cut. A state of another shape cannot be cut.
local function tensors_of(self, what, name)
  local weight, tensors, copied = self.weights[name], {}, {}
  local shape = weight and shape_text(weight)
  if weight then tensors[""] = { tensor = weight, put = function(new, value) self.weights[new] = value end } end
  for _, key in ipairs(keys_of(self)[name] or {}) do
    local value, prefix, slot = self.state[key.key], key.prefix, key.slot
    local function put(new, item) self.state[("%s%s.%s"):format(prefix, new, slot)] = item end
    if not optlua.is_tensor(value) then
      copied[prefix .. slot] = { value = value, put = put }
    else
      shape = shape or shape_text(value)
      if shape_text(value) ~= shape then
        blame(("surgery: %s: the state %s is %s, the parameter %s; forget(%q) lets it begin anew")
          :format(what, key.key, shape_text(value), shape, name))
      end
      tensors[prefix .. slot] = { tensor = value, put = put }
    end
  end
  return tensors, copied
end

local function remove(self, name)
  apply(self, new_names(self, "remove", function(other) return other ~= name and other end))
end

local function was_frozen(self, name)
  for _, other in ipairs(self.frozen) do
    if other == name then return true end
  end
  return false
end

-- The number of a dimension from 1; a negative one counts from the last.
local function find_dim(what, name, tensor, dim)
  local found = options.argument("surgery: " .. what, "dim", dim, { default = 1, integer = true })
  if found < 0 then found = found + tensor.ndim + 1 end
  if found < 1 or found > tensor.ndim then
    blame(("surgery: %s: %s has %d dimensions, and none is %d"):format(what, name, tensor.ndim, dim))
  end
  return found
end

-- The sizes of pieces: those that were given, or equal ones.
local function piece_sizes(name, size, count, given)
  local sizes, sum = given, 0
  if not sizes then
    if size % count ~= 0 then blame(("surgery: split: %s: %d cannot be cut into %d equal pieces"):format(name, size, count)) end
    sizes = {}
    for k = 1, count do sizes[k] = size // count end
  end
  for k = 1, #sizes do
    if math.type(sizes[k]) ~= "integer" or sizes[k] < 0 then blame("surgery: split: sizes are integers from 0") end
    sum = sum + sizes[k]
  end
  if #sizes ~= count or sum ~= size then
    blame(("surgery: split: %s: %d sizes that make %d expected, got %d that make %d"):format(name, count, size, #sizes, sum))
  end
  return sizes
end

local function check_free(self, what, names, but)
  local taken = {}
  for _, name in ipairs(names_of(self)) do taken[name] = true end
  for _, name in ipairs(but) do taken[name] = nil end
  for _, name in ipairs(names) do
    if type(name) ~= "string" or taken[name] then
      blame(("surgery: %s: %s"):format(what, type(name) ~= "string" and "names expected, got a " .. type(name) or "there is a " .. name .. " already"))
    end
    taken[name] = true
  end
end

--- Cuts a parameter, and its states, along a dimension: into equal pieces, or pieces of these sizes.
---@param name string
---@param into string[] names of the pieces
---@param opts? { dim?: integer, sizes?: integer[] } dim: default 1
function Surgery:split(name, into, opts)
  opts = options.check("surgery: split", opts, { dim = { default = 1, integer = true }, sizes = { required = false, type = "list" } })
  known(self, "split", name)
  if type(into) ~= "table" or #into == 0 then blame "surgery: split: a list of names expected" end
  check_free(self, "split", into, { name })
  local tensors, copied = tensors_of(self, "split", name)
  local frozen, cuts = was_frozen(self, name), {}
  for key, item in pairs(tensors) do
    local dim, at = find_dim("split", name, item.tensor, opts.dim), 1
    local sizes = piece_sizes(name, item.tensor.shape[dim], #into, opts.sizes)
    cuts[key] = {}
    for k, size in ipairs(sizes) do
      cuts[key][k] = item.tensor:narrow(dim, at, size):contiguous()
      at = at + size
    end
  end
  remove(self, name)
  for k, new in ipairs(into) do
    for key, item in pairs(tensors) do item.put(new, cuts[key][k]) end
    for _, item in pairs(copied) do item.put(new, item.value) end
    if frozen then table.insert(self.frozen, new) end
  end
end

-- The names that join takes: there, each once, and asleep all or none.
local function check_joined(self, names)
  local seen, frozen = {}, nil
  for _, name in ipairs(names) do
    known(self, "join", name)
    if seen[name] then blame(("surgery: join: %s is named twice"):format(name)) end
    if seen[names[1]] and was_frozen(self, name) ~= frozen then
      blame(("surgery: join: %s is frozen, %s is not"):format(frozen and names[1] or name, frozen and name or names[1]))
    end
    seen[name], frozen = true, was_frozen(self, name)
  end
  return frozen
end

-- The tensors of several parameters, by slot; each must have what the first has, and be updated as often.
local function collect(self, names)
  local lists, first, copied = {}, nil, nil
  for k, name in ipairs(names) do
    local tensors, others = tensors_of(self, "join", name)
    first, copied = first or tensors, copied or others
    for key, item in pairs(tensors) do
      if not first[key] then blame(("surgery: join: %s has %s, %s has none"):format(name, key == "" and "a weight" or key, names[1])) end
      lists[key] = lists[key] or {}
      lists[key][k] = item.tensor
    end
    for key in pairs(first) do
      if not tensors[key] then blame(("surgery: join: %s has %s, %s has none"):format(names[1], key == "" and "a weight" or key, name)) end
    end
    for key, item in pairs(copied) do
      if not others[key] or others[key].value ~= item.value then
        blame(("surgery: join: %s of %s is %s, that of %s is %s; forget them first"):format(key, names[1], tostring(item.value), name,
          tostring(others[key] and others[key].value)))
      end
    end
  end
  return lists, first, copied
end

--- Joins parameters, and their states, along a dimension.
---@param names string[]
---@param into string
---@param opts? { dim?: integer } default 1
function Surgery:join(names, into, opts)
  opts = options.check("surgery: join", opts, { dim = { default = 1, integer = true } })
  if type(names) ~= "table" or #names == 0 then blame "surgery: join: a list of names expected" end
  local frozen, joined = check_joined(self, names), {}
  check_free(self, "join", { into }, names)
  local lists, slots, copied = collect(self, names)
  for key, list in pairs(lists) do joined[key] = optlua.cat(list, find_dim("join", names[1], list[1], opts.dim)) end
  for _, name in ipairs(names) do remove(self, name) end
  for key, item in pairs(slots) do item.put(into, joined[key]) end
  for _, item in pairs(copied) do item.put(into, item.value) end
  if frozen then table.insert(self.frozen, into) end
end

-- Use ------------------------------------------------------------------------------------------------------

-- What module:load reads from: tensors that are in memory. See optlua.nn.loading.
local Reader = {}
Reader.__index = Reader

function Reader.__close() end
function Reader.target(_, entry) return entry.stored end
function Reader.read(_, entry) return entry.tensor end

--- A reader of tensors in memory.
---@param path string for messages
---@param tensors table<string, optlua.Tensor>
local function reader(path, tensors)
  local entry = {}
  for name, tensor in pairs(tensors) do
    entry[name] = { name = name, stored = tensor.dtype, shape = tensor.shape, tensor = tensor }
  end
  return setmetatable({ path = path, entry = entry, names = options.names(entry) }, Reader)
end

-- Raises for what a function has put in that is no tensor.
local function check(self)
  for _, name in ipairs { "weights", "state", "frozen" } do
    if type(self[name]) ~= "table" then blame(("surgery: %s: a table expected, got a %s"):format(name, type(self[name]))) end
  end
  for name, tensor in pairs(self.weights) do
    if type(name) ~= "string" or not optlua.is_tensor(tensor) then
      blame(("surgery: weights: tensors by name expected, got %s = %s"):format(tostring(name), tostring(tensor)))
    end
  end
end

--- Lets a function of the script change what was read.
---@param fn fun(surgery: optlua.checkpoint.Surgery)
---@param weights table<string, optlua.Tensor>
---@param state table<string, any>
---@param frozen string[]
---@param strict boolean
---@return optlua.checkpoint.Surgery
local function operate(fn, weights, state, frozen, strict)
  local self = setmetatable({ weights = weights, state = state, frozen = frozen, strict = strict }, Surgery)
  fn(self)
  check(self)
  return self
end

return { operate = operate, reader = reader }
