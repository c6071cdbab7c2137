-- Errors of a script in the middle of training: in schedules, rules, hooks, closures, batches and callbacks. Each has a message and
-- a traceback, and leaves the state as before the step; and processes that fork.
local optlua = require "optlua"
local files = require "files"
local process = require "process"
local nn, optim = optlua.nn, optlua.optim

local fails = require("fails").matching

local function bits(model, optimizer)
  local list = {}
  local function add(name, value)
    if optlua.is_tensor(value) then value = table.concat(value:detach():reshape(-1):totable(), " ") end
    list[#list + 1] = name .. "=" .. (type(value) == "table" and table.concat(value, " ") or tostring(value))
  end
  for name, value in pairs(optimizer:state_dict()) do add(name, value) end
  for name, value in model:named_parameters() do
    add(name, value)
    if value.grad then add(name .. ".grad", value.grad) end
  end
  table.sort(list)
  return table.concat(list, "\n")
end

local function backward(model) model(optlua.ones { 2, 3 }):square():sum():backward() end

local function boom() error "boom" end

describe("an error of the script", function()
  local Own = optim.define { name = "Own", hyper = { lr = 0.1 }, state = { m = 0 },
    update = function(p, g, s, h)
      if h.lr > 0.5 then error "the rule's" end
      s.m = s.m + g
      return p - h.lr * s.m
    end }

  -- What goes wrong at the third step, and the message.
  local cases = {
    schedule_nil = { "step 2: the schedule gives nil", function() end },
    schedule_nan = { "step 2: the schedule gives NaN", function() return 0 / 0 end },
    schedule_word = { 'step 2: the schedule gives "x"', function() return "x" end },
    schedule_negative = { "step 2: the schedule gives the factor %-1", function() return -1 end },
    schedule_raises = { "script_errors_spec.lua:%d+: boom", boom },
    schedule_yields = { "yield", coroutine.yield },
    rule_raises = { "the rule's %(Own, group 'default', parameter 'weight', update 3%)", function() return 6 end },
  }

  for name, case in pairs(cases) do
    it("in a " .. name:gsub("_", " that ", 1) .. " leaves the state as it was, and the next step works", function()
      local model = nn.Linear(3, 2)
      local optimizer, wrong = optim.container(model, name == "rule_raises" and Own or "AdamW", { lr = 0.1 }), false
      optim.lr_scheduler(optimizer, function() return wrong and case[2]() or not wrong and 1 or nil end)
      for _ = 1, 2 do
        optimizer:zero_grad()
        backward(model)
        optimizer:step()
      end
      backward(model)
      local before = bits(model, optimizer)
      wrong = true
      for _ = 1, 2 do fails(case[1], optimizer.step, optimizer) end
      assert.equal(before, bits(model, optimizer))
      wrong = false
      optimizer:step()
      assert.equal(3, optimizer:stats().updates)
    end)
  end

  it("in a hook or a closure, or what a hook must not do, leaves the state as it was", function()
    local model = nn.Linear(3, 2)
    local optimizer = optim.container(model, "AdamW", { lr = 0.1 })
    backward(model)
    local before = bits(model, optimizer)
    local function hooked(wanted, fn)
      local hook = optimizer:register_step_pre_hook(fn)
      fails(wanted, optimizer.step, optimizer)
      hook:remove()
      assert.equal(before, bits(model, optimizer))
    end
    hooked("boom", boom)
    hooked("step: not from a hook of its step", function(self) self:step() end)
    hooked("add_group: not from a hook of its step", function(self)
      self:add_group { params = { optlua.zeros({ 1 }, { requires_grad = true }) } }
    end)
    hooked("yield", coroutine.yield)
    fails("boom", optimizer.step, optimizer, boom)
    assert.equal(before, bits(model, optimizer))
    optimizer:step()
    assert.equal(1, optimizer:stats().updates)
  end)

  it("in a run has a traceback with its line, and what was saved goes on", function()
    local place = process.folder()
    local script = [[
local optlua = require "optlua"
local where, at = os.getenv "WHERE", tonumber(os.getenv "AT" or 0)
local function maybe(name, step)
  if where == name and step == at then
    error("boom in " .. name) end
end
local calls = 0
local points = optlua.testing.points { n = 16 }
return optlua.spec {
  name = "broken",
  config = { seed = 1, epochs = 4, batch_size = 4, checkpoint_every = 2, optimizer = { class = "AdamW" } },
  build_model = function() return optlua.nn.Linear(4, 3) end,
  build_data = function()
    return { n = 16, get = function(i)
      calls = calls + 1
      maybe("batch", calls // 4)
      return points.get(i)
    end }
  end,
  build_loss = function() return optlua.nn.CrossEntropyLoss() end,
  build_lr_schedulers = function(optimizers)
    return optlua.optim.lr_scheduler(optimizers, function(step) maybe("schedule", step) return 1 end)
  end,
  train_step = function(state, batch, default) maybe("train_step", state.step) return default(state, batch) end,
  on_step = function(state) maybe("callback", state.step) end,
  on_start = function(state)
    state.optimizers:register_step_pre_hook(function() maybe("hook", state.step) end)
  end,
}
]]
    process.write(place .. "/broken.lua", script)
    process.run(place, "optlua broken.lua --out whole")
    for _, where in ipairs { "batch", "schedule", "train_step", "callback", "hook" } do
      local broken = process.run(place, ("WHERE=%s AT=7 optlua broken.lua --out %s"):format(where, where))
      assert.equal(1, broken.code)
      assert.matches("broken.lua:%d+: boom in " .. where, broken.err)
      assert.matches("stack traceback:.*broken.lua:5", broken.err)
      assert.equal(0, process.run(place, ("optlua broken.lua --out %s --resume"):format(where)).code)
      assert.equal(process.read(place .. "/whole/last.safetensors"), process.read(("%s/%s/last.safetensors"):format(place, where)))
    end
    process.remove(place)
  end)
end)

describe("a process that forks", function()
  it("goes on, and so does its child", function()
    local library, place = process.optlua:match "^(.*)/" .. "/test/faults.so", process.folder()
    process.write(place .. "/fork.lua", [[
      local optlua = require "optlua"
      local faults = assert(package.loadlib(arg[1], "luaopen_faults"))()
      optlua.set_num_threads(2)
      local function work()
        local a = optlua.randn { 300, 300 }
        return a:matmul(a):exp():sum():item()
      end
      work()
      local child = faults.fork()
      if child == 0 then
        work()
        faults.finish(7)
      end
      work()
      print(faults.wait(child) >> 8)
      work()
      assert(io.popen("echo popen"):read "l" == "popen")
    ]])
    local result = process.run(place, "timeout 60 optlua fork.lua " .. library)
    process.remove(place)
    assert.equal("7\n", result.out, result.err)
    assert.equal(0, result.code)
  end)
end)

describe("a mistake in what a file returns", function()
  -- Files, and how the message begins: the tail call has left no line; the first function that was handed over has one.
  local cases = {
    { "rule", "./rule.lua:4: Rule: hyper.lr: unknown field", [[
local optim = require "optlua.optim"
return optim.define {
  name = "Rule", hyper = { lr = { defualt = 1 } },
  update = function(p) return p end,
}]] },
    { "bare", "./bare.lua: Bare: unknown field", 'local optim = require "optlua.optim" return optim.define { name = "Bare", updat = 1 }' },
    { "line", "use.lua:1: tensor: ", "return { require }" },
    { "kept", "./kept.lua:1: Kept: update: a function", 'local optim = require "optlua.optim" local class = optim.define { name = "Kept" } return class' },
  }

  for _, case in ipairs(cases) do
    it("is at its place: " .. case[1], function()
      files.with_folder(function(folder)
        files.write(("%s/%s.lua"):format(folder, case[1]), case[3])
        files.write(folder .. "/use.lua", ("require %q require('optlua').tensor()"):format(case[1]))
        local result = process.run(folder, "optlua use.lua; optlua " .. case[1] .. ".lua; optlua check " .. case[1] .. ".lua")
        local own = case[2]:gsub("^%./", "")
        assert.equal("optlua: " .. case[2], result.err:sub(1, 8 + #case[2]))
        if case[1] == "line" then return end
        assert.is_truthy(result.err:find("\noptlua: " .. own, 1, true), result.err)
        assert.equal(own, result.out:sub(1, #own))
      end)
    end)
  end

  it("of a script that returns a spec is at its file", function()
    files.with_folder(function(folder)
      files.write(folder .. "/run.lua", 'return require("optlua").spec { nme = "x" }')
      assert.matches("^optlua: run.lua: optlua.spec: unknown field \"nme\"", process.run(folder, "optlua run.lua").err)
    end)
  end)
end)
