-- What two groups of users asked of other systems, one spec a sentence, as programs that a user writes: a training
-- script that nobody touches, files beside it, and a command line.
local process = require "process"

local training = [[
local optlua = require "optlua"
local nn = optlua.nn
return optlua.spec {
  name = "tiny",
  config = { steps = 2, batch_size = 8,
    optimizer = { class = "AdamW", lr = 1e-3, betas = { 0.9, 0.95 }, weight_decay = 0.1 } },
  build_model = function() return nn.Sequential { nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3) } end,
  build_data = function() return optlua.data.tensors(optlua.randn { 32, 4 }, optlua.randint(0, 3, { 32 })) end,
  build_loss = function() return nn.CrossEntropyLoss() end,
  on_end = function(state)
    if not state.optimizers.groups then return end
    for _, group in pairs(state.optimizers.groups) do
      print(("%s %s lr=%g decay=%g: %s"):format(group.name, group.class.name, group.lr,
        group.class.hyper.weight_decay and group.weight_decay or -1, table.concat(group.names, " ")))
    end
  end,
}
]]

local all = "0.weight 0.bias 1.weight 1.bias 2.weight 2.bias"

-- An optimizer of one's own, in a file that registers it.
local mine = [[
local optim = require("optlua").optim
return optim.register("SignDescent", optim.define {
  name = "SignDescent", hyper = { lr = { default = 0.01, min = 0 } },
  update = function(p, g, s, h) return p - h.lr * optim.sign(g) end,
})
]]

local folder

local function write(files)
  for name, text in pairs(files) do process.write(folder .. "/" .. name, text) end
end

--- The lines of the groups that a training ends with.
local function trained(command)
  local result = process.run(folder, "optlua " .. command .. " --out run$$")
  assert.equal(0, result.code, result.err)
  local lines = {}
  for line in result.out:gmatch "[^\n]+" do
    if line:find " lr=" then lines[#lines + 1] = line end
  end
  return table.concat(lines, "\n"), result.err
end

--- What a command line that is refused says.
local function refused(command)
  local result = process.run(folder, "optlua " .. command .. " --out run$$")
  assert.equal(2, result.code, result.out)
  return result.err
end

before_each(function()
  folder = process.folder()
  write { ["train.lua"] = training }
end)

after_each(function() process.remove(folder) end)

describe("a trainer that hard-codes its optimizers:", function()
  it("an optimizer that a user registers is chosen by name", function()
    write { ["mine.lua"] = mine, ["other.lua"] = 'require "mine"\nreturn require "train"\n' }
    assert.equal("default SignDescent lr=0.5 decay=-1: " .. all, (trained "other.lua --optimizer=SignDescent --optimizer.lr=0.5"))
    assert.matches('unknown optimizer "SignDecsent" %(did you mean "SignDescent"%?%)', refused "other.lua --optimizer=SignDecsent")
    assert.equal("default SignDescent lr=0.001 decay=-1: " .. all, (trained "train.lua --optimizer=mine")) -- the file itself
  end)

  it("a container is given a class and kwargs, over parts, and is of one type", function()
    write { ["plain.lua"] = [[
local optlua = require "optlua"
local optim, nn = optlua.optim, optlua.nn
local Mine = require "mine"
local parts = { { "body", nn.Linear(2, 3) }, { "head", nn.Linear(3, 1) } }
for _, given in ipairs { { Mine, { lr = 0.5 } }, { optim.AdamW, { lr = 1e-3, betas = { 0.9, 0.95 } } } } do
  local optimizers = optim.container(parts, given[1], given[2])
  print(#optimizers.optimizers, optimizers.optimizers[1].class == given[1], #optimizers.model_parts,
    table.concat(optimizers.groups[1].names, " "), optimizers.groups[1].lr)
end
print(pcall(function()
  optim.container(parts[1][2], Mine, {}):add_group { class = "AdamW", params = { parts[2][2].weight } }
end))
]], ["mine.lua"] = mine }
    local result = process.run(folder, "optlua plain.lua")
    local names = "body.weight body.bias head.weight head.bias"
    assert.equal(("1\ttrue\t2\t%s\t0.5\n1\ttrue\t2\t%s\t0.001\n"):format(names, names), (result.out:gsub("[^\n]*\n$", "")))
    assert.matches("false.*this container is of the class SignDescent, not AdamW", result.out)
  end)

  it("kwargs come from the config, without code", function()
    write { ["run.yaml"] = "optimizer:\n  betas: [0.8, 0.9]\n  eps: 1.0e-6\n" }
    local text = process.run(folder, "optlua train.lua --config run.yaml --optimizer.weight_decay=0.2 --print-config").out
    assert.matches("betas = { 0.8, 0.9 }", text)
    assert.matches("eps = 1e%-06", text)
    assert.matches("weight_decay = 0.2", text)
    assert.equal("default AdamW lr=0.001 decay=0.2: " .. all, (trained "train.lua --config run.yaml --optimizer.weight_decay=0.2"))
    local line, note = trained "train.lua --optimizer=SGD --optimizer.momentum=0.9"
    assert.equal("default SGD lr=0.001 decay=0.1: " .. all, line)
    assert.matches('"SGD" does not take betas; dropped', note)
    assert.matches('unknown option "betas"', refused "train.lua --optimizer=SGD --optimizer.betas='[0.9, 0.95]'")
  end)

  it("a lambda that a user registers is chosen by name, with arguments", function()
    write { ["lambdas.lua"] = [[
require("optlua").schedule.register("halving", { every = { default = 10, integer = true, min = 1, doc = "updates" } },
  function(args) return function(updates) return 0.5 ^ (updates // args.every) end end)
return require "train"
]] }
    assert.matches("lr=0.0005", (trained "lambdas.lua --lr_scheduler=halving --lr_scheduler.every=1"))
    assert.matches("%-%-lr_scheduler.every integer +updates. >= 1 %[10%]",
      process.run(folder, "optlua lambdas.lua --lr_scheduler=halving --help").out)
    assert.matches("lr_scheduler.every: expected an integer", refused "lambdas.lua --lr_scheduler=halving --lr_scheduler.every=0")
    assert.matches('unknown option "evry" %(did you mean "every"', refused "lambdas.lua --lr_scheduler=halving --lr_scheduler.evry=1")
  end)

  it("the builders of optimizers and of schedulers are replaced, while the rest stays", function()
    write { ["own.lua"] = [[
local optim = require("optlua").optim
return require("train"):extend {
  build_optimizers = function(parts) return optim.container(parts, optim.Lion, { lr = 0.25 }) end,
  build_lr_schedulers = function(optimizers, cfg, training_steps)
    return optim.lr_scheduler(optimizers, function(updates) return 1 - updates / training_steps end)
  end,
}
]] }
    assert.equal("default Lion lr=0.125 decay=0: " .. all, (trained "own.lua"))
  end)
end)

describe("an automatic configuration that hides parameter names:", function()
  local wrapper = [[
local optim = require("optlua").optim
return optim.wrapper {
  name = "NormBiasFirst",
  hyper = { inner = { default = "SGD", type = "class" }, lr = { default = 0.1, min = 0 }, times = { default = 5, min = 0 } },
  extra = true,
  build = function(named_params, args, extra)
    local decay, none = {}, {}
    for name, param, module in named_params do
      local free = name:find "bias" or module:type():find "Norm"
      table.insert(free and none or decay, { name, param })
    end
    return args.inner({ { name = "none", params = none, lr = args.lr * args.times, weight_decay = 0 },
      { name = "decay", params = decay, lr = args.lr } }, extra)
  end,
}
]]

  local free, rest = "0.bias 1.weight 1.bias 2.bias", "0.weight 2.weight"

  before_each(function() write { ["norms.lua"] = wrapper } end)

  it("an optimizer sees named parameters, and nobody touches the training script", function()
    assert.equal(("none AdamW lr=0.005 decay=0: %s\ndecay AdamW lr=0.001 decay=0.1: %s"):format(free, rest),
      (trained "train.lua --optimizer=norms --optimizer.inner=AdamW"))
  end)

  it("a subclass changes which parameters it sees", function()
    write { ["head.lua"] = [[
return require("train"):extend {
  parameters = function(model_parts, cfg, default)
    local named = default(model_parts, cfg)
    return function()
      for name, param, module in named do
        if name:find "^2" then return name, param, module end
      end
    end
  end,
}
]] }
    assert.equal("default AdamW lr=0.001 decay=0.1: 2.weight 2.bias", (trained "head.lua"))
    assert.equal("none SGD lr=0.005 decay=0: 2.bias\ndecay SGD lr=0.001 decay=0.1: 2.weight", (trained "head.lua --optimizer=norms"))
  end)

  it("a wrapper is chosen in a YAML file by class_path; its arguments and the inner class's are checked by name", function()
    local head = "optimizer:\n  class_path: norms\n  init_args:\n    inner: torch.optim.AdamW\n    lr: 0.5\n"
    write { ["good.yaml"] = head .. "    times: 2\n    betas: [0.8, 0.9]\n    fused: true\n",
      ["outer.yaml"] = head .. "    tiems: 2\n", ["inner.yaml"] = head .. "    momentum: 0.9\n",
      ["range.yaml"] = head .. "    betas: [0.8, 1.5]\n" }
    local lines, note = trained "train.lua --config good.yaml"
    assert.equal(("none AdamW lr=1 decay=0: %s\ndecay AdamW lr=0.5 decay=0.1: %s"):format(free, rest), lines)
    assert.matches("fused: not needed here, ignored", note)
    assert.matches('unknown option "tiems" %(did you mean "times"%?%)', refused "train.lua --config outer.yaml")
    assert.matches('unknown option "momentum"', refused "train.lua --config inner.yaml")
    assert.matches("optimizer.betas%[2%]: expected a number", refused "train.lua --config range.yaml")
  end)

  it("a model makes several optimizers and schedulers from factories that it is handed", function()
    write { ["two.lua"] = [[
local optlua = require "optlua"
local nn = optlua.nn
local Two = nn.class "Two"
function Two:init()
  self.a = nn.Linear(4, 8)
  self.b = nn.Linear(8, 3)
end
function Two:forward(x) return self.b(self.a(x)) end
function Two:configure_optimizers(make)
  local a, b = make.optimizers.a(self.a), make.optimizers.b(self.b)
  return { a = a, b = b }, { make.lr_schedulers.a(a), make.lr_schedulers.b(b) }
end
return require("train"):extend {
  config = { optimizer = false, optimizers = { a = { class = "AdamW", lr = 1 }, b = { class = "SGD", lr = 1 } },
    lr_schedulers = { a = { class = "linear", to = 0 }, b = { class = "constant", factor = 0.25 } } },
  build_model = function() return Two() end,
  train_step = function(state, batch, default)
    local loss = default(state, batch)
    loss:backward()
    for _, name in ipairs { "a", "b" } do
      state.optimizers[name]:step()
      state.optimizers[name]:zero_grad()
    end
    return loss
  end,
  on_step = function(state)
    print(("a lr=%g b lr=%g"):format(state.optimizers.a.groups.default.lr, state.optimizers.b.groups.default.lr))
  end,
}
]] }
    assert.equal("a lr=3 b lr=0.25\na lr=1.5 b lr=0.25", (trained "two.lua --optimizers.a.lr=3"))
    assert.matches('optimizers: unknown option "c"', refused "two.lua --optimizers.c.lr=3")
  end)
end)
