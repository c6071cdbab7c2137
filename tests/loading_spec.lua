-- Loading: all or nothing, also where one of several parts refuses late, or a signal comes.
local optlua = require "optlua"
local bits = require "bits"
local checkpoint = optlua.checkpoint
local fails = require("fails").matching
local process = require "process"
local nn, optim = optlua.nn, optlua.optim

local place
before_each(function() place = process.folder() end)
after_each(function() process.remove(place) end)

local function trained(seed, steps)
  optlua.manual_seed(seed)
  local given = { model = nn.Sequential { nn.Linear(2, 2), nn.Linear(2, 2) } }
  given.optimizer = optim.container(given.model, "AdamW", { ema = 0.9 })
  given.loader = optlua.data.loader(optlua.testing.points { n = 12 }, { batch_size = 2 })
  for _ = 1, steps do
    given.optimizer:zero_grad()
    given.model(optlua.ones { 1, 2 }):sum():backward()
    given.optimizer:step()
  end
  return given
end

-- All that weights and states are.
local function all_of(given) return bits(given.model, given.optimizer) end

describe("a load that is interrupted", function()
  it("has loaded nothing or all, wherever it was", function()
    local saved, given = trained(1, 2), trained(2, 1)
    checkpoint.save(place .. "/new", saved)
    checkpoint.save(place .. "/old", given)
    local new, old, states = all_of(saved), all_of(given), saved.model:state_dict()
    local ways = {
      function() checkpoint.load(place .. "/new", given) end,
      function() given.model:load(place .. "/new/weights.safetensors") end,
      function() given.model:load_state_dict(states) end,
      function() given.optimizer:load_state_dict(saved.optimizer:state_dict()) end,
    }
    for way, load in ipairs(ways) do
      local count, outcomes = 0, {}
      checkpoint.load(place .. "/old", given)
      debug.sethook(function() count = count + 1 end, "", 1)
      load()
      debug.sethook()
      local whole = all_of(given)
      if way == 1 then assert.equal(new, whole) end
      for at = math.max(10, count - 4000), count, 29 do
        checkpoint.load(place .. "/old", given)
        local left = at
        local ok = pcall(function()
          debug.sethook(function()
            left = left - 1
            if left > 0 then return end
            debug.sethook()
            error("interrupted!", 0)
          end, "", 1)
          load()
          debug.sethook()
        end)
        local now = all_of(given)
        assert(now == old or now == whole, ("way %d: half loaded at %d of %d"):format(way, at, count))
        outcomes[ok and "ended" or now == old and "nothing" or "all"] = true
      end
      assert.is_true(outcomes.nothing, way)
    end
  end)

  it("by a signal goes through, and raises then", function()
    process.write(place .. "/s.lua", [[
      local optlua = require "optlua"
      local calls, loaded = 0, 0
      local scheduler = { state_dict = function() return { a = 1 } end, load_state_dict = function()
        calls = calls + 1
        if calls == 3 then io.popen("kill -INT $PPID; sleep 0.1"):close() end -- the first two look and go back
      end }
      local loader = { state_dict = function() return { a = 1 } end, load_state_dict = function() loaded = loaded + 1 end }
      local given = { scheduler = scheduler, loader = loader }
      optlua.checkpoint.save("a", given)
      optlua.manual_seed(3)
      local before = optlua.get_rng_state().seed
      print(pcall(optlua.checkpoint.load, "a", given))
      print(calls, loaded)
    ]])
    local result = process.run(place, "optlua s.lua")
    assert.matches("^false\t[^\n]*interrupted!\n3\t3\n", result.out)
  end)

  it("by a pipe that nobody reads has set the clock too", function()
    local given, other = trained(1, 0), trained(2, 0)
    given.optimizer = optim.container(given.model, "AdamW", { state_dtype = "bfloat16" })
    given.model(optlua.ones { 1, 2 }):sum():backward()
    given.optimizer:step()
    other.optimizer = optim.container(other.model, "AdamW")
    local state, stderr = given.optimizer:state_dict(), io.stderr
    io.stderr = { write = function() error("write to a closed pipe", 0) end } -- luacheck: ignore
    local ok, problem = pcall(other.optimizer.load_state_dict, other.optimizer, state)
    io.stderr = stderr -- luacheck: ignore
    assert.same({ false, "write to a closed pipe" }, { ok, problem })
    assert.same({ 1, 1 }, { other.optimizer:state_dict()["state.0.weight.step"], other.optimizer:state_dict().updates })
  end)
end)

describe("a load", function()
  it("of a checkpoint that is saved anew meanwhile loads nothing", function()
    local newer, other, once = trained(1, 2), trained(2, 0), false
    local scheduler = { state_dict = function() return { a = 1 } end, load_state_dict = function() end }
    newer.scheduler = scheduler
    checkpoint.save(place .. "/a", newer)
    other.scheduler = { state_dict = function()
      if not once then checkpoint.save(place .. "/a", { model = trained(3, 1).model, scheduler = scheduler, optimizer = newer.optimizer, loader = newer.loader }) end
      once = true
      return { a = 1 }
    end, load_state_dict = function() end }
    local before = all_of(other)
    fails("a: it was saved anew while it was read; nothing was loaded", checkpoint.load, place .. "/a", other)
    assert.equal(before, all_of(other))
    checkpoint.load(place .. "/a", other)
  end)

  it("of gradients that do not fit changes nothing", function()
    local given = nn.Linear(2, 2)
    given(optlua.ones { 1, 2 }):sum():backward()
    checkpoint.save(place .. "/a", { model = given, gradients = true })
    local other = nn.Linear(2, 2)
    local before = other.weight:clone()
    local function refuses(wanted, change)
      local key = "gradients/state.weight.grad"
      fails(wanted, checkpoint.load, place .. "/a", { model = other }, { surgery = function(saved) saved.state[key] = change(saved.state[key]) end })
      assert.is_true(other.weight:equal(before))
    end
    refuses("gradients: weight: float32 %(2, 2%) expected, got float64 %(2, 2%)", function(grad) return grad:to "float64" end)
    refuses("gradients: weight: float32 %(2, 2%) expected, got float32 %(4%)", function(grad) return grad:reshape(4) end)
    refuses("gradients: weight: float32 %(2, 2%) expected, got number", function() return 5 end)
  end)

  it("of none makes those of now absent", function()
    local model = nn.Linear(2, 2)
    checkpoint.save(place .. "/a", { model = model })
    model(optlua.ones { 1, 2 }):sum():backward()
    checkpoint.load(place .. "/a", { model = model })
    assert.is_nil(model.weight.grad)
  end)

  it("wakes nothing that the checkpoint does not know", function()
    local old, new = nn.Sequential { nn.Linear(2, 2) }, nn.Sequential { nn.Linear(2, 2), nn.Linear(2, 2) }
    checkpoint.save(place .. "/a", { model = old })
    new:requires_grad_(false)
    checkpoint.load(place .. "/a", { model = new }, { strict = false })
    assert.same({ true, false }, { new[1].weight.requires_grad, new[2].weight.requires_grad })
  end)

  it("goes by the tables that surgery has put in, and refuses what is none", function()
    local model = nn.Linear(2, 2)
    checkpoint.save(place .. "/a", { model = model })
    checkpoint.load(place .. "/a", { model = model }, { surgery = function(saved) saved.frozen = { "bias" } end })
    assert.is_false(model.bias.requires_grad)
    fails("surgery: frozen: a table expected, got a number", checkpoint.load, place .. "/a", { model = model },
      { surgery = function(saved) saved.frozen = 5 end })
  end)
end)

describe("optimizers that are loaded together", function()
  it("are saved in the form for evaluation, and go on in that for training", function()
    local function build()
      optlua.manual_seed(4)
      local model = nn.Sequential { nn.Linear(2, 2), nn.Linear(2, 2) }
      local list = { a = optim.ScheduleFreeAdamW(model[1], { lr = 0.1 }), b = optim.SGD(model[2], { lr = 0.1 }) }
      return { model = model, list = list, optimizer = require("optlua.spec.joined").optimizers(list) }
    end
    local function step(given)
      given.model:zero_grad()
      given.model(optlua.ones { 1, 2 }):square():sum():backward()
      for _, optimizer in pairs(given.list) do optimizer:step() end
    end
    local given, other, evaluated = build(), build(), nil
    for _ = 1, 3 do step(given) end
    local trained_form = bits(given.model)
    given.list.a:with_eval(function() evaluated = bits(given.model) end)
    checkpoint.save(place .. "/a", { model = given.model, optimizer = given.optimizer })
    assert.equal(trained_form, bits(given.model))
    assert.equal(evaluated, bits((optlua.load(place .. "/a/weights.safetensors"))))
    assert.not_equal(trained_form, evaluated)
    checkpoint.load(place .. "/a", { model = other.model, optimizer = other.optimizer })
    assert.equal(trained_form, bits(other.model))
    step(given)
    step(other)
    assert.equal(bits(given.model, given.optimizer), bits(other.model, other.optimizer))
  end)

  it("have what they had where a member of one refuses beside groups of its own", function()
    local model, bad = nn.Sequential { nn.Linear(2, 2), nn.Linear(2, 2) }, { refuses = false }
    function bad.step() end
    function bad.zero_grad() end
    function bad.state_dict() return { count = 1 } end
    function bad.load_state_dict() if bad.refuses then error("this state is not mine", 0) end end
    local optimizer = optim.container(model, {
      { name = "first", match = "0.*", class = "SGD", lr = 0.1 },
      { name = "second", match = "*", class = optim.wrapper { name = "Foreign", build = function() return { bad } end } },
    })
    local state = optimizer:state_dict()
    state["group.first.lr"], bad.refuses = 0.7, true
    fails("this state is not mine", optimizer.load_state_dict, optimizer, state)
    assert.equal(0.1, optimizer.groups.first.lr)
  end)

  it("have what they had when one of other make refuses, by itself or inside another", function()
    local join, model = require("optlua.spec.joined").optimizers, nn.Linear(2, 2)
    local function foreign(refuses)
      local own = { count = 0 }
      function own.step() end
      function own.zero_grad() end
      function own.state_dict() return { count = own.count } end
      function own.load_state_dict(_, state)
        own.count = state.count
        if refuses and state.count == 1 then error("this state is not mine", 0) end
      end
      return own
    end
    local bad = foreign(true)
    local wrapped = optim.container(model, optim.wrapper { name = "Foreign", build = function() return { bad } end })
    for key, last in pairs { ["z/count"] = bad, ["z/member.default"] = wrapped } do
      local first, other = optim.SGD(model, { lr = 0.1 }), foreign(false)
      local joined = join { a = first, b = other, z = last }
      local state = joined:state_dict()
      state["a/group.default.lr"], state["b/count"] = 0.7, 5
      if last == wrapped then state[key] = { count = 1 } else state[key] = 1 end
      fails("this state is not mine", joined.load_state_dict, joined, state)
      assert.same({ 0.1, 0, 0 }, { first.groups.default.lr, other.count, bad.count })
    end
  end)
end)
