--- trial: a class at work on small parameters, on the losses |p - t|² / 2 with another t at each update; what came of
--- it, and how that differs from another trial.
--
-- The values of parameters and of t are those of waves: a tensor that is cut in two keeps its numbers.
local optlua = require "optlua"
local same_shape = require("optlua.shape").same

---@class optlua.optim.Trial
---@field optimizer optlua.optim.Container
---@field pieces { name: string, shape: integer[], first: integer, tensor: optlua.Tensor }[]
---@field now integer the update that is next, from 1
local Trial = {}
Trial.__index = Trial

local trial = {}

-- Values of a wave: of the elements from number `first` on of a long row.
local function wave(shape, first, speed, phase)
  local count = 1
  for _, size in ipairs(shape) do count = count * size end
  local place = optlua.arange(first, first + count, { dtype = "float64" })
  return (place * speed + phase):sin():to("float32"):reshape(shape)
end

--- Pieces of these shapes, named p1, p2 …, one behind the other.
---@param shapes integer[][]
---@return table[]
function trial.pieces(shapes)
  local pieces, first = {}, 0
  for k, shape in ipairs(shapes) do
    pieces[k] = { name = "p" .. k, shape = shape, first = first }
    first = first + 1000
  end
  return pieces
end

-- One group for all pieces, or as many as are asked for, as a container takes them.
local function groups_of(subject, names)
  local groups = {}
  for k, list in ipairs(names) do
    local group = { name = "group" .. k, match = table.concat(list, "|"), class = subject.class }
    for name, value in pairs(subject.hypers) do group[name] = value end
    groups[k] = group
  end
  return groups
end

--- Makes a container.
---@param list table[] { name, tensor } each
---@param groups table[]
---@param options? table
---@return optlua.optim.Container
function trial.container(list, groups, options)
  local k = 0
  return optlua.optim.container(function()
    k = k + 1
    if list[k] then return list[k][1], list[k][2] end
  end, groups, options)
end

--- Makes a trial.
---@param subject table
---@param given? { pieces?: table[], groups?: string[][], options?: table } pieces default to the subject's shapes, groups (lists
--- of names) to one, and options of the container to none
---@return optlua.optim.Trial
function trial.new(subject, given)
  given = given or {}
  local self = setmetatable({ subject = subject, pieces = {}, now = 1, options = given.options }, Trial)
  local list, names = {}, {}
  for k, piece in ipairs(given.pieces or trial.pieces(subject.shapes)) do
    local tensor = wave(piece.shape, piece.first, 1.3, 0.5)
    tensor.requires_grad = true
    self.pieces[k] = { name = piece.name, shape = piece.shape, first = piece.first, tensor = tensor }
    list[k], names[k] = { piece.name, tensor }, piece.name
  end
  optlua.manual_seed(1)
  self.optimizer = trial.container(list, groups_of(subject, given.groups or { names }), given.options)
  return self
end

-- Another layout of the same values: every second element of a larger row, or a matrix by columns.
local function scatter(tensor)
  local shape = tensor.shape
  if #shape > 1 then return tensor:transpose(1, 2):contiguous():transpose(1, 2) end
  if #shape == 0 then return tensor end
  return optlua.stack({ tensor, tensor }, 2):select(2, 1)
end

-- Sets the gradients of the next update; returns the loss.
local function set_gradients(self)
  local total = 0
  self.optimizer:zero_grad()
  for _, piece in ipairs(self.pieces) do
    if not (self.is_absent and self.is_absent(piece.name, self.now)) then
      local away = piece.tensor:detach() - wave(piece.shape, piece.first, 0.7, 1.1 * self.now)
      if piece.poison then away = away * (0 / 0) end
      total = total + away:square():sum():item() / 2
      piece.tensor.grad = self.strided and scatter(away) or away
    end
  end
  return optlua.tensor(total, { dtype = "float64" })
end

-- Raises when a parameter is not finite.
local function check_finite(self)
  for _, piece in ipairs(self.pieces) do
    if piece.tensor:detach():isfinite():all():item() == 0 then
      error(("the parameter is not finite after %d updates"):format(self.now - 1), 0)
    end
  end
end

--- Takes steps.
---@param count integer
---@return optlua.optim.Trial self
function Trial:run(count)
  for _ = 1, count do
    self.optimizer:step(function() return set_gradients(self) end)
    self.now = self.now + 1
  end
  check_finite(self)
  return self
end

--- Takes steps whose gradients come from a backward.
---@param count integer
---@return optlua.optim.Trial self
function Trial:run_backward(count)
  for _ = 1, count do
    self.optimizer:zero_grad()
    local loss = 0
    for _, piece in ipairs(self.pieces) do
      loss = loss + (piece.tensor - wave(piece.shape, piece.first, 0.7, 1.1 * self.now)):square():sum() / 2
    end
    loss:backward()
    self.optimizer:step()
    self.now = self.now + 1
  end
  check_finite(self)
  return self
end

local function copy(value)
  if optlua.is_tensor(value) then return value:detach():clone() end
  if type(value) ~= "table" then return value end
  local list = {}
  for key, item in pairs(value) do list[key] = copy(item) end
  return list
end

--- A copy of what the optimizer saves.
---@return table<string, any>
function Trial:saved() return copy(self.optimizer:state_dict()) end

--- A copy of all that there is: parameters, states, counts, numbers.
---@return table<string, any>
function Trial:picture()
  local picture = self:saved()
  for _, piece in ipairs(self.pieces) do picture["the parameter " .. piece.name] = copy(piece.tensor) end
  return picture
end

--- Goes on as another trial did, of which this is known: parameters, what was saved, and the update that is next.
---@param picture table<string, any>
---@param saved table<string, any>
---@param now integer
---@return optlua.optim.Trial self
function Trial:resume(picture, saved, now)
  for _, piece in ipairs(self.pieces) do piece.tensor:detach():copy_(picture["the parameter " .. piece.name]) end
  self.optimizer:load_state_dict(saved)
  self.now = now
  return self
end

-- Differences ------------------------------------------------------------------------------------------------

local function same_bits(a, b) -- 0 and -0 differ by their reciprocals
  if a:equal(b) then return (a:to "float64"):reciprocal():equal((b:to "float64"):reciprocal()) end
  local holes = a:isnan()
  return holes:any():item() ~= 0 and holes:equal(b:isnan()) and a:masked_fill(holes, 0):equal(b:masked_fill(holes, 0))
end

local function differs(a, b)
  if optlua.is_tensor(a) and optlua.is_tensor(b) then
    return a.dtype ~= b.dtype or not same_shape(a, b) or not same_bits(a, b)
  end
  if type(a) ~= "table" or type(b) ~= "table" then return a ~= b and (a == a or b == b) end
  for key, value in pairs(a) do
    if differs(value, b[key]) then return true end
  end
  for key in pairs(b) do
    if a[key] == nil then return true end
  end
  return false
end

-- The largest distance of two tensors, or both values, as text.
local function gap(a, b)
  if not (optlua.is_tensor(a) and optlua.is_tensor(b)) then
    local plain = type(a) ~= "table" and type(b) ~= "table" and not optlua.is_tensor(a) and not optlua.is_tensor(b)
    return plain and (": %s and %s"):format(a, b) or ""
  end
  if not same_shape(a, b) then return "" end
  return (" by up to %.3g"):format((a:to "float64" - b:to "float64"):abs():max():item())
end

--- Raises when two pictures differ.
---@param a table<string, any>
---@param b table<string, any>
---@param said string what that means, for the message
---@param pattern? string of the names that count; default all
function trial.same(a, b, said, pattern)
  local names = {}
  for name in pairs(a) do names[name] = true end
  for name in pairs(b) do names[name] = true end
  local list = {}
  for name in pairs(names) do list[#list + 1] = name end
  table.sort(list)
  for _, name in ipairs(list) do
    if name:find(pattern or "") and differs(a[name], b[name]) then
      error(("%s: %s differ%s%s"):format(said, name, name:find "s$" and "" or "s", gap(a[name], b[name])), 0)
    end
  end
end

--- The same of trials whose tensors are cut differently: all elements of all parameters, in their order.
---@param a optlua.optim.Trial
---@param b optlua.optim.Trial
---@param said string
function trial.same_elements(a, b, said)
  local function row(one)
    local list = {}
    for k, piece in ipairs(one.pieces) do list[k] = piece.tensor:detach():reshape(-1) end
    return { ["the parameters"] = optlua.cat(list, 1) }
  end
  trial.same(row(a), row(b), said)
end

return trial
