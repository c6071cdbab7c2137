-- optim.check: it finds what is wrong with classes that are wrong on purpose, one for each line; every class of the library
-- passes.
local fails = require("fails").containing
local classes = require "optlua.optim.classes"
local optlua = require "optlua"
local transforms = require "optlua.optim.transforms"
local optim = optlua.optim

-- A class with an rate and this rule, and what else its definition has.
local function define(update, more)
  local definition = { name = "X", hyper = { lr = { default = 0.1, min = 0 } }, update = update }
  for field, value in pairs(more or {}) do definition[field] = value end
  return optim.define(definition)
end

local function good(p, g, _, h) return p - h.lr * g end

-- Classes by the line that they fail, with a part of what it says, and the other lines that fail with it.
local wrong = {
  quadratic = { says = "the loss went from 17.75 to", also = "rosenbrock bfloat16 8bit 8bit-all", make = function()
    return define(function(p, g, s, h)
      s.x = g
      return p + h.lr * g
    end, { state = { x = 0 } })
  end },
  rosenbrock = { says = "with lr = 0.1; smaller ones down to 1e-05 fail too", make = function()
    return define(function(p, g, _, h) return p - h.lr * optim.where(optim.lt(optim.abs(g), 50), g, -g) end)
  end },
  again = { says = "two runs differ: the parameter p1 differs by up to", also = "threads tensors groups resumed absent empty no_dimension "
    .. "strided nonfinite in_backward", make = function()
    local calls = 0
    return define(function(p, g, _, h)
      calls = calls + 1
      return p - h.lr / (1 + 1e-3 * calls) * g
    end)
  end },
  threads = { says = "on 1 and 3 threads: the parameter p1 differs", make = function()
    return define(function(p, g, _, h) return p - h.lr / optlua.get_num_threads() * g end)
  end },
  tensors = { says = "whole and cut in two: the parameters differ", make = function()
    return define(function(p, g, s, h)
      s.x = s.x + g
      return p - h.lr * s.x
    end, { state = function(shape) return { x = { init = shape[1] % 7 * 0.01 } } end, accepts = { ndim = { 1, 2 } } })
  end },
  groups = { also = "nonfinite resumed", says = "in one group and in several: the parameter p2 differs", make = function()
    local now
    return define(function(p, g, _, h)
      local first = now ~= h.step
      now = h.step
      return p - (first and 1 or 0.5) * h.lr * g
    end)
  end },
  resumed = { says = "resumed and uninterrupted: the parameter p1 differs", also = "groups absent nonfinite", make = function()
    local count
    return define(function(p, g, _, h)
      count = h.step == 1 and 1 or count + 1
      return p - h.lr / count * g
    end)
  end },
  absent = { says = "beside another parameter and alone: the parameter p2 differs", make = function()
    local now = 0
    return define(function(p, g, _, h)
      now = h.step == 1 and 1 or math.max(now, h.step)
      return p - h.lr / now * g
    end)
  end },
  empty = { says = "NaN", make = function()
    return define(function(p, g, _, h) return p - h.lr * (p.numel / p.numel) * g end)
  end },
  no_dimension = { says = "attempt to perform arithmetic on a nil value", make = function()
    return define(function(p, g, _, h) return p - h.lr / p.shape[1] * g end)
  end },
  nonfinite = { says = "a step that failed left something: the parameter p1 differs", make = function()
    local step, calls = 0, 0
    return define(function(p, g, _, h)
      if h.step == 1 or h.step ~= step then step, calls = h.step, 0 end
      calls = calls + 1
      return p - h.lr / calls * g
    end)
  end, also = "groups resumed" },
  forms = { says = "the rule train after eval does not give the parameter back: it differs by up to", make = function()
    return define(good, { eval = function(p) return 1.01 * p end, train = function(p) return 1.5 * p end })
  end },
  states = { says = "idle, lost: declared, but never read and never written", make = function()
    return define(function(p, g, s, h)
      s.x = g
      return p - h.lr * g
    end, { state = { lost = 0, x = 0, idle = "param" } })
  end },
  source = { says = "check_spec.lua:%d+: s.x is compared with == or ~=", pattern = true, make = function()
    return define(function(p, g, s, h)
      if s.x == 0 then return p end
      s.x = g
      return p - h.lr * g
    end, { state = { x = 0 } })
  end },
  bfloat16 = { says = "the loss went from 17.75 to NaN", make = function()
    return define(function(p, g, s, h)
      local small = s.x - 1
      s.x = 1.001
      return h.step > 1 and p - 1e-3 * h.lr * g / small or p - h.lr * g
    end, { state = { x = 0 } })
  end },
  ["8bit"] = { also = "8bit-all", says = "the loss went from 6493 to", make = function()
    return define(function(p, g, s, h)
      local kept = h.step > 1 and optim.gt(s.x, 0) or 1
      s.x = g ^ 4 + 1e-20
      return p - h.lr * optim.where(kept, g, 1e3)
    end, { state = { x = 0 } })
  end },
}

local function failures(report)
  local keys = {}
  for _, line in ipairs(report.lines) do
    if line.result == "FAILS" then keys[#keys + 1] = line.key end
  end
  table.sort(keys)
  return table.concat(keys, " ")
end

local function sorted(text)
  local words = {}
  for word in text:gmatch "%S+" do words[#words + 1] = word end
  table.sort(words)
  return table.concat(words, " ")
end

describe("optim.check finds", function()
  for key, one in pairs(wrong) do
    it("a class that fails " .. key, function()
      local report = optim.check(one.make())
      assert.equal(sorted(key .. " " .. (one.also or "")), failures(report), tostring(report))
      assert.is_truthy(report[key].detail:find(one.says, 1, not one.pattern), report[key].detail)
      assert.is_false(report.ok)
    end)
  end

  it("a rule that does not read gradients", function()
    local report = optim.check(define(function(p) return 0.9 * p end))
    assert.matches("gradients are not read", report.quadratic.detail)
  end)

  it("something for every line of its table", function()
    for _, line in ipairs(optim.check(define(good)).lines) do
      local found = wrong[line.key] ~= nil
      for _, one in pairs(wrong) do found = found or (" " .. (one.also or "") .. " "):find(" " .. line.key .. " ", 1, true) end
      assert.is_truthy(found, line.key)
    end
  end)
end)

describe("optim.check", function()
  -- What the defaults leave out: each of these on, whatever has them.
  local more = { momentum = 0.9, weight_decay = 0.01, amsgrad = true, nesterov = true, centered = true, decoupled_weight_decay = true }

  local function variant(class)
    local hypers = {}
    for name, value in pairs(more) do
      local option = class.hyper[name]
      if option and type(option.default) == type(value) then hypers[name] = value end
    end
    return hypers
  end

  for _, name in ipairs(optim.list()) do
    local class = classes.builtin(name)
    if class then
      it("passes " .. name, function()
        for _, hypers in ipairs { {}, variant(class) } do
          local report = optim.check(name, hypers)
          assert.is_true(report.ok, tostring(report))
          assert.equal("holds", report.quadratic.result)
        end
      end)
    end
  end

  for _, name in ipairs(transforms.names) do
    for _, inner in ipairs { "SGD", "AdamW", "Muon", "NAdam" } do
      local class = ("%s(%s)"):format(name, inner)
      it("passes " .. class, function()
        local report = optim.check(class)
        assert.is_true(report.ok, tostring(report))
        assert.equal("holds", report.quadratic.result)
      end)
    end
  end

  it("passes transforms of transforms, and of classes with two forms", function()
    for _, name in ipairs { "Lookahead(ScheduleFreeSGD)", "SWA(Centralize(SAM(Adam)))" } do
      local report = optim.check(name)
      assert.is_true(report.ok, tostring(report))
    end
  end)

  describe("of classes with a step of their own", function()
    -- Momentum by signs; `change` may spoil it.
    local function signed(change)
      local definition = {
        name = "Signed", hyper = { lr = { default = 0.01, min = 0 } }, state = { velocity = 0 },
        step = function(_, group)
          for _, p in ipairs(group.params) do
            local s = group.state[p]
            s.velocity:mul_(0.9):add_(p.grad)
            p:sub_(group.lr * s.velocity:sign())
          end
        end,
      }
      for field, value in pairs(change or {}) do definition[field] = value end
      return optim.define(definition)
    end

    it("tests what there is to test", function()
      local report = optim.check(signed())
      assert.is_true(report.ok, tostring(report))
      for _, key in ipairs { "quadratic", "rosenbrock", "again", "threads", "resumed", "absent", "empty", "no_dimension", "strided", "nonfinite" } do
        assert.equal("holds", report[key].result, key)
      end
      assert.equal("it has a step of its own", report.tensors.detail)
      assert.equal("does not apply", report["8bit"].result)
    end)

    it("finds a closure that is not called", function()
      local report = optim.check(signed { needs_closure = true, step = function() end })
      assert.matches("the step never calls its closure", report.quadratic.detail)
    end)

    it("finds states that are not saved", function()
      local velocity = {}
      local report = optim.check(signed { step = function(_, group)
        for _, p in ipairs(group.params) do
          velocity[p] = (velocity[p] or p * 0) * 0.9 + p.grad
          p:sub_(group.lr * velocity[p])
        end
      end })
      assert.equal("resumed", failures(report))
    end)
  end)

  it("prints a table, and has its lines as fields", function()
    local report = optim.check(define(good))
    local text = tostring(report)
    assert.matches("^X: %d+ hold, %d do not apply\n  falls on a quadratic  ", text)
    assert.matches("\n  two forms of a parameter +does not apply  there is one form\n", text)
    assert.matches("\n  falls on a quadratic +holds +lr 0.1: 17.75 to %S+ in 100 updates\n", text)
    assert.equal("X", report.name)
    assert.is_true(report.ok)
    assert.equal(report.lines[1], report.quadratic)
    assert.is_nil(report.nothing)
  end)

  it("says a mistake that stops several checks once, and how many", function()
    local report = optim.check(define(function(p, g, s, h) return p - h.lr * s.y * g end, { state = { x = 0 } }))
    local text = tostring(report)
    assert.equal(1, select(2, text:gsub('unknown state "y"', "")), text)
    assert.matches('^X: 1 hold, %d do not apply, 13 FAIL\n  [^\n]*check_spec.lua:%d+: a rule: unknown state "y"; legal: x\n'
      .. "    stops 13 checks: falls on a quadratic, falls in [^\n]*, states declared are used\n  tensors can be split ", text)
    assert.matches("\n  symbols are not compared in Lua +holds\n", text)
    assert.matches('unknown state "y".*parameter \'p1\', update 1%), with lr = 0.1', report.quadratic.detail)
    local two = tostring(optim.check(define(function(p, g, _, h) return p - h.lr / p.shape[1] * g end)))
    assert.not_matches("stops", two)
    assert.matches("\n  parameters of no dimension +FAILS +[^\n]*attempt to perform arithmetic", two)
  end)

  it("takes smaller rates where the default is too large, and says which", function()
    assert.matches("^lr 0.3: 17.75 to %S+ in %d%d? updates$", optim.check(define(good, { hyper = { lr = 30 } })).quadratic.detail)
    assert.matches("^lr 0.001: ", optim.check(define(good), { lr = 0.001 }).quadratic.detail)
    assert.matches("^[%d.]+ to ", optim.check(define(function(p, g) return p - 0.1 * g end, { hyper = {} })).quadratic.detail)
  end)

  it("tries shapes that the class accepts", function()
    local class = define(good, { accepts = function(tensor) return tensor.ndim == 3 and tensor.shape[1] == 7, "7 is wanted" end })
    fails("optim.check: X accepts no parameter of the shapes that were tried", optim.check, class)
    assert.is_true(optim.check(class, { shapes = { { 7, 2, 2 } } }).ok)
    fails("optim.check: X accepts no parameter of shape 2: 7 is wanted", optim.check, class, { shapes = { { 7, 2, 2 }, { 2, 7, 2 } } })
    fails("optim.check: shapes: one at least", optim.check, class, { shapes = {} })
    for _, shape in ipairs { { 0 }, { -1 }, { 1.5 }, 3 } do
      fails("optim.check: shapes: shape 2: a list of sizes from 1", optim.check, optim.SGD, { shapes = { { 7 }, shape } })
    end
    assert.equal("does not apply", optim.check(optim.Muon).no_dimension.result)
  end)

  it("lets a rule end after the updates that it is made for", function()
    local rates = {}
    for k = 1, 150 do rates[k] = 0.1 / k end
    local class = define(function(p, g, s, h)
      s.m = g
      return p - rates[h.step] * h.lr * g
    end, { state = { m = 0 } })
    local report = optim.check(class)
    assert.is_true(report.ok, tostring(report))
    assert.equal("holds", report.states.result)
  end)

  it("tests wrappers as far as it goes", function()
    local wrapper = optim.wrapper { name = "Around", hyper = { lr = 0.1 }, build = function(named_params, args)
      return optim.SGD(named_params, { lr = args.lr, momentum = 0.9 })
    end }
    local report = optim.check(wrapper)
    assert.is_true(report.ok, tostring(report))
    assert.same({ "holds", "it is no update rule" }, { report.resumed.result, report.source.detail })
  end)

  it("says once, at the script's line, that a rule returns nothing", function()
    local function forgets(p, g, s, h) s.m = p - h.lr * g end
    local line = debug.getinfo(forgets, "S").linedefined
    local class = define(forgets, { state = { m = 0 } })
    local outer = optim.transform(define(good), { name = "Y", state = { m = 0 }, update = forgets })
    for _, one in ipairs { class, outer } do
      local said = tostring(optim.check(one))
      assert.matches(("\n[^\n]*check_spec.lua:%d: a rule returns the new p, a symbol; got nil\n    stops 13 checks"):format(line), said)
      assert.is_nil(said:find("got nil.*got nil"))
      assert.is_nil(said:find("lua/optlua/", 1, true))
    end
  end)

  describe("of the source of rules", function()
    local function line(class) return optim.check(class, { shapes = { { 4 } } }).source end

    it("finds traps in every rule of a class, however it came to be there", function()
      local function slow(p, g, s, h)
        if not s.m then return p end
        s.m = g
        return p - h.lr * g
      end
      assert.matches("check_spec.lua:%d+: s.m is tested for truth", line(define(slow, { state = { m = 0 } })).detail)
      local form = define(good, { train = function(p) return p end, eval = function(p, q)
        return q.m and p or 1 * p
      end, state = { m = 0 } })
      assert.matches("q.m is tested for truth", line(form).detail)
      local outer = optim.transform(define(good), { name = "Y", update = function(p, g, s, _, inner)
        return inner(p, g) == p and p or inner(p, g) + 0 * s.y
      end, state = { y = 0 } })
      assert.matches("p is compared with ==", line(outer).detail)
      local inner = optim.transform(define(slow, { state = { m = 0 } }), { name = "Z", update = function(p, g, _, _, inner) return inner(p, g) end })
      assert.matches("s.m is tested", line(inner).detail)
    end)

    it("lets plain values choose, and what it cannot read alone", function()
      local fine = define(function(p, g, s, h)
        s.m = h.step == 1 and g or optim.lerp(s.m, g, 0.5)
        local flat = p.ndim < 2 and g or s.m
        if h.lr == 0 or p.shape[1] == 0 then return p end
        return p - h.lr * flat
      end, { state = { m = 0 } })
      assert.same({ key = "source", title = "symbols are not compared in Lua", result = "holds" }, line(fine))
      local text = [[return require("optlua").optim.define { name = "X", hyper = { lr = 0.1 }, state = { m = 0 },
        update = function(p, g, s, h)
          if s.m == 0 then return p end
          s.m = g
          return p - h.lr * g
        end }]]
      assert.matches('%[string "return require.*:3: s.m is compared', line(load(text)()).detail)
      assert.equal("its source cannot be read", line(load(text, "=none")()).detail)
      assert.equal("its source cannot be read", line(load(text, "@/nowhere/x.lua")()).detail)
    end)
  end)

  it("leaves random numbers and threads as they are", function()
    optlua.manual_seed(5)
    local random, threads = optlua.rand { 2 }:totable(), optlua.get_num_threads()
    optlua.manual_seed(5)
    optim.check "SGD"
    assert.same(random, optlua.rand { 2 }:totable())
    assert.equal(threads, optlua.get_num_threads())
  end)

  it("refuses what is no class, and what the class does not know", function()
    fails('optim.check: unknown optimizer "Adm" (did you mean "Adam"', optim.check, "Adm")
    fails("optim.check: class: a class or its name expected, got a number", optim.check, 1)
    fails("optim.check: options are a table, not a number", optim.check, "SGD", 1)
    fails('optim.check: SGD: unknown hyperparameter "lrr" (did you mean "lr"', optim.check, "SGD", { lrr = 1 })
    fails("optim.check: SGD: lr: expected a number at least 0", optim.check, "SGD", { lr = -1 })
    fails("optim.check: shapes: expected a list", optim.check, "SGD", { shapes = 3 })
  end)
end)
