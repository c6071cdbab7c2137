--- descent: whether a class goes downhill: on a quadratic, and in Rosenbrock's valley.
local optlua = require "optlua"
local trial = require "optlua.optim.check.trial"

local descent = {}

local UPDATES = 100
local ENOUGH = 1e-9 -- of the first loss: it has arrived
local RATES = { 1, 0.1, 0.01, 0.001, 0.0001 } -- times the default

-- Both are functions of the elements of a parameter in a row, a half of them x and the others y; `start` are theirs.

-- Half of the sum of a (x - 1)², with a between 1/2 and 1, of neighbours not alike.
local function quadratic(row)
  local weight = (optlua.arange(row:numel(), { dtype = "float32" }) * 1.3):sin() / 4 + 0.75
  return (weight * (row - 1):square()):sum() / 2
end

-- Rosenbrock, 1960: the sum of 100 (y - x²)² + (1 - x)².
local function rosenbrock(row)
  local n = row:numel() // 2
  local x, y = row:narrow(1, 1, n), row:narrow(1, n + 1, n)
  return ((y - x * x):square() * 100 + (1 - x):square()):sum()
end

local function start(shape, x, y)
  local row = optlua.zeros(shape):reshape(-1)
  local n = row:numel()
  row:fill_(x)
  row:narrow(1, n // 2 + 1, n - n // 2):fill_(y)
  local tensor = row:reshape(shape):clone()
  tensor.requires_grad = true
  return tensor
end

-- The loss before and after some updates, and how many there were. With `against`, gradients have the opposite sign.
local function descend(subject, problem, hypers, options, against)
  optlua.manual_seed(1)
  local list, groups = {}, { { match = "*", class = subject.class } }
  for k, shape in ipairs(subject.shapes) do list[k] = { "p" .. k, start(shape, problem.x, problem.y) } end
  for name, value in pairs(hypers) do groups[1][name] = value end
  local optimizer = trial.container(list, groups, options)
  local function loss()
    local total = 0
    for _, pair in ipairs(list) do total = total + problem.loss(pair[2]:reshape(-1)) end
    return total
  end
  local function closure()
    optimizer:zero_grad()
    local value = loss()
    value:backward()
    for _, pair in ipairs(against and list or {}) do pair[2].grad:neg_() end
    return value
  end
  local first, last, updates = loss():item(), math.huge, 0
  while updates < UPDATES and not (last < first * ENOUGH) do -- luacheck: ignore (NaN)
    local value = optimizer:step(closure)
    if value == nil then error("the step never calls its closure", 0) end
    last = value:item()
    updates = updates + 1
  end
  optimizer:eval()
  return first, loss():item(), updates
end

local function with_rate(subject, factor)
  local hypers = {}
  for name, value in pairs(subject.hypers) do hypers[name] = value end
  if subject.lr then hypers.lr = subject.lr * factor end
  return hypers
end

-- How a loss went that did not fall.
local function course(first, last)
  return ("the loss went from %.4g to %s"):format(first, last ~= last and "NaN" or ("%.4g"):format(last))
end

-- The hyperparameters with the first of the rates that goes downhill, both losses, and the number of updates; else nil and how the
-- first failed.
local function search(subject, problem)
  local why
  for _, factor in ipairs(subject.lr and RATES or { 1 }) do
    local hypers = with_rate(subject, factor)
    local ok, first, last, updates = pcall(descend, subject, problem, hypers)
    if ok and last < first * (1 - 1e-6) then return hypers, first, last, updates end
    why = why or not ok and first or course(first, last)
  end
  return nil, why
end

local function text(hypers, first, last, updates)
  return ("%s%.4g to %.4g in %d updates"):format(hypers.lr and ("lr %.4g: "):format(hypers.lr) or "", first, last, updates)
end

local function fall(subject, problem)
  local hypers, first, last, updates = search(subject, problem)
  if hypers then return text(hypers, first, last, updates), hypers end
  error(("%s%s"):format(first, subject.lr and (", with lr = %g; smaller ones down to %g fail too"):format(subject.lr, subject.lr * RATES[#RATES])
    or ""), 0)
end

local bowl = { loss = quadratic, x = -0.5, y = 0.25 }
local valley = { loss = rosenbrock, x = -1.2, y = 1 }

-- Whether the rate that goes downhill does the same with gradients of the opposite sign.
local function is_blind(subject, hypers)
  local _, last = descend(subject, bowl, hypers)
  local ok, _, other = pcall(descend, subject, bowl, hypers, nil, true)
  return ok and last == other
end

--- Falls on a quadratic; from here on the subject is tried with the rate that did.
function descent.quadratic(subject)
  local said, hypers = fall(subject, bowl)
  if is_blind(subject, hypers) then error(said .. "; but gradients are not read: opposite ones do the same", 0) end
  subject.hypers = hypers
  return said
end

--- Falls in Rosenbrock's valley.
function descent.rosenbrock(subject)
  for _, shape in ipairs(subject.shapes) do
    if optlua.zeros(shape):numel() > 1 then return (fall(subject, valley)) end
  end
  return false, "no parameter of two elements is accepted"
end

--- Falls on the quadratic with options of the container, at the rate that did without them.
---@param subject table
---@param options table<string, any>
---@return string said
function descent.with_options(subject, options)
  local first, last = descend(subject, bowl, subject.hypers, options)
  if not (last < first * (1 - 1e-6)) then error(course(first, last), 0) end -- luacheck: ignore
  local _, plain = descend(subject, bowl, subject.hypers)
  return ("%.4g to %.4g (float32: %.4g)"):format(first, last, plain)
end

return descent
