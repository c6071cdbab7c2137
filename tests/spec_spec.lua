-- Specs: the loop, what can be replaced, accumulation, several optimizers, runs and their folders.
local optlua = require "optlua"
local nn, optim, data = optlua.nn, optlua.optim, optlua.data

local fails = require("fails").matching

-- y = 2 x + 1, on a few points.
local function line(n)
  local x = optlua.arange(0, n):to "float32":reshape(n, 1) / n
  return data.tensors(x, 2 * x + 1)
end

local function definition(more)
  local fields = {
    name = "line",
    config = { seed = 1, epochs = 2, batch_size = 4, shuffle = false, optimizer = { class = "SGD", lr = 0.1 } },
    build_model = function() return nn.Linear(1, 1) end,
    build_data = function() return line(16), line(8) end,
    build_loss = function() return nn.MSELoss() end,
  }
  for key, value in pairs(more or {}) do fields[key] = value end
  return fields
end

local function make(more) return optlua.spec(definition(more)) end

describe("a spec", function()
  it("trains, and tells what came out", function()
    local result = make():run { epochs = 50 }
    assert.equal(200, result.steps)
    assert.is_true(result.loss < 0.01)
    assert.is_true(result.validation.loss < 0.01)
    assert.is_number(result.best.value)
    assert.is_nil(make():run({ epochs = 0 }).loss)
  end)

  it("notes a key of the script's own that is near another, unless it is described", function()
    local function notes(spec) return table.concat(spec:new_config().notes, "\n") end
    local function config(more)
      local result = { width = 1, n_head = 2, step = 3, optimizer = "SGD" }
      for key, value in pairs(more or {}) do result[key] = value end
      return result
    end
    assert.equal("", notes(make { config = config() }))
    assert.equal("the config has a key lr_schedulr of its own (did you mean lr_scheduler?)", notes(make { config = config { lr_schedulr = "cosine" } }))
    assert.equal("", notes(make { config = config { seeds = optlua.arg { default = 1 } } }))
    local derived = make({ config = config() }):extend { config = { widht = 2, lr_schedulr = "cosine" } }
    assert.matches("widht of its own %(did you mean width%?%)", notes(derived:extend {}))
    assert.matches("lr_schedulr of its own", notes(derived))
  end)

  it("checks what is monitored before it trains", function()
    local calls = 0
    local spec = make { metrics = { accuracy = optlua.metrics.accuracy() }, on_start = function() calls = calls + 1 end }
    fails('monitor: unknown metric "acurracy" %(did you mean "accuracy"%?%); legal: accuracy, loss', function() spec:run { monitor = "acurracy" } end)
    assert.equal(0, calls)
  end)

  it("gives the same bits for the same seed, and others for another", function()
    local function weights(seed)
      local spec = make { config = { epochs = 2, batch_size = 4, optimizer = { class = "AdamW" } } }
      return spec:run({ seed = seed }).model.weight:item()
    end
    assert.equal(weights(3), weights(3))
    assert.not_equal(weights(3), weights(4))
  end)

  it("ends by steps, epochs, patience, time, or as the script says", function()
    assert.equal(3, make():run({ steps = 3 }).steps)
    assert.equal(7, make():run({ steps = 7, epochs = 100 }).steps)
    assert.equal(4, make():run({ steps = 100, epochs = 1 }).steps)
    local still = make():run({ epochs = 50, optimizer = { lr = 0 }, patience = 2 })
    assert.equal(12, still.steps)
    assert.matches("no better loss in 2 validations", still.stopped)
    assert.equal(1, make { on_step = function(state) state:stop "enough" end }:run().steps)
    assert.matches("minutes are over", make { on_step = function() local t = os.clock() while os.clock() < t + 0.02 do end end }
      :run({ max_minutes = 1e-4, epochs = 1000 }).stopped)
    fails("neither epochs nor steps", function() make { config = { optimizer = { class = "SGD" } } }:run() end)
  end)

  it("validates after each epoch, or every so many updates, without a trace in the model", function()
    local seen = {}
    local spec = make { on_validation = function(state) seen[#seen + 1] = state.step end,
      build_model = function() return nn.Sequential { nn.Linear(1, 1), nn.Dropout(0.5) } end }
    local result = spec:run()
    assert.same({ 4, 8 }, seen)
    assert.is_true(result.model.training)
    seen = {}
    spec:run { eval_every = 3 }
    assert.same({ 3, 6, 8 }, seen)
  end)

  it("calls back, and hands over the state", function()
    local calls = {}
    local function note(name) return function(state) calls[#calls + 1] = name .. state.step end end
    make({ on_start = note "start", on_step = note "step", on_epoch = note "epoch", on_validation = note "validation",
      on_end = note "end" }):run { epochs = 1, batch_size = 8 }
    assert.same({ "start0", "step1", "step2", "validation2", "epoch2", "end2" }, calls)
  end)

  it("prints the mean loss of an epoch, by items, with its line", function()
    local lines, sum, count = {}, 0, 0
    make { build_data = function() return line(10) end,
      on_start = function(state) state.say = function(_, ...) lines[#lines + 1] = string.format(...) end end,
      on_step = function(state)
        local items = state.step % 3 == 0 and 2 or 4
        if state.step % 3 == 1 then sum, count = 0, 0 end
        sum, count = sum + state.loss * items, count + items
        state.printed = nil -- when a line was printed last
      end,
      train_step = function(state, batch, default) return default(state, batch), #batch[2] end,
    }:run { epochs = 2 }
    assert.matches(("epoch  2  step 6  loss %.4f"):format(sum / count), lines[2], 1, true)
  end)

  it("checks its definition and its config", function()
    fails('unknown field "build_modle" %(did you mean "build_model"', make, { build_modle = print })
    fails("build_model: a function expected, got a number", make, { build_model = 5 })
    fails("name: a word is required", function() optlua.spec { config = {} } end)
    fails('spec:run: unknown option "epoch"', function() make():run { epoch = 1 } end)
    fails("the spec has neither build_model nor a section model", function() make { build_model = false or nil }.run(
      optlua.spec { name = "x", config = { epochs = 1, optimizer = { class = "SGD" } }, build_data = function() return line(4) end }) end)
    fails("build_model returns a module or a list of parts", function() make { build_model = function() return 5 end }:run() end)
    fails("a dataset expected", function() make { build_data = function() return {} end }:run() end)
  end)

  it("keeps a loss that is not finite from doing harm", function()
    local function lossy(at)
      local calls = 0
      return function(state, batch, default)
        calls = calls + 1
        local loss, count = default(state, batch)
        if calls == at then loss = loss * (0 / 0) end
        return loss, count
      end
    end
    fails("the loss is %-?nan at update 2 %(epoch 1%): the parameters are finite; of their gradients that of '[%w.]+' is the first",
      function() make { train_step = lossy(3) }:run() end)
    fails("the loss is %-?nan at update 0 %(epoch 1%): parameter '[%w.]+' is not finite", function()
      make { on_start = function(state) optlua.no_grad(function() state.model.weight:fill_(0 / 0) end) end }:run()
    end)
    local result = make { train_step = lossy(3) }:run { optimizer = { nonfinite = "skip" } }
    assert.equal(7, result.steps)
    fails("3 updates in a row were skipped", function()
      make { train_step = function(state, batch, default) return default(state, batch) * (0 / 0) end }
        :run { optimizer = { nonfinite = "skip" }, max_skipped = 3 }
    end)
  end)
end)

describe("a model of several parts", function()
  local function parts() return { { "first", nn.Linear(1, 4) }, { "second", nn.Sequential { nn.Dropout(0.5), nn.Linear(4, 1) } } } end

  it("runs, switches and is saved as a whole", function()
    local path = os.tmpname()
    os.remove(path)
    local result = make { build_model = parts }:run({}, { out = path })
    assert.same({ "first.weight", "first.bias", "second.1.weight", "second.1.bias" }, result.state.optimizers.groups.default.names)
    local saved = optlua.load(path .. "/last.safetensors")
    for name, tensor in result.model:named_parameters() do assert.is_true(saved[name]:equal(tensor), name) end
    assert.is_true(result.model:get_submodule("second.0").training)
    os.execute(("rm -r '%s'"):format(path))
  end)

  it("has names for its parts", function()
    fails('part 1 is no pair { "name", module }', function()
      make { build_model = function() return { nn.Linear(1, 1), nn.Linear(1, 1) } end }:run()
    end)
    assert.equal(8, make { build_model = function() return { nn.Linear(1, 1) } end }:run().steps)
  end)
end)

describe("a training set without a batch", function()
  it("is an error, not a run without end", function()
    fails("the training set gives no batch", function()
      make { build_data = function() return { n = 0, get = print } end }:run { steps = 5 }
    end)
  end)
end)

describe("accumulation", function()
  -- A model whose loss is its weight times the mean of the batch: the gradient is that mean.
  local function weight_model(values, opts)
    local net = nn.Linear(1, 1, { bias = false })
    optlua.no_grad(function() net.weight:fill_(0) end)
    return optlua.spec {
      name = "weight", config = { epochs = 1, batch_size = 1, shuffle = false, accumulate = opts.accumulate,
        optimizer = { class = "SGD", lr = 1, momentum = opts.momentum or 0, nonfinite = opts.nonfinite or "error" } },
      build_model = function() return net end,
      build_data = function() return { n = #values, get = function(i) return values[i], 0 end } end,
      build_loss = function() return function() end end,
      train_step = function(state, batch)
        local i = math.floor(batch[1]:item() * 0) + 1
        return (net.weight * batch[1]:to "float32"):sum() * i, opts.counts and opts.counts[batch[1]:item()] or 1
      end,
    }, net
  end

  it("weighs batches by their items (case 42)", function()
    local spec, net = weight_model({ 4, 1 }, { accumulate = 2, counts = { [4] = 1, [1] = 3 } })
    spec:run()
    assert.equal(-1.75, net.weight:item())
    for _, case in ipairs { -- losses, their counts, the window, where it ends
      { { 4, 1 }, { [4] = 1, [1] = 1 }, 2, -2.5 }, { { 4, 1 }, { [4] = 0.5, [1] = 1.5 }, 2, -1.75 },
      { { 1, 4 }, { [4] = 1, [1] = 3 }, 2, -1.75 }, { { 4, 1 }, { [4] = 1, [1] = 3 }, 1, -5 }, -- alone, a mean is a mean
      { { 4, 1 }, { [4] = 1, [1] = 3 }, 9, -1.75 }, { { 4 }, { [4] = 1000 }, 2, -4 },
    } do
      spec, net = weight_model(case[1], { accumulate = case[3], counts = case[2] })
      spec:run()
      assert.near(case[4], net.weight:item(), 1e-6)
    end
  end)

  it("divides a shorter last window by what it has (case 43)", function()
    local spec, net = weight_model({ 1, 1, 1, 1, 1 }, { accumulate = 4 })
    local result = spec:run()
    assert.equal(2, result.steps)
    assert.equal(-2, net.weight:item())
    for batches = 1, 9 do -- every window is a mean, whole or not
      spec, net = weight_model(table.move({ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, 1, batches, 1, {}), { accumulate = 4 })
      assert.equal(math.ceil(batches / 4), spec:run().steps)
      assert.equal(-math.ceil(batches / 4), net.weight:item())
    end
  end)

  it("drops the whole window of a loss or gradient that is not finite (case 44)", function()
    local spec, net = weight_model({ 0 / 0, 1, 1, 1 }, { accumulate = 2, momentum = 0.5, nonfinite = "skip" })
    local result = spec:run()
    assert.equal(-1, net.weight:item())
    assert.equal(1, result.state.optimizers:stats().updates)
    for _, values in ipairs { { 1, 0 / 0, 1, 1 }, { math.huge, 1, 1, 1 }, { 1, -math.huge, 1, 1 }, { 0 / 0, 0 / 0, 1, 1 }, { 1, 1, 1, 0 / 0 } } do
      spec, net = weight_model(values, { accumulate = 2, momentum = 0.5, nonfinite = "skip" })
      result = spec:run()
      assert.equal(-1, net.weight:item())
      assert.equal(1, result.state.optimizers:state_dict()["state.weight.step"])
      fails("the loss is", function() weight_model(values, { accumulate = 2 }):run() end)
    end
  end)

  it("of equal batches equals one large batch", function()
    local function weights(batch, window)
      local net = make({ config = { seed = 1, epochs = 3, batch_size = batch, accumulate = window, shuffle = false,
        optimizer = { class = "AdamW", lr = 0.1 } } }):run().model
      return net.weight:item()
    end
    assert.near(weights(8, 1), weights(2, 4), 1e-6)
  end)
end)

describe("what a spec replaces", function()
  it("gets the built-in one last, and only that is replaced", function()
    local seen = {}
    local spec = make {
      build_optimizers = function(parts, cfg, default)
        seen.optimizers = default(parts, cfg)
        return seen.optimizers
      end,
      build_lr_schedulers = function(optimizers, cfg, training_steps, default)
        seen.steps, seen.default = training_steps, default(optimizers, cfg, training_steps)
        return optim.lr_scheduler(optimizers, function() return 0.5 end)
      end,
    }
    local result = spec:run()
    assert.equal(seen.optimizers, result.state.optimizers)
    assert.same({ 8, nil }, { seen.steps, seen.default })
    assert.equal(0.05, result.state.optimizers.groups.default.lr)
  end)

  it("with another class keeps of the old one's arguments those that it takes", function()
    local base = make { config = { epochs = 1, batch_size = 4, optimizer = { class = "AdamW", lr = 0.5, betas = { 0.5, 0.6 } },
      lr_scheduler = { class = "warmup_stable_decay", warmup_steps = 2 } } }
    local own = base:extend { config = { optimizer = { class = "SGD" }, lr_scheduler = { class = "LambdaLR", lr_lambda = function() return 0.5 end } } }
    assert.same({ class = "SGD", lr = 0.5 }, own.config.optimizer)
    assert.equal(0.25, own:run().state.optimizers.groups.default.lr)
    assert.same({ 0.5, 0.6 }, base:extend({ config = { optimizer = { class = "Adam" } } }).config.optimizer.betas)
    fails('optimizer: unknown option "betas"', function() base:extend({ config = { optimizer = { class = "SGD", betas = { 0.1, 0.1 } } } }):run() end)
  end)

  it("with groups of other classes keeps of the optimizer what they take", function()
    local base = make { config = { epochs = 1, batch_size = 4, optimizer = { class = "AdamW", lr = 0.5, weight_decay = 0.1, max_norm = 1 } } }
    local groups = { { name = "all", match = "*", class = "SGD" } }
    local own = base:extend { config = { groups = groups } }
    assert.same({ class = "AdamW", max_norm = 1 }, own.config.optimizer)
    assert.same({ 1, 1e-3 }, { own:run().state.optimizers.max_norm, own:run().state.optimizers.groups.all.lr })
    assert.same({ class = "SGD", lr = 0.5, weight_decay = 0.1, max_norm = 1 },
      base:extend({ config = { optimizer = { class = "SGD" }, groups = groups } }).config.optimizer)
    fails("optimizer.lr: no group takes it", function() base:extend({ config = { optimizer = { lr = 1 }, groups = groups } }):run() end)
  end)

  it("makes sections that nothing reads then errors where they are changed, and no part of the help", function()
    local spec = make { build_optimizers = function(parts) return optim.SGD(parts, { lr = 0.1 }) end }
    fails("optimizer: nothing reads it, for the script's build_optimizers takes its place", function() spec:run { optimizer = { lr = 1 } } end)
    fails("optimizer: nothing reads it", function() spec:run { optimizer = "Adam" } end)
    assert.equal(8, spec:run({ optimizer = { class = "SGD", lr = 0.1 } }).steps)
    assert.equal(8, spec:run({ optimizer = { nonfinite = "rollback" } }).steps)
    local reads = make { build_optimizers = function(parts, cfg) return optim.SGD(parts, { lr = cfg.optimizer.lr }) end }
    assert.equal(0.5, reads:run({ optimizer = { lr = 0.5 } }).state.optimizers.groups.default.lr)
    local help = require "optlua.config.help"
    assert.not_matches("optimizer.lr", help.text(spec:new_config(), "", {}), 1, true)
    assert.matches("optimizer.lr", help.text(reads:new_config(), "", {}), 1, true)
  end)

  it("may be the schedulers while the optimizers stay, and the reverse", function()
    local a = make { build_lr_schedulers = function(o) return optim.lr_scheduler(o, function(t) return t + 1 end) end }:run()
    assert.near(0.8, a.state.optimizers.groups.default.lr, 1e-12)
    local b = make { build_optimizers = function(parts) return optim.Lion(parts, { lr = 1 }) end,
      config = { epochs = 1, optimizer = { class = "SGD" }, lr_scheduler = { class = "constant", factor = 0.25 } } }:run()
    assert.equal(0.25, b.state.optimizers.groups.default.lr)
  end)

  it("may be the parameters that the optimizer sees, or the groups", function()
    local spec = make { parameters = function(parts, cfg, default)
      local iterator = default(parts, cfg)
      return function()
        for name, p, module in iterator do
          if name ~= "bias" then return name, p, module end
        end
      end
    end }
    assert.same({ "weight" }, spec:run().state.optimizers.groups.default.names)
    local grouped = make { param_groups = function() return optim.groups.no_decay() end,
      config = { epochs = 1, optimizer = { class = "AdamW", weight_decay = 0.1 } } }
    assert.same({ "bias" }, grouped:run().state.optimizers.groups.no_decay.names)
    fails('unknown group "decay"; there are none; the groups that the script\'s param_groups makes are set there', grouped.run, grouped,
      { groups = { decay = { lr = 1 } } })
  end)

  it("may be the step of a batch", function()
    local terms = {}
    local spec = make { train_step = function(state, batch, default)
      local loss, count = default(state, batch)
      local penalty = state.model.weight:square():sum()
      state:log("penalty", penalty)
      terms[#terms + 1] = penalty:item()
      return loss + penalty, count
    end }
    spec:run()
    assert.equal(8, #terms)
    fails("train_step returns a loss", function() make { train_step = function() return 5 end }:run() end)
    fails("the count of items is a number above 0", function()
      make { train_step = function(state, batch, default) return default(state, batch), 0 end }:run()
    end)
    fails("state:log: term: expected a number, got true", function()
      make { train_step = function(state) state:log("term", true) end }:run()
    end)
  end)

  it("is derived: functions around functions, configs key by key, callbacks added", function()
    local calls = {}
    local base = make { build_model = function() calls[#calls + 1] = "base" return nn.Linear(1, 1) end,
      on_end = function() calls[#calls + 1] = "end 1" end }
    local child = base:extend { name = "child", config = { optimizer = { lr = 0.5 } },
      build_model = function(cfg, train, default)
        calls[#calls + 1] = "child"
        return default(cfg, train)
      end, on_end = function() calls[#calls + 1] = "end 2" end }
    local result = child:run()
    assert.same({ "child", "base", "end 1", "end 2" }, calls)
    assert.equal(0.5, result.state.optimizers.groups.default.lr)
    assert.equal("SGD", result.state.config.optimizer.class)
    assert.equal("line", base.name)
  end)
end)

describe("the config of a spec builds", function()
  it("containers with groups that inherit, averages, schedules that know the run", function()
    local result = make { config = { epochs = 2, batch_size = 4,
      optimizer = { class = "AdamW", lr = 0.4, weight_decay = 0.1, max_norm = 1, ema = 0.5 },
      groups = { { name = "biases", match = "*.bias", weight_decay = 0, lr_scale = 0.5 }, { name = "rest", match = "*" } },
      lr_scheduler = { class = "linear", to = 0 } } }:run()
    local groups = result.state.optimizers.groups
    assert.same({ 0, 0.1 }, { groups.biases.weight_decay, groups.rest.weight_decay })
    assert.near(0.05, groups.rest.lr, 1e-12) -- the 8th of 8 updates
    assert.near(0.025, groups.biases.lr, 1e-12)
    assert.is_truthy(result.state.optimizers:state_dict()["state.weight.ema"])
  end)

  it("models, losses and data from registries", function()
    optlua.models.register("line_net", { bias = true }, function(args) return nn.Linear(1, 1, { bias = args.bias }) end)
    optlua.datasets.register("line_points", { n = { default = 16, integer = true, min = 1 } },
      function(args) return { line(args.n), line(8) } end)
    local spec = optlua.spec { name = "registered", config = { epochs = 1, batch_size = 4, optimizer = { class = "SGD" },
      model = { class = "line_net" }, data = { class = "line_points", n = 8 }, loss = { class = "mse" } } }
    assert.equal(2, spec:run().steps)
    assert.is_nil(spec:run({ model = { bias = false } }).model.bias)
    fails('model: unknown option "bais"', function() spec:run { model = { bais = false } } end)
    fails('loss: unknown loss "mes"', function() spec:run { loss = "mes" } end)
    optlua.models.unregister "line_net"
    optlua.datasets.unregister "line_points"
  end)

  it("nothing from sections that the script's functions take the place of", function()
    local own = make { build_lr_schedulers = function(o) return optim.lr_scheduler(o, function() return 1 end) end }
    for section, value in pairs { loss = "mse", data = "digits", model = "any", lr_scheduler = { class = "constant" } } do
      fails(section .. ": nothing reads it, for the script's build_" .. section, function() own:run { [section] = value } end)
    end
    fails("optimizers: nothing reads this section", function() make():run { optimizers = { gen = "SGD" } } end)
    fails("lr_schedulers: nothing reads this section", function() make():run { lr_schedulers = { gen = "constant" } } end)
    local handed = make { build_lr_schedulers = function(o, cfg, n, default) return default(o, cfg, n) end }
    assert.near(0.05, handed:run({ lr_scheduler = { class = "constant", factor = 0.5 } }).state.optimizers.groups.default.lr, 1e-12)
    local sectioned = make { build_loss = function(cfg) return optlua.losses.resolve(cfg.loss.class) {} end,
      config = { epochs = 1, optimizer = { class = "SGD" }, loss = { class = "mse" } } }
    assert.equal(1, sectioned:run({ loss = "l1", steps = 1 }).steps) -- the script's table has it
  end)

  it("wrappers, and says how to switch inherited groups off", function()
    local Split = optim.wrapper { name = "Split", build = function(named) return optim.SGD(named) end }
    local spec = make { config = { epochs = 1, optimizer = { class = Split }, groups = { { name = "all", match = "*" } } } }
    fails("the wrapper Split makes groups itself; switch those of the config off: %-%-groups=null", function() spec:run() end)
    assert.equal(1, spec:run({ batch_size = 16, groups = require("optlua.config.tree").null }).steps)
  end)
end)

describe("schedules in a spec", function()
  -- The rate at the end of each epoch.
  local function rates(section, more, config)
    local list = {}
    local fields = { on_epoch = function(state) list[#list + 1] = state.lr_schedulers:get_last_lr()[1] end,
      config = { epochs = 4, batch_size = 8, optimizer = { class = "SGD", lr = 1 }, lr_scheduler = section } }
    for key, value in pairs(more or {}) do fields[key] = value end
    for key, value in pairs(config or {}) do fields.config[key] = value end
    make(fields):run()
    return list
  end

  it("count epochs where they are told to", function()
    assert.same({ 1, 0.5, 0.25, 0.125 }, rates { class = "StepLR", step_size = 1, gamma = 0.5, interval = "epoch" })
    assert.same({ 0.5, 0.125, 0.03125, 0.0078125 }, rates { class = "StepLR", step_size = 1, gamma = 0.5 })
  end)

  it("lower on a plateau of what is validated, or else of the loss", function()
    local plateau = { class = "ReduceLROnPlateau", patience = 0, factor = 0.5, threshold = 0 }
    local still = { train_step = function(state, batch, default) return default(state, batch) * 0 + 1 end }
    local function flat() return function(output) return output:sum() * 0 + 1 end end
    assert.same({ 1, 1, 0.5, 0.25 }, rates(plateau, { build_loss = flat }))
    assert.same({ 1, 1, 0.5, 0.25 }, rates(plateau, { train_step = still.train_step, build_data = function() return line(16) end }))
    local rises = 0
    local metric = { update = function() end, reset = function() end, compute = function() rises = rises + 1 return rises end }
    plateau.mode = "max"
    assert.same({ 1, 1, 1, 1 }, rates(plateau, { metrics = { height = metric } }))
    metric.compute = function() return 0 / 0 end
    assert.same({ 1, 1, 0.5, 0.25 }, rates(plateau, { metrics = { height = metric } }))
  end)
end)

describe("what a spec is handed back", function()
  local function run(more, config)
    return function()
      local fields = { config = { epochs = 1, batch_size = 4, optimizer = { class = "SGD", lr = 0.1 } } }
      for key, value in pairs(more) do fields[key] = value end
      for key, value in pairs(config or {}) do fields.config[key] = value end
      return make(fields):run()
    end
  end
  local function gives(value) return function() return value end end

  it("is checked, and named when it is wrong", function()
    for message, more in pairs {
      ["build_loss returns a function %(output, target%), not a nil"] = { build_loss = gives(nil) },
      ["build_loss returns a function %(output, target%), not a number"] = { build_loss = gives(5) },
      ["build_optimizers returns an optimizer .*, not nil"] = { build_optimizers = gives(nil) },
      ["build_optimizers returns an optimizer .*, not 5"] = { build_optimizers = gives(5) },
      ["not another object"] = { build_optimizers = gives { step = print } },
      ["build_lr_schedulers returns a scheduler, a list of them, or nothing, not a number"] = { build_lr_schedulers = gives(5) },
      ["param_groups returns a list of groups, not a number"] = { param_groups = gives(5) },
      ["parameters: .*not a nil"] = { parameters = gives(nil) }, ["none left to train"] = { parameters = gives(function() end) },
      ["metrics: they have names"] = { metrics = { 5 } }, ["metrics: a needs update"] = { metrics = { a = 5 } },
      ["metrics: loss is measured anyway"] = { metrics = { loss = optlua.metrics.accuracy() } },
      ["count of items is a number above 0, not inf"] = { train_step = function(state, batch, default) return default(state, batch), math.huge end },
      ['cannot be "%.%./x"'] = { name = "../x" }, ['cannot be ""'] = { name = "" }, ['cannot be "a/b"'] = { name = "a/b" },
    } do fails(message, run(more)) end
    assert.same({ "weight" }, run({ parameters = function(model) return { { "weight", model.weight } } end })().state.optimizers.groups[1].names)
    fails("spec:extend: a table expected", function() make():extend(5) end)
    fails("spec:run: a table of values expected", function() make():run(5) end)
  end)

  it("fits what the loop reads of the script's config", function()
    for message, config in pairs {
      ["log_every: expected an integer at least 1, got 0"] = { log_every = 0 }, ["epochs: expected an integer at least 0"] = { epochs = -1 },
      ["monitor_mode: expected one of"] = { monitor_mode = "x" }, ["batch_size: expected an integer"] = { batch_size = "many" },
    } do fails(message, run({}, config)) end
    local no_validation = { build_data = function() return line(8) end }
    fails("patience: there is no validation set", run(no_validation, { patience = 1 }))
    fails("monitor: there is no validation set", run(no_validation, { monitor = "loss" }))
  end)
end)

describe("a model that configures its optimizers", function()
  local Pair = nn.class "Pair"
  function Pair:init()
    self.gen = nn.Linear(1, 1)
    self.disc = nn.Linear(1, 1)
  end
  function Pair:forward(x) return self.disc(self.gen(x)) end
  function Pair:configure_optimizers(factories)
    local gen, disc = factories.optimizers.gen(self.gen), factories.optimizers.disc(self.disc)
    return { gen = gen, disc = disc }, { gen = factories.lr_schedulers.gen(gen) }
  end

  local function pair(more)
    local fields = { name = "pair",
      config = { epochs = 2, batch_size = 4, optimizers = { gen = { class = "Adam", lr = 0.1 }, disc = { class = "SGD", lr = 0.2 } },
        lr_schedulers = { gen = { class = "linear", to = 0 } } },
      build_model = function() return Pair() end, build_data = function() return line(16) end, build_loss = function() return nn.MSELoss() end,
      train_step = function(state, batch)
        local loss = state.loss_fn(state.model(batch[1]), batch[2])
        loss:backward()
        for _, name in ipairs { "gen", "disc" } do
          state.optimizers[name]:step()
          state.optimizers[name]:zero_grad()
        end
        return loss
      end }
    for key, value in pairs(more or {}) do fields[key] = value end
    return optlua.spec(fields)
  end

  it("is handed factories, which the config reaches by name", function()
    local result = pair():run { optimizers = { disc = { lr = 0.5, momentum = 0.9 } } }
    local optimizers = result.state.optimizers
    assert.equal(8, result.steps)
    assert.same({ 0.5, 0.9 }, { optimizers.disc.groups.default.lr, optimizers.disc.groups.default.momentum })
    assert.near(0.1 / 8, optimizers.gen.groups.default.lr, 1e-12)
    assert.same({ "weight", "bias" }, optimizers.gen.groups.default.names)
  end)

  it("needs a train_step, and names that are there", function()
    fails("the spec needs a train_step", function()
      optlua.spec { name = "x", config = { epochs = 1, optimizers = { gen = { class = "SGD" }, disc = { class = "SGD" } },
        lr_schedulers = { gen = { class = "constant" } } }, build_model = function() return Pair() end,
        build_data = function() return line(4) end, build_loss = function() return nn.MSELoss() end }:run()
    end)
    fails('make.lr_schedulers: unknown section "gen"', function() pair { config = { epochs = 1,
      optimizers = { gen = { class = "SGD" }, disc = { class = "SGD" } } } }:run() end)
  end)
end)

describe("a run's folder", function()
  local function temporary()
    local path = os.tmpname()
    os.remove(path)
    return path
  end

  local function read(path)
    local file = assert(io.open(path))
    local text = file:read "a"
    file:close()
    return text
  end

  it("holds config, facts, logs of all digits, the best and the last weights", function()
    local path = temporary()
    local result = make { train_step = function(state, batch, default)
      state:log("extra", state.step + 0.1)
      return default(state, batch)
    end }:run({}, { out = path .. "/deep/run" })
    path = path .. "/deep/run"
    local lines = {}
    for text in io.lines(path .. "/log.jsonl") do
      local record = assert((require("optlua.core").hidden.json_decode(text)))
      if record.event ~= "checkpoint" then lines[#lines + 1] = record end
    end
    assert.equal(10, #lines)
    assert.same({ 1, 1, 0.1 }, { lines[1].step, lines[1].epoch, lines[1]["lr.default"] })
    assert.equal(0.1, lines[1].extra)
    assert.equal(result.loss, lines[9].loss)
    assert.same({ "validation", result.validation.loss }, { lines[10].event, lines[10].loss })
    local csv = read(path .. "/log.csv")
    assert.matches("^step,epoch,extra,grad_norm,loss,lr.default,seconds\n1,1,0.10000000000000001,", csv)
    assert.matches('class = "SGD"', read(path .. "/config.lua"))
    assert.matches('"threads": %d', read(path .. "/run.json"))
    local net = nn.Linear(1, 1)
    net:load(path .. "/last.safetensors")
    assert.is_true(net.weight:equal(result.model.weight))
    net:load(path .. "/best.safetensors")
    os.execute(("rm -r '%s'"):format(path:match "^(.*)/deep/run$"))
  end)

  it("that cannot be made is an error; a log that cannot be written is said once", function()
    fails("the folder of the run cannot be made: /dev/null", function() make():run({}, { out = "/dev/null/x" }) end)
    local log = require("optlua.spec.log").new "/nowhere"
    assert.is_true(log.failed)
    log:write { step = 1 }
    log:close()
  end)
end)
