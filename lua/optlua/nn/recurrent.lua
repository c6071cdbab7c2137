--- recurrent: networks that go through a sequence step by step.
local blame = require "optlua.blame"
local module = require "optlua.nn.module"
local optlua = require "optlua"
local packing = require "optlua.nn.packing"
local signature = require "optlua.signature"
local hidden = require("optlua.core").hidden
local shape_text = require("optlua.shape").text

local size = { required = true, type = "integer", min = 1 }
local nonlinearity = { "nonlinearity", { default = "tanh", choices = { "tanh", "relu" } } }

--- What sets the three kinds of network apart.
local kinds = {
  RNN = { gates = 1, sequence = hidden.rnn_sequence, option = nonlinearity },
  LSTM = { gates = 4, sequence = hidden.lstm_sequence, memory = true },
  GRU = { gates = 3, sequence = hidden.gru_sequence },
}

--- Adds the weights of one layer and direction, uniform in ±1/√hidden.
local function add_weights(self, gates, inputs, suffix, opts)
  local H = self.hidden_size
  local bound = 1 / math.sqrt(H)
  local function uniform(name, ...)
    self[name .. suffix] = module.Parameter(optlua.zeros({ ... }, { dtype = opts.dtype }):uniform_(-bound, bound))
  end
  uniform("weight_ih", gates * H, inputs)
  uniform("weight_hh", gates * H, H)
  if not opts.bias then return end
  uniform("bias_ih", gates * H)
  uniform("bias_hh", gates * H)
end

--- Applies a kind's op to a sequence with the weights of one layer and direction.
---@return optlua.Tensor output
---@return optlua.Tensor h
---@return optlua.Tensor? c
local function apply(self, kind, x, h, c, suffix, lengths, batch_first, reverse)
  local w_ih, w_hh = self["weight_ih" .. suffix], self["weight_hh" .. suffix]
  local b_ih, b_hh = rawget(self, "bias_ih" .. suffix), rawget(self, "bias_hh" .. suffix)
  if kind.memory then return kind.sequence(x, h, c, w_ih, w_hh, b_ih, b_hh, lengths, batch_first, reverse) end
  if kind.option then
    return kind.sequence(x, h, w_ih, w_hh, b_ih, b_hh, lengths, batch_first, reverse, self.nonlinearity)
  end
  return kind.sequence(x, h, w_ih, w_hh, b_ih, b_hh, lengths, batch_first, reverse)
end

--- The initial state as h, c or nothing: a tensor, or { h, c } for an LSTM.
local function state_of(what, kind, state)
  if state == nil then return end
  if not kind.memory then
    if optlua.is_tensor(state) then return state end
    blame(("%s: the initial state is a tensor h, got %s"):format(what, type(state)))
  end
  if type(state) ~= "table" or #state ~= 2 or not (optlua.is_tensor(state[1]) and optlua.is_tensor(state[2])) then
    blame(("%s: the initial state is a list of two tensors { h, c }"):format(what))
  end
  return state[1], state[2]
end

local function check_state(what, name, state, ...)
  local wanted = shape_text { ... }
  if state and shape_text(state) ~= wanted then
    blame(("%s: %s has shape %s, wants %s"):format(what, name, shape_text(state), wanted))
  end
end

-- Layers ------------------------------------------------------------------------------------------------

--- One direction of one layer, from `first` state to last.
local function run_direction(self, kind, call, x, layer, reverse)
  local place = (layer - 1) * call.directions + (reverse and 2 or 1)
  local suffix = ("_l%d%s"):format(layer - 1, reverse and "_reverse" or "")
  local output, h, c = apply(self, kind, x, call.h and call.h:select(1, place), call.c and call.c:select(1, place),
    suffix, call.lengths, self.batch_first, reverse)
  call.last_h[place], call.last_c[place] = h, c
  return output
end

local function run_layers(self, kind, call, x)
  for layer = 1, self.num_layers do
    local output = run_direction(self, kind, call, x, layer, false)
    if self.bidirectional then
      output = optlua.cat({ output, run_direction(self, kind, call, x, layer, true) }, -1)
    end
    x = layer < self.num_layers and output:dropout(self.dropout, self.training) or output
  end
  local h = optlua.stack(call.last_h, 1)
  return x, kind.memory and { h, optlua.stack(call.last_c, 1) } or h
end

--- Lengths as int64 (B), from a tensor or a list.
local function lengths_of(what, lengths)
  if lengths == nil or optlua.is_tensor(lengths) then return lengths end
  if type(lengths) ~= "table" then
    blame(("%s: lengths: expected a tensor or a list, got %s"):format(what, type(lengths)))
  end
  return optlua.tensor(lengths, { dtype = "int64" })
end

--- A batch (T, B, I), or (B, T, I) with batch_first.
local function run_batch(self, what, kind, x, lengths, h, c)
  if x.ndim ~= 3 or x.shape[3] ~= self.input_size then
    blame(("%s: input has shape %s, wants (%s, %d)"):format(what, shape_text(x),
      self.batch_first and "batch, steps" or "steps, batch", self.input_size))
  end
  local directions = self.bidirectional and 2 or 1
  local B = x.shape[self.batch_first and 1 or 2]
  check_state(what, "h", h, self.num_layers * directions, B, self.hidden_size)
  check_state(what, "c", c, self.num_layers * directions, B, self.hidden_size)
  local call = { directions = directions, lengths = lengths_of(what, lengths), h = h, c = c, last_h = {}, last_c = {} }
  return run_layers(self, kind, call, x)
end

--- Applies fn to a tensor, or to both of a pair.
local function each(state, fn)
  if type(state) == "table" then return { fn(state[1]), fn(state[2]) } end
  return fn(state)
end

--- One sequence (T, I).
local function run_single(self, what, kind, x, h, c)
  local batch = self.batch_first and 1 or 2
  local output, state = run_batch(self, what, kind, x:unsqueeze(batch), nil, h and h:unsqueeze(2), c and c:unsqueeze(2))
  return output:squeeze(batch), each(state, function(s) return s:squeeze(2) end)
end

local function run_packed(self, what, kind, packed, h, c)
  local x, lengths = packing.pad_packed_sequence(packed, { batch_first = self.batch_first })
  local output, state = run_batch(self, what, kind, x, lengths, h, c)
  return packing.pack_like(packed, output, self.batch_first), state
end

local function forward(self, kind, input, state, ...)
  local what = "nn." .. self:type()
  local lengths = self.call:values(...)
  local h, c = state_of(what, kind, state)
  if packing.is_packed(input) and lengths then
    blame(what .. ": lengths: a PackedSequence has its own")
  end
  if packing.is_packed(input) then return run_packed(self, what, kind, input, h, c) end
  if not optlua.is_tensor(input) then blame(("%s: tensor expected, got %s"):format(what, type(input))) end
  if input.ndim == 2 and not lengths then return run_single(self, what, kind, input, h, c) end
  return run_batch(self, what, kind, input, lengths, h, c)
end

local function extra_repr(self)
  local words = { tostring(self.input_size), tostring(self.hidden_size) }
  local function add(name, default)
    if self[name] ~= default then words[#words + 1] = ("%s=%s"):format(name, tostring(self[name])) end
  end
  add("num_layers", 1)
  add("bias", true)
  add("batch_first", false)
  add("dropout", 0)
  add("bidirectional", false)
  return table.concat(words, ", ")
end

--- Makes the class of a kind.
local function layer_class(name)
  local class, what, kind = module.class(name), "nn." .. name, kinds[name]
  local count = { default = 1, integer = true, min = 1, max = 10000 }
  local list = { { "input_size", size }, { "hidden_size", size }, { "num_layers", count } }
  list[#list + 1] = kind.option
  for _, option in ipairs {
    { "bias", true }, { "batch_first", false }, { "dropout", { default = 0, min = 0, max = 1 } },
    { "bidirectional", false }, { "dtype", "float32" },
  } do list[#list + 1] = option end
  class.signature = signature.new(what, list)

  function class:init(...)
    local opts = self.signature:read(...)
    for _, option in ipairs(list) do
      if option[1] ~= "dtype" then self[option[1]] = opts[option[1]] end
    end
    local directions = self.bidirectional and 2 or 1
    for layer = 1, self.num_layers do
      local inputs = layer == 1 and self.input_size or directions * self.hidden_size
      for direction = 1, directions do
        add_weights(self, kind.gates, inputs, ("_l%d%s"):format(layer - 1, direction == 2 and "_reverse" or ""), opts)
      end
    end
  end

  class.inputs = {} -- a tensor, or packed sequences: forward sees
  class.call = signature.new(what, { { "lengths", { required = false, type = "any" } } })

  function class:forward(input, state, ...) return forward(self, kind, input, state, ...) end

  class.extra_repr = extra_repr
  return class
end

--- Long short-term memory (Hochreiter & Schmidhuber, 1997; Gers et al., 2000): input (T, B, input_size), or
--- (B, T, input_size) with batch_first, or (T, input_size) without a batch, or a PackedSequence; and perhaps
--- { h, c }, each (num_layers * directions, B, hidden_size). Returns the output (T, B, directions * hidden_size) and
--- the last { h, c }. `{ lengths = … }` (B), third, says how many steps of each row count: states stop there, and
--- outputs behind are 0.
---
--- Parameters weight_ih_l0 (4H, input), weight_hh_l0 (4H, H), bias_ih_l0 and bias_hh_l0 (4H), gates in the order
--- input, forget, cell, output; then _l0_reverse, _l1 …; uniform in ±1/√H. dropout falls on the output of every
--- layer but the last.
---@class nn.LSTM: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, opts?: { num_layers?: integer, bias?: boolean, batch_first?: boolean, dropout?: number, bidirectional?: boolean, dtype?: string }): nn.LSTM
local LSTM = layer_class "LSTM"

LSTM.samples = [[
  { { 3, 4 }, t(5, 2, 3) },
  { { 3, 2, 2, { batch_first = true, bidirectional = true } }, t(2, 4, 3), { t(4, 2, 2), t(4, 2, 2) } },
  { { 3, 2, { bias = false } }, t(4, 3), { t(1, 2), t(1, 2) } },
  { { 3, 2, { bidirectional = true } }, t(5, 3, 3), { t(2, 3, 2), t(2, 3, 2) },
    { lengths = optlua.tensor({ 2, 5, 1 }, { dtype = "int64" }) } },
  { { 3, 2 }, t(2, 4, 3):transpose(1, 2) },
]]

--- Gated recurrent units (Cho et al., 2014); the reset comes after the product, as in PyTorch. Otherwise as
--- nn.LSTM, with a state h alone and 3H gates in the order reset, update, new.
---@class nn.GRU: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, opts?: { num_layers?: integer, bias?: boolean, batch_first?: boolean, dropout?: number, bidirectional?: boolean, dtype?: string }): nn.GRU
local GRU = layer_class "GRU"

GRU.samples = [[
  { { 3, 4 }, t(5, 2, 3) },
  { { 3, 2, 2, { batch_first = true, bidirectional = true } }, t(2, 4, 3), t(4, 2, 2) },
  { { 3, 2, { bias = false } }, t(4, 3), t(1, 2) },
  { { 3, 2, { bidirectional = true } }, t(5, 3, 3), t(2, 3, 2),
    { lengths = optlua.tensor({ 2, 5, 1 }, { dtype = "int64" }) } },
]]

--- Plain recurrence h = tanh(W x + U h + b) (Elman, 1990), or with nonlinearity "relu". Otherwise as nn.LSTM, with a
--- state h alone and H gates.
---@class nn.RNN: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, opts?: { num_layers?: integer, nonlinearity?: "tanh"|"relu", bias?: boolean, batch_first?: boolean, dropout?: number, bidirectional?: boolean, dtype?: string }): nn.RNN
local RNN = layer_class "RNN"

RNN.samples = [[
  { { 3, 4 }, t(5, 2, 3) },
  { { 3, 2, 2, { batch_first = true, bidirectional = true } }, t(2, 4, 3), t(4, 2, 2) },
  { { 3, 2, 1, "relu", { bias = false } }, t(4, 3), t(1, 2) },
  { { 3, 2, { bidirectional = true } }, t(5, 3, 3), t(2, 3, 2),
    { lengths = optlua.tensor({ 2, 5, 1 }, { dtype = "int64" }) } },
]]

-- Cells -------------------------------------------------------------------------------------------------

--- Makes the class of one step of a kind.
local function cell_class(name)
  local class, what, kind = module.class(name .. "Cell"), ("nn.%sCell"):format(name), kinds[name]
  local list = { { "input_size", size }, { "hidden_size", size }, { "bias", true } }
  list[#list + 1] = kind.option
  list[#list + 1] = { "dtype", "float32" }
  class.signature = signature.new(what, list)

  function class:init(...)
    local opts = self.signature:read(...)
    self.input_size = opts.input_size
    self.hidden_size = opts.hidden_size
    self.nonlinearity = opts.nonlinearity
    add_weights(self, kind.gates, self.input_size, "", opts)
  end

  function class:forward(x, state)
    local h, c = state_of(what, kind, state)
    if (x.ndim ~= 1 and x.ndim ~= 2) or x.shape[x.ndim] ~= self.input_size then
      blame(("%s: input has shape %s, wants (batch, %d) or (%d)"):format(what, shape_text(x), self.input_size,
        self.input_size))
    end
    local single = x.ndim == 1
    if single then x, h, c = x:unsqueeze(1), h and h:unsqueeze(1), c and c:unsqueeze(1) end
    check_state(what, "h", h, x.shape[1], self.hidden_size)
    check_state(what, "c", c, x.shape[1], self.hidden_size)
    local _, next_h, next_c = apply(self, kind, x:unsqueeze(1), h, c, "")
    if single then next_h, next_c = next_h:squeeze(1), next_c and next_c:squeeze(1) end
    return next_h, next_c
  end

  function class:extra_repr()
    local text = ("%d, %d"):format(self.input_size, self.hidden_size)
    return rawget(self, "bias_ih") and text or text .. ", bias=false"
  end

  return class
end

--- One step of an LSTM: input (B, input_size) or (input_size), and perhaps { h, c }; returns the next h and c.
---@class nn.LSTMCell: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, opts?: { bias?: boolean, dtype?: string }): nn.LSTMCell
local LSTMCell = cell_class "LSTM"
LSTMCell.samples = "{ { 3, 2 }, t(4, 3) }, { { 3, 2, { bias = false } }, t(3), { t(2), t(2) } }"

--- One step of a GRU: input (B, input_size) or (input_size), and perhaps h; returns the next h.
---@class nn.GRUCell: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, opts?: { bias?: boolean, dtype?: string }): nn.GRUCell
local GRUCell = cell_class "GRU"
GRUCell.samples = "{ { 3, 2 }, t(4, 3) }, { { 3, 2, { bias = false } }, t(3), t(2) }"

--- One step of a plain recurrent network: input (B, input_size) or (input_size), and perhaps h; returns the next h.
---@class nn.RNNCell: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, opts?: { bias?: boolean, nonlinearity?: "tanh"|"relu", dtype?: string }): nn.RNNCell
local RNNCell = cell_class "RNN"
RNNCell.samples = [[
  { { 3, 2 }, t(4, 3) }, { { 3, 2, { bias = false, nonlinearity = "relu" } }, t(3), t(2) }
]]

return { RNN = RNN, LSTM = LSTM, GRU = GRU, RNNCell = RNNCell, LSTMCell = LSTMCell, GRUCell = GRUCell }
