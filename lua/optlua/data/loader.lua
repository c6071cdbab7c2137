--- loader: cuts a dataset into batches, epoch after epoch.
--
-- The order of an epoch depends on the seed and the number of the epoch alone, so that the place in
-- it can be saved as two numbers.
local host = require("optlua.core").hidden
local optlua = require "optlua"
local blame = require "optlua.blame"
local options = require "optlua.options"
local dataset_module = require "optlua.data.dataset"

---@class data.Loader
---@field dataset data.Dataset
---@field batch_size integer
local Loader = {}
Loader.__index = Loader

local function refuse()
  blame "a loader is no list and no iterator: write for x, y in loader:batches() do"
end

Loader.__pairs, Loader.__call = refuse, refuse
setmetatable(Loader, { __index = function(_, key) return type(key) == "number" and refuse() or nil end })

local function check_items(items)
  if type(items) ~= "table" or type(items[1]) ~= "table" then
    blame("collate: a list of items expected, each a list of values")
  end
  local width = #items[1]
  if width == 0 then blame("collate: item 1 has no values") end
  for i, item in ipairs(items) do
    if #item ~= width then
      blame(("collate: item %d has %d values, the first has %d"):format(i, #item, width))
    end
  end
end

--- Stacks the values of items: { {x1, y1}, {x2, y2} } -> stacked x, stacked y. Numbers become a tensor:
--- int64 if all are integers, else float32.
---@param items any[][] the values of each item
---@return optlua.Tensor ...
local function collate(items)
  local result = {}
  check_items(items)
  for column = 1, #items[1] do
    local values, whole = {}, true
    for i, item in ipairs(items) do
      values[i] = item[column]
      whole = whole and math.type(item[column]) == "integer"
    end
    if optlua.is_tensor(values[1]) then
      result[column] = optlua.stack(values)
    elseif type(values[1]) == "number" then
      result[column] = optlua.tensor(values, { dtype = whole and "int64" or "float32" })
    else
      error(("collate: value %d of an item is a %s; tensors and numbers are stacked, others want a collate of your own")
        :format(column, type(values[1])), 0)
    end
  end
  return table.unpack(result)
end

--- Makes a collate for items whose first value is a sequence, a tensor (length, …): sequences are padded to the
--- longest of the batch, their lengths, int64 (B), come next, and then the other values, stacked.
---
---     local collate = optlua.data.pad_collate()
---     print(collate { { optlua.tensor { 1, 2 }, 0 }, { optlua.tensor { 3 }, 1 } })
---     --> tensor([[1., 2.],
---     -->         [3., 0.]]) tensor([2, 1]) tensor([0, 1])
---@param opts? { padding_value?: number, padding_side?: "right"|"left", batch_first?: boolean } padding_value 0;
---  padding_side "right"; batch_first true: (B, T, …), else (T, B, …)
---@return fun(items: any[][]): ...
local function pad_collate(opts)
  opts = options.check("data.pad_collate", opts, {
    padding_value = 0, padding_side = { default = "right", choices = { "right", "left" } }, batch_first = true,
  })
  return function(items)
    check_items(items)
    local sequences, lengths, rest = {}, {}, {}
    for i, item in ipairs(items) do
      sequences[i] = item[1]
      lengths[i] = optlua.is_tensor(item[1]) and item[1].ndim > 0 and #item[1] or 0
      rest[i] = { table.unpack(item, 2) }
    end
    local padded = require("optlua.nn.packing").pad_sequence(sequences, opts)
    lengths = optlua.tensor(lengths, { dtype = "int64" })
    if #rest[1] == 0 then return padded, lengths end
    return padded, lengths, collate(rest)
  end
end

--- Makes a loader of a dataset: a table with `n`, the number of items, and a function `get(i, epoch)` (called
--- with a dot) that returns the values of item i, from 1: tensors, which are stacked, or numbers.
--- `#loader` is the number of batches of an epoch; `for x, y in loader:batches()` goes through one.
---
---     local squares = { n = 5, get = function(i) return i, i * i end }
---     for x, y in optlua.data.loader(squares, { batch_size = 3 }):batches() do print(x, y) end
---     --> tensor([1, 2, 3]) tensor([1, 4, 9])
---     --> tensor([4, 5]) tensor([16, 25])
---@param dataset data.Dataset
---@param opts? { batch_size?: integer, shuffle?: boolean, drop_last?: boolean, collate?: function, seed?: integer }
---  batch_size 1; shuffle false; drop_last false: the last batch may be smaller; collate: list of items'
---  values -> values; seed: of the order, default the seed of optlua.manual_seed
---@return data.Loader
local function loader(dataset, opts)
  dataset_module.check("data.loader", dataset)
  if type(opts) == "table" and opts.get then
    blame "data.loader: two datasets came, as data.digits() gives a training and a test set; write local train, test = …"
  end
  opts = options.check("data.loader", opts, {
    batch_size = { default = 1, min = 1, integer = true },
    shuffle = false,
    drop_last = false,
    collate = { required = false, type = "function" },
    seed = { required = false, type = "integer" },
  })
  return setmetatable({
    dataset = dataset,
    batch_size = opts.batch_size,
    shuffle = opts.shuffle,
    drop_last = opts.drop_last,
    collate = opts.collate,
    seed = opts.seed or optlua.initial_seed(),
    epoch = 1,    -- the epoch that batches() goes through next, or is in
    position = 0, -- batches of it that were handed out
  }, Loader)
end

function Loader:__len()
  local n = self.dataset.n / self.batch_size
  return self.drop_last and math.floor(n) or math.ceil(n)
end

function Loader:__tostring()
  return ("loader of %d batches of %d, epoch %d, position %d"):format(#self, self.batch_size, self.epoch, self.position)
end

--- Positions of the items of this epoch, from 0, in order.
local function order_of(self)
  if self.shuffle then return host.permutation(self.dataset.n, self.seed, self.epoch) end
  return optlua.arange(0, self.dataset.n)
end

--- The values of the items at some positions.
local function fetch(self, positions, epoch)
  local dataset = self.dataset
  if dataset.batch and not self.collate then return dataset.batch(positions, epoch) end
  local items = {}
  for i, position in ipairs(positions:totable()) do
    items[i] = { dataset.get(position + 1, epoch) }
    if items[i][1] == nil then blame(("loader: dataset.get(%d) returned nothing"):format(position + 1)) end
  end
  return (self.collate or collate)(items)
end

--- Iterates over the rest of the current epoch (all of it, unless the position was loaded); at its end
--- the next epoch begins. An epoch that is left early begins anew with its next batches().
---@return fun(): ... the values of a batch
function Loader:batches()
  local order, count, size = order_of(self), #self, self.batch_size
  local at, epoch = self.resumed and self.position or 0, self.epoch
  self.resumed = nil
  local function hand_out(first, ...)
    if first == nil then
      blame(("data.loader: batch %d has nil as its first value, which would end the loop"):format(at + 1))
    end
    at = at + 1
    self.position = at
    return first, ...
  end
  return function()
    if at >= count then
      if self.epoch == epoch then self.epoch, self.position = epoch + 1, 0 end
      return nil
    end
    local start = at * size
    return hand_out(fetch(self, order:narrow(1, start + 1, math.min(size, #order - start)), epoch))
  end
end

--- Where the loader stands: the seed of its order, the epoch, and the batches of it already used.
---@return { seed: integer, epoch: integer, position: integer }
function Loader:state_dict()
  return { seed = self.seed, epoch = self.epoch, position = self.position }
end

--- Takes up a place that state_dict told; the next batches() goes on from there.
---@param state { seed: integer, epoch: integer, position: integer }
function Loader:load_state_dict(state)
  state = options.check("load_state_dict", state, {
    seed = { type = "integer", required = true },
    epoch = { type = "integer", min = 1, required = true },
    position = { type = "integer", min = 0, max = #self, required = true },
  })
  self.seed, self.epoch, self.position, self.resumed = state.seed, state.epoch, state.position, true
end

return { loader = loader, collate = collate, pad_collate = pad_collate }
