-- Gradients on their way into a rule: divided by a scale, clipped in four ways, cleared; never written.
local optlua = require "optlua"
local nn, optim, schedule = optlua.nn, optlua.optim, optlua.schedule

local fails = require("fails").matching

local function values(tensor) return tensor:detach():flatten():totable() end

local function param(value, gradient, dtype)
  local p = optlua.tensor(value, { dtype = dtype or "float64" })
  p.requires_grad = true
  if gradient then p.grad = optlua.tensor(gradient, { dtype = dtype or "float64" }) end
  return p
end

-- Parameters p1, p2 … as an iterator.
local function iterate(list)
  local i = 0
  return function()
    i = i + 1
    if list[i] then return "p" .. i, list[i] end
  end
end

-- A container of SGD over parameters, whose updates at lr 1 are the gradients that the rule sees.
local function make(list, opts, groups)
  opts.lr = 1
  if groups then opts.class = "SGD" end
  return optim.container(iterate(list), groups or "SGD", opts)
end

-- The gradients that the rule sees, of each parameter.
local function seen(gradients, opts, groups, dtype)
  local list, result = {}, {}
  for i, g in ipairs(gradients) do list[i] = param(optlua.zeros({ #g }):totable(), g, dtype) end
  make(list, opts, groups):step()
  for i, p in ipairs(list) do
    result[i] = values(-p)
    assert.same(values(optlua.tensor(gradients[i], { dtype = dtype or "float64" })), values(p.grad))
  end
  return result
end

-- Golden numbers -------------------------------------------------------------------------------------------

local SHAPES, SEEN = { { 3, 4 }, { 5 }, { 2, 1, 2 } }, { 1, 10, 100 }

-- As in make_clip.py; places count from 0.
local function element(t, k, i) return (((t + 2) ^ 2 * (k + 3) + (i + 5) ^ 2 * (t + 7) + 11 * i) % 64 - 31) * 2.0 ^ (-4 - 3 * k) end

local function tensors(t, dtype)
  local list = {}
  for k, shape in ipairs(SHAPES) do
    local count, numbers = 1, {}
    for _, size in ipairs(shape) do count = count * size end
    for i = 1, count do numbers[i] = element(t, k - 1, i - 1) end
    list[k] = optlua.tensor(numbers, { dtype = dtype }):reshape(shape)
  end
  return list
end

local function numbers(line)
  local list = {}
  for word in line:gmatch "%S+" do list[#list + 1] = assert(tonumber(word)) end
  return list
end

local function read_golden()
  local next_line = io.lines(os.getenv "ROOT" .. "/tests/golden/clip.txt")
  local golden = { version = next_line() }
  for head in next_line do
    local case = { text = head, seen = {} }
    for _, dtype in ipairs { "float32", "float64" } do
      case.seen[dtype] = {}
      for _, t in ipairs(SEEN) do case.seen[dtype][t] = numbers(next_line()) end
    end
    golden[#golden + 1] = case
  end
  return golden
end

local function worst(params, want)
  local difference, largest, at = 0, 0, 0
  for _, p in ipairs(params) do
    for _, x in ipairs(values(p)) do
      at = at + 1
      assert.is_true(x == x)
      difference, largest = math.max(difference, math.abs(x - want[at])), math.max(largest, math.abs(want[at]))
    end
  end
  assert.equal(#want, at)
  return difference / largest
end

describe("clipping before a step, as " .. read_golden().version .. " does it,", function()
  for _, case in ipairs(read_golden()) do
    for dtype, tolerance in pairs { float32 = 2e-6, float64 = 1e-12 } do
      it(case.text .. " " .. dtype, function()
        local params = tensors(-1, dtype)
        for _, p in ipairs(params) do p.requires_grad = true end
        local optimizer = optim.container(iterate(params), { { name = "a", match = "p1|p2" }, { name = "b", match = "p3" } },
          load("return " .. case.text)())
        for t = 1, SEEN[#SEEN] do
          for k, g in ipairs(tensors(t - 1, dtype)) do params[k].grad = g end
          optimizer:step()
          local want = case.seen[dtype][t]
          if want then assert.is_true(worst(params, want) <= tolerance, ("step %d: %g"):format(t, worst(params, want))) end
        end
      end)
    end
  end
end)

-- One way after the other ----------------------------------------------------------------------------------

-- PyTorch's clip_grad_norm_ on lists of numbers.
local function clip_norm(lists, limit)
  local square = 0
  for _, list in ipairs(lists) do
    for _, x in ipairs(list) do square = square + x * x end
  end
  local factor = math.min(1, limit / (math.sqrt(square) + 1e-6))
  for _, list in ipairs(lists) do
    for i, x in ipairs(list) do list[i] = x * factor end
  end
end

local function near(want, got)
  assert.equal(#want, #got)
  for i, list in ipairs(want) do
    for k, x in ipairs(list) do assert.near(x, got[i][k], 1e-12 * math.max(1, math.abs(x))) end
  end
end

describe("the norm of a group", function()
  local groups = { { name = "a", match = "p1|p2" }, { name = "b", match = "p3" } }

  it("is clipped for each by itself, and then that of all", function()
    local want = { { 3, 4 }, { 12 }, { 0.5 } }
    clip_norm({ want[1], want[2] }, 6.5)
    clip_norm({ want[3] }, 6.5)
    near(want, seen({ { 3, 4 }, { 12 }, { 0.5 } }, { max_group_norm = 6.5 }, groups))
    clip_norm(want, 2)
    near(want, seen({ { 3, 4 }, { 12 }, { 0.5 } }, { max_group_norm = 6.5, max_norm = 2 }, groups))
  end)

  it("may have a limit of its own, or none", function()
    local want = { { 3, 4 }, { 12 }, { 50 } }
    clip_norm({ want[3] }, 2)
    near(want, seen({ { 3, 4 }, { 12 }, { 50 } }, {}, { groups[1], { name = "b", match = "p3", max_group_norm = 2 } }))
    near({ { 3, 4 }, { 12 }, { 50 } }, seen({ { 3, 4 }, { 12 }, { 50 } }, { max_group_norm = math.huge }, groups))
  end)

  it("is that of the largest value, where norm_type says so", function()
    local got = seen({ { 3, -4 }, { 2 }, { 1 } }, { max_group_norm = 2, max_norm = 1.5, norm_type = math.huge }, groups)
    local first = 2 / (4 + 1e-6)
    local second = 1.5 / (4 * first + 1e-6)
    near({ { 3 * first * second, -4 * first * second }, { 2 * first * second }, { second } }, got)
  end)

  it("does not overflow, nor that of all after it", function()
    local gradients = {}
    for i = 1, 100 do gradients[i] = { 1e20 } end
    local got = seen(gradients, { max_group_norm = 1 }, { { name = "all", match = "*" } }, "float32")
    for i = 1, 100 do assert.near(0.1, got[i][1], 1e-7) end
    got = seen({ { 3e200 }, { 4e200 }, { 1e-200 } }, { max_group_norm = 5e199, max_norm = 5e198 }, groups)
    near({ { 3e198 }, { 4e198 }, { 1e-202 } }, got)
  end)

  it("of small gradients leaves them alone, bit for bit", function()
    assert.same({ { 0.3 }, { 0.4 }, { 0.1 } }, seen({ { 0.3 }, { 0.4 }, { 0.1 } }, { max_group_norm = 1, max_norm = 1 }, groups))
  end)

  it("must be finite", function()
    for _, x in ipairs { math.huge, 0 / 0 } do
      local p, q = param({ 0 }, { 1 }), param({ 0 }, { x })
      local optimizer = make({ p, q }, {}, { { name = "a", match = "p1", max_group_norm = math.huge }, { name = "b", match = "*" } })
      fails("gradient of parameter 'p2' is not finite", optimizer.step, optimizer)
      assert.equal(0, p:item())
    end
    fails("max_group_norm: expected a number at least 0, got %-1", make, { param { 0 } }, { max_group_norm = -1 })
  end)

  it("without a limit that holds changes no bit of the norm of all", function()
    optlua.manual_seed(3)
    local list, parts = {}, {}
    for i = 1, 40 do
      list[i] = param(optlua.zeros({ 10 * i }):totable(), optlua.randn({ 10 * i }, { dtype = "float64" }):totable())
      parts[i] = { match = "p" .. i }
    end
    local optimizer = make(list, { max_norm = 2, max_group_norm = 1e3 }, parts)
    optimizer:step()
    local factor = 2 / (optimizer:stats().grad_norm + 1e-6)
    for _, p in ipairs(list) do assert.is_true((p:detach() + p.grad * factor):eq(0):all():item() ~= 0) end
  end)

  it("of nothing clips nothing", function()
    local list = { param({ 0 }, { 30 }), param { 1 }, param({}, {}) }
    make(list, { max_group_norm = 3, max_norm = 300, norm_type = math.huge }, { { name = "a", match = "p2" }, { name = "b", match = "*" } }):step()
    assert.near(-3, list[1]:item(), 1e-6)
    assert.equal(1, list[2]:item())
  end)
end)

describe("clipping by value", function()
  it("keeps each element within bounds, of each group its own", function()
    assert.same({ { 0.5, -0.5, 0.25 } }, seen({ { 3, -0.75, 0.25 } }, { clip_value = 0.5 }))
    assert.same({ { 1, -0.75 }, { 0.5 } }, seen({ { 3, -0.75 }, { 0.5 } }, { clip_value = 1 },
      { { name = "a", match = "p1" }, { name = "b", match = "p2", clip_value = 0.5 } }))
    assert.same({ { 0 } }, seen({ { 3 } }, { clip_value = 0 }))
    assert.same({ { 3 } }, seen({ { 3 } }, { clip_value = math.huge }))
    assert.same({ { 1 } }, seen({ { math.huge } }, { clip_value = 1 }))
  end)

  it("lets NaN be", function()
    local p = param({ 0 }, { 0 / 0 })
    make({ p }, { clip_value = 1 }):step()
    assert.is_true(p:item() ~= p:item())
  end)

  it("is an option of a class, too", function()
    local p, q = param({ 0 }, { 3 }), param({ 0 }, { 3 })
    local optimizer = optim.SGD({ { name = "a", params = { p }, clip_value = 0.5 }, { name = "b", params = { q } } }, { lr = 1 })
    optimizer:step()
    assert.same({ -0.5, -3 }, { p:item(), q:item() })
    assert.equal(0.5, optimizer.groups.a.clip_value)
    optimizer.groups.a.clip_value = 1
    optimizer:step()
    assert.same({ -1.5, -6 }, { p:item(), q:item() })
    fails("unknown field \"clip_value\"", function() return optimizer.groups.b.clip_value end)
  end)

  it("is refused where it is none", function()
    fails("clip_value: expected a number at least 0, got %-1", make, { param { 0 } }, { clip_value = -1 })
    fails("clip_value: expected a number at least 0, got NaN", make, { param { 0 } }, { clip_value = 0 / 0 })
    fails("group 'a': clip_value: expected a number at least 0, got \"1\"", make, { param { 0 } }, {}, { { name = "a", match = "*", clip_value = "1" } })
    fails('unknown hyperparameter "clip_valu" %(did you mean "clip_value"%?%)', make, { param { 0 } }, { clip_valu = 1 }, { { match = "*" } })
    fails("'clip_value' is a word that groups use themselves", optim.define,
      { name = "X", hyper = { clip_value = 1 }, update = function(p) return p end })
    local optimizer = optim.SGD({ param { 0 } }, { clip_value = 1 })
    fails("clip_value: expected a number at least 0, got %-2", function() optimizer.groups.default.clip_value = -2 end)
  end)
end)

describe("adaptive clipping", function()
  -- timm's adaptive_clip_grad of rows of numbers.
  local function adapt(rows, weights, factor, eps)
    for r, row in ipairs(rows) do
      local g, w = 0, 0
      for i, x in ipairs(row) do g, w = g + x * x, w + weights[r][i] ^ 2 end
      g, w = math.sqrt(g), math.max(math.sqrt(w), eps)
      for i, x in ipairs(row) do row[i] = g < w * factor and x or x * (w * factor / math.max(g, 1e-6)) end
    end
  end

  local function check(weights, gradients, opts, shape)
    local p = param(weights, gradients)
    if shape then
      local q = param(values(p))
      p = q:detach():reshape(shape)
      p.requires_grad, p.grad = true, optlua.tensor(gradients, { dtype = "float64" }):reshape(shape)
    end
    local before = p:detach():clone()
    make({ p }, { agc = opts[1], agc_eps = opts[2] }):step()
    local want = {}
    for r, row in ipairs(gradients) do want[r] = table.move(row, 1, #row, 1, {}) end
    adapt(want, weights, opts[1], opts[2] or 1e-3)
    local flat = {}
    for _, row in ipairs(want) do table.move(row, 1, #row, #flat + 1, flat) end
    for i, x in ipairs(values(before - p:detach())) do assert.near(flat[i], x, 1e-12) end
  end

  it("does nothing where it is infinite, not to rows of zeros either", function()
    for _, opts in ipairs { { agc = math.huge, agc_eps = 0 }, { agc = math.huge } } do
      assert.same({ { 3, 4 } }, seen({ { 3, 4 } }, opts))
    end
    assert.same({ { 0, 0 } }, seen({ { 3, 4 } }, { agc = 1, agc_eps = 0 }))
  end)

  it("scales the gradients of units with weights that are small beside them", function()
    check({ { 3, 4, 0, 0 }, { 0, 0, 0, 0 }, { 1, 1, 1, 1 } }, { { 30, 40, 0, 0 }, { 1, 0, 0, 2 }, { 0.01, 0, 0.02, 0 } }, { 0.5 })
    check({ { 3, 4, 0, 0 }, { 0, 0, 0, 0 } }, { { 30, 40, 0, 0 }, { 1, 0, 0, 2 } }, { 0.5, 0.25 })
    check({ { 3, 4, 0, 0 }, { 1, 0, 0, 0 } }, { { 30, 40, 0, 0 }, { 1, 0, 5, 2 } }, { 0.5 }, { 2, 1, 2, 2 })
    check({ { 3, 4, 0, 0 } }, { { 30, 40, 1, 1 } }, { 0.01 }, { 4 })
    check({ { 3 } }, { { 30 } }, { 0.01 }, {})
  end)

  it("leaves gradients of 0 at 0, and can be off", function()
    check({ { 1, 2 }, { 3, 4 } }, { { 0, 0 }, { 0, 0 } }, { 0.01, 0 })
    check({ { 0, 0 } }, { { 0, 0 } }, { 0.01, 0 })
    check({ { 1, 2 }, { 3, 4 } }, { { 5, 6 }, { 7, 8 } }, { math.huge })
  end)

  it("is refused where it is none", function()
    fails("agc: expected a number at least 0, got %-1", make, { param { 0 } }, { agc = -1 })
    fails("agc_eps belongs to agc, which is not given", make, { param { 0 } }, { agc_eps = 1 })
    fails("agc_eps belongs to agc, which is not given", optim.SGD, { param { 0 } }, { agc_eps = 1 })
    make({ param { 0 } }, { agc = 1 }, { { match = "*", agc_eps = 1 } })
  end)
end)

describe("a scale of the loss", function()
  it("is divided out before anything is measured, clipped or seen", function()
    assert.same({ { 3 }, { -4 } }, seen({ { 3 * 1024 }, { -4 * 1024 } }, { grad_scale = 1024 }))
    near({ { 3 / (5 + 1e-6) }, { 4 / (5 + 1e-6) } }, seen({ { 3072 }, { 4096 } }, { grad_scale = 1024, max_norm = 1 }))
    assert.same({ { 0.5 } }, seen({ { 1024 } }, { grad_scale = 1024, clip_value = 0.5 }))
    local p = param({ 0 }, { 3072 })
    local optimizer = make({ p }, { grad_scale = 1024 })
    assert.equal(3, optimizer:stats().grad_norm)
    optimizer.max_norm = math.huge
    optimizer:step()
    assert.same({ 3, 3 }, { optimizer:stats().grad_norm, optimizer:stats().groups.default.grad_norm })
  end)

  it("can change from step to step, and is saved", function()
    local p = param({ 0 }, { 8 })
    local optimizer = make({ p }, { grad_scale = 8 })
    optimizer:step()
    optimizer.grad_scale = optimizer.grad_scale / 2
    optimizer:step()
    assert.equal(-3, p:item())
    local state = optimizer:state_dict()
    optimizer.grad_scale = nil
    optimizer:step()
    assert.equal(-11, p:item())
    optimizer:load_state_dict(state)
    assert.equal(4, optimizer.grad_scale)
    optimizer:step()
    assert.equal(-13, p:item())
    state["container.grad_scale"] = -1
    fails("container.grad_scale: expected a number above 0 and below inf, got %-1", optimizer.load_state_dict, optimizer, state)
    assert.equal(4, optimizer.grad_scale)
  end)

  it("that makes finite gradients infinite is an error, or skipped", function()
    local p, q = param({ 0 }, { 1 }, "float32"), param({ 0 }, { 1e30 }, "float32")
    local optimizer = make({ p, q }, { grad_scale = 1e-20, nonfinite = "error" })
    fails("gradient of parameter 'p2' is not finite when it is divided by grad_scale", optimizer.step, optimizer)
    assert.equal(0, p:item())
    optimizer = make({ p, q }, { grad_scale = 1e-20, nonfinite = "skip" })
    optimizer:step()
    assert.same({ 1, 0 }, { optimizer:stats().skipped, optimizer:stats().updates })
    assert.is_nil(p.grad)
  end)

  it("is no error where each gradient is finite in its own type", function()
    local p, q = param({ 0 }, { 1 }, "float32"), param({ 0 }, { 1e30 }, "float64")
    make({ p, q }, { grad_scale = 1e-20, nonfinite = "error" }):step()
    assert.same({ true, true }, { p:item() < -1e17, q:item() < -1e47 })
  end)

  it("is refused where it is none", function()
    for _, x in ipairs { 0, -1, 0 / 0, "2" } do
      fails("grad_scale: expected a number above 0", make, { param { 0 } }, { grad_scale = x })
      local optimizer = make({ param { 0 } }, {})
      fails("grad_scale: expected a number above 0", function() optimizer.grad_scale = x end)
      assert.is_nil(optimizer.grad_scale)
    end
    fails("'grad_scale' is an option of the container", make, { param { 0 } }, {}, { { match = "*", grad_scale = 2 } })
    fails("'max_norm' is an option of the container, not of a group, whose own limit is max_group_norm", make, { param { 0 } }, {},
      { { match = "*", max_norm = 2 } })
  end)

  it("cannot be with an optimizer that does not know it", function()
    local foreign = { step = function() end, zero_grad = function() end, state_dict = function() return {} end, load_state_dict = function() end }
    local Foreign = optim.wrapper { name = "Foreign", build = function() return foreign end }
    local p = param({ 0 }, { 1 })
    fails("grad_scale: group 'default' has an optimizer of its own", optim.container, iterate { p }, Foreign, { grad_scale = 2 })
    local optimizer = optim.container(iterate { p }, Foreign, { zero = true })
    fails("grad_scale: group 'default' has an optimizer of its own", function() optimizer.grad_scale = 2 end)
    optimizer:step()
  end)
end)

describe("zero", function()
  it("makes gradients absent when a step was made, and only then", function()
    local p, frozen = param({ 0 }, { 1 }), param({ 0 }, { 1 })
    frozen.requires_grad = false
    local optimizer = make({ p, frozen }, { zero = true, nonfinite = "error" })
    optimizer:step()
    assert.equal(-1, p:item())
    assert.is_nil(p.grad)
    assert.is_nil(frozen.grad)
    optimizer:step()
    assert.equal(1, optimizer:stats().updates)
    local loss = (p * 2):sum()
    loss:backward()
    assert.equal(2, p.grad:item())
    p.grad = optlua.tensor({ 0 / 0 }, { dtype = "float64" })
    fails("not finite", optimizer.step, optimizer)
    assert.is_truthy(p.grad)
  end)

  it("is seen by hooks after a step, and is off by default", function()
    local p = param({ 0 }, { 1 })
    local optimizer, after = make({ p }, { zero = true }), nil
    optimizer:register_step_post_hook(function() after = p.grad == nil end)
    optimizer:step()
    assert.is_true(after)
    local q = param({ 0 }, { 1 })
    make({ q }, {}):step()
    assert.equal(1, q.grad:item())
    fails("zero: expected a boolean", make, { q }, { zero = 1 })
  end)

  it("clears the gradients of optimizers of their own too", function()
    local p, steps, cleared = param({ 0 }, { 1 }), 0, 0
    local foreign = { step = function() steps = steps + 1 end, zero_grad = function() cleared = cleared + 1 end,
      state_dict = function() return {} end, load_state_dict = function() end }
    local Foreign = optim.wrapper { name = "Foreign", build = function() return foreign end }
    optim.container(iterate { p }, Foreign, { zero = true }):step()
    assert.same({ 1, 1 }, { steps, cleared })
  end)
end)

-- Together -------------------------------------------------------------------------------------------------

describe("the limits", function()
  it("are moved by schedules", function()
    local p = param({ 0 }, { 10 })
    local optimizer = make({ p }, { max_norm = 2, clip_value = 8, grad_scale = 1 })
    optim.scheduler(optimizer, "max_norm", function(updates) return 2 ^ updates end)
    optim.scheduler(optimizer, "clip_value", function(updates) return updates < 2 and 1 or 0.125 end)
    optim.scheduler(optimizer, "grad_scale", schedule.value(function(updates) return updates == 1 and 4 or 1 end))
    local at, steps = 0, {}
    for t = 1, 3 do
      optimizer:step()
      steps[t], at = at - p:item(), p:item()
      assert.equal(2 ^ t, optimizer.max_norm)
    end
    assert.near(2, steps[1], 1e-5)
    assert.near(2.5, steps[2], 1e-5)
    assert.near(1, steps[3], 1e-5)
    assert.is_truthy(optimizer:plan():find("max_norm = 8.0 (scheduled, base 2)", 1, true))
    assert.is_truthy(optimizer:preview({ steps = 3 }):find "max_norm")
  end)

  it("of a group hold from the next step on, set or moved by a schedule", function()
    local p = param({ 0 }, { 10 })
    local optimizer = make({ p }, { max_group_norm = 2 })
    local function update()
      local before = p:item()
      optimizer:step()
      return before - p:item()
    end
    assert.near(2, update(), 1e-5)
    optimizer.groups.default.max_group_norm = 3
    assert.near(3, update(), 1e-5)
    optim.scheduler(optimizer, "max_group_norm", function(updates) return updates end)
    assert.near(6, update(), 1e-5)
    assert.near(9, update(), 1e-5)
  end)

  it("of a container without one can be moved by values, not by factors", function()
    local p = param({ 0 }, { 10 })
    local optimizer = make({ p }, {})
    fails("max_norm has no base for a factor", optim.scheduler, optimizer, "max_norm", function() return 1 end)
    fails("max_norm is a number of the container as a whole", optim.scheduler, optimizer, "max_norm", { default = function() return 1 end })
    fails("max_norm: expected a number at least 0, got %-1", optim.scheduler, optimizer, "max_norm", schedule.value(function() return -1 end))
    local scheduler = optim.scheduler(optimizer, "max_norm", schedule.value(function() return 5 end))
    assert.same({ 5 }, scheduler:get_last_value())
    optimizer:step()
    assert.near(-5, p:item(), 1e-5)
    fails("max_norm: none, but a schedule moves it", function() optimizer.max_norm = nil end)
    fails('unknown hyperparameter "max_norm"', optim.scheduler, optim.SGD({ p }), "max_norm", function() return 1 end)
  end)

  it("are read and set as fields, checked, saved and loaded", function()
    local function build(opts) return make({ param({ 0 }, { 10 }), param({ 0 }, { 1 }) }, opts) end
    local optimizer = build { max_norm = 2, clip_value = 1.5, agc = 5, agc_eps = 1, max_group_norm = 3 }
    optimizer.max_norm = 4
    optimizer.groups.default.clip_value = 0.5
    optimizer:step()
    local state = optimizer:state_dict()
    assert.same({ 4, 0.5, 5, 1, 3 }, { state["container.max_norm"], state["group.default.clip_value"], state["group.default.agc"],
      state["group.default.agc_eps"], state["group.default.max_group_norm"] })
    local other = build { max_norm = 2, clip_value = 1.5, agc = 5, agc_eps = 2, max_group_norm = 3 }
    other:load_state_dict(state)
    assert.same({ 4, 0.5, 1 }, { other.max_norm, other.groups.default.clip_value, other.groups.default.agc_eps })
    fails("optim.container: max_norm: expected a number at least 0, got %-1", function() other.max_norm = -1 end)
    local free = build {}
    free.max_norm = 5
    free:step()
    assert.near(-10 * 5 / math.sqrt(101), free._groups[1].params[1]:item(), 1e-5)
    free.max_norm = nil
    free:step()
    assert.near(-10 * 5 / math.sqrt(101) - 10, free._groups[1].params[1]:item(), 1e-5)
    state["group.default.clip_value"] = -1
    fails("clip_value: expected a number at least 0, got %-1", other.load_state_dict, other, state)
  end)

  it("may have been added or taken away since a save", function()
    local function build(opts) return make({ param({ 0 }, { 10 }) }, opts) end
    local clipped, plain = build { max_norm = 2, clip_value = 1 }, build {}
    clipped:step()
    plain:step()
    local with, without = clipped:state_dict(), plain:state_dict()
    plain:load_state_dict(with)
    clipped:load_state_dict(without)
    assert.same({ 2, 1 }, { clipped.max_norm, clipped.groups.default.clip_value })
    optim.SGD({ { "p1", param({ 0 }, { 10 }) } }):load_state_dict(with)
  end)

  it("are shown by the plan, and where they come from", function()
    local optimizer = make({ param({ 0 }, { 1 }), param({ 0 }, { 1 }) }, { max_norm = 1, grad_scale = 2, zero = true, clip_value = 0.5 },
      { { name = "a", match = "p1", clip_value = 0.25 }, { name = "b", match = "*" } })
    local plan = optimizer:plan()
    assert.is_truthy(plan:find("clip_value = 0.25", 1, true))
    assert.is_truthy(plan:find("options { clip_value = 0.5, grad_scale = 2, max_norm = 1, zero = true }", 1, true))
    assert.is_truthy(optimizer:explain("p1"):find("clip_value = 0.25: from the group", 1, true))
    assert.is_truthy(optimizer:explain("p2"):find("clip_value = 0.5: from the option clip_value", 1, true))
    assert.is_nil(make({ param { 0 } }, {}):plan():find("options", 1, true))
  end)

  it("hold with averages, measures, narrow states and wrappers", function()
    local function build(extra)
      local list = { param({ { 1, 2 }, { 3, 4 } }, { { 9, 8 }, { 7, 6 } }, "float32"), param({ 1, 2 }, { 3, 4 }, "float32") }
      local opts = { clip_value = 0.5, agc = 0.1, max_group_norm = 5, max_norm = 4 }
      for key, value in pairs(extra) do opts[key] = value end
      local own = opts.own
      local class = opts.wrapped and optim.wrapper { name = "Two", build = function(named)
        return { optim.AdamW(named, { lr = 0.1, clip_value = own }) }
      end} or "AdamW"
      if not opts.wrapped then opts.lr = 0.1 end
      opts.wrapped, opts.own = nil, nil
      local optimizer = optim.container(iterate(list), class, opts)
      for _ = 1, 3 do optimizer:step() end
      return { values(list[1]), values(list[2]) }, optimizer
    end
    local want = build {}
    assert.same(want, (build { ema = 0.9, track_updates = true }))
    assert.same(want, (build { wrapped = true }))
    assert.same(want, (build { wrapped = true, ema = 0.9 }))
    local _, narrow = build { state_dtype = "bfloat16" }
    assert.equal("bfloat16", narrow:state_dict()["state.p1.exp_avg"].dtype)
    local own, optimizer = build { wrapped = true, own = 0.01, ema = 0.9 }
    assert.equal(0.01, optimizer.groups[1].clip_value)
    assert.not_same(want, own)
  end)

  it("make classes that conform", function()
    local clipped = require("optlua.optim.extras").clipped
    local report = optim.check(clipped(optim.AdamW, { agc = 1, clip_value = 1, max_group_norm = 1 }))
    assert.is_true(report.ok, tostring(report))
    report = optim.check(clipped(optim.SGD, { clip_value = 1 }))
    assert.is_true(report.ok, tostring(report))
  end)

  it("give the same bits on one thread and on two", function()
    local function run(threads)
      local before = optlua.get_num_threads()
      optlua.set_num_threads(threads)
      optlua.manual_seed(5)
      local list = { optlua.randn { 300, 700 }, optlua.randn { 100000 }, optlua.randn { 8, 3, 5, 7 } }
      for _, p in ipairs(list) do
        p.requires_grad, p.grad = true, optlua.randn_like(p:detach())
      end
      local optimizer = optim.container(iterate(list), { { match = "p1|p3" }, { match = "p2" } }, { class = "AdamW", lr = 0.1,
        grad_scale = 3, max_group_norm = 200, max_norm = 100, agc = 0.05, clip_value = 0.02 })
      for _ = 1, 2 do optimizer:step() end
      optlua.set_num_threads(before)
      return list
    end
    local one, two = run(1), run(2)
    for i, p in ipairs(one) do assert.is_true(p:detach():equal(two[i]:detach())) end
  end)

  it("compile nothing new when they move", function()
    local p = param({ 0, 1 }, { 10, 1 })
    local optimizer = make({ p }, { clip_value = 1, agc = 3 })
    optim.scheduler(optimizer, "clip_value", function(updates) return 1.05 + updates / 10 end)
    optimizer:step()
    local cache = optimizer._groups[1].class.cache
    local compiled = cache:stats().compiled
    for _ = 1, 10 do optimizer:step() end
    assert.equal(compiled, cache:stats().compiled)
  end)
end)

describe("a spec", function()
  it("has them in its config and on its command line", function()
    local function points() return optlua.data.tensors(optlua.ones { 4, 2 }, optlua.ones { 4, 1 }) end
    local spec = optlua.spec { name = "clip", build_model = function() return nn.Linear(2, 1) end, build_data = points,
      build_loss = function() return nn.MSELoss() end,
      config = { steps = 1, seed = 1, optimizer = { class = "SGD", lr = 1, clip_value = 0.125, zero = true },
        groups = { { name = "bias", match = "*.bias", max_group_norm = 0.0625 }, { name = "rest", match = "*" } } } }
    local state = spec:run().state
    assert.same({ 0.125, 0.125 }, { state.optimizers.groups.bias.clip_value, state.optimizers.groups.rest.clip_value })
    assert.is_nil(state.model.weight.grad)
    local again = spec:run { optimizer = { clip_value = 0.25, agc = 0.5, grad_scale = 2 } }
    assert.same({ 0.25, 0.5, 2 }, { again.state.optimizers.groups.rest.clip_value, again.state.optimizers.groups.rest.agc,
      again.state.optimizers.grad_scale })
    fails('unknown option "clip_valeu" %(did you mean "clip_value"%?%)', function() spec:run { optimizer = { clip_valeu = 1 } } end)
    fails("clip_value: expected a number at least 0, got %-1", function() spec:run { optimizer = { clip_value = -1 } } end)
  end)
end)
