-- Groups of a container: inheritance, scales, presets, wrappers, hooks, averages, narrow states, what can be seen.
local optlua = require "optlua"
local nn, optim, schedule = optlua.nn, optlua.optim, optlua.schedule

local fails = require("fails").matching

local function model() return nn.Sequential { nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2) } end

local function give_gradients(net, value)
  for _, p in net:named_parameters() do p.grad = optlua.full(p.shape, value or 1) end
end

local function weights(net)
  local list = {}
  for name, p in net:named_parameters() do list[name] = p:detach():clone() end
  return list
end

local function same(a, b)
  for name, tensor in pairs(a) do
    if not tensor:equal(b[name]) then return false end
  end
  return true
end

describe("what a group leaves out", function()
  it("comes from the options, where they name its class or none", function()
    local net = model()
    local optimizer = optim.container(net, {
      { name = "biases", match = "*.bias", weight_decay = 0 },
      { name = "norm", match = { role = "norm" }, class = "SGD", lr = 1 },
      { name = "rest", match = "*", class = optim.AdamW, lr = 2 },
    }, { class = "AdamW", lr = 3, weight_decay = 0.5, max_norm = 1 })
    local groups = optimizer.groups
    assert.same({ 3, 0 }, { groups.biases.lr, groups.biases.weight_decay })
    assert.same({ 1, 0 }, { groups.norm.lr, groups.norm.weight_decay }) -- of another class
    assert.same({ 2, 0.5 }, { groups.rest.lr, groups.rest.weight_decay })
    local any = optim.container(net, { { match = "0.*", class = "SGD" }, { match = "*", class = "Lion" } }, { lr = 0.5 })
    assert.same({ 0.5, 0.5 }, { any.groups[1].lr, any.groups[2].lr })
  end)

  it("is checked by its class", function()
    local net = model()
    fails('group \'group1\': unknown hyperparameter "wieght_decay"', optim.container, net, { { match = "*" } },
      { class = "AdamW", wieght_decay = 1 })
    fails('unknown option "max_nrom" %(did you mean "max_norm"%?%)', optim.container, net, { { match = "*", class = "SGD" } },
      { max_nrom = 1 })
    fails("class: a class or its name is required", optim.container, net, { { match = "*" } }, { lr = 1 })
    fails("'max_norm' is an option of the container", optim.container, net, { { match = "*", class = "SGD", max_norm = 1 } })
  end)

  it("is an error where no group takes it", function()
    local net = model()
    local groups = { { name = "a", match = "0.*", class = "SGD" }, { name = "b", match = "*", class = "Lion" } }
    fails("optim.container: lr: no group takes it: it is for groups of the class AdamW, and each has another %(Lion, SGD%)", optim.container,
      net, groups, { class = "AdamW", lr = 1, max_norm = 1 })
    fails('unknown option "lrr" %(did you mean "lr"%?%); legal: agc, ', optim.container, net, groups, { class = "AdamW", lrr = 1 })
    fails('unknown option "betas"; legal: ', optim.container, net, { { match = "*", class = "SGD" } }, { betas = { 0.9, 0.99 } })
    assert.equal(1, optim.container(net, groups, { class = "AdamW", max_norm = 1 }).max_norm)
    assert.equal(2, optim.container(net, groups, { class = "SGD", lr = 2 }).groups.a.lr)
  end)

  it("is the same for a group that is added", function()
    local optimizer = optim.container(model(), { { name = "all", match = "*" } }, { class = "AdamW", betas = { 0.5, 0.6 }, lr = 3 })
    optimizer:add_group { name = "same", params = { { "p", optlua.zeros(1) } } }
    optimizer:add_group { name = "other", params = { { "q", optlua.zeros(1) } }, class = "SGD" }
    local groups = optimizer.groups
    assert.same({ 3, 0.5, 1e-3 }, { groups.same.lr, groups.same.betas[1], groups.other.lr })
    local any = optim.container(model(), { { match = "*", class = "AdamW" } }, { betas = { 0.5, 0.6 }, lr = 3 })
    any:add_group { name = "other", params = { { "q", optlua.zeros(1) } }, class = "SGD" }
    assert.equal(3, any.groups.other.lr)
  end)

  it("is scaled, wherever it comes from", function()
    local net = model()
    local optimizer = optim.container(net, {
      { name = "a", match = "0.*", lr_scale = 0.5 }, { name = "b", match = "*", wd_scale = 0, lr = 8, lr_scale = 0.25 },
    }, { class = "AdamW", lr = 3, weight_decay = 0.5 })
    assert.same({ 1.5, 0.5, 2, 0 }, { optimizer.groups.a.lr, optimizer.groups.a.weight_decay, optimizer.groups.b.lr,
      optimizer.groups.b.weight_decay })
    fails("lr_scale: expected a number at least 0, got %-1", optim.container, net, { { match = "*", lr_scale = -1 } }, { class = "SGD" })
    assert.matches("lr = 1.5: from the defaults, times 0.5", optimizer:explain "0.weight")
  end)
end)

describe("presets", function()
  it("no_decay finds norms by role (case 20)", function()
    local optimizer = optim.container(model(), optim.groups.no_decay(), { class = "AdamW", weight_decay = 0.1 })
    assert.same({ "0.bias", "1.weight", "1.bias", "2.bias" }, optimizer.groups.no_decay.names)
    assert.same({ "0.weight", "2.weight" }, optimizer.groups.decay.names)
    assert.same({ 0, 0.1 }, { optimizer.groups.no_decay.weight_decay, optimizer.groups.decay.weight_decay })
    fails("takes no module: optim.container%(model, optim.groups.no_decay%(%)", optim.groups.no_decay, model())
    local only = optim.container(nn.Linear(2, 2, { bias = false }), optim.groups.no_decay(), { class = "SGD" })
    assert.equal(0, #only.groups.no_decay.names)
  end)

  it("layerwise_decay counts layers in the structure, frozen ones too", function()
    local net = nn.class "Net" ()
    net.embed = nn.Embedding(5, 4)
    net.blocks = nn.ModuleList()
    for k = 1, 3 do net.blocks:append(nn.Linear(4, 4)) end
    net.norm = nn.LayerNorm(4)
    net.head = nn.Linear(4, 5)
    net.blocks[2]:requires_grad_(false)
    local optimizer = optim.container(net, optim.groups.layerwise_decay(net, 0.5), { class = "SGD", lr = 16 })
    local rates = {}
    for i, group in pairs(optimizer.groups) do rates[i] = group.lr end
    assert.same({ 1, 2, 4, 8, 16 }, rates)
    assert.same({ "blocks.1.weight", "blocks.1.bias" }, optimizer.groups.layer_2.names)
    assert.same({ "norm.weight", "norm.bias", "head.weight", "head.bias" }, optimizer.groups.layer_4.names)
    fails("decay: expected a number at most 1 and above 0",
      optim.groups.layerwise_decay, net, 1.5)
    local plain = nn.class "Plain" ()
    plain.one = nn.Linear(2, 2)
    plain.two = nn.Linear(2, 2)
    assert.equal(2, #optim.groups.layerwise_decay(plain, 0.5))
  end)

  it("muon_adamw gives hidden matrices to Muon, and the rest to AdamW", function()
    local net = nn.Sequential { nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 5) }
    local optimizer = optim.container(net, optim.groups.muon_adamw(net, { muon = { lr = 0.02 } }))
    assert.same({ "1.weight" }, optimizer.groups.muon.names)
    assert.equal(0.02, optimizer.groups.muon.lr)
    assert.equal(2, #optimizer.optimizers)
    local other = optim.container(net, optim.groups.muon_adamw(net, { head = "1.weight" }))
    assert.same({ "3.weight" }, other.groups.muon.names)
  end)
end)

local function splitter(extra)
  return optim.wrapper {
    name = "Splitter", extra = extra,
    hyper = { inner = { default = "AdamW", type = "class" }, lr = { default = 0.1, min = 0 }, scale = { default = 5, min = 0 } },
    build = function(named, args, more)
      local a, b = {}, {}
      for name, p, module in named do
        table.insert(optim.role(name, p, module) == "weight" and a or b, { name, p, module })
      end
      return args.inner({ { name = "weights", params = a, lr = args.lr }, { name = "others", params = b, lr = args.lr * args.scale } }, more)
    end,
  }
end

describe("a wrapper", function()
  it("stands where a class can, and sees names", function()
    local Splitter = splitter()
    local optimizer = optim.container(model(), Splitter, { lr = 0.5, inner = "SGD", max_norm = 1 })
    assert.same({ "weights", "others" }, { optimizer.groups[1].name, optimizer.groups[2].name })
    assert.same({ 0.5, 2.5 }, { optimizer.groups.weights.lr, optimizer.groups.others.lr })
    assert.equal(optim.SGD, optimizer.groups.others.class)
    local alone = Splitter(model(), { lr = 1 })
    assert.equal(5, alone.groups.others.lr)
    local inside = optim.container(model(), {
      { name = "first", match = "0.*", class = Splitter, lr = 1 }, { name = "rest", match = "*", class = "Lion", lr = 3 },
    })
    assert.same({ "first.weights", "first.others", "rest" },
      { inside.groups[1].name, inside.groups[2].name, inside.groups[3].name })
  end)

  it("steps, schedules, saves and loads as its groups do", function()
    local function make(net)
      local optimizer = optim.container(net, { { name = "w", match = "*", class = splitter(), inner = "SGD" } })
      optim.lr_scheduler(optimizer, { ["w.others"] = function(updates) return 1 + updates end })
      return optimizer
    end
    local net = model()
    local optimizer = make(net)
    for _ = 1, 2 do
      give_gradients(net)
      optimizer:step()
    end
    assert.equal(1, optimizer.groups["w.others"].lr)
    local other = model()
    other:load_state_dict(net:state_dict())
    local again = make(other)
    again:load_state_dict(optimizer:state_dict())
    give_gradients(net)
    give_gradients(other)
    optimizer:step()
    again:step()
    assert.is_true(same(weights(net), weights(other)))
  end)

  it("has its own arguments and those of the inner class checked, by name", function()
    local net = model()
    fails('unknown hyperparameter "scael" %(did you mean "scale"%?%); legal: lr, scale, inner', optim.container, net, splitter(), { scael = 1 })
    fails("scale: expected a number at least 0, got %-1", optim.container, net, splitter(), { scale = -1 })
    fails('inner: unknown optimizer "AdamWW"', optim.container, net, splitter(), { inner = "AdamWW" })
    fails('unknown hyperparameter "momentun"', optim.container, net, splitter(true), { inner = "SGD", momentun = 1 })
    assert.equal(0.9, optim.container(net, splitter(true), { inner = "SGD", momentum = 0.9 }).groups.weights.momentum)
  end)

  it("can build from wrappers", function()
    local Outer = optim.wrapper { name = "Outer", hyper = { inner = { default = splitter(), type = "class" } },
      build = function(named, args) return args.inner(named, { inner = "SGD", lr = 2 }) end }
    assert.equal(10, optim.container(model(), Outer).groups.others.lr)
  end)

  it("must take every parameter, and return optimizers", function()
    local function build(fn) return optim.wrapper { name = "Odd", build = fn } end
    local net = model()
    fails("Odd: build left out the parameters '0.bias'", optim.container, net, build(function(named)
      local list = {}
      for name, p in named do
        if name ~= "0.bias" then list[#list + 1] = { name, p } end
      end
      return optim.SGD(list)
    end))
    fails("build returns an optimizer or a list of them, not nil", optim.container, net, build(function() end))
    fails("item 1 that build returned is no optimizer", optim.container, net, build(function() return { 5 } end))
    fails("optim.wrapper: build: is required", optim.wrapper, { name = "x" })
    fails("groups cannot take what they leave out from the wrapper", optim.container, net, { { match = "*" } },
      { class = splitter() })
  end)

  it("may return several optimizers, whose groups have names of their own", function()
    local Two = optim.wrapper { name = "Two", hyper = { twice = false, named = false }, build = function(named, args)
      local list = {}
      for name, p in named do list[#list + 1] = { name, p } end
      if args.twice then return { optim.SGD(list), optim.Adam(list) } end
      local first, rest = table.move(list, 1, 2, 1, {}), table.move(list, 3, #list, 1, {})
      if args.named then return { optim.SGD { { name = "a", params = first } }, optim.Adam { { name = "b", params = rest } } } end
      return { optim.SGD(first, { lr = 0.5 }), optim.Adam(rest, { lr = 0.25 }) }
    end }
    local function names(...)
      local list = {}
      for i, group in pairs(optim.container(model(), ...).groups) do list[i] = group.name end
      return list
    end
    assert.same({ "1.default", "2.default" }, names(Two))
    assert.same({ "a", "b" }, names(Two, { named = true }))
    assert.same({ "w.1.default", "w.2.default", "rest" }, names { { name = "w", match = "0.*|1.*", class = Two }, { name = "rest", match = "*", class = "SGD" } })
    local alone = Two(model())
    assert.same({ 0.5, 0.25 }, { alone.groups["1.default"].lr, alone.groups["2.default"].lr })
    alone:load_state_dict(alone:state_dict())
    fails("Two: build put the parameter '0.weight' into two optimizers", optim.container, model(), Two, { twice = true })
    fails("two groups are named 'w.a'", optim.container, model(), { { name = "w", match = "0.*|1.*", class = Two, named = true },
      { name = "w.a", match = "*", class = "SGD" } })
  end)

  it("is reached by the container's options", function()
    local net = nn.Linear(2, 2)
    local optimizer = optim.container(net, splitter(), { ema = 0.5, track_updates = true, state_dtype = "bfloat16", inner = "Adam" })
    give_gradients(net)
    optimizer:step()
    local state = optimizer:state_dict()
    assert.is_truthy(state["state.weight.ema"])
    assert.equal("bfloat16", state["state.weight.exp_avg"].dtype)
    assert.equal(0.5, optimizer.groups.others.lr)
    assert.is_true(optimizer:stats().groups.weights.update_ratio > 0)
    local before = net.weight:detach():clone()
    assert.is_false(optimizer:with_ema(function() return net.weight:equal(before) end))
  end)

  it("may not have what would be lost", function()
    local function build(opts, hook)
      return optim.wrapper { name = "Inner", build = function(named)
        local inner = optim.container(named, "SGD", opts)
        if hook then inner:register_step_pre_hook(hook) end
        return inner
      end }
    end
    fails("Inner: what build returned has the option max_norm; that belongs to the container around it", optim.container, model(), build { max_norm = 1 })
    fails("the option nonfinite", optim.container, model(), build { nonfinite = "skip" })
    fails("has hooks", optim.container, model(), { { match = "*", class = build({}, print) } })
    assert.equal(1, #optim.container(model(), build {}).groups)
    fails("name: a word expected", optim.wrapper, { name = "", build = print })
  end)

  it("may return optimizers of anybody's making", function()
    local own = { steps = 0, zeros = 0 }
    function own:step() self.steps = self.steps + 1 end
    function own:zero_grad() self.zeros = self.zeros + 1 end
    function own:state_dict() return { steps = self.steps } end
    function own:load_state_dict(state) self.steps = state.steps end
    local Own = optim.wrapper { name = "Own", build = function() return own end }
    local net = model()
    local optimizer = optim.container(net, { { name = "own", match = "*.bias", class = Own }, { match = "*", class = "SGD" } })
    give_gradients(net)
    optimizer:step()
    optimizer:zero_grad()
    assert.same({ 1, 1 }, { own.steps, own.zeros })
    local state = optimizer:state_dict()
    own.steps = 7
    optimizer:load_state_dict(state)
    assert.equal(1, own.steps)
  end)
end)

describe("a step with an optimizer of anybody's making", function()
  -- Plain descent on one parameter, with a count; `broken` makes it fail after it has written.
  local function setup(opts)
    local net = nn.Linear(1, 1)
    optlua.no_grad(function() net.weight:fill_(1) net.bias:fill_(1) end)
    local own = { count = 0, broken = false }
    function own:step()
      optlua.no_grad(function() net.bias:sub_(net.bias.grad) end)
      self.count = self.count + 1
      if self.broken then error "broken member" end
    end
    function own:zero_grad() net.bias.grad = nil end
    function own:state_dict() return { count = self.count } end
    function own:load_state_dict(state) self.count = state.count end
    local Own = optim.wrapper { name = "Own", build = function() return own end }
    local optimizer = optim.container(net, { { name = "own", match = "bias", class = Own }, { match = "*", class = "SGD", lr = 1 } }, opts)
    return net, own, optimizer
  end

  local function values(net, own, optimizer)
    return { net.weight:item(), net.bias:item(), own.count, optimizer:stats().updates }
  end

  it("is counted where nothing else has a gradient, and not without one", function()
    local net, own, optimizer = setup()
    optim.lr_scheduler(optimizer, function(update) return 1 / (1 + update) end)
    for t = 1, 3 do
      net.bias.grad = optlua.ones { 1 }
      optimizer:step()
      assert.same({ 1, 1 - t, t, t }, values(net, own, optimizer))
    end
    assert.near(1 / 3, optimizer.groups[1].lr, 1e-12)
    function own:step() self.count = self.count + 1 end
    net.bias.grad = nil
    optimizer:step()
    assert.equal(3, optimizer:stats().updates)
  end)

  it("is made as a whole, or not at all", function()
    local net, own, optimizer = setup()
    give_gradients(net, 0.5)
    optimizer:step()
    assert.same({ 0.5, 0.5, 1, 1 }, values(net, own, optimizer))
    own.broken = true
    give_gradients(net, 0.5)
    fails("broken member", optimizer.step, optimizer)
    assert.same({ 0.5, 0.5, 1, 1 }, values(net, own, optimizer))
    own.broken = false
    optim.lr_scheduler(optimizer, { group2 = function(updates) if updates > 0 and own.count > 1 then error "broken lambda" end return 1 end })
    fails("broken lambda", optimizer.step, optimizer)
    assert.same({ 0.5, 0.5, 1, 1 }, values(net, own, optimizer))
  end)

  it("is skipped as a whole, whoever's gradient is not finite", function()
    for _, bad in ipairs { "weight", "bias" } do
      local net, own, optimizer = setup { nonfinite = "skip" }
      give_gradients(net, 0.5)
      net[bad].grad:fill_(0 / 0)
      optimizer:step()
      assert.same({ 1, 1, 0, 0 }, values(net, own, optimizer))
      assert.is_nil(net.bias.grad)
      assert.equal(1, optimizer:stats().skipped)
      local _, _, strict = setup { nonfinite = "error" }
      net = strict.model_parts[1]
      give_gradients(net, 0.5)
      net[bad].grad:fill_(0 / 0)
      fails(("the gradient of parameter '%s' is not finite"):format(bad), strict.step, strict)
    end
  end)
end)

describe("a class is resolved", function()
  it("by name, by PyTorch's full name, by a module of its own", function()
    assert.equal(optim.AdamW, optim.resolve "torch.optim.AdamW")
    fails('unknown optimizer "nowhere.at_all"', optim.resolve, "nowhere.at_all")
    fails("the module fails returns no class", optim.resolve, "fails")
  end)

  it("and listed and forgotten by globs", function()
    optim.register("MineA", optim.SGD)
    optim.register("MineB", splitter())
    assert.same({ "MineA", "MineB" }, optim.list "Mine*")
    assert.same({ "Adam", "AdamW", "Adamax" }, optim.list "Adam*")
    optim.unregister "Mine*"
    assert.same({}, optim.list "Mine*")
    fails('unknown optimizer "MineA"', optim.unregister, "MineA")
    fails("SGD comes with the library", optim.unregister, "SGD")
    fails("a name or a glob expected, got a nil", optim.unregister)
  end)
end)

describe("hooks of a step", function()
  it("see the gradients before, the weights after, and can be removed", function()
    local net, seen = nn.Linear(1, 1, { bias = false }), {}
    local optimizer = optim.SGD(net, { lr = 1 })
    local hook = optimizer:register_step_pre_hook(function(o)
      assert.equal(optimizer, o)
      net.weight.grad:mul_(2)
      seen[#seen + 1] = "before"
    end)
    optimizer:register_step_post_hook(function() seen[#seen + 1] = "after" end)
    net.weight:detach():fill_(0)
    give_gradients(net)
    optimizer:step()
    assert.equal(-2, net.weight:item())
    hook:remove()
    hook:remove()
    give_gradients(net)
    optimizer:step()
    assert.equal(-3, net.weight:item())
    assert.same({ "before", "after", "after" }, seen)
  end)

  it("cannot step or add groups; their errors leave everything as it was", function()
    local net = nn.Linear(1, 1)
    local optimizer = optim.SGD(net)
    local before = weights(net)
    give_gradients(net)
    local hook = optimizer:register_step_pre_hook(function(o) o:step() end)
    fails("step: not from a hook of its step", optimizer.step, optimizer)
    hook:remove()
    hook = optimizer:register_step_pre_hook(function(o) o:add_group { params = { optlua.zeros(1) } } end)
    fails("add_group: not from a hook", optimizer.step, optimizer)
    hook:remove()
    hook = optimizer:register_step_pre_hook(function() error "broken hook" end)
    fails("broken hook", optimizer.step, optimizer)
    assert.is_true(same(before, weights(net)))
    hook:remove()
    optimizer:step()
    assert.is_false(same(before, weights(net)))
    fails("a function expected, got a number", optimizer.register_step_post_hook, optimizer, 5)
  end)
end)

describe("the container's options:", function()
  it("ema keeps averages, which can be swapped in", function()
    local net = nn.Linear(1, 1, { bias = false })
    net.weight:detach():fill_(1)
    local optimizer = optim.container(net, "SGD", { lr = 1, ema = 0.75 })
    give_gradients(net)
    optimizer:step() -- 0; average 0.75
    give_gradients(net)
    optimizer:step() -- -1; average 0.3125
    assert.equal(0.3125, optimizer:with_ema(function() return net.weight:item() end))
    assert.equal(-1, net.weight:item())
    fails("broken", function() optimizer:with_ema(function() error "broken" end) end)
    assert.equal(-1, net.weight:item())
    assert.equal(0.3125, optimizer:state_dict()["state.weight.ema"]:item())
    assert.equal(0.3125, optimizer:with_ema(function() return optimizer:with_ema(function() return net.weight:item() end) end))
    fails("step: not inside with_ema", optimizer.with_ema, optimizer, function() optimizer:step() end)
    assert.equal(-1, net.weight:item())
    fails("with_ema: a function expected, got a nil", optimizer.with_ema, optimizer)
    fails("swap_ema: averages are kept with the container's option ema", function() optim.container(net, "SGD"):swap_ema() end)
  end)

  it("state_dtype halves the states, but not averages", function()
    local net = nn.Linear(8, 8, { bias = false })
    local function bytes(opts)
      local optimizer = optim.container(net, "AdamW", opts)
      give_gradients(net)
      optimizer:step()
      return optimizer:stats().state_bytes, optimizer
    end
    assert.equal(512, (bytes {}))
    local half, optimizer = bytes { state_dtype = "bfloat16" }
    assert.equal(256, half)
    assert.equal("bfloat16", optimizer:state_dict()["state.weight.exp_avg"].dtype)
    assert.equal(512, (bytes { state_dtype = "bfloat16", ema = 0.9 }))
    local by_group = optim.container(net, { { match = "*", class = "AdamW", state_dtype = "bfloat16" } })
    assert.matches("256 bytes of state", by_group:plan())
    local again = optim.container(net, "AdamW", { state_dtype = "bfloat16" })
    again:load_state_dict(optimizer:state_dict())
    assert.equal("bfloat16", again:state_dict()["state.weight.exp_avg"].dtype)
    fails('state_dtype: expected one of', optim.container, net, "SGD", { state_dtype = "float16" })
  end)

  it('nonfinite = "skip" makes no update, and clears the gradients (case 44)', function()
    local net = nn.Linear(1, 1, { bias = false })
    net.weight:detach():fill_(0)
    local optimizer = optim.container(net, "SGD", { lr = 1, momentum = 0.5, nonfinite = "skip" })
    give_gradients(net)
    optimizer:step()
    net.weight.grad = optlua.tensor { { 0 / 0 } }
    optimizer:step()
    assert.is_nil(net.weight.grad)
    assert.equal(-1, net.weight:item())
    assert.same({ 1, 1 }, { optimizer:stats().updates, optimizer:stats().skipped })
    give_gradients(net)
    optimizer:step()
    assert.equal(-2.5, net.weight:item())
  end)

  it("track_updates measures how far updates go", function()
    local net = nn.Linear(1, 1, { bias = false })
    net.weight:detach():fill_(2)
    local optimizer = optim.container(net, "SGD", { lr = 0.5, track_updates = true })
    assert.is_nil(optimizer:stats().groups.default.update_ratio)
    give_gradients(net)
    optimizer:step()
    local stats = optimizer:stats().groups.default
    assert.equal(0.25, stats.update_ratio)
    assert.same({ 1, 0.5, 1 }, { stats.grad_norm, stats.lr, stats.updates })
  end)

  it("are checked", function()
    local net = nn.Linear(1, 1)
    fails("ema: expected a number at least 0 and at most 1, got 2", optim.container, net, "SGD", { ema = 2 })
    fails('nonfinite: expected one of "off", "error", "skip"', optim.container, net, "SGD", { nonfinite = "ignore" })
  end)
end)

describe("a group that is frozen for some updates", function()
  it("sleeps, shows it, and wakes", function()
    local net = nn.Sequential { nn.Linear(1, 1), nn.Linear(1, 1) }
    local optimizer = optim.container(net, { { name = "late", match = "0.*", unfreeze_at = 2 }, { match = "*" } }, { class = "SGD" })
    assert.is_false(net[1].weight.requires_grad)
    assert.matches("0.weight  %(1, 1%)  frozen until update 2", optimizer:plan())
    local before = weights(net)
    for _ = 1, 2 do
      for _, p in net:named_parameters() do
        if p.requires_grad then p.grad = optlua.ones(p.shape) end
      end
      optimizer:step()
    end
    assert.is_true(before["0.weight"]:equal(net[1].weight:detach()))
    assert.is_true(net[1].weight.requires_grad)
    give_gradients(net)
    optimizer:step()
    assert.is_false(before["0.weight"]:equal(net[1].weight:detach()))
    local other = nn.Sequential { nn.Linear(1, 1), nn.Linear(1, 1) }
    local again = optim.container(other, { { name = "late", match = "0.*", unfreeze_at = 2 }, { match = "*" } }, { class = "SGD" })
    again:load_state_dict(optimizer:state_dict())
    assert.is_true(other[1].weight.requires_grad)
  end)
end)

describe("an optimizer shows", function()
  local net = model()
  net[1].bias.requires_grad = false
  local optimizer = optim.container(net, {
    { name = "spared", match = { role = { "bias", "norm" } }, weight_decay = 0 }, { name = "rest", match = function() return true end },
  }, { class = "AdamW", lr = 0.1 })
  optim.lr_scheduler(optimizer, { rest = schedule.linear { to = 0, steps = 10 } })

  it("its plan", function()
    local text = optimizer:plan()
    assert.matches("group spared: AdamW { .*weight_decay = 0 }", text)
    assert.matches("0.bias   ?  ?%(4%)  frozen", text)
    assert.matches("lr = 0.1 %(scheduled, base 0.1%)", text)
    assert.matches("2 groups, 6 parameters, 34 elements, 272 bytes of state", text)
    assert.same({}, (function() -- nothing was made
      local states = {}
      for key, value in pairs(optimizer:state_dict()) do
        if optlua.is_tensor(value) then states[key] = true end
      end
      return states
    end)())
  end)

  it("why a parameter is updated as it is", function()
    local text = optimizer:explain "0.bias"
    assert.matches("0.bias %(4%): group spared, AdamW", text)
    assert.matches("frozen", text)
    assert.matches('group spared: { role = { "bias", "norm" } }: matches, and takes it', text)
    assert.matches("group rest: a function %(.-%): matches, but an earlier group took it", text)
    assert.matches("weight_decay = 0: from the group", text)
    assert.matches("lr = 0.1: from the defaults", text)
    assert.matches("eps = 1e%-08: from the default of AdamW", text)
    fails('explain: unknown parameter "0.bais" %(did you mean "0.bias"%?%)', optimizer.explain, optimizer, "0.bais")
  end)

  it("its curves, in the terminal and as SVG", function()
    local path = os.tmpname()
    local text = optimizer:preview { steps = 20, path = path }
    assert.matches("0.1 |%*", text)
    assert.matches("lr of rest", text)
    local file = assert(io.open(path))
    local svg = file:read "a"
    file:close()
    os.remove(path)
    assert.matches("^<svg xmlns.*<polyline.*</svg>", svg)
    fails("cannot be written", optimizer.preview, optimizer, { path = "/nowhere/at/all.svg" })
    fails("steps: expected", optimizer.preview, optimizer, { steps = 0 })
    assert.matches("no hyperparameter is moved", optim.SGD(net):preview())
  end)
end)

describe("Muon", function()
  it("makes the update orthogonal, and takes matrices only", function()
    local net = nn.Linear(6, 4, { bias = false })
    local before = net.weight:detach():clone()
    local optimizer = optim.Muon(net, { lr = 1, weight_decay = 0, momentum = 0, ns_steps = 20,
      ns_coefficients = { 1.5, -0.5, 0 }, adjust_lr_fn = "none" })
    net.weight.grad = optlua.randn { 4, 6 }
    optimizer:step()
    local change = net.weight:detach() - before
    assert.is_true(change:matmul(change:t()):allclose(optlua.eye(4), { atol = 1e-4 }))
    fails("it has 1 dimensions; 2 expected", optim.Muon, nn.Linear(2, 2))
  end)

  it("is the same for a matrix and its transpose", function()
    local g = optlua.randn { 5, 3 }
    local function change(gradient)
      local p = optlua.zeros(gradient.shape, { requires_grad = true })
      p.grad = gradient:contiguous()
      optim.Muon({ p }, { lr = 1, adjust_lr_fn = "match_rms_adamw" }):step()
      return p:detach()
    end
    assert.is_true(change(g):allclose(change(g:t()):t(), { atol = 1e-5 }))
  end)
end)
