--- dataset: what a dataset is; sets of items in memory, and parts of other sets.
--
-- A dataset is a table with `n`, the number of items, and a function `get(i)`, called with a dot, which
-- returns the values of item i (1 … n): tensors or numbers. It may have `batch(positions)` too, which
-- returns the values of many items at once, stacked; positions is an int64 tensor that counts from 0.
local optlua = require "optlua"
local options = require "optlua.options"

---@class data.Dataset
---@field n integer the number of items
---@field get fun(i: integer): ... the values of item i, from 1
---@field batch? fun(positions: optlua.Tensor): ... the values of many items, positions from 0

--- Checks that a value follows the protocol of datasets.
---@param what string who asks, for the message
---@param dataset any
---@return data.Dataset
local function check(what, dataset)
  if type(dataset) ~= "table" or type(dataset.get) ~= "function" then
    error(("%s: a dataset expected: a table with n, the number of items, and a function get(i), called with a dot")
      :format(what), 3)
  end
  options.argument(what, "dataset.n", dataset.n, { required = true, type = "integer", min = 0 }, 4)
  return dataset
end

--- Checks the position of an item.
local function check_position(i, n)
  if math.type(i) ~= "integer" or i < 1 or i > n then
    local hint = type(i) == "table" and "; get is called with a dot: dataset.get(i)" or ""
    error(("dataset.get: a position from 1 to %d expected, got %s%s"):format(n, tostring(i), hint), 3)
  end
end

local metatable = {
  __len = function(self) return self.n end,
  __tostring = function(self) return ("dataset of %d items"):format(self.n) end,
}

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
      error(("data.tensors: argument %d: a tensor of at least one dimension expected"):format(i), 2)
    end
    if #column ~= #columns[1] then
      error(("data.tensors: argument %d has %d items, the first has %d"):format(i, #column, #columns[1]), 2)
    end
  end
  if #columns == 0 then error("data.tensors: at least one tensor expected", 2) end
  local function map(fn)
    local values = {}
    for i, column in ipairs(columns) do values[i] = fn(column) end
    return table.unpack(values)
  end
  return setmetatable({
    n = #columns[1],
    get = function(i)
      check_position(i, #columns[1])
      return map(function(column) return column:select(1, i) end)
    end,
    batch = function(positions) return map(function(column) return column:index_select(1, positions) end) end,
  }, metatable)
end

--- A part of a dataset: the items at the given positions, in that order.
---@param dataset data.Dataset
---@param positions integer[]|optlua.Tensor a list of positions from 1, or an int64 tensor of positions from 0
---@return data.Dataset
local function subset(dataset, positions)
  check("data.subset", dataset)
  local places = optlua.is_tensor(positions) and positions
    or optlua.tensor(options.argument("data.subset", "positions", positions,
      { required = true, type = "list", integer = true, min = 1, max = dataset.n }),
      { dtype = "int64" }) - 1
  return setmetatable({
    n = #places,
    get = function(i)
      check_position(i, #places)
      return dataset.get(places[i]:item() + 1)
    end,
    batch = dataset.batch and function(picked) return dataset.batch(places:index_select(1, picked)) end,
  }, metatable)
end

return { check = check, tensors = tensors, subset = subset }
