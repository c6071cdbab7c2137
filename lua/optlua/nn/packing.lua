--- packing: sequences of different lengths in one tensor, padded or packed, as torch.nn.utils.rnn has them.
local blame = require "optlua.blame"
local optlua = require "optlua"
local options = require "optlua.options"

local packing = {}

--- Sequences one step after another: data (sum of lengths, …) holds the first step of all sequences, longest
--- first, then the second of those that have one, and so on.
---@class nn.PackedSequence
---@field data optlua.Tensor
---@field batch_sizes optlua.Tensor int64 (T): how many sequences have a step t
---@field sorted_indices optlua.Tensor|nil int64 (B), from 0: which sequence stands at each place
---@field unsorted_indices optlua.Tensor|nil int64 (B), from 0: the place of each sequence
local PackedSequence = {}
PackedSequence.__index = PackedSequence

--- Whether a value is a PackedSequence.
---@param value any
---@return boolean
function packing.is_packed(value) return getmetatable(value) == PackedSequence end

local function check_tensor(what, name, value)
  if not optlua.is_tensor(value) then blame(("%s: %s: tensor expected, got %s"):format(what, name, type(value))) end
end

local any_number = { default = 0, nan = true } -- NaN marks what is missing

local function int64(list) return optlua.tensor(list, { dtype = "int64" }) end

--- Whole numbers, from a tensor or a list.
local function numbers(what, value, batch, steps)
  local list = optlua.is_tensor(value) and value:totable() or value
  if type(list) ~= "table" or #list ~= batch then
    local got = type(list) == "table" and #list or type(list)
    blame(("%s: lengths: expected %d numbers, got %s"):format(what, batch, got))
  end
  local whole = {}
  for b, length in ipairs(list) do
    whole[b] = type(length) == "number" and math.tointeger(length)
    if not whole[b] or whole[b] < 1 or whole[b] > steps then
      blame(("%s: lengths[%d] is %s, outside 1 … %d"):format(what, b, tostring(length), steps))
    end
  end
  return whole
end

--- Pads sequences (length, …) with padding_value to the longest: (T, B, …), or (B, T, …) with batch_first.
---@param sequences optlua.Tensor[]
---@param opts? { batch_first?: boolean, padding_value?: number, padding_side?: "right"|"left" }
---@return optlua.Tensor
function packing.pad_sequence(sequences, opts)
  opts = options.check("pad_sequence", opts, {
    batch_first = false, padding_value = any_number, padding_side = { default = "right", choices = { "right", "left" } },
  })
  if type(sequences) ~= "table" or #sequences == 0 then blame "pad_sequence: a list of tensors expected" end
  local longest = 0
  for k, sequence in ipairs(sequences) do
    check_tensor("pad_sequence", ("sequence %d"):format(k), sequence)
    if sequence.ndim == 0 then blame(("pad_sequence: sequence %d has no steps"):format(k)) end
    longest = math.max(longest, sequence.shape[1])
  end
  local rows = {}
  for k, sequence in ipairs(sequences) do
    local shape = { table.unpack(sequence.shape) }
    shape[1] = longest - shape[1]
    local padding = shape[1] > 0 and optlua.full(shape, opts.padding_value, { dtype = sequence.dtype })
    local parts = opts.padding_side == "right" and { sequence, padding } or { padding, sequence }
    rows[k] = padding and optlua.cat(parts, 1) or sequence
  end
  return optlua.stack(rows, opts.batch_first and 1 or 2)
end

--- Places of sequences by falling length; equal ones keep their order.
local function by_length(lengths)
  local order = {}
  for b = 1, #lengths do order[b] = b end
  table.sort(order, function(a, b)
    if lengths[a] ~= lengths[b] then return lengths[a] > lengths[b] end
    return a < b
  end)
  return order
end

--- How many sequences have each step.
local function sizes_of(lengths, steps)
  local sizes = {}
  for t = 1, steps do
    sizes[t] = 0
    for _, length in ipairs(lengths) do
      if length >= t then sizes[t] = sizes[t] + 1 end
    end
  end
  return sizes
end

--- Rows of x (T, B, …) in the order of packed data: the first sizes[t] sequences of `order` at each step.
local function gather(x, batch_first, sizes, order)
  local T, B = x.shape[batch_first and 2 or 1], x.shape[batch_first and 1 or 2]
  local index = {}
  for t, count in ipairs(sizes) do
    for place = 1, count do
      local b = order[place] - 1
      index[#index + 1] = batch_first and b * T + t - 1 or (t - 1) * B + b
    end
  end
  return x:flatten(1, 2):index_select(1, int64(index))
end

local function pack(data, sizes, order)
  local sorted, unsorted = {}, {}
  for place, b in ipairs(order or {}) do
    sorted[place] = b - 1
    unsorted[b] = place - 1
  end
  return setmetatable({
    data = data, batch_sizes = int64(sizes), sorted_indices = order and int64(sorted),
    unsorted_indices = order and int64(unsorted),
  }, PackedSequence)
end

--- Packs a padded batch (T, B, …), or (B, T, …) with batch_first. Unless enforce_sorted is false, the lengths must
--- fall.
---@param input optlua.Tensor
---@param lengths optlua.Tensor|integer[] (B), from 1 to T
---@param opts? { batch_first?: boolean, enforce_sorted?: boolean }
---@return nn.PackedSequence
function packing.pack_padded_sequence(input, lengths, opts)
  local what = "pack_padded_sequence"
  opts = options.check(what, opts, { batch_first = false, enforce_sorted = true })
  check_tensor(what, "input", input)
  if input.ndim < 2 then blame(what .. ": input wants at least 2 dimensions, (steps, batch)") end
  local steps, batch = input.shape[opts.batch_first and 2 or 1], input.shape[opts.batch_first and 1 or 2]
  local list = numbers(what, lengths, batch, steps)
  if batch == 0 then blame(what .. ": a batch of nothing cannot be packed") end
  local order = by_length(list)
  for place, b in ipairs(opts.enforce_sorted and order or {}) do
    if place ~= b then blame(what .. ": lengths must fall; or pass { enforce_sorted = false }") end
  end
  local sizes = sizes_of(list, list[order[1]])
  return pack(gather(input, opts.batch_first, sizes, order), sizes, not opts.enforce_sorted and order or nil)
end

--- Which sequence, from 1, stands at each place.
local function order_of(packed, batch)
  local order = {}
  for place = 1, batch do order[place] = place end
  if packed.sorted_indices then
    for place, b in ipairs(packed.sorted_indices:totable()) do order[place] = b + 1 end
  end
  return order
end

--- The lengths of the sequences in a PackedSequence, in the order of the batch.
local function lengths_of(sizes, order)
  local lengths = {}
  for place, b in ipairs(order) do
    local length = 0
    while length < #sizes and sizes[length + 1] >= place do length = length + 1 end
    lengths[b] = length
  end
  return lengths
end

--- Where each step of each sequence stands in the data, from 0; `missing` where there is none.
local function places(sizes, order, steps, batch_first, missing)
  local B, first, index = #order, 0, {}
  for t = 1, steps do
    for place, b in ipairs(order) do
      local at = batch_first and (b - 1) * steps + t or (t - 1) * B + b
      index[at] = place <= (sizes[t] or 0) and first + place - 1 or missing
    end
    first = first + (sizes[t] or 0)
  end
  return index
end

--- Adds `more` steps of padding to (T, B, …), or (B, T, …) with batch_first.
local function extend(padded, more, opts)
  local dim, shape = opts.batch_first and 2 or 1, { table.unpack(padded.shape) }
  shape[dim] = more
  return optlua.cat({ padded, optlua.full(shape, opts.padding_value, { dtype = padded.dtype }) }, dim)
end

--- The padded form of a PackedSequence: (T, B, …), or (B, T, …) with batch_first; and the lengths, int64 (B).
---@param sequence nn.PackedSequence
---@param opts? { batch_first?: boolean, padding_value?: number, total_length?: integer }
---@return optlua.Tensor padded
---@return optlua.Tensor lengths
function packing.pad_packed_sequence(sequence, opts)
  local what = "pad_packed_sequence"
  opts = options.check(what, opts, {
    batch_first = false, padding_value = any_number, total_length = { required = false, type = "integer" },
  })
  if not packing.is_packed(sequence) then blame(what .. ": a PackedSequence expected") end
  check_tensor(what, "data of the PackedSequence", sequence.data)
  check_tensor(what, "batch_sizes of the PackedSequence", sequence.batch_sizes)
  local data, sizes = sequence.data, sequence.batch_sizes:totable()
  local order, steps = order_of(sequence, sizes[1]), #sizes
  local more = (opts.total_length or steps) - steps
  if more < 0 then
    blame(("%s: total_length is %d, less than the %d steps of the longest sequence"):format(what, opts.total_length,
      steps))
  end
  local nothing = optlua.full({ 1, table.unpack(data.shape, 2) }, opts.padding_value, { dtype = data.dtype })
  local index = places(sizes, order, steps, opts.batch_first, data.shape[1])
  local rows = optlua.cat({ data, nothing }, 1):index_select(1, int64(index))
  local padded = rows:unflatten(1, opts.batch_first and { #order, steps } or { steps, #order })
  if more > 0 then padded = extend(padded, more, opts) end
  return padded, int64(lengths_of(sizes, order))
end

--- Packs a padded tensor as `packed` is: the same lengths and order.
---@param packed nn.PackedSequence
---@param padded optlua.Tensor
---@param batch_first boolean
---@return nn.PackedSequence
function packing.pack_like(packed, padded, batch_first)
  local sizes = packed.batch_sizes:totable()
  return setmetatable({
    data = gather(padded, batch_first, sizes, order_of(packed, sizes[1])), batch_sizes = packed.batch_sizes,
    sorted_indices = packed.sorted_indices, unsorted_indices = packed.unsorted_indices,
  }, PackedSequence)
end

--- Packs sequences (length, …); unless enforce_sorted is false, the longest first.
---@param sequences optlua.Tensor[]
---@param opts? { enforce_sorted?: boolean }
---@return nn.PackedSequence
function packing.pack_sequence(sequences, opts)
  opts = options.check("pack_sequence", opts, { enforce_sorted = true })
  local padded, lengths = packing.pad_sequence(sequences), {}
  for k, sequence in ipairs(sequences) do lengths[k] = sequence.shape[1] end
  return packing.pack_padded_sequence(padded, lengths, opts)
end

--- The sequences of a padded batch (T, B, …), or (B, T, …) with batch_first, as a list of (length, …).
---@param padded optlua.Tensor
---@param lengths optlua.Tensor|integer[]
---@param opts? { batch_first?: boolean }
---@return optlua.Tensor[]
function packing.unpad_sequence(padded, lengths, opts)
  opts = options.check("unpad_sequence", opts, { batch_first = false })
  check_tensor("unpad_sequence", "padded", padded)
  local batch = opts.batch_first and 1 or 2
  local list = numbers("unpad_sequence", lengths, padded.shape[batch], padded.shape[3 - batch])
  local sequences = {}
  for b, length in ipairs(list) do sequences[b] = padded:select(batch, b):narrow(1, 1, length) end
  return sequences
end

--- The sequences of a PackedSequence, as a list of (length, …).
---@param sequence nn.PackedSequence
---@return optlua.Tensor[]
function packing.unpack_sequence(sequence)
  return packing.unpad_sequence(packing.pad_packed_sequence(sequence))
end

return packing
