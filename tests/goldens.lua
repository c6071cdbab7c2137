-- goldens: recorded gradients, the parameters that other implementations reached on them, and runs of our own classes on the
-- same gradients. Written by golden/make_optim*.py.
local optlua = require "optlua"

local goldens = { STEPS = 100, SEEN = { 1, 10, 100 }, TOLERANCE = { float32 = 2e-6, float64 = 1e-12 } }

local function numbers(line)
  local list = {}
  for word in line:gmatch "%S+" do list[#list + 1] = assert(tonumber(word)) end
  return list
end

local function read_shapes(line)
  local shapes = {}
  for word in line:gmatch "%S+" do
    local shape = {}
    for size in word:gmatch "%d+" do shape[#shape + 1] = math.tointeger(tonumber(size)) end
    shapes[#shapes + 1] = shape
  end
  return shapes
end

--- Reads a file: the version, shapes, first parameters, gradients, and the cases. `rows` are the lines of a case and dtype:
--- the parameters after the steps in SEEN, and what follows them.
function goldens.read(name, rows)
  local next_line = io.lines(("%s/tests/golden/%s"):format(os.getenv "ROOT", name))
  local golden = { version = next_line(), shapes = read_shapes(next_line()), steps = {}, cases = {} }
  golden.start = numbers(next_line())
  for t = 1, goldens.STEPS do golden.steps[t] = numbers(next_line()) end
  for head in next_line do
    local class, options = head:match "^(%S+) (.*)$"
    local case = { class = class, text = options, options = load("return " .. options)(), seen = {} }
    for _, dtype in ipairs { "float32", "float64" } do
      case.seen[dtype] = {}
      for i = 1, rows do case.seen[dtype][i] = numbers(next_line()) end
    end
    golden.cases[#golden.cases + 1] = case
  end
  return golden
end

--- Cuts a line of numbers into tensors; `learn`: parameters.
function goldens.tensors(golden, list, dtype, learn)
  local result, at = {}, 0
  for i, shape in ipairs(golden.shapes) do
    local count = 1
    for _, size in ipairs(shape) do count = count * size end
    local part = table.move(list, at + 1, at + count, 1, {})
    at = at + count
    result[i] = optlua.tensor(part, { dtype = dtype }):reshape(shape)
    result[i].requires_grad = learn or false
  end
  return result
end

--- The elements of all parameters.
function goldens.flatten(params)
  local list = {}
  for _, p in ipairs(params) do
    for _, x in ipairs(p:detach():flatten():totable()) do list[#list + 1] = x end
  end
  return list
end

--- Runs a class on the recorded gradients; visit(t, values) sees the parameters after each step.
---@return optlua.optim.Optimizer optimizer
---@return optlua.Tensor[] params
function goldens.run(golden, class, options, dtype, visit)
  local params = goldens.tensors(golden, golden.start, dtype, true)
  local optimizer = class(params, options)
  for t = 1, goldens.STEPS do
    for i, g in ipairs(goldens.tensors(golden, golden.steps[t], dtype)) do params[i].grad = g end
    optimizer:step()
    visit(t, goldens.flatten(params))
  end
  return optimizer, params
end

--- The largest difference over the largest number that was wanted.
function goldens.worst(got, want)
  local difference, largest = 0, 0
  for i, x in ipairs(want) do
    local d = math.abs(got[i] - x)
    assert(d == d, "NaN")
    difference, largest = math.max(difference, d), math.max(largest, math.abs(x))
  end
  return difference / largest
end

--- Runs a case and raises where a number that was seen is farther off than the tolerance.
function goldens.check(golden, case, class, dtype, tolerance)
  local checked = 0
  local optimizer, params = goldens.run(golden, class, case.options, dtype, function(t, values)
    for i, seen in ipairs(goldens.SEEN) do
      if t == seen then
        local off = goldens.worst(values, case.seen[dtype][i])
        assert(off <= tolerance, ("step %d: %g"):format(t, off))
        checked = checked + 1
      end
    end
  end)
  assert(checked == #goldens.SEEN)
  return optimizer, params
end

-- Whether a case has an option, and besides it nothing but a rate and what the option needs.
local function is_alone(case, option, needed)
  local others = 0
  for name in pairs(case.options) do
    if name ~= option and name ~= needed and name ~= "lr" then others = others + 1 end
  end
  return case.options[option] ~= nil and others == 0
end

--- The options of a class that no case has by itself; `needs`: for an option, the one without which it does nothing.
function goldens.missing(golden, class, needs)
  local missing = {}
  for _, option in ipairs(class.hyper_names) do
    local found = false
    for _, case in ipairs(golden.cases) do
      found = found or case.class == class.name and is_alone(case, option, needs[option])
    end
    if not found then missing[#missing + 1] = option end
  end
  return missing
end

return goldens
