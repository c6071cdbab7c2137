-- The rules against recorded numbers: PyTorch's optimizers on the same gradients (golden/optim.txt, and
-- golden/sparse.txt for those with sparse ones), and the formulas of the papers written out in plain Lua.
local optlua = require "optlua"
local optim = optlua.optim

local STEPS, SEEN = 100, { 1, 10, 100 }
local TOLERANCE = { float32 = 2e-6, float64 = 1e-12 }

local function numbers(line)
  local list = {}
  for word in line:gmatch "%S+" do list[#list + 1] = assert(tonumber(word)) end
  return list
end

local function read_golden(name)
  local next_line = io.lines(os.getenv "ROOT" .. "/tests/golden/" .. name)
  local golden = { version = next_line(), shapes = {}, steps = {}, cases = {} }
  for word in next_line():gmatch "%S+" do
    local shape = {}
    for size in word:gmatch "%d+" do shape[#shape + 1] = math.tointeger(tonumber(size)) end
    table.insert(golden.shapes, shape)
  end
  golden.start = numbers(next_line())
  for t = 1, STEPS do golden.steps[t] = numbers(next_line()) end
  for head in next_line do
    local name, options = head:match "^(%S+) (.*)$"
    local case = { class = name, text = options, options = load("return " .. options)(), seen = { float32 = {}, float64 = {} } }
    for _, dtype in ipairs { "float32", "float64" } do
      for i in ipairs(SEEN) do case.seen[dtype][i] = numbers(next_line()) end
    end
    table.insert(golden.cases, case)
  end
  return golden
end

-- Cuts a line of numbers into tensors.
local function tensors(golden, list, dtype, learn)
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

local function flatten(params)
  local list = {}
  for _, p in ipairs(params) do
    for _, x in ipairs(p:detach():flatten():totable()) do list[#list + 1] = x end
  end
  return list
end

-- Runs a class on the recorded gradients; visit(t, values) sees the parameters after each step.
local function run(golden, class, options, dtype, visit)
  local params = tensors(golden, golden.start, dtype, true)
  local optimizer = class(params, options)
  for t = 1, STEPS do
    for i, g in ipairs(tensors(golden, golden.steps[t], dtype)) do params[i].grad = g end
    optimizer:step()
    visit(t, flatten(params))
  end
end

local function worst(got, want)
  local difference, largest = 0, 0
  for i, x in ipairs(want) do
    local d = math.abs(got[i] - x)
    assert.is_true(d == d)
    difference, largest = math.max(difference, d), math.max(largest, math.abs(x))
  end
  return difference / largest
end

local golden = read_golden "optim.txt"

-- A test for each case of a file and each dtype.
local function compare(recorded)
  for _, case in ipairs(recorded.cases) do
    for _, dtype in ipairs { "float32", "float64" } do
      it(("%s %s, %s"):format(case.class, case.text, dtype), function()
        local checked = 0
        run(recorded, optim[case.class], case.options, dtype, function(t, values)
          for i, seen in ipairs(SEEN) do
            if t == seen then
              local error = worst(values, case.seen[dtype][i])
              assert.is_true(error <= TOLERANCE[dtype], ("step %d: %g"):format(t, error))
              checked = checked + 1
            end
          end
        end)
        assert.equal(#SEEN, checked)
      end)
    end
  end
end

describe("golden numbers of " .. golden.version, function()
  compare(golden)
  compare(read_golden "sparse.txt")
end)

-- Lion as in the paper, one number at a time.
local function naive_lion(golden_start, steps, o)
  local p, m = table.move(golden_start, 1, #golden_start, 1, {}), {}
  for t = 1, STEPS do
    for i, x in ipairs(p) do
      local g = o.maximize and -steps[t][i] or steps[t][i]
      local c = o.betas[1] * (m[i] or 0) + (1 - o.betas[1]) * g
      local sign = c > 0 and 1 or c < 0 and -1 or 0
      p[i] = x - o.lr * (sign + o.weight_decay * x)
      m[i] = o.betas[2] * (m[i] or 0) + (1 - o.betas[2]) * g
    end
  end
  return p
end

describe("Lion", function()
  for _, o in ipairs {
    { lr = 1e-4, betas = { 0.9, 0.99 }, weight_decay = 0, maximize = false },
    { lr = 1e-2, betas = { 0.8, 0.95 }, weight_decay = 0.1, maximize = true },
  } do
    it(("equals the paper's algorithm at lr %g"):format(o.lr), function()
      local want = naive_lion(golden.start, golden.steps, o)
      local last
      run(golden, optim.Lion, o, "float64", function(_, values) last = values end)
      assert.is_true(worst(last, want) <= 1e-12)
    end)
  end
end)
