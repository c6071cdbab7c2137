--- dataset: what a dataset is; sets of items in memory, parts and rows of other sets, and sets whose items
--- are changed on the way out.
--
-- A dataset is a table with `n`, the number of items, and a function `get(i, epoch)`, called with a dot, which
-- returns the values of item i (1 … n): tensors or numbers. It may have `batch(positions, epoch)` too, which
-- returns the values of many items at once, stacked; positions is an int64 tensor that counts from 0. The
-- epoch (from 1; 1 where it is left out) matters only to items that are changed at random: what an item
-- looks like depends on the seed, the epoch and its position alone, whoever asks for it and when.
local host = require("optlua.core").hidden
local optlua = require "optlua"
local blame = require "optlua.blame"
local options = require "optlua.options"

---@class data.Dataset
---@field n integer the number of items
---@field get fun(i: integer, epoch?: integer): ... the values of item i, from 1
---@field batch? fun(positions: optlua.Tensor, epoch?: integer): ... the values of many items, positions from 0

--- Checks that a value follows the protocol of datasets.
---@param what string who asks, for the message
---@param dataset any
---@return data.Dataset
local function check(what, dataset)
  if type(dataset) ~= "table" or type(dataset.get) ~= "function" then
    blame(("%s: a dataset expected: a table with n, the number of items, and a function get(i), called with a dot")
      :format(what))
  end
  options.argument(what, "dataset.n", dataset.n, { required = true, type = "integer", min = 0 })
  return dataset
end

--- Checks the position of an item.
local function check_position(i, n)
  if math.type(i) ~= "integer" or i < 1 or i > n then
    local hint = type(i) == "table" and "; get is called with a dot: dataset.get(i)" or ""
    blame(("dataset.get: a position from 1 to %d expected, got %s%s"):format(n, tostring(i), hint))
  end
end

local function refuse()
  blame "a dataset is no list: write dataset.get(i) for its item i, and for x, y in data.loader(dataset):batches() do to go through it"
end

local metatable = {
  __index = function(_, key) return type(key) == "number" and refuse() or nil end,
  __len = function(self) return self.n end,
  __pairs = refuse,
  __call = refuse,
  __tostring = function(self) return ("dataset of %d items"):format(self.n) end,
}

--- Makes a dataset; get is called with positions from 1 to n only.
---@param n integer
---@param get fun(i: integer, epoch: integer): ...
---@param batch? fun(positions: optlua.Tensor, epoch: integer): ...
---@return data.Dataset
local function new(n, get, batch)
  return setmetatable({
    n = n,
    get = function(i, epoch)
      check_position(i, n)
      return get(i, epoch or 1)
    end,
    batch = batch and function(positions, epoch) return batch(positions, epoch or 1) end,
  }, metatable)
end

--- A dataset of tensors of the same first size: item i is the i-th row of each.
---
---     local set = optlua.data.tensors(optlua.tensor { { 1, 2 }, { 3, 4 } }, optlua.tensor({ 0, 1 }, { dtype = "int64" }))
---     print(#set, set.get(2)) --> 2 tensor([3., 4.]) tensor(1)
---@param ... optlua.Tensor
---@return data.Dataset
local function tensors(...)
  local columns = { ... }
  for i = 1, select("#", ...) do
    local column = columns[i]
    if not optlua.is_tensor(column) or column.ndim == 0 then
      blame(("data.tensors: argument %d: a tensor of at least one dimension expected"):format(i))
    end
    if #column ~= #columns[1] then
      blame(("data.tensors: argument %d has %d items, the first has %d"):format(i, #column, #columns[1]))
    end
  end
  if #columns == 0 then blame("data.tensors: at least one tensor expected") end
  local function map(fn)
    local values = {}
    for i, column in ipairs(columns) do values[i] = fn(column) end
    return table.unpack(values)
  end
  return new(#columns[1],
    function(i) return map(function(column) return column:select(1, i) end) end,
    function(positions) return map(function(column) return column:index_select(1, positions) end) end)
end

--- A part of a dataset: the items at the given positions, in that order. The whole is in field `dataset`.
---@param dataset data.Dataset
---@param positions integer[]|optlua.Tensor a list of positions from 1, or an int64 tensor of positions from 0
---@return data.Dataset
local function subset(dataset, positions)
  check("data.subset", dataset)
  local places = optlua.is_tensor(positions) and positions
    or optlua.tensor(options.argument("data.subset", "positions", positions,
      { required = true, type = "list", integer = true, min = 1, max = dataset.n }),
      { dtype = "int64" }) - 1
  local set = new(#places,
    function(i, epoch) return dataset.get(places[i]:item() + 1, epoch) end,
    dataset.batch and function(picked, epoch) return dataset.batch(places:index_select(1, picked), epoch) end)
  set.dataset = dataset
  return set
end

--- Several datasets, one after the other. Their items have the same number of values.
---
---     local numbers = { n = 3, get = function(i) return i end }
---     local both = optlua.data.concat { numbers, numbers }
---     print(#both, both.get(5)) --> 6 2
---@param datasets data.Dataset[]
---@return data.Dataset
local function concat(datasets)
  options.argument("data.concat", "datasets", datasets, { required = true, type = "list" })
  local ends, n = {}, 0
  for k, set in ipairs(datasets) do
    n = n + check("data.concat", set).n
    ends[k] = n
  end
  return new(n, function(i, epoch)
    local k = 1
    while i > ends[k] do k = k + 1 end
    return datasets[k].get(i - (ends[k - 1] or 0), epoch)
  end)
end

--- How many items each part has: the lengths that were given, or shares of n, which lack nothing: what
--- rounding down leaves goes to the first parts, one each, as in PyTorch.
local function lengths_of(n, parts)
  local what, sum, fractions = "data.random_split", 0, false
  options.argument(what, "parts", parts, { required = true, type = "list", min = 0 })
  for _, part in ipairs(parts) do
    sum = sum + part
    fractions = fractions or math.tointeger(part) == nil
  end
  fractions = fractions or (sum == 1 and n ~= 1)
  if not fractions then
    if sum ~= n then blame(("%s: the lengths add up to %d, the dataset has %d items"):format(what, sum, n)) end
    return parts
  end
  if math.abs(sum - 1) > 1e-6 then blame(("%s: the fractions add up to %.6g, not to 1"):format(what, sum)) end
  local lengths, left = {}, n
  for k, part in ipairs(parts) do
    lengths[k] = math.floor(n * part)
    left = left - lengths[k]
  end
  for k = 1, left do lengths[(k - 1) % #parts + 1] = lengths[(k - 1) % #parts + 1] + 1 end
  return lengths
end

--- Cuts a dataset into parts at random; each item is in exactly one of them.
---
---     local numbers = { n = 10, get = function(i) return i end }
---     local train, test = optlua.data.random_split(numbers, { 0.8, 0.2 }, 42)
---     print(#train, #test) --> 8 2
---@param dataset data.Dataset
---@param parts number[] lengths that add up to the dataset's, or fractions that add up to 1
---@param seed? integer of the split; default the seed of optlua.manual_seed
---@return data.Dataset ... one for each part
local function random_split(dataset, parts, seed)
  check("data.random_split", dataset)
  if seed ~= nil then seed = options.argument("data.random_split", "seed", seed, { required = true, type = "integer" }) end
  local lengths = lengths_of(dataset.n, parts)
  local order = host.permutation(dataset.n, seed or optlua.initial_seed(), 0)
  local sets, first = {}, 1
  for k, length in ipairs(lengths) do
    sets[k] = subset(dataset, order:narrow(1, first, length))
    first = first + length
  end
  return table.unpack(sets)
end

--- The random numbers of one item in one epoch: a function that is called like math.random.
local function numbers_of(seed, epoch, i)
  local block, spare = i << 16, nil
  local function uniform()
    local value = spare
    spare = nil
    if not value then
      value, spare = host.random_pair(seed, epoch, block)
      block = block + 1
    end
    return value
  end
  return function(low, high)
    if not low then return uniform() end
    if not high then low, high = 1, low end
    return low + math.floor(uniform() * (high - low + 1))
  end
end

--- A dataset whose items are changed on the way out: the first value of each goes through `transform`, a function
--- (value, random) or one of data.transforms. `random` is called like math.random; its numbers depend on the
--- seed, the epoch and the item alone, so that neither the order of reading nor the number of readers matters.
---
---     local numbers = { n = 3, get = function(i) return i, -i end }
---     local squares = optlua.data.transformed(numbers, function(x) return x * x end)
---     print(squares.get(3)) --> 9 -3
---@param dataset data.Dataset
---@param transform function
---@param opts? { seed?: integer } default the seed of optlua.manual_seed
---@return data.Dataset
local function transformed(dataset, transform, opts)
  check("data.transformed", dataset)
  options.argument("data.transformed", "transform", transform, { required = true, type = "callable" })
  opts = options.check("data.transformed", opts, { seed = { required = false, type = "integer" } })
  local seed = opts.seed or optlua.initial_seed()
  local function change(i, epoch, first, ...)
    return transform(first, numbers_of(seed, epoch, i)), ...
  end
  local set = new(dataset.n, function(i, epoch) return change(i, epoch, dataset.get(i, epoch)) end)
  return setmetatable(set, {
    __index = function(_, name) -- classes, targets …
      if type(name) == "number" then refuse() end
      return name ~= "batch" and dataset[name] or nil
    end,
    __len = metatable.__len, __pairs = refuse, __call = refuse, __tostring = metatable.__tostring,
  })
end

return {
  check = check, new = new, tensors = tensors, subset = subset, concat = concat, random_split = random_split,
  transformed = transformed,
}
