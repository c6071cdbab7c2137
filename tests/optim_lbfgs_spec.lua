-- L-BFGS: against recorded numbers of PyTorch's (golden/lbfgs.txt), saved and resumed, with parameters that come and go.
local optlua = require "optlua"
local optim = optlua.optim

local fails = require("fails").matching
local valleys = require "valleys"

local numbers, parameters, closure_of, values = valleys.numbers, valleys.parameters, valleys.closure, valleys.values
local START = valleys.start

local STEPS, TOLERANCE = 10, 1e-8

local function read_golden()
  local next_line = io.lines(os.getenv "ROOT" .. "/tests/golden/lbfgs.txt")
  local golden = { version = next_line() }
  for head in next_line do
    local name, options = head:match "^(%S+) (.*)$"
    local case = { name = name, text = options, options = load("return " .. options)(), start = numbers(next_line()), steps = {} }
    for t = 1, STEPS do case.steps[t] = numbers(next_line()) end
    golden[#golden + 1] = case
  end
  return golden
end

local function make(options, name)
  local named, tensors = parameters(START)
  local optimizer = optim.LBFGS(named, options)
  return optimizer, tensors, closure_of(optimizer, name or "rosenbrock", tensors)
end

local golden = read_golden()

describe("L-BFGS of " .. golden.version, function()
  for _, case in ipairs(golden) do
    it(("on %s, %s"):format(case.name, case.text), function()
      local named, tensors = parameters(case.start)
      local optimizer = optim.LBFGS(named, case.options)
      local closure = closure_of(optimizer, case.name, tensors)
      for t, want in ipairs(case.steps) do
        optimizer:step(closure)
        local got, size = values(tensors), 0
        for i = 2, #want do size = math.max(size, math.abs(want[i])) end
        for i, x in ipairs(got) do
          local difference = math.abs(x - want[i + 1]) / size
          assert.is_true(difference <= TOLERANCE, ("step %d: %g"):format(t, difference))
        end
        assert.equal(want[1], optimizer:state_dict()["memory.default.func_evals"], "evaluations at step " .. t)
      end
    end)
  end
end)

describe("L-BFGS", function()
  it("falls in float32 too, and returns the first loss", function()
    local named, tensors = parameters(START, "float32")
    local optimizer = optim.LBFGS(named, { line_search_fn = "strong_wolfe" })
    local closure = closure_of(optimizer, "rosenbrock", tensors)
    local first = valleys.rosenbrock(tensors):item()
    assert.equal(first, optimizer:step(closure):item())
    for _ = 1, 10 do optimizer:step(closure) end
    assert.is_true(valleys.rosenbrock(tensors):item() < 1e-4 * first)
  end)

  it("needs a closure that returns a number", function()
    local optimizer, tensors = make()
    fails("LBFGS: step: LBFGS needs a closure", optimizer.step, optimizer)
    fails("a closure is a function, not a table", optimizer.step, optimizer, {})
    fails("the closure returns the loss, a number or a tensor of one element, not nil", optimizer.step, optimizer, function() end)
    fails("not a tensor of 3", optimizer.step, optimizer, function() return tensors[1] end)
    assert.same({ START, 0 }, { values(tensors), optimizer:stats().updates })
    local _, problem = pcall(optim.LBFGS, { tensors[1] }, { line_search_fn = "wolfe", max_iter = 0 })
    assert.matches("line_search_fn", problem)
    assert.matches("max_iter", problem)
  end)

  it("is the same saved and resumed at any step, in any order of parameters and after a change of one tensor's place", function()
    for _, options in ipairs { { max_iter = 3, lr = 0.1 }, { max_iter = 2, line_search_fn = "strong_wolfe", history_size = 3 } } do
      local optimizer, tensors, closure = make(options)
      local saves, want = {}, {}
      for t = 1, 6 do
        local state = optimizer:state_dict()
        for key, value in pairs(state) do state[key] = optlua.is_tensor(value) and value:clone() or value end
        saves[t] = { state = state, values = values(tensors) }
        optimizer:step(closure)
        want[t] = values(tensors)
      end
      for from = 1, 6 do
        local named, others = parameters(saves[from].values)
        local again = optim.LBFGS(named, { max_iter = 9 })
        again:load_state_dict(saves[from].state)
        for t = from, 6 do
          again:step(closure_of(again, "rosenbrock", others))
          assert.same(want[t], values(others), ("step %d from %d"):format(t, from))
        end
      end
    end
  end)

  it("keeps directions by full name", function()
    local optimizer, _, closure = make { max_iter = 3, lr = 0.1 }
    optimizer:step(closure)
    optimizer:step(closure)
    local state = optimizer:state_dict()
    assert.same({ { 3 }, { 2 }, "float64", 2 }, { state["state.x.old_dirs/1"].shape, state["state.y.old_stps/2"].shape,
      state["state.y.d"].dtype, state["state.x.step"] })
  end)

  it("says what of it was lost or changed, and loads nothing", function()
    local optimizer, _, closure = make { max_iter = 3, lr = 0.1 }
    optimizer:step(closure)
    optimizer:step(closure)
    local function broken(key, value)
      local state, other, _, again = optimizer:state_dict(), make { max_iter = 3, lr = 0.1 }
      state[key] = value
      return state, other, again
    end
    for _, case in ipairs {
      { "memory.default.n_iter", nil, "missing: memory.default.n_iter" }, { "state.x.old_dirs/2", nil, "missing: state.x.old_dirs/2" },
      { "state.x.d", optlua.zeros({ 7 }, { dtype = "float64" }), "state.x.d: float64 of the parameter's shape expected, got float64 %(7%)" },
      { "state.y.d", optlua.zeros { 2 }, "state.y.d: float64 of the parameter's shape expected, got float32" },
      { "memory.default.t", "x", "memory.default.t: number expected, got string" },
    } do
      local state, other = broken(case[1], case[2])
      fails(case[3], other.load_state_dict, other, state)
      assert.equal(0, other:stats().updates)
    end
    local state, other, again = broken("memory.default.n_iter", nil)
    assert.same({ "memory.default.n_iter" }, other:load_state_dict(state, { strict = false }).missing)
    other:step(again) -- from the beginning
    state = optimizer:state_dict()
    for key in pairs(state) do state[key] = not key:find "#contents" and state[key] or nil end
    make({ max_iter = 3, lr = 0.1 }):load_state_dict(state) -- as it was saved before there was a list
  end)

  it("begins anew when other parameters are to be moved", function()
    local optimizer, tensors, closure = make { max_iter = 3, lr = 0.1 }
    optimizer:step(closure)
    tensors[2].requires_grad = false
    local frozen = values { tensors[2] }
    optimizer:step(closure)
    assert.same(frozen, values { tensors[2] })
    local state = optimizer:state_dict()
    assert.equal(2, state["memory.default.n_iter"]) -- three evaluations are 5/4 of three, rounded down
    assert.same({ 2, 1 }, { state["state.x.step"], state["state.y.step"] })
  end)

  it("takes parameters without elements, and none at all", function()
    local empty = optlua.zeros({ 0 }, { requires_grad = true })
    local optimizer = optim.LBFGS { empty }
    optimizer:step(function()
      local loss = empty:sum()
      loss:backward()
      return loss
    end)
    assert.equal(1, optimizer:stats().updates)
    local frozen = optlua.zeros(2)
    optimizer = optim.LBFGS { frozen }
    assert.equal(7, optimizer:step(function() return 7 end))
    assert.equal(0, optimizer:stats().updates)
  end)

  it("follows a schedule, one value a step", function()
    local optimizer, _, closure = make { max_iter = 2 }
    optim.lr_scheduler(optimizer, function(step) return 0.1 / (step + 1) end)
    for t = 1, 3 do
      optimizer:step(closure)
      assert.equal(0.1 / t, optimizer.groups.default.lr)
    end
  end)

  it("shows what it keeps", function()
    local optimizer, _, closure = make { max_iter = 3, lr = 0.1 }
    assert.matches("0 bytes of state, and what its step will keep", optimizer:plan())
    assert.equal(0, optimizer:stats().state_bytes)
    optimizer:step(closure)
    assert.equal(4 * 5 * 8, optimizer:stats().state_bytes) -- the direction, the gradient, and the last change of both
    fails("LBFGS:program: the class has a step of its own", optim.LBFGS.program, optim.LBFGS)
  end)
end)
